import type { Context } from '../context.ts'
import { signSeal, verifySealSignature } from '../crypto/seal-payload.ts'
import { refuseCopy } from '../platform/copy.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { applyWaitingAdoption } from './adopt.ts'
import { verifyNewSeals } from './chain-check.ts'
import { checkpointOf, isCheckpointSigned, originOf, signCheckpoint } from './checkpoint.ts'
import type { LogState } from './log.ts'
import { askForAgreement } from './outsider.ts'
import { recomputeSeal } from './recompute.ts'
import { headOf, sealFields, type SealRecord } from './seal.ts'
import type { SealStore } from './seal-store.ts'
import { recallOfPeer, type KnownHere } from './seal-peers.ts'
import { openSigner, requireSealMemory, type Signer } from './signer.ts'
import {
  SIGNING_REFUSALS,
  SigningStopped,
  type SigningOutcome,
  type StopName,
  type WaitName,
} from './signing-refusals.ts'
import type { WithSigning } from './signing-state.ts'
import { decideSigning, findMemoryConflict, findNextSeal, type SigningPosition } from './signing-rules.ts'
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
 *      not about what some process once had in memory (recompute.ts).
 *   4. Decide by pure rules (signing-rules.ts), and remember. The seal's time must not be ahead, of this clock
 *      or of the database's, unless the seal before has it. The seal memory must not know another payload for
 *      this seq or a later one, nor another root for this size of the log or a larger size; then it is
 *      written, synced and renamed. From here on no other payload and no other checkpoint can be signed in
 *      this place by this host, whatever is restored.
 *   5. Sign the seal, and the checkpoint of the log at its end. Only after 4: a signature that exists must be
 *      remembered, also if we die before it is stored.
 *   6. Verify both signatures by the rules of every verifier.
 *   7. Store them by one write where there are none, on exactly the seal that was signed.
 *
 * A death before 4 leaves an unsigned seal, as if nothing had been done. A death after 4 leaves an unsigned
 * seal that the memory knows: the next run finds the same payload in it and goes on, and since Ed25519 is
 * deterministic it makes the same signature; only `signed_at`, which is not signed, may differ. A write of 7
 * that failed and was stored is found signed. So recovery is the next run.
 *
 * What keeps a seal unsigned has a name and a remedy in signing-refusals.ts: either signSeals() returns it, or
 * it is thrown.
 */

export interface SigningOptions {
  watch?: WatchStep
}

type SigningContext = WithSigning &
  Pick<Context, 'database' | 'entries' | 'seals' | 'config' | 'metrics' | 'log' | 'now'>

/** After this many signatures of one run they are verified once more, and the chain's status is stored. */
const STATUS_EVERY = 100

/** Why nothing is signed for now. */
interface Wait {
  because: WaitName
  sentence: string
}

const waitFor = (because: WaitName): Wait => ({ because, sentence: SIGNING_REFUSALS[because].sentence })

/**
 * Applies a waiting adoption, then signs every unsigned seal with its checkpoint, in order, and stores the
 * signatures.
 *
 * @returns how many seals were signed, and why no more
 * @throws SigningStopped, or another SealError, if what is stored can't be trusted; nothing is signed from
 *   there on
 * @throws StartError if the database is a restored copy
 */
export async function signSeals(ctx: SigningContext, options: SigningOptions = {}): Promise<SigningOutcome> {
  const opened = openSigner(ctx.config, options.watch)
  if (opened.kind !== 'open') return { signed: 0, ...waitFor(opened.kind) }
  const { signer } = opened
  try {
    await refuseCopy(ctx.database.connection, 'nothing is signed')
    await applyWaitingAdoption(ctx, signer) // a
    for (let signed = 0; ; signed++) {
      const position = await readSigningPosition(ctx)
      const { last, firstUnsigned } = position
      if (signed > 0 && (signed % STATUS_EVERY === 0 || firstUnsigned === undefined))
        await performStep(signer.watch, 'status', () => verifyNewSeals(ctx))
      const found = findNextSeal(position)
      if (found.kind === 'none') return { signed, because: 'all_signed' }
      if (found.kind === 'out_of_order') throw new SigningStopped(found.kind, found.sentence)
      const wait = signed === 0 ? await prepareToSign(ctx, signer, last) : undefined // b and c
      if (wait !== undefined) return { signed, ...wait }
      const clockWait = await signNextSeal(ctx, signer, found.seal, last) // 3 to 7
      if (clockWait !== undefined) return { signed, ...clockWait }
    }
  } finally {
    signer.memory.close()
  }
}

/**
 * Reads where signing stands. One transaction reads all of it: separate reads may be answered by a primary and
 * by its successor, which knows less at first.
 */
export function readSigningPosition(ctx: Pick<Context, 'database' | 'seals'>): Promise<SigningPosition> {
  return ctx.database.transaction(async (session) => {
    const last = await ctx.seals.lastSigned(session)
    const [firstUnsigned] = await ctx.seals.listUnsigned(1, session)
    const next = await ctx.seals.find((last?._id ?? 0) + 1, session)
    return { last, firstUnsigned, next }
  })
}

/**
 * Steps b and c, before the first signature of a run: the memory is there, the chain holds, and those outside
 * remember nothing else.
 *
 * @returns what has to be waited for first; undefined if nothing
 * @throws SigningStopped if the memory is missing, a peer of SEAL_PEERS doesn't answer, or a peer or witness
 *   remembers another chain
 */
