import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createLog } from '../../shared/platform/log.ts'
import { parseMoneroAddress } from '../../shared/money/coins/monero/monero-address.ts'
import {
  createMoneroWallet,
  MAX_DESTINATIONS,
  MONERO_ERROR,
  type MoneroWallet,
} from '../../shared/money/coins/monero/monero-wallet.ts'
import { AnswerTooLong, NodeRefused, NodeUnreachable } from '../../shared/money/node-errors.ts'
import { refuse, sendJson, startBrokenPeer, type Behaviour } from '../support/broken-peer.ts'
import type { MoneroRegtest, RegtestWallet } from '../../devnet/monero-regtest/regtest.ts'
import { openRegtest } from '../support/monero-regtest.ts'

const XMR = 10n ** 12n
/** Of received money, in blocks. */
const UNLOCK_BLOCKS = 10
const LIMIT_MS = 60_000

// Programs are ended and started again.
vi.setConfig({ testTimeout: 240_000 })

const logged: string[] = []
const log = createLog(
  'test',
  'trace',
  new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) }),
)
const openWallet = (url: string, timeoutMs = 20_000): MoneroWallet =>
  createMoneroWallet({ url, log, timeoutMs })

let regtest: MoneroRegtest
let venueProgram: RegtestWallet
let payeeProgram: RegtestWallet
let venue: MoneroWallet
let payee: MoneroWallet

beforeAll(async () => {
  regtest = await openRegtest()
  ;[venueProgram, payeeProgram] = await Promise.all([
    regtest.openWallet('venue'),
    regtest.openWallet('payee'),
  ])
  venue = openWallet(venueProgram.url)
  payee = openWallet(payeeProgram.url)
})

afterAll(() => regtest?.close())

/**
 * Mines blocks that both wallets have then: a single look may come back without them (monero-wallet.ts).
 * @returns the new height
 */
async function generate(blocks: number): Promise<number> {
  const height = await regtest.generate(blocks)
  for (const wallet of [venue, payee])
    await waitFor(
      'a wallet to take in the blocks',
      async () => ((await wallet.getHeight()) === height ? true : undefined),
      {
        limitMs: LIMIT_MS,
      },
    )
  return height
}

async function makeAddress(): Promise<{ index: number; address: string }> {
  const [made] = await venue.createSubaddresses(1)
  return made ?? expect.fail('no address was made')
}

const incomingOf = async (txHash: string) =>
  (await venue.listIncoming({ sinceHeight: 0 }))
    .filter((payment) => payment.txHash === txHash)
    .sort((one, other) => one.minor - other.minor)

describe('addresses', () => {
  it('are made in a row, over the bound of one call, and are known after a kill that left no time to save', async () => {
    const before = await venue.subaddressCount()
    const made = await venue.createSubaddresses(70)
    expect(made.map(({ index }) => index)).toEqual(Array.from({ length: 70 }, (_, at) => before + at))
    await venueProgram.setDown(true, 'SIGKILL')
    await venueProgram.setDown(false)
    expect(await venue.subaddressCount()).toBe(before + 70)
    const [next] = await venue.createSubaddresses(1)
    expect(next?.index).toBe(before + 70)
    expect(made.map(({ address }) => address)).not.toContain(next?.address)
  })

  it('are what the parser takes them for, as monero-wallet-rpc does with those and with altered ones', async () => {
    const { address } = await makeAddress()
    const { integrated_address: integrated } = (await payeeProgram.call('make_integrated_address')) as {
      integrated_address: string
    }
    const primary = await venue.primaryAddress()
    const { keys, ...standard } = parseMoneroAddress(primary) ?? expect.fail('not an address')
    const { keys: keysOfPayee } =
      parseMoneroAddress(await payee.primaryAddress()) ?? expect.fail('not an address')
    expect(keysOfPayee).not.toBe(keys)
    expect(standard).toEqual({ address: primary, network: 'mainnet', kind: 'standard' })
    expect(parseMoneroAddress(address)).toMatchObject({ address, network: 'mainnet', kind: 'subaddress' })
    expect(parseMoneroAddress(integrated)).toEqual({
      address: integrated,
      network: 'mainnet',
      kind: 'integrated',
      keys: keysOfPayee,
    })
    for (const text of [
      address,
      `${address}1`,
      address.slice(1),
      swapDigits(address),
      address.toLowerCase(),
      integrated.slice(0, 95),
    ]) {
      const { valid } = await venueProgram.call('validate_address', { address: text })
      expect([text, parseMoneroAddress(text) !== undefined]).toEqual([text, valid])
    }
  })
})

