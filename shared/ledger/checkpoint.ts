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
import { SealError, type SealRecord } from './seal.ts'
import { readMemory, type Remembered } from './seal-memory.ts'

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
 * @throws SealError if LEDGER_ORIGIN is set and another name was signed before
 */
export function originOf(
  config: Pick<Config, 'ledgerOrigin' | 'baseUrl'>,
  remembered: Pick<Remembered, 'origin'> | undefined,
  last: Partial<SealNote> | undefined,
): string {
  const used = remembered?.origin ?? last?.origin
  if (used !== undefined && config.ledgerOrigin !== undefined && config.ledgerOrigin !== used)
    throw new SealError(
      `LEDGER_ORIGIN is ${config.ledgerOrigin}, and checkpoints were signed for the log ${used}: a log keeps its name for ever. Take LEDGER_ORIGIN back, or out.`,
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

/**
 * Signs the checkpoint of a log and verifies the signature.
 *
 * @param key the seal key, 32 bytes
 * @param pubkey its public key, as hex
 * @throws SealError if the signature does not verify
 */
export function signCheckpoint(origin: string, log: LogState, key: Uint8Array, pubkey: string): SealNote {
  const text = checkpointText(origin, log)
  const note = signNote(text, origin, key)
  if (
    !verifyNote(parseNote(formatNote(text, [note])), {
      name: origin,
      type: NOTE_KEY.signer,
      publicKey: keyFromHex(pubkey),
    })
  )
    throw new SealError(`the signature made for the checkpoint of size ${log.size} does not verify`)
  return { origin, log_root: log.root, note }
}

/** The checkpoint that was signed with a seal. */
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

/**
 * Says why a checkpoint of `log` must not be signed: the memory knows a larger log, or another of this size.
 *
 * @returns undefined if it may be signed
 */
export function findLogConflict(remembered: Remembered, log: LogState): string | undefined {
  const signed = remembered.log
  if (signed === undefined || log.size > signed.size) return undefined
  if (log.size === signed.size && log.root === signed.root) return undefined
  return `a checkpoint of size ${signed.size} with the root ${signed.root} was signed before, and this one has the size ${log.size} and the root ${log.root}`
}
