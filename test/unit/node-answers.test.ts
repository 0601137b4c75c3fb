import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import * as monero from '../../shared/money/coins/monero/monero-answers.ts'
import * as nano from '../../shared/money/coins/nano/nano-answers.ts'
import { MAX_RAW, ZERO_HASH } from '../../shared/money/coins/nano/nano-blocks.ts'
import { isNodeTrouble, NodeRefused, NodeUnreachable } from '../../shared/money/node-errors.ts'

const HASH = 'AB'.repeat(32)
const OTHER_HASH = 'CD'.repeat(32)
const ACCOUNT = 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3'
const MONERO_ADDRESS = '4'.padEnd(95, 'A')
const MAX_U64 = 2n ** 64n - 1n

/** Each field of the answer in turn is missing, or has one of the values; all of these are refused. */
function expectRefused(schema: z.ZodType, answer: object, bad: Record<string, readonly unknown[]>): void {
  expect(schema.safeParse(answer).success).toBe(true)
  for (const [field, values] of Object.entries(bad))
    for (const value of values)
      expect([field, value, schema.safeParse({ ...answer, [field]: value }).success]).toEqual([
        field,
        value,
        false,
      ])
}
const NOT_RAW = ['', '01', '-1', '1.5', '1e3', ' 1', '1 ', 1, String(MAX_RAW + 1n), undefined]
const NOT_HASH = ['', HASH.toLowerCase(), HASH.slice(1), `${HASH}A`, undefined]
const NOT_COUNT = ['', '01', '-1', '1.5', 'x', 1, '1'.padEnd(16, '0'), undefined]

