import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { cacheDir } from '../../scripts/prepare.mjs'

/**
 * monero-wallet-rpc 0.18 makes an RSA key of 4096 bits at each start, for a certificate that no setting
 * spares it and that nobody asks for here: two thirds of the work of a start. 2048 bits are the fewest that
 * OpenSSL takes.
 */
const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>

int RSA_generate_key_ex(void *rsa, int bits, void *exponent, void *callback) {
  int (*generate)(void *, int, void *, void *) = dlsym(RTLD_NEXT, "RSA_generate_key_ex");
  return generate(rsa, bits < 2048 ? bits : 2048, exponent, callback);
}
`

/** What makes a program's RSA keys small: nothing on a machine without a C compiler. */
export function withSmallKeys(): { LD_PRELOAD?: string } {
  const library = path.join(cacheDir(process.env), 'small-keys.so')
  if (!fs.existsSync(library)) {
    if (process.platform !== 'linux') return {}
    fs.mkdirSync(path.dirname(library), { recursive: true })
    const fresh = `${library}.${randomBytes(6).toString('hex')}`
    const args = ['-shared', '-fPIC', '-o', fresh, '-x', 'c', '-', '-ldl']
    if (spawnSync('cc', args, { input: SOURCE, timeout: 60_000 }).status !== 0) return {}
    // By rename, so that nobody loads half of it.
    fs.renameSync(fresh, library)
  }
  return { LD_PRELOAD: library }
}
