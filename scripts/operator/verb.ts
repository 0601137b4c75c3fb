import type {
  DescribedVerb,
  OptionSpecs,
  OptionValue,
  VerbOutput,
  VerbGroup,
  WordValues,
} from '../../client/command/verb.ts'
import type { Context } from '../../shared/context.ts'
import { usageError } from '../../client/command/command-error.ts'
import { flagOption, numberOption } from '../../client/command/verb.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { LIST_LIMIT } from '../../shared/platform/limits.ts'
import { HOUR_MS } from '../../shared/platform/time.ts'
import { COINS, type Coin } from '../../shared/money/coin.ts'

export type { VerbOutput }

interface SpecBase<W extends readonly string[], O extends OptionSpecs> {
  name: string
  /** Names of the words after the verb; `[NAME]` may be left out. */
  words: W
  options: O
  /** One line. */
  help: string
  /** Whether it changes something; if so it takes `--dry-run`, which only says what would change. */
  changes: boolean
  /** A sentence that says what can't be taken back; a person at a terminal is asked to confirm it. */
  warning?: string
}

interface TypedCall<W extends readonly string[], O extends OptionSpecs> {
  words: WordValues<W>
  options: { readonly [N in keyof O]: OptionValue<O[N]> }
  dryRun: boolean
}

interface OperatorVerbSpec<W extends readonly string[], O extends OptionSpecs> extends SpecBase<W, O> {
  /** False if it runs even when MongoDB is away, and says so itself. */
  needsDatabase?: false
  /** How long it may take; a minute if absent. */
  limitMs?: number
  /** @throws Refusal with a sentence for the operator */
  run(call: TypedCall<W, O> & { ctx: Context; env: NodeJS.ProcessEnv }): Promise<VerbOutput>
}

/** A verb that needs no network at all. */
interface LocalVerbSpec<W extends readonly string[], O extends OptionSpecs> extends SpecBase<W, O> {
  /** @throws CommandError with a sentence for the operator */
  runHere(call: TypedCall<W, O> & { env: NodeJS.ProcessEnv }): VerbOutput | Promise<VerbOutput>
}

interface UntypedCall {
  words: readonly (string | undefined)[]
  options: Readonly<Record<string, unknown>>
  dryRun: boolean
}

/** A verb without the types of its words and options, as the parser, the help and the runner see it. */
export type OperatorVerb = DescribedVerb & { changes: boolean; warning?: string } & (
    | {
        needsDatabase?: false
        limitMs?: number
        run(call: UntypedCall & { ctx: Context; env: NodeJS.ProcessEnv }): Promise<VerbOutput>
      }
    | { runHere(call: UntypedCall & { env: NodeJS.ProcessEnv }): VerbOutput | Promise<VerbOutput> }
  )

export type OperatorVerbGroup = VerbGroup<OperatorVerb>

/** The limit of a verb that reads the whole database. */
export const HALF_A_DAY_MS = 12 * HOUR_MS

const YES = { yes: flagOption('go on without being asked') }
const DRY_RUN = { 'dry-run': flagOption('say what would change, and change nothing') }

/** Declares a verb that works on the network's records; verbs.ts lists all verbs. */
export function defineOperatorVerb<const W extends readonly string[], const O extends OptionSpecs>(
  spec: OperatorVerbSpec<W, O>,
): OperatorVerb {
  return { ...spec, options: withCommonOptions(spec) }
}

/** Declares a verb that does its work on this machine alone. */
export function defineLocalVerb<const W extends readonly string[], const O extends OptionSpecs>(
  spec: LocalVerbSpec<W, O>,
): OperatorVerb {
  return { ...spec, options: withCommonOptions(spec) }
}

const withCommonOptions = ({ options, changes, warning }: SpecBase<readonly string[], OptionSpecs>) => ({
  ...options,
  ...(changes ? DRY_RUN : {}),
  ...(warning === undefined ? {} : YES),
})

/** A word or an option as a coin. @param name what it is, for the error. @throws CommandError */
export function parseCoin(name: string, text: string): Coin {
  const coin = COINS.find((known) => known === text)
  if (coin === undefined)
    throw usageError(`${name} expected ${COINS.join(' or ')}, got ${JSON.stringify(text)}.`)
  return coin
}

/** The option --limit of a verb that lists records. @param what follows "how many" in its help */
export const limitOption = (what = 'at most') => ({
  limit: numberOption('N', `how many ${what}, ${LIST_LIMIT.fallback} if absent`, 1),
})

/** How many records to list: what --limit says, or else the default, but never more than the maximum. */
export const limitOf = ({ limit = LIST_LIMIT.fallback }: { limit: number | undefined }): number =>
  Math.min(limit, LIST_LIMIT.max)

/** The refusal of a command because a record is not in the state for it. */
export const wrongState = (message: string): Refusal => new Refusal('wrong_state', message)
