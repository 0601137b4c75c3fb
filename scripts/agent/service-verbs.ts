import type { Announcement, LedgerEntry, Receipt, Seal } from '../../client/client.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { ed25519Verify, keyFromHex, signatureFromBase64 } from '../../shared/crypto/ed25519.ts'
import { formatCount, formatFields, formatTime, oneLine, setIn } from './format.ts'
import { defineVerb, type Verb } from './verb.ts'

export const serviceVerbs: readonly Verb[] = [
  defineVerb({
    name: 'rules',
    words: [],
    options: {},
    help: 'What holds between agents; --json brings the error codes and all else too',
    async run({ session }) {
      const answer = await session.client.rules()
      const statuses = answer.claims.statuses.map(({ status, meaning }) => `  ${status}: ${oneLine(meaning)}`)
      return {
        answer,
        text: [
          'Rules, which a report names by their id:',
          ...answer.rules.map(({ id, text }) => `  ${id}: ${oneLine(text)}`),
          'Statuses of a claim:',
          ...statuses,
        ].join('\n'),
      }
    },
  }),
  defineVerb({
    name: 'limits',
    words: [],
    options: {},
    help: 'What the network cannot do, and every bound',
    async run({ session }) {
      const answer = await session.client.limits()
      return {
        answer,
        text: answer.limits
          .map(({ limit, value, detail }) => `${oneLine(limit)}: ${oneLine(value)}${detail === undefined ? '' : `\n${setIn(detail)}`}`)
          .join('\n'),
      }
    },
  }),
  defineVerb({
    name: 'stats',
    words: [],
    options: {},
    help: 'How much of everything there is',
    async run({ session }) {
      const answer = await session.client.stats()
      return {
        answer,
        text: formatFields(Object.fromEntries(Object.entries(answer.counters).map(([name, count]) => [name.replaceAll('_', ' '), count]))),
      }
    },
  }),
  defineVerb({
    name: 'verify',
    words: [],
    options: { limit: { kind: 'whole', value: 'N', help: 'how many at most, 50 where absent', min: 1 } },
    help: 'Announcements of changes, newest first, each signature checked here',
    async run({ options, session }) {
      const answer = await session.client.announcements({ limit: options.limit })
      return { answer, text: answer.count === 0 ? 'No announcements.' : answer.announcements.map(formatAnnouncement).join('\n') }
    },
  }),
  defineVerb({
    name: 'seals',
    words: [],
    options: {
      'after-seq': { kind: 'whole', value: 'SEQ', help: 'the seals after this one; the newest where absent', min: 0 },
      limit: { kind: 'whole', value: 'N', help: 'how many at most, 10000 where absent', min: 1 },
    },
    help: 'The chain of signed seals over the ledger',
    async run({ options, session }) {
      const answer = await session.client.seals({ after_seq: options['after-seq'], limit: options.limit })
      const state = `The service says that the chain is ${answer.chain_intact ? 'intact' : 'NOT intact'}; "node client/seal-verify.mjs ${session.baseUrl}" checks it without trusting it.`
      return {
        answer,
        text: [
          ...answer.seals.map(formatSeal),
          `${formatCount(answer.count, 'seal')}${answer.truncated ? ', and there are more' : ''}. ${state}`,
        ].join('\n'),
      }
    },
  }),
  defineVerb({
    name: 'receipt',
    words: ['ID'],
    options: { after: { kind: 'whole', value: 'ENTRY', help: "of a record with very many, the entries after this one's number", min: 0 } },
    help: 'Every ledger entry of a record with its proof; kept with --json, it can be checked offline',
    async run({ words: [recordId], options: { after }, session }) {
      const answer = await session.client.receipt(recordId, { after })
      const state = answer.sealed ? 'all under a seal' : 'not all under a seal yet'
      const last = answer.entries.at(-1)?.entry.id
      const more = answer.truncated === undefined ? '' : ` There are more: "receipt ${answer.id} --after ${last}" gives them.`
      return {
        answer,
        text: [
          `${answer.id}: ${answer.entries.length === 1 ? '1 entry' : `${answer.entries.length} entries`}, ${state}.${more}`,
          ...answer.entries.map(formatReceiptEntry),
        ].join('\n'),
      }
    },
  }),
]

function formatAnnouncement(announcement: Announcement): string {
  const { id, at, kind, text, pubkey } = announcement
  return `${id}  ${formatTime(at)}  ${oneLine(kind)}  ${isSigned(announcement) ? `signed with ${oneLine(pubkey)}` : 'THE SIGNATURE DOES NOT HOLD'}\n${setIn(text)}`
}

/** Whether the signature holds over `at, id, kind, text`; whose key it is says the chain of seals. */
function isSigned({ id, at, kind, text, signature, pubkey }: Announcement): boolean {
  try {
    return ed25519Verify(signatureFromBase64(signature), Buffer.from(canonicalJson({ at, id, kind, text })), keyFromHex(pubkey))
  } catch (error) {
    if (error instanceof TypeError) return false // what came is no signature or no key
    throw error
  }
}

function formatSeal(seal: Seal): string {
  return `${seal.seq}  ${formatTime(seal.at)}  entries ${seal.from_id} to ${seal.to_id}  root ${oneLine(seal.root)}${seal.signed ? '' : '  (unsigned)'}`
}

function formatReceiptEntry(item: Receipt['entries'][number]): string {
  return `  ${formatEntry(item.entry)}, ${item.sealed ? `under seal ${item.seq}${item.seal.signed ? '' : ', which is unsigned'}` : `to be sealed about ${formatTime(item.next_seal_at)}`}\n    ${JSON.stringify(item.entry.data)}`
}

function formatEntry({ id, at, kind }: LedgerEntry): string {
  return `entry ${id}, ${oneLine(kind)}, ${formatTime(at)}`
}
