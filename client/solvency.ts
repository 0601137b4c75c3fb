import type { Client, ControlProof, Entry } from './client.ts'
import { isFailedCall } from './errors.ts'
import { readRecord, type Verified } from './verify-receipt.ts'
import { controlMessage } from '../shared/crypto/control-message.ts'
import { checkNanoAssets, isSignedByAccount, readAssets, type Assets } from './verify/assets.ts'
import { checkService, verify } from './verify/check.ts'
import { Findings, Refused, Unchecked } from './verify/findings.ts'
import {
  addToLiabilities,
  isAmount,
  NO_LIABILITIES,
  PARTS,
  readLiabilities,
  type Liabilities,
} from './verify/money.ts'
import { checkSignature, Keyring, readSeal, sha256Hex } from './verify/seals.ts'
import { isObject, type Fields } from './verify/values.ts'
import type { SealTrust, Verification } from './verify/verification.ts'

/*
 * Whether a venue has what it owes: its own statement, compared with the ledger, a Nano node and a Monero wallet.
 */

export interface SolvencyOptions {
  client: Client
  trust: SealTrust
  /** A Nano node's RPC, and that of a monero-wallet-rpc with any wallet; without one, that coin stays unchecked. */
  nanoRpc?: string | undefined
  moneroRpc?: string | undefined
  /** Compares what the ledger owes the client's agent, too. */
  agentId?: string | undefined
}

const COINS = ['xno', 'xmr'] as const
type Coin = (typeof COINS)[number]
type Outcome = { readonly verdict: Verification['verdict']; readonly reason: string; readonly text: string }
const covered = (text: string): Outcome => ({ verdict: 'good', reason: 'covered', text })

const DAY_SECONDS = 86_400
const MAX_PROOF_DAYS = 2
/** A payout that was sent that long before the seal may not have arrived. */
const IN_FLIGHT_SECONDS = 3_600
const MAX_PAGES = 100
const MAX_ORDERS = 100
const NODE_TIMEOUT_MS = 30_000

/**
 * Verifies the ledger, and that what the newest signed seal states as assets is there, is controlled by the venue,
 * and covers what it states to owe. Never rejects because of the service or a node.
 *
 * @returns in `text` one line: covered, short by how much, or what could not be checked and why
 */
export async function verifySolvency(options: SolvencyOptions): Promise<Verified> {
  let outcomes: Outcome[] = []
  const result = await verify(async () => {
    const ledger = await checkService(options.client.baseUrl, options.trust)
    if (ledger.verdict === 'good' || ledger.verdict === 'not_binding') outcomes = await judge(options, ledger)
    return ledger
  })
  const { findings = [], not_binding: doubts = [], verdict, message = '' } = result
  const ofLedger = [...findings, ...doubts].map((found) => ({ verdict, text: found.message, ...found }))
  if (verdict === 'unchecked')
    ofLedger.push({ verdict, reason: result.error ?? 'failed', text: message, message })
  const all: Outcome[] = [...ofLedger, ...outcomes]
  const worst =
    (['broken', 'unchecked', 'not_binding'] as const).find((one) =>
      all.some((part) => part.verdict === one),
    ) ?? 'good'
  const lines = all.map(({ reason, text }) => (reason === 'covered' ? text : `${reason}: ${text}`))
  return {
    ok: worst === 'good',
    verdict: worst,
    reasons: all.flatMap(({ reason }) => (reason === 'covered' ? [] : reason)),
    text: lines.join('; ').replace(/[^ -~]/g, '?'),
  }
}

/** Runs a part of the check: what it refuses is broken, what it can't reach is unchecked. */
async function part(text: string, check: () => Promise<Outcome | Outcome[]>): Promise<Outcome[]> {
  try {
    return [await check()].flat()
  } catch (error) {
    const refused = (verdict: Outcome['verdict'], reason: string): Outcome[] => [
      { verdict, reason, text: `${text}${(error as Error).message}` },
    ]
    if (error instanceof Refused) return refused('broken', error.reason)
    if (isFailedCall(error)) return refused('unchecked', 'unreachable')
    if (error instanceof Unchecked) return refused('unchecked', error.word)
    throw error
  }
}

/** What the newest signed seal states, and the number of its closing entry. */
interface Statement {
  seq: number
  at: number
  entryId: number
  liabilities: Liabilities
  assets: Assets
  control: { readonly [C in Coin]: readonly ControlProof[] }
}

