import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  startMoneroRegtest,
  type MoneroPrograms,
  type MoneroRegtest,
  type RegtestWallet,
} from '../../../devnet/monero-regtest/regtest.ts'
import { createSerializer } from '../../../shared/platform/serializer.ts'
import { StartError } from '../../../shared/platform/process.ts'
import { findProgram } from '../../../scripts/prepare.mjs'
import type { History } from '../world/history.ts'
import { openMoneroGate, type MoneroGate } from './monero-gate.ts'

/** A payment in Monero that an agent asked for. */
export interface AskedPayment {
  who: string
  address: string
  amountPico: bigint
  invoiceId: string
}

/** One that was made: its transaction was in monerod's pool. */
export interface MadePayment extends AskedPayment {
  tx: string
  /** The block number below which its money is locked; 0: it is not. */
  unlockHeight: number
}

/** Where the chain and its wallets stand. */
export interface Survey {
  /** How many blocks there are. */
  height: number
  /** Transactions that are in a block, with its number, or in the pool; those asked for and absent are nowhere. */
  places: ReadonlyMap<string, number | 'pool'>
}

/** The coin's network: a real private chain, on which blocks are mined and the agents' payments made. */
export interface Monero {
  /** Settings for the service's processes. */
  readonly env: Readonly<Record<string, string>>
  readonly regtest: MoneroRegtest
  /** The service's monero-wallet-rpc, and the gate before it. */
  readonly wallet: RegtestWallet
  readonly gate: MoneroGate
  readonly made: readonly MadePayment[]
  /** What went wrong with mining or paying, each kind once. */
  readonly troubles: ReadonlySet<string>
  /** An agent's own address, always the same. */
  addressOf(name: string): Promise<string>
  /** The same, if it was asked for before. */
  knownAddress(name: string): string | undefined
  /** Has a payment made soon, with others in one transaction. */
  pay(payment: AskedPayment): void
  /** How many payments have yet to be made. */
  waiting(): number
  /** Has the next payment locked, for so many blocks. */
  lockNext(blocks: number): void
  /** Runs `work` while no block is mined and no payment made. */
  alone<T>(work: () => Promise<T>): Promise<T>
  /** Replaces the newest blocks by as many and one more, see MoneroRegtest. */
  reorganise(blocks: number, keepsTransactions: boolean): Promise<void>
  /**
   * When the chain first had so many blocks, on the history's clock, or a little before; undefined if it never
   * had.
   */
  reachedAtMs(height: number): number | undefined
  survey(txs: readonly string[]): Promise<Survey>
  /** The sum of all payments to an agent's address that are in blocks, in piconero. */
  arrivedAt(name: string): Promise<bigint>
  close(): Promise<void>
}

export const CONFIRMATIONS = 2
const BLOCK_EVERY_MS = 1_000
/** Of one transaction, without the change. */
const MOST_DESTINATIONS = 15
/** What the service's wallet has at first, in parts that can be spent one by one; it pays the fees. */
const FIRST_PARTS = 15
const FIRST_PART_PICO = 3n * 10n ** 12n
/** After so many blocks money can be spent. */
const UNLOCK_BLOCKS = 10

/** Starts the chain and the wallets, and mines from then on. @throws StartError without Monero's programs */
export async function startMonero(history: History): Promise<Monero> {
  const regtest = await startMoneroRegtest({ programs: requireMonero(), home: os.tmpdir() })
  try {
    const [wallet, payee] = [await regtest.openWallet('venue'), await regtest.openWallet('payee')]
    const first = { address: wallet.address, amountPico: FIRST_PART_PICO }
    await regtest.payer.pay(Array.from({ length: FIRST_PARTS }, () => first))
    await regtest.generate(UNLOCK_BLOCKS)
    const gate = await openMoneroGate(Number(new URL(wallet.url).port))
    return run(history, regtest, wallet, payee, gate)
  } catch (error) {
    await regtest.close()
    throw error
  }
}

