import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { runProgram, type Finished } from './python.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** A search path on which no package of this project lies before the machine's own programs. */
export const OWN_PATH = (process.env['PATH'] ?? '')
  .split(path.delimiter)
  .filter((folder) => !folder.includes('node_modules'))
  .join(path.delimiter)

/** Builds and packs `client/`. @returns the tarball's path */
export async function packClient(folder: string): Promise<string> {
  await succeed(
    runProgram('npm', ['pack', '--silent', '--pack-destination', folder], {
      cwd: path.join(ROOT, 'client'),
      limitMs: 120_000,
    }),
  )
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
  if (tarball === undefined) throw new Error('npm pack made no tarball')
  return path.join(folder, tarball)
}

/** An empty project outside the repository, with the package installed from its tarball. */
export async function installClient(project: string, tarball: string): Promise<void> {
  mkdirSync(project)
  writeFileSync(
    path.join(project, 'package.json'),
    JSON.stringify({ name: 'empty', type: 'module', private: true }),
  )
  await succeed(
    runProgram('npm', ['install', '--silent', '--prefer-offline', '--ignore-scripts', tarball], {
      cwd: project,
      env: { ...process.env, PATH: OWN_PATH },
      limitMs: 120_000,
    }),
  )
}

/** The output of a program that must end well. */
export async function succeed(running: Promise<Finished>): Promise<string> {
  const { code, output } = await running
  if (code !== 0) throw new Error(`ended with ${code}: ${output}`)
  return output
}
