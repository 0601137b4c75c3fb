import { existsSync, readFileSync } from 'node:fs'
import {
  RefusalError,
  TransportError,
  type Announcement,
  type Entry,
  type GetReceiptAnswer as Receipt,
  type ListEntriesQuery,
  type Seal,
} from '../client.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { keyFromHex, signatureFromBase64 } from '../../shared/crypto/ed25519.ts'
import { ed25519Verify } from '../../shared/crypto/ed25519-verify.ts'
import { formatCount, formatFields, formatTime, toOneLine, indent } from './format.ts'
import { EXIT_CODES } from '../verify/report.ts'
import { isObject } from '../verify/values.ts'
import { parseJson } from '../private-file.ts'
import { CommandError } from './command-error.ts'
import type { Session } from './session.ts'
import {
  LIMIT_OPTION,
  defineCall,
  defineVerb,
  flagOption,
  numberOption,
  textOption,
  type VerbOutput,
  type Verb,
} from './verb.ts'
import {
  readReceipt,
  verifyReceipt,
  verifyService,
  VERIFY_OPTIONS,
  withVerdict,
  type VerifyOptions,
} from './verification.ts'

export const serviceVerbs: readonly Verb[] = [
  defineCall({
    name: 'rules',
    help: 'What holds between agents; --json brings the error codes and all else too',
    isOpen: true,
    call: ({ client }) => client.rules(),
    text: ({ rules, claims }) =>
      [
        'Rules, which a report names by their id:',
        ...rules.map(({ id, text }) => `  ${id}: ${toOneLine(text)}`),
        'Statuses of a claim:',
        ...claims.statuses.map(({ status, meaning }) => `  ${status}: ${toOneLine(meaning)}`),
      ].join('\n'),
  }),
  defineCall({
    name: 'limits',
    help: 'What the network cannot do, and every bound',
    isOpen: true,
    call: ({ client }) => client.limits(),
    text: ({ limits }) =>
      limits
        .map(
          ({ limit, value, detail }) =>
            `${toOneLine(limit)}: ${toOneLine(value)}${detail === undefined ? '' : `\n${indent(detail)}`}`,
        )
        .join('\n'),
  }),
  defineCall({
    name: 'stats',
    help: 'How much of everything there is',
    isOpen: true,
    call: ({ client }) => client.stats(),
    text: ({ counters }) =>
      formatFields(
        Object.fromEntries(
          Object.entries(counters).map(([name, count]) => [name.replaceAll('_', ' '), count]),
        ),
      ),
  }),
  defineVerb({
    name: 'verify',
    words: ['[RECEIPT]'],
    options: {
      limit: LIMIT_OPTION,
      ...VERIFY_OPTIONS,
    },
    help: 'Verify a receipt here, by the id of a record or in a file; without one, the announcements of changes',
    async run({ words: [receipt], options, session }) {
      if (receipt !== undefined) return verifyReceiptOf(session, receipt, options)
      const answer = await session.client.announcements({ limit: options.limit })
      const checked: (CheckedAnnouncement & { announcement: Announcement })[] = []
      for (const announcement of answer.announcements)
        checked.push({ announcement, ...(await checkAnnouncement(session, announcement, options)) })
      // The worst of them: 1 doesn't hold, 2 could not be checked, 3 is not binding.
      const exitCode = [1, 2, 3].find((code) => checked.some((check) => check.exitCode === code)) ?? 0
      const verification = checked.map(({ announcement: { id }, exitCode: code, reasons }) => ({
        id,
        binding: code === 0,
        reasons,
      }))
      return {
        answer:
          answer.count === 0
            ? answer
            : { ...answer, ok: exitCode === 0, binding: exitCode === 0, verification },
        text: answer.count === 0 ? 'No announcements.' : checked.map(formatAnnouncement).join('\n'),
        exitCode,
      }
    },
  }),
  defineVerb({
    name: 'seals',
    options: {
      'after-seq': numberOption('SEQ', 'the seals after this one; the newest if absent', 0),
      limit: numberOption('N', 'how many at most, 10000 if absent', 1),
      full: flagOption('verify the whole ledger again, not only what is new'),
      'max-age': numberOption('SECONDS', 'how old the newest signed seal may be, 1800 if absent', 0),
      ...VERIFY_OPTIONS,
    },
    help: 'The chain of signed seals over the ledger, verified here; exit code as of seal-verify.mjs',
    async run({ options, session }) {
      const answer = await session.client.seals({ after_seq: options['after-seq'], limit: options.limit })
      const state = `The service says that the chain is ${answer.chain_intact ? 'intact' : 'NOT intact'}.`
      const text = [
        ...answer.seals.map(formatSeal),
        `${formatCount(answer.count, 'seal')}${answer.truncated ? ', and there are more' : ''}. ${state}`,
      ]
      const { full: isFull, 'max-age': maxAge } = options
      const result = await verifyService(session, options, { isFull, maxAge })
      return withVerdict(answer, text.join('\n'), result)
    },
  }),
  defineCall({
    name: 'ledger',
    options: {
      from: numberOption('ENTRY', 'the entries from this one on, 1 if absent', 1),
      kind: textOption('KIND', 'of this kind alone'),
      agent: textOption('AGENT_ID', 'that name this agent alone'),
      limit: numberOption('N', 'how many at most, 1000 if absent', 1),
    },
    help: 'The entries of the ledger, oldest first; "seals" verifies them',
    isOpen: true,
    // Any text is sent: the service says which kinds it knows.
    call: ({ client, options: { from, kind, ...query } }) =>
      client.ledger({ from_id: from, kind: kind as ListEntriesQuery['kind'], ...query }),
    text({ entries, next_id: next = (entries.at(-1)?.id ?? 0) + 1 }) {
      const lines = entries.map((entry) => `${formatEntry(entry)}  ${JSON.stringify(entry.data)}`)
      return entries.length === 0 ? 'No entries.' : [...lines, `"ledger --from ${next}" goes on.`].join('\n')
    },
  }),
  defineVerb({
    name: 'receipt',
    words: ['ID'],
    options: {
      after: numberOption('ENTRY', "of a record with very many, the entries after this one's number", 0),
      ...VERIFY_OPTIONS,
    },
    help: 'Every ledger entry of a record with its proof, verified here; kept with --json, it can be checked offline',
    async run({ words: [recordId], options: { after, ...trust }, session }) {
      const answer = await readReceipt(session, recordId, trust, after)
      const state = answer.sealed ? 'all under a seal' : 'not all under a seal yet'
      const last = answer.entries.at(-1)?.entry.id
      const more =
        answer.truncated === undefined
          ? ''
          : ` There are more: "receipt ${answer.id} --after ${last}" gives them.`
      const { ok: _ok, ...receipt } = answer
      const text = [
        `${answer.id}: ${answer.entries.length === 1 ? '1 entry' : `${answer.entries.length} entries`}, ${state}.${more}`,
        ...answer.entries.map(formatReceiptEntry),
      ]
      const verdict = await verifyReceipt(session, { ...receipt, ok: true }, trust)
      const isOther = verdict.verdict !== 'unchecked' && answer.id !== recordId
      if (isOther)
        throw new CommandError(
          'wrong_record',
          `The service gives the receipt of ${answer.id} for ${recordId}.`,
        )
      return withVerdict(answer, text.join('\n'), verdict)
    },
  }),
]

