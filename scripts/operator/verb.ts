import type {
  DescribedVerb,
  OptionSpecs,
  OptionValue,
  Shown,
  VerbGroup,
  WordValues,
} from '../../client/command/verb.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/foundation/errors.ts'
import { LIST_LIMIT } from '../../shared/foundation/limits.ts'

export type { Shown }

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
  run(call: TypedCall<W, O> & { ctx: Context; env: NodeJS.ProcessEnv }): Promise<Shown>
}

/** A verb that needs no network at all. */
interface LocalVerbSpec<W extends readonly string[], O extends OptionSpecs> extends SpecBase<W, O> {
  /** @throws CommandError with a sentence for the operator */
  runHere(call: TypedCall<W, O> & { env: NodeJS.ProcessEnv }): Shown | Promise<Shown>
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
        run(call: UntypedCall & { ctx: Context; env: NodeJS.ProcessEnv }): Promise<Shown>
      }
    | { runHere(call: UntypedCall & { env: NodeJS.ProcessEnv }): Shown | Promise<Shown> }
  )

export type OperatorVerbGroup = VerbGroup<OperatorVerb>

const YES = { yes: { kind: 'flag', help: 'go on without being asked' } } as const
const DRY_RUN = { 'dry-run': { kind: 'flag', help: 'say what would change, and change nothing' } } as const

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

/** The option --limit of a verb that lists records. @param what follows "how many" in its help */
export const limitOption = (what = 'at most') =>
  ({
    limit: { kind: 'whole', value: 'N', help: `how many ${what}, ${LIST_LIMIT.fallback} if absent`, min: 1 },
  }) as const

/** How many records to list: what --limit says, within bounds. */
export const limitOf = ({ limit = LIST_LIMIT.fallback }: { limit: number | undefined }): number =>
  Math.min(limit, LIST_LIMIT.max)

/** Refuses a command because a record is not in the state for it. */
export const wrongState = (message: string): Refusal => new Refusal('wrong_state', message)
