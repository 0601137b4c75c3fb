import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { cacheDir } from '../../scripts/prepare.mjs'

/**
 * Two computations of Monero's programs that no test is about, in a fraction of the time:
 *
 * - monerod hashes each block that it is given by RandomX, 50 ms and more of a processor. On a chain of
 *   difficulty 1 any hash will do; the library is Debian's librandomx, without which this has no effect. With
 *   FAULTS=1 the blocks are hashed as they are elsewhere.
 * - monero-wallet-rpc 0.18 makes an RSA key of 4096 bits at each start, for a certificate that no setting
 *   spares it and that nobody asks for: two thirds of the work of a start. 2048 bits are the fewest that
 *   OpenSSL takes.
 */
const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int RSA_generate_key_ex(void *rsa, int bits, void *exponent, void *callback) {
  int (*generate)(void *, int, void *, void *) = dlsym(RTLD_NEXT, "RSA_generate_key_ex");
  return generate(rsa, bits < 2048 ? bits : 2048, exponent, callback);
}

#ifndef WITH_RANDOMX
/* Nobody looks into what these give. */
void *randomx_alloc_cache(int flags) { return calloc(1, 64); }
void randomx_release_cache(void *cache) { free(cache); }
void randomx_init_cache(void *cache, const void *key, size_t size) {}
void *randomx_alloc_dataset(int flags) { return NULL; }
void randomx_release_dataset(void *dataset) {}
void *randomx_create_vm(int flags, void *cache, void *dataset) { return calloc(1, 64); }
void randomx_vm_set_cache(void *vm, void *cache) {}
void randomx_vm_set_dataset(void *vm, void *dataset) {}
void randomx_destroy_vm(void *vm) { free(vm); }

/* FNV-1a, from four beginnings. */
void randomx_calculate_hash(void *vm, const void *input, size_t size, void *output) {
  uint64_t hash[4] = {1, 2, 3, 4};
  for (size_t byte = 0; byte < size; byte++)
    for (int part = 0; part < 4; part++)
      hash[part] = (hash[part] ^ ((const unsigned char *)input)[byte]) * 1099511628211u;
  memcpy(output, hash, sizeof hash);
}
#endif
`

/** Makes a program take these shortcuts: nothing on a machine without a C compiler. */
export function withShortcuts(): { LD_PRELOAD?: string } {
  const isFull = process.env['FAULTS'] === '1'
  const name = isFull ? 'monero-shortcuts-randomx.so' : 'monero-shortcuts.so'
  const library = path.join(cacheDir(process.env), name)
  if (!fs.existsSync(library)) {
    if (process.platform !== 'linux') return {}
    fs.mkdirSync(path.dirname(library), { recursive: true })
    const fresh = `${library}.${randomBytes(6).toString('hex')}`
    const defined = isFull ? ['-DWITH_RANDOMX'] : []
    const args = ['-shared', '-fPIC', '-O1', ...defined, '-o', fresh, '-x', 'c', '-', '-ldl']
    if (spawnSync('cc', args, { input: SOURCE, timeout: 60_000 }).status !== 0) return {}
    // By rename, so that nobody loads half of it.
    fs.renameSync(fresh, library)
  }
  return { LD_PRELOAD: library }
}
