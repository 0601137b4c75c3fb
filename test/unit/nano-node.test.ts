import { request as httpRequest } from 'node:http'

import { block as signer, tools, wallet } from 'nanocurrency-web'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

import { encodeAddress } from '../../devnet/nano-node/encoding.ts'
import type { NanoNode, NanoNodeOptions } from '../../devnet/nano-node/nano-node.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'
import {
  actionOf,
  maskVolatile,
  notReplayed,
  readTranscript,
  replayTranscript,
} from '../support/nano-replay.ts'
import {
  maskWebsocketMessage,
  readWebsocketTranscript,
  replayWebsocket,
  WebsocketClient,
} from '../support/nano-websocket-replay.ts'
import { findWork, workDifficulty } from '../../devnet/nano-node/work.ts'
import { FULL } from '../support/full.ts'

const xno = 10n ** 30n
const zeros = '0'.repeat(64)
const [alice, bob] = [0, 1].map((index) => deriveKey(index)) as [Key, Key]

interface Key {
  readonly address: string
  readonly publicKey: string
  readonly privateKey: string
}

function deriveKey(index: number): Key {
  const [account] = wallet.legacyAccounts(`${'0'.repeat(62)}2A`, index, index)
  if (account === undefined) throw new Error(`no key ${index}`)
  return account
}

interface SignedBlock {
  readonly account: string
  readonly previous: string
  readonly representative: string
  readonly balance: string
  readonly link: string
  readonly signature: string
  readonly work?: string
}

type Fields = Record<string, unknown>

let node: NanoNode

/** A machine may stand still for seconds. */
const PATIENCE = { timeout: 60_000 }

async function ask(request: Fields): Promise<Fields> {
  const response = await fetch(node.rpcUrl, { method: 'POST', body: JSON.stringify(request) })
  return (await response.json()) as Fields
}

function process(block: SignedBlock, subtype?: string): Promise<Fields> {
  return ask({ action: 'process', json_block: 'true', ...(subtype === undefined ? {} : { subtype }), block })
}

/** Work for a block that stands on `root`: enough for a send, or no more than a receive needs. */
function workFor(root: string, difficulty = 0xffc0000000000000n): string {
  return findWork(root, difficulty).toString(16).padStart(16, '0')
}

function receiveBlock(
  key: Key,
  step: {
    source: string
    amountRaw: bigint
    frontier?: string
    balanceRaw?: bigint
    representative?: string
  },
): SignedBlock {
  const frontier = step.frontier ?? zeros
  return signer.receive(
    {
      walletBalanceRaw: String(step.balanceRaw ?? 0n),
      toAddress: key.address,
      transactionHash: step.source,
      frontier,
      representativeAddress: step.representative ?? node.genesis.address,
      amountRaw: step.amountRaw.toString(),
      work: workFor(frontier === zeros ? key.publicKey : frontier, 0xf000000000000000n),
    },
    key.privateKey,
  )
}

function sendBlock(
  key: Key,
  step: { to: string; amountRaw: bigint; frontier: string; balanceRaw: bigint },
): SignedBlock {
  return signer.send(
    {
      walletBalanceRaw: step.balanceRaw.toString(),
      fromAddress: key.address,
      toAddress: step.to,
      representativeAddress: node.genesis.address,
      frontier: step.frontier,
      amountRaw: step.amountRaw.toString(),
      work: workFor(step.frontier),
    },
    key.privateKey,
  )
}

async function processed(block: SignedBlock, subtype?: string): Promise<string> {
  const answer = await process(block, subtype)
  if (typeof answer['hash'] !== 'string') throw new Error(`refused: ${String(answer['error'])}`)
  return answer['hash']
}

/**
 * Alice's account, opened with what the genesis account sent her; all of it confirmed. Returns her first
 * block's hash.
 */
async function openAlice(amountRaw: bigint): Promise<string> {
  const source = node.fund(alice.address, amountRaw, { confirmed: true })
  const hash = await processed(receiveBlock(alice, { source, amountRaw }), 'open')
  node.confirm(hash)
  return hash
}

async function restartWith(options: NanoNodeOptions): Promise<void> {
  await node.close()
  node = await startNanoNode(options)
}

beforeEach(async () => {
  node = await startNanoNode()
})

afterEach(async () => {
  await node.close()
})

