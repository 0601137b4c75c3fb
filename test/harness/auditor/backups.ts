import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isStoredToken, type StoredToken } from '../../../shared/agents/token.ts'
import { leafHash } from '../../../shared/crypto/merkle.ts'
import type { SealRecord } from '../../../shared/ledger/seal.ts'
import { verifyBackup } from '../../../shared/operation/backup.ts'
import { idsByName, isShare } from '../world/agent.ts'
import { checkSteps, readMoney, type StoredMoney } from './money.ts'
import { checkPasses, checkWorkAnswers } from './passes.ts'
import { collectFindings, type Finding } from './finding.ts'
import { checkRecords } from './records.ts'
import type { SeenAgent } from './seen.ts'
import { fateOf, type Call } from '../world/history.ts'
import { checkObjects } from './objects.ts'
import { nameToken, type Observation } from '../world/observe.ts'
import { runOperatorJson } from '../world/operate.ts'
import {
  readerOf,
  readPendingEntries,
  readStored,
  withDatabase,
  type Db,
  type PendingEntry,
  type Stored,
} from './stored.ts'

/** What the ledger of a database holds, or will hold as soon as all entries have a number. */
export interface StoredLedger {
  entries: Stored['entries']
  pending: readonly PendingEntry[]
  seals: readonly SealRecord[]
}

/** A database that was restored from a backup. */
export interface Copy extends StoredLedger {
  stored: Stored
  money: StoredMoney
  /** The nonces of batches that wait for a worker, by order. */
  waiting: ReadonlyMap<string, readonly string[]>
}

/** A backup of the run, and what it gave when it was restored. */
export interface SeenBackup {
  call: Call
  copy: Copy
  /** What "operator check" says of the copy. */
  faults: string[]
  /** The network's own ledger in the end. */
  network: StoredLedger
}

/**
 * Restores the last backup of the run that succeeded into a database beside the network's, by the operator's
 * own command, and reads it. @returns why it can't be read, as a sentence, if it can't
 */
export async function readBackup(
  calls: readonly Call[],
  env: Readonly<Record<string, string>>,
  mongoUrl: string,
): Promise<SeenBackup | string> {
  const backup = calls.findLast(({ did, status }) => did === 'backup' && status === 200)
  if (backup === undefined) return 'no backup of the run succeeded'
  // The database's name stands between the hosts, of which there may be several, and the options.
  const url = mongoUrl.replace(/^(mongodb:\/\/[^/]+\/[^?]+)/, '$1-copy')
  const copyEnv = { ...env, MONGODB_URL: url, QUEUE_PREFIX: 'copy' }
  const restored = await runOperatorJson(['restore', folderOf(backup), '--to', url], copyEnv)
  if (restored.exitCode !== 0) return `the backup can't be restored: ${JSON.stringify(restored.json)}`
  return {
    call: backup,
    copy: await readCopy(url),
    faults: await runCheckVerb(copyEnv),
    network: await withDatabase(mongoUrl, readLedgerOf),
  }
}

/** The folder that a call of "backup" wrote into. */
const folderOf = ({ path: words }: Call): string => words.split(' ')[1] ?? ''

/**
 * Finds what is wrong with a backup that failed: its folder must not pass as a whole one, and its command
 * must have said that a server was out of reach.
 */
export async function checkFailedBackup(
  folder: string,
  { error, message }: Record<string, unknown>,
): Promise<Finding[]> {
  const { findings, addFinding } = collectFindings()
  const name = path.basename(folder)
  if (error !== 'unavailable') addFinding(`${name} failed without a reason: ${String(message)}`, name)
  const isWhole = await verifyBackup(folder).then(
    () => true,
    () => false, // unfinished, as it should be
  )
  if (isWhole) addFinding(`${name} failed (${String(message)}), and its folder is a whole backup`, name)
  return findings
}

/** Checks that depend on more than the database: the seal memory, and the coin's chain of today. */
const OF_THE_NETWORK = ['memory', 'chains']

/** Runs "operator check" on a copy. @returns its faults */
async function runCheckVerb(env: Readonly<Record<string, string>>): Promise<string[]> {
  const { json } = await runOperatorJson(['check'], env)
  const checks = json['checks'] as { name: string; faults: { what: string }[] }[] | undefined
  if (checks === undefined) return [`"check" failed: ${JSON.stringify(json)}`]
  return checks
    .filter(({ name }) => !OF_THE_NETWORK.includes(name))
    .flatMap(({ name, faults }) => faults.map(({ what }) => `${name}: ${what}`))
}

