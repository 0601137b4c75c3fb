import type { Config } from '../platform/config.ts'
import { StartError } from '../platform/process.ts'
import { keyFromHex } from '../crypto/ed25519.ts'
import {
  formatCheckpoint,
  formatNote,
  formatVkey,
  NOTE_KEY,
  parseNote,
  signNote,
  verifyNote,
  type NoteKey,
} from '../crypto/note.ts'
import type { LogState } from './log.ts'
import type { SealRecord } from './seal.ts'
import { readMemory, type Remembered } from './seal-memory.ts'
import { SigningStopped } from './signing-refusals.ts'

/*
 * A checkpoint is what the log's key states about the log at a size (C2SP tlog-checkpoint). It is signed in
 * the same act as the seal that ends at that size, and stored with its signature by the same write: no seal
 * is signed without its checkpoint.
 */

/** A signed seal's part in the log. Seals of earlier versions have none. */
export interface SealNote {
  /** The log's name. */
  origin: string
  /** Root of the log up to the seal's last entry, as hex. */
  log_root: string
  /** Signature line of the checkpoint. */
  note: string
}

/**
 * Returns the log's name: the one that was signed before, by the seal memory or the last signed seal, else
 * LEDGER_ORIGIN, else host and path of BASE_URL.
 *
 * @throws SigningStopped if LEDGER_ORIGIN is set and another name was signed before
 */
export function originOf(
  config: Pick<Config, 'ledgerOrigin' | 'baseUrl'>,
  remembered: Pick<Remembered, 'origin'> | undefined,
  last: Partial<SealNote> | undefined,
): string {
  const used = remembered?.origin ?? last?.origin
  if (used !== undefined && config.ledgerOrigin !== undefined && config.ledgerOrigin !== used)
    throw new SigningStopped(
      'other_log_name',
      `LEDGER_ORIGIN is ${config.ledgerOrigin}, and checkpoints were signed for the log ${used}: a log keeps its name for ever`,
    )
  return used ?? config.ledgerOrigin ?? config.baseUrl.replace(/^\w+:\/\//, '').replaceAll('+', '%2B')
}

/**
 * Checks LEDGER_ORIGIN at the start, so that a wrong setting is found before the next seal. Without a seal
 * memory on this host, or with a damaged one, nothing is checked.
 *
 * @throws StartError if LEDGER_ORIGIN is another name than this host has signed for
 */
export function checkLedgerOrigin(config: Pick<Config, 'ledgerOrigin' | 'baseUrl' | 'secrets'>): void {
  const { sealMemoryFile } = config.secrets
  let remembered
  try {
    remembered = sealMemoryFile === undefined ? undefined : readMemory(sealMemoryFile)
  } catch {
    return // the memory is damaged: the signer says so at each seal
  }
  try {
    originOf(config, remembered, undefined)
  } catch (error) {
    throw new StartError((error as Error).message)
  }
}

/** The text of a checkpoint (C2SP tlog-checkpoint). @param origin the log's name */
const checkpointText = (origin: string, { size, root }: LogState): string =>
  formatCheckpoint({ origin, size, root: Buffer.from(root, 'hex') })

/** Signs the checkpoint of a log. @param key the seal key, 32 bytes */
export const signCheckpoint = (origin: string, log: LogState, key: Uint8Array): SealNote => ({
  origin,
  log_root: log.root,
  note: signNote(checkpointText(origin, log), origin, key),
})

/** Whether the signature of a log's checkpoint is by this key. @param pubkey as hex */
export function isCheckpointSigned({ origin, note }: SealNote, log: LogState, pubkey: string): boolean {
  const key: NoteKey = { name: origin, type: NOTE_KEY.signer, publicKey: keyFromHex(pubkey) }
  return verifyNote(parseNote(formatNote(checkpointText(origin, log), [note])), key)
}

export interface StoredCheckpoint extends LogState {
  origin: string
  key: NoteKey
  /** As GET /seal shows it. */
  vkey: string
  /** What is signed. */
  text: string
  /** The log's signature line. */
  line: string
  /** When the seal was made, Unix seconds: nobody has cosigned it before. */
  madeAt: number
}

/**
 * The checkpoint that was signed with a seal; undefined without a seal, or if it is unsigned or from a
 * version that had no log.
 */
export function checkpointOf(seal: SealRecord | undefined): StoredCheckpoint | undefined {
  if (
    seal?.origin === undefined ||
    seal.log_root === undefined ||
    seal.note === undefined ||
    seal.pubkey === undefined
  )
    return undefined
  const { origin, log_root: root, note: line, to_id: size } = seal
  const key: NoteKey = { name: origin, type: NOTE_KEY.signer, publicKey: keyFromHex(seal.pubkey) }
  return {
    origin,
    size,
    root,
    key,
    vkey: formatVkey(key),
    text: checkpointText(origin, { size, root }),
    line,
    madeAt: seal.at,
  }
}
