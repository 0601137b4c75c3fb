import { MAX_FINDINGS } from './findings.ts'
import { show, type Fields } from './values.ts'
import type { RestsOn, Verification } from './verification.ts'

/*
 * What a check ends with, in lines for people.
 */

export const EXIT_CODES = { good: 0, broken: 1, unchecked: 2, not_binding: 3 } as const

/**
 * The lines of a result, safe for a terminal: everything but printable ASCII is escaped, and nothing of a
 * server's looks like this program's own `GOOD`.
 */
export function describe(result: Verification): string {
  const lines =
    result.verdict === 'unchecked'
      ? [result.message ?? '', ...(result.help ?? '').split('\n')]
      : resultLines(result)
  return lines
    .map((line) => protect(result, line))
    .join('\n')
    .trimEnd()
}

/** The result as JSON, with the same care. */
export const describeAsJson = ({ help: _help, ...result }: Verification): string =>
  protect(result, JSON.stringify(result))

function protect({ verdict }: Verification, text: string): string {
  const escaped = text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return verdict === 'good' ? escaped : escaped.replaceAll('GOOD', 'G\\u004fOD')
}

function resultLines(result: Verification): string[] {
  const { kind, findings = [], findings_total: total = 0, rests_on: rests, log } = result
  const of: Fields = result
  return [
    ...findings.map(({ reason, where, message }) => `${reason} at ${where}: ${message}`),
    ...(total >= MAX_FINDINGS ? [`the check ended after ${MAX_FINDINGS} findings`] : []),
    ...(kind === 'chain' ? chainLines(result, of) : []),
    ...(kind === 'receipt' ? receiptLines(of) : []),
    ...((kind === 'receipt' || kind === 'note') && log ? [logLine(log)] : []),
    ...(kind === 'receipt' ? [PRESENCE] : []),
    ...(kind === 'evidence' ? [evidenceLine(of)] : []),
    ...(result.pubkeys ?? []).map((key) => `key: ${key} (${KEY_TRUST[result.key_trust ?? 'first_seen']})`),
    ...(result.evidence === undefined
      ? []
      : [`two signed histories, for anybody to check with --evidence: ${result.evidence}`]),
    ...(rests ? restsLines(rests) : []),
    ...(result.not_binding ?? []).map(({ reason, message }) => `${reason}: ${message}`),
    verdictLine(result, of),
  ]
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function chainLines(result: Verification, of: Fields): string[] {
  const { head, log, verdict } = result
  const unsigned = list(of['unsigned_seqs'])
  const {
    keys,
    state,
    remembered_seq: seen,
  } = of as { keys?: Fields; state?: string; remembered_seq?: unknown }
  const lines = [`seals: ${of['seals']}, of which signed: ${of['signed']}`]
  if (unsigned.length > 0)
    lines.push(
      `not signed, so not binding: seal ${unsigned.slice(0, 20).join(' ')}${unsigned.length > 20 ? ' ...' : ''}`,
    )
  lines.push(
    `entries under a seal: ${of['entries_sealed']}, waiting for one: ${of['entries_waiting']}, read now: ${of['entries_read']}`,
  )
  for (const { entry_id: id, at, data } of list(of['adoptions']) as Fields[])
    lines.push(`adoption: entry ${id} of the time ${at}: ${data}`)
  if (of['unreadable_amounts'] !== 0)
    lines.push(`entries whose amount cannot be read, which count as nothing: ${of['unreadable_amounts']}`)
  if (head)
    lines.push(
      `head: seal ${head.seq}, payload hash ${head.payload_hash}, made ${of['head_age_seconds']} s ago`,
    )
  if (log) lines.push(`log: size ${log.size}, root ${log.root} (other readers compare it with --note)`)
  if (keys)
    lines.push(
      `keys: of ${keys['count']} agents, root ${keys['root']}${keys['recomputed'] === true ? '' : ' (changes as stated: --full recomputes them)'}`,
    )
  if (typeof seen === 'number' && verdict !== 'broken')
    lines.push(`nothing up to seal ${seen} has changed since the last check`)
  if (state !== undefined)
    lines.push(
      verdict === 'broken'
        ? `nothing was remembered in ${state}`
        : seen === null && head
          ? `the first check of this service with ${state}: key and log are remembered from now on`
          : `remembered in ${state}`,
    )
  return lines
}

const CONNECTED = {
  same: 'the one seen before',
  consistent: 'consistent with the one seen before',
  not_checked: 'not compared with the one seen before (--consistency)',
}

const logLine = ({ size, root, connected }: NonNullable<Verification['log']>): string =>
  `log: size ${size}, root ${root}, ${connected ? CONNECTED[connected] : 'and none was seen before'}`

const PRESENCE =
  'this shows that these entries are on record, not that there are no others: a later hide, ban or key may be left out'

function receiptLines(of: Fields): string[] {
  const unsigned = list(of['unsigned_seqs'])
  return [
    `record: ${show(of['id'])}`,
    `openings checked: ${of['openings']}`,
    ...(list(of['authors']) as Fields[]).map(
      ({ entry_id: id, author_key: key }) => `entry ${id} is signed by the author key ${key}`,
    ),
    ...(unsigned.length > 0 ? [`not signed, so not binding: seal ${unsigned.join(' ')}`] : []),
    `entries under a seal: ${of['entries_sealed']}, waiting for one: ${of['entries_waiting']}`,
  ]
}

const evidenceLine = (of: Fields): string =>
  of['sizes'] === undefined
    ? `seal: ${of['seq']}, payload hashes: ${list(of['payload_hashes']).join(' and ')}`
    : `checkpoints: sizes ${list(of['sizes']).join(' and ')}, roots ${list(of['roots']).join(' and ')}`

const KEY_TRUST = { pinned: 'pinned', remembered: 'the one remembered', first_seen: 'not known' }

const RESTS_ON_KEY = {
  pinned: 'the pinned key',
  remembered: 'the remembered key',
  first_seen: 'a key that is not known',
}

/** What a verdict rests on, how far witnesses have vouched, and when they last did. */
function restsLines(rests: RestsOn): string[] {
  const { key, cosigned_by: names, quorum, seen_size: seen } = rests
  const how = names.length === 1 ? 'the cosignature' : `${names.length} cosignatures`
  const parts = [
    RESTS_ON_KEY[key],
    ...(names.length > 0 ? [`${how} of ${names.join(', ')} (quorum ${quorum})`] : []),
    ...(seen === null ? [] : [`what was seen here of the log of ${seen} entries`]),
  ]
  const last = parts.pop()
  return [
    `rests on: ${parts.length === 0 ? `${last} alone` : `${parts.join(', ')} and ${last}`}`,
    ...(rests.cosigned_size === undefined
      ? []
      : [`cosigned: the log up to entry ${rests.cosigned_size}, last at ${rests.cosigned_at}`]),
  ]
}

const GOOD = {
  chain: 'GOOD: the whole chain holds',
  receipt: 'GOOD: every entry is under its seal',
  note: 'GOOD: the other reader was shown the same log',
  evidence: 'GOOD evidence: this key has signed two histories',
}

function verdictLine({ verdict, kind = 'chain', findings_total: total }: Verification, of: Fields): string {
  if (verdict === 'good')
    return typeof of['resumed_at'] === 'number'
      ? 'GOOD: the chain holds, and goes on from what was checked before'
      : GOOD[kind]
  return verdict === 'broken'
    ? `BAD: ${total} finding${total === 1 ? '' : 's'}`
    : 'NOT BINDING: nothing is wrong, and nothing proves it'
}
