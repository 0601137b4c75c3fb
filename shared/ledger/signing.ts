import type { Context } from '../context.ts'
import { signSeal, verifySealSignature } from '../crypto/seal-payload.ts'
import { refuseCopy } from '../platform/copy.ts'
import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { unixSeconds } from '../platform/time.ts'
import { applyWaitingAdoption } from './adopt.ts'
import { verifyNewSeals } from './chain-check.ts'
import { checkpointOf, findLogConflict, originOf, signCheckpoint } from './checkpoint.ts'
import { requireAgreement } from './outsider.ts'
import { recomputeSeal } from './recompute.ts'
import { sealFields, SealError, SIGNING_REMEDY, type SealRecord } from './seal.ts'
import { findMemoryConflict, headOf, NOTHING_SIGNED } from './seal-memory.ts'
import { recallOfPeer, type KnownHere } from './seal-peers.ts'
import { findTimeFault, openSigner, requireSealMemory, type Signer } from './signer.ts'
import { recallOfWitness } from './witnesses.ts'

/*
 * Signing, in the one process that has the key. Steps 1 and 2 of the order are in sealer.ts. It trusts
 * nobody: neither the database nor the queues can tell it what to sign, only what there is to look at. Under
 * the exclusive lock of the seal memory:
 *
 *   a. An adoption that lies beside the memory is taken: recorded in the database, then in the memory, then
 *      removed. A death in between leaves the file, and the next run does what is left (adopt.ts).
 *   b. The memory must be there, and the chain must hold as far as the workers have verified it.
 *   c. Once after each start, what others remember of the chain is compared with the database: see
 *      outsider.ts.
 *
 * Then, for each unsigned seal, the lowest first:
 *
 *   3. Read the entries again, recompute leaves, tiles, root, sums, keys and closing entry, and compare all
 *      of them with what is stored. The log goes on from tiles that lead to the root in the memory; without
 *      them, from the first entry. A signature is a statement about the ledger as it lies in the database,
 *      not about what some process once had in memory. The seal's time must not be ahead, of this clock or of
 *      the database's, unless the seal before has it (recompute.ts).
 *   4. The seal memory: it must not know another payload for this seq or a later one, nor another root for
 *      this size of the log or a larger size; then it is written, synced and renamed. From here on no other
 *      payload and no other checkpoint can be signed in this place by this host, whatever is restored.
 *   5. Sign the seal, and the checkpoint of the log at its end. Only after 4: a signature that exists must be
 *      remembered, also if we die before it is stored.
 *   6. Verify both signatures by the rules of every verifier.
 *   7. Store them by one write where there are none, on exactly the seal that was signed.
 *
 * A death before 4 leaves an unsigned seal, as if nothing had been done. A death after 4 leaves an unsigned
 * seal that the memory knows: the next run finds the same payload in it and goes on, and since Ed25519 is
 * deterministic it makes the same signature; only `signed_at`, which is not signed, may differ. A write of 7
 * that failed and was stored is found signed. So recovery is the next run.
 */

export interface SigningOptions {
  watch?: WatchStep
}

type SigningContext = Pick<
  Context,
  | 'database'
  | 'entries'
  | 'seals'
  | 'logTiles'
  | 'readKeyTree'
  | 'config'
  | 'peers'
  | 'witnesses'
  | 'cosignatures'
  | 'metrics'
  | 'log'
  | 'now'
>

/** After this many signatures of one run they are verified once more, and the chain's status is stored. */
const STATUS_EVERY = 100

/**
 * Applies a waiting adoption, then signs every unsigned seal with its checkpoint, in order, and stores the
 * signatures.
 *
 * @returns how many seals were signed; 0 also if there is no key yet, another process of this host is
 *   signing, a peer that didn't answer is given a pause, the chain is known not to hold, or this machine's
 *   clock is behind
 * @throws SealError if what is stored can't be trusted; nothing is signed from there on
 * @throws StartError if the database is a restored copy
 */
export async function signSeals(ctx: SigningContext, options: SigningOptions = {}): Promise<number> {
  const signer = openSigner(ctx, options.watch)
  if (signer === undefined) return 0
  try {
    await refuseCopy(ctx.database.connection, 'nothing is signed')
    await applyWaitingAdoption(ctx, signer)
    let signed = 0
    for (;;) {
      const { last, firstUnsigned, next } = await readSigningPosition(ctx)
      if (signed > 0 && (signed % STATUS_EVERY === 0 || firstUnsigned === undefined))
        await performStep(options.watch, 'status', () => verifyNewSeals(ctx))
      if (firstUnsigned === undefined) return signed
      if (last !== undefined && firstUnsigned < last._id)
        throw new SealError(
          `seal ${firstUnsigned} has no signature and seal ${last._id} after it has one. ${SIGNING_REMEDY}`,
        )
      if (next === undefined)
        throw new SealError(
          `seal ${(last?._id ?? 0) + 1} is missing, and seal ${firstUnsigned} comes after it. ${SIGNING_REMEDY}`,
        )
      if (signed === 0 && !(await checkBeforeFirstSignature(ctx, signer, last))) return 0
      if (!(await signNextSeal(ctx, next, last, signer))) return signed
      signed++
    }
  } finally {
    signer.memory.close()
  }
}

/**
 * Checks before the first signature of a run that signing may begin (steps b and c): by the memory, the
 * chain's status, and what peers and witnesses remember.
 *
 * @returns whether signing may begin: false if the chain doesn't hold, or a named peer is given a pause
 * @throws SealError if the memory is missing, a named peer doesn't answer, or a peer or witness remembers
 *   another chain
 */
