import { NOTE_KEY, parseVkey, verifyCosignature, verifyNote, type Note, type NoteKey } from './note.ts'

/*
 * Which checkpoints a reader trusts (C2SP tlog-policy): those of the named logs that enough of the named
 * witnesses have cosigned.
 */

export type Witness = { readonly name: string; readonly key: NoteKey; readonly url?: string }
type Group = { readonly name: string; readonly threshold: number; readonly members: readonly string[] }

export type LogPolicy = {
  readonly logs: readonly NoteKey[]
  readonly witnesses: readonly Witness[]
  readonly groups: readonly Group[]
  /** Name of a witness or a group, or `none`. */
  readonly quorum: string
}

const NONE = 'none'
/** At most this many logs, this many witnesses and this many groups. */
const MAX_ROWS = 256

/** @throws TypeError with the number of the line that is wrong, and why */
export function parseLogPolicy(text: string): LogPolicy {
  const logs: NoteKey[] = []
  const witnesses: Witness[] = []
  const groups: Group[] = []
  let quorum: string | undefined
  const members = new Set<string>()
  const isDefined = (name: string): boolean => [...witnesses, ...groups].some((one) => one.name === name)
  for (const [at, line] of text.split('\n').entries()) {
    const refuse = (sentence: string): TypeError => new TypeError(`line ${at + 1} of the policy: ${sentence}`)
    const [word, ...items] = line.split(/[ \t]+/).filter((item) => item !== '')
    if (word === undefined || word.startsWith('#')) continue
    const name = items[0] ?? ''
    const assertUnused = (): void => {
      if (name === '' || name === NONE || isDefined(name))
        throw refuse(`expected a name that nothing else has, got "${name}"`)
    }
    const keyOf = (vkey: string | undefined, type: number, others: readonly NoteKey[]): NoteKey => {
      const key = readVkey(vkey, refuse)
      if (key.type !== type) throw refuse(`the vkey of ${key.name} is of another type`)
      if (others.some(({ publicKey }) => Buffer.compare(publicKey, key.publicKey) === 0))
        throw refuse(`the key of ${key.name} is there twice`)
      return key
    }
    if (logs.length > MAX_ROWS || witnesses.length > MAX_ROWS || groups.length > MAX_ROWS)
      throw refuse(`expected at most ${MAX_ROWS} of each`)
    switch (word) {
      case 'log':
        if (items.length < 1 || items.length > 2) throw refuse('expected log <vkey> [<url>]')
        logs.push(keyOf(items[0], NOTE_KEY.signer, logs))
        break
      case 'witness': {
        const [, vkey, url] = items
        if (items.length < 2 || items.length > 3) throw refuse('expected witness <name> <vkey> [<url>]')
        assertUnused()
        const known = witnesses.map(({ key }) => key)
        witnesses.push({
          name,
          key: keyOf(vkey, NOTE_KEY.cosigner, known),
          ...(url === undefined ? {} : { url }),
        })
        break
      }
      case 'group': {
        const [, many = '', ...named] = items
        assertUnused()
        const threshold =
          many === 'all' ? named.length : many === 'any' ? 1 : /^[1-9]\d{0,3}$/.test(many) ? Number(many) : 0
        if (threshold < 1 || threshold > named.length)
          throw refuse('expected group <name> all|any|<k> <name>..., k of them at most')
        for (const member of named) {
          if (!isDefined(member)) throw refuse(`"${member}" is defined on no line before`)
          if (members.has(member)) throw refuse(`"${member}" is a member twice`)
          members.add(member)
        }
        groups.push({ name, threshold, members: named })
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

/**
 * The text of a policy for one log.
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

function readVkey(vkey: string | undefined, refuse: (sentence: string) => TypeError): NoteKey {
  try {
    return parseVkey(vkey ?? '')
  } catch (error) {
    throw refuse((error as Error).message)
  }
}

/**
 * Names of the policy's witnesses that cosigned a note, each with the time in Unix seconds of its newest
 * cosignature.
 */
export function findCosigners(policy: Pick<LogPolicy, 'witnesses'>, note: Note): Map<string, number> {
  const found = new Map<string, number>()
  for (const { name, key } of policy.witnesses) {
    const times = note.signatures.flatMap((line) => verifyCosignature(note.text, line, key) ?? [])
    if (times.length > 0) found.set(name, Math.max(...times))
  }
  return found
}

/** @param cosigners names of the witnesses that cosigned */
export function meetsQuorum(
  { groups, quorum }: Pick<LogPolicy, 'groups' | 'quorum'>,
  cosigners: ReadonlySet<string>,
): boolean {
  const isMet = (name: string): boolean => {
    const group = groups.find((one) => one.name === name)
    return group === undefined ? cosigners.has(name) : group.members.filter(isMet).length >= group.threshold
  }
  return quorum === NONE || isMet(quorum)
}

/** Whether a note is signed by a log of the policy (by any log if it names none) and has its quorum. */
export function satisfiesPolicy(policy: LogPolicy, note: Note): boolean {
  return (
    (policy.logs.length === 0 || policy.logs.some((key) => verifyNote(note, key))) &&
    meetsQuorum(policy, new Set(findCosigners(policy, note).keys()))
  )
}
