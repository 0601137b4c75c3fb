import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const MAX_BYTES = 2 ** 28

/**
 * Puts the code of another commit into a folder: the one that OTHER_VERSION names, else the one before this.
 *
 * @returns undefined if this is no checkout with that commit
 */
export function checkOutOther(folder: string): string | undefined {
  const commit = process.env['OTHER_VERSION'] ?? 'HEAD~1'
  const isThere = spawnSync('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: ROOT }).status === 0
  if (!isThere || !fs.existsSync(path.join(ROOT, '.git'))) return undefined
  const place = path.join(folder, 'other-version')
  fs.mkdirSync(place)
  const archive = execFileSync('git', ['archive', commit], { cwd: ROOT, maxBuffer: MAX_BYTES })
  execFileSync('tar', ['-x', '-C', place], { input: archive })
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(place, 'node_modules'))
  return place
}
