import path from 'node:path'
import { walkChain, type ChainWalk, type Source, type WalkLimits } from './chain.ts'
import {
  checkEvidence as judgeEvidence,
  compareLogs,
  keysOfEvidence,
  readEvidence,
  writeEvidence,
  type Judged,
} from './evidence.ts'
import { listSource, readJsonFile, readText } from './files.ts'
import { Findings, refusal, Unchecked } from './findings.ts'
import {
  connectLogs,
  judgeSupport,
  logKeysOf,
  NO_SUPPORT,
  parseLogPolicy,
  readCheckpoint,
  readConsistency,
  verifyCheckpoint,
  witnessesOf,
  type Consistency,
  type LogHead,
  type LogPolicy,
  type SignedLog,
  type Support,
} from './light.ts'
import { keysIn, newestCheckpoint, ReceiptCheck } from './receipt.ts'
import { Keyring } from './seals.ts'
import {
  beginPatience,
  fetchCheckpoint,
  fetchConsistency,
  judgeClock,
  serviceSource,
  type Patience,
} from './service.ts'
import {
  changeState,
  readState,
  rememberCheckpoint,
  rememberHeard,
  seenLog,
  type Remembered,
} from './state.ts'
import { GrowingTree } from './trees.ts'
import { decodeText, isObject, nowSeconds, type Fields } from './values.ts'
import type { AskConsistency, Connection, Doubt, SealTrust, Verification } from './verification.ts'
import { say } from './wording.ts'

/*
 * Whole checks: of a service, a file, a receipt, another reader's checkpoint, and evidence. Each reads what is
 * remembered, asks, judges, and remembers what it has verified.
 */

/**
 * Runs a check. Whatever goes wrong in it, a mistake of its own as well, is `unchecked`.
 *
 * @returns what the check ends with; never rejects
 */
export async function verify(check: () => Promise<Verification>): Promise<Verification> {
  try {
    return await check()
  } catch (error) {
    const { word = 'failed', help = '' } = error instanceof Unchecked ? error : {}
    const message = String(error instanceof Error ? error.message : error).slice(0, 1_000)
    return { ok: false, binding: false, verdict: 'unchecked', error: word, message, ...(help && { help }) }
  }
}

/** A reader's trust with its policy read. */
interface Judge {
  readonly stateFile: string
  readonly policy: LogPolicy | undefined
  /** Its own keys and those of the policy's logs. */
  readonly pinned: readonly string[]
  readonly maxAge: number | undefined
  /** The address of the service that is judged; undefined: not named. */
  readonly service: string | undefined
}

/** @throws Unchecked */
async function readTrust(
  { stateFile, policyFile, pubkeys = [], maxAgeSeconds: maxAge }: SealTrust,
  service: string | undefined,
): Promise<Judge> {
  const policy = policyFile === undefined ? undefined : await readPolicy(policyFile)
  return { stateFile, policy, pinned: [...pubkeys, ...logKeysOf(policy)], maxAge, service }
}

/** Reads a policy of witnesses. @throws Unchecked */
export async function readPolicy(file: string): Promise<LogPolicy> {
  const text = await readText(file)
  try {
    return parseLogPolicy(text)
  } catch (error) {
    throw new Unchecked('usage', (error as Error).message)
  }
}

// ——— a service, or a dump of one

const DEFAULT_MAX_AGE_SECONDS = 1_800 // three intervals of ten minutes
const MAX_TURNS = 5

export interface ServiceOptions extends WalkLimits {
  timeoutMs?: number
  deadlineMs?: number
}

/**
 * Checks the ledger of a service, from what was checked before on, and remembers what it has verified.
 *
 * @throws Unchecked
 */
