import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { formatLogPolicy } from '../../shared/crypto/log-policy.ts'
import { formatVkey } from '../../shared/crypto/note.ts'
import type { Config } from '../../shared/platform/config.ts'
import { refuseUnknownAgent } from '../../shared/about/agent-card.ts'
import type { Context } from '../../shared/context.ts'
import { searchEntries } from '../../shared/ledger/entry-search.ts'
import { checkpointOf } from '../../shared/ledger/checkpoint.ts'
import { entryView } from '../../shared/ledger/entry.ts'
import { ENTRY_KINDS } from '../../shared/ledger/pending.ts'
import { proofView, readProof } from '../../shared/ledger/proofs.ts'
import { makeReceipt, receiptView } from '../../shared/about/receipt-service.ts'
import { sealView } from '../../shared/ledger/seal.ts'
import { createLedgerPageReader } from '../../shared/ledger/sealed-pages.ts'
import { listSeals, readChainState } from '../../shared/ledger/seal-service.ts'
import {
  MAX_ENTRIES_SEARCHED,
  MAX_SEALS_LISTED,
  RECEIPT_WAIT_MS,
  WALK_LIMIT,
} from '../../shared/platform/limits.ts'
import {
  countView,
  hex,
  idField,
  limitQuery,
  text,
  unixTime,
  wholeNumber,
  jsonValue,
} from '../../shared/platform/schema.ts'
import { once } from '../../shared/platform/once-per.ts'
import { piecesOfJson } from '../http/answer.ts'
import {
  cacheAndRevalidate,
  cacheForEver,
  defineRoute,
  noView,
  ok,
  documentAnswer,
  type Route,
} from '../http/route.ts'

const WHAT_THIS_IS =
  'Each seal covers a range of ledger entries with the root of a Merkle tree over them, names the root of the seal before it, and is signed with Ed25519. Whoever kept an earlier seal can tell whether anything that it covers was changed since.'
const HONEST_LIMIT =
  'Sealing prevents rewriting, not withholding: an entry that was never made cannot be missed by anybody, and a gap in seq shows that a seal was not made. chain_intact is what this service says of itself; verify it yourself.'

/** What one seal weighs: half a KiB of JSON. */
const SEAL_WEIGHT = 0.5
/** What one entry weighs: a third of a KiB of JSON, in blocks that answers share. */
const ENTRY_WEIGHT = 0.3
/** What a search of MAX_ENTRIES_SEARCHED entries weighs, which keeps the database busy for some 20 ms. */
const SEARCH_WEIGHT = 2_000
/** What a receipt weighs: of the longest, MAX_RECEIPT_ENTRIES with their proofs, there are two at a time. */
const RECEIPT_WEIGHT = 2_000

const ROOT = path.resolve(import.meta.dirname, '../..')