describe('the recordings of a real node', () => {
  it('gives 264 of the 271 recorded RPC answers byte for byte, clocks and random values apart', async () => {
    const transcript = readTranscript()
    const replayed = await replayTranscript(transcript)
    const different = replayed.filter(({ exchange, status, text }) => {
      const action = actionOf(exchange)
      return (
        status !== exchange.status || maskVolatile(action, text) !== maskVolatile(action, exchange.response)
      )
    })
    expect(
      different.map(({ exchange, text }) => ({
        line: exchange.line,
        title: exchange.title,
        recorded: exchange.response,
        answered: text,
      })),
    ).toEqual([])
    expect(replayed).toHaveLength(264)
    expect(transcript).toHaveLength(271)
  })

  it('names each recorded exchange that it leaves out', () => {
    const transcript = readTranscript()
    expect(notReplayed.map(({ line }) => transcript[line - 1]?.title)).toEqual(
      notReplayed.map(({ title }) => title),
    )
    expect(notReplayed).toHaveLength(7)
    expect(notReplayed.every(({ reason }) => reason.length > 0)).toBe(true)
  })

  it('gives all 16 recorded websocket messages and closes where the recorded node closed', async () => {
    const replayed = await replayWebsocket(readWebsocketTranscript())
    for (const { recorded, received } of replayed)
      expect(maskWebsocketMessage(received ?? 'closed')).toBe(maskWebsocketMessage(recorded))
    expect(replayed).toHaveLength(16 + 1)
  })

  it('compares what it masks by form: a number is not a text there', () => {
    expect(maskVolatile('uptime', '{"seconds": "11"}')).toBe('{"seconds": "*"}')
    expect(maskVolatile('uptime', '{"seconds": 11}')).toBe('{"seconds": 11}')
    expect(maskVolatile('uptime', '{"seconds": "soon"}')).toBe('{"seconds": "soon"}')
  })
})

describe('blocks and work it makes itself', () => {
  it('creates a block that another library finds well signed and that it takes', async () => {
    const created = await ask({
      action: 'block_create',
      type: 'state',
      json_block: 'true',
      previous: node.state.ledger.frontier(node.genesis.publicKey),
      account: node.genesis.address,
      representative: node.genesis.address,
      balance: (node.state.ledger.balance(node.genesis.publicKey) - xno).toString(),
      link: alice.address,
      key: node.genesis.secretKey,
    })
    const block = created['block'] as SignedBlock
    expect(tools.verifyBlock(node.genesis.publicKey, block)).toBe(true)
    expect(await process(block, 'send')).toEqual({ hash: created['hash'] })
  })

  it('funds with a block that another library finds well signed, with work enough for a send', async () => {
    const hash = node.fund(alice.address, xno)
    const info = await ask({ action: 'block_info', hash, json_block: 'true' })
    const block = info['contents'] as SignedBlock
    expect(tools.verifyBlock(node.genesis.publicKey, block)).toBe(true)
    expect(workDifficulty(block.previous, BigInt(`0x${block.work}`))).toBeGreaterThanOrEqual(
      0xffc0000000000000n,
    )
  })

  it('generates work that it then validates, and stops a search that is cancelled', async () => {
    const { work, difficulty } = await ask({ action: 'work_generate', hash: alice.publicKey })
    expect(await ask({ action: 'work_validate', hash: alice.publicKey, work })).toMatchObject({
      valid_all: '1',
      valid_receive: '1',
      difficulty,
    })

    await restartWith({
      thresholds: {
        epoch1: 0xffffffffff000000n,
        epoch2: 0xffffffffff000000n,
        epoch2Receive: 0xffffffffff000000n,
      },
      genesisEpoch: 0,
    })
    const endless = ask({ action: 'work_generate', hash: alice.publicKey })
    await vi.waitFor(async () => {
      await ask({ action: 'work_cancel', hash: alice.publicKey })
      expect(node.calls('work_generate')).toBe(1)
    }, PATIENCE)
    expect(await endless).toEqual({ error: 'Cancelled' })
  })

  it('sends from a version 2 account unless told otherwise, as the live network does', async () => {
    const hash = node.fund(alice.address, xno, { confirmed: true })
    expect(await ask({ action: 'receivable', account: alice.address, min_version: 'true' })).toEqual({
      blocks: { [hash]: { amount: String(xno), min_version: '2' } },
    })
  })
})