export async function checkService(
  base: string,
  trust: SealTrust,
  options: ServiceOptions = {},
): Promise<Verification> {
  const judge = await readTrust(
    { ...trust, maxAgeSeconds: trust.maxAgeSeconds ?? DEFAULT_MAX_AGE_SECONDS },
    base,
  )
  const patience = beginPatience(options.timeoutMs ?? 30_000, options.deadlineMs ?? 3_600_000)
  // Whatever another check has seen meanwhile is compared too: this one goes on from there.
  for (let turn = 1; ; turn++) {
    const remembered = (await readState(judge.stateFile))[base]
    const keep = createMemory(judge.stateFile, base, remembered)
    const walk = await walkChain(serviceSource(base, patience), {
      ...options,
      pinned: judge.pinned,
      remembered,
      keep: async (one) => {
        if (one.findings.total === 0) await keep(one)
      },
    })
    judgeClock(walk.findings, patience)
    const shown =
      walk.findings.total === 0 && walk.checked?.state.logged === true
        ? await checkCheckpoint(base, walk, judge.policy, patience)
        : undefined
    const isOvertaken = walk.findings.total === 0 && (await keep(walk))
    if (isOvertaken && turn < MAX_TURNS) continue
    const doubts = walk.doubts(shown)
    if (isOvertaken) doubts.push(say('not_compared.checks'))
    const report = {
      ...chainReport(base, walk),
      checkpoint: shown === undefined ? null : headOf(shown),
      remembered_seq: remembered?.seq ?? null,
      state: judge.stateFile,
    }
    return conclude(judge, report, walk, doubts, walk.support(shown))
  }
}

/**
 * Makes what remembers, of one service, what a walk without findings has verified, never less than was known. It returns
 * whether another check has put something else there meanwhile: then nothing is changed.
 */
function createMemory(file: string, service: string, remembered: Remembered | undefined) {
  let known = remembered
  return async (walk: ChainWalk): Promise<boolean> => {
    const { checked } = walk
    if (checked === undefined || checked.seal.seq < (known?.seq ?? 0)) return false
    const memory = walk.memory(checked)
    let isOvertaken = false
    await changeState(file, (state) => {
      const current = state[service]
      isOvertaken =
        current !== undefined && ![known?.payload_hash, memory.payload_hash].includes(current.payload_hash)
      if (!isOvertaken) state[service] = known = memory
    })
    return isOvertaken
  }
}

/**
 * Fetches the newest checkpoint, and checks that a known key has signed it and that it agrees with the log
 * that the entries give; adds what does not hold to the findings.
 *
 * @returns undefined if there is none, or it isn't signed
 * @throws Unchecked
 */
async function checkCheckpoint(
  base: string,
  walk: ChainWalk,
  policy: LogPolicy | undefined,
  patience: Patience,
): Promise<SignedLog | undefined> {
  const body = await fetchCheckpoint(base, patience, witnessesOf(policy))
  if (body === undefined || walk.checked === undefined) return undefined
  const own = GrowingTree.ofLog(walk.checked.state.log).head()
  const { findings, keyring } = walk
  const read = findings.run('checkpoint', () => {
    let note: string
    try {
      note = decodeText(body)
    } catch {
      throw refusal('wrong_checkpoint.text')
    }
    return verifyCheckpoint(note, keyring.accepted)
  })
  if (!read.held) return undefined
  const shown = read.value
  const proofTo = async (one: LogHead, other: LogHead) =>
    one.size === other.size
      ? undefined
      : fetchConsistency(base, patience, Math.min(one.size, other.size), Math.max(one.size, other.size))
  const proof = await proofTo(own, shown)
  const agreed = findings.run('checkpoint', () => connectLogs(own, shown, proof))
  if (agreed.held) walk.rememberCheckpoint(shown)
  // What other readers were shown is compared as soon as the log is long enough.
  const beyond: string[] = []
  for (const note of walk.heard) {
    const heard = readCheckpoint(note)
    if (heard.size > shown.size) {
      beyond.push(note)
      continue
    }
    compareLogs(walk, 'note', shown, heard, await proofTo(heard, shown))
  }
  walk.heard = beyond
  return shown
}

const headOf = ({ origin, size, root }: SignedLog) => ({ origin, size, root })

const chainReport = (target: string, walk: ChainWalk) => ({
  kind: 'chain' as const,
  target,
  seals: walk.resumedAt + walk.sealsRead,
  signed: walk.signed,
  unsigned_seqs: walk.unsignedSeqs,
  entries_sealed: walk.entriesSealed,
  entries_waiting: walk.entriesWaiting,
  resumed_at: walk.resumedAt === 0 ? null : walk.resumedAt,
  entries_read: walk.reader.count,
  head:
    walk.head === undefined
      ? null
      : { seq: walk.head.seal.seq, payload_hash: walk.head.payloadHash, at: walk.head.seal.at },
  head_age_seconds: walk.head === undefined ? null : nowSeconds() - walk.head.seal.at,
  log: walk.log ?? null,
  keys: walk.keys ?? null,
  adoptions: walk.adoptions,
  unreadable_amounts: walk.unreadable,
})

