import fc from 'fast-check'
import { Writable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createLog } from '../../shared/platform/log.ts'
import type { NanoBlock, UnsignedNanoBlock } from '../../shared/money/coins/nano/nano-blocks.ts'
import {
  buildReceive,
  buildSend,
  LIVE_WORK_THRESHOLDS,
  MAX_RAW,
  workRootOf,
  workValue,
} from '../../shared/money/coins/nano/nano-blocks.ts'
import { createNanoKeys } from '../../shared/money/coins/nano/nano-keys.ts'
import type { NanoRpc } from '../../shared/money/coins/nano/nano-rpc.ts'
import { createNanoRpc, RECEIVABLE_BATCH } from '../../shared/money/coins/nano/nano-rpc.ts'
import { NodeRefused, NodeUnreachable } from '../../shared/money/node-errors.ts'
import { startBrokenPeer } from '../support/broken-peer.ts'
import { encodeAddress } from '../../devnet/nano-node/encoding.ts'
import type { NanoNode, NanoNodeOptions } from '../../devnet/nano-node/nano-node.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'
import { buildChange } from '../support/nano-change.ts'
import { FULL } from '../support/full.ts'

const xno = 10n ** 30n
const dust = 10n ** 24n
const quiet = createLog('test', 'silent')
const keys = createNanoKeys(`${'0'.repeat(62)}2A`)
const [alice, bob] = [keys.deriveAccount(1).address, keys.deriveAccount(2).address]

let node: NanoNode
let rpc: NanoRpc
const closers: (() => Promise<void>)[] = []

async function start(options: NanoNodeOptions = {}): Promise<void> {
  node = await startNanoNode(options)
  rpc = createNanoRpc({ url: node.rpcUrl, log: quiet, timeoutMs: 20_000 })
}

beforeEach(() => start())

afterEach(async () => {
  await node.close()
  for (const close of closers.splice(0)) await close()
})

async function signed(
  index: number,
  block: UnsignedNanoBlock,
  kind: 'send' | 'receive',
): Promise<NanoBlock & { hash: string }> {
  const work = await rpc.generateWork(workRootOf(block), (await rpc.workThresholds())[kind])
  return { ...block, ...keys.signBlock(index, block), work }
}

/** Alice's account with one block; both that and the send to it are confirmed. Returns the block's hash. */
async function openAlice(amountRaw: bigint): Promise<string> {
  const hash = node.fund(alice, amountRaw, { confirmed: true })
  const state = { account: alice, frontier: undefined, balanceRaw: 0n, representative: node.genesis.address }
  const block = await signed(1, buildReceive(state, { hash, amountRaw }), 'receive')
  node.confirm(await rpc.process(block, 'open'))
  return block.hash
}

async function aliceSends(amountRaw: bigint): Promise<NanoBlock & { hash: string }> {
  const info = await rpc.accountInfo(alice)
  if (info === undefined) throw new Error('alice has no account')
  const state = {
    account: alice,
    frontier: info.frontier,
    balanceRaw: info.balanceRaw,
    representative: info.representative,
  }
  return signed(1, buildSend(state, { destination: bob, amountRaw }), 'send')
}

async function errorOf(call: Promise<unknown>): Promise<Error> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (!(outcome instanceof Error)) throw new Error('the call did not fail')
  return outcome
}

function numberedAddress(index: number): string {
  return encodeAddress(index.toString(16).toUpperCase().padStart(64, '0'))
}

