import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { NO_PAYLOAD_HASH, nextSealAt } from '../../shared/ledger/seal.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { openSealMemory, type Remembered } from '../../shared/ledger/seal-memory.ts'

const KEY = 'aa'.repeat(32)
const remember = (seq: number): Remembered => ({
  seq,
  payload_hash: String(seq).padStart(64, '0'),
  pubkey: KEY,
})

describe('the files beside the key', () => {
  let folder: string
  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-memory-'))
  })
  afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

  it('hold what was written, for one holder at a time', async () => {
    const file = path.join(folder, 'memory')
    const memory = openSealMemory(file)
    expect(memory?.read()).toBeUndefined()
    await memory?.write(remember(1))
    await memory?.write(remember(2))
    expect(memory?.read()).toEqual(remember(2))
    expect(openSealMemory(file)).toBeUndefined()
    memory?.close()
    const again = openSealMemory(file)
    expect(again?.read()).toEqual(remember(2))
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
    fs.writeFileSync(file, '{"seq":2}')
    expect(() => again?.read()).toThrow('does not hold what was written there')
    again?.close()
  })

  it('make a memory anew if a death left one without its key, and leave one that has signed', () => {
    const [key, memory] = [path.join(folder, 'key'), path.join(folder, 'seal-memory')]
    fs.writeFileSync(memory, JSON.stringify(remember(0)), { mode: 0o600 })
    ensureSealKey(key)
    expect((JSON.parse(fs.readFileSync(memory, 'utf8')) as Remembered).pubkey).not.toBe(KEY)
    fs.rmSync(key)
    fs.writeFileSync(memory, JSON.stringify(remember(4)), { mode: 0o600 })
    ensureSealKey(key)
    expect(JSON.parse(fs.readFileSync(memory, 'utf8'))).toEqual(remember(4))
  })

  it('make a key once, for its owner alone', () => {
    const file = path.join(folder, 'key')
    expect(readSealKey(file)).toBeUndefined()
    ensureSealKey(file)
    const key = readSealKey(file)
    expect(key).toHaveLength(32)
    ensureSealKey(file)
    expect(readSealKey(file)).toEqual(key)
    expect(fs.readdirSync(folder)).toEqual(['key', 'seal-memory'])
    expect(JSON.parse(fs.readFileSync(path.join(folder, 'seal-memory'), 'utf8'))).toMatchObject({
      seq: 0,
      payload_hash: NO_PAYLOAD_HASH,
    })
    expect(fs.statSync(path.join(folder, 'seal-memory')).mode & 0o777).toBe(0o600)
    for (const mode of [0o640, 0o604, 0o620]) {
      fs.chmodSync(file, mode)
      expect(() => readSealKey(file)).toThrow(`mode ${mode.toString(8)}`)
    }
    fs.chmodSync(file, 0o400)
    expect(readSealKey(file)).toEqual(key)
  })

  it('hold no other key than 64 hex characters, and a wrong one is not repeated', () => {
    const file = path.join(folder, 'key')
    fs.writeFileSync(file, 'secret words', { mode: 0o600 })
    expect(() => readSealKey(file)).toThrow(/does not hold a key: expected 64 lower-case hex characters/)
    expect(() => readSealKey(file)).not.toThrow(/secret words/)
  })
})

describe('the next seal is due', () => {
  it.each([
    ['an interval after the last', 1_000, 1_100, 1_200, 1_600],
    ['now, where that has passed', 1_000, 1_100, 1_700, 1_700],
    ['an interval after the first entry, where there is no seal', undefined, 1_100, 1_200, 1_700],
    ['an interval from now, where there is nothing at all', undefined, undefined, 1_200, 1_800],
    [
      'an interval after the first waiting entry, where the clock was set back behind the last seal',
      5_000,
      1_100,
      1_200,
      1_700,
    ],
    ['now, where it was set back behind the entry too', 5_000, 4_000, 1_200, 1_200],
  ])('%s', (_, lastAt, waitingAt, now, due) => {
    expect(nextSealAt(lastAt, waitingAt, 600, now)).toBe(due)
  })
})