/** Checks a dump or a receipt in a file. @throws Unchecked */
export async function checkFile(
  file: string,
  trust: SealTrust,
  options: ServiceOptions & ReceiptOptions,
): Promise<Verification> {
  const content = await readJsonFile(file)
  const { seals, entries } = isObject(content) ? content : {}
  if (Array.isArray(entries) && !Array.isArray(seals)) return checkReceipt(content, file, trust, options)
  if (!Array.isArray(seals) || !Array.isArray(entries))
    throw new Unchecked('usage', `${file} is neither a dump {entries, seals} nor a receipt`)
  return checkDump(file, listSource(seals, entries), trust, options)
}

async function checkDump(
  file: string,
  source: Source,
  trust: SealTrust,
  options: ServiceOptions & ReceiptOptions,
): Promise<Verification> {
  const judge = await readTrust(trust, options.service)
  const remembered = await findService(judge, [await findFirstKey(source)])
  const walk = await walkChain(source, {
    ...options,
    ...{ pinned: judge.pinned, remembered, mayBeOlder: true, isFull: true },
  })
  const report = { ...chainReport(file, walk), remembered_seq: null }
  return conclude(judge, report, walk, walk.doubts(undefined), walk.support(undefined))
}

/** The key of the first signed seal. */
async function findFirstKey(source: Source): Promise<unknown> {
  for await (const seal of source.seals(0))
    if (isObject(seal) && seal['signed'] === true) return seal['pubkey']
  return undefined
}

/**
 * What is remembered of the service that a file is from, which the file doesn't say: the named service's,
 * else that of the only one, else of the one whose key signed it; undefined if none.
 */
async function findService(
  { stateFile, service }: Judge,
  keys: readonly unknown[],
): Promise<Remembered | undefined> {
  const state = await readState(stateFile)
  if (service !== undefined) return state[service]
  const services = Object.values(state)
  if (services.length === 1) return services[0]
  return services.find(({ pubkeys }) => keys.some((key) => pubkeys.includes(key as string)))
}

// ——— a receipt

export interface ReceiptOptions {
  /** The remembered service that it is of, if there are several. */
  service?: string | undefined
  /** How to get the proof between the log that was seen and the one that is shown. */
  consistency?: AskConsistency | undefined
}

/** Asks for the proof that one of two logs goes on from the other; undefined if it takes none, or nobody gives one. */
async function proofBetween(
  seen: LogHead | undefined,
  shown: LogHead | undefined,
  ask: AskConsistency | undefined,
): Promise<Consistency | undefined> {
  if (ask === undefined || seen === undefined || shown === undefined || seen.size === shown.size)
    return undefined
  const answer = await ask(Math.min(seen.size, shown.size), Math.max(seen.size, shown.size))
  return answer === undefined ? undefined : readConsistency(answer)
}

/**
 * Checks a receipt; remembers its checkpoint if that goes on from what was seen.
 *
 * @param receipt what may be one
 * @param target what the report calls it
 * @throws Unchecked
 */
export async function checkReceipt(
  receipt: unknown,
  target: string,
  trust: SealTrust,
  { service, consistency: ask }: ReceiptOptions = {},
): Promise<Verification> {
  const judge = await readTrust(trust, service)
  const remembered = await findService(judge, keysIn(receipt))
  const consistency = await proofBetween(seenLog(remembered), newestCheckpoint(receipt), ask)
  const reader = { pinned: judge.pinned, remembered, now: nowSeconds(), consistency }
  const check = new ReceiptCheck(receipt, reader)
  const { log } = check
  const report = {
    kind: 'receipt' as const,
    target,
    id: check.id,
    entries_sealed: check.entriesSealed,
    entries_waiting: check.entriesWaiting,
    unsigned_seqs: check.unsignedSeqs,
    openings: check.openings,
    authors: check.authors,
    log: log === undefined ? null : { ...headOf(log.signed), connected: log.connected },
    proves: 'presence',
  }
  const result = await conclude(judge, report, check, check.doubts(), check.support)
  if (result.verdict === 'good' && log?.connected === 'consistent' && service !== undefined)
    await changeState(judge.stateFile, (state) => rememberCheckpoint(state, service, log.signed))
  return result
}

