import { z } from 'zod'
import type { Context } from '../context.ts'
import { leafHash, verifyInclusion, type PathStep } from '../crypto/merkle.ts'
import type { LedgerEntry } from '../crypto/receipt.ts'
import { Refusal } from '../platform/errors.ts'
import { hex } from '../platform/schema.ts'
import { entryView, viewEntry, type EntryRecord } from './entry.ts'
import type { SealRecord } from './seal.ts'

export interface SealProof {
  leaf: string
  path: PathStep[]
  root: string
  entry: LedgerEntry
  seq: number
  index: number
}

export const pathView = z.array(
  z
    .object({ hash: hex(64), side: z.enum(['left', 'right']).describe('the side on which this hash stands') })
    .meta({ id: 'ProofStep' }),
)

export const proofView = z.object({
  leaf: hex(64).describe('SHA-256 of the byte 00 and the canonical JSON of the entry'),
  path: pathView.describe('from the leaf up: fold each in by SHA-256(left bytes, right bytes)'),
  root: hex(64),
  entry: entryView,
  seq: z.int().min(1),
  index: z.int().min(0).describe('place of the entry under its seal, from 0'),
})

/**
 * Makes the proof that the entry at place `index` is under seal `seq`.
 *
 * @param index place under the seal, from 0
 * @throws Refusal `no_such_seal`, `no_such_index`
 */
export async function readProof(
  ctx: Pick<Context, 'entries' | 'seals'>,
  seq: number,
  index: number,
): Promise<{ seal: SealRecord; proof: SealProof }> {
  const seal = await ctx.seals.find(seq)
  if (seal === undefined)
    throw new Refusal('no_such_seal', `There is no seal ${seq}; GET /seal lists them.`, { field: 'seq' })
  if (index >= seal.count)
    throw new Refusal(
      'no_such_index',
      `Seal ${seq} covers ${seal.count} entries; expected an index from 0 to ${seal.count - 1}.`,
      { field: 'index' },
    )
  const entry = await ctx.entries.find(seal.from_id + index)
  if (entry === undefined) throw new Error(`entry ${seal.from_id + index} of seal ${seq} is missing`)
  const [proof] = await proveEntries(ctx, seal, [entry])
  return { seal, proof: proof as SealProof }
}

/**
 * Makes the proof for each of these entries that it is under a seal, from the tiles of the log, and verifies it.
 *
 * @param stored entries that the seal covers
 * @throws Error if a proof doesn't lead to the seal's root: then what is stored is wrong
 */
export async function proveEntries(
  ctx: Pick<Context, 'entries'>,
  seal: SealRecord,
  stored: readonly EntryRecord[],
): Promise<SealProof[]> {
  const { _id: seq, count, root, from_id: fromId } = seal
  const paths = await ctx.entries.readSealPaths(
    seal,
    stored.map(({ _id }) => _id),
  )
  return stored.map((record, place) => {
    const entry = viewEntry(record)
    const index = record._id - fromId
    const leaf = leafHash(entry)
    const path = paths[place] ?? []
    const verdict = verifyInclusion({ leaf, path, root, index, count })
    if (!verdict.ok)
      throw new Error(`the proof of entry ${entry.id} under seal ${seq} does not hold: ${verdict.message}`)
    return { leaf, path, root, entry, seq, index }
  })
}
