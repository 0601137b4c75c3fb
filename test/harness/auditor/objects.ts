import { TOKEN_CACHE_MS } from '../../../shared/platform/limits.ts'
import { collectFindings, type Finding } from './finding.ts'
import { fateOf, type Call, type Fate } from '../world/history.ts'
import { linearize, type Model, type Operation } from './linearize.ts'
import { nameToken, type Observation } from '../world/observe.ts'

/** One operation on an object: a write that was acknowledged or got no answer, a read, or both. */
export interface ObjectOperation extends Operation {
  call: Call
  /** `name` is what did it; the models say what they take it for. */
  write?: { name: string; value: string }
  /** What the answer says, after the write if there is one. */
  read?: string | number
}

type ObjectModel<State> = Omit<Model<State, ObjectOperation>, 'isWrite'>
const isWrite = ({ write }: ObjectOperation): boolean => write !== undefined

/** A model of a value that the last write sets. */
const register = (initial: string): ObjectModel<string> => ({
  initial,
  apply(state, { write, read }) {
    const after = write?.value ?? state
    return read === undefined || read === after ? after : undefined
  },
  nameOf: (state) => state,
})

/**
 * A model of an agent's token in force; '' before the first use. A write is a rotation from the token `name`;
 * a read is a token after `+` if it was accepted, after `-` if it was refused.
 */
const token: ObjectModel<string> = {
  initial: '',
  apply(state, { write, read }) {
    if (write !== undefined) return state === '' || state === write.name ? write.value : undefined
    const used = String(read).slice(1)
    if (String(read).startsWith('+')) return state === '' || state === used ? used : undefined
    return state === used ? undefined : state
  },
  nameOf: (state) => state,
}

/** A model of a number that grows by itself, and never becomes less. */
const growing: ObjectModel<number> = {
  initial: 0,
  apply: (state, { read }) => (Number(read) < state ? undefined : Number(read)),
  nameOf: String,
}

/** A model of a value that is the same in every answer. */
const constant: ObjectModel<string> = {
  initial: '',
  apply: (state, { read }) => (state === '' || state === read ? String(read) : undefined),
  nameOf: (state) => state,
}

/** A model of a claim's verdicts, the last outcome of each agent by its name; a read is their tally. */
const verdicts: ObjectModel<Readonly<Record<string, string>>> = {
  initial: {},
  apply(state, { write, read }) {
    const after = write === undefined ? state : { ...state, [write.name]: write.value }
    return read === undefined || read === tally(after) ? after : undefined
  },
  nameOf: (state) =>
    Object.entries(state)
      .map((pair) => pair.join('='))
      .sort()
      .join(),
  // An agent may change its verdict, and never has none again.
  mayStillCome: (state, { read }) => read === undefined || countIn(String(read)) >= Object.keys(state).length,
}

/** How many verdicts a tally has. */
const countIn = (tallied: string): number => tallied.split(' ').reduce((sum, count) => sum + Number(count), 0)

/** How many verdicts are true, false and void, as observe() writes it: `2 0 1`. */
function tally(standing: Readonly<Record<string, string>>): string {
  const outcomes = Object.values(standing)
  const count = (wanted: string): number => outcomes.filter((outcome) => outcome === wanted).length
  return `${count('true')} ${count('false')} ${count('void')}`
}

/** What an order's state becomes without any agent, by the contract: payments, deadlines and payouts. */
const BY_ITSELF: Readonly<Record<string, readonly string[]>> = {
  awaiting_payment: ['paid', 'expired'],
  paid: ['refunded'],
  delivered: ['released'],
  released: ['paid_out'],
}
const STEPS: Readonly<Record<string, { from: string; to: string }>> = {
  deliver: { from: 'paid', to: 'delivered' },
  accept: { from: 'delivered', to: 'released' },
  dispute: { from: 'delivered', to: 'disputed' },
}

/**
 * A model of an order: all states that it may be in by what was answered.
 *
 * @param isTakenBack whether the chain took a counted payment of it back, at any time: then it is disputed
 */
