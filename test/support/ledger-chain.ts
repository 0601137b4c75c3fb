import { cardOf } from './hostile-answers.ts'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { commit } from '../../shared/crypto/commitment.ts'
import { createKeyTree, type KeyTree } from '../../shared/crypto/key-tree.ts'
import { logRoot } from '../../shared/crypto/log-tree.ts'
import { buildTree, inclusionPath, leafHash, merkleRoot } from '../../shared/crypto/merkle.ts'
import { hashLeaves } from './merkle-leaves.ts'
import type { LedgerEntry, Opening, Receipt, SealedReceiptEntry } from '../../shared/crypto/receipt.ts'
import { sealPayloadHash, signSeal, type Seal, type SealFields } from '../../shared/crypto/seal-payload.ts'
import type { EntryKind } from '../../shared/ledger/pending.ts'
import { addToOwed, NOTHING_OWED, type Owed } from '../../shared/ledger/solvency.ts'

/** A ledger and its seals in memory, all of it determined by the sizes asked for. */
export type LedgerChain = { entries: LedgerEntry[]; seals: Seal[] }

export const SEAL_KEY = new Uint8Array(32).fill(0x51)
export const OTHER_SEAL_KEY = new Uint8Array(32).fill(0x52)
/** Long past on every machine, so that no seal of these is of the future. */
const FIRST_AT = 1_700_000_000
const SEAL_EVERY_SECONDS = 600

export function saltOf(id: number): Uint8Array {
  return new Uint8Array(32).fill(id % 251)
}

export function bodyOf(id: number): string {
  return `post number ${id}`
}

export function makeEntry(
  id: number,
  data: LedgerEntry['data'] = {
    agent_id: 'agt_seller',
    body: commit(saltOf(id), bodyOf(id)),
    post_id: `pst_${id}`,
  },
): LedgerEntry {
  return { id, at: FIRST_AT + id, kind: 'post', data }
}

/** The fields of the seal over `entries` that follows `previous`. */
export function sealOver(
  entries: readonly LedgerEntry[],
  previous: SealFields | null,
  at?: number,
): SealFields {
  const first = entries[0]
  const last = entries.at(-1)
  if (first === undefined || last === undefined) throw new Error('a seal needs an entry')
  return {
    seq: (previous?.seq ?? 0) + 1,
    at: at ?? FIRST_AT + ((previous?.seq ?? 0) + 1) * SEAL_EVERY_SECONDS,
    count: entries.length,
    root: merkleRoot(hashLeaves(entries)).toString('hex'),
    prev_root: previous?.root ?? null,
    from_id: first.id,
    to_id: last.id,
  }
}

export function sign(
  fields: SealFields,
  secretKey: Uint8Array = SEAL_KEY,
  signedAt: number = fields.at + 1,
): Seal {
  return { ...fields, ...signSeal(fields, secretKey, signedAt), signed: true }
}

export function leaveUnsigned(fields: SealFields): Seal {
  return { ...fields, signature: null, pubkey: null, algo: null, signed_at: null, signed: false }
}

/**
 * The entry that closes seal `seq`. With `previous` it names the payload of the seal before, as closing
 * entries do by now.
 */
export function closingOf(
  id: number,
  seq: number,
  at: number,
  owed: Owed = NOTHING_OWED,
  previous?: SealFields | null,
): LedgerEntry {
  const sums = { xno: String(owed.xno), xmr: String(owed.xmr) }
  const prevSeal =
    previous === undefined ? {} : { prev_seal: previous === null ? null : sealPayloadHash(previous) }
  return { id, at, kind: 'solvency', data: { seal: `seal_${seq}`, owed: sums, ...prevSeal } }
}

/** An amount that can't be read counts as nothing. */
function tryAddToOwed(owed: Owed, { id, kind, data }: LedgerEntry): Owed {
  try {
    return addToOwed(owed, { _id: id, kind: kind as EntryKind, data })
  } catch (error) {
    if (error instanceof TypeError) return owed
    throw error
  }
}

export interface ChainOptions {
  /** When the first seal was made, in Unix seconds. */
  at?: number
  /** From which seal on closing entries name the payload of the one before; from the first if absent. */
  chainedFrom?: number
  /** From which seal on closing entries state the log and the keys; none does if absent. */
  loggedFrom?: number
  /** What seal `seq` states of the log and the keys, in place of what is so. */
  stated?: (seq: number, before: StatedBefore) => StatedBefore
  secretKey?: Uint8Array
  /** In place of the post that has this number. */
  entry?: (id: number) => LedgerEntry | undefined
}