describe('a block that is refused', () => {
  let frontier: string

  beforeEach(async () => {
    frontier = await openAlice(10n * xno)
  })

  const send = (to = bob.address, amountRaw = xno): SignedBlock =>
    sendBlock(alice, { to, amountRaw, frontier, balanceRaw: 10n * xno })

  async function expectRefused(block: SignedBlock, error: string, subtype?: string): Promise<void> {
    const before = [
      await ask({ action: 'block_count' }),
      await ask({ action: 'account_info', account: alice.address }),
    ]
    expect(await process(block, subtype)).toEqual({ error })
    const after = [
      await ask({ action: 'block_count' }),
      await ask({ action: 'account_info', account: alice.address }),
    ]
    // A block with a gap is kept aside, so only that count may have grown.
    expect(after.map((fields) => ({ ...fields, unchecked: '' }))).toEqual(
      before.map((fields) => ({ ...fields, unchecked: '' })),
    )
  }

  it.each([0, 255, 256, 511])('has bit %i of its signature flipped', async (bit) => {
    const block = send()
    const signature = Buffer.from(block.signature, 'hex')
    signature.writeUInt8(signature.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
    await expectRefused({ ...block, signature: signature.toString('hex') }, 'Bad signature')
    expect(await process(block)).toHaveProperty('hash')
  })

  it.each(['representative', 'balance', 'link'] as const)(
    'has another %s than the one signed',
    async (field) => {
      const other = { representative: bob.address, balance: String(10n * xno - 1n), link: alice.publicKey }[
        field
      ]
      await expectRefused({ ...send(), [field]: other }, 'Bad signature')
    },
  )

  it('is signed with another key', async () => {
    const asBob = sendBlock(
      { ...alice, privateKey: bob.privateKey },
      { to: bob.address, amountRaw: xno, frontier, balanceRaw: 10n * xno },
    )
    await expectRefused({ ...send(), signature: asBob.signature }, 'Bad signature')
  })

  it('has work below what every block needs', async () => {
    let work = 0n
    while (workDifficulty(frontier, work) >= 0xf000000000000000n) work += 1n
    await expectRefused({ ...send(), work: work.toString(16) }, 'Block work is less than threshold')
  })

  it('has work enough for a receive but is a send', async () => {
    let work = 0n
    while (!(
      workDifficulty(frontier, work) >= 0xf000000000000000n &&
      workDifficulty(frontier, work) < 0xffc0000000000000n
    ))
      work += 1n
    await expectRefused({ ...send(), work: work.toString(16) }, 'Block work is insufficient')
  })

  it('stands where another block stands already', async () => {
    await processed(send())
    await expectRefused(send(bob.address, 2n * xno), 'Fork')
    await expectRefused(
      receiveBlock(alice, { source: node.fund(alice.address, xno), amountRaw: xno }),
      'Fork',
    )
  })

  it('follows a block nobody has seen', async () => {
    await expectRefused(
      sendBlock(alice, { to: bob.address, amountRaw: xno, frontier: 'EF'.repeat(32), balanceRaw: 10n * xno }),
      'Gap previous block',
    )
  })

  it('receives from a block nobody has seen', async () => {
    await expectRefused(
      receiveBlock(alice, { source: 'CD'.repeat(32), amountRaw: xno, frontier, balanceRaw: 10n * xno }),
      'Gap source block',
    )
  })

  it('receives another amount than was sent', async () => {
    const source = node.fund(alice.address, xno)
    await expectRefused(
      receiveBlock(alice, { source, amountRaw: xno + 1n, frontier, balanceRaw: 10n * xno }),
      'Balance and amount delta do not match',
    )
    await expectRefused(
      receiveBlock(alice, { source, amountRaw: xno - 1n, frontier, balanceRaw: 10n * xno }),
      'Balance and amount delta do not match',
    )
  })

  it('changes the representative and the balance at once', async () => {
    const change = signer.representative(
      {
        walletBalanceRaw: String(11n * xno),
        address: alice.address,
        representativeAddress: bob.address,
        frontier,
        work: workFor(frontier),
      },
      alice.privateKey,
    )
    await expectRefused(change, 'Balance and amount delta do not match')
  })

  it('receives what was received before', async () => {
    const source = node.fund(alice.address, xno)
    const first = await processed(
      receiveBlock(alice, { source, amountRaw: xno, frontier, balanceRaw: 10n * xno }),
    )
    await expectRefused(
      receiveBlock(alice, { source, amountRaw: xno, frontier: first, balanceRaw: 11n * xno }),
      'Unreceivable',
    )
  })

  it('receives what was sent to somebody else', async () => {
    const source = node.fund(bob.address, xno)
    await expectRefused(
      receiveBlock(alice, { source, amountRaw: xno, frontier, balanceRaw: 10n * xno }),
      'Unreceivable',
    )
  })

  it('was taken before; with a subtype a send is told so in other words', async () => {
    const block = send()
    await processed(block, 'send')
    await expectRefused(block, 'Old block')
    await expectRefused(block, 'Invalid block balance for given subtype', 'send')
  })
})

describe('confirmation', () => {
  it('shows a send to its receiver only once it is confirmed', async () => {
    const hash = node.fund(alice.address, xno)
    expect(await ask({ action: 'receivable', account: alice.address })).toEqual({ blocks: '' })
    const balances = (): Promise<Fields> => ask({ action: 'accounts_balances', accounts: [alice.address] })
    expect(await balances()).toEqual({
      balances: { [alice.address]: { balance: '0', pending: '0', receivable: '0' } },
    })
    node.confirm(hash)
    expect(await ask({ action: 'receivable', account: alice.address })).toEqual({ blocks: [hash] })
    expect(await balances()).toEqual({
      balances: { [alice.address]: { balance: '0', pending: String(xno), receivable: String(xno) } },
    })
  })

  it('of a block confirms first what the block rests on', async () => {
    const client = await WebsocketClient.connect(node.wsUrl)
    client.send({ action: 'subscribe', topic: 'confirmation', ack: true })
    await client.next()
    const source = node.fund(alice.address, xno)
    const receive = await processed(receiveBlock(alice, { source, amountRaw: xno }), 'open')
    node.confirm(receive)
    const messages = [await client.nextFields(), await client.nextFields()].map(
      ({ message }) => message as Fields,
    )
    expect(messages.map(({ hash, confirmation_type: type }) => ({ hash, type }))).toEqual([
      { hash: source, type: 'active_confirmation_height' },
      { hash: receive, type: 'active_quorum' },
    ])
    expect(await ask({ action: 'block_count' })).toEqual({ count: '5', unchecked: '0', cemented: '5' })
    client.close()
  })

  it('comes by itself when asked for, and blocks say so', async () => {
    await restartWith({ autoConfirmMs: 5 })
    const source = node.fund(alice.address, xno)
    const receive = await processed(receiveBlock(alice, { source, amountRaw: xno }), 'open')
    await vi.waitFor(
      async () =>
        expect(await ask({ action: 'block_info', hash: receive })).toMatchObject({ confirmed: 'true' }),
      PATIENCE,
    )
    node.setAutoConfirm(null)
    const later = node.fund(alice.address, xno)
    expect(await ask({ action: 'block_info', hash: later })).toMatchObject({ confirmed: 'false' })
  })

  it('history is lost at a restart; the ledger is not', async () => {
    const hash = node.fund(alice.address, xno, { confirmed: true })
    expect(await ask({ action: 'confirmation_history', hash })).toMatchObject({
      confirmation_stats: { count: '1' },
    })
    node.restart()
    expect(await ask({ action: 'confirmation_history', hash })).toEqual({
      confirmation_stats: { count: '0' },
      confirmations: '',
    })
    expect(await ask({ action: 'block_info', hash })).toMatchObject({ confirmed: 'true' })
  })
})

describe('a decision the other way', () => {
  it('takes out an unconfirmed send, its receive and all that followed, as if they had never been', async () => {
    const before = [...node.state.ledger.weights]
    const first = node.fund(alice.address, 5n * xno)
    const second = node.fund(bob.address, xno)
    const open = await processed(
      receiveBlock(alice, { source: first, amountRaw: 5n * xno, representative: bob.address }),
      'open',
    )
    const payment = await processed(
      sendBlock(alice, { to: bob.address, amountRaw: xno, frontier: open, balanceRaw: 5n * xno }),
      'send',
    )
    expect([...node.rollback(first)].sort()).toEqual([first, second, open, payment].sort())
    expect(await ask({ action: 'account_info', account: alice.address })).toEqual({
      error: 'Account not found',
    })
    expect(await ask({ action: 'blocks_info', hashes: [first, open], include_not_found: true })).toEqual({
      blocks: '',
      blocks_not_found: [first, open],
    })
    expect(
      await ask({
        action: 'receivable',
        account: bob.address,
        include_only_confirmed: false,
        include_active: true,
      }),
    ).toEqual({
      blocks: '',
    })
    expect(await ask({ action: 'block_count' })).toEqual({ count: '3', unchecked: '0', cemented: '3' })
    expect([...node.state.ledger.weights]).toEqual(before)
    expect(node.state.ledger.receivables.size).toBe(0)
  })

  it('makes what a rolled-back block had received receivable again', async () => {
    const frontier = await openAlice(xno)
    const source = node.fund(alice.address, 2n * xno, { confirmed: true })
    const receive = await processed(
      receiveBlock(alice, { source, amountRaw: 2n * xno, frontier, balanceRaw: xno }),
      'receive',
    )
    expect(await ask({ action: 'account_balance', account: alice.address })).toEqual({
      balance: String(xno),
      pending: '0',
      receivable: '0',
    })
    node.rollback(receive)
    expect(await ask({ action: 'account_balance', account: alice.address })).toEqual({
      balance: String(xno),
      pending: String(2n * xno),
      receivable: String(2n * xno),
    })
    expect(
      await processed(
        receiveBlock(alice, { source, amountRaw: 2n * xno, frontier, balanceRaw: xno }),
        'receive',
      ),
    ).toBe(receive)
  })

  it('takes out a send to oneself together with its receive', async () => {
    const frontier = await openAlice(3n * xno)
    const send = await processed(
      sendBlock(alice, { to: alice.address, amountRaw: xno, frontier, balanceRaw: 3n * xno }),
      'send',
    )
    await processed(
      receiveBlock(alice, { source: send, amountRaw: xno, frontier: send, balanceRaw: 2n * xno }),
      'receive',
    )
    expect(node.rollback(send)).toHaveLength(2)
    expect(await ask({ action: 'account_info', account: alice.address })).toMatchObject({
      frontier,
      balance: String(3n * xno),
      block_count: '1',
    })
  })

  it('never touches a confirmed block', async () => {
    const hash = node.fund(alice.address, xno, { confirmed: true })
    expect(() => node.rollback(hash)).toThrow(`block ${hash} is confirmed`)
    expect(() => node.rollback('AB'.repeat(32))).toThrow('no block')
  })

  it('puts a forced fork in the place of an unconfirmed block, never of a confirmed one', async () => {
    const frontier = await openAlice(5n * xno)
    const first = await processed(
      sendBlock(alice, { to: bob.address, amountRaw: xno, frontier, balanceRaw: 5n * xno }),
    )
    const fork = sendBlock(alice, { to: bob.address, amountRaw: 2n * xno, frontier, balanceRaw: 5n * xno })
    const { hash } = await ask({ action: 'process', json_block: true, force: true, block: fork })
    expect(await ask({ action: 'block_info', hash: first })).toEqual({ error: 'Block not found' })
    node.confirm(String(hash))
    await ask({
      action: 'process',
      json_block: true,
      force: true,
      block: sendBlock(alice, { to: bob.address, amountRaw: xno, frontier, balanceRaw: 5n * xno }),
    })
    expect(await ask({ action: 'account_info', account: alice.address })).toMatchObject({
      frontier: hash,
      balance: String(3n * xno),
    })
  })
})

it('takes a block with a gap as soon as the gap is filled', async () => {
  const frontier = await openAlice(5n * xno)
  const first = sendBlock(alice, { to: bob.address, amountRaw: xno, frontier, balanceRaw: 5n * xno })
  const { hash: firstHash } = await ask({ action: 'block_hash', json_block: true, block: first })
  const second = sendBlock(alice, {
    to: bob.address,
    amountRaw: xno,
    frontier: String(firstHash),
    balanceRaw: 4n * xno,
  })
  expect(await process(second)).toEqual({ error: 'Gap previous block' })
  expect(await ask({ action: 'block_count' })).toMatchObject({ unchecked: '1' })
  await processed(first)
  expect(await ask({ action: 'account_info', account: alice.address })).toMatchObject({
    balance: String(3n * xno),
    block_count: '3',
  })
  expect(await ask({ action: 'block_count' })).toMatchObject({ unchecked: '0' })
})

describe('the websocket', () => {
  let client: WebsocketClient

  async function subscribe(topic: string, options?: Fields): Promise<void> {
    client.send({ action: 'subscribe', topic, ack: true, ...(options === undefined ? {} : { options }) })
    expect(await client.nextFields()).toMatchObject({ ack: 'subscribe' })
  }

  async function nextHash(): Promise<unknown> {
    const { message } = await client.nextFields()
    return (message as Fields)['hash']
  }

  beforeEach(async () => {
    client = await WebsocketClient.connect(node.wsUrl)
  })

  afterEach(() => client.close())

  it('filters by either side of a payment, in both spellings of an address', async () => {
    await subscribe('confirmation', { accounts: [alice.address.replace('nano_', 'xrb_')] })
    node.fund(bob.address, xno, { confirmed: true })
    const toAlice = node.fund(alice.address, xno, { confirmed: true })
    expect(await nextHash()).toBe(toAlice)
    const open = await processed(receiveBlock(alice, { source: toAlice, amountRaw: xno }))
    node.confirm(open)
    expect(await nextHash()).toBe(open)
  })

  it('filters by how a block was confirmed', async () => {
    await subscribe('confirmation', { confirmation_type: 'active_quorum', include_block: 'false' })
    node.fund(alice.address, xno)
    const second = node.fund(alice.address, xno, { confirmed: true })
    const message = await client.nextFields()
    expect(message).toMatchObject({
      topic: 'confirmation',
      message: { hash: second, confirmation_type: 'active_quorum' },
    })
    expect(message['message']).not.toHaveProperty('block')
  })

  it('loses and repeats messages when the test says so', async () => {
    await subscribe('confirmation')
    node.dropNextWebsocketMessages(2)
    node.fund(alice.address, xno, { confirmed: true })
    node.fund(alice.address, xno, { confirmed: true })
    node.duplicateWebsocketMessages(true)
    const third = node.fund(alice.address, xno, { confirmed: true })
    expect([await nextHash(), await nextHash()]).toEqual([third, third])
    expect(node.websocket.dropped).toBe(2)
    expect(node.websocket.sent).toBe(2)
  })

  it('repeats the message when a confirmed block is confirmed once more by request', async () => {
    await subscribe('confirmation')
    const hash = node.fund(alice.address, xno, { confirmed: true })
    await ask({ action: 'block_confirm', hash })
    expect([await nextHash(), await nextHash()]).toEqual([hash, hash])
  })

  it('cuts every connection on demand and takes new ones', async () => {
    await subscribe('confirmation')
    expect(node.websocket.subscribers('confirmation')).toBe(1)
    node.disconnectWebsockets()
    expect(await client.next()).toBeNull()
    client = await WebsocketClient.connect(node.wsUrl)
    await subscribe('confirmation')
  })
})

describe('faults', () => {
  const version = { action: 'version' }

  it('refuses connections while down, also to the websocket, and comes back on the same ports with its ledger', async () => {
    const hash = node.fund(alice.address, xno, { confirmed: true })
    const client = await WebsocketClient.connect(node.wsUrl)
    await node.setDown(true)
    expect(await client.next()).toBeNull()
    await expect(ask(version)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
    await expect(WebsocketClient.connect(node.wsUrl)).rejects.toThrow('no websocket')
    await node.setDown(false)
    expect(await ask({ action: 'block_info', hash })).toMatchObject({ confirmed: 'true' })
  })

  it('comes back once, though two faults have taken it down and each is healed', async () => {
    await node.setDown(true)
    await node.setDown(true)
    await node.setDown(false)
    await node.setDown(false)
    expect(await ask(version)).toHaveProperty('rpc_version')
  })

  it('hangs: a request is neither carried out nor answered until it is let go', async () => {
    const block = receiveBlock(alice, {
      source: node.fund(alice.address, xno, { confirmed: true }),
      amountRaw: xno,
    })
    node.setHanging(true)
    const impatience = new AbortController()
    const impatient = fetch(node.rpcUrl, {
      method: 'POST',
      body: JSON.stringify(version),
      signal: impatience.signal,
    })
    const isGone = expect(impatient).rejects.toThrow('waited long enough')
    await vi.waitFor(() => expect(node.waitingRequests()).toBe(1), PATIENCE)
    impatience.abort(new Error('waited long enough'))
    await isGone
    let isAnswered = false
    const answer = process(block).then((fields) => {
      isAnswered = true
      return fields
    })
    // The impatient caller is gone, its request is not.
    await vi.waitFor(() => expect(node.waitingRequests()).toBe(2), PATIENCE)
    expect(node.state.ledger.accounts.has(alice.publicKey)).toBe(false)
    expect(isAnswered).toBe(false)
    node.setHanging(false)
    expect(await answer).toHaveProperty('hash')
  })

  it('lies: another body, another status, half an answer', async () => {
    node.lie(({ action, answerText }) =>
      action === 'block_count' ? answerText.replace('"3"', '3') : undefined,
    )
    expect(await ask({ action: 'block_count' })).toMatchObject({ count: 3 })
    expect(await ask(version)).toMatchObject({ network: 'dev' })
    node.lie(() => ({ status: 502, body: '<html>' }))
    const wrong = await fetch(node.rpcUrl, { method: 'POST', body: JSON.stringify(version) })
    expect([wrong.status, await wrong.text()]).toEqual([502, '<html>'])
    node.lie(() => ({ cutAfterBytes: 10 }))
    await expect(ask(version)).rejects.toThrow('terminated')
    node.lie(null)
    expect(await ask(version)).toMatchObject({ network: 'dev' })
  })

  it('has carried out what it lies about', async () => {
    const source = node.fund(alice.address, xno, { confirmed: true })
    node.lie(() => ({ cutAfterBytes: 0 }))
    await expect(process(receiveBlock(alice, { source, amountRaw: xno }))).rejects.toThrow()
    node.lie(null)
    expect(await ask({ action: 'account_info', account: alice.address })).toMatchObject({
      balance: String(xno),
    })
  })

  it('is not brought down by a caller that goes away in the middle of a request', async () => {
    await new Promise<void>((resolve) => {
      const request = httpRequest(node.rpcUrl, { method: 'POST', headers: { 'content-length': 100 } })
      request.on('error', () => resolve())
      request.write('{"action"', () => request.destroy())
    })
    expect(await ask(version)).toMatchObject({ network: 'dev' })
  })

  it('counts requests by action', async () => {
    await ask(version)
    await ask(version)
    await ask({ action: 'block_count' })
    expect([node.calls('version'), node.calls('block_count'), node.calls('process'), node.calls()]).toEqual([
      2, 1, 0, 3,
    ])
    node.resetCalls()
    expect(node.calls()).toBe(0)
  })
})

const ACCOUNTS = FULL ? 10_000 : 2_000

it(`holds ${ACCOUNTS} accounts and answers for half of them at once`, async () => {
  const half = ACCOUNTS / 2
  const addresses = Array.from({ length: ACCOUNTS }, (_, index) =>
    encodeAddress((index + 1).toString(16).toUpperCase().padStart(64, '0')),
  )
  const hashes = node.fundMany(addresses.map((address, index) => ({ address, amountRaw: BigInt(index + 1) })))
  const asked = addresses.slice(-half)
  const { blocks } = (await ask({ action: 'accounts_receivable', accounts: asked, source: 'true' })) as {
    blocks: Record<string, Fields>
  }
  expect(Object.keys(blocks)).toEqual(asked)
  expect(blocks[asked[0] ?? '']).toEqual({
    [hashes[half] ?? '']: { amount: String(half + 1), source: node.genesis.address },
  })
  const { balances } = (await ask({ action: 'accounts_balances', accounts: asked })) as {
    balances: Record<string, Fields>
  }
  expect(balances[asked.at(-1) ?? '']).toEqual({
    balance: '0',
    pending: String(ACCOUNTS),
    receivable: String(ACCOUNTS),
  })
  expect(await ask({ action: 'block_count' })).toEqual({
    count: String(ACCOUNTS + 3),
    unchecked: '0',
    cemented: String(ACCOUNTS + 3),
  })
  // Paying one of them goes on from there as ever, signature and work included.
  expect(await ask({ action: 'block_info', hash: node.fund(addresses[0] ?? '', xno) })).toMatchObject({
    height: String(ACCOUNTS + 4),
    confirmed: 'false',
  })
})