const order = (isTakenBack: boolean): ObjectModel<readonly string[]> => ({
  initial: ['awaiting_payment'],
  apply(states, { write, read }) {
    const possible = withLaterStates(isTakenBack ? [...states, 'disputed'] : states)
    const step = STEPS[write?.name ?? '']
    if (step !== undefined && !possible.includes(step.from)) return undefined
    const after = step === undefined ? possible : [step.to]
    if (read === undefined) return after
    return after.includes(String(read)) ? [String(read)] : undefined
  },
  nameOf: (states) => [...states].sort().join(),
})

/** Adds the states that these may have become without any agent. */
function withLaterStates(states: readonly string[]): string[] {
  const all = new Set(states)
  for (const state of all) for (const next of BY_ITSELF[state] ?? []) all.add(next)
  return [...all]
}

/** The models by the first word of an object's name. */
const MODELS: Readonly<Record<string, ObjectModel<unknown>>> = {
  profile: register('null'),
  ban: register('false'),
  token: token,
  pass: growing,
  events: growing,
  seals: growing,
  log: growing,
  seal: constant,
  verdicts: verdicts,
  order: order(false),
  'order taken back': order(true),
}

/**
 * Finds the objects whose answers fit no order of what was done to them in which everything happens between
 * its request and its answer.
 *
 * @param ids the ids of the agents by their names
 * @param takenBack the ids of the orders of which the chain took a counted payment back
 * @param evidence of every verdict that is stored in the end, if known: no verdict is ever removed, so one that
 *   got no answer and is not among them was never given
 */
export function checkObjects(
  calls: readonly Call[],
  ids: ReadonlyMap<string, string>,
  takenBack: ReadonlySet<string> = new Set(),
  evidence?: ReadonlySet<string>,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const [object, all] of operationsOf(calls, ids)) {
    const operations = evidence === undefined ? all : all.filter((one) => mayHaveBeen(one, evidence))
    const [kind = '', id] = object.split(' ')
    const model = MODELS[kind === 'order' && takenBack.has(id ?? '') ? 'order taken back' : kind]
    if (model === undefined) throw new Error(`There is no model of "${object}".`)
    const judgement = linearize(
      { ...model, isWrite, alike: kind === 'verdicts' ? alikeVerdicts(operations) : () => undefined },
      withoutUnreadWrites(kind, operations),
    )
    if (judgement.kind === 'linearizable') continue
    const words = id === undefined ? [] : [id]
    if (judgement.kind === 'undecided')
      addFinding(`the ${operations.length} answers about ${object} are too many to judge`, ...words)
    else
      addFinding(
        `the answers about ${object} fit no order: after ${judgement.placed} of ${operations.length}, none of these can come next: ${judgement.stuck.map(describeOperation).join('; ')}`,
        ...words,
      )
  }
  return findings
}

/** False for a verdict that got no answer and is not stored in the end. */
const mayHaveBeen = ({ call, toMs, write }: ObjectOperation, evidence: ReadonlySet<string>): boolean =>
  toMs !== undefined ||
  write === undefined ||
  call.did !== 'verdict' ||
  evidence.has(String((call.body as { evidence?: string } | undefined)?.evidence))

/** An operation as text, for a finding. */
const describeOperation = ({ call, write, read }: ObjectOperation): string =>
  `at ${(call.atMs / 1_000).toFixed(3)} s +${Math.round(call.tookMs)} ms ${call.who} ${call.did}${write === undefined ? '' : ` wrote ${write.value}`}${read === undefined ? '' : ` read ${read}`}`

/**
 * Leaves out a profile's writes without an answer whose value nobody has read: they may as well not have
 * happened.
 */
function withoutUnreadWrites(
  kind: string,
  operations: readonly ObjectOperation[],
): readonly ObjectOperation[] {
  if (kind !== 'profile') return operations
  const readValues = new Set(operations.map(({ read }) => read))
  return operations.filter(
    ({ toMs, write }) => toMs !== undefined || write === undefined || readValues.has(write.value),
  )
}

/**
 * Verdicts of agents that gave one each can stand for each other if they say the same: answers tell how many
 * there are, not whose.
 */
