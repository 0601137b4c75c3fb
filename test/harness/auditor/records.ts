import type { JsonValue } from '../../../shared/crypto/canonical-json.ts'
import { commitRecord } from '../../../shared/crypto/commitment.ts'
import { collectFindings, type Finding } from './finding.ts'
import type { SeenAgent } from './seen.ts'
import { fateOf, type Call, type Fate } from '../world/history.ts'
import type { Stored, StoredVerdict } from './stored.ts'

/**
 * One write, which may have been sent more than once: `yes` if one call was acknowledged, `no` if all were
 * refused.
 */
interface Written {
  fate: Fate
  /** The record's id by the service's answer. */
  id: string | undefined
}

/**
 * Collects the writes of one kind in the history, by marker.
 *
 * @param idField the field of the answer with the record's id; absent if it has none
 */
function collectWrites(calls: readonly Call[], did: string, idField?: string): Map<string, Written> {
  const written = new Map<string, Written>()
  for (const call of calls) {
    if (call.did !== did || call.marker === undefined) continue
    const known = written.get(call.marker) ?? { fate: 'no' as Fate, id: undefined }
    const fate = fateOf(call)
    if (fate === 'yes') {
      known.fate = 'yes'
      if (idField !== undefined) known.id = String((call.answer?.[idField] as string | undefined) ?? known.id)
    } else if (fate === 'unknown' && known.fate === 'no') known.fate = 'unknown'
    written.set(call.marker, known)
  }
  return written
}

/**
 * Checks that each write is stored once if it was acknowledged, not at all if it was refused, and once or not
 * at all otherwise, and that nothing else is stored.
 *
 * @param what the kind of record, for the findings
 */
function compareWrites(
  what: string,
  written: Map<string, Written>,
  stored: readonly { marker: string; id: string }[],
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const byMarker = Map.groupBy(stored, ({ marker }) => marker)
  for (const [marker, { fate, id }] of written) {
    const copies = byMarker.get(marker) ?? []
    const words = [marker, ...copies.map((copy) => copy.id)]
    if (copies.length > 1) addFinding(`${what} ${marker} is stored ${copies.length} times`, ...words)
    else if (fate === 'yes' && copies.length === 0)
      addFinding(`${what} ${marker} was acknowledged and is lost`, ...words)
    else if (fate === 'no' && copies.length > 0)
      addFinding(`${what} ${marker} was refused and is stored`, ...words)
    else if (id !== undefined && copies[0] !== undefined && copies[0].id !== id)
      addFinding(`${what} ${marker} was acknowledged as ${id} and is stored as ${copies[0].id}`, ...words)
  }
  for (const { marker, id } of stored)
    if (!written.has(marker)) addFinding(`${what} ${id} is stored and nobody wrote it`, id)
  return findings
}

/** The marker with which a text begins. */
const markerOf = (text: string | undefined): string => (text ?? '').split(' ', 1)[0] ?? ''

/** Compares every write of the history with the stored records, and the records with each other. */
export const checkRecords = (
  calls: readonly Call[],
  agents: readonly SeenAgent[],
  stored: Stored,
  nowSeconds: number,
): Finding[] => [
  ...checkWrites(calls, agents, stored),
  ...checkContents(calls, stored),
  ...checkClaims(stored, nowSeconds),
  ...checkProfiles(calls, agents, stored),
]