describe('receivables', () => {
  it('are the confirmed sends of at least the threshold, largest first; accounts without any are left out', async () => {
    const small = node.fund(alice, dust, { confirmed: true })
    const large = node.fund(alice, xno, { confirmed: true })
    node.fund(alice, dust - 1n, { confirmed: true })
    node.fund(alice, 7n * xno)
    expect(await rpc.receivable([alice, bob], dust)).toEqual(
      new Map([
        [
          alice,
          [
            { hash: large, amountRaw: xno },
            { hash: small, amountRaw: dust },
          ],
        ],
      ]),
    )
    expect(await rpc.receivable([bob], dust)).toEqual(new Map())
    expect(await rpc.receivable([], dust)).toEqual(new Map())
  })

  it('of an account named many times are asked for once', async () => {
    const hash = node.fund(alice, xno, { confirmed: true })
    let asked: unknown
    node.lie(({ requestText }) => {
      asked = (JSON.parse(requestText) as { accounts?: unknown }).accounts
      return undefined
    })
    expect(await rpc.receivable([alice, bob, ...Array<string>(RECEIVABLE_BATCH).fill(alice)], dust)).toEqual(
      new Map([[alice, [{ hash, amountRaw: xno }]]]),
    )
    expect(asked).toEqual([alice, bob])
    expect(node.calls()).toBe(1)
  })

  it('of thousands of accounts come in batches, each account asked about once', async () => {
    const addresses = Array.from({ length: 2 * RECEIVABLE_BATCH + 500 }, (_, index) =>
      numberedAddress(index + 1),
    )
    const hashes = node.fundMany(
      addresses.map((address, index) => ({ address, amountRaw: dust + BigInt(index) })),
    )
    const found = await rpc.receivable(addresses, dust)
    expect(found.size).toBe(addresses.length)
    for (const [index, address] of addresses.entries()) {
      expect(found.get(address)).toEqual([{ hash: hashes[index], amountRaw: dust + BigInt(index) }])
    }
    expect(node.calls('accounts_receivable')).toBe(3)
    expect(node.calls('receivable')).toBe(0)
  })

  it.each([15, 16, 17, 999, 1_000, 2_345])(
    'of one account are all found where there are %i',
    async (count) => {
      const amounts = Array.from({ length: count }, (_, index) => dust + BigInt((index * 7_919) % count))
      const hashes = node.fundMany([
        ...amounts.map((amountRaw) => ({ address: alice, amountRaw })),
        { address: bob, amountRaw: xno },
        { address: alice, amountRaw: dust - 1n },
      ])
      const found = await rpc.receivable([bob, alice], dust)
      expect(found.get(bob)).toEqual([{ hash: hashes[count], amountRaw: xno }])
      const ofAlice = found.get(alice) ?? []
      expect(new Set(ofAlice.map(({ hash }) => hash))).toEqual(new Set(hashes.slice(0, count)))
      expect(ofAlice.map(({ amountRaw }) => amountRaw)).toEqual(
        amounts.toSorted((left, right) => (left === right ? 0 : left > right ? -1 : 1)),
      )
    },
  )

  it('never hide a payment behind dust that somebody sends to the same account', async () => {
    const payments = Array.from({ length: 3_000 }, (_, index) => ({
      address: alice,
      amountRaw: dust + BigInt(index),
    }))
    const hashes = node.fundMany([...payments, { address: alice, amountRaw: xno }])
    expect((await rpc.receivable([alice], dust)).get(alice)?.[0]).toEqual({
      hash: hashes.at(-1),
      amountRaw: xno,
    })
  })

  it('of one account are looked at in so many pages at most: the largest, and the rest once those are received', async () => {
    const entry = (place: number): [string, string] => [
      place.toString(16).toUpperCase().padStart(64, '0'),
      String(xno - BigInt(place)),
    ]
    const pageAt = (from: number, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, place) => entry(from + place)))
    node.lie(({ action, requestText }) => {
      if (action === 'accounts_receivable') return JSON.stringify({ blocks: { [alice]: pageAt(0, 16) } })
      const { offset, count } = JSON.parse(requestText) as { offset: string; count: string }
      return JSON.stringify({ blocks: pageAt(Number(offset), Number(count)) })
    })
    expect((await rpc.receivable([alice], dust)).get(alice)).toHaveLength(10_000)
    expect(node.calls('receivable')).toBe(10)
  })

  it('are asked for confirmed, sorted and above the threshold in so many words', async () => {
    const requests: unknown[] = []
    node.lie(({ requestText }) => {
      requests.push(JSON.parse(requestText))
      return undefined
    })
    node.fundMany(Array.from({ length: 16 }, () => ({ address: alice, amountRaw: dust })))
    await rpc.receivable([alice], dust)
    const said = {
      threshold: String(dust),
      include_only_confirmed: 'true',
      include_active: 'false',
      sorting: 'true',
    }
    expect(requests).toEqual([
      { action: 'accounts_receivable', accounts: [alice], count: '16', ...said },
      { action: 'receivable', account: alice, count: '1000', offset: '0', ...said },
    ])
  })

  it('need a threshold and addresses in the nano_ spelling', async () => {
    await expect(rpc.receivable([alice], 0n)).rejects.toThrow('"thresholdRaw" expected 1 to 2^128 - 1, got 0')
    await expect(rpc.receivable([alice.replace('nano_', 'xrb_')], 1n)).rejects.toThrow(
      '"addresses" expected nano_ addresses',
    )
    expect(node.calls()).toBe(0)
  })
})

