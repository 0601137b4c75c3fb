import type { Finding } from './verification.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { MAX_CLOCK_SKEW_SECONDS } from './values.ts'

/** What a check of one thing says. */
export type Verdict<T> = { readonly kind: 'held'; readonly value: T } | Refusal
export type Refusal = { readonly kind: 'refused'; readonly reason: string; readonly message: string }

export const held = <T>(value: T): Verdict<T> => ({ kind: 'held', value })
export const refused = (reason: string, message: string): Refusal => ({ kind: 'refused', reason, message })

/** What a verdict holds. @throws Refused with its word if it holds nothing */
export function expectHeld<T>(verdict: Verdict<T>): T {
  if (verdict.kind === 'refused') throw new Refused(verdict.reason, verdict.message)
  return verdict.value
}

/** Something does not hold; `reason` is its fixed word. */
export class Refused extends Error {
  readonly reason: string

  constructor(reason: string, message: string) {
    super(message)
    this.reason = reason
  }
}

/** Something could not be checked; `word` is its fixed word, `help` has lines that follow it. */
export class Unchecked extends Error {
  readonly word: string
  readonly help: string

  constructor(word: string, message: string, help = '') {
    super(message)
    this.word = word
    this.help = help
  }
}

/** Two seals, or two checkpoints, that one key has signed and that contradict each other. */
export type Fork =
  | { readonly kind: 'fork'; readonly sides: readonly object[] }
  | {
      readonly kind: 'log_fork'
      readonly pubkey: string
      readonly notes: readonly string[]
      readonly consistency?: object
    }

/** With so many the check ends: it is broken. */
export const MAX_FINDINGS = 1_000
const MAX_MESSAGE_CHARACTERS = 1_000

/** Seals that are dated after now: how many, and the latest of them. */
type Future = { count: number; at: number; now: number; where: string; serviceNow?: number }

/** The list of what does not hold, and the proof of a contradiction if there is one. */
export class Findings {
  readonly #kept: Finding[] = []
  future: Future | undefined
  fork: Fork | undefined

  get list(): Finding[] {
    return this.future === undefined ? this.#kept : [...this.#kept, describeFuture(this.future)]
  }

  get total(): number {
    return this.#kept.length + (this.future === undefined ? 0 : 1)
  }

  get isFull(): boolean {
    return this.#kept.length >= MAX_FINDINGS
  }

  add(reason: string, where: string, message: string): void {
    if (!this.isFull) this.#kept.push({ reason, where, message: message.slice(0, MAX_MESSAGE_CHARACTERS) })
  }

  /** Adds what a verdict refuses. @returns the verdict */
  take<T>(where: string, verdict: Verdict<T>): Verdict<T> {
    if (verdict.kind === 'refused') this.add(verdict.reason, where, verdict.message)
    return verdict
  }

  /** Runs a check that throws Refused for what doesn't hold, and adds that. */
  run<T>(where: string, check: () => T): Verdict<T> {
    try {
      return held(check())
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return this.take(where, refused(error.reason, error.message))
    }
  }

  /** Compares a seal's time with now. However many are later, it is one finding: the clock here may be wrong. */
  addTime(where: string, seal: Seal, now: number): void {
    const at = seal.signed ? Math.max(seal.at, seal.signed_at) : seal.at
    if (at <= now + MAX_CLOCK_SKEW_SECONDS) return
    const known = this.future ?? { count: 0, at: -1, now, where }
    this.future = { ...(at > known.at ? { ...known, at, now, where } : known), count: known.count + 1 }
  }
}

function describeFuture({ count, at, now, where, serviceNow }: Future): Finding {
  const many = count === 1 ? '' : `, the latest of ${count} seals that are dated after now`
  const doubt =
    serviceNow === undefined
      ? "it is of the future, or this machine's clock is behind"
      : `the service's own Date is ${serviceNow}`
  const message = `is dated ${at}${many}; this machine's clock says ${now}: ${doubt}`
  return { reason: 'from_the_future', where, message }
}