/**
 * Verifies the receipt in a file, or fetches that of a record and verifies it.
 *
 * @param name a file's path, or else a record's id
 * @throws CommandError if the file holds no receipt, or the service gives another record's
 */
async function verifyReceiptOf(session: Session, name: string, options: VerifyOptions): Promise<VerbOutput> {
  const isFile = existsSync(name)
  const receipt = isFile ? parseJson(readFileSync(name, 'utf8')) : await readReceipt(session, name, options)
  if (typeof receipt !== 'object' || receipt === null)
    throw new CommandError('not_a_receipt', `${name} holds no receipt.`)
  const { id } = receipt as { id?: unknown }
  if (!isFile && id !== name)
    throw new CommandError('wrong_record', `The service gives the receipt of ${String(id)} for ${name}.`)
  const verdict = await verifyReceipt(session, { ...receipt, ok: true }, options)
  return withVerdict({ id }, `Receipt of ${String(id)}:`, verdict)
}

interface CheckedAnnouncement {
  /** As of seal-verify.mjs: 0 holds, 1 doesn't hold, 2 could not be checked, 3 is not binding. */
  exitCode: number
  reasons: string[]
}

/**
 * Checks an announcement: its signature must be of a key that is pinned or remembered, and the entry that
 * commits to its text must be sealed.
 */