describe('an account', () => {
  it('is undefined while it has no block, also when money waits for it', async () => {
    node.fund(alice, xno, { confirmed: true })
    expect(await rpc.accountInfo(alice)).toBeUndefined()
  })

  it('shows what is confirmed apart from what is not', async () => {
    const first = await openAlice(5n * xno)
    const send = await aliceSends(2n * xno)
    await rpc.process(send, 'send')
    expect(await rpc.accountInfo(alice)).toEqual({
      address: alice,
      frontier: send.hash,
      height: 2,
      balanceRaw: 3n * xno,
      representative: node.genesis.address,
      confirmedFrontier: first,
      confirmedHeight: 1,
      confirmedBalanceRaw: 5n * xno,
    })
  })

  it('has no confirmed frontier before its first block is confirmed', async () => {
    const hash = node.fund(alice, xno)
    const state = {
      account: alice,
      frontier: undefined,
      balanceRaw: 0n,
      representative: node.genesis.address,
    }
    await rpc.process(await signed(1, buildReceive(state, { hash, amountRaw: xno }), 'receive'), 'open')
    expect(await rpc.accountInfo(alice)).toMatchObject({
      confirmedFrontier: undefined,
      confirmedBalanceRaw: 0n,
    })
  })

  it('says so where its last block is signed by the network and not by its key', async () => {
    expect(await rpc.accountInfo(node.genesis.address)).toMatchObject({ height: 3, balanceRaw: MAX_RAW })
  })
})

describe('blocks', () => {
  it('are told with their state; those the node does not have are left out', async () => {
    const open = await openAlice(xno)
    const source = (await rpc.blockInfo(open))?.block?.link ?? ''
    const found = await rpc.blocksInfo([open, 'AB'.repeat(32), source, open])
    expect([...found.keys()].sort()).toEqual([open, source].sort())
    expect(found.get(open)).toMatchObject({
      hash: open,
      account: alice,
      amountRaw: xno,
      balanceRaw: xno,
      height: 1,
      successor: undefined,
      confirmed: true,
      subtype: 'receive',
      receivedBy: undefined,
    })
    expect(found.get(source)).toMatchObject({
      account: node.genesis.address,
      amountRaw: xno,
      subtype: 'send',
      receivedBy: open,
    })
    expect(await rpc.blockInfo('AB'.repeat(32))).toBeUndefined()
    expect(await rpc.blocksInfo([])).toEqual(new Map())
    await expect(rpc.blockInfo('ab'.repeat(32))).rejects.toThrow('"hashes" expected 64 upper-case hex')
  })

  it('that were taken back are no longer there', async () => {
    const hash = node.fund(alice, xno)
    expect(await rpc.blockInfo(hash)).toMatchObject({ confirmed: false })
    node.rollback(hash)
    expect(await rpc.blockInfo(hash)).toBeUndefined()
  })

  it('of the old kind, as the first of every network, are told without their contents', async () => {
    expect(await rpc.blockInfo(node.state.ledger.genesisHash)).toMatchObject({
      block: undefined,
      subtype: undefined,
      balanceRaw: MAX_RAW,
    })
  })
})

describe('publishing', () => {
  it('takes an open, a send, a change and a receive, built and signed here', async () => {
    const open = await openAlice(5n * xno)
    const send = await aliceSends(2n * xno)
    expect(await rpc.process(send, 'send')).toBe(send.hash)
    node.confirm(send.hash)
    const state = {
      account: alice,
      frontier: send.hash,
      balanceRaw: 3n * xno,
      representative: node.genesis.address,
    }
    const change = await signed(1, buildChange(state, bob), 'send')
    expect(await rpc.process(change, 'change')).toBe(change.hash)
    const again = node.fund(alice, xno, { confirmed: true })
    const next = { ...state, frontier: change.hash, representative: bob }
    const receive = await signed(1, buildReceive(next, { hash: again, amountRaw: xno }), 'receive')
    expect(await rpc.process(receive, 'receive')).toBe(receive.hash)
    expect(await rpc.accountInfo(alice)).toMatchObject({
      frontier: receive.hash,
      height: 4,
      balanceRaw: 4n * xno,
      representative: bob,
    })
    expect((await rpc.blockInfo(open))?.successor).toBe(send.hash)
  })

  it("gives the node's own reason for a refusal", async () => {
    await openAlice(5n * xno)
    const send = await aliceSends(2n * xno)
    const reasonOf = async (block: NanoBlock): Promise<string | undefined> => {
      const error = await errorOf(rpc.process(block, 'send'))
      return error instanceof NodeRefused ? error.reason : undefined
    }
    expect(await reasonOf({ ...send, signature: '0'.repeat(128) })).toBe('Bad signature')
    expect(await reasonOf({ ...send, previous: 'AB'.repeat(32) })).toBe('Gap previous block')
    expect(await reasonOf({ ...send, work: '0000000000000000' })).toBe('Block work is less than threshold')
    await rpc.process(send, 'send')
    expect(await reasonOf(send)).toBe('Invalid block balance for given subtype')
    expect(await rpc.blockInfo(send.hash)).toMatchObject({ hash: send.hash, confirmed: false })
  })
})

