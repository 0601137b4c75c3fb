import fs from 'node:fs'
import { describe, expect, it } from 'vitest'

interface Locked {
  version?: string
  resolved?: string
  integrity?: string
  hasInstallScript?: boolean
  link?: boolean
}

const lock = JSON.parse(fs.readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Locked> }
const manifest = JSON.parse(fs.readFileSync('package.json', 'utf8')) as {
  allowScripts: Record<string, boolean>
}
const locked = Object.entries(lock.packages).filter(
  ([place, { link }]) => place.startsWith('node_modules/') && link !== true,
)

describe('the packages that package-lock.json names', () => {
  it('run no program at their installation but the two that are known, of which one is allowed', () => {
    const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript === true)
    expect(scripted.map(([place]) => place.slice('node_modules/'.length))).toEqual([
      'msgpackr-extract',
      'node',
    ])
    expect(manifest.allowScripts).toEqual({ node: true, 'msgpackr-extract': false })
  })

  it('each have a SHA-512, and come from no address of its own', () => {
    expect(locked.length).toBeGreaterThan(200)
    const unpinned = locked.filter(([, { integrity }]) => integrity?.startsWith('sha512-') !== true)
    expect(unpinned.map(([place]) => place)).toEqual([])
    expect(locked.filter(([, { resolved }]) => resolved !== undefined)).toEqual([])
  })
})
