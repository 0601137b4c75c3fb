// Runs after `npm ci`: the package `node` leaves the headers and manuals of its platform's package behind,
// 70 MB that nothing here reads. Plain JavaScript for whatever Node the machine has.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** Removes them, unless Node's program lies there and nowhere else. */
export function trimNode(root) {
  const folder = path.join(root, 'node_modules', 'node')
  const program = path.join('bin', process.platform === 'win32' ? 'node.exe' : 'node')
  if (!fs.existsSync(path.join(folder, program))) return
  const inner = path.join(folder, 'node_modules')
  if (!fs.lstatSync(path.join(folder, program)).isSymbolicLink())
    fs.rmSync(inner, { recursive: true, force: true })
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  trimNode(fileURLToPath(new URL('..', import.meta.url)))