async function prepareToSign(
  ctx: SigningContext,
  signer: Signer,
  last: SealRecord | undefined,
): Promise<Wait | undefined> {
  const remembered = requireSealMemory(signer)
  const { intact, fault = 'no reason is stored' } = await ctx.seals.readStatus()
  if (!intact)
    return { because: 'chain_does_not_hold', sentence: `the chain of seals does not hold: ${fault}` }
  const known = { pubkey: signer.pubkey, remembered, last }
  const answer = await performStep(signer.watch, 'peers', () => askOutsiders(ctx, known))
  return answer === 'agreed' ? undefined : waitFor(answer)
}

/** Step c: asks peers and witnesses that have not agreed since the start what they remember. */
function askOutsiders(ctx: SigningContext, known: KnownHere): ReturnType<typeof askForAgreement> {
  const checkpoint = checkpointOf(known.last)
  const peers = ctx.signing.peers.map((peer) => ({
    outsider: peer,
    recall: () => recallOfPeer(ctx, peer, known),
  }))
  // Without a checkpoint there is nothing to ask a witness.
  const witnesses =
    checkpoint === undefined
      ? []
      : ctx.signing.witnesses.map((witness) => ({
          outsider: witness,
          recall: () => recallOfWitness(ctx, witness, checkpoint),
        }))
  return askForAgreement([...peers, ...witnesses], ctx.config.witnessQuorum)
}

/**
 * Steps 3 to 7 for one seal.
 *
 * @param last the last signed seal, which `seal` follows
 * @returns undefined once it is signed; else that this machine's clock is behind
 * @throws SigningStopped if the seal must not be signed
 */
async function signNextSeal(
  ctx: SigningContext,
  signer: Signer,
  seal: SealRecord,
  last: SealRecord | undefined,
): Promise<Wait | undefined> {
  const { pubkey, memory, watch } = signer
  const remembered = requireSealMemory(signer)
  const origin = originOf(ctx.config, remembered, last)
  // All of the rule is asked in step 4. What the memory forbids needn't be read again.
  const conflict = findMemoryConflict(remembered, headOf(last), headOf(seal), pubkey)
  if (conflict !== undefined) throw refusal('memory_differs', conflict, seal, last)

  // 3
  const after = await performStep(watch, 'read-again', () => recomputeSeal(ctx, seal, last, remembered))
  // 4
  const [nowMs, databaseMs] = [ctx.now(), ctx.database.now()]
  const decision = decideSigning({ seal, last, remembered, pubkey, origin, after, nowMs, databaseMs })
  if (decision.kind === 'date_ahead' || decision.kind === 'clock_behind') ctx.metrics.countAnomaly('clock')
  if (decision.kind === 'clock_behind') return { because: decision.kind, sentence: decision.sentence }
  if (decision.kind !== 'sign') throw refusal(decision.kind, decision.sentence, seal, last)
  await memory.write(decision.remember, watch)
  // 5
  const signatures = await performStep(watch, 'sign', () =>
    makeSignatures(signer, seal, origin, after.log, decision.signedAt),
  )
  // 6
  await performStep(watch, 'verify', () => requireVerified(signatures, seal, after.log, pubkey))
  // 7
  const isStored = await performStep(watch, 'signature', () =>
    ctx.database.transaction((session) => ctx.seals.storeSignature(seal, signatures, session)),
  )
  if (!isStored) await requireSignedPayload(ctx.seals, seal)
  return undefined
}

/** The error that a seal must not be signed. It names the seal that an operator may adopt, if that is a remedy. */
function refusal(
  because: StopName,
  sentence: string,
  { _id: seq }: SealRecord,
  last: SealRecord | undefined,
): SigningStopped {
  const adoptable = headOf(last)
  const more =
    because === 'memory_differs'
      ? { more: `The last signed seal of the database: ${adoptable.seq} ${adoptable.payloadHash}` }
      : {}
  return new SigningStopped(because, `Seal ${seq} is not signed: ${sentence}`, more)
}

/** Step 5. @param signedAt Unix seconds */
const makeSignatures = (
  { key }: Signer,
  seal: SealRecord,
  origin: string,
  log: LogState,
  signedAt: number,
) => ({ ...signSeal(sealFields(seal), key, signedAt), ...signCheckpoint(origin, log, key) })

/** Step 6. @throws SigningStopped if a signature that was just made doesn't verify */
function requireVerified(
  signatures: ReturnType<typeof makeSignatures>,
  seal: SealRecord,
  log: LogState,
  pubkey: string,
): void {
  const verdict = verifySealSignature({ ...sealFields(seal), ...signatures })
  if (!verdict.ok)
    throw new SigningStopped(
      'bad_signature',
      `the signature made for seal ${seal._id} does not verify: ${verdict.message}`,
    )
  if (!isCheckpointSigned(signatures, log, pubkey))
    throw new SigningStopped(
      'bad_signature',
      `the signature made for the checkpoint of size ${log.size} does not verify`,
    )
}

/**
 * Checks, if step 7 found the seal signed, that another process has signed the same payload.
 *
 * @throws SigningStopped if it hasn't
 */
async function requireSignedPayload(seals: Pick<SealStore, 'find'>, seal: SealRecord): Promise<void> {
  const stored = await seals.find(seal._id)
  if (stored?.signed !== true || headOf(stored).payloadHash !== headOf(seal).payloadHash)
    throw new SigningStopped('changed_meanwhile', `seal ${seal._id} changed while it was being signed`)
}