async function checkAnnouncement(
  session: Session,
  announcement: Announcement,
  options: VerifyOptions,
): Promise<CheckedAnnouncement> {
  if (!isSigned(announcement)) return { exitCode: 1, reasons: ['bad_signature'] }
  let receipt
  try {
    receipt = await readReceipt(session, announcement.id, options)
  } catch (error) {
    if (error instanceof TransportError && error.kind === 'bad_answer')
      return { exitCode: 2, reasons: [error.kind] }
    if (!(error instanceof RefusalError) || error.error !== 'no_such_record') throw error
    return { exitCode: 1, reasons: ['no_entry'] }
  }
  const result = await verifyReceipt(session, receipt, options)
  const exitCode = EXIT_CODES[result.verdict]
  const reasons = [...(result.findings ?? []), ...(result.not_binding ?? [])].map(({ reason }) => reason)
  if (result.verdict === 'unchecked') return { exitCode, reasons: [result.error ?? 'failed'] }
  if (result.verdict === 'broken') return { exitCode, reasons }
  if (!isEntryOf(announcement, receipt)) return { exitCode: 1, reasons: [...reasons, 'wrong_opening'] }
  if (result.verdict === 'good' && !(result.pubkeys ?? []).includes(announcement.pubkey))
    return { exitCode: 1, reasons: ['wrong_key'] }
  return { exitCode, reasons }
}

/** Whether a verified receipt is this announcement's: it has its id and time, and its opening has its kind and text. */
function isEntryOf(
  { id, at, kind, text }: Announcement,
  { id: recordId, entries, openings = [] }: Omit<Receipt, 'ok'>,
): boolean {
  const announced = entries.find(({ entry }) => entry.kind === 'announcement')?.entry
  const opening = openings.find(
    ({ entry_id: entryId, field }) => entryId === announced?.id && field === 'content_hash',
  )
  return (
    recordId === id &&
    announced?.at === at &&
    isObject(opening?.content) &&
    opening.content['kind'] === kind &&
    opening.content['text'] === text
  )
}

const REASONS: Readonly<Record<string, string>> = {
  bad_signature: 'THE SIGNATURE DOES NOT HOLD',
  key_unknown: 'nobody says that this key is the service\'s: "seals" remembers it, --pubkey pins it',
}

/** An announcement with the verdict on it. */
function formatAnnouncement({
  announcement,
  exitCode,
  reasons,
}: CheckedAnnouncement & { announcement: Announcement }): string {
  const { id, at, kind, text, pubkey } = announcement
  const why = reasons.map((reason) => REASONS[reason] ?? reason).join(', ')
  const verdict =
    exitCode === 0 ? 'under a seal, ' : `${exitCode === 3 ? 'NOT BINDING' : 'DO NOT TRUST IT'} (${why}), `
  return `${id}  ${formatTime(at)}  ${toOneLine(kind)}  ${verdict}signed with ${toOneLine(pubkey)}\n${indent(text)}`
}

/** Whether the signature holds over `at, id, kind, text`, by the key that it names. */
function isSigned({ id, at, kind, text, signature, pubkey }: Announcement): boolean {
  try {
    return ed25519Verify(
      signatureFromBase64(signature),
      Buffer.from(canonicalJson({ at, id, kind, text })),
      keyFromHex(pubkey),
    )
  } catch (error) {
    if (error instanceof TypeError) return false // what came is no signature or no key
    throw error
  }
}

function formatSeal(seal: Seal): string {
  return `${seal.seq}  ${formatTime(seal.at)}  entries ${seal.from_id} to ${seal.to_id}  root ${toOneLine(seal.root)}${seal.signed ? '' : '  (unsigned)'}`
}

function formatReceiptEntry(item: Receipt['entries'][number]): string {
  const state = item.sealed
    ? `under seal ${item.seq}${item.seal.signed ? '' : ', which is unsigned'}`
    : `to be sealed about ${formatTime(item.next_seal_at)}`
  return `  ${formatEntry(item.entry)}, ${state}\n    ${JSON.stringify(item.entry.data)}`
}

function formatEntry({ id, at, kind }: Entry): string {
  return `entry ${id}, ${toOneLine(kind)}, ${formatTime(at)}`
}