function swapDigits(text: string): string {
  return `${text.slice(0, 20)}${text.charAt(21)}${text.charAt(20)}${text.slice(22)}`
}

describe('what has come', () => {
  it('is seen in the pool and then in a block, with its confirmations', async () => {
    const { address, index: minor } = await makeAddress()
    const txHash = await regtest.payer.pay([{ address, amountPico: 3n * XMR + 7n }])
    const payment = {
      txHash,
      minor,
      address,
      amountPico: 3n * XMR + 7n,
      unlockTime: 0n,
      doubleSpendSeen: false,
    }
    expect(await incomingOf(txHash)).toEqual([{ ...payment, inPool: true, confirmations: 0 }])
    const height = await regtest.generate(1)
    // By its own looks, one of which may come back without the block.
    const mined = [{ ...payment, inPool: false, height: height - 1, confirmations: 1 }]
    await expect.poll(() => incomingOf(txHash), { timeout: LIMIT_MS }).toEqual(mined)
    await generate(1)
    expect(await incomingOf(txHash)).toEqual([
      { ...payment, inPool: false, height: height - 1, confirmations: 2 },
    ])
    expect(await venue.getHeight()).toBe(height + 1)
  })

  it('is one row for each address that a transaction pays, and one where it pays it twice', async () => {
    const [one, other] = [await makeAddress(), await makeAddress()]
    const txHash = await regtest.payer.pay([
      { address: one.address, amountPico: XMR },
      { address: other.address, amountPico: 2n * XMR },
      { address: one.address, amountPico: 5n },
    ])
    const sums = async () => (await incomingOf(txHash)).map(({ minor, amountPico }) => [minor, amountPico])
    const expected = [
      [one.index, XMR + 5n],
      [other.index, 2n * XMR],
    ]
    expect(await sums()).toEqual(expected)
    await generate(1)
    expect(await sums()).toEqual(expected)
  })

  it('says until when it is locked, however far that is', async () => {
    const { address } = await makeAddress()
    const unlockTimes = [5_000, Number.MAX_SAFE_INTEGER]
    const hashes: string[] = []
    for (const unlockTime of unlockTimes)
      hashes.push(await regtest.payer.pay([{ address, amountPico: XMR }], { unlockTime }))
    const seen = async () =>
      (await Promise.all(hashes.map(incomingOf))).flat().map(({ unlockTime, inPool }) => [unlockTime, inPool])
    expect(await seen()).toEqual(unlockTimes.map((time) => [BigInt(time), true]))
    await generate(1)
    expect(await seen()).toEqual(unlockTimes.map((time) => [BigInt(time), false]))
  })

  it('is listed from a height on, that height included', async () => {
    const { address } = await makeAddress()
    const txHash = await regtest.payer.pay([{ address, amountPico: XMR }])
    const height = (await generate(1)) - 1
    const hashesSince = async (sinceHeight: number) =>
      (await venue.listIncoming({ sinceHeight })).map((payment) => payment.txHash)
    await expect.poll(() => hashesSince(height), { timeout: LIMIT_MS }).toEqual([txHash])
    expect(await hashesSince(height + 1)).toEqual([])
    expect((await hashesSince(height - 1)).at(-1)).toBe(txHash)
    await expect(venue.listIncoming({ sinceHeight: -1 })).rejects.toThrow(
      '"sinceHeight" expected a whole number from 0, got -1',
    )
  })

  it('is listed whole although one answer cannot hold it, and without the pool if that alone is too much', async () => {
    const made = await venue.createSubaddresses(MAX_DESTINATIONS)
    const crumbs = made.slice(0, 12).map(({ address }) => ({ address, amountPico: 5n }))
    let sinceHeight = 0
    for (let block = 0; block < 4; block++) {
      const txHash = await regtest.payer.pay(crumbs.slice(3 * block, 3 * block + 3))
      // A block that is made at once may lack what was just sent.
      let rows = await incomingOf(txHash)
      for (
        ;
        !rows.every(({ height }) => height !== undefined) || rows.length === 0;
        rows = await incomingOf(txHash)
      )
        await generate(1)
      if (block === 0) sinceHeight = rows[0]?.height ?? 0
    }
    const narrow = createMoneroWallet({
      url: venueProgram.url,
      log,
      timeoutMs: 20_000,
      maxAnswerBytes: 4_000,
    })
    await expect.poll(() => venue.listIncoming({ sinceHeight }), { timeout: LIMIT_MS }).toHaveLength(12)
    const all = await venue.listIncoming({ sinceHeight })
    expect(await narrow.listIncoming({ sinceHeight })).toEqual(all)
    const oldest = all.filter(({ height }) => height === sinceHeight)
    expect(oldest).toHaveLength(3)
    expect(
      await narrow.listIncoming({ sinceHeight: sinceHeight + 4, blocks: [sinceHeight, sinceHeight] }),
    ).toEqual(oldest)

    await regtest.payer.pay(crumbs)
    await expect(narrow.listIncoming({ sinceHeight })).rejects.toThrow(AnswerTooLong)
    expect(await narrow.listIncoming({ sinceHeight, withoutPool: true })).toEqual(all)
    await generate(1)
  })

  it('moves with its block when the chain turns back and takes it in again higher up', async () => {
    const { address } = await makeAddress()
    const txHash = await regtest.payer.pay([{ address, amountPico: XMR }])
    const height = (await generate(1)) - 1
    await generate(1)
    expect(await incomingOf(txHash)).toMatchObject([{ height, confirmations: 2 }])

    await regtest.popBlocks(2)
    // A daemon that has lost blocks and found no others tells its wallet nothing.
    expect(await incomingOf(txHash)).toMatchObject([{ height, inPool: false }])
    const putBack = await regtest.withhold(txHash)
    await generate(1)
    expect(await incomingOf(txHash)).toEqual([])
    await putBack()
    // The wallet passes over what it has seen in the pool once, so it isn't news until it is in a block
    // again.
    expect(await incomingOf(txHash)).toEqual([])
    await generate(1)
    expect(await incomingOf(txHash)).toMatchObject([{ height: height + 1, confirmations: 1, inPool: false }])
  })

  it('is gone when the chain turns back and nobody has it any more', async () => {
    const { address } = await makeAddress()
    const txHash = await regtest.payer.pay([{ address, amountPico: XMR }])
    await generate(1)
    expect(await incomingOf(txHash)).toHaveLength(1)
    await regtest.popBlocks(1)
    await regtest.flushTxpool()
    await generate(1)
    expect(await incomingOf(txHash)).toEqual([])
  })
})