function run(
  history: History,
  regtest: MoneroRegtest,
  wallet: RegtestWallet,
  payee: RegtestWallet,
  gate: MoneroGate,
): Monero {
  const url = new URL(wallet.url)
  url.port = String(gate.port)
  const serialize = createSerializer()
  const alone = <T>(work: () => Promise<T>): Promise<T> => serialize('chain', work)
  const asked: AskedPayment[] = []
  const made: MadePayment[] = []
  const troubles = new Set<string>()
  /** How many blocks there were after each growth, ascending, and when that began. */
  const growths: { height: number; sinceMs: number }[] = []
  const payees = new Map<string, { address: string; minor: number }>()
  let lockBlocks = 0
  let isClosing = false

  /** Whether the payer's wallet gave no answer to a payment, which it may have made. */
  let isUnsure = false

  function noteMade(payment: AskedPayment, tx: string, unlockHeight: number): void {
    asked.splice(asked.indexOf(payment), 1)
    made.push({ ...payment, tx, unlockHeight })
    record(history, payment, tx, unlockHeight)
  }

  /** Notes the payments that the payer's wallet has made, by its own record, and that nobody heard of. */
  async function noteUnheard(): Promise<void> {
    const answer = await regtest.payer.call('get_transfers', { out: true, pending: true })
    const sent = [answer['out'], answer['pending']].flatMap((rows) => (rows ?? []) as SentRow[])
    const heard = new Set(made.map(({ tx }) => tx))
    for (const { txid, unlock_time: unlockHeight, destinations = [] } of sent)
      for (const { address, amount } of heard.has(txid) ? [] : destinations) {
        const payment = asked.find((one) => one.address === address && one.amountPico === BigInt(amount))
        if (payment !== undefined) noteMade(payment, txid, unlockHeight)
      }
  }

  async function makePayments(): Promise<void> {
    if (isUnsure) await noteUnheard()
    isUnsure = false
    const [next] = asked
    if (next === undefined) return
    const unlockHeight = lockBlocks === 0 ? 0 : (await regtest.height()) + lockBlocks
    // A lock is on all of its transaction. Two outputs to one address would be one payment.
    const batch = unlockHeight > 0 ? [next] : distinct(asked).slice(0, MOST_DESTINATIONS)
    isUnsure = true
    const tx = await regtest.payer.pay(batch, unlockHeight > 0 ? { unlockTime: unlockHeight } : {})
    isUnsure = false
    lockBlocks = 0
    for (const payment of batch) noteMade(payment, tx, unlockHeight)
  }

  /** Runs work that adds blocks, and notes how many there are then. */
  async function grow(work: () => Promise<unknown>): Promise<void> {
    const sinceMs = history.nowMs()
    try {
      await work()
    } finally {
      const height = await regtest.height()
      if (height > (growths.at(-1)?.height ?? 0)) growths.push({ height, sinceMs })
    }
  }

  void (async () => {
    while (!isClosing) {
      const startedAt = performance.now()
      for (const work of [makePayments, () => grow(() => regtest.generate(1))])
        await alone(async () => (isClosing ? undefined : work())).catch((error: unknown) => {
          troubles.add(String(error).split('\n', 1)[0]?.slice(0, 300) ?? '')
        })
      await sleep(Math.max(0, BLOCK_EVERY_MS - (performance.now() - startedAt)))
    }
  })()

  return {
    env: {
      MONERO_WALLET_RPC_URL: url.href.replace(/\/$/, ''),
      MONERO_CONFIRMATIONS: String(CONFIRMATIONS),
      XMR_USD: '20',
      MIN_PAYOUT_XMR: '0.000001',
    },
    regtest,
    wallet,
    gate,
    made,
    troubles,
    addressOf: (name) =>
      serialize(name, async () => {
        const known = payees.get(name)
        if (known !== undefined) return known.address
        const answer = await payee.call('create_address', { account_index: 0, label: name })
        const [address, minor] = [answer['address'] as string, answer['address_index'] as number]
        payees.set(name, { address, minor })
        return address
      }),
    knownAddress: (name) => payees.get(name)?.address,
    pay: (payment) => void asked.push(payment),
    waiting: () => asked.length,
    lockNext: (blocks) => void (lockBlocks = blocks),
    alone,
    reorganise: (blocks, keepsTransactions) =>
      alone(() => grow(() => regtest.reorganise(blocks, keepsTransactions))),
    reachedAtMs: (height) => growths.find((growth) => growth.height >= height)?.sinceMs,
    survey: (txs) =>
      alone(async () => ({
        height: await regtest.height(),
        places: await regtest.findTransactions([...new Set(txs)]),
      })),
    async arrivedAt(name) {
      const known = payees.get(name)
      if (known === undefined) return 0n
      await payee.call('refresh')
      const params = { in: true, account_index: 0, subaddr_indices: [known.minor] }
      const rows = ((await payee.call('get_transfers', params))['in'] ?? []) as { amount: number | string }[]
      return rows.reduce((sum, { amount }) => sum + BigInt(amount), 0n)
    },
    async close() {
      isClosing = true
      gate.close()
      await regtest.close()
    },
  }
}

/** A transaction that a wallet has sent, as monero-wallet-rpc lists it. */
interface SentRow {
  txid: string
  unlock_time: number
  destinations?: { address: string; amount: number }[]
}

/** The first payment to each address. */
const distinct = (payments: readonly AskedPayment[]): AskedPayment[] => [
  ...new Map(payments.toReversed().map((payment) => [payment.address, payment])).values(),
]

/** Records a payment like a call of the agent; its marker is the transaction. */
function record(history: History, payment: AskedPayment, tx: string, unlockHeight: number): void {
  const { who, address, amountPico, invoiceId } = payment
  history.record({
    atMs: history.nowMs(),
    tookMs: 0,
    who,
    did: 'pay-xmr',
    method: 'monero',
    path: address,
    status: 200,
    marker: tx,
    body: {
      amount_raw: String(amountPico),
      invoice_id: invoiceId,
      ...(unlockHeight > 0 && { unlock_height: unlockHeight }),
    },
  })
}

/** The programs of this machine. @throws StartError that says what to install */
function requireMonero(): MoneroPrograms {
  const [monerod, walletRpc] = ['monerod', 'monero-wallet-rpc'].map((name) =>
    findProgram({ names: [name], cachedName: name }, process.env),
  )
  if (monerod === undefined || walletRpc === undefined)
    throw new StartError('There is no monerod and monero-wallet-rpc here: run "apt-get install monero".')
  return { monerod, walletRpc }
}
