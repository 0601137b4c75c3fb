import type { Doubt, Finding } from './verification.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { MAX_CLOCK_SKEW_SECONDS } from './values.ts'
import { say, type Sentence } from './wording.ts'

/** Something does not hold; `reason` is its fixed word. */
export class Refused extends Error {
  readonly reason: string

  constructor(reason: string, message: string) {
    super(message)
    this.reason = reason
  }
}

/** What is thrown for something that does not hold, in a sentence of the table. */
export function refusal(sentence: Sentence, ...shown: readonly unknown[]): Refused {
  const { reason, message } = say(sentence, ...shown)
  return new Refused(reason, message)
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

/** What is thrown for what could not be checked, in a sentence of the table. */
export function unchecked(sentence: Sentence, ...shown: readonly unknown[]): Unchecked {
  const { reason, message } = say(sentence, ...shown)
  return new Unchecked(reason, message)
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

  add(where: string, sentence: Sentence, ...shown: readonly unknown[]): void {
    this.#keep(where, say(sentence, ...shown))
  }

  #keep(where: string, { reason, message }: Doubt): void {
    if (!this.isFull) this.#kept.push({ reason, where, message: message.slice(0, MAX_MESSAGE_CHARACTERS) })
  }

  /** Runs a check that throws Refused for what doesn't hold, and adds that. */
  run<T>(
    where: string,
    check: () => T,
  ): { readonly held: true; readonly value: T } | { readonly held: false } {
    try {
      return { held: true, value: check() }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.#keep(where, error)
      return { held: false }
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
  const many = count === 1 ? '' : say('from_the_future.many', count).message
  const said =
    serviceNow === undefined
      ? say('from_the_future.here', at, many, now)
      : say('from_the_future.there', at, many, now, serviceNow)
  return { where, ...said }
}
