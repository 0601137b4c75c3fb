import { NOTE_KEY, parseUnknownVkey, parseVkey, type NoteKey, type UnknownNoteKey } from './note.ts'

/*
 * Which checkpoints a reader trusts (C2SP tlog-policy): those of the named logs that enough of the named
 * witnesses have cosigned.
 */

type PolicyKey = NoteKey | UnknownNoteKey
export type Witness = { readonly name: string; readonly key: PolicyKey; readonly url?: string }
type Group = { readonly name: string; readonly threshold: number; readonly members: readonly string[] }

export type LogPolicy = {
  readonly logs: readonly PolicyKey[]
  readonly witnesses: readonly Witness[]
  readonly groups: readonly Group[]
  /** Name of a witness or a group, or `none`. */
  readonly quorum: string
}

const NONE = 'none'
/** At most this many logs, this many witnesses and this many groups. */
const MAX_ROWS = 256

/** Parses a policy (C2SP tlog-policy). @throws TypeError that says which line is wrong, and why */
export function parseLogPolicy(text: string): LogPolicy {
  const logs: PolicyKey[] = []
  const witnesses: Witness[] = []
  const groups: Group[] = []
  let quorum: string | undefined
  const grouped = new Set<string>()
  const isDefined = (name: string): boolean => [...witnesses, ...groups].some((row) => row.name === name)
  for (const [at, line] of text.split('\n').entries()) {
    const refuse = (sentence: string): TypeError => new TypeError(`line ${at + 1} of the policy: ${sentence}`)
    const [word, ...items] = line.split(/[ \t]+/).filter((item) => item !== '')
    if (word === undefined || word.startsWith('#')) continue
    const name = items[0] ?? ''
    const assertUnused = (): void => {
      if (name === '' || name === NONE || isDefined(name))
        throw refuse(`expected a name that nothing else has, got "${name}"`)
    }
    /** Parses a key of this type that isn't among `others`. */
    const parseNewKey = (vkey: string | undefined, type: number, others: readonly PolicyKey[]): PolicyKey => {
      const key = readVkey(vkey, refuse)
      if (key.type !== 'unknown' && key.type !== type)
        throw refuse(`the vkey of ${key.name} is of another type`)
      if (others.some(({ publicKey }) => Buffer.compare(publicKey, key.publicKey) === 0))
        throw refuse(`the key of ${key.name} is there twice`)
      return key
    }
    if (logs.length > MAX_ROWS || witnesses.length > MAX_ROWS || groups.length > MAX_ROWS)
      throw refuse(`expected at most ${MAX_ROWS} of each`)
    switch (word) {
      case 'log':
        if (items.length < 1 || items.length > 2) throw refuse('expected log <vkey> [<url>]')
        logs.push(parseNewKey(items[0], NOTE_KEY.signer, logs))
        break
      case 'witness': {
        const [, vkey, url] = items
        if (items.length < 2 || items.length > 3) throw refuse('expected witness <name> <vkey> [<url>]')
        assertUnused()
        const others = witnesses.map((witness) => witness.key)
        const key = parseNewKey(vkey, NOTE_KEY.cosigner, others)
        witnesses.push(url === undefined ? { name, key } : { name, key, url })
        break
      }
      case 'group': {
        const [, howMany = '', ...members] = items
        assertUnused()
        const threshold = parseThreshold(howMany, members.length)
        if (threshold < 1 || threshold > members.length)
          throw refuse('expected group <name> all|any|<k> <name>..., k of them at most')
        for (const member of members) {
          if (!isDefined(member)) throw refuse(`"${member}" is defined on no line before`)
          if (grouped.has(member)) throw refuse(`"${member}" is a member twice`)
          grouped.add(member)
        }
        groups.push({ name, threshold, members })
        break
      }
      case 'quorum':
        if (items.length !== 1 || quorum !== undefined) throw refuse('expected one line quorum <name>')
        if (name !== NONE && !isDefined(name)) throw refuse(`"${name}" is defined on no line before`)
        quorum = name
        break
      default:
        throw refuse(`expected log, witness, group or quorum, got "${word}"`)
    }
  }
  if (quorum === undefined) throw new TypeError('the policy has no line quorum <name>')
  return { logs, witnesses, groups, quorum }
}

/** How many members of a group must cosign, by the word `all`, `any` or a number; 0 for any other word. */
function parseThreshold(word: string, members: number): number {
  if (word === 'all') return members
  if (word === 'any') return 1
  return /^[1-9]\d{0,3}$/.test(word) ? Number(word) : 0
}

/**
 * Writes a policy that trusts one log if at least `quorum` of the witnesses have cosigned.
 *
 * @param quorum how many of the witnesses must cosign; 0 for none
 */
export function formatLogPolicy(
  log: { vkey: string; url: string },
  witnesses: readonly { vkey: string; url: string }[],
  quorum: number,
): string {
  const names = witnesses.map((_, place) => `w${place + 1}`)
  return [
    `log ${log.vkey} ${log.url}`,
    ...witnesses.map(({ vkey, url }, place) => `witness ${names[place]} ${vkey} ${url}`),
    ...(quorum === 0 ? [] : [`group enough ${quorum} ${names.join(' ')}`]),
    `quorum ${quorum === 0 ? NONE : 'enough'}`,
    '',
  ].join('\n')
}

/**
 * Parses a vkey. One of a type that isn't known here, as newer policies may have, is a key that nothing is
 * ever signed by.
 *
 * @throws the error that `refuse` makes of what is wrong with it
 */
function readVkey(vkey: string | undefined, refuse: (sentence: string) => TypeError): PolicyKey {
  try {
    return parseUnknownVkey(vkey ?? '') ?? parseVkey(vkey ?? '')
  } catch (error) {
    throw refuse((error as Error).message)
  }
}

/** Whether these witnesses suffice for the policy's quorum. @param cosigners names of those that cosigned */
export function meetsQuorum(
  { groups, quorum }: Pick<LogPolicy, 'groups' | 'quorum'>,
  cosigners: ReadonlySet<string>,
): boolean {
  const isMet = (name: string): boolean => {
    const group = groups.find((candidate) => candidate.name === name)
    return group === undefined ? cosigners.has(name) : group.members.filter(isMet).length >= group.threshold
  }
  return quorum === NONE || isMet(quorum)
}
