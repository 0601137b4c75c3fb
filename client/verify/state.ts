import { randomBytes } from 'node:crypto'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KeyForm } from '../../shared/crypto/key-tree.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { Findings, Unchecked } from './findings.ts'
import { readCheckpoint, type LogHead, type SignedLog } from './light.ts'
import { isMoneyState, readOwed, type MoneyState } from './money.ts'
import { GrowingTree, type KeyState } from './trees.ts'
import { isHexHash, isObject, isWhole, parseJson, type Fields } from './values.ts'

/*
 * What is remembered of a service: the last signed seal and the log up to it, by one hash for each bit of its
 * size. That is all that the next check needs, however long the ledger grows: it goes on from there, and
 * whatever was rewritten before has another root.
 */

export type Adoption = { readonly entry_id: number; readonly at: number; readonly data: string }

/** What follows from all entries up to a signed seal. */
export interface EntriesState {
  readonly owed: { readonly xno: string; readonly xmr: string }
  readonly money: MoneyState
  /** Closing entries name the seal before by now. */
  readonly chained: boolean
  /** Entries whose amount can't be read. */
  readonly unreadable: number
  readonly adoptions: readonly Adoption[]
  /** Seals without a signature. */
  readonly unsigned: number
  /** Closing entries state the log and the keys by now. */
  readonly logged: boolean
  readonly log: { readonly size: number; readonly frontier: readonly string[] }
  /** Null: not known before they are stated. */
  readonly keys: KeyState | null
  /** 1 if absent. */
  readonly key_form?: KeyForm
}

/** All that versions of long ago remembered: the last signed seal by its number and payload, and the keys. */
export interface HeadMemory {
  readonly seq: number
  readonly payload_hash: string
  readonly pubkeys: readonly string[]
}

/** Versions before this one counted no `unsigned` or knew no `money`; after them everything is read once more. */
export interface Memory extends HeadMemory, Omit<EntriesState, 'unsigned' | 'money'> {
  readonly unsigned?: number
  readonly money?: MoneyState
  readonly head: Seal & { readonly signed: true }
  readonly checked_at?: number
  /** The newest that was verified, by entries or by a proof. */
  readonly checkpoint?: string
  /** Those of others that lie beyond it. */
  readonly heard?: readonly string[]
}

export type Remembered = Memory | HeadMemory
export type State = { [service: string]: Remembered }

/** What a check that read everything left; undefined if none has. */
export const memoryOf = (remembered: Remembered | undefined): Memory | undefined =>
  remembered !== undefined && 'log' in remembered ? remembered : undefined

/** The newest log that was verified before, by entries or by proofs; undefined if none was. */
export function seenLog(remembered: Remembered | undefined): LogHead | SignedLog | undefined {
  const memory = memoryOf(remembered)
  if (memory === undefined) return undefined
  const walked = GrowingTree.ofLog(memory.log).head()
  const shown = memory.checkpoint === undefined ? undefined : readCheckpoint(memory.checkpoint)
  return shown !== undefined && shown.size >= walked.size ? shown : walked
}

const isCheckpoint = (note: unknown): boolean => new Findings().run('', () => readCheckpoint(note)).held
const countBits = (size: number): number => size.toString(2).replaceAll('0', '').length

const FORMS: { readonly [field: string]: (value: unknown) => boolean } = {
  head: (head) => isObject(head) && head['signed'] === true,
  owed: (owed) => readOwed(owed) !== undefined,
  chained: (value) => typeof value === 'boolean',
  unreadable: isWhole,
  adoptions: Array.isArray,
  logged: (value) => typeof value === 'boolean',
  log: (log) =>
    isObject(log) &&
    isWhole(log['size']) &&
    Array.isArray(log['frontier']) &&
    log['frontier'].length === countBits(log['size']) &&
    log['frontier'].every(isHexHash),
  keys: (keys) => keys === null || (isObject(keys) && isWhole(keys['count']) && isHexHash(keys['root'])),
}

const OPTIONAL_FORMS: typeof FORMS = {
  unsigned: isWhole,
  money: isMoneyState,
  key_form: (form) => form === 1 || form === 2,
  checkpoint: isCheckpoint,
  heard: (notes) => Array.isArray(notes) && notes.every(isCheckpoint),
}

/** Whether a value has the form of what is remembered of a service. */
function isRemembered(value: unknown): value is Remembered {
  const hasForms = (fields: Fields, forms: typeof FORMS, isOptional: boolean) =>
    Object.entries(forms).every(
      ([name, isRight]) => (isOptional && fields[name] === undefined) || isRight(fields[name]),
    )
  return (
    isObject(value) &&
    isWhole(value['seq']) &&
    isHexHash(value['payload_hash']) &&
    Array.isArray(value['pubkeys']) &&
    value['pubkeys'].every(isHexHash) &&
    (value['log'] === undefined || (hasForms(value, FORMS, false) && hasForms(value, OPTIONAL_FORMS, true)))
  )
}

