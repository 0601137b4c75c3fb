import { randomBytes } from 'node:crypto'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import { cosignNote, formatVkey, NOTE_KEY, type NoteKeyType } from '../../shared/crypto/note.ts'
import { SEAL_KEY } from './ledger-chain.ts'
import { ORIGIN } from './log-proofs.ts'

/* Witnesses of the test log, and policies that name them. */

const secrets = new Map(['X1', 'X2', 'X3', 'Y1', 'Y2', 'Y3'].map((name) => [name, randomBytes(32)]))
const vkeyOf = (name: string, secret: Uint8Array, type: NoteKeyType) =>
  formatVkey({ name, type, publicKey: ed25519PublicKey(secret) })

export const LOG_VKEY = vkeyOf(ORIGIN, SEAL_KEY, NOTE_KEY.signer)

export const witnessVkey = (name: string): string =>
  vkeyOf(`${name}.example`, secrets.get(name) ?? SEAL_KEY, NOTE_KEY.cosigner)

/** A witness's line below a checkpoint. */
export const cosign = (text: string, name: string, at = 100): string =>
  cosignNote(text, `${name}.example`, secrets.get(name) ?? SEAL_KEY, at)

/** A signed note with the lines of these witnesses. */
export const withCosignatures = (note: string, ...names: string[]): string =>
  note + names.map((name) => `${cosign(note.slice(0, note.indexOf('\n\n') + 1), name)}\n`).join('')

const witnessLines = [...secrets.keys()].map((name) => `witness ${name} ${witnessVkey(name)}`)
const [first = ''] = witnessLines

/** The example of C2SP tlog-policy. */
export const POLICY = [
  `log ${LOG_VKEY}`,
  '',
  ...witnessLines,
  '# Two operators.',
  'group X-witnesses 2 X1 X2 X3',
  'group Y-witnesses any  Y1 Y2 Y3 ',
  '\tgroup X-and-Y all X-witnesses Y-witnesses',
  'quorum X-and-Y',
  '',
].join('\n')

/** What is no policy, and what a refusal says of it. */
export const WRONG_POLICIES: [string, string][] = [
  ['', 'no line quorum'],
  ['quorum X1', 'line 1'],
  ['quorum none\nquorum none', 'line 2'],
  [`${first}\n${first}`, 'line 2'],
  [`${first}\nwitness other ${witnessVkey('X1')}`, 'is there twice'],
  [`witness none ${witnessVkey('X1')}`, 'line 1'],
  [`witness X1 ${LOG_VKEY}`, 'line 1'],
  [`log ${witnessVkey('X1')}`, 'line 1'],
  ['witness X1 nonsense', 'vkey'],
  [first.replace(/\+[0-9a-f]{8}\+/, '+00000000+'), 'vkey'],
  ['log', 'line 1'],
  [`${first}\ngroup g 2 X1`, 'line 2'],
  [`${first}\ngroup g 0 X1`, 'line 2'],
  [`${first}\ngroup g all`, 'line 2'],
  [`${first}\ngroup g any X1 X1`, 'member twice'],
  [`${first}\ngroup g any X1\ngroup h any X1`, 'member twice'],
  [`${first}\ngroup g any g`, 'no line before'],
  ['quorum none\r', 'line 1'],
  ['nonsense', 'line 1'],
]
