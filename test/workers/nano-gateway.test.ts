import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createLog } from '../../shared/platform/log.ts'
import type { NanoBlock, NanoSubtype, UnsignedNanoBlock } from '../../shared/money/coins/nano/nano-blocks.ts'
import { buildReceive, buildSend, workRootOf } from '../../shared/money/coins/nano/nano-blocks.ts'
import type { NanoAccount, NanoKeys } from '../../shared/money/coins/nano/nano-keys.ts'
import { createNanoKeys, TREASURY_INDEX } from '../../shared/money/coins/nano/nano-keys.ts'
import type { NanoAccountInfo, NanoRpc } from '../../shared/money/coins/nano/nano-rpc.ts'
import { createNanoRpc } from '../../shared/money/coins/nano/nano-rpc.ts'
import type { NanoConfirmation } from '../../shared/money/coins/nano/nano-websocket.ts'
import { watchNanoConfirmations } from '../../shared/money/coins/nano/nano-websocket.ts'
import { NodeRefused } from '../../shared/money/node-errors.ts'
import type { TestNetwork } from '../support/nano-test-network.ts'
import { openTestNetwork } from '../support/nano-test-network.ts'
import { buildChange } from '../support/nano-change.ts'

/**
 * What watcher, sweeper and sender stand on, in the order in which they use it. The stand-in, or a real dev
 * node: see nano-test-network.ts. A seed of its own each time, so that a node that keeps its ledger does no
 * harm.
 */
const xno = 10n ** 30n
const dust = 10n ** 24n
const log = createLog('test', 'silent')

let network: TestNetwork
let rpc: NanoRpc
let keys: NanoKeys
let invoice: NanoAccount
let treasury: NanoAccount
let payee: NanoAccount

beforeAll(async () => {
  network = await openTestNetwork()
  rpc = createNanoRpc({ url: network.rpcUrl, log, timeoutMs: 10_000 })
  keys = createNanoKeys(randomBytes(32).toString('hex'))
  treasury = keys.deriveAccount(TREASURY_INDEX)
  invoice = keys.deriveAccount(1)
  payee = keys.deriveAccount(2)
})

afterAll(() => network.close())

async function finish(
  index: number,
  block: UnsignedNanoBlock,
  kind: 'send' | 'receive',
): Promise<NanoBlock & { hash: string }> {
  const work = await rpc.generateWork(workRootOf(block), (await rpc.workThresholds())[kind])
  return { ...block, ...keys.signBlock(index, block), work }
}

async function publish(block: NanoBlock & { hash: string }, subtype: NanoSubtype): Promise<void> {
  expect(await rpc.process(block, subtype)).toBe(block.hash)
  await network.confirmed(block.hash)
}

async function opened(account: NanoAccount): Promise<NanoAccountInfo> {
  const info = await rpc.accountInfo(account.address)
  if (info === undefined) throw new Error(`account ${account.index} has no block`)
  return info
}