async function checkBeforeFirstSignature(
  ctx: SigningContext,
  signer: Signer,
  last: SealRecord | undefined,
): Promise<boolean> {
  const remembered = requireSealMemory(signer)
  const { intact, fault } = await ctx.seals.readStatus()
  if (!intact) {
    ctx.log.error({ fault }, 'nothing is signed while the chain of seals does not hold')
    return false
  }
  const known = { pubkey: signer.pubkey, remembered, last }
  return performStep(signer.watch, 'peers', () => askOutsiders(ctx, known))
}

/**
 * Step c: asks witnesses and peers that have not agreed since the start what they remember.
 *
 * @returns whether signing may begin
 * @throws SealError see requireAgreement()
 */
function askOutsiders(ctx: SigningContext, known: KnownHere): Promise<boolean> {
  const checkpoint = checkpointOf(known.last)
  const peers = ctx.peers.map((peer) => ({ outsider: peer, recall: () => recallOfPeer(ctx, peer, known) }))
  // Without a checkpoint there is nothing to ask a witness.
  const witnesses =
    checkpoint === undefined
      ? []
      : ctx.witnesses.map((witness) => ({
          outsider: witness,
          recall: () => recallOfWitness(ctx, witness, checkpoint),
        }))
  return requireAgreement([...peers, ...witnesses], ctx.config.witnessQuorum)
}

/**
 * Reads where signing stands: the last signed seal, the seq of the first unsigned one, and the seal after the
 * last signed one; each undefined if there is none. One transaction reads them all: separate reads may be
 * answered by a primary and by its successor, which knows less at first.
 */
export function readSigningPosition(ctx: Pick<Context, 'database' | 'seals'>) {
  return ctx.database.transaction(async (session) => {
    const last = await ctx.seals.lastSigned(session)
    const [firstUnsigned] = await ctx.seals.listUnsigned(1, session)
    const next = await ctx.seals.find((last?._id ?? 0) + 1, session)
    return { last, firstUnsigned, next }
  })
}

/**
 * Steps 3 to 7 for one seal: recomputes it, remembers it, signs it with its checkpoint, and stores the
 * signatures.
 *
 * @param last the last signed seal, which `seal` follows
 * @returns false, and nothing is signed, if this machine's clock is behind
 * @throws SealError if the seal must not be signed
 */
async function signNextSeal(
  ctx: SigningContext,
  seal: SealRecord,
  last: SealRecord | undefined,
  signer: Signer,
): Promise<boolean> {
  const { key, pubkey, memory, watch } = signer
  const seq = seal._id
  const fields = sealFields(seal)
  const remembered = requireSealMemory(signer)
  const origin = originOf(ctx.config, remembered, last)
  const head = headOf(seal)
  const refuseIfConflict = (conflict: string | undefined): void => {
    if (conflict === undefined) return
    const adoptable = last === undefined ? NOTHING_SIGNED : headOf(last)
    throw new SealError(
      `Seal ${seq} is not signed: ${conflict}. ${SIGNING_REMEDY} The last signed seal of the database: ${adoptable.seq} ${adoptable.payloadHash}`,
    )
  }
  refuseIfConflict(
    findMemoryConflict(remembered, last === undefined ? undefined : headOf(last), head, pubkey),
  )
  const { log, keys } = await performStep(watch, 'read-again', () =>
    recomputeSeal(ctx, seal, last, remembered),
  )
  // A time that was signed before may be repeated: the next seal can't have an earlier one.
  const fault = findTimeFault(ctx, seal.at === last?.at ? 0 : seal.at)
  if (fault?.isOurs === false)
    throw new SealError(`Seal ${seq} is not signed: ${fault.sentence}. ${SIGNING_REMEDY}`)
  if (fault !== undefined) {
    ctx.log.error({ seq }, `a seal is not signed: ${fault.sentence}`)
    return false
  }

  refuseIfConflict(findLogConflict(remembered, log))
  await memory.write({ ...remembered, seq, payload_hash: head.payloadHash, pubkey, origin, log, keys }, watch)

  // By this machine's clock, unless it is too far ahead of the database's.
  const nowMs = Math.min(ctx.now(), ctx.database.now() + MAX_SIGNED_AHEAD_MS)
  const signedAt = Math.max(unixSeconds(nowMs), seal.at)
  const signature = await performStep(watch, 'sign', () => ({
    ...signSeal(fields, key, signedAt),
    ...signCheckpoint(origin, log, key, pubkey),
  }))
  await performStep(watch, 'verify', () => {
    const verdict = verifySealSignature({ ...fields, ...signature })
    if (!verdict.ok)
      throw new SealError(`the signature made for seal ${seq} does not verify: ${verdict.message}`)
  })
  const isStored = await performStep(watch, 'signature', () =>
    ctx.database.transaction((session) => ctx.seals.storeSignature(seal, signature, session)),
  )
  if (!isStored) await requireSignedPayload(ctx, seal)
  return true
}

/**
 * Checks that a stored seal is signed and has the same payload as `seal`: so another process has signed it.
 *
 * @throws SealError if it isn't
 */
async function requireSignedPayload(ctx: SigningContext, seal: SealRecord): Promise<void> {
  const stored = await ctx.seals.find(seal._id)
  if (stored?.signed !== true || headOf(stored).payloadHash !== headOf(seal).payloadHash)
    throw new SealError(`seal ${seal._id} changed while it was being signed. ${SIGNING_REMEDY}`)
}