/** Compares every write of the history with the stored records. */
export function checkWrites(calls: readonly Call[], agents: readonly SeenAgent[], stored: Stored): Finding[] {
  const ids = new Map(agents.flatMap(({ name, id }) => (id === undefined ? [] : [[id, name] as const])))
  return [
    ...compareWrites(
      'registration',
      collectWrites(calls, 'register', 'agent_id'),
      stored.agents.map(({ _id, handle }) => ({ marker: handle ?? '', id: _id })),
    ),
    ...compareWrites(
      'post',
      collectWrites(calls, 'post', 'id'),
      stored.posts.map(({ _id, body }) => ({ marker: markerOf(body), id: _id })),
    ),
    ...compareWrites(
      'claim',
      collectWrites(calls, 'claim', 'id'),
      stored.claims.map(({ _id, statement }) => ({ marker: statement, id: _id })),
    ),
    ...compareWrites(
      'message',
      collectWrites(calls, 'dm', 'id'),
      stored.messages.map(({ _id, box }) => ({ marker: markerOf(box), id: _id })),
    ),
    // Without ids: the answer has the verdict's id inside another object.
    ...compareWrites(
      'verdict',
      collectWrites(calls, 'verdict'),
      stored.verdicts.map(({ _id, evidence }) => ({ marker: evidence ?? '', id: _id })),
    ),
    ...compareWrites(
      'report',
      collectWrites(calls, 'report'),
      stored.reports.map(({ _id, agent_id: by, post_id: post, rule }) => ({
        marker: `${ids.get(by) ?? by} ${post} ${rule}`,
        id: _id,
      })),
    ),
  ]
}

/**
 * Checks that messages and posts are stored as they were sent, and that each challenge registered one agent.
 */
export function checkContents(calls: readonly Call[], stored: Stored): Finding[] {
  const sent = new Set(
    calls.filter(({ did }) => did === 'dm').map(({ body }) => (body as { box: string }).box),
  )
  const bodies = new Set(
    calls.filter(({ did }) => did === 'post').map(({ body }) => (body as { body: string }).body),
  )
  const challenges = Map.groupBy(stored.agents, ({ challenge }) => challenge)
  return [
    ...stored.messages
      .filter(({ box }) => !sent.has(box))
      .map(({ _id }) => ({ what: `message ${_id} is not what was sent`, words: [_id] })),
    ...stored.posts
      .filter(({ body }) => !bodies.has(body))
      .map(({ _id }) => ({ what: `post ${_id} is not what was sent`, words: [_id] })),
    ...[...challenges.values()]
      .filter((agents) => agents.length > 1)
      .map((agents) => ({
        what: 'one challenge registered two agents',
        words: agents.map(({ _id }) => _id),
      })),
  ]
}

const OUTCOMES = ['true', 'false', 'void'] as const

/** The statuses that a claim may have by its standing verdicts of other agents. An accepted one stays so. */
function possibleStatuses(verdicts: readonly StoredVerdict[], present: string): string[] {
  if (present === 'accepted') return ['accepted']
  const outcomes = new Set(verdicts.map(({ outcome }) => outcome))
  if (outcomes.size === 0) return ['open', 'overdue']
  return [outcomes.size === 1 ? 'judged' : 'contested']
}

/**
 * Checks that claims have the counts and status that follow from their verdicts, one standing verdict per
 * agent, and no deadline that passed unnoticed; and that agents' records have the sums.
 *
 * @param nowSeconds deadlines before it should have been noticed
 */
