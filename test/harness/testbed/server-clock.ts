import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { cacheDir } from '../../../scripts/prepare.mjs'

/** The clock of a server that isn't ours, which libfaketime shifts. */
export interface ServerClock {
  /** The program, started with this clock. */
  readonly binary: string
  /** By how many seconds it is wrong from now on; 0 puts it right. */
  shift(seconds: number): void
}

const STARTS_WITHIN_MS = 10_000

const LIBRARY = 'faketime/libfaketimeMT.so.1'

/**
 * Makes a start script for a server in a folder, so that the server's clock can be set.
 *
 * @param keepsMonotonic whether the monotonic clock stays, as with a real one; mongod waits by both, and with
 *   one of them alone shifted takes ten times as long for all and doesn't stop
 * @returns undefined if libfaketime (Debian's package `faketime`) is missing, or if the program hangs with it, as
 *   those with jemalloc do, such as Debian's Redis
 */
export function makeServerClock(
  folder: string,
  name: string,
  binary: string,
  keepsMonotonic: boolean,
): ServerClock | undefined {
  const library = findLibrary()
  if (library === undefined) return undefined
  const clockFile = path.join(folder, `${name}.faketime`)
  const script = path.join(folder, `${name}-with-clock`)
  const shift = (seconds: number): void => {
    fs.writeFileSync(`${clockFile}.new`, `${seconds < 0 ? '' : '+'}${seconds.toFixed(3)}\n`)
    fs.renameSync(`${clockFile}.new`, clockFile) // it is read at each look at the clock
  }
  shift(0)
  const settings = [
    `LD_PRELOAD=${quote(library)}`,
    `FAKETIME_TIMESTAMP_FILE=${quote(clockFile)}`,
    'FAKETIME_NO_CACHE=1',
    ...(keepsMonotonic ? ['FAKETIME_DONT_FAKE_MONOTONIC=1'] : []),
  ]
  fs.writeFileSync(script, `#!/bin/sh\n${settings.join(' ')} exec ${quote(binary)} "$@"\n`, { mode: 0o700 })
  const { status } = spawnSync(script, ['--version'], { stdio: 'ignore', timeout: STARTS_WITHIN_MS })
  return status === 0 ? { binary: script, shift } : undefined
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The library where Debian puts it, else where test/support/prepare.mjs unpacks it. */
function findLibrary(): string | undefined {
  for (const root of ['/', path.join(cacheDir(process.env), 'debian-faketime')]) {
    const libraries = path.join(root, 'usr/lib')
    if (!fs.existsSync(libraries)) continue
    for (const machine of fs.readdirSync(libraries))
      if (fs.existsSync(path.join(libraries, machine, LIBRARY))) return path.join(libraries, machine, LIBRARY)
  }
  return undefined
}
