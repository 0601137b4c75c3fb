import type { Context } from '../context.ts'
import { canonicalJson } from '../crypto/canonical-json.ts'
import { performStep } from '../platform/step.ts'
import { unixSeconds } from '../platform/time.ts'
import { endAdoption, readAdoption, requireLastSigned, type Adoption } from './adoption-file.ts'
import { verifyWholeChain } from './chain-check.ts'
import { NO_PAYLOAD_HASH, sealRecordId, SealError } from './seal.ts'
import { readMemoryUnlessDamaged, type Remembered } from './seal-memory.ts'
import { askForUnknownSeals } from './seal-peers.ts'
import type { Signer } from './signer.ts'
import type { WithSigning } from './signing-state.ts'

type AdoptionContext = WithSigning &
  Pick<Context, 'database' | 'entries' | 'seals' | 'metrics' | 'log' | 'now'>

/**
 * Step a: applies the adoption that lies beside the memory, if there is one. If it is refused, that is
 * logged, its file is renamed, and signing goes on from what the memory holds.
 */
export async function applyWaitingAdoption(ctx: AdoptionContext, signer: Signer): Promise<void> {
  try {
    const adoption = readAdoption(signer.memoryFile)
    if (adoption !== undefined) await applyAdoption(ctx, signer, adoption)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    endAdoption(signer.memoryFile, false)
    ctx.log.error({ err: error }, 'an adoption was refused and put aside')
  }
}

/**
 * Records an adoption as a ledger entry, then puts the adopted seal into the memory, then removes the file.
 * Skips what an earlier run has done. The entry comes first: an adoption may make a fork, which must not go
 * unseen.
 *
 * @throws SealError if the database or the memory is not what the operator decided on, or the chain doesn't
 *   hold
 */
async function applyAdoption(ctx: AdoptionContext, signer: Signer, adoption: Adoption): Promise<void> {
  const { memory, memoryFile, pubkey, watch } = signer
  const { seq, payload_hash } = adoption
  const remembered = readMemoryUnlessDamaged(memoryFile)
  const isInMemory =
    remembered?.seq === seq && remembered.payload_hash === payload_hash && remembered.pubkey === pubkey
  if (!isInMemory || !(await isRecorded(ctx, adoption))) {
    requireMemoryUnchanged(adoption, remembered)
    await requireLastSigned(ctx.seals, seq, payload_hash)
    const status = await verifyWholeChain(ctx)
    if (!status.intact)
      throw new SealError(
        `Seal ${seq} is not adopted, because the chain in the database does not hold: ${status.fault ?? 'no reason is stored'}.`,
      )
    if (!(await isRecorded(ctx, adoption)))
      await performStep(watch, 'adoption', () => recordAdoption(ctx, adoption))
    const givenUp = await findGivenUpSeqs(ctx, pubkey, seq, remembered)
    const adopted: Remembered = { seq, payload_hash, pubkey }
    if (remembered?.origin !== undefined) adopted.origin = remembered.origin
    if (givenUp !== undefined) adopted.given_up = givenUp
    await memory.write(adopted, watch)
  }
  await performStep(watch, 'adopted', () => endAdoption(memoryFile, true))
  ctx.log.warn({ seq, payload_hash }, 'the operator adopted a seal: signing goes on from it')
}

/**
 * @throws SealError if the memory isn't what it was when the operator decided; one that is gone is accepted
 */
function requireMemoryUnchanged(
  { seq, remembered: decidedOn }: Adoption,
  remembered: Remembered | undefined,
): void {
  if (
    (decidedOn?.seq ?? 0) === (remembered?.seq ?? 0) &&
    (remembered === undefined || decidedOn?.payload_hash === remembered.payload_hash)
  )
    return
  throw new SealError(
    `Seal ${seq} is not adopted: the seal memory ends at seal ${remembered?.seq ?? 0}, and ended at seal ${decidedOn?.seq ?? 0} when the operator decided. Adopt again.`,
  )
}

/** Whether there is a ledger entry with the content of this adoption, numbered or pending. */
async function isRecorded(ctx: AdoptionContext, adoption: Adoption): Promise<boolean> {
  const { source, data } = adoptionEntry(adoption, 0)
  const numbered = await ctx.entries.findBySource(source)
  const pending = await ctx.seals.findAdoption(adoption.id)
  return [numbered, ...(pending ?? [])].some(
    (entry) =>
      entry?.source === source &&
      entry.kind === 'seal_adoption' &&
      canonicalJson(entry.data) === canonicalJson(data),
  )
}

/** Stores an adoption with its pending ledger entry. @throws SealError if one of this id is stored already */
async function recordAdoption(ctx: AdoptionContext, adoption: Adoption): Promise<void> {
  const at = unixSeconds(ctx.now())
  const { id, seq, payload_hash } = adoption
  const pending = [adoptionEntry(adoption, at)]
  if (await ctx.seals.insertAdoption({ _id: id, seq, payload_hash, at, pending })) return
  throw new SealError(
    `Seal ${seq} is not adopted: another adoption ${id} is stored, with no entry of its own. Adopt again.`,
  )
}

/** The pending ledger entry of an adoption. @param at Unix seconds */
function adoptionEntry({ id, seq, payload_hash }: Adoption, at: number) {
  const kind = 'seal_adoption' as const
  return {
    source: `${sealRecordId(seq)}/adoption/${id}`,
    at,
    kind,
    data: { seal: sealRecordId(seq), payload_hash },
  }
}

/**
 * Finds the range of seqs that the operator gives up by adopting seal `seq`: from the one after it to the
 * last that our memory remembers, extended by what an earlier adoption gave up and by every seal of this key
 * that a peer has and our database doesn't.
 *
 * @returns the first and the last seq; undefined if nothing is given up
 */
async function findGivenUpSeqs(
  ctx: AdoptionContext,
  pubkey: string,
  seq: number,
  remembered: Remembered | undefined,
): Promise<Remembered['given_up']> {
  const nothing: Remembered = { seq: 0, payload_hash: NO_PAYLOAD_HASH, pubkey }
  const known = { pubkey, remembered: nothing, last: await ctx.seals.lastSigned() }
  const unknownSeals = await Promise.all(
    ctx.signing.peers.map((peer) => askForUnknownSeals(ctx, peer, known)),
  )
  const seqs = unknownSeals.flatMap((seals) => (seals ?? []).map((seal) => seal.seq))
  const earlier = remembered?.given_up
  const from = Math.min(seq + 1, earlier?.from ?? Infinity, ...seqs)
  const to = Math.max(remembered?.seq ?? 0, earlier?.to ?? 0, ...seqs)
  return to < from ? undefined : { from, to }
}
