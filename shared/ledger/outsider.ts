import type { Config } from '../platform/config.ts'
import { PEER_PAUSE_MS } from '../platform/limits.ts'
import { SigningStopped } from './signing-refusals.ts'

/*
 * A host that was restored as a whole, database and seal memory from one copy, has forgotten what it signed
 * since; others have not. Before the first signature after a start, the signer asks everyone outside of this
 * host who remembers: peers, which publish the chain of seals (seal-peers.ts), and witnesses, which cosign the
 * log's checkpoints (witnesses.ts).
 *
 * What our own key has signed, and the database doesn't have, proves that it is an older copy. What somebody
 * says without showing that is no proof: anyone could end the log by naming a size that never was. It counts if
 * several say so.
 */

/** Somebody outside of this host who remembers what was signed; in this process, since it started. */
export interface Outsider {
  /** The URL of a peer, or the name in a witness's key. */
  readonly name: string
  /** Whether nothing is signed before it has answered. */
  readonly isRequired: boolean
  /** True once what it remembers was found to agree with the database: then it isn't asked before a signature. */
  hasAgreed: boolean
  /** Whether it gave no usable answer when it was asked last. */
  isAway: boolean
  /** How long it isn't asked after its next failure. */
  pauseMs: number
  /** Monotonic time, in milliseconds, before which it isn't asked. */
  askAtMs: number
}

/** One that was not asked yet. */
export const createOutsider = (name: string, isRequired: boolean): Outsider => ({
  name,
  isRequired,
  hasAgreed: false,
  isAway: false,
  pauseMs: PEER_PAUSE_MS.first,
  askAtMs: Number.NEGATIVE_INFINITY,
})

/** What one of them remembers, beside what is here. */
export type Recollection = { kind: 'agrees' } | { kind: 'away' } | Conflict

/** It remembers what isn't here, as the sentence says. */
interface Conflict {
  kind: 'conflict'
  because: 'peer_remembers_more' | 'witness_remembers_more'
  sentence: string
  isProven: boolean
}

/** A conflict without a proof counts if so many speak of one, and WITNESS_QUORUM of them. */
const MIN_CLAIMS = 2

/**
 * Which conflict forbids to sign: one that is proven, or any if enough speak of one. Undefined if none does.
 *
 * @param quorum WITNESS_QUORUM
 */
export function findForbidding(recollections: readonly Recollection[], quorum: number): Conflict | undefined {
  const conflicts = recollections.filter((recollection) => recollection.kind === 'conflict')
  const isEnough = conflicts.length >= Math.max(MIN_CLAIMS, quorum)
  return conflicts.find(({ isProven }) => isProven) ?? (isEnough ? conflicts[0] : undefined)
}

/** One of them, and how to learn what it remembers; never fails because of what it answers. */
export interface Asked {
  outsider: Outsider
  recall(): Promise<Recollection>
}

/**
 * Asks those who have not agreed since the start what they remember. Nobody is asked while a required one is
 * in its pause after a failure.
 *
 * @param quorum WITNESS_QUORUM
 * @throws SigningStopped if a required one doesn't answer, or if one proves, or enough of them say, that they
 *   remember what isn't here
 */
export async function askForAgreement(
  all: readonly Asked[],
  quorum: number,
): Promise<'agreed' | 'waits_for_outsider'> {
  const missing = all.filter(({ outsider }) => !outsider.hasAgreed)
  const due = missing.filter(({ outsider }) => performance.now() >= outsider.askAtMs)
  if (missing.some((asked) => asked.outsider.isRequired && !due.includes(asked))) return 'waits_for_outsider'
  const recollections = await Promise.all(
    due.map(async ({ outsider, recall }) => {
      const recollection = await recall()
      noteAnswer(outsider, recollection)
      return recollection
    }),
  )
  const conflict = findForbidding(recollections, quorum)
  if (conflict !== undefined)
    throw new SigningStopped(
      conflict.because,
      `Nothing is signed: ${conflict.sentence}: database and memory look like an older copy`,
    )
  const silent = due.filter(({ outsider }) => outsider.isRequired && outsider.isAway)
  if (silent.length > 0)
    throw new SigningStopped(
      'peer_is_silent',
      `Nothing is signed: ${silent.map(({ outsider }) => outsider.name).join(', ')} of SEAL_PEERS does not answer and is asked again after a pause`,
    )
  return 'agreed'
}

/** Notes what came of asking; after a failure it isn't asked before a signature for a while, each time for longer. */
export function noteAnswer(outsider: Outsider, { kind }: Recollection): void {
  outsider.isAway = kind === 'away'
  outsider.hasAgreed ||= kind === 'agrees'
  if (kind !== 'away') return
  outsider.askAtMs = performance.now() + outsider.pauseMs
  outsider.pauseMs = Math.min(2 * outsider.pauseMs, PEER_PAUSE_MS.longest)
}

/**
 * Says that a host which is restored as a whole, database and seal memory from one older copy, would sign a
 * second history: nobody outside of it remembers the first.
 *
 * @returns undefined if a witness or a peer does
 */
export const forkWarning = ({
  witnesses,
  sealPeers,
}: Pick<Config, 'witnesses' | 'sealPeers'>): string | undefined =>
  witnesses.length > 0 || sealPeers.length > 0
    ? undefined
    : 'nobody outside this host remembers what was signed (neither WITNESSES nor SEAL_PEERS are set): a host restored from an older copy would sign a second history'