async function judge(options: SolvencyOptions, ledger: Verification): Promise<Outcome[]> {
  const { client, trust, agentId } = options
  let statement: Statement | undefined
  const read = await part('', async () => {
    statement = await readStatement(client, trust, ledger.head?.seq ?? 0)
    return []
  })
  if (statement === undefined) return read
  const stated = statement
  const keyring = new Keyring(trust.pubkeys ?? [], ledger.pubkeys ?? [])
  const coins = await Promise.all(
    COINS.map((coin) => part(`${coin}: `, () => judgeCoin(coin, stated, options, keyring))),
  )
  const own =
    agentId === undefined ? [] : await part('yours: ', () => judgeOwn(client, trust, agentId, stated))
  return [...coins.flat(), ...own]
}

/** Reads the closing entry of a seal from its receipt, and the control proofs. @throws Refused or Unchecked */
async function readStatement(client: Client, trust: SealTrust, seq: number): Promise<Statement> {
  const entries = await verifiedRecord(client, `seal_${seq}`, trust)
  const closing = entries.find(({ kind, data }) => kind === 'solvency' && data['seal'] === `seal_${seq}`)
  if (closing === undefined) throw new Refused('wrong_closing', `seal ${seq} has no closing entry`)
  const liabilities = readLiabilities(closing.data['liabilities'])
  if (liabilities === undefined) throw new Unchecked('not_stated', `seal ${seq} states no liabilities`)
  const assets = readAssets(closing.data['assets'])
  const { control } = await client.solvencyStatement()
  return { seq, at: closing.at, entryId: closing.id, liabilities, assets, control }
}

/** Every entry of a record, verified. @throws Refused or Unchecked */
async function verifiedRecord(client: Client, id: string, trust: SealTrust) {
  const { entries, problems } = await readRecord(client, id, trust)
  for (const { verdict, reason, message } of problems) {
    if (verdict === 'broken') throw new Refused(reason, `the receipt of ${id}: ${message}`)
    if (verdict === 'unchecked') throw new Unchecked(reason, `the receipt of ${id}: ${message}`)
  }
  return entries.map(({ entry }) => entry)
}

async function judgeCoin(
  coin: Coin,
  stated: Statement,
  options: SolvencyOptions,
  keyring: Keyring,
): Promise<Outcome> {
  const { liabilities, assets } = stated
  const owed = PARTS.reduce((sum, name) => sum + liabilities[coin][name], 0n)
  if (owed <= 0n) return covered(`${coin}: covered, nothing is owed`)
  const unread = assets.unread[coin]
  if (assets[coin] === null)
    throw new Unchecked('not_read', `the venue has not read what it holds (${String(unread)})`)
  const proofs = await readProofs(coin, stated, keyring, options.client)
  const { held, proven } = await READERS[coin](stated, options, proofs)
  const sums = (sum: bigint) => `${sum} for ${owed} owed`
  if (proven >= owed) return covered(`${coin}: covered, ${sums(proven)}`)
  const sent = await sumInFlight(coin, stated, options)
  if (proven + sent >= owed) return covered(`${coin}: covered, ${sums(proven)}, ${sent} of it under way`)
  if (held + sent >= owed)
    return {
      verdict: 'not_binding',
      reason: 'control_not_shown',
      text: `${coin}: ${held} are there, and control of ${proven} is shown, for ${owed} owed`,
    }
  return {
    verdict: 'broken',
    reason: 'short',
    text: `${coin}: short by ${owed - held - sent}, ${sums(held)}`,
  }
}

// ——— control

/**
 * The control proofs of a coin that are no older than days, each compared with the seal that it names.
 *
 * @throws Refused `wrong_control` for one that is for another seal, or has another text
 */
async function readProofs(
  coin: Coin,
  { control, at }: Statement,
  keyring: Keyring,
  client: Client,
): Promise<ControlProof[]> {
  const seals = new Map<number, { hash: string; at: number }>()
  const proofs: ControlProof[] = []
  for (const proof of control[coin]) {
    const { seal_seq: seq, seal_hash: hash, message, account = proof.address ?? '' } = proof
    const seal = seals.get(seq) ?? (await readSealHash(seq, keyring, client))
    seals.set(seq, seal)
    if (hash !== seal.hash || message !== controlMessage(seq, seal.hash, account))
      throw new Refused('wrong_control', `the control proof of ${account} is not for seal ${seq}`)
    if (at - seal.at <= MAX_PROOF_DAYS * DAY_SECONDS) proofs.push(proof)
  }
  return proofs
}

