import { z } from 'zod'
import type { Config } from '../platform/config.ts'
import type { Context } from '../context.ts'
import { sealPayloadHash, verifySealSignature, type Seal } from '../crypto/seal-payload.ts'
import { readBounded } from '../platform/http.ts'
import { MAX_PEER_ANSWER_BYTES, PEER_TIMEOUT_MS } from '../platform/limits.ts'
import { createOutsider, type Outsider, type Recollection } from './outsider.ts'
import { headOf, type SealRecord } from './seal.ts'
import type { Remembered } from './seal-memory.ts'

/** A service outside this host that publishes the chain of seals. */
export interface SealPeer extends Outsider {
  readonly url: string
}

/**
 * The peers of SEAL_PEERS, which are required, after this service's own public URL if that is set and not among
 * them. That isn't required: it may be down because we are.
 */
export function createSealPeers({
  publicUrl,
  sealPeers,
}: Pick<Config, 'publicUrl' | 'sealPeers'>): SealPeer[] {
  const named = sealPeers.map((url) => ({ ...createOutsider(url, true), url }))
  if (publicUrl === undefined || sealPeers.includes(publicUrl)) return named
  return [{ ...createOutsider(publicUrl, false), url: publicUrl }, ...named]
}

type PeerContext = Pick<Context, 'seals' | 'metrics' | 'log'>

/** What this host knows of what was signed: with which key (hex), by its memory, and up to which seal. */
export interface KnownHere {
  pubkey: string
  remembered: Remembered
  /** The last signed seal of the database. */
  last: SealRecord | undefined
}

/** Asks a peer for its seals, and compares them with the database, the memory, and what an adoption gave up. */
export async function recallOfPeer(
  ctx: PeerContext,
  peer: SealPeer,
  known: KnownHere,
): Promise<Recollection> {
  const unknown = await askForUnknownSeals(ctx, peer, known)
  if (unknown === undefined) return { kind: 'away' }
  const { given_up: givenUp } = known.remembered
  const seal = unknown.findLast(({ seq }) => givenUp === undefined || seq < givenUp.from || seq > givenUp.to)
  if (seal === undefined) return { kind: 'agrees' }
  ctx.metrics.countAnomaly('peer')
  return {
    kind: 'conflict',
    because: 'peer_remembers_more',
    isProven: true,
    sentence: `${peer.url} has a seal ${seal.seq} by this key with the payload hash ${sealPayloadHash(seal)}, and the database, which ends at signed seal ${known.last?._id ?? 0}, does not`,
  }
}

/**
 * Asks a peer for its seals.
 *
 * @returns those by our key that neither database nor memory has; undefined if it doesn't answer, which is
 *   logged
 */
export async function askForUnknownSeals(
  ctx: PeerContext,
  { url }: SealPeer,
  { pubkey, remembered, last }: KnownHere,
): Promise<Seal[] | undefined> {
  try {
    const theirs = await fetchSeals(url)
    const seqs = theirs.map(({ seq }) => seq)
    const from = Math.min(...seqs)
    const to = Math.min(Math.max(...seqs), last?._id ?? 0)
    const stored = to < from ? [] : await ctx.seals.listSigned(from, to, to - from + 1)
    const hashes = new Map(stored.map((seal) => [seal._id, headOf(seal).payloadHash]))
    const ours = (seq: number) =>
      hashes.get(seq) ?? (seq === remembered.seq ? remembered.payload_hash : undefined)
    return findUnknownSeals(theirs, ours, pubkey)
  } catch (error) {
    ctx.log.warn({ err: error, peer: url }, 'a peer could not be asked what it remembers of the seals')
    return undefined
  }
}

const answerForm = z.object({ seals: z.array(z.looseObject({ seq: z.int().min(1) })) })

/**
 * Fetches the seals of a peer's `GET /seal`. Only their `seq` is checked here.
 *
 * @throws Error if it doesn't answer in time and in form
 */
export async function fetchSeals(url: string): Promise<Seal[]> {
  const answer = await fetch(`${url}/seal`, {
    redirect: 'error',
    signal: AbortSignal.timeout(PEER_TIMEOUT_MS),
  })
  if (!answer.ok || answer.body === null) throw new Error(`it answered ${answer.status}`)
  const tooLong = () => new Error(`its answer is longer than ${MAX_PEER_ANSWER_BYTES} bytes`)
  const { seals } = answerForm.parse(JSON.parse(await readBounded(answer, MAX_PEER_ANSWER_BYTES, tooLong)))
  return seals as (Seal & { [name: string]: unknown })[]
}

/**
 * Returns those of a peer's seals that the key `pubkey` (hex) has signed and that aren't known here. Seals
 * without a valid signature are left out: anyone can make them up.
 *
 * @param ours gives the payload hash that is known here for a seq; undefined if there is none
 */
export function findUnknownSeals(
  theirs: readonly Seal[],
  ours: (seq: number) => string | undefined,
  pubkey: string,
): Seal[] {
  return theirs.filter((seal) => {
    if (!seal.signed || seal.pubkey !== pubkey) return false
    try {
      // The hash first: verifying the signature takes longer.
      return sealPayloadHash(seal) !== ours(seal.seq) && verifySealSignature(seal).ok
    } catch {
      return false
    }
  })
}