// ——— another reader's checkpoint

/**
 * Compares a checkpoint that another reader was shown with what is remembered of the service. One that goes on
 * from that is remembered, and so is one beyond it that can't be compared yet.
 *
 * @param target what the report calls it
 * @throws Unchecked
 */
export async function checkNote(
  note: string,
  target: string,
  trust: SealTrust,
  { service, consistency: ask }: ReceiptOptions = {},
): Promise<Verification> {
  const judge = await readTrust(trust, service)
  const remembered = await findService(judge, [])
  const findings = new Findings()
  const keyring = new Keyring(judge.pinned, remembered?.pubkeys ?? [])
  const seen = seenLog(remembered)
  const read = findings.run('note', () => verifyCheckpoint(note, keyring.accepted))
  const shown = read.held ? read.value : undefined
  let connected: Connection | null = null
  if (shown !== undefined && seen !== undefined) {
    const proof = await proofBetween(seen, shown, ask)
    connected = compareLogs({ findings, keyring }, 'note', seen, shown, proof)
  }
  const isConnected = connected === 'same' || connected === 'consistent'
  if (shown !== undefined && service !== undefined && connected !== null && connected !== 'same')
    await changeState(judge.stateFile, (state) =>
      isConnected ? rememberCheckpoint(state, service, shown) : rememberHeard(state, service, shown.note),
    )
  const report = {
    kind: 'note' as const,
    target,
    log: shown === undefined ? null : { ...headOf(shown), connected },
    pubkeys: [...keyring.accepted],
  }
  const isOpen = seen === undefined || connected === 'not_checked'
  return conclude(
    judge,
    report,
    { findings, keyring },
    isOpen ? [say('not_compared.note')] : [],
    // A checkpoint is asked about, and no entries.
    {
      ...NO_SUPPORT,
      checkpoints: shown === undefined ? [] : [shown],
      seenSize: isConnected ? (seen?.size ?? null) : null,
    },
  )
}

// ——— evidence

/** Checks a file that is to prove that one key signed two histories. @throws Unchecked */
export async function checkEvidence(file: string, trust: SealTrust): Promise<Verification> {
  const evidence = readEvidence(await readJsonFile(file))
  if (evidence === undefined) throw new Unchecked('usage', `${file} is not evidence of a fork`)
  const { pinned, stateFile } = await readTrust(trust, undefined)
  const named = keysOfEvidence(evidence)
  const remembered = Object.values(await readState(stateFile)).find(({ pubkeys }) =>
    named.some((key) => pubkeys.includes(key as string)),
  )
  const keyring = new Keyring(pinned, remembered?.pubkeys ?? [])
  const { findings, report } = judgeEvidence(evidence, keyring)
  return conclude(
    { stateFile },
    { kind: 'evidence', target: file, ...report },
    { findings, keyring },
    keyring.trust === 'first_seen' ? [say('key_unknown.file')] : [],
  )
}

/**
 * Makes the verdict of the findings and of why nothing binds. Writes the two sides of a contradiction, if one
 * was found, beside the state file.
 */
async function conclude(
  judge: Partial<Judge> & Pick<Judge, 'stateFile'>,
  report: Fields & Pick<Verification, 'kind'>,
  { findings, keyring }: Judged,
  ownDoubts: readonly Doubt[],
  support?: Support,
): Promise<Verification> {
  const now = nowSeconds()
  const { policy, maxAge, stateFile, service } = judge
  const judged = support && judgeSupport(policy, support, keyring.trust, { now, maxAge })
  const doubts = [...ownDoubts, ...(judged?.doubts ?? [])]
  const verdict = findings.total > 0 ? 'broken' : doubts.length > 0 ? 'not_binding' : 'good'
  const evidence =
    findings.fork === undefined
      ? {}
      : { evidence: await writeEvidence(path.dirname(stateFile), findings.fork, service, now) }
  return {
    ok: verdict === 'good',
    binding: verdict === 'good',
    verdict,
    pubkeys: [...keyring.seen],
    key_trust: keyring.trust,
    ...report,
    ...(judged === undefined ? {} : { rests_on: verdict === 'broken' ? null : judged.rests }),
    not_binding: verdict === 'broken' ? [] : doubts,
    findings: findings.list,
    findings_total: findings.total,
    ...evidence,
  }
}