/** Reads the state file, or gives an empty state if there is no file. @throws Unchecked for anything else */
export async function readState(file: string): Promise<State> {
  let bytes: Uint8Array
  try {
    bytes = await readFile(file)
  } catch (error) {
    if (isErrorWith(error, 'ENOENT')) return {}
    throw new Unchecked('usage', `the state file ${file} can't be read: ${(error as Error).message}`)
  }
  let state: unknown
  try {
    state = parseJson(bytes)
  } catch (error) {
    throw new Unchecked('usage', `the state file ${file} is not JSON: ${(error as Error).message}`)
  }
  if (!isObject(state) || !Object.values(state).every(isRemembered))
    throw new Unchecked(
      'usage',
      `the state file ${file} is not one of this program's: move it away to begin anew`,
    )
  return state as State
}

const isErrorWith = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code

/**
 * Changes the state as it stands now, one process after the other; a crash leaves the old file or the new one
 * whole.
 *
 * @throws Unchecked
 */
export async function changeState(file: string, change: (state: State) => void): Promise<void> {
  const lock = `${file}.lock`
  const holder = `${process.pid}.${randomBytes(8).toString('hex')}`
  const fresh = `${file}.${holder}.new`
  await takeLock(lock, holder)
  try {
    const state = await readState(file)
    change(state)
    await writeFile(fresh, JSON.stringify(state, null, 1) + '\n', { flush: true })
    await rename(fresh, file)
  } catch (error) {
    if (error instanceof Unchecked) throw error
    throw new Unchecked('usage', `the state file ${file} can't be written: ${(error as Error).message}`)
  } finally {
    await rm(fresh, { force: true })
    // It is another's if this one was taken for dead.
    if ((await readFile(lock, 'utf8').catch(() => '')) === `${holder}\n`) await rm(lock, { force: true })
  }
}

const LOCK_STALE_MS = 10_000

/** Waits for the lock and takes it. One that is much older than milliseconds is of a process that was killed. */
async function takeLock(lock: string, holder: string): Promise<void> {
  const isStale = (file: string) =>
    stat(file).then(
      ({ mtimeMs }) => Date.now() - mtimeMs > LOCK_STALE_MS,
      () => false,
    )
  const create = async (file: string) => {
    try {
      await writeFile(file, `${holder}\n`, { flag: 'wx' })
      return true
    } catch (error) {
      if (isErrorWith(error, 'EEXIST')) return false
      throw new Unchecked('usage', `the state file can't be locked: ${(error as Error).message}`)
    }
  }
  while (!(await create(lock))) {
    // Only one may break a stale lock, and looks again: the lock may be a new one by now.
    const breaking = `${lock}.breaking`
    if ((await isStale(lock)) && (await create(breaking))) {
      if (await isStale(lock)) await rm(lock, { force: true })
      await rm(breaking, { force: true })
    } else {
      if (await isStale(breaking)) await rm(breaking, { force: true })
      await sleep(20)
    }
  }
}

/** How many checkpoints of others are remembered, beyond the log that was seen. */
const MAX_HEARD = 16

/** Remembers another reader's checkpoint beyond what was seen, to be compared as soon as the log is that long. */
export function rememberHeard(state: State, service: string, note: string): void {
  const memory = memoryOf(state[service])
  const heard = memory?.heard ?? []
  if (memory !== undefined && !heard.includes(note))
    state[service] = { ...memory, heard: [...heard, note].slice(-MAX_HEARD) }
}

/** Remembers a checkpoint that was verified by proofs, if it is newer than what was seen. */
export function rememberCheckpoint(state: State, service: string, { size, note }: SignedLog): void {
  const memory = memoryOf(state[service])
  if (memory !== undefined && size > (seenLog(memory)?.size ?? Infinity))
    state[service] = { ...memory, checkpoint: note }
}

/** What is remembered of a service whose ledger was read as a whole. */
export type Recalled = {
  readonly pubkeys: readonly string[]
  /** Closing entries state log and keys. */
  readonly logged: boolean
  readonly keyForm: KeyForm
  /** The newest that was verified. */
  readonly log: LogHead | SignedLog
  readonly checkpoint: string | undefined
}

/** Reads what is remembered of a service; undefined before the first check of everything. @throws Unchecked */
export async function recall(file: string, service: string): Promise<Recalled | undefined> {
  const memory = memoryOf((await readState(file))[service])
  const log = seenLog(memory)
  if (memory === undefined || log === undefined) return undefined
  const { pubkeys, logged, key_form: keyForm = 1, checkpoint } = memory
  return { pubkeys, logged, keyForm, log, checkpoint }
}
