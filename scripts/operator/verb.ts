import type {
  DescribedVerb,
  OptionSpecs,
  OptionValue,
  Shown,
  VerbGroup,
  WordValues,
} from '../../client/command/verb.ts'
import type { Context } from '../../shared/context.ts'

export type { OptionSpecs, Shown }

interface SpecBase<W extends readonly string[], O extends OptionSpecs> {
  name: string
  /** Names of the words after the verb; `[NAME]` may be left out. */
  words: W
  options: O
  /** One line. */
  help: string
  /**
   * True if it changes something: then it takes `--dry-run`, which says what would change and changes
   * nothing.
   */
  changes: boolean
  /** What can't be taken back, as a sentence: a person at a terminal is asked before it is done. */
  warning?: string
}

interface Given<W extends readonly string[], O extends OptionSpecs> {
  words: WordValues<W>
  options: { readonly [N in keyof O]: OptionValue<O[N]> }
  dryRun: boolean
}

export interface OperatorVerbSpec<W extends readonly string[], O extends OptionSpecs> extends SpecBase<W, O> {
  /** False: it runs even if a server is away, and says so itself. */
  needsDatabase?: false
  /** How long it may take, if that is not a minute. */
  limitMs?: number
  /** @throws Refusal with a sentence for the operator */
  run(call: Given<W, O> & { ctx: Context; env: NodeJS.ProcessEnv }): Promise<Shown>
}

/** A verb that needs no network at all. */
export interface LocalVerbSpec<W extends readonly string[], O extends OptionSpecs> extends SpecBase<W, O> {
  /** @throws CommandError with a sentence for the operator */
  runHere(call: Given<W, O> & { env: NodeJS.ProcessEnv }): Shown | Promise<Shown>
}

interface Folded {
  words: readonly (string | undefined)[]
  options: Readonly<Record<string, unknown>>
  dryRun: boolean
}

/** A verb with its types folded away, as the parser, the help and the runner see it. */
export type OperatorVerb = DescribedVerb & { changes: boolean; warning?: string } & (
    | {
        needsDatabase?: false
        limitMs?: number
        run(call: Folded & { ctx: Context; env: NodeJS.ProcessEnv }): Promise<Shown>
      }
    | { runHere(call: Folded & { env: NodeJS.ProcessEnv }): Shown | Promise<Shown> }
  )

export type OperatorVerbGroup = VerbGroup<OperatorVerb>

const YES = { yes: { kind: 'flag', help: 'go on without being asked' } } as const
const DRY_RUN = { 'dry-run': { kind: 'flag', help: 'say what would change, and change nothing' } } as const

/** Declares a verb on the network's records; the table in verbs.ts lists it. */
export function defineOperatorVerb<const W extends readonly string[], const O extends OptionSpecs>(
  spec: OperatorVerbSpec<W, O>,
): OperatorVerb {
  return {
    ...spec,
    options: {
      ...spec.options,
      ...(spec.changes ? DRY_RUN : {}),
      ...(spec.warning === undefined ? {} : YES),
    },
  }
}

/** Declares a verb that does its work on this machine alone. */
export function defineLocalVerb<const W extends readonly string[], const O extends OptionSpecs>(
  spec: LocalVerbSpec<W, O>,
): OperatorVerb {
  return { ...spec, options: { ...spec.options, ...(spec.changes ? DRY_RUN : {}) } }
}