async function readSealHash(
  seq: number,
  keyring: Keyring,
  client: Client,
): Promise<{ hash: string; at: number }> {
  const read = readSeal((await client.seals({ after_seq: seq - 1, limit: 1 })).seals[0])
  const findings = new Findings()
  checkSignature(read, keyring, findings, `seal ${seq}`)
  const [finding] = findings.list
  if (finding !== undefined || read.seal.seq !== seq || !read.seal.signed)
    throw new Refused(
      'wrong_control',
      `a control proof names seal ${seq}: ${finding?.message ?? 'it is not signed'}`,
    )
  return { hash: sha256Hex(read.payload), at: read.seal.at }
}

// ——— the chains

async function readNano(
  { assets }: Statement,
  { nanoRpc }: SolvencyOptions,
  proofs: readonly ControlProof[],
) {
  if (nanoRpc === undefined) throw new Unchecked('no_node', 'a Nano node is needed to look (--nano-rpc)')
  const held = await checkNanoAssets(assets.xno ?? [], assets.at.xno ?? 0, async (hashes) => {
    if (hashes.length === 0) return new Map()
    const answer = await askNode(nanoRpc, {
      action: 'blocks_info',
      hashes,
      json_block: 'true',
      receive_hash: 'true',
      include_not_found: 'true',
    })
    const { blocks } = answer
    return new Map(Object.entries(isObject(blocks) ? blocks : {}) as [string, Fields][])
  })
  const proven = new Set<unknown>()
  for (const { account = '', message, signature } of proofs)
    if (isSignedByAccount(account, message, signature)) proven.add(account)
    else throw new Refused('wrong_control', `the signature is not that of ${account}`)
  const sum = (accounts: readonly [string, bigint][]) => accounts.reduce((total, [, raw]) => total + raw, 0n)
  return { held: sum([...held]), proven: sum([...held].filter(([account]) => proven.has(account))) }
}

async function readMonero(
  { assets }: Statement,
  { moneroRpc }: SolvencyOptions,
  proofs: readonly ControlProof[],
) {
  const held = BigInt(assets.xmr?.balance ?? 0)
  const proof = proofs.find(({ signature }) => sha256Hex(signature) === assets.xmr?.proof_hash)
  if (proof === undefined) return { held, proven: 0n }
  if (moneroRpc === undefined)
    throw new Unchecked('no_node', 'a Monero wallet is needed to look (--monero-rpc)')
  const { address, message, signature } = proof
  const params = { address, message, signature }
  const { result } = await askNode(`${moneroRpc.replace(/\/+$/, '')}/json_rpc`, {
    jsonrpc: '2.0',
    id: '0',
    method: 'check_reserve_proof',
    params,
  })
  const { good, total, spent } = isObject(result) ? result : {}
  if (good !== true) throw new Refused('wrong_control', `the reserve proof of ${address} does not hold`)
  if (!isAmount(total) || !isAmount(spent)) throw new Unchecked('node', 'the Monero wallet gives no sums')
  const left = BigInt(total) - BigInt(spent)
  return { held: held < left ? left : held, proven: left }
}

/** What is there of a coin, and of how much control is shown. */
const READERS = { xno: readNano, xmr: readMonero }

/** Asks a node of the caller's own. Whole numbers of its answer come as text. @throws Unchecked `node` */
async function askNode(url: string, body: Fields): Promise<Fields> {
  try {
    const signal = AbortSignal.timeout(NODE_TIMEOUT_MS)
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal })
    const answer: unknown = JSON.parse(quoteNumbers(await response.text()))
    if (!isObject(answer) || answer['error'] !== undefined)
      throw new TypeError(`it answers ${JSON.stringify(answer).slice(0, 200)}`)
    return answer
  } catch (error) {
    throw new Unchecked('node', `${url}: ${(error as Error).message}`)
  }
}

/** The JSON with each whole number as text, since a double is exact up to 2^53 only; other strings stay as they are. */
const quoteNumbers = (json: string): string =>
  json.replace(/"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])\d+(?![\d.eE])/g, (part) =>
    part.startsWith('"') ? part : `"${part}"`,
  )

// ——— entries