async function readCopy(url: string): Promise<Copy> {
  const [stored, money] = [await readStored(url), await readMoney(url)]
  return withDatabase(url, async (db) => {
    const batches = await db
      .collection<{ order_id: string; nonces: string }>('work_batches')
      .find({ state: 'waiting' })
      .toArray()
    const waiting = new Map(batches.map(({ order_id: id, nonces }) => [id, nonces.split(' ')]))
    return { ...(await readLedgerOf(db)), stored, money, waiting }
  })
}

async function readLedgerOf(db: Db): Promise<StoredLedger> {
  const all = readerOf(db)
  return {
    entries: (await all<PendingEntry & { _id: number }>('entries')).map(
      ({ _id: id, source, at, kind, data }) => ({ id, source, at, kind, data }),
    ),
    pending: await readPendingEntries(db),
    seals: await all<SealRecord>('seals'),
  }
}

/**
 * Checks that a copy's entries and seals are the first ones of the network's, with the same signatures, and
 * that each entry without a number in the copy got one in the network, with the same content.
 */
export function compareLedgers(copy: StoredLedger, network: StoredLedger): Finding[] {
  const { findings, addFinding } = collectFindings()
  const textOf = (entry: PendingEntry | undefined): string =>
    entry === undefined ? '' : `${entry.source} ${leafHash({ ...entry, id: 1 })}`
  for (const [index, entry] of copy.entries.entries())
    if (entry.id !== index + 1 || textOf(entry) !== textOf(network.entries[index]))
      addFinding(`entry ${entry.id} (${entry.source}) is another one in the network's ledger`, entry.source)
  const texts = new Set(network.entries.map(textOf))
  for (const entry of copy.pending)
    if (!texts.has(textOf(entry)))
      addFinding(`${entry.source} waits for a number, and the network's ledger lacks it`, entry.source)
  for (const [index, seal] of copy.seals.entries()) {
    const theirs = network.seals[index]
    // A seal without a signature has got one since.
    const fields = Object.entries(seal).filter(([name]) => name !== 'signed' || seal.signed)
    if (!fields.every(([name, value]) => isDeepStrictEqual(theirs?.[name as keyof SealRecord], value)))
      addFinding(`seal ${seal._id} is another one in the network`)
  }
  return findings
}

/**
 * Checks that a copy holds all that was acknowledged before its backup began, and nothing that was asked for
 * after its end.
 *
 * @param agents with the ids and work orders that they know
 * @param backup the call of "backup"
 * @param inTheEnd of the network, as for checkObjects()
 */
export function compareWithAnswers(
  calls: readonly Call[],
  agents: readonly SeenAgent[],
  copy: Copy,
  backup: Pick<Call, 'atMs' | 'tookMs'>,
  inTheEnd: { takenBack?: ReadonlySet<string>; evidence?: ReadonlySet<string> } = {},
): Finding[] {
  const untilMs = backup.atMs + backup.tookMs
  const asked = calls.filter(({ atMs }) => atMs <= untilMs)
  const told = asked.map((call) => (call.atMs + call.tookMs < backup.atMs ? call : withoutAnswer(call)))
  const numbered = new Set(copy.entries.map(({ source }) => source))
  const later = copy.pending.filter(({ source }) => !numbered.has(source))
  const ledger = [...copy.entries, ...later.map((entry) => ({ ...entry, id: 0 }))]
  const read = {
    ...{ n: -1, who: 'operator', did: 'backup', method: 'operator', path: 'backup', status: 200 },
    ...{ atMs: backup.atMs, tookMs: backup.tookMs, seen: observeCopy(copy, asked, agents) },
  }
  return [
    // Deadlines may have passed unnoticed while a fault lasted.
    ...checkRecords(told, agents, copy.stored, Number.NEGATIVE_INFINITY),
    // A batch that was taken and not verified is looked for among those that wait.
    ...checkPasses(copy.stored, ledger),
    ...checkWorkAnswers(
      told.map((call) => (call.status === TAKEN ? withoutAnswer(call) : call)),
      agents,
      copy.stored,
    ),
    ...checkTakenShares(told, agents, copy),
    ...checkSteps(told, ledger, copy.money),
    ...checkInvoices(told, copy.money),
    ...checkObjects([...asked, read], idsByName(agents), inTheEnd.takenBack, inTheEnd.evidence),
  ]
}

