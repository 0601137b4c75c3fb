import { randomBytes } from 'node:crypto'
import { ed25519PublicKey, keyFromHex, keyToHex } from '../shared/crypto/ed25519.ts'
import { cosignNote, formatVkey, NOTE_KEY } from '../shared/crypto/note.ts'
import type { Client } from './client.ts'
import { CodedError } from './errors.ts'
import { withFileLock, readPrivateFile, writePrivateFile } from './private-file.ts'
import { findLogFork, knownKeys } from './verify-receipt.ts'
import { connectLogs, isSignedLog, readCheckpoint, readConsistency, type SignedLog } from './verify/light.ts'
import { Refused } from './verify/findings.ts'
import { recall } from './verify/state.ts'
import { isObject } from './verify/values.ts'
import type { SealTrust } from './verify/verification.ts'

/*
 * An agent as a witness (C2SP tlog-witness, from the other side: an agent has no address, so it asks). It
 * cosigns a checkpoint only if that goes on from the last one that it cosigned, and remembers it, synced,
 * before it signs. So two of its lines never stand below two histories.
 */

/** What a witness keeps, in a private file: whoever has the key can cosign anything in this agent's name. */
interface WitnessState {
  /** Ed25519, 64 hex characters each. */
  secret_key: string
  public_key: string
  /** Of the log, fixed by the first checkpoint. */
  origin?: string
  /** The newest checkpoint that was cosigned; size 0 before the first. */
  size: number
  /** Hex. */
  root: string
  /** The service knows the key. */
  registered?: boolean
}

/**
 * - `key_unknown`: no key of the service is remembered or pinned
 * - `bad_answer`: what the service gives is no checkpoint
 * - `bad_checkpoint`: it is not signed by a known key
 * - `other_log`: it is of a log with another name than the one that was cosigned
 * - `rollback`: it is smaller than what was cosigned
 * - `log_rewritten`: it doesn't go on from what was cosigned
 */
type WitnessErrorCode =
  'key_unknown' | 'bad_answer' | 'bad_checkpoint' | 'other_log' | 'rollback' | 'log_rewritten'

/** A checkpoint was not cosigned. */
export class WitnessError extends CodedError<WitnessErrorCode> {
  override readonly name = 'WitnessError'
}

export interface Witnessed {
  origin: string
  size: number
  /** Hex. */
  root: string
  vkey: string
  /** The cosignature as it was handed in. */
  line: string
  /** False if the service had one of this size already. */
  counted: boolean
}

/**
 * Fetches the newest checkpoint, cosigns it if its log continues what was cosigned before, and hands the
 * cosignature in. What is cosigned is written to the file first.
 *
 * @param client with the agent's token
 * @param witnessFile one for each service and agent; made at the first look
 * @param now Unix seconds
 * @throws WitnessError; RefusalError and TransportError as the client does
 */
export async function witnessCheckpoint(options: {
  client: Client
  agentId: string
  witnessFile: string
  trust: SealTrust
  now: number
}): Promise<Witnessed> {
  const { client, agentId, witnessFile, trust, now } = options
  const log = await fetchCheckpoint(client, trust)
  const { origin, size, root } = log
  const state = ensureState(witnessFile)
  requireNewer(state, log)
  await requireConsistent(client, state, log, trust)

  const name = `${origin}/w/${agentId}`
  // Another process may have cosigned meanwhile; what it remembered binds this one too.
  const line = withFileLock(witnessFile, () => {
    const current = ensureState(witnessFile)
    if (current.size !== state.size || current.root !== state.root) requireNewer(current, log)
    if (current.size > state.size && current.size !== size)
      throw new WitnessError(
        'rollback',
        `Another process cosigned the size ${current.size} meanwhile; look again.`,
      )
    writeState(witnessFile, { ...current, origin, size, root })
    return cosignNote(log.parsed.text, name, keyFromHex(current.secret_key), now)
  })
  const publicKey = ed25519PublicKey(keyFromHex(state.secret_key))
  const vkey = formatVkey({ name, type: NOTE_KEY.cosigner, publicKey })
  if (state.registered !== true) {
    await client.registerWitness({ vkey })
    withFileLock(witnessFile, () =>
      writeState(witnessFile, { ...ensureState(witnessFile), registered: true }),
    )
  }
  const { counted } = await client.cosign({ line })
  return { origin, size, root, vkey, line, counted }
}