describe('work', () => {
  it("is asked for at the thresholds of the node's network", async () => {
    expect(await rpc.workThresholds()).toEqual({ send: 0xffc0000000000000n, receive: 0xf000000000000000n })
    await rpc.workThresholds()
    expect(node.calls('active_difficulty')).toBe(1)
    const work = await rpc.generateWork('AB'.repeat(32), 0xffc0000000000000n)
    expect(workValue('AB'.repeat(32), work)).toBeGreaterThanOrEqual(0xffc0000000000000n)
  })

  it("is the live network's at the most, and where the node does not say", async () => {
    const say = (network_minimum: string) =>
      node.lie(() => JSON.stringify({ network_minimum, network_receive_minimum: network_minimum }))
    node.lie(() => JSON.stringify({ error: 'Unknown command' }))
    expect(await rpc.workThresholds()).toEqual(LIVE_WORK_THRESHOLDS)
    say('ffffffffffffffff')
    expect(await rpc.workThresholds()).toEqual(LIVE_WORK_THRESHOLDS)
  })

  it('that does not reach the threshold is never used', async () => {
    let work = 0n
    const text = (): string => work.toString(16).padStart(16, '0')
    while (workValue('AB'.repeat(32), text()) >= 0xffc0000000000000n) work += 1n
    node.lie(() =>
      JSON.stringify({
        hash: 'AB'.repeat(32),
        work: text(),
        difficulty: 'ffffffffffffffff',
        multiplier: '9.0',
      }),
    )
    const error = await errorOf(rpc.generateWork('AB'.repeat(32), 0xffc0000000000000n))
    expect(error).toBeInstanceOf(NodeUnreachable)
    expect(error.message).toContain('too little work')
  })

  it('comes from the work server where there is one, and the node is not asked', async () => {
    const server = await startNanoNode()
    closers.push(() => server.close())
    await node.close()
    await start({ enableControl: false })
    const refused = await errorOf(rpc.generateWork('AB'.repeat(32), 0xffc0000000000000n))
    expect(refused).toMatchObject({ name: 'NodeRefused', reason: 'RPC control is disabled' })
    node.resetCalls()
    rpc = createNanoRpc({ url: node.rpcUrl, workUrl: server.rpcUrl, log: quiet, timeoutMs: 20_000 })
    const work = await rpc.generateWork('AB'.repeat(32), 0xffc0000000000000n)
    expect(workValue('AB'.repeat(32), work)).toBeGreaterThanOrEqual(0xffc0000000000000n)
    expect([node.calls('work_generate'), server.calls('work_generate')]).toEqual([0, 1])
  })

  it('that takes too long is called off, so that no search goes on for nobody', async () => {
    await node.close()
    await start({ thresholds: { epoch1: 0n, epoch2: 0xfffffffff0000000n, epoch2Receive: 0n } })
    // Long enough for the question to reach the node: what it never heard of it does not count.
    rpc = createNanoRpc({ url: node.rpcUrl, log: quiet, timeoutMs: 20_000, workTimeoutMs: 2_000 })
    const error = await errorOf(rpc.generateWork('AB'.repeat(32), LIVE_WORK_THRESHOLDS.send))
    expect(error).toBeInstanceOf(NodeUnreachable)
    expect(error.message).toContain('not answered within 2000 ms')
    expect(node.calls('work_cancel')).toBe(1)
    // The node counts it once the search has ended.
    await vi.waitFor(() => expect(node.calls('work_generate')).toBe(1), { timeout: 20_000 })
  })

  it('is asked for with a root and a threshold that can be', async () => {
    await expect(rpc.generateWork('AB', 1n)).rejects.toThrow('"root" expected 64 upper-case hex')
    await expect(rpc.generateWork('AB'.repeat(32), (1n << 64n) - 1n)).rejects.toThrow(
      '"threshold" expected 0 to the live',
    )
  })
})

