import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createPrivateFile, writePrivateFile } from '../../client/private-file.ts'
import { ed25519PublicKey, keyFromHex, keyToHex } from '../../shared/crypto/ed25519.ts'
import { replaceFile } from '../../shared/platform/durable-file.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { recordCalls, statesAfter, type DiskState } from '../support/disk-log.ts'

const [OLD, NEW] = ['what was there before', '["what comes after it, and is longer"]\n']
let folder: string
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'power-cuts-'))
})
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

/**
 * Runs a program on a real folder with these files, and gives all states after a power cut at any of its
 * calls.
 */
function cutEverywhere(files: Record<string, string>, run: () => void) {
  const before: DiskState = new Map(
    Object.entries(files).map(([name, text]) => [path.join(folder, name), text]),
  )
  for (const [file, text] of before) fs.writeFileSync(file, text, { mode: 0o600 })
  const calls = recordCalls(run)
  const during = calls.flatMap((_, count) => statesAfter(before, calls, count))
  return { during, after: statesAfter(before, calls, calls.length), calls }
}
const foundIn = (states: readonly DiskState[], name: string) =>
  [...new Set(states.map((state) => state.get(path.join(folder, name))))].toSorted()

describe('after a power cut at any moment', () => {
  it.each([
    ['a file of the service', (file: string) => replaceFile(file, NEW)],
    ["an agent's file", (file: string) => writePrivateFile(file, JSON.parse(NEW) as object)],
  ])('%s that is replaced is the old one or the new one, and the new one once that is done', (_, write) => {
    const { during, after } = cutEverywhere({ it: OLD, 'it.new': 'left over from another death' }, () =>
      write(path.join(folder, 'it')),
    )
    expect(during.length).toBeGreaterThan(15)
    expect(foundIn(during, 'it')).toEqual([OLD, NEW].toSorted())
    expect(foundIn(after, 'it')).toEqual([NEW])
  })

  it.each([
    ['a file of the service', (file: string) => replaceFile(file, NEW)],
    ["an agent's file", (file: string) => createPrivateFile(file, JSON.parse(NEW) as object)],
  ])('%s that is new is whole or not there, and there once that is done', (_, write) => {
    const { during, after } = cutEverywhere({}, () => write(path.join(folder, 'it')))
    expect(foundIn(during, 'it')).toEqual([NEW, undefined])
    expect(foundIn(after, 'it')).toEqual([NEW])
  })

  it('a new seal key is whole or not there, and never there without the memory that belongs to it', () => {
    const { during, after } = cutEverywhere({}, () => ensureSealKey(path.join(folder, 'key')))
    for (const state of [...during, ...after]) {
      const key = state.get(path.join(folder, 'key'))
      if (key === undefined) continue
      const memory = JSON.parse(state.get(path.join(folder, 'seal-memory')) ?? '') as { pubkey: string }
      expect(memory.pubkey).toBe(keyToHex(ed25519PublicKey(keyFromHex(key.trim()))))
    }
    expect(foundIn(after, 'key')).toHaveLength(1)
    expect(foundIn(during, 'key')).toHaveLength(2)
  })

  it.each([
    ['without a sync of its data', 'torn'],
    ['without a sync of its folder', 'not durable'],
    ['by writing into it', 'torn'],
  ])('a file that is replaced %s is found %s by this test', (how, what) => {
    const file = path.join(folder, 'it')
    const { during, after } = cutEverywhere({ it: OLD }, () => {
      const handle = fs.openSync(how === 'by writing into it' ? file : `${file}.new`, 'w')
      fs.writeFileSync(handle, NEW)
      if (how !== 'without a sync of its data') fs.fsyncSync(handle)
      fs.closeSync(handle)
      if (how !== 'by writing into it') fs.renameSync(`${file}.new`, file)
    })
    if (what === 'torn') expect(foundIn([...during, ...after], 'it').length).toBeGreaterThan(2)
    else expect(foundIn(after, 'it')).toEqual([OLD, NEW].toSorted())
  })
})
