import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import {
  findCosigners,
  meetsQuorum,
  parseLogPolicy,
  satisfiesPolicy,
} from '../../shared/crypto/log-policy.ts'
import {
  cosignNote,
  formatCheckpoint,
  formatNote,
  formatVkey,
  NOTE_KEY,
  parseNote,
  signNote,
} from '../../shared/crypto/note.ts'

const logSecret = randomBytes(32)
const secrets = new Map(['X1', 'X2', 'X3', 'Y1', 'Y2', 'Y3'].map((name) => [name, randomBytes(32)]))
const vkeyOf = (name: string, secret: Uint8Array, type: 1 | 4) =>
  formatVkey({ name, type, publicKey: ed25519PublicKey(secret) })
const logVkey = vkeyOf('log.example', logSecret, NOTE_KEY.signer)
const witnessVkey = (name: string) =>
  vkeyOf(`${name}.example`, secrets.get(name) ?? logSecret, NOTE_KEY.cosigner)
const witnessLines = [...secrets.keys()].map((name) => `witness ${name} ${witnessVkey(name)}`)

// The example of C2SP tlog-policy.
const POLICY = [
  `log ${logVkey}`,
  '',
  ...witnessLines,
  '# Two operators.',
  'group X-witnesses 2 X1 X2 X3',
  'group Y-witnesses any  Y1 Y2 Y3 ',
  '\tgroup X-and-Y all X-witnesses Y-witnesses',
  'quorum X-and-Y',
  '',
].join('\n')

const text = formatCheckpoint({ origin: 'log.example', size: 7, root: randomBytes(32) })
const noteOf = (names: readonly string[], signer = logSecret) =>
  parseNote(
    formatNote(text, [
      signNote(text, 'log.example', signer),
      ...names.map((name, at) =>
        cosignNote(text, `${name}.example`, secrets.get(name) ?? logSecret, 100 + at),
      ),
    ]),
  )

describe('a policy of witnesses', () => {
  it('is met by the witnesses that it names, in the number that it asks for', () => {
    const policy = parseLogPolicy(POLICY)
    const met = (...names: string[]) => satisfiesPolicy(policy, noteOf(names))
    expect(met('X1', 'X3', 'Y2')).toBe(true)
    expect(met('X1', 'X2', 'X3')).toBe(false)
    expect(met('X1', 'Y1', 'Y2', 'Y3')).toBe(false)
    expect(met('X1', 'X1', 'Y1')).toBe(false)
    expect(met()).toBe(false)
    expect(findCosigners(policy, noteOf(['X1', 'Y1', 'Y1']))).toEqual(
      new Map([
        ['X1', 100],
        ['Y1', 102],
      ]),
    )
  })

  it('needs the signature of a log that it names', () => {
    expect(satisfiesPolicy(parseLogPolicy(POLICY), noteOf(['X1', 'X3', 'Y2'], randomBytes(32)))).toBe(false)
    const open = parseLogPolicy(`log ${logVkey}\nquorum none\n`)
    expect(satisfiesPolicy(open, noteOf([]))).toBe(true)
    expect(meetsQuorum(open, new Set())).toBe(true)
  })

  it('refuses what is no policy, and says which line', () => {
    const cases: [string, string][] = [
      ['', 'no line quorum'],
      ['quorum X1', 'line 1'],
      ['quorum none\nquorum none', 'line 2'],
      [`${witnessLines[0]}\n${witnessLines[0]}`, 'line 2'],
      [`${witnessLines[0]}\nwitness other ${witnessVkey('X1')}`, 'is there twice'],
      [`witness none ${witnessVkey('X1')}`, 'line 1'],
      [`witness X1 ${logVkey}`, 'another type'],
      [`log ${witnessVkey('X1')}`, 'another type'],
      ['witness X1 nonsense', 'vkey'],
      ['log', 'line 1'],
      [`${witnessLines[0]}\ngroup g 2 X1`, 'line 2'],
      [`${witnessLines[0]}\ngroup g 0 X1`, 'line 2'],
      [`${witnessLines[0]}\ngroup g all`, 'line 2'],
      [`${witnessLines[0]}\ngroup g any X1 X1`, 'member twice'],
      [`${witnessLines[0]}\ngroup g any X1\ngroup h any X1`, 'member twice'],
      [`${witnessLines[0]}\ngroup g any g`, 'no line before'],
      ['nonsense', 'line 1'],
    ]
    for (const [policy, reason] of cases) expect(() => parseLogPolicy(policy), policy).toThrow(reason)
  })
})