describe('what is sent', () => {
  const FEE_LIMIT = XMR / 10n
  let payeeAddress: string
  const prepare = (amountPico: bigint) => venue.prepareTransfer([{ address: payeeAddress, amountPico }])
  const arrived = async (txHash: string) =>
    (await payee.listIncoming({ sinceHeight: 0 })).filter((payment) => payment.txHash === txHash)
  const outgoingOf = async (txHash: string) =>
    (await venue.listOutgoing({ sinceHeight: 0 })).filter((sent) => sent.txHash === txHash)

  beforeAll(async () => {
    payeeAddress = await payee.primaryAddress()
    const addresses = await venue.createSubaddresses(MAX_DESTINATIONS)
    await regtest.payer.pay(addresses.map(({ address }) => ({ address, amountPico: XMR })))
    await generate(1)
    const { totalPico, unlockedPico } = await venue.balance()
    expect(totalPico - unlockedPico).toBeGreaterThan(2n * XMR)
    await expect(prepare(unlockedPico + XMR)).rejects.toMatchObject({
      name: 'NodeRefused',
      code: MONERO_ERROR.notEnoughUnlockedMoney,
    })
    await generate(UNLOCK_BLOCKS - 1)
  })

  it('is not sent by being prepared, and arrives once however often it is relayed, before and after its block', async () => {
    const before = await venue.balance()
    const prepared = await prepare(XMR / 2n)
    expect(prepared).toMatchObject({
      amountPico: XMR / 2n,
      txHash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    })
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'unknown', confirmations: 0 })
    expect(await venue.balance()).toEqual(before)
    expect(await venue.spentKeyImages(prepared.keyImages)).toEqual([])
    expect(await arrived(prepared.txHash)).toEqual([])

    for (let time = 0; time < 2; time += 1) {
      await venue.relay(prepared)
      expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'pool', confirmations: 0 })
      expect(await arrived(prepared.txHash)).toMatchObject([{ amountPico: XMR / 2n, inPool: true }])
    }
    const height = (await generate(1)) - 1
    const sent = { txHash: prepared.txHash, amountPico: XMR / 2n, feePico: prepared.feePico }
    const destinations = [{ address: payeeAddress, amountPico: XMR / 2n }]
    for (let time = 0; time < 2; time += 1) {
      expect(await outgoingOf(prepared.txHash)).toEqual([
        { ...sent, state: 'confirmed', height, confirmations: 1, destinations },
      ])
      expect((await venue.balance()).totalPico).toBe(before.totalPico - XMR / 2n - prepared.feePico)
      expect(await arrived(prepared.txHash)).toMatchObject([{ amountPico: XMR / 2n, inPool: false, height }])
      await venue.relay(prepared)
    }
    expect(prepared.feePico).toBeLessThan(FEE_LIMIT)
    expect(await venue.spentKeyImages(prepared.keyImages)).toEqual(prepared.keyImages)
  })

  it('outlives kills of monero-wallet-rpc between preparing and relaying, and before the block', async () => {
    const prepared = await prepare(XMR / 4n)
    const kill = async () => {
      await venueProgram.setDown(true, 'SIGKILL')
      await venueProgram.setDown(false)
    }
    await kill()
    await venue.relay(prepared)
    await kill()
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'pool', confirmations: 0 })
    const next = await prepare(XMR / 4n)
    expect(next.keyImages).not.toEqual(prepared.keyImages)
    await venue.relay(prepared)
    await generate(1)
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'confirmed', confirmations: 1 })
    expect(await arrived(prepared.txHash)).toMatchObject([{ amountPico: XMR / 4n }])
  })

  it('is refused where another transaction has spent its inputs, which can then be asked about', async () => {
    const [first, second] = [await prepare(XMR / 8n), await prepare(XMR / 8n)]
    expect(second.keyImages).toEqual(first.keyImages)
    expect(second.txHash).not.toBe(first.txHash)
    await venue.relay(first)
    for (let time = 0; time < 2; time += 1) {
      await expect(venue.relay(second)).rejects.toThrow(NodeRefused)
      expect(await venue.findOutgoing(second.txHash)).toEqual({ state: 'unknown', confirmations: 0 })
      expect(await venue.spentKeyImages(second.keyImages)).toEqual(second.keyImages)
      await generate(1)
    }
    expect(await arrived(second.txHash)).toEqual([])
  })

  it('is unreachable, not refused, while the daemon is down, and goes out unchanged after that', async () => {
    const prepared = await prepare(XMR / 16n)
    await regtest.setDown(true)
    await expect(venue.relay(prepared)).rejects.toThrow(NodeUnreachable)
    await expect(prepare(XMR)).rejects.toThrow(NodeUnreachable)
    await regtest.setDown(false)
    await venue.relay(prepared)
    // A pool may lose what it was given.
    await regtest.flushTxpool()
    await generate(1)
    expect(await arrived(prepared.txHash)).toEqual([])
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'pool', confirmations: 0 })
    await venue.relay(prepared)
    await generate(1)
    expect(await arrived(prepared.txHash)).toMatchObject([{ amountPico: XMR / 16n, confirmations: 1 }])
  })

  it('is sent again after the chain turned back and nobody had it any more', async () => {
    const prepared = await prepare(XMR / 32n)
    await venue.relay(prepared)
    await generate(1)
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'confirmed', confirmations: 1 })
    await regtest.popBlocks(1)
    await regtest.flushTxpool()
    await generate(1)
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'unknown', confirmations: 0 })
    await venue.relay(prepared)
    await generate(1)
    expect(await venue.findOutgoing(prepared.txHash)).toEqual({ state: 'confirmed', confirmations: 1 })
    expect(await arrived(prepared.txHash)).toMatchObject([{ amountPico: XMR / 32n }])
  })

  it('carries 15 payments and no more', async () => {
    const addresses = (await payee.createSubaddresses(MAX_DESTINATIONS)).map(({ address }) => address)
    const destinations = addresses.map((address, index) => ({
      address,
      amountPico: XMR / 100n + BigInt(index),
    }))
    const prepared = await venue.prepareTransfer(destinations)
    await venue.relay(prepared)
    const payments = await arrived(prepared.txHash)
    expect(payments.map(({ amountPico }) => amountPico).sort()).toEqual(
      destinations.map(({ amountPico }) => amountPico),
    )
    await expect(venue.prepareTransfer([...destinations, ...destinations.slice(0, 1)])).rejects.toThrow(
      'expected 1 to 15, got 16',
    )
    await expect(venue.prepareTransfer([])).rejects.toThrow('expected 1 to 15, got 0')
  })

  it('is refused with a number where there is too little money, or an address is none', async () => {
    const { totalPico } = await venue.balance()
    await expect(prepare(totalPico + 1n)).rejects.toMatchObject({
      name: 'NodeRefused',
      code: MONERO_ERROR.notEnoughMoney,
    })
    const destinations = [{ address: swapDigits(payeeAddress), amountPico: XMR }]
    await expect(venue.prepareTransfer(destinations)).rejects.toMatchObject({
      name: 'NodeRefused',
      code: MONERO_ERROR.wrongAddress,
    })
    await expect(prepare(0n)).rejects.toThrow('"amountPico" expected 1 to 9007199254740991, got 0')
    await expect(prepare(2n ** 53n)).rejects.toThrow('"amountPico" expected 1 to 9007199254740991')
  })

  it('to an address of our own is not among what has come', async () => {
    const { address } = await makeAddress()
    const prepared = await venue.prepareTransfer([{ address, amountPico: XMR / 64n }])
    await venue.relay(prepared)
    expect(await incomingOf(prepared.txHash)).toEqual([])
    await generate(1)
    expect(await incomingOf(prepared.txHash)).toEqual([])
    expect(await outgoingOf(prepared.txHash)).toMatchObject([{ amountPico: 0n, feePico: prepared.feePico }])
  })
})