describe('what a Nano node answers', () => {
  const INFO = {
    frontier: HASH,
    balance: String(MAX_RAW),
    block_count: '999999999999999',
    representative: ACCOUNT.replace('nano', 'xrb'),
    confirmed_balance: '0',
    confirmed_height: '0',
    confirmed_frontier: ZERO_HASH,
  }

  it('of an account is its last block and what is confirmed of it, if anything is', () => {
    expect(nano.accountInfo.parse(INFO)).toEqual({
      frontier: HASH,
      height: 999_999_999_999_999,
      balanceRaw: MAX_RAW,
      representative: ACCOUNT,
      confirmedFrontier: undefined,
      confirmedHeight: 0,
      confirmedBalanceRaw: 0n,
    })
    expect(nano.accountInfo.parse({ ...INFO, confirmed_frontier: OTHER_HASH }).confirmedFrontier).toBe(
      OTHER_HASH,
    )
    expectRefused(nano.accountInfo, INFO, {
      frontier: NOT_HASH,
      balance: NOT_RAW,
      block_count: NOT_COUNT,
      representative: ['', ACCOUNT.slice(0, -1), undefined],
      confirmed_balance: NOT_RAW,
      confirmed_height: NOT_COUNT,
      confirmed_frontier: NOT_HASH,
    })
  })

  const STATE = {
    type: 'state',
    account: ACCOUNT,
    previous: ZERO_HASH,
    representative: ACCOUNT,
    balance: '7',
    link: HASH,
    signature: 'EF'.repeat(64),
    work: '0123456789abcdef',
  }
  const BLOCK = {
    block_account: ACCOUNT,
    amount: '7',
    balance: '9',
    height: '2',
    successor: ZERO_HASH,
    confirmed: 'true',
    contents: STATE,
    subtype: 'send',
    receive_hash: OTHER_HASH,
  }
  const blockOf = (more: object) => {
    const answer = { blocks: { [HASH]: { ...BLOCK, ...more } }, blocks_not_found: '' }
    const { blocks } = nano.blocksInfo.parse(answer)
    expect([...blocks.keys()]).toEqual([HASH])
    return [...blocks.values()][0]
  }

  it('of a block is what it says and what became of it', () => {
    expect(blockOf({})).toEqual({
      account: ACCOUNT,
      amountRaw: 7n,
      balanceRaw: 9n,
      height: 2,
      successor: undefined,
      confirmed: true,
      subtype: 'send',
      block: STATE,
      receivedBy: OTHER_HASH,
    })
    expect(blockOf({ successor: HASH, confirmed: 'false', receive_hash: ZERO_HASH })).toMatchObject({
      successor: HASH,
      confirmed: false,
      receivedBy: undefined,
    })
    expectRefused(
      nano.blocksInfo,
      { blocks: '', blocks_not_found: [HASH] },
      {
        blocks: [{ [HASH]: { ...BLOCK, confirmed: 'yes' } }, { x: BLOCK }, [BLOCK], undefined],
        blocks_not_found: [['x'], HASH, undefined],
      },
    )
  })

  it('of a block from before state blocks has no block to read, and no more than its sums', () => {
    for (const type of ['open', 'send', 'receive', 'change']) {
      const old = blockOf({
        contents: { type },
        subtype: undefined,
        amount: undefined,
        receive_hash: undefined,
      })
      expect(old).toMatchObject({ balanceRaw: 9n, height: 2 })
      expect([old?.block, old?.amountRaw, old?.subtype, old?.receivedBy]).toEqual(Array(4).fill(undefined))
    }
    for (const contents of [
      { type: 'epoch' },
      { ...STATE, type: 'utx' },
      { ...STATE, signature: 'EF'.repeat(63) },
      { ...STATE, signature: `${STATE.signature}0` },
      { ...STATE, work: '0123456789ABCDEF' },
      { ...STATE, work: '0123456789abcdef0' },
      { ...STATE, work: '123456789abcdef' },
    ])
      expect(() => blockOf({ contents })).toThrow()
    expect(() => blockOf({ subtype: 'x'.repeat(201) })).toThrow()
    expect(blockOf({ subtype: 'x'.repeat(200) })?.subtype).toHaveLength(200)
  })

  it('for a list or an object without anything in it is empty text', () => {
    expect(nano.receivable.parse({ blocks: '' }).blocks.size).toBe(0)
    expect(nano.receivable.parse({ blocks: { [HASH]: '7' } }).blocks).toEqual(new Map([[HASH, 7n]]))
    expect(nano.accountsReceivable.parse({ blocks: { a: '', b: { [HASH]: '7' } } }).blocks).toEqual(
      new Map([
        ['a', new Map()],
        ['b', new Map([[HASH, 7n]])],
      ]),
    )
    expect(nano.blocksInfo.parse({ blocks: '', blocks_not_found: '' })).toEqual({
      blocks: new Map(),
      blocks_not_found: [],
    })
    expect(nano.receivable.safeParse({ blocks: 'x' }).success).toBe(false)
    expect(nano.accountsFrontiers.parse({})).toEqual({ frontiers: new Map(), errors: new Map() })
    expect(nano.accountsFrontiers.parse({ frontiers: '', errors: '' })).toEqual({
      frontiers: new Map(),
      errors: new Map(),
    })
    expect(nano.accountsFrontiers.parse({ frontiers: { a: HASH }, errors: { b: 'no' } })).toEqual({
      frontiers: new Map([['a', HASH]]),
      errors: new Map([['b', 'no']]),
    })
    for (const errors of [['no'], { b: 1 }, { a: 'no', b: null }, 5, null, 'x'])
      expect(nano.accountsFrontiers.safeParse({ errors }).success).toBe(false)
  })

  it('for work is hex of any length up to 16 characters, and a difficulty all of them', () => {
    const work = (text: unknown) => nano.work.safeParse({ work: text }).data?.work
    expect([work('0123456789ABCDEF'), work('f')]).toEqual(['0123456789abcdef', '000000000000000f'])
    for (const text of ['', 'g', '0'.repeat(17), ' 0', 5])
      expect([text, work(text)]).toEqual([text, undefined])
    const difficulty = { network_minimum: 'fffffff800000000', network_receive_minimum: '0000000000000001' }
    expect(nano.activeDifficulty.parse(difficulty)).toEqual({
      network_minimum: 0xfffffff800000000n,
      network_receive_minimum: 1n,
    })
    const bad = ['', 'FFFFFFF800000000', 'fffffff80000000', 'fffffff8000000000', undefined]
    expectRefused(nano.activeDifficulty, difficulty, { network_minimum: bad, network_receive_minimum: bad })
  })

  it('of itself is its network, its peers in either form, and how far its ledger goes', () => {
    expect(nano.version.parse({ network: 'live' })).toEqual({ network: 'live' })
    expectRefused(nano.version, { network: 'live' }, { network: ['x'.repeat(201), 5, undefined] })
    expect(nano.peers.parse({ peers: { '[::1]:7075': '20' } }).peers.size).toBe(1)
    expect(nano.peers.parse({ peers: ['[::1]:7075', '[::2]:7075'] }).peers.size).toBe(2)
    expect(nano.peers.parse({ peers: '' }).peers.size).toBe(0)
    const count = { count: '9', unchecked: '1', cemented: '8' }
    expect(nano.blockCount.parse(count)).toEqual({ count: 9, unchecked: 1, cemented: 8 })
    expect(nano.blockCount.parse({ ...count, pruned: '2' }).pruned).toBe(2)
    expectRefused(nano.blockCount, count, { count: NOT_COUNT, unchecked: NOT_COUNT, cemented: NOT_COUNT })
    expectRefused(nano.telemetry, { cemented_count: '0' }, { cemented_count: NOT_COUNT })
    expectRefused(nano.process, { hash: HASH }, { hash: NOT_HASH })
    expectRefused(nano.refusal, { error: 'no' }, { error: [5, undefined] })
  })
})