/** The status of work that waits for the workers. */
const TAKEN = 202

/** A call as if its answer had been lost: what it wrote may be stored or not. */
function withoutAnswer({
  status: _status,
  error: _error,
  answer: _answer,
  seen: _seen,
  ...call
}: Call): Call {
  return { ...call, lost: 'asked while the backup was made' }
}

/** Checks that shares which were taken count, or wait for a worker. */
function checkTakenShares(
  told: readonly Call[],
  agents: readonly SeenAgent[],
  { stored, waiting }: Copy,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const orders = new Map(stored.orders.map((order) => [order._id, order]))
  const known = new Map(agents.flatMap((agent) => agent.orders.map((order) => [order.id, order] as const)))
  for (const { did, status, body } of told) {
    if (did !== 'submit-work' || status !== TAKEN) continue
    const { order_id: id, nonces } = body as { order_id: string; nonces: string[] }
    const [order, terms] = [orders.get(id), known.get(id)]
    const kept = new Set([...(stored.counted.get(id) ?? []), ...(waiting.get(id) ?? [])])
    const isLost = (nonce: string): boolean =>
      terms !== undefined && isShare(terms.prefix, nonce, terms.bits) && !kept.has(nonce)
    if (order === undefined || (order.shares_accepted < order.shares_required && nonces.some(isLost)))
      addFinding(`shares of order ${id} were taken and are lost`, id)
  }
  return findings
}

/** Checks that no invoice has received less, or bought fewer days, than its agent was told. */
function checkInvoices(told: readonly Call[], { invoices }: StoredMoney): Finding[] {
  const { findings, addFinding } = collectFindings()
  const stored = new Map(invoices.map((invoice) => [invoice._id, invoice]))
  for (const call of told) {
    if (call.did !== 'check-invoice' || fateOf(call) !== 'yes') continue
    const { invoice_id: id, paid_raw: paid, credited_days: days } = call.answer as Record<string, string>
    const invoice = stored.get(String(id))
    if (
      invoice === undefined ||
      BigInt(invoice.received_raw) < BigInt(paid ?? 0) ||
      invoice.credited_days < Number(days)
    )
      addFinding(
        `invoice ${id} had received ${paid} raw by what its agent was told, and has less`,
        String(id),
      )
  }
  return findings
}

/** What a copy says about the objects whose answers are judged by their order. */
function observeCopy(
  { stored, money, seals }: Copy,
  calls: readonly Call[],
  agents: readonly SeenAgent[],
): Observation[] {
  const names = new Map(agents.map(({ name, id }) => [id, name]))
  const tokens = Map.groupBy(tokensIn(calls), ({ who }) => who)
  return [
    ...stored.agents.flatMap((agent): Observation[] => {
      const { _id: id, profile, banned_at: bannedAt, pass_until_ms: untilMs } = agent
      const name = names.get(id)
      const token = tokens
        .get(name ?? '')
        ?.find((used) => isStoredToken(used.token, agent as unknown as StoredToken))
      return [
        { object: `profile ${id}`, value: String(profile?.name ?? null) },
        { object: `ban ${id}`, value: String(bannedAt !== undefined) },
        ...(name === undefined
          ? []
          : [
              { object: `pass ${name}`, value: untilMs ?? 0 },
              { object: `token ${name}`, value: `+${token === undefined ? '?' : nameToken(token.token)}` },
            ]),
      ]
    }),
    ...stored.claims.map(({ _id: id, standing }) => ({
      object: `verdicts ${id}`,
      value: `${standing.true} ${standing.false} ${standing.void}`,
    })),
    ...money.orders.map(({ _id: id, status }) => ({ object: `order ${id}`, value: status })),
    ...seals.map(({ _id: seq, root }) => ({ object: `seal ${seq}`, value: root })),
    { object: 'seals', value: seals.length },
  ]
}

/** Every token that an agent was given, or has chosen. */
const tokensIn = (calls: readonly Call[]): { who: string; token: string }[] =>
  calls.flatMap(({ who, did, answer, body }) => {
    const token =
      did === 'register'
        ? answer?.['token']
        : did === 'rotate'
          ? (body as { new_token: string }).new_token
          : undefined
    return typeof token === 'string' ? [{ who, token }] : []
  })