function alikeVerdicts(
  operations: readonly ObjectOperation[],
): (operation: ObjectOperation) => string | undefined {
  const byAgent = Map.groupBy(operations, ({ write }) => write?.name)
  return ({ write }) =>
    write !== undefined && byAgent.get(write.name)?.length === 1 ? write.value : undefined
}

/** The operations on each object, by its name. */
function operationsOf(
  calls: readonly Call[],
  ids: ReadonlyMap<string, string>,
): Map<string, ObjectOperation[]> {
  const operations = new Map<string, ObjectOperation[]>()
  const authors = new Map(
    calls.filter(({ did }) => did === 'claim').map(({ who, answer }) => [String(answer?.['id']), who]),
  )
  for (const call of calls)
    for (const [object, operation] of operationsIn(call, ids, authors)) {
      const known = operations.get(object)
      if (known === undefined) operations.set(object, [operation])
      else known.push(operation)
    }
  return operations
}

/** What a call did to objects, with the objects' names. */
function operationsIn(
  call: Call,
  ids: ReadonlyMap<string, string>,
  authors: ReadonlyMap<string, string>,
): [object: string, operation: ObjectOperation][] {
  const fate = fateOf(call)
  const time = {
    call,
    fromMs: call.atMs,
    ...(fate === 'unknown' ? {} : { toMs: call.atMs + call.tookMs }),
  }
  const written = writtenBy(call, fate, ids, authors)
  const seen = call.seen ?? []
  const reads = seen
    .filter(({ object }) => object !== written?.object)
    .map(({ object, value }): [string, ObjectOperation] => [object, { ...time, read: value }])
  // A rotation looks its token up anew; all others may find it in the process's cache.
  if (call.did !== 'rotate')
    for (const { object, value } of accessOf(call, ids))
      reads.push([object, { ...time, fromMs: call.atMs - TOKEN_CACHE_MS, read: value }])
  if (written === undefined) return reads
  const { object, ...write } = written
  const read = seen.find((observation) => observation.object === object)
  return [...reads, [object, { ...time, write, ...(read === undefined ? {} : { read: read.value }) }]]
}

/** What an answer says about the token that was used and about its agent's ban; nothing if none was used. */
function accessOf(
  { who, did, token: used, status, error }: Call,
  ids: ReadonlyMap<string, string>,
): Observation[] {
  if (used === undefined || status === undefined) return []
  if (error === 'invalid_token') return [{ object: `token ${who}`, value: `-${used}` }]
  const accepted = { object: `token ${who}`, value: `+${used}` }
  if (error === 'banned') return [accepted, { object: `ban ${ids.get(who)}`, value: 'true' }]
  if (status >= 300) return []
  // A banned agent may still name the address that it is paid at.
  return did === 'refund-address' ? [accepted] : [accepted, { object: `ban ${ids.get(who)}`, value: 'false' }]
}

/**
 * What a call writes, or may have written; undefined if nothing.
 *
 * @param authors who made a claim, by the claim's id: a verdict on one's own doesn't count
 */
function writtenBy(
  { who, did, body, path, token: used }: Call,
  fate: Fate,
  ids: ReadonlyMap<string, string>,
  authors: ReadonlyMap<string, string>,
): { object: string; name: string; value: string } | undefined {
  if (fate === 'no') return undefined
  const fields = (body ?? {}) as Record<string, unknown>
  if (did === 'rotate')
    return { object: `token ${who}`, name: used ?? '', value: nameToken(String(fields['new_token'])) }
  if (did === 'profile')
    return { object: `profile ${ids.get(who)}`, name: did, value: String(fields['name']) }
  if (did === 'verdict' && authors.get(String(fields['claim_id'])) !== who)
    return { object: `verdicts ${String(fields['claim_id'])}`, name: who, value: String(fields['outcome']) }
  if (Object.hasOwn(STEPS, did))
    return { object: `order ${String(fields['order_id'])}`, name: did, value: STEPS[did]?.to ?? '' }
  if (who === 'operator' && (did === 'ban' || did === 'unban'))
    return { object: `ban ${path.split(' ')[1]}`, name: did, value: String(did === 'ban') }
  return undefined
}