export function checkClaims(stored: Stored, nowSeconds: number): Finding[] {
  const { findings, addFinding } = collectFindings()
  const byClaim = Map.groupBy(stored.verdicts, ({ claim_id: claim }) => claim)
  for (const claim of stored.claims) {
    const own = byClaim.get(claim._id) ?? []
    const standing = own.filter(({ superseded }) => !superseded)
    const counting = standing.filter(({ by_author: byAuthor }) => !byAuthor)
    const words = [claim._id, claim.statement]
    for (const outcome of OUTCOMES) {
      const count = counting.filter((verdict) => verdict.outcome === outcome).length
      if (claim.standing[outcome] !== count)
        addFinding(
          `claim ${claim._id} counts ${claim.standing[outcome]} standing verdicts "${outcome}", and ${count} stand`,
          ...words,
        )
    }
    const expected = possibleStatuses(counting, claim.status)
    if (!expected.includes(claim.status))
      addFinding(
        `claim ${claim._id} is ${claim.status}, and its verdicts make it ${expected.join(' or ')}`,
        ...words,
      )
    if (claim.status === 'open' && claim.resolve_by !== undefined && claim.resolve_by < nowSeconds - 20)
      addFinding(`claim ${claim._id} was due at ${claim.resolve_by} and is still open`, ...words)
    for (const [agent, verdicts] of Map.groupBy(own, ({ agent_id: by }) => by)) {
      const left = verdicts.filter(({ superseded }) => !superseded).length
      if (left !== 1) addFinding(`${left} verdicts of ${agent} stand on claim ${claim._id}`, ...words, agent)
    }
  }
  for (const agent of stored.agents) {
    const own = stored.claims.filter(({ agent_id: by }) => by === agent._id)
    for (const [status, count] of Object.entries(agent.record.claims)) {
      const real = own.filter((claim) => claim.status === status).length
      if (real !== count)
        addFinding(
          `agent ${agent._id} has ${real} claims that are ${status}, and its record says ${count}`,
          agent._id,
        )
    }
    for (const outcome of OUTCOMES) {
      const real = own.reduce((sum, { standing }) => sum + standing[outcome], 0)
      const count = agent.record.verdicts[outcome]
      if (real !== count)
        addFinding(
          `agent ${agent._id} received ${real} verdicts "${outcome}", and its record says ${count}`,
          agent._id,
        )
    }
  }
  return findings
}

/** Checks that a profile's name is the last one that was acknowledged, or one whose answer was lost. */
export function checkProfiles(
  calls: readonly Call[],
  agents: readonly SeenAgent[],
  stored: Stored,
): Finding[] {
  return agents.flatMap(({ name, id }) => {
    const own = calls.filter(({ who, did }) => who === name && did === 'profile')
    const last = own.findLastIndex((call) => fateOf(call) === 'yes')
    if (last === -1) return []
    const unknown = own.filter((call) => fateOf(call) === 'unknown')
    const possible = [own[last], ...unknown].map(
      (call) => (call?.body as { name: string } | undefined)?.name ?? '',
    )
    const present = stored.agents.find(({ _id }) => _id === id)?.profile?.name
    return present !== undefined && possible.includes(present)
      ? []
      : [
          {
            what: `the profile of ${id} says ${present}, and the last that was acknowledged is ${possible[0]}`,
            words: possible,
          },
        ]
  })
}

/** Checks that each entry's commitment opens with the stored record's content, id and salt. */
export function checkCommitments(stored: Stored): Finding[] {
  const entryData = new Map(
    stored.entries.flatMap(({ kind, data }) =>
      ['registration', 'post', 'claim'].includes(kind)
        ? [[`${kind} ${String(data[`${kind === 'registration' ? 'agent' : kind}_id`])}`, data] as const]
        : [],
    ),
  )
  const { findings, addFinding } = collectFindings()
  const checkCommitment = (
    kind: string,
    record: { _id: string; salt?: string },
    field: string,
    content: Record<string, JsonValue>,
  ): void => {
    const { _id: id, salt } = record
    const data = entryData.get(`${kind} ${id}`)
    if (salt === undefined)
      addFinding(`the ${kind} ${id} is stored without its salt: ${JSON.stringify(record)}`, id)
    else if (data !== undefined && data[field] !== commitRecord(id, salt, content))
      addFinding(`the ${kind} entry of ${id} commits to something else than what is stored`, id)
  }
  for (const agent of stored.agents)
    checkCommitment('registration', agent, 'handle_hash', { handle: agent.handle ?? null })
  for (const post of stored.posts)
    checkCommitment('post', post, 'content_hash', { body: post.body, topic: post.topic ?? null })
  for (const claim of stored.claims)
    checkCommitment('claim', claim, 'content_hash', { kind: claim.kind, statement: claim.statement })
  return findings
}
