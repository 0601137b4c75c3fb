import type { Config } from '../platform/config.ts'
import type { Log } from '../platform/log.ts'
import { createSealPeers, type SealPeer } from './seal-peers.ts'
import { SIGNING_REFUSALS, type SigningOutcome } from './signing-refusals.ts'
import { createWitnesses, type OutsideWitness } from './witnesses.ts'

/** What the signer of this process has learned since its start. */
export interface SigningState {
  /** Whom it asks what they remember of the chain. */
  readonly peers: readonly SealPeer[]
  /** Who cosigns checkpoints from outside. */
  readonly witnesses: readonly OutsideWitness[]
  /** How its last run ended; undefined before the first, during one, and after one that threw. */
  outcome?: SigningOutcome | undefined
}

/** A context that has it. */
export interface WithSigning {
  readonly signing: SigningState
}

/** The state of a signer that has asked nobody yet. */
export const createSigningState = (
  config: Pick<Config, 'publicUrl' | 'sealPeers' | 'witnesses'>,
): SigningState => ({ peers: createSealPeers(config), witnesses: createWitnesses(config) })

/** Peers and witnesses that gave no usable answer when they were asked last, by name. */
export const listUnreached = ({ peers, witnesses }: SigningState): string[] =>
  [...peers, ...witnesses].filter(({ isAway }) => isAway).map(({ name }) => name)

/** Why nothing is signed for now, with the remedy; undefined if nothing waits, as far as is known. */
export function describeWait({ outcome }: SigningState): string | undefined {
  if (outcome === undefined || outcome.because === 'all_signed') return undefined
  return `${outcome.sentence}. ${SIGNING_REFUSALS[outcome.because].remedy}`
}

/** Does one run of the signer, notes how it ended, and logs why it signs nothing if that is news. */
export async function noteOutcome(
  state: SigningState,
  log: Pick<Log, 'warn'>,
  run: () => Promise<SigningOutcome>,
): Promise<SigningOutcome> {
  const before = state.outcome?.because
  state.outcome = undefined
  const outcome = await run()
  state.outcome = outcome
  if (outcome.because !== 'all_signed' && outcome.because !== before)
    log.warn({ because: outcome.because }, `seals wait for a signature: ${describeWait(state) ?? ''}`)
  return outcome
}
