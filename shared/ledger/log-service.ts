import { z } from 'zod'
import { canonicalJson } from '../crypto/canonical-json.ts'
import { verifyLogConsistency, verifyLogInclusion, tileWidth } from '../crypto/log-tree.ts'
import { HASH_BYTES, hashLeafTexts, leafHash, TILE_WIDTH } from '../crypto/merkle.ts'
import { formatLogProof, formatNote } from '../crypto/note.ts'
import type { Context } from '../context.ts'
import { invalidField, Refusal } from '../platform/errors.ts'
import { MAX_WITNESSES_ASKED } from '../platform/limits.ts'
import { hex, text } from '../platform/schema.ts'
import { statedKeys } from './agent-keys.ts'
import { checkpointOf, type StoredCheckpoint } from './checkpoint.ts'
import { entryView, viewEntry, type EntryRecord } from './entry.ts'
import { readTreeAsStated } from './key-tree-reader.ts'
import { proveConsistency, proveInLog, requireTileUnderRoot } from './log.ts'
import type { SealRecord } from './seal.ts'
import type { SealStore } from './seal-store.ts'

type LogContext = Pick<Context, 'entries' | 'seals'>

/** The last checkpoint and the seal that it was signed with. @throws Refusal `no_such_seal` */
export async function readCheckpoint(
  ctx: Pick<Context, 'seals'>,
): Promise<{ seal: SealRecord; checkpoint: StoredCheckpoint }> {
  const seal = await ctx.seals.lastSigned()
  const checkpoint = checkpointOf(seal)
  if (seal === undefined || checkpoint === undefined)
    throw new Refusal('no_such_seal', 'No checkpoint has been signed yet; one is signed with each seal.')
  return { seal, checkpoint }
}

/**
 * The query field by which a reader names the witnesses of its own policy: many agents may cosign, a note has
 * few lines, and whose lines count is for the reader to say.
 */
export const witnessField = z
  .array(
    text({ min: 1, max: 600 })
      // A + that was sent as it is stands for a space.
      .transform((vkey) => vkey.replaceAll(' ', '+')),
  )
  .max(MAX_WITNESSES_ASKED, `expected it at most ${MAX_WITNESSES_ASKED} times`)
  .optional()
  .describe(
    "the vkey of a witness whose cosignature is to stand first, if there is one; may be repeated. Without it the oldest are shown, which may be anybody's",
  )

/**
 * Formats a checkpoint as a signed note, with its stored cosignatures below (as many as are shown).
 *
 * @param asked vkeys of witnesses whose cosignatures come first
 */
export async function formatCosignedNote(
  { cosignatures }: Pick<SealStore, 'cosignatures'>,
  { size, text, line }: StoredCheckpoint,
  asked: readonly string[] = [],
): Promise<string> {
  return formatNote(text, [line, ...(await cosignatures.listLines(size, asked))])
}

/**
 * Reads the first `width` hashes of a tile of the last checkpoint's log, side by side.
 *
 * @throws Refusal `no_such_seal`; `no_such_index` if the tile has fewer hashes there
 */
export async function readTile(
  ctx: LogContext,
  level: number,
  index: number,
  width: number,
): Promise<Buffer> {
  const checkpoint = await requireTile(ctx, level, index, width)
  // Caches keep a tile for ever, so a damaged one must not be given out.
  const hashes = await requireTileUnderRoot(ctx.entries.tiles, { level, index }, checkpoint)
  return hashes.subarray(0, width * HASH_BYTES)
}

/**
 * Reads the first `width` entries below a tile of level 0, as bundleEntries() writes them.
 *
 * @throws Refusal `no_such_seal`; `no_such_index` if the last checkpoint covers fewer entries there
 */
export async function readEntryBundle(ctx: LogContext, index: number, width: number): Promise<Buffer> {
  return bundleEntries(ctx.entries, index, await readTile(ctx, 0, index, width))
}