it('tells what the node is and how many blocks it has', async () => {
  expect(await rpc.network()).toBe('dev')
  expect(await rpc.blockCount()).toEqual({ count: 3, unchecked: 0, cemented: 3 })
})

describe('a node that gives no news', () => {
  const root = 'AB'.repeat(32)
  const block = {
    type: 'state',
    account: alice,
    previous: root,
    representative: bob,
    balance: '1',
    link: root,
  } as const
  const calls: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['receivable', () => rpc.receivable([alice], dust)],
    ['accountInfo', () => rpc.accountInfo(alice)],
    ['blocksInfo', () => rpc.blocksInfo([root])],
    ['blockInfo', () => rpc.blockInfo(root)],
    ['process', () => rpc.process({ ...block, signature: '0'.repeat(128), work: '0'.repeat(16) }, 'send')],
    ['workThresholds', () => rpc.workThresholds()],
    ['generateWork', () => rpc.generateWork(root, 0xf000000000000000n)],
    ['network', () => rpc.network()],
    ['blockCount', () => rpc.blockCount()],
  ]

  const notAnswers: readonly (readonly [string, string])[] = [
    ['nothing', ''],
    ['null', 'null'],
    ['a list', '[]'],
    ['a text', '"fine"'],
    ['no field', '{}'],
    ['a page', '<html><body>502 Bad Gateway</body></html>'],
    ['half an answer', '{"blocks": {"nano_1'],
    ['two answers', '{}{}'],
    ['an error that is no sentence', '{"error": {"code": 7}}'],
    ['lists without end', '['.repeat(500_000)],
    ['10 MB', `{"blocks": "${'0'.repeat(10_000_000)}"}`],
  ]

  it.each(notAnswers)('answers %s', async (_name, body) => {
    node.lie(() => body)
    for (const [name, call] of calls)
      expect([name, await errorOf(call())]).toEqual([name, expect.any(NodeUnreachable)])
  })

  it('answers with another status, by a redirect or not in UTF-8', async () => {
    node.lie(() => ({ status: 500 }))
    for (const [name, call] of calls)
      expect([name, await errorOf(call())]).toEqual([name, expect.any(NodeUnreachable)])
    node.lie(null)
    const version = JSON.stringify({ network: await rpc.network() })
    const peer = await startBrokenPeer((res, { path }) => {
      if (path === '/redirect') res.writeHead(307, { location: node.rpcUrl }).end()
      else res.writeHead(200).end(Buffer.from(version.replace('dev', '\u00ff'), 'latin1'))
    })
    closers.push(() => peer.close())
    for (const path of ['/redirect', '/']) {
      const other = createNanoRpc({ url: `${peer.url}${path}`, log: quiet, timeoutMs: 5_000 })
      expect(await errorOf(other.network())).toBeInstanceOf(NodeUnreachable)
    }
    expect(node.calls('version')).toBe(2) // the lie above and the true one; none by the redirect
  })

  it.each([0, 1, 20])('cuts its answer after %i bytes', async (cutAfterBytes) => {
    node.lie(() => ({ cutAfterBytes }))
    for (const [name, call] of calls)
      expect([name, await errorOf(call())]).toEqual([name, expect.any(NodeUnreachable)])
  })

  it('is down, and is asked again as if nothing had been once it is back', async () => {
    await node.setDown(true)
    for (const [name, call] of calls)
      expect([name, await errorOf(call())]).toEqual([name, expect.any(NodeUnreachable)])
    expect((await errorOf(rpc.blockCount())).message).toContain('ECONNREFUSED')
    await node.setDown(false)
    expect(await rpc.blockCount()).toMatchObject({ count: 3 })
  })

  it('hangs: each call ends at its deadline', async () => {
    node.setHanging(true)
    rpc = createNanoRpc({ url: node.rpcUrl, log: quiet, timeoutMs: 100, workTimeoutMs: 100 })
    const errors = await Promise.all(calls.map(([, call]) => errorOf(call())))
    for (const error of errors) expect(error).toBeInstanceOf(NodeUnreachable)
    for (const error of errors) expect(error.message).toContain('not answered within 100 ms')
  })

  it('answers for ever, drop by drop: the deadline covers the body as well', async () => {
    const peer = await startBrokenPeer((res) => {
      res.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => res.write(' '), 10)
      res.on('close', () => clearInterval(timer))
    })
    closers.push(() => peer.close())
    rpc = createNanoRpc({ url: peer.url, log: quiet, timeoutMs: 300 })
    expect((await errorOf(rpc.blockCount())).message).toContain('not answered within 300 ms')
  })

  it('sends without end: it is cut off at the bound, long before the deadline', async () => {
    let sent = 0
    let isCut = false
    const peer = await startBrokenPeer((res) => {
      res.on('close', () => (isCut = true))
      const chunk = Buffer.alloc(64 * 1024, ' ')
      const pump = (): void => {
        while (!isCut && res.write(chunk)) sent += chunk.length
      }
      res.on('drain', pump)
      pump()
    })
    closers.push(() => peer.close())
    rpc = createNanoRpc({ url: peer.url, log: quiet, timeoutMs: 60_000 })
    expect((await errorOf(rpc.blockCount())).message).toContain('more than 4194304 bytes')
    await vi.waitFor(() => expect(isCut).toBe(true), { timeout: 20_000 })
    expect(sent).toBeLessThan(64 * 1024 * 1024)
  })
})

