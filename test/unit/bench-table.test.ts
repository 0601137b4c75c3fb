import { describe, expect, it } from 'vitest'
import type { Figure } from '../../scripts/bench/figure.ts'
import { replaceRows } from '../../scripts/bench/table.ts'

const figure = (name: string, value: number): Figure => ({
  ...{ name, value, unit: 'things/s', reference: 'by hand', reference_value: 100, ratio: value / 100 },
  ...{ goal: 2, better: 'higher' },
})
const TABLE = [
  'Measured here.',
  '',
  '| bench | figure |',
  '|---|---|',
  '| `api` | one |',
  '| `api` | two |',
  '| `seal` | three |',
].join('\n')

describe('the table of the benchmarks', () => {
  it('takes the rows of one benchmark measured anew, and keeps the others', () => {
    const rows = replaceRows(TABLE, new Map([['api', [figure('api: new', 150)]]])).split('\n')
    expect(rows.slice(0, 4)).toEqual(TABLE.split('\n').slice(0, 4))
    expect(rows.slice(4)).toEqual([
      '| `api` | new | 150 things/s | 100: by hand | 1.50 | ≥ 2, **missed** |',
      '| `seal` | three |',
    ])
  })

  it('takes the rows of a benchmark that it does not have at its end', () => {
    const lines = replaceRows(TABLE, new Map([['watch', [figure('watch: new', 1)]]])).split('\n')
    expect(lines.slice(0, -1)).toEqual(TABLE.split('\n'))
    expect(lines.at(-1)).toContain('| `watch` | new |')
  })
})