/**
 * Fetches the newest checkpoint and checks that a known key of the service has signed it.
 *
 * @throws WitnessError
 */
async function fetchCheckpoint(client: Client, trust: SealTrust): Promise<SignedLog> {
  const pubkeys = knownKeys(trust, await recall(trust.stateFile, client.baseUrl))
  if (pubkeys.length === 0)
    throw new WitnessError(
      'key_unknown',
      'No key of the service is remembered; check its ledger first, so that a witness knows whose log it is.',
    )
  const note = await client.checkpoint()
  const log = orThrow(
    'bad_answer',
    (message) => `What the service gives is no checkpoint: ${message}.`,
    () => readCheckpoint(note),
  )
  if (isSignedLog(log, pubkeys)) return log
  throw new WitnessError('bad_checkpoint', 'No known key of the service has signed its checkpoint.')
}

/** What a check gives. @throws WitnessError with this code if the check throws Refused */
function orThrow<T>(code: WitnessErrorCode, describe: (message: string) => string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw error instanceof Refused ? new WitnessError(code, describe(error.message)) : error
  }
}

/**
 * Checks that a checkpoint may be cosigned after what was cosigned: it is of the same log, not smaller, and
 * not of the same size with another root. A larger one isn't compared here.
 *
 * @throws WitnessError
 */
function requireNewer({ origin, size, root }: WitnessState, shown: SignedLog): void {
  if (origin !== undefined && origin !== shown.origin)
    throw new WitnessError(
      'other_log',
      `The checkpoint is of the log ${shown.origin}, and ${origin} was cosigned.`,
    )
  if (shown.size < size)
    throw new WitnessError('rollback', `The checkpoint has ${shown.size} entries, and ${size} were cosigned.`)
  if (shown.size === size && shown.root !== root)
    throw new WitnessError(
      'log_rewritten',
      `The checkpoint of size ${size} has another root than the one that was cosigned.`,
    )
}

/**
 * Checks by consistency proofs that a checkpoint's log continues what was cosigned, and agrees with what this
 * agent has seen of the log.
 *
 * @throws WitnessError `log_rewritten`
 */
async function requireConsistent(
  client: Client,
  state: WitnessState,
  log: SignedLog,
  trust: SealTrust,
): Promise<void> {
  if (state.size > 0 && state.size < log.size) {
    const proof = readConsistency(await client.consistency({ from: state.size, to: log.size }))
    const describe = () =>
      `The log of ${log.size} entries does not go on from the ${state.size} that were cosigned.`
    orThrow('log_rewritten', describe, () => connectLogs(state, log, proof))
  }
  const fork = await findLogFork(client, log.note, trust, (from, to) => client.consistency({ from, to }))
  if (fork !== undefined)
    throw new WitnessError(
      'log_rewritten',
      `${fork.message}${fork.evidence === undefined ? '' : `; the proof is in ${fork.evidence}`}.`,
    )
}

/**
 * Reads the witness's file. If there is none, it makes a key and writes the file.
 *
 * @throws Error that names the file if it holds something else
 */
export function ensureState(witnessFile: string): WitnessState {
  const read = (value: Partial<WitnessState> = {}): WitnessState | undefined => {
    const isHex = (hex: unknown): hex is string => typeof hex === 'string' && /^[0-9a-f]{64}$/.test(hex)
    const isRight =
      isHex(value.secret_key) &&
      isHex(value.public_key) &&
      isHex(value.root) &&
      Number.isSafeInteger(value.size) &&
      // A damaged key would be another witness, which remembers nothing.
      keyToHex(ed25519PublicKey(keyFromHex(value.secret_key))) === value.public_key
    return isRight ? (value as WitnessState) : undefined
  }
  const state = readPrivateFile(
    witnessFile,
    (value) => read(isObject(value) ? value : {}),
    "is no witness's file; put it right. Without what it remembers nothing can be cosigned safely.",
  )
  if (state !== undefined) return state
  const secretKey = randomBytes(32)
  const fresh = {
    secret_key: keyToHex(secretKey),
    public_key: keyToHex(ed25519PublicKey(secretKey)),
    size: 0,
    root: '0'.repeat(64),
  }
  writeState(witnessFile, fresh)
  return fresh
}

const writeState = (witnessFile: string, state: WitnessState): void => writePrivateFile(witnessFile, state, 2)