describe('a node that lies', () => {
  /** What is put in the place of a text in an otherwise true answer. */
  async function refusesFields(
    call: () => Promise<unknown>,
    action: string,
    fields: readonly string[],
    values: readonly unknown[],
  ): Promise<void> {
    for (const field of fields) {
      for (const value of values) {
        let wasChanged = false
        node.lie((exchange) => {
          if (exchange.action !== action) return undefined
          const altered = JSON.parse(exchange.answerText, (key, old: unknown) => {
            if (key !== field || typeof old === 'object') return old
            wasChanged = true
            return value
          }) as unknown
          return JSON.stringify(altered)
        })
        expect([field, value, await errorOf(call())]).toEqual([field, value, expect.any(NodeUnreachable)])
        expect(wasChanged).toBe(true)
      }
    }
    node.lie(null)
  }

  const noAmounts = [
    5,
    null,
    true,
    '',
    '-1',
    '+1',
    '1.5',
    '1e30',
    '0x10',
    '007',
    ' 1',
    (MAX_RAW + 1n).toString(),
    '9'.repeat(39),
    '1'.repeat(5_000),
    ['1'],
    { amount: '1' },
  ]
  const noHashes = [5, null, '', 'AB', 'ab'.repeat(32), 'AB'.repeat(33), 'G'.repeat(64)]
  const noAddresses = [5, null, '', 'nano_1', 'AB'.repeat(32)]

  it('about amounts', async () => {
    node.fund(alice, xno, { confirmed: true })
    await openAlice(xno)
    const { hash } = await aliceSends(1n)
    await refusesFields(
      () => rpc.accountInfo(alice),
      'account_info',
      ['balance', 'confirmed_balance'],
      noAmounts,
    )
    const [waiting] = [...(await rpc.receivable([alice], dust)).values()].flat()
    await refusesFields(
      () => rpc.receivable([alice], dust),
      'accounts_receivable',
      [waiting?.hash ?? ''],
      [...noAmounts, '0', String(dust - 1n)],
    )
    await refusesFields(
      () => rpc.blockInfo(waiting?.hash ?? ''),
      'blocks_info',
      ['amount', 'balance'],
      noAmounts,
    )
    expect(hash).toHaveLength(64)
  })

  it('about hashes, heights, flags and addresses', async () => {
    const open = await openAlice(xno)
    await refusesFields(
      () => rpc.accountInfo(alice),
      'account_info',
      ['frontier', 'confirmed_frontier'],
      noHashes,
    )
    await refusesFields(
      () => rpc.accountInfo(alice),
      'account_info',
      ['block_count', 'confirmed_height'],
      [5, null, '', '-1', '1.5', '9'.repeat(16)],
    )
    await refusesFields(() => rpc.accountInfo(alice), 'account_info', ['representative'], noAddresses)
    await refusesFields(
      () => rpc.blockInfo(open),
      'blocks_info',
      ['confirmed'],
      [true, 1, '1', 'yes', '', null],
    )
    await refusesFields(() => rpc.blockInfo(open), 'blocks_info', ['block_account', 'account'], noAddresses)
    await refusesFields(() => rpc.blockInfo(open), 'blocks_info', ['successor', 'previous', 'link'], noHashes)
  })

  it('about a block: another one than its hash names', async () => {
    const open = await openAlice(xno)
    const asked = [() => rpc.blockInfo(open), () => rpc.accountInfo(alice)]
    for (const call of asked) {
      await refusesFields(call, 'blocks_info', ['balance'], [String(2n * xno)])
      await refusesFields(call, 'blocks_info', ['account', 'representative', 'block_account'], [bob])
      await refusesFields(call, 'blocks_info', ['previous', 'link'], ['AB'.repeat(32)])
    }
  })

  it('about a balance, which would make a send of another amount', async () => {
    const open = await openAlice(xno)
    const other = await errorOf(
      (async () => {
        node.lie(({ action, answerText }) =>
          action === 'account_info' ? answerText.replaceAll(String(xno), String(xno / 2n)) : undefined,
        )
        return rpc.accountInfo(alice)
      })(),
    )
    expect(other.message).toContain('another balance than its frontier has')
    // A block made up to fit: hash, account and balance agree, and nobody signed it.
    const { fake, info } = await madeUp(open)
    node.lie(({ action }) => (action === 'account_info' ? info : action === 'blocks_info' ? fake : undefined))
    const forged = await errorOf(rpc.accountInfo(alice))
    expect(forged).toBeInstanceOf(NodeUnreachable)
    expect(forged.message).toContain('a frontier that the account did not sign')
  })

  async function madeUp(open: string): Promise<{ fake: string; info: string }> {
    const state = { account: alice, frontier: open, balanceRaw: xno, representative: bob }
    const block = buildSend(state, { destination: bob, amountRaw: xno / 2n })
    const { hash } = keys.signBlock(1, block)
    const { signature } = keys.signBlock(1, buildSend(state, { destination: bob, amountRaw: 1n }))
    const fields = {
      block_account: alice,
      balance: block.balance,
      height: '2',
      successor: '0'.repeat(64),
      confirmed: 'true',
      contents: { ...block, signature, work: '0'.repeat(16) },
    }
    const info = {
      frontier: hash,
      balance: block.balance,
      block_count: '2',
      representative: bob,
      confirmed_balance: '0',
      confirmed_height: '0',
      confirmed_frontier: '0'.repeat(64),
    }
    return {
      fake: JSON.stringify({ blocks: { [hash]: fields }, blocks_not_found: '' }),
      info: JSON.stringify(info),
    }
  }

  it('by answering for another account, or about another block', async () => {
    await openAlice(xno)
    const waiting = node.fund(bob, xno, { confirmed: true })
    const answers = new Map<string, string>()
    node.lie(({ action, answerText }) => void answers.set(action, answerText))
    await rpc.receivable([bob], dust)
    await rpc.accountInfo(alice)
    await rpc.blockInfo(waiting)
    node.lie(({ action }) => answers.get(action))
    const errors = [
      await errorOf(rpc.receivable([alice], dust)),
      await errorOf(rpc.accountInfo(bob)),
      await errorOf(rpc.blockInfo('AB'.repeat(32))),
      await errorOf(rpc.blocksInfo([waiting, 'AB'.repeat(32)])),
    ]
    expect(errors.map((error) => [error.name, error.message.replace(/^.* was answered with /, '')])).toEqual([
      ['NodeUnreachable', 'an account that was not asked for'],
      ['NodeUnreachable', 'blocks that were not asked for'],
      ['NodeUnreachable', 'blocks that were not asked for'],
      ['NodeUnreachable', 'fewer blocks than were asked for'],
    ])
    // The frontier of another account, this time told truly.
    node.lie(({ action }) => (action === 'account_info' ? answers.get(action) : undefined))
    expect((await errorOf(rpc.accountInfo(bob))).message).toContain("another account's frontier")
  })

  it('about how many blocks there are, or names one that it does not have', async () => {
    await openAlice(xno)
    const messageAfter = async (change: (text: string) => string): Promise<string> => {
      node.lie(({ action, answerText }) => (action === 'account_info' ? change(answerText) : undefined))
      return (await errorOf(rpc.accountInfo(alice))).message
    }
    expect(await messageAfter((text) => text.replace('"block_count": "1"', '"block_count": "2"'))).toContain(
      'another height',
    )
    expect(
      await messageAfter((text) => text.replace('"confirmed_height": "1"', '"confirmed_height": "2"')),
    ).toContain('more blocks confirmed')
    expect(
      await messageAfter((text) =>
        text.replace(/"frontier": "[0-9A-F]+"/, `"frontier": "${'AB'.repeat(32)}"`),
      ),
    ).toContain('a frontier that the node does not have')
  })

  it('by a hash that is not of the block it was given', async () => {
    await openAlice(xno)
    const send = await aliceSends(1n)
    node.lie(() => JSON.stringify({ hash: 'AB'.repeat(32) }))
    expect((await errorOf(rpc.process(send, 'send'))).message).toContain('the hash of another block')
  })

  it('by more than was asked for, or the same page without end', async () => {
    const many = (count: number) =>
      Object.fromEntries(
        Array.from({ length: count }, (_, index) => [
          (index + 1).toString(16).toUpperCase().padStart(64, '0'),
          String(xno),
        ]),
      )
    node.lie(() => JSON.stringify({ blocks: { [alice]: many(17) } }))
    expect((await errorOf(rpc.receivable([alice], dust))).message).toContain('more than the 16 entries')
    node.lie(({ action }) =>
      JSON.stringify({ blocks: action === 'receivable' ? many(1_000) : { [alice]: many(16) } }),
    )
    expect((await errorOf(rpc.receivable([alice], dust))).message).toContain('the same page for every offset')
  })

  it('by errors about accounts that are not texts by the accounts', async () => {
    for (const errors of [7, null, true, 'Account not found', ['Account not found'], { [alice]: 7 }]) {
      node.lie(() => JSON.stringify({ errors }))
      expect((await errorOf(rpc.frontiers([alice]))).message).toContain('in another form: errors')
    }
    node.lie(() => JSON.stringify({ errors: { [alice]: 'Account not found' } }))
    expect(await rpc.frontiers([alice])).toEqual(new Map())
  })

  it('in any one place: the outcome is an answer or one of the two errors', async () => {
    const open = await openAlice(xno)
    node.fund(alice, xno, { confirmed: true })
    const calls = [
      () => rpc.receivable([alice], dust),
      () => rpc.accountInfo(alice),
      () => rpc.blockInfo(open),
    ]
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...calls),
        fc.nat(40),
        fc.jsonValue(),
        async (call, position, value) => {
          node.lie(({ answerText }) => {
            let place = 0
            return JSON.stringify(JSON.parse(answerText), (_key, old: unknown) =>
              (place += 1) === position + 1 ? value : old,
            )
          })
          await call().catch((error: unknown) => {
            if (!(error instanceof NodeUnreachable || error instanceof NodeRefused)) throw error
          })
        },
      ),
      { numRuns: FULL ? 300 : 60 },
    )
  })

  it('in its refusal: the reason is kept short and printable', async () => {
    node.lie(() => JSON.stringify({ error: `Bad\n\u0000${'x'.repeat(1_000_000)}` }))
    const error = await errorOf(rpc.network())
    expect(error).toMatchObject({ name: 'NodeRefused', reason: expect.stringMatching(/^Bad x{196}$/) })
  })
})

