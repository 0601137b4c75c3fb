import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { PROBED_ENV } from '../harness/bench/processes.ts'
import { checkLevels, compareLevels, LEAST_SAMPLES } from '../harness/auditor/levels.ts'

const SAMPLES = 8 * LEAST_SAMPLES
/** What torture finds in a value that is `at(place)` in each sample, with `place` from 0 to 1. */
const findingsOf = (name: string, at: (place: number) => number, count = SAMPLES): string[] => {
  const samples = Array.from({ length: count }, (_, index) => ({ [name]: at(index / count) }))
  return checkLevels(compareLevels(samples)).map(({ what }) => what)
}
/** From 0 to 1 again and again, as garbage heaps up between two collections. */
const sawtooth = (place: number): number => (place * 40) % 1

describe('the levels of a long run', () => {
  it('grow if memory is never given back, however it goes up and down meanwhile', () => {
    expect(findingsOf('memory of ledger-0', (place) => 150 + 200 * place + 100 * sawtooth(place))).toEqual([
      expect.stringMatching(/^memory of ledger-0: .*: it grows$/),
    ])
  })

  it('do not grow if garbage is only collected more seldom', () => {
    const lazy = (place: number): number => 150 + (place < 0.5 ? 30 : 200) * sawtooth(place)
    expect(findingsOf('memory of ledger-0', lazy)).toEqual([])
  })

  it('grow if jobs, handles, keys or the disk for an entry do, and not by one peak', () => {
    for (const name of ['jobs of sweep', 'handles of api-0', 'keys of Redis', 'disk of MongoDB an entry']) {
      expect(
        findingsOf(name, (place) => 9_000 * (1 + place)),
        name,
      ).toHaveLength(1)
      expect(
        findingsOf(name, (place) => (place > 0.9 ? 99_000 : 9_000)),
        name,
      ).toEqual([])
    }
  })

  it('say nothing after few samples', () => {
    expect(findingsOf('jobs of sweep', (place) => 1_000 * (1 + place), LEAST_SAMPLES - 1)).toEqual([])
  })
})

/** Drops an object and keeps another one, is told to collect garbage, and says which of them are still there. */
const LITTER = `
let [dropped, kept] = [{}, {}]
const found = [new WeakRef(dropped), new WeakRef(kept)]
dropped = undefined
setTimeout(() => process.emit('SIGUSR2'), 200)
setTimeout(() => console.log(found.map((ref) => ref.deref() !== undefined), kept), 1_000)
`
const litter = async (env: Readonly<Record<string, string>>): Promise<string> => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--eval', LITTER], {
    env: { ...process.env, ...env },
  })
  return stdout.trim().split('\n').at(-1) ?? ''
}

describe('a process whose memory is measured', () => {
  it('holds no garbage for long, and all else', async () => {
    const [usual, measured] = await Promise.all([litter({}), litter(PROBED_ENV)])
    expect([usual, measured]).toEqual(['[ true, true ] {}', '[ false, true ] {}'])
  })
})