describe('an invoice, its payment, and the way of the money', () => {
  it('shows nothing of an account that nobody has paid', async () => {
    expect(await rpc.accountInfo(invoice.address)).toBeUndefined()
    expect(await rpc.receivable([invoice.address, payee.address], dust)).toEqual(new Map())
  })

  it('finds two confirmed payments, the larger first, with the sends they came by', async () => {
    const small = await network.fund(invoice.address, 2n * dust)
    const large = await network.fund(invoice.address, 3n * xno)
    expect(await rpc.receivable([payee.address, invoice.address], dust)).toEqual(
      new Map([
        [
          invoice.address,
          [
            { hash: large, amountRaw: 3n * xno },
            { hash: small, amountRaw: 2n * dust },
          ],
        ],
      ]),
    )
    expect(await rpc.receivable([invoice.address], xno)).toEqual(
      new Map([[invoice.address, [{ hash: large, amountRaw: 3n * xno }]]]),
    )
    const sends = await rpc.blocksInfo([small, large, 'AB'.repeat(32)])
    expect(
      [...sends.values()].map(({ subtype, confirmed, amountRaw, receivedBy, block }) => [
        subtype,
        confirmed,
        amountRaw,
        receivedBy,
        block?.link,
      ]),
    ).toEqual([
      ['send', true, 2n * dust, undefined, invoice.publicKey],
      ['send', true, 3n * xno, undefined, invoice.publicKey],
    ])
  })

  it('receives them into the invoice account: an open, then a receive', async () => {
    for (const { hash, amountRaw } of (await rpc.receivable([invoice.address], dust)).get(invoice.address) ??
      []) {
      const info = await rpc.accountInfo(invoice.address)
      const state = {
        account: invoice.address,
        frontier: info?.frontier,
        balanceRaw: info?.balanceRaw ?? 0n,
        representative: treasury.address,
      }
      const block = await finish(1, buildReceive(state, { hash, amountRaw }), 'receive')
      await publish(block, info === undefined ? 'open' : 'receive')
      expect((await rpc.blockInfo(hash))?.receivedBy).toBe(block.hash)
    }
    expect(await rpc.receivable([invoice.address], dust)).toEqual(new Map())
    const info = await opened(invoice)
    expect(info).toMatchObject({
      height: 2,
      balanceRaw: 3n * xno + 2n * dust,
      confirmedFrontier: info?.frontier,
      representative: treasury.address,
    })
  })

  it('sweeps the whole balance into the treasury, tells it over the websocket, and says no to the same send again', async () => {
    const heard: NanoConfirmation[] = []
    const states: string[] = []
    const watch = watchNanoConfirmations({
      url: network.wsUrl ?? 'ws://127.0.0.1:9',
      log,
      onConfirmation: (confirmation) => heard.push(confirmation),
      onState: (state) => states.push(state),
    })
    if (network.wsUrl !== undefined)
      await vi.waitFor(() => expect(states).toEqual(['listening']), { timeout: 60_000 })
    const info = await opened(invoice)
    const state = { ...info, account: invoice.address }
    const send = await finish(
      1,
      buildSend(state, { destination: treasury.address, amountRaw: info.balanceRaw }),
      'send',
    )
    await publish(send, 'send')
    const amountRaw = 3n * xno + 2n * dust
    if (network.wsUrl !== undefined) {
      await vi.waitFor(
        () => expect(heard).toContainEqual({ destination: treasury.address, hash: send.hash, amountRaw }),
        {
          timeout: 60_000,
        },
      )
    }
    watch.close()

    const again = await rpc.process(send, 'send').catch((error: unknown) => error)
    expect(again).toBeInstanceOf(NodeRefused)
    expect(['Old block', 'Invalid block balance for given subtype']).toContain((again as NodeRefused).reason)
    expect(await rpc.blockInfo(send.hash)).toMatchObject({
      confirmed: true,
      subtype: 'send',
      amountRaw,
      balanceRaw: 0n,
      block: { link: treasury.publicKey },
    })
    expect(await opened(invoice)).toMatchObject({
      balanceRaw: 0n,
      confirmedBalanceRaw: 0n,
      frontier: send.hash,
    })
  })

  it('takes it into the treasury and pays out from there; a fork of the payout is refused', async () => {
    const [waiting] = (await rpc.receivable([treasury.address], dust)).get(treasury.address) ?? []
    if (waiting === undefined) throw new Error('nothing was swept')
    const unopened = {
      account: treasury.address,
      frontier: undefined,
      balanceRaw: 0n,
      representative: treasury.address,
    }
    await publish(await finish(TREASURY_INDEX, buildReceive(unopened, waiting), 'receive'), 'open')
    const info = await opened(treasury)
    const state = { ...info, account: treasury.address }
    const payout = await finish(
      TREASURY_INDEX,
      buildSend(state, { destination: payee.address, amountRaw: xno }),
      'send',
    )
    const rival = { ...payout, ...buildSend(state, { destination: payee.address, amountRaw: 2n * xno }) }
    await publish(payout, 'send')
    const refused = await rpc
      .process({ ...rival, ...keys.signBlock(TREASURY_INDEX, rival) }, 'send')
      .catch((error: unknown) => error)
    expect(refused).toMatchObject({ name: 'NodeRefused', reason: 'Fork' })
    expect(await rpc.receivable([payee.address], dust)).toEqual(
      new Map([[payee.address, [{ hash: payout.hash, amountRaw: xno }]]]),
    )
  })

  it('names another representative for the treasury', async () => {
    const info = await opened(treasury)
    const change = await finish(
      TREASURY_INDEX,
      buildChange({ ...info, account: treasury.address }, payee.address),
      'send',
    )
    await publish(change, 'change')
    expect(await opened(treasury)).toMatchObject({
      representative: payee.address,
      balanceRaw: info.balanceRaw,
      height: 3,
    })
  })

  it('knows the network, and counts its blocks', async () => {
    expect(await rpc.network()).toBe('dev')
    const { count, cemented } = await rpc.blockCount()
    expect(count).toBeGreaterThanOrEqual(9)
    expect(cemented).toBeLessThanOrEqual(count)
  })
})