/**
 * One signed seal for each of `sizes`, over that many entries, the last of them closing it, and `waiting`
 * entries after.
 */
export function buildChain(sizes: readonly number[], waiting = 0, options: ChainOptions = {}): LedgerChain {
  const {
    at: firstAt = FIRST_AT + SEAL_EVERY_SECONDS,
    chainedFrom = 1,
    loggedFrom = Infinity,
    secretKey = SEAL_KEY,
    entry = () => undefined,
    stated = (_seq: number, before: StatedBefore) => before,
  } = options
  const chain: LedgerChain = { entries: [], seals: [] }
  let owed = NOTHING_OWED
  for (const [place, size] of sizes.entries()) {
    const from = chain.entries.length
    const at = firstAt + place * SEAL_EVERY_SECONDS
    const previous = chain.seals.at(-1) ?? null
    const before = place + 1 < loggedFrom ? {} : stated(place + 1, statedBefore(chain.entries))
    for (let i = 1; i < size; i++) {
      const next = entry(from + i) ?? makeEntry(from + i)
      owed = tryAddToOwed(owed, next)
      chain.entries.push(next)
    }
    const closing = closingOf(
      from + size,
      place + 1,
      at,
      owed,
      place + 1 < chainedFrom ? undefined : previous,
    )
    chain.entries.push({ ...closing, data: { ...closing.data, ...before } })
    chain.seals.push(sign(sealOver(chain.entries.slice(from), previous, at), secretKey))
  }
  for (let i = 0; i < waiting; i++) chain.entries.push(makeEntry(chain.entries.length + 1))
  return chain
}

type StatedBefore = ReturnType<typeof statedBefore>

/** What a closing entry states of the log and the keys by these entries. */
export function statedBefore(entries: readonly LedgerEntry[], form: 1 | 2 = 1) {
  const counted = form === 2 ? entries : entries.filter((entry) => !isRevocation(entry))
  const keys = counted.reduce(applyKey, createKeyTree())
  return {
    log: { size: entries.length, root: logRoot(hashLeaves(entries)).toString('hex') },
    keys: { root: keys.root.toString('hex'), count: keys.count, ...(form === 1 ? {} : { v: form }) },
  }
}

const keyFieldOf = (kind: string) =>
  kind === 'dm_key_change' ? 'dm_key' : kind === 'author_key_change' ? 'author_key' : undefined

function isRevocation({ kind, data }: LedgerEntry): boolean {
  const field = keyFieldOf(kind)
  return field !== undefined && data[field] === null
}

/** The tree of keys after an entry. */
export function applyKey(tree: KeyTree, { id, kind, data }: LedgerEntry): KeyTree {
  const field = keyFieldOf(kind)
  const agentId = data['agent_id']
  if (field === undefined || typeof agentId !== 'string') return tree
  const known = tree.get(agentId)
  const { [field]: before, ...rest } = known ?? {}
  if (data[field] === null && before === undefined) return tree
  return tree.with({
    ...rest,
    agent_id: agentId,
    ...(data[field] === null ? {} : { [field]: data[field] }),
    version: (known?.version ?? 0) + 1,
    entry_id: id,
  })
}

/** One part of a receipt, from the seals that cover it; throws for an entry that still waits. */
export function sealedItem(chain: LedgerChain, entryId: number): SealedReceiptEntry {
  const seal = chain.seals.find(({ from_id, to_id }) => from_id <= entryId && entryId <= to_id)
  const entry = chain.entries[entryId - 1]
  if (seal === undefined || entry === undefined) throw new Error(`entry ${entryId} is under no seal`)
  const levels = buildTree(hashLeaves(chain.entries.slice(seal.from_id - 1, seal.to_id)))
  const index = entryId - seal.from_id
  return {
    sealed: true,
    entry,
    leaf: leafHash(entry),
    seq: seal.seq,
    index,
    path: inclusionPath(levels, index),
    seal,
  }
}

export function openingOf(entryId: number): Opening {
  return {
    entry_id: entryId,
    field: 'body',
    salt: Buffer.from(saltOf(entryId)).toString('hex'),
    content: bodyOf(entryId),
  }
}