/** The routes of seals, entries and receipts, and of what verifies them. */
export function sealRoutes(ctx: Context): Route[] {
  const readPage = createLedgerPageReader(ctx)
  const vectors = once(readVectors)
  const verifier = fs.readFileSync(path.join(ROOT, 'client', 'seal-verify.mjs'))
  let wholeList: { tag: string; body: Buffer } | undefined
  return [
    defineRoute({
      method: 'GET',
      path: '/seal',
      operation: 'listSeals',
      alsoAtRoot: true,
      access: 'open',
      summary: 'The chain of seals, ascending: the newest 10,000, or those after a seq',
      query: z.object({
        after_seq: wholeNumber(0).optional().describe('the seals after this one; 0 for the first'),
        limit: limitQuery({ ...WALK_LIMIT, fallback: MAX_SEALS_LISTED }),
      }),
      view: z.object({
        seals: z.array(sealView),
        ...countView,
        truncated: z.boolean().describe('true if the chain has more seals than this list'),
        unsigned_seqs: z.array(z.int()),
        chain_intact: z
          .boolean()
          .describe('every link, range, root and signature of the chain holds, as this service found'),
        verified_to_seq: z
          .int()
          .min(0)
          .describe('the seal up to which roots were computed from the stored entries again'),
        walked_at: unixTime()
          .nullable()
          .describe('when the whole chain was last verified from its beginning'),
        origin: z
          .string()
          .nullable()
          .describe(
            'name of the log of all entries; null before its first checkpoint, as are the next three',
          ),
        vkey: z
          .string()
          .nullable()
          .describe('the key that signs GET /checkpoint, as C2SP signed-note writes it'),
        log_size: z.int().min(1).nullable().describe('entries in the log of the last checkpoint'),
        log_root: hex(64).nullable().describe('its root (RFC 6962 section 2.1)'),
        witness_policy: z
          .string()
          .nullable()
          .describe(
            'what the operator expects of its witnesses (C2SP tlog-policy); whom you trust is yours to decide',
          ),
        what_this_is: z.string(),
        honest_limit: z.string(),
        verify: z.string(),
      }),
      weight: ({ limit }) => limit * SEAL_WEIGHT,
      async handle({ ctx, query }) {
        const { after_seq: afterSeq, limit } = query
        const state = await readChainState(ctx)
        const tag = `${state.tag}-${afterSeq ?? 'newest'}-${limit}`
        const cache = cacheAndRevalidate(tag)
        if (wholeList?.tag === tag) return { status: 200, body: wholeList.body, cache }
        const list = await listSeals(ctx, state, afterSeq, limit)
        const checkpoint = checkpointOf(await ctx.seals.lastSigned())
        const view = {
          seals: list.seals,
          count: list.seals.length,
          truncated: list.isTruncated,
          unsigned_seqs: list.unsignedSeqs,
          chain_intact: list.isIntact,
          verified_to_seq: list.verified.seq,
          walked_at: list.verified.walkedAt,
          origin: checkpoint?.origin ?? null,
          vkey: checkpoint?.vkey ?? null,
          log_size: checkpoint?.size ?? null,
          log_root: checkpoint?.root ?? null,
          witness_policy: checkpoint === undefined ? null : writeWitnessPolicy(ctx.config, checkpoint.vkey),
          what_this_is: WHAT_THIS_IS,
          honest_limit: HONEST_LIMIT,
          verify: `Rebuild each payload from at, count, from_id, prev_root, root, seq and to_id as canonical JSON, never from a string of ours. ${ctx.config.baseUrl}/seal-verify.mjs does all of it: node seal-verify.mjs ${ctx.config.baseUrl}`,
        }
        if (afterSeq !== undefined || limit !== MAX_SEALS_LISTED) return { ...ok(view), cache }
        // The list that everyone asks for is written once for each state of the chain.
        wholeList = { tag, body: Buffer.from(JSON.stringify({ ok: true, ...view })) }
        return { status: 200, body: wholeList.body, cache }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/seal/proof',
      operation: 'getSealProof',
      alsoAtRoot: true,
      access: 'open',
      summary: 'The proof that an entry stands under a seal',
      query: z.object({
        seq: wholeNumber(1),
        index: wholeNumber(0).describe('place of the entry under the seal, from 0'),
      }),
      view: proofView,
      errors: ['no_such_seal', 'no_such_index'],
      async handle({ ctx, query }) {
        const { seal, proof } = await readProof(ctx, query.seq, query.index)
        const tag = `${seal.root}-${query.index}`
        return { ...ok(proof), cache: seal.signed ? cacheForEver(tag) : cacheAndRevalidate(tag) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/ledger',
      operation: 'listEntries',
      access: 'open',
      summary: 'Ledger entries, ascending by id',
      query: z.object({
        from_id: wholeNumber(1).default(1).describe('the first id to give'),
        kind: z
          .enum(ENTRY_KINDS, `expected one of ${ENTRY_KINDS.join(', ')}`)
          .optional()
          .describe('entries of this kind alone'),
        agent: idField('agent').optional().describe('entries that name this agent alone'),
        limit: limitQuery(WALK_LIMIT),
      }),
      view: z.object({
        entries: z.array(entryView),
        ...countView,
        next_id: z
          .int()
          .min(1)
          .optional()
          .describe(
            `with kind or agent, of which at most ${MAX_ENTRIES_SEARCHED} entries are searched: the from_id to go on with`,
          ),
        more: z
          .boolean()
          .optional()
          .describe('with kind or agent: true if there are entries from next_id on'),
      }),
      errors: ['no_such_agent'],
      weight: ({ kind, agent, limit }) =>
        kind === undefined && agent === undefined ? limit * ENTRY_WEIGHT : SEARCH_WEIGHT,
      async handle({ ctx, query }) {
        const { kind, agent: agentId, from_id: fromId, limit } = query
        if (kind !== undefined || agentId !== undefined) {
          const { entries, nextId, more } = await searchEntries(ctx, { fromId, kind, agentId }, limit)
          if (entries.length === 0) await refuseUnknownAgent(ctx, agentId, 'agent')
          return ok({ entries, count: entries.length, next_id: nextId, more })
        }
        const { parts, count, tag, isFinal } = await readPage(fromId, limit)
        const body = ['{"ok":true,"entries":[', ...parts, `],"count":${count}}`]
        return { status: 200, body, cache: (isFinal ? cacheForEver : cacheAndRevalidate)(tag) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/receipt/{id}',
      operation: 'getReceipt',
      access: 'open',
      summary:
        'Every ledger entry of a record with its proof and seal, in one file that a verifier checks offline',
      params: z.object({ id: text({ min: 1, max: 100 }).describe('id of any record that has entries') }),
      query: z.object({
        after: wholeNumber(0).optional().describe("an entry's id: the record's entries after this one"),
      }),
      view: receiptView,
      errors: ['no_such_record'],
      patienceMs: RECEIPT_WAIT_MS,
      weight: () => RECEIPT_WEIGHT,
      async handle({ ctx, params: { id }, query: { after } }) {
        return { status: 200, body: piecesOfJson(await makeReceipt(ctx, id, after)) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/vectors',
      operation: 'listVectors',
      access: 'open',
      needsDatabase: false,
      summary: 'Test vectors for other implementations, valid and invalid, by the name of their case',
      view: z.object({
        valid: z.record(z.string(), jsonValue),
        invalid: z.record(z.string(), jsonValue),
        ...countView,
      }),
      handle: () => ({ status: 200, body: vectors() }),
    }),
    defineRoute({
      method: 'GET',
      path: '/seal-verify.mjs',
      onlyAtRoot: true,
      access: 'open',
      needsDatabase: false,
      summary: 'The verifier: one file without dependencies for Node 18 and newer',
      view: noView,
      documents: { 'text/javascript': { type: 'string' } },
      handle: () => documentAnswer('text/javascript; charset=utf-8', verifier),
    }),
  ]
}

/**
 * Returns what the operator expects of the witnesses in the setting WITNESSES, as a policy (C2SP
 * tlog-policy).
 *
 * @param vkey the log's key
 */
function writeWitnessPolicy({ baseUrl, witnesses, witnessQuorum }: Config, vkey: string): string {
  const witnessKeys = witnesses.map(({ key, url }) => ({ vkey: formatVkey(key), url }))
  return formatLogPolicy({ vkey, url: baseUrl }, witnessKeys, witnessQuorum)
}

/**
 * Reads the test vectors as the answer of `GET /vectors`; none if the service was deployed without its tests.
 */
function readVectors(): Buffer {
  const readFolder = (name: string): Record<string, unknown> => {
    const folder = path.join(ROOT, 'test', 'vectors', name)
    if (!fs.existsSync(folder)) return {}
    const files = fs
      .readdirSync(folder)
      .filter((file) => file.endsWith('.json'))
      .sort()
    return Object.fromEntries(
      files.map((file) => [
        path.basename(file, '.json'),
        JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8')) as unknown,
      ]),
    )
  }
  const valid = readFolder('valid')
  const invalid = readFolder('invalid')
  const count = Object.keys(valid).length + Object.keys(invalid).length
  return Buffer.from(JSON.stringify({ ok: true, valid, invalid, count }))
}
