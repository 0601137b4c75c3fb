import { describe, expect, it } from 'vitest'
import { sureUntil } from '../../shared/money/coins/monero/monero-chain.ts'

describe('what a Monero wallet shows is sure', () => {
  it.each<[string, { height?: number; height_at?: number } | undefined, number, number | undefined]>([
    [
      'up to when the chain was last read, if it has grown since',
      { height: 3_000_000, height_at: 500 },
      3_000_001,
      500,
    ],
    ['for no time while the chain stands still', { height: 3_000_000, height_at: 500 }, 3_000_000, 0],
    [
      'for no time after a reorganisation, until it is longer than before',
      { height: 3_000_000, height_at: 500 },
      2_999_999,
      0,
    ],
    ['for no time before it was read twice', undefined, 3_000_000, 0],
    [
      'up to the start of the round in a private chain, which may stand still',
      { height: 100, height_at: 500 },
      100,
      undefined,
    ],
  ])('%s', (_, before, height, until) => {
    expect(sureUntil(before, height)).toBe(until)
  })
})
