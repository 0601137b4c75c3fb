import { hash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import { readConfig } from '../../shared/platform/config.ts'
import { noResolutions } from '../../shared/agents/agent.ts'
import { newId } from '../../shared/platform/ids.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import { createLog } from '../../shared/platform/log.ts'
import { makeOffer } from '../../shared/market/offer-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { placeOrder } from '../../shared/market/order-placing.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import { requestPassInvoice } from '../../shared/passes/pass-purchase.ts'
import { parseNanoAddress } from '../../shared/crypto/nano-address.ts'
import { buildReceive, buildSend, workRootOf } from '../../shared/money/coins/nano/nano-blocks.ts'
import {
  openNanoGateway,
  type NanoContext,
  type NanoWallet,
} from '../../shared/money/coins/nano/nano-gateway.ts'
import { createNanoKeys } from '../../shared/money/coins/nano/nano-keys.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'
import { owe, readPayout, setRate } from './coins.ts'
import { hashStateBlock, signHash, workRoot } from '../../devnet/nano-node/block.ts'
import { epochLinks } from '../../devnet/nano-node/ledger.ts'
import { devThresholds, findWork } from '../../devnet/nano-node/work.ts'
import { startNanoNode, type NanoNode, type NanoNodeOptions } from '../../devnet/nano-node/nano-node.ts'
import { checkBooksAfterEach, type ChainHoldings } from './money.ts'
import { emptyCollections, forgetGivenAddresses, isolate, leaveDatabase } from './servers.ts'
import { fillNanoPool, watchNano } from './nano-jobs.ts'
import { closeContext } from '../../shared/context.ts'

export const XNO = 10n ** 30n
/** A day costs 1 USD, and a coin is worth 1 USD here. */
export const DAY_RAW = XNO

const AUTO_CONFIRM_MS = 5
/**
 * As the service has it. The node is in the test's own process, so that whatever holds one of the two up
 * holds up both.
 */
const PATIENCE_MS = 10_000

/**
 * A worker's context on a stand-in node and a seed of its own, with nothing served: a test calls what a job
 * would.
 */
export interface NanoVenue {
  ctx: NanoContext
  node: NanoNode
  wallet: NanoWallet
  /** What another process needs to work on the same venue. */
  env: Record<string, string>
  logged(): string
  advance(ms: number): void
  /** From now on a request to the node is given up after so long; after the usual time where absent. */
  setPatience(timeoutMs?: number): void
  addAgent(): Promise<string>
  /** An agent's invoice for so many days; a new agent's where none is named. */
  invoice(days?: number, agentId?: string): Promise<InvoiceRecord>
  /** An order of 10 USD and its invoice, of two new agents. */
  order(): Promise<{ order: OrderRecord; invoice: InvoiceRecord }>
  /** A confirmed payment. @returns the block's hash, in lower case */
  pay(invoice: Pick<InvoiceRecord, 'address'>, amountRaw: bigint): string
  read(invoice: InvoiceRecord): Promise<InvoiceRecord>
  /** What one of the addresses here holds, and what waits to be received there. */
  holds(address: string): { balanceRaw: bigint; receivableRaw: bigint }
  /** A sum owed to nobody in particular at an address. */
  owe(amountRaw: bigint, address: string, agentId?: string): Promise<PayoutRecord>
  payout(payoutId: string): Promise<PayoutRecord>
  /** As new: nothing on record, another seed, the present time, a node that is well. */
  reset(): Promise<void>
  stop(): Promise<void>
}

export interface VenueOptions {
  node?: NanoNodeOptions
  env?: Record<string, string>
  /** For each request to the node. */
  timeoutMs?: number
}

/**
 * Starts a venue that is ready to make invoices. Our own blocks are confirmed a few milliseconds after they
 * were published.
 */
export async function openNanoVenue(options: VenueOptions = {}): Promise<NanoVenue> {
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-nano-'))
  const seedFile = path.join(folder, 'seed')
  let seeds = 0
  // Other files' venues count from 0 too: what one of them derived, this process remembers.
  const writeSeed = (): void =>
    fs.writeFileSync(seedFile, `${hash('sha256', `seed ${seeds++}`)}\n`, { mode: 0o600 })
  writeSeed()
  const node = await startNanoNode({ autoConfirmMs: AUTO_CONFIRM_MS, ...options.node })
  const env = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    NANO_RPC_URL: node.rpcUrl,
    NANO_WS_URL: node.wsUrl,
    NANO_SEED_FILE: seedFile,
    PAYOUTS: 'automatic',
    DISPUTE_HOLD_MINUTES: '0',
    FREE_UNTIL: 'none',
    ...options.env,
  }
  let lines: string[] = []
  const log = createLog('test', 'debug', { write: (line: string) => void lines.push(line) })
  const config = readConfig(env, 'workers')
  let shiftMs = 0
  const base = openWorkerContext(config, log, { now: () => Date.now() + shiftMs, databaseTimeoutMs: 30_000 })
  await Promise.all([base.database.whenReady(), base.queues.whenReady()])
  const openContext = (timeoutMs = options.timeoutMs ?? PATIENCE_MS): NanoContext => {
    const nano = openNanoGateway(config.nano, log, timeoutMs)
    if (nano === undefined) throw new Error('the settings of this venue name no node')
    return { ...base, nano }
  }
  let ctx = openContext()
  const ready = async (): Promise<void> => {
    await setRate(ctx, 'xno', '1')
    await watchNano(ctx)
    await fillNanoPool(ctx)
  }
  const venue: NanoVenue = {
    get ctx() {
      return ctx
    },
    node,
    get wallet() {
      return ctx.nano.wallet()
    },
    env,
    logged: () => lines.join(''),
    advance(ms) {
      shiftMs += ms
    },
    setPatience(timeoutMs) {
      ctx = openContext(timeoutMs)
    },
    async addAgent() {
      const id = newId('agent')
      await ctx.agents.insert({
        _id: id,
        at: unixSeconds(ctx.now()),
        salt: newSalt(),
        challenge: id,
        token_key: id,
        token_salt: newSalt(),
        token_hash: newSalt(),
        referrals: { paying: 0 },
        record: noResolutions(),
      })
      return id
    },
    async invoice(days = 1, agentId) {
      return (await requestPassInvoice(ctx, agentId ?? (await venue.addAgent()), 'xno', days)).invoice
    },
    async order() {
      const [seller, buyer] = [await venue.addAgent(), await venue.addAgent()]
      const terms = {
        title: 'A translation',
        description: 'Into Esperanto',
        price_usd: 10,
        delivery_hours: 1,
      }
      const offer = await makeOffer(ctx, seller, { ...terms, payout_addresses: { xno: strangerAddress() } })
      return placeOrder(ctx, buyer, { offer_id: offer._id, refund_address: strangerAddress() })
    },
    pay: ({ address }, amountRaw) => node.fund(address, amountRaw, { confirmed: true }).toLowerCase(),
    async read({ _id }) {
      const found = await ctx.invoices.find(_id)
      if (found === undefined) throw new Error(`there is no invoice ${_id}`)
      return found
    },
    holds: (address) => holdings(node, address),
    owe: (amountRaw, address, agentId) => owe(ctx, 'xno', amountRaw, address, agentId),
    payout: (payoutId) => readPayout(ctx, payoutId),
    async reset() {
      const { connection } = ctx.database
      const { Schema: _kept, ...models } = connection.models
      await emptyCollections(connection, Object.values(models))
      for (const name of fs.readdirSync(folder)) fs.rmSync(path.join(folder, name))
      writeSeed()
      // Else addresses go on behind those of the test before, and a reconciliation looks at all of them.
      forgetGivenAddresses(connection)
      shiftMs = 0
      lines = []
      node.lie(null)
      node.setHanging(false)
      node.setAutoConfirm(options.node?.autoConfirmMs ?? AUTO_CONFIRM_MS)
      node.duplicateWebsocketMessages(false)
      node.resetCalls()
      ctx = openContext()
      await ready()
    },
    async stop() {
      await leaveDatabase(ctx.database.connection)
      await closeContext(ctx)
      await node.close()
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
  await ready()
  return venue
}

/**
 * Opens a venue for a test file, which is as new before each of its tests; after each the books have to agree
 * with the chain.
 *
 * @param take keeps the venue once it is open
 */
export function useNanoVenue(take: (opened: NanoVenue) => void, options?: VenueOptions): void {
  let venue: NanoVenue
  beforeAll(async () => {
    venue = await openNanoVenue(options)
    take(venue)
  })
  beforeEach(() => venue.reset())
  checkBooksAfterEach(
    () => venue.ctx,
    () => nanoChain(venue),
  )
  afterAll(() => venue.stop())
}

/**
 * What the stand-in's ledger holds for a venue, past the code under test: at its accounts, on its way between
 * them, and sent to them and on the books. What our own blocks did that are not known to be confirmed is left
 * out, as is what was recorded by hand, is nowhere and isn't given up. Undefined if the coin is halted or has
 * had another seed: then the two need not agree.
 */
export const nanoChain = (venue: NanoVenue): ChainHoldings => ({
  coin: 'xno',
  held: () => heldByLedger(venue),
})

async function heldByLedger({ ctx, node, wallet }: NanoVenue): Promise<bigint | undefined> {
  const { ledger } = node.state
  const { connection } = ctx.database
  const transfers = (await connection
    .collection('transfers')
    .find({ coin: 'xno' })
    .toArray()) as unknown as TransferRecord[]
  const payments = (await connection
    .collection('payments')
    .find({ coin: 'xno', state: 'settled' })
    .toArray()) as unknown as PaymentRecord[]
  const signers = new Set(
    transfers.flatMap(({ account_index: index, signed }) =>
      index === 0 ? [JSON.parse(signed).account as string] : [],
    ),
  )
  if (signers.size > 1 || transfers.some(({ foreign }) => foreign === true)) return undefined
  const coin = await ctx.coins.findCoin('xno')
  if (coin?.halted !== undefined || coin?.treasury_address !== wallet.treasury.address) return undefined
  const known = (await connection.collection('addresses').find({ coin: 'xno' }).toArray()) as unknown as {
    address: string
  }[]
  const keys = new Set(
    [wallet.treasury.address, ...known.map(({ address }) => address)].map(
      (address) => parseNanoAddress(address)?.publicKey ?? '',
    ),
  )
  const counted = new Set(payments.map(({ tx }) => tx))
  let held = 0n
  for (const key of keys) {
    held += ledger.balance(key)
    for (const { hash, amount, source } of ledger.receivablesOf(key))
      if (keys.has(source) || counted.has(hash.toLowerCase())) held += amount
  }
  for (const { tx, kind, state, amount_raw: raw } of transfers) {
    const isThere = ledger.blocks.has(tx.toUpperCase())
    if (kind === 'payout' && isThere !== (state === 'confirmed')) held += isThere ? BigInt(raw) : -BigInt(raw)
  }
  for (const { tx, amount_raw: raw, by, reversed_at: at } of payments)
    if (by === 'operator' && at === undefined && !ledger.blocks.has(tx.toUpperCase())) held += BigInt(raw)
  return held
}

/** From the stand-in's own ledger, past everything under test. */
export function holdings(node: NanoNode, address: string): { balanceRaw: bigint; receivableRaw: bigint } {
  const { ledger } = node.state
  const publicKey = parseNanoAddress(address)?.publicKey ?? ''
  return { balanceRaw: ledger.balance(publicKey), receivableRaw: ledger.receivableSum(publicKey, false) }
}

const strangers = createNanoKeys(randomBytes(32).toString('hex'))
let nextStranger = 0

/** The address of somebody else. */
export function strangerAddress(): string {
  return strangers.deriveAccount(nextStranger++).address
}

/**
 * What somebody else with the seed would do: a block that no record knows of, confirmed. @returns its hash,
 * in lower case
 */
export async function signAndPublish(
  { ctx, node, wallet }: NanoVenue,
  index: number,
  does: { receive: string; amountRaw: bigint } | { sendTo: string; amountRaw: bigint },
): Promise<string> {
  const { rpc } = ctx.nano
  const { address } = wallet.keys.deriveAccount(index)
  const info = await rpc.accountInfo(address)
  const state = {
    account: address,
    frontier: info?.frontier,
    balanceRaw: info?.balanceRaw ?? 0n,
    representative: wallet.treasury.address,
  }
  const block =
    'receive' in does
      ? buildReceive(state, { hash: does.receive.toUpperCase(), amountRaw: does.amountRaw })
      : buildSend(state, { destination: does.sendTo, amountRaw: does.amountRaw })
  const kind = 'receive' in does ? 'receive' : 'send'
  const work = await rpc.generateWork(workRootOf(block), (await rpc.workThresholds())[kind])
  const hash = await rpc.process(
    { ...block, signature: wallet.keys.signBlock(index, block).signature, work },
    kind === 'receive' && info === undefined ? 'open' : kind,
  )
  node.confirm(hash)
  return hash.toLowerCase()
}

/**
 * What the network does to an account when it raises its version: a block that is signed by the genesis key.
 */
export function raiseVersion(node: NanoNode, address: string): void {
  const { ledger } = node.state
  const account = ledger.accounts.get(parseNanoAddress(address)?.publicKey ?? '')
  if (account === undefined) throw new Error(`${address} has no block to raise`)
  const fields = {
    type: 'state' as const,
    account: account.publicKey,
    previous: ledger.frontier(account.publicKey),
    representative: account.representative,
    balance: account.balance,
    link: epochLinks[account.epoch] ?? '',
  }
  const work = findWork(workRoot(fields), devThresholds.epoch1)
  const { status, hash } = node.state.submit({
    ...fields,
    signature: signHash(hashStateBlock(fields), node.genesis.secretKey),
    work,
  })
  if (status !== 'progress') throw new Error(`the epoch block was refused: ${status}`)
  node.confirm(hash)
}