describe('no news', () => {
  const questions: Record<string, (wallet: MoneroWallet) => Promise<unknown>> = {
    getHeight: (wallet) => wallet.getHeight(),
    listIncoming: (wallet) => wallet.listIncoming({ sinceHeight: 0 }),
    listOutgoing: (wallet) => wallet.listOutgoing({ sinceHeight: 0 }),
    findOutgoing: (wallet) => wallet.findOutgoing('ab'.repeat(32)),
    balance: (wallet) => wallet.balance(),
    spentKeyImages: (wallet) => wallet.spentKeyImages(['ab'.repeat(32)]),
  }
  /** The error of each question, by its name. */
  const failuresOf = async (wallet: MoneroWallet) => {
    const errors = Object.entries(questions).map(async ([name, ask]) => [
      name,
      await ask(wallet).then(
        () => 'answered',
        (error: Error) => error.name,
      ),
    ])
    return Object.fromEntries(await Promise.all(errors)) as Record<string, string>
  }
  const allUnreachable = Object.fromEntries(Object.keys(questions).map((name) => [name, 'NodeUnreachable']))
  const allAnswered = Object.fromEntries(Object.keys(questions).map((name) => [name, 'answered']))

  it('is what a daemon that is down gives, though its wallet goes on answering, until it is back', async () => {
    await regtest.setDown(true)
    expect(await venueProgram.call('get_height')).toHaveProperty('height')
    expect(await failuresOf(venue)).toEqual(allUnreachable)
    await regtest.setDown(false)
    expect(await failuresOf(venue)).toEqual(allAnswered)
  })

  it('is what a monero-wallet-rpc that is down gives, until it is back', async () => {
    await venueProgram.setDown(true)
    expect(await failuresOf(venue)).toEqual(allUnreachable)
    await expect(venue.createSubaddresses(1)).rejects.toThrow(NodeUnreachable)
    await venueProgram.setDown(false)
    expect(await failuresOf(venue)).toEqual(allAnswered)
  })

  it('comes of a wrong password, which is in no message and no log', async () => {
    const url = new URL(venueProgram.url)
    for (const [user, password] of [
      [url.username, 'wrong-password'],
      ['wrong-user', url.password],
      ['', ''],
    ] as const) {
      const wrong = new URL(venueProgram.url)
      wrong.username = user
      wrong.password = password
      const error = await openWallet(wrong.href)
        .getHeight()
        .catch((reason: unknown) => reason)
      expect(error).toMatchObject({
        name: 'NodeUnreachable',
        message: expect.stringContaining('user or password are not right') as string,
      })
      log.warn({ err: error }, 'a test')
      expect(JSON.stringify([error, (error as Error).stack, logged])).not.toMatch(
        new RegExp(`wrong-|${url.password}`),
      )
    }
    expect(() => openWallet('http//no url:secret@host')).toThrow(/^"url" expected a URL that begins with/)
    expect(() => openWallet('http://only-a-user@127.0.0.1:1')).toThrow(
      /^"url" expected a user and a password, or neither$/,
    )
  })

  /** A monero-wallet-rpc that answers `method` with `result` and the rest as one with nothing in it. */
  const liar =
    (method: string, result: unknown): Behaviour =>
    (res, { body }) => {
      const asked = (body as { method: string }).method
      sendJson(res, 200, {
        id: '0',
        jsonrpc: '2.0',
        result: asked === method ? result : { blocks_fetched: 0, height: 5 },
      })
    }
  const honest = {
    txid: 'ab'.repeat(32),
    amount: 5,
    fee: 1,
    height: 5,
    confirmations: 1,
    unlock_time: 0,
    double_spend_seen: false,
    subaddr_index: { major: 0, minor: 1 },
    address: '8'.padEnd(95, 'A'),
  }

  const incoming = (lie: object) => ({ in: [{ ...honest, ...lie }] })
  it.each<[lie: string, question: string, method: string, result: unknown]>([
    ['a height in words', 'getHeight', 'get_height', { height: 'many' }],
    ['a huge height', 'getHeight', 'get_height', { height: 1e300 }],
    ['a height below 0', 'getHeight', 'get_height', { height: -1 }],
    ['no height', 'getHeight', 'get_height', {}],
    ['a result that is null', 'getHeight', 'get_height', null],
    ['a result that is a list', 'getHeight', 'refresh', []],
    ['payments that are no list', 'listIncoming', 'get_transfers', { in: {} }],
    ['an empty payment', 'listIncoming', 'get_transfers', { in: [{}] }],
    ['an amount below 0', 'listIncoming', 'get_transfers', incoming({ amount: -5 })],
    ['half a piconero', 'listIncoming', 'get_transfers', incoming({ amount: 0.5 })],
    ['an amount over 2^64', 'listIncoming', 'get_transfers', incoming({ amount: '99999999999999999999' })],
    ['an amount that is true', 'listIncoming', 'get_transfers', incoming({ amount: true })],
    ['a hash in upper case', 'listIncoming', 'get_transfers', incoming({ txid: 'AB'.repeat(32) })],
    [
      'an index below 0',
      'listIncoming',
      'get_transfers',
      incoming({ subaddr_index: { major: 0, minor: -1 } }),
    ],
    ['a lock that is null', 'listIncoming', 'get_transfers', incoming({ unlock_time: null })],
    [
      'an address that is none',
      'listOutgoing',
      'get_transfers',
      { out: [{ ...honest, destinations: [{ address: '$ne', amount: 5 }] }] },
    ],
    [
      'a state of its own',
      'findOutgoing',
      'get_transfer_by_txid',
      { transfers: [{ ...honest, type: 'sent' }] },
    ],
    [
      'another transaction',
      'findOutgoing',
      'get_transfer_by_txid',
      { transfers: [{ ...honest, type: 'out', txid: 'cd'.repeat(32) }] },
    ],
    [
      'a sum with an exponent',
      'balance',
      'get_balance',
      { balance: '1e9', unlocked_balance: 0, blocks_to_unlock: 0 },
    ],
    [
      'outputs of wrong types',
      'spentKeyImages',
      'incoming_transfers',
      { transfers: [{ key_image: 5, spent: 'yes' }] },
    ],
  ])('comes of a lie: %s', async (_lie, question, method, result) => {
    const peer = await startBrokenPeer(liar(method, result))
    try {
      await expect(questions[question]?.(openWallet(peer.url))).rejects.toThrow(NodeUnreachable)
    } finally {
      await peer.close()
    }
  })

  it('is not made of an honest answer by the same stand-in: rows of one payment summed, huge numbers kept to the last digit', async () => {
    const huge = '18446744073709551615'
    const other = { ...honest, subaddr_index: { major: 0, minor: 2 } }
    const result = {
      in: [{ ...honest, unlock_time: 'HUGE' }, honest, { ...other, amount: 'HUGE' }],
      pool: [other, { ...other, txid: 'cd'.repeat(32) }],
    }
    const text = JSON.stringify({ jsonrpc: '2.0', result }).replaceAll('"HUGE"', huge)
    const peer = await startBrokenPeer((res, { body }) => {
      if ((body as { method: string }).method === 'get_transfers')
        res.writeHead(200, { 'Content-Type': 'application/json' }).end(text)
      else sendJson(res, 200, { result: { blocks_fetched: 0 } })
    })
    try {
      const payments = await openWallet(peer.url).listIncoming({ sinceHeight: 0 })
      expect(
        payments.map(({ txHash, minor, amountPico, inPool }) => [
          txHash.slice(0, 2),
          minor,
          amountPico,
          inPool,
        ]),
      ).toEqual([
        ['ab', 1, 10n, false],
        ['ab', 2, BigInt(huge), false],
        ['cd', 2, 5n, true],
      ])
    } finally {
      await peer.close()
    }
  })

  const rubbish: [string, Behaviour][] = [
    [
      'an error without number or sentence',
      (res) => sendJson(res, 200, { error: { code: 'x', message: {} } }),
    ],
    ['an error that is null', (res) => sendJson(res, 200, { error: null })],
    ['text', (res) => void res.writeHead(200).end('secret-of-the-node')],
    ['nothing', (res) => void res.writeHead(200).end()],
    ['half a JSON text', (res) => void res.writeHead(200).end('{"result":{"height":')],
    [
      'half an answer',
      (res) => void res.writeHead(200, { 'Content-Length': 1_000 }).write('{"result":', () => res.destroy()),
    ],
    ['a status 500', (res) => refuse(res, 500, 'secret-of-the-node')],
    ['a status 401 without a challenge', (res) => void res.writeHead(401).end()],
    ['no response', (res) => void res.destroy()],
  ]
  it.each(rubbish)('comes of %s', async (_name, behave) => {
    const peer = await startBrokenPeer(behave)
    try {
      const failure = await openWallet(peer.url)
        .getHeight()
        .catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(NodeUnreachable)
      expect(String((failure as Error).stack)).not.toContain('secret-of-the-node')
    } finally {
      await peer.close()
    }
  })

  it.each([
    ['never answers', () => undefined],
    ['never ends its answer', (write: (text: string) => void) => setInterval(() => write('0 '), 5)],
  ] as const)('comes in time of one that %s, and the next call is answered', async (_name, misbehave) => {
    let asked = 0
    let drip: NodeJS.Timeout | undefined
    const peer = await startBrokenPeer((res) => {
      asked += 1
      if (asked > 1) return sendJson(res, 200, { result: { blocks_fetched: 0, height: 7 } })
      res.writeHead(200, { 'Content-Type': 'application/json' }).flushHeaders()
      drip = misbehave((text) => void res.write(text))
      return undefined
    })
    try {
      // Long enough for the answer to the next call, however long this machine stands still meanwhile.
      const wallet = openWallet(peer.url, 4_000)
      await expect(wallet.getHeight()).rejects.toThrow(
        /^refresh at http:\/\/127\.0\.0\.1:\d+ was not answered within 4000 ms$/,
      )
      expect(await wallet.getHeight()).toBe(7)
    } finally {
      clearInterval(drip)
      await peer.close()
    }
  })

  it('comes of one that answers without end before it fills the memory', async () => {
    const flood = Buffer.alloc(1024 * 1024, '0')
    const peer = await startBrokenPeer((res) => {
      res.writeHead(200, { 'Content-Type': 'application/json' }).write('{"result":"')
      const pour = (): void => {
        while (!res.destroyed && res.write(flood));
      }
      res.on('drain', pour)
      pour()
    })
    try {
      await expect(openWallet(peer.url).getHeight()).rejects.toThrow(
        'was answered with more than 26214400 bytes',
      )
    } finally {
      await peer.close()
    }
  })
})