/** A receipt over any entries that name `id`; those without a seal wait. */
export function receiptOver(chain: LedgerChain, id: string, entryIds: readonly number[]): Receipt {
  const lastSealed = chain.seals.at(-1)?.to_id ?? 0
  const entries = entryIds.map((entryId) =>
    entryId <= lastSealed
      ? sealedItem(chain, entryId)
      : {
          sealed: false as const,
          entry: chain.entries[entryId - 1] as LedgerEntry,
          next_seal_at: FIRST_AT + 100_000,
        },
  )
  return { ok: true, id, sealed: entries.every(({ sealed }) => sealed), entries }
}

export type LedgerServer = {
  url: string
  requests: string[]
  /** Bytes of all answers. */
  sent: number
  chain: LedgerChain
  /** What its clock says in the header Date, Unix seconds; no such header if null, and this machine's clock if absent. */
  date?: number | null
  /** What GET /checkpoint answers, to whoever asks for these witnesses' lines; and the proof between two sizes; 404 where absent. */
  note?: string | ((witnesses: string[]) => string) | undefined
  /** Message keys by agent, for GET /agent/<id>. */
  cards?: Record<string, string>
  consistency?: (chain: LedgerChain, from: number, to: number) => object
  /** What GET /keys/<agent_id> answers; 404 where absent. */
  keys?: (agentId: string) => object
  close(): Promise<void>
}

/**
 * Serves `chain` (which may be exchanged between requests) by the rules of `GET /seal` and `GET /ledger`, in
 * pages of at most `pageSize`.
 */
export async function serveChain(chain: LedgerChain, pageSize = 10_000): Promise<LedgerServer> {
  const served: LedgerServer = { url: '', requests: [], sent: 0, chain, close: async () => {} }
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    served.requests.push(request.url ?? '/')
    response.sendDate = served.date !== null
    if (typeof served.date === 'number')
      response.setHeader('date', new Date(served.date * 1000).toUTCString())
    const limit = Math.min(Number(searchParams.get('limit') ?? 50), pageSize)
    const noteFor = (witnesses: string[]): string =>
      typeof served.note === 'function' ? served.note(witnesses) : (served.note ?? '')
    const answer = (status: number, body: object) => {
      const text = JSON.stringify(body)
      served.sent += Buffer.byteLength(text)
      response.writeHead(status, { 'content-type': 'application/json' }).end(text)
    }
    if (pathname === '/seal') {
      const after = Number(searchParams.get('after_seq') ?? 0)
      const seals = served.chain.seals.filter(({ seq }) => seq > after).slice(0, limit)
      return answer(200, { ok: true, seals, count: seals.length, unsigned_seqs: [], chain_intact: true })
    }
    if (pathname === '/api/v1/ledger') {
      const from = Number(searchParams.get('from_id') ?? 1)
      const entries = served.chain.entries.filter(({ id }) => id >= from).slice(0, limit)
      return answer(200, { ok: true, entries, count: entries.length })
    }
    const agentId = /^\/api\/v1\/agent\/(.*)$/.exec(pathname)?.[1] ?? ''
    const key = served.cards?.[agentId]
    if (key !== undefined) return answer(200, cardOf(agentId, key))
    const keysOf = /^\/api\/v1\/keys\/(.*)$/.exec(pathname)?.[1]
    if (keysOf !== undefined && served.keys !== undefined)
      return answer(200, { ok: true, ...served.keys(keysOf) })
    if (pathname === '/api/v1/checkpoint' && served.note !== undefined) {
      const note = noteFor(searchParams.getAll('witness'))
      served.sent += Buffer.byteLength(note)
      return response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(note)
    }
    if (pathname === '/api/v1/ledger/consistency' && served.consistency !== undefined) {
      const [from, to] = [Number(searchParams.get('from')), Number(searchParams.get('to'))]
      const signed = Math.max(served.chain.seals.at(-1)?.to_id ?? 0, Number(noteFor([]).split('\n')[1] ?? 0))
      if (to > signed) return answer(400, { ok: false, error: 'invalid_field', message: 'no such size' })
      return answer(200, { ok: true, from, to, ...served.consistency(served.chain, from, to) })
    }
    return answer(404, { ok: false, error: 'no_such_route', message: 'there is no such route' })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  served.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  served.close = () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return served
}