describe('what monero-wallet-rpc answers', () => {
  const TX = HASH.toLowerCase()
  const ROW = {
    txid: TX,
    amount: 5,
    fee: '18446744073709551615',
    height: 7,
    unlock_time: 0,
    double_spend_seen: false,
    subaddr_index: { major: 0, minor: 0xffff_ffff },
    address: MONERO_ADDRESS,
  }
  const NOT_U64 = [-1, 1.5, '', '-1', '1x', 'x1', '1'.repeat(21), String(MAX_U64 + 1n), null, undefined]
  const NOT_HEIGHT = [-1, 0.5, 0x1_0000_0000, '7']
  const NOT_ADDRESS = ['', '4'.padEnd(94, 'A'), '4'.padEnd(107, 'A'), '0'.padEnd(95, 'A'), undefined]
  const NOT_TX = ['', HASH, TX.slice(1), `${TX}a`, undefined]

  it('of a transfer is exact to the last unit, whatever its payer chose', () => {
    expect(monero.transfers.parse({ in: [ROW] })).toEqual({
      in: [{ ...ROW, amount: 5n, fee: MAX_U64, unlock_time: 0n, confirmations: 0, destinations: [] }],
      pool: [],
      out: [],
      pending: [],
      failed: [],
    })
    const full = {
      ...ROW,
      unlock_time: String(MAX_U64),
      confirmations: 3,
      destinations: [{ address: MONERO_ADDRESS, amount: '5' }],
    }
    for (const type of ['in', 'pool', 'block', 'out', 'pending', 'failed'])
      expect(monero.transferByTxid.parse({ transfers: [{ ...full, type }] }).transfers).toEqual([
        {
          ...full,
          type,
          amount: 5n,
          fee: MAX_U64,
          unlock_time: MAX_U64,
          destinations: [{ address: MONERO_ADDRESS, amount: 5n }],
        },
      ])
    expect(monero.transferByTxid.safeParse({ transfers: [{ ...full, type: 'lost' }] }).success).toBe(false)
    for (const list of ['in', 'pool', 'out', 'pending', 'failed'])
      expect(monero.transfers.safeParse({ [list]: [{ ...ROW, txid: 'x' }] }).success).toBe(false)
  })

  it('is refused in any field that is missing or out of range', () => {
    const row = monero.transferByTxid.shape.transfers.element
    expectRefused(
      row,
      { ...ROW, type: 'in' },
      {
        txid: NOT_TX,
        amount: NOT_U64,
        fee: NOT_U64,
        height: [...NOT_HEIGHT, undefined],
        confirmations: NOT_HEIGHT,
        unlock_time: NOT_U64,
        double_spend_seen: ['false', undefined],
        subaddr_index: [{ major: -1, minor: 0 }, { major: 0, minor: 0x1_0000_0000 }, { major: 0 }, undefined],
        address: NOT_ADDRESS,
        destinations: [[{ address: MONERO_ADDRESS }], [{ amount: 5 }]],
      },
    )
  })

  it('of a transaction that it prepared is its hash, its cost and its inputs', () => {
    const answer = {
      tx_hash: TX,
      tx_metadata: '00ff',
      fee: 1,
      amount: 2,
      spent_key_images: { key_images: [TX] },
    }
    expect(monero.prepared.parse(answer)).toEqual({
      txHash: TX,
      txMetadata: '00ff',
      feePico: 1n,
      amountPico: 2n,
      keyImages: [TX],
    })
    expectRefused(monero.prepared, answer, {
      tx_hash: NOT_TX,
      tx_metadata: ['', '0', '00f', 'zz', '00 ', undefined],
      fee: NOT_U64,
      amount: NOT_U64,
      spent_key_images: [{ key_images: [] }, { key_images: ['x'] }, {}, undefined],
    })
  })

  it('of itself is its height, its addresses and what it holds', () => {
    expectRefused(monero.refresh, { blocks_fetched: 0 }, { blocks_fetched: [-1, 0.5, '0', undefined] })
    expectRefused(monero.height, { height: 0xffff_ffff }, { height: [...NOT_HEIGHT, undefined] })
    expectRefused(monero.address, { address: '8'.padEnd(106, 'z') }, { address: NOT_ADDRESS })
    expectRefused(
      monero.addresses,
      { addresses: [{ address: MONERO_ADDRESS, address_index: 0 }] },
      { addresses: [[{ address: MONERO_ADDRESS }], [{ address_index: 0 }], undefined] },
    )
    expectRefused(
      monero.createAddress,
      { addresses: [MONERO_ADDRESS], address_indices: [0] },
      { addresses: [['x'], undefined], address_indices: [[-1], undefined] },
    )
    expectRefused(monero.relay, { tx_hash: TX }, { tx_hash: NOT_TX })
    const balance = { balance: 5, unlocked_balance: 0, blocks_to_unlock: 0 }
    expect(monero.balance.parse(balance)).toEqual({
      balance: 5n,
      unlocked_balance: 0n,
      blocks_to_unlock: 0n,
    })
    expectRefused(monero.balance, balance, {
      balance: NOT_U64,
      unlocked_balance: NOT_U64,
      blocks_to_unlock: NOT_U64,
    })
    expect(monero.nothing.parse({})).toEqual({})
    expect(monero.ownOutputs.parse({})).toEqual({ transfers: [] })
    const outputs = [
      { key_image: '', spent: false },
      { key_image: TX, spent: true },
    ]
    expect(monero.ownOutputs.parse({ transfers: outputs }).transfers).toEqual(outputs)
    expectRefused(
      monero.ownOutputs,
      { transfers: outputs },
      { transfers: [[{ key_image: 'x', spent: true }], [{ key_image: TX }], 'x'] },
    )
  })
})

describe('a node that says no', () => {
  it('is quoted in one line of at most 200 characters', () => {
    const refused = new NodeRefused('process at http://127.0.0.1:7076', `a\r\n\u0007b${'x'.repeat(300)}`, -2)
    expect([refused.reason, refused.code]).toEqual([`a b${'x'.repeat(197)}`, -2])
    expect(refused.message).toBe(`process at http://127.0.0.1:7076 was refused: ${refused.reason}`)
    expect(new NodeRefused('x', 'no').code).toBeUndefined()
  })

  it('is told from one that gives no usable answer, and both from a fault of ours', () => {
    const [refused, away] = [new NodeRefused('x', 'no'), new NodeUnreachable('x')]
    expect([refused.name, away.name]).toEqual(['NodeRefused', 'NodeUnreachable'])
    expect([refused, away, new TypeError('x'), undefined].map(isNodeTrouble)).toEqual([
      true,
      true,
      false,
      false,
    ])
  })
})