/**
 * Reads the entries below a tile of level 0 as an entry bundle (C2SP tlog-tiles, "Log entries"): for each, the
 * length in two bytes, big-endian, and its canonical JSON.
 *
 * @param hashes the tile's, which lead to the signed root
 * @throws Error if an entry is missing or isn't the one that was sealed: whoever has a bundle keeps it for ever
 */
export async function bundleEntries(
  { list }: Pick<Context['entries'], 'list'>,
  index: number,
  hashes: Buffer,
): Promise<Buffer> {
  const entries = await list(index * TILE_WIDTH + 1, hashes.length / HASH_BYTES)
  const texts = entries.map((entry) => canonicalJson(viewEntry(entry)))
  if (!hashLeafTexts(texts).equals(hashes))
    throw new Error(`an entry below tile 0/${index} is missing or is not the one that was sealed`)
  return Buffer.concat(
    texts.flatMap((text) => {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(Buffer.byteLength(text))
      return [length, Buffer.from(text)]
    }),
  )
}

/**
 * @throws Refusal `no_such_seal`; `no_such_index` if the last checkpoint's log has fewer hashes in this tile
 */
async function requireTile(
  ctx: Pick<Context, 'seals'>,
  level: number,
  index: number,
  width: number,
): Promise<StoredCheckpoint> {
  const { checkpoint } = await readCheckpoint(ctx)
  const { size } = checkpoint
  const fullWidth = tileWidth(size, level, index)
  if (fullWidth < width)
    throw new Refusal(
      'no_such_index',
      `In the log of ${size} entries this tile has ${fullWidth} hashes; expected a width from 1 to that.`,
      { field: 'place' },
    )
  return checkpoint
}

export const consistencyView = z.object({
  from: z.int().min(0),
  to: z.int().min(0),
  from_root: hex(64).describe('root of the older log, as this service has it: compare it with what you kept'),
  to_root: hex(64),
  hashes: z.array(hex(64)).describe('the consistency proof of RFC 6962 section 2.1.2'),
})

/**
 * Makes the proof that the log of `to` entries begins with the one of `from` entries, and verifies it and that
 * the last checkpoint's log begins with both.
 *
 * @param given `to`; the size of the last checkpoint if absent
 * @throws Refusal `no_such_seal`; `invalid_field` unless from <= to <= the last checkpoint's size
 */
export async function readConsistency(
  ctx: LogContext,
  from: number,
  given: number | undefined,
): Promise<z.input<typeof consistencyView>> {
  const { size, root } = (await readCheckpoint(ctx)).checkpoint
  const to = given ?? size
  if (to > size)
    throw invalidField('to', `The last checkpoint has ${size} entries; expected "to" to be at most that.`)
  if (from > to) throw invalidField('from', `Expected "from" to be at most ${to}, the larger size.`)
  const { tiles } = ctx.entries
  const [fromRoot, toRoot, path, pathToSigned] = await Promise.all([
    tiles.readRoot(from),
    tiles.readRoot(to),
    proveConsistency(tiles, from, to),
    proveConsistency(tiles, to, size),
  ])
  const [smaller, larger] = [
    { size: from, root: fromRoot },
    { size: to, root: toRoot },
  ]
  const signed = { size, root: Buffer.from(root, 'hex') }
  // The stored tiles may be damaged: of themselves they prove what they say.
  if (!verifyLogConsistency(smaller, larger, path) || !verifyLogConsistency(larger, signed, pathToSigned))
    throw new Error(`the log of ${to} entries does not begin with that of ${from} by its stored tiles`)
  return {
    from,
    to,
    from_root: fromRoot.toString('hex'),
    to_root: toRoot.toString('hex'),
    hashes: path.map((hash) => hash.toString('hex')),
  }
}

/**
 * Reads the last checkpoint, and returns a function that gives, for each of some entries, the text of its proof of
 * inclusion in that log (C2SP tlog-proof): undefined for an entry that the checkpoint doesn't cover, or without a
 * checkpoint.
 */
