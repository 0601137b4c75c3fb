import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { FULL } from '../support/full.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = <T>(name: string): T => JSON.parse(fs.readFileSync(path.join(ROOT, name), 'utf8')) as T

interface Package {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  overrides: Record<string, string>
  allowScripts: Record<string, boolean>
}
interface Locked {
  version?: string
  resolved?: string
  integrity?: string
  hasInstallScript?: boolean
  link?: boolean
  dev?: boolean
}

/** This project and its own packages. */
const OWN = ['', 'client']
const own = read<Package>('package.json')
const locked = Object.entries(
  read<{ packages: Record<string, Locked> }>('package-lock.json').packages,
).filter(([name, { link }]) => !OWN.includes(name) && link !== true)
const EXACT = /^\d+\.\d+\.\d+$/

describe('the packages that this project brings', () => {
  it('are named by exact versions', () => {
    for (const [name, version] of Object.entries({
      ...own.dependencies,
      ...own.devDependencies,
      ...own.overrides,
    }))
      expect(version, name).toMatch(EXACT)
  })

  it('are all locked by the hash of their content, and none comes from elsewhere than a registry', () => {
    expect(locked.length).toBeGreaterThan(100)
    for (const [name, { resolved, integrity }] of locked) {
      expect(integrity, name).toMatch(/^sha512-/)
      // Without an address, the registry that is set; with one, the public one.
      if (resolved !== undefined) expect(resolved, name).toMatch(/^https:\/\/registry\.npmjs\.org\//)
    }
  })

  it('run no program of theirs when they are installed, but the one that brings Node', () => {
    const scripted = locked
      .filter(([, { hasInstallScript }]) => hasInstallScript)
      .map(([name]) => name.slice(name.lastIndexOf('node_modules/') + 13))
    expect(scripted.filter((name) => own.allowScripts[name] !== false).sort()).toEqual(['node'])
    expect(scripted.every((name) => name in own.allowScripts)).toBe(true)
  })

  it('are listed by npm sbom, and README tells how many go into production', () => {
    const names = locked.flatMap(([place, { version, dev }]) =>
      dev === true ? [] : `${place.slice(place.lastIndexOf('node_modules/') + 13)}@${version}`,
    )
    const readme = fs.readFileSync(path.join(ROOT, 'README.md'), 'utf8')
    expect(readme).toContain(`${new Set(names).size} packages go into production`)
  })
})

// Downloads every package.
describe.runIf(FULL)('npm ci --ignore-scripts', () => {
  it('brings everything but Node itself', () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-packages-'))
    try {
      fs.mkdirSync(path.join(folder, 'client'))
      for (const name of ['package.json', 'package-lock.json', '.npmrc', 'client/package.json'])
        fs.copyFileSync(path.join(ROOT, name), path.join(folder, name))
      const installed = spawnSync('npm', ['ci', '--omit=dev', '--ignore-scripts'], {
        cwd: folder,
        encoding: 'utf8',
      })
      expect(installed.status, installed.stderr).toBe(0)
      const imports = Object.keys(own.dependencies)
        .filter((name) => name !== 'node' && !name.startsWith('@noble/'))
        .map((name) => `await import(${JSON.stringify(name)})`)
      const loaded = spawnSync(
        process.execPath,
        ['--input-type=module', '--eval', `${imports.join('\n')}\nprocess.exit(0)`],
        {
          cwd: folder,
          encoding: 'utf8',
        },
      )
      expect(loaded.status, loaded.stderr).toBe(0)
    } finally {
      fs.rmSync(folder, { recursive: true, force: true })
    }
  }, 600_000)
})