describe('user and password in the URL', () => {
  it('go into a header and into no error and no line of the log', async () => {
    const peer = await startBrokenPeer((res, { token }) => {
      if (token === `Basic ${Buffer.from('venue:p@ss/w%rd').toString('base64')}`)
        res.end('{"count": "1", "unchecked": "0", "cemented": "1"}')
      else res.writeHead(401).end('{}')
    })
    closers.push(() => peer.close())
    let lines = ''
    const stream = new Writable({
      write(chunk: Buffer, _encoding, done) {
        lines += chunk.toString()
        done()
      },
    })
    const log = createLog('test', 'debug', stream)
    const withPassword = (password: string): NanoRpc =>
      createNanoRpc({
        url: peer.url.replace('//', `//venue:${password}@`) + '/rpc?key=hidden',
        log,
        timeoutMs: 5_000,
      })
    expect(await withPassword('p%40ss%2Fw%25rd').blockCount()).toEqual({
      count: 1,
      unchecked: 0,
      cemented: 1,
    })
    const errors = [await errorOf(withPassword('wr%zzong').blockCount())]
    await peer.close()
    errors.push(await errorOf(withPassword('p%40ss%2Fw%25rd').blockCount()))
    const told = [
      lines,
      ...errors.flatMap((error) => [error.message, error.stack ?? '', JSON.stringify(error.cause)]),
    ].join()
    expect(lines).toContain('block_count')
    for (const secret of ['venue', 'p%40ss', 'p@ss', 'wr%zzong', 'hidden', 'Basic'])
      expect(told).not.toContain(secret)
  })

  it('are not repeated by the refusal of a URL that is none', () => {
    for (const url of ['venue:secret@[', 'http://venue:secret@[', 'ftp://venue:secret@localhost', '']) {
      const make = (): NanoRpc => createNanoRpc({ url, log: quiet, timeoutMs: 1 })
      expect(make).toThrow(/^"url" expected a URL that begins with http:\/\/ or https:\/\/$/)
    }
  })
})
