import type { Client } from '../client.ts'
import type { Session } from './session.ts'

/** An option of a verb: what it takes, and one line about it. `value` names what it takes in the help text. */
export type OptionSpec =
  | { kind: 'flag'; help: string }
  | { kind: 'text'; value: string; help: string }
  | { kind: 'list'; value: string; help: string }
  | { kind: 'whole'; value: string; help: string; min: number }

export type OptionSpecs = Readonly<Record<string, OptionSpec>>

export const flagOption = (help: string) => ({ kind: 'flag', help }) as const
export const textOption = (value: string, help: string) => ({ kind: 'text', value, help }) as const
/** May be given more than once. */
export const listOption = (value: string, help: string) => ({ kind: 'list', value, help }) as const
/** A whole number. */
export const numberOption = (value: string, help: string, min: number) =>
  ({ kind: 'whole', value, help, min }) as const
export const LIMIT_OPTION = numberOption('N', 'how many at most, 50 if absent', 1)

export type OptionValue<S extends OptionSpec> = S extends { kind: 'flag' }
  ? boolean
  : S extends { kind: 'list' }
    ? string[] | undefined
    : S extends { kind: 'whole' }
      ? number | undefined
      : string | undefined
export type WordValues<W extends readonly string[]> = {
  readonly [I in keyof W]: W[I] extends `[${string}]` ? string | undefined : string
}

/** What a verb prints: the object for `--json`, which is mostly the service's answer, or else the text. */
export interface VerbOutput {
  answer: object
  text: string
  /** 0 if absent. */
  exitCode?: number
  /** Called once it was printed. */
  afterPrinting?(): void
}

export interface VerbGroup<V extends DescribedVerb = Verb> {
  title: string
  verbs: readonly V[]
}

/** What the parser and the help need to know of a verb. */
export type DescribedVerb = Required<Omit<VerbSpec<readonly string[], OptionSpecs>, 'run' | 'formerly'>> & {
  formerly?: string
}

export interface VerbSpec<W extends readonly string[], O extends OptionSpecs> {
  /** One word, or two with a space between. */
  name: string
  /** One word by which it may be called too. */
  formerly?: string
  /** Names of the words after the verb, none if absent; `[NAME]` may be left out. */
  words?: W
  options?: O
  /** One line. */
  help: string
  run(call: {
    words: WordValues<W>
    options: { readonly [N in keyof O]: OptionValue<O[N]> }
    session: Session
  }): Promise<VerbOutput>
}

/** A verb without the types of its words and options, as the parser and the help see it. */
export interface Verb extends DescribedVerb {
  run(call: {
    words: readonly (string | undefined)[]
    options: Readonly<Record<string, unknown>>
    session: Session
  }): Promise<VerbOutput>
}

/** Declares a verb; the table in verbs.ts lists it. */
export const defineVerb = <
  const W extends readonly string[] = [],
  const O extends OptionSpecs = Record<never, never>,
>(
  spec: VerbSpec<W, O>,
): Verb => ({ words: [], options: {}, ...spec })

/** Declares a verb that is one call of the service, and its answer in words. */
export const defineCall = <
  const W extends readonly string[] = [],
  const O extends OptionSpecs = Record<never, never>,
  Answer extends object = object,
>({
  isOpen = false,
  call,
  text,
  ...spec
}: Omit<VerbSpec<W, O>, 'run'> & {
  /** Whether it is made without a token. */
  isOpen?: boolean
  call(asked: Parameters<VerbSpec<W, O>['run']>[0] & { client: Client }): Promise<Answer>
  text(answer: Answer, words: WordValues<W>): string
}): Verb =>
  defineVerb<W, O>({
    ...spec,
    async run(asked) {
      const { session, words } = asked
      const { client } = isOpen ? session : await session.authenticate()
      const answer = await call({ ...asked, client })
      return { answer, text: text(answer, words) }
    },
  })