export async function createLogProofFormatter(
  ctx: LogContext,
): Promise<(entries: readonly EntryRecord[]) => Promise<(string | undefined)[]>> {
  const checkpoint = checkpointOf(await ctx.seals.lastSigned())
  if (checkpoint === undefined) return async (entries) => entries.map(() => undefined)
  const note = await formatCosignedNote(ctx.seals, checkpoint)
  const { size, root } = checkpoint
  const formatProof = (entry: EntryRecord, path: readonly Buffer[]): string => {
    const index = entry._id - 1
    const leaf = Buffer.from(leafHash(viewEntry(entry)), 'hex')
    if (!verifyLogInclusion({ leaf, index, size, path, root: Buffer.from(root, 'hex') }))
      throw new Error(`the proof of entry ${entry._id} in the log of ${size} entries does not hold`)
    return formatLogProof({ index, path, checkpoint: note })
  }
  return async (entries) => {
    const covered = entries.map(({ _id }) => _id).filter((id) => id <= size)
    const paths = await proveInLog(ctx.entries.tiles, covered, size)
    const pathOf = new Map(covered.map((id, place) => [id, paths[place]]))
    return entries.map((entry) => {
      const path = pathOf.get(entry._id)
      return path && formatProof(entry, path)
    })
  }
}

const agentKeysView = z
  .object({
    agent_id: z.string(),
    dm_key: hex(64).optional(),
    author_key: hex(64).optional(),
    version: z.int().min(1).describe('how often any of its keys was set or revoked'),
    entry_id: z.int().min(1).describe('the entry that made them so'),
  })
  .meta({ id: 'AgentKeys' })

export const keysView = z.object({
  agent_id: z.string(),
  keys: agentKeysView
    .nullable()
    .describe(
      "the agent's keys after entry `up_to`, without those that it has revoked; null if it never had one",
    ),
  form: z
    .literal([1, 2])
    .describe(
      'of the tree, as `keys.v` of the closing entry states it: in 1, or if that is absent, a revoked key stays',
    ),
  up_to: z.int().min(0),
  proof: z
    .object({
      found: agentKeysView
        .nullable()
        .describe(
          "what stands at the agent's place in the tree: its keys, those of another agent, or nothing",
        ),
      path: z.array(hex(64)).describe('hashes beside the way to the root, lowest first'),
    })
    .describe('from SHA-256 of the agent_id, highest bit first, to keys.root of the closing entry'),
  entry: entryView.describe('the closing entry whose `keys` has the root'),
  tlog_proof: z.string().describe("the closing entry's place in the log, as c2sp.org/tlog-proof@v1"),
})

/**
 * Reads an agent's keys, null if it has none, with the proof of either that leads to the last checkpoint. The
 * keys are those before the entries of the last signed seal.
 *
 * @throws Refusal `no_such_seal` if no checkpoint is signed yet
 */
export async function readKeys(ctx: LogContext, agentId: string): Promise<z.input<typeof keysView>> {
  const { seal } = await readCheckpoint(ctx)
  const closing = await ctx.entries.find(seal.to_id)
  if (closing === undefined) throw new Error(`entry ${seal.to_id} is missing from the ledger`)
  const stated = statedKeys.parse(closing.data['keys'])
  const upTo = seal.from_id - 1
  const tree = await readTreeAsStated(ctx.entries.readKeyTree, upTo, stated)
  if (tree === undefined)
    throw new Error(`the keys up to entry ${upTo} have another root than entry ${seal.to_id} states`)
  const { keys, proof } = await tree.prove(agentId)
  const formatLogProofs = await createLogProofFormatter(ctx)
  const [tlogProof] = await formatLogProofs([closing])
  if (tlogProof === undefined) throw new Error(`entry ${seal.to_id} is not in the log of its own checkpoint`)
  return {
    agent_id: agentId,
    keys,
    form: stated.v ?? 1,
    up_to: upTo,
    proof: { found: proof.found, path: [...proof.path] },
    entry: viewEntry(closing),
    tlog_proof: tlogProof,
  }
}