/** Sums payouts that were sent within an hour before the seal and have not arrived, by their receipts. */
async function sumInFlight(
  coin: Coin,
  { at, seq, entryId }: Statement,
  { client, trust }: SolvencyOptions,
): Promise<bigint> {
  const { seals } = await client.seals({ after_seq: Math.max(0, seq - MAX_PAGES), limit: MAX_PAGES })
  const recent = seals.flatMap((seal) => (seal.at >= at - IN_FLIGHT_SECONDS ? seal.from_id : []))
  const sent = new Set<unknown>()
  for (const { kind, data } of await search(client, {
    kind: 'payout',
    from_id: Math.min(entryId, ...recent),
  }))
    if (kind === 'payout' && data['step'] === 'sent' && data['coin'] === coin) sent.add(data['payout_id'])
  let sum = 0n
  for (const id of sent) {
    const entries = await verifiedRecord(client, String(id), trust)
    const last = entries.findLast((entry) => entry.id <= entryId && entry.kind === 'payout')
    const { step, amount_raw: raw, coin: of } = last?.data ?? {}
    if (
      last !== undefined &&
      step === 'sent' &&
      of === coin &&
      last.at >= at - IN_FLIGHT_SECONDS &&
      isAmount(raw)
    )
      sum += BigInt(raw)
  }
  return sum
}

/** Searches the ledger, up to a bound of pages. */
async function search(client: Client, query: NonNullable<Parameters<Client['ledger']>[0]>) {
  const found = []
  let from = query.from_id ?? 1
  for (let page = 0; page < MAX_PAGES; page++) {
    const { entries, next_id: next, more } = await client.ledger({ ...query, from_id: from, limit: 1_000 })
    found.push(...entries)
    if (more !== true || next === undefined || next <= from) return found
    from = next
  }
  throw new Unchecked('too_long', 'the ledger is too long to be searched')
}

/** Lists all orders of the client's agent. @throws Unchecked `too_long` beyond a bound of pages */
async function listOwnOrders(client: Client): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (let page = 0; page < MAX_PAGES; page++) {
    const before = [...found].at(-1)
    const { orders } = await client.orders({ limit: MAX_ORDERS, ...(before === undefined ? {} : { before }) })
    const known = found.size
    for (const { order_id: id } of orders) found.add(id)
    if (found.size === known) return found
  }
  throw new Unchecked('too_long', 'there are too many orders to be read')
}

/**
 * Compares what the ledger says the agent is owed, by the receipts of its orders and payouts and by its moves of money,
 * with the whole.
 */
async function judgeOwn(
  client: Client,
  trust: SealTrust,
  agent: string,
  { entryId, liabilities }: Statement,
): Promise<Outcome> {
  let own = NO_LIABILITIES
  const add = (entries: readonly Entry[], parts: readonly string[] = PARTS) => {
    let sums = NO_LIABILITIES
    const met = new Set<unknown>()
    for (const entry of entries.filter(({ id }) => id <= entryId))
      sums = addToLiabilities(sums, entry, met) ?? sums
    for (const coin of COINS) {
      const of = PARTS.map((name) => [name, own[coin][name] + (parts.includes(name) ? sums[coin][name] : 0n)])
      own = { ...own, [coin]: Object.fromEntries(of) }
    }
  }
  for (const id of await listOwnOrders(client)) {
    const { payouts, status } = (await client.order(id)).order
    const records = [id, ...payouts.map(({ payout_id: payoutId }) => payoutId)]
    const read = await Promise.all(records.map((record) => verifiedRecord(client, record, trust)))
    const isOpen = ['paid', 'delivered', 'disputed'].includes(status)
    add(read.flat(), isOpen ? ['orders', 'owed'] : ['owed'])
  }
  add(await search(client, { kind: 'money_move', agent }))
  const names = COINS.flatMap((coin) => PARTS.map((name) => [coin, name] as const))
  const missing = names.find(([coin, name]) => own[coin][name] > liabilities[coin][name])
  if (missing !== undefined)
    throw new Refused('own_left_out', `your ${missing.join(' ')} are more than all that is stated`)
  const shown = names.filter(([coin, name]) => own[coin][name] !== 0n)
  const text = shown.map(([coin, name]) => `${own[coin][name]} ${coin} in ${name}`).join(', ')
  return covered(`yours: ${text === '' ? 'nothing' : text}`)
}
