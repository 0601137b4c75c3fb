import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import {
  cosignNote,
  formatCheckpoint,
  formatLogProof,
  formatNote,
  formatVkey,
  isNoteName,
  NOTE_KEY,
  noteKeyId,
  parseCheckpoint,
  parseLogProof,
  parseNote,
  parseSignatureLine,
  parseVkey,
  signNote,
  verifyCosignature,
  verifyNote,
} from '../../shared/crypto/note.ts'

const secretKey = randomBytes(32)
const publicKey = ed25519PublicKey(secretKey)
const log = { name: 'log.example/agents', type: NOTE_KEY.signer, publicKey }
const witnessSecret = randomBytes(32)
const witness = {
  name: 'witness.example/w1',
  type: NOTE_KEY.cosigner,
  publicKey: ed25519PublicKey(witnessSecret),
}
const checkpoint = { origin: log.name, size: 1_000_000, root: randomBytes(32) }
const text = formatCheckpoint(checkpoint)

// The example of C2SP signed-note.
const EXAMPLE_VKEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'
const EXAMPLE = `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`

describe('signed notes', () => {
  it('reads and verifies the example of the specification', () => {
    const key = parseVkey(EXAMPLE_VKEY)
    expect(key).toMatchObject({ name: 'example.com/foo', type: NOTE_KEY.signer })
    expect(noteKeyId(key)).toBe('530d903a')
    expect(formatVkey(key)).toBe(EXAMPLE_VKEY)
    const note = parseNote(EXAMPLE)
    expect(note.text).toBe('This is an example message.\n')
    expect(verifyNote(note, key)).toBe(true)
    expect(verifyNote({ ...note, text: 'This is another message.\n' }, key)).toBe(false)
  })

  it('signs what it verifies, and knows whose line a line is', () => {
    const line = signNote(text, log.name, secretKey)
    const note = formatNote(text, [line])
    expect(parseNote(note)).toMatchObject({ text, signatures: [{ name: log.name, line }] })
    expect(verifyNote(parseNote(note), log)).toBe(true)
    for (const other of [
      { ...log, name: 'log.example/other' },
      { ...log, type: NOTE_KEY.cosigner },
      { ...log, publicKey: witness.publicKey },
    ])
      expect(verifyNote(parseNote(note), other)).toBe(false)
  })

  it('passes over lines of other keys, and refuses a note with a wrong line of its own', () => {
    const good = signNote(text, log.name, secretKey)
    const bad = signNote('another text\n', log.name, secretKey)
    const strange = cosignNote(text, witness.name, witnessSecret, 5)
    expect(verifyNote(parseNote(formatNote(text, [strange, good])), log)).toBe(true)
    expect(verifyNote(parseNote(formatNote(text, [good, bad])), log)).toBe(false)
    expect(verifyNote(parseNote(formatNote(text, [strange])), log)).toBe(false)
  })

  it('takes no other form of note, line or vkey', () => {
    const line = signNote(text, log.name, secretKey)
    const wrongNotes = [
      '',
      text,
      `${text}\n`,
      formatNote(text, [line]).trimEnd(),
      formatNote(text, [line]).replace('—', '-'),
      `\u0000${formatNote(text, [line])}`,
    ]
    for (const note of wrongNotes) expect(() => parseNote(note), note).toThrow(TypeError)
    for (const wrong of [
      `${line} `,
      `${line}=`,
      line.replace('— ', '—'),
      '— a b',
      `— a+b ${line.split(' ')[2]}`,
      '',
    ])
      expect(() => parseSignatureLine(wrong), wrong).toThrow(TypeError)
    const vkey = formatVkey(log)
    for (const wrong of [
      '',
      'a',
      vkey.replace('+A', '+B'),
      `${vkey}A`,
      vkey.replace(/\+[0-9a-f]{8}\+/, '+00000000+'),
      ` ${vkey}`,
      vkey.toUpperCase(),
    ])
      expect(() => parseVkey(wrong), wrong).toThrow(TypeError)
    for (const name of ['', 'a b', 'a+b', 'a\u00a0b', 'a\nb', 'a\u2003b', '\ud800'])
      expect(isNoteName(name), name).toBe(false)
  })
})

describe('checkpoints', () => {
  it('are origin, size and root, a line each', () => {
    expect(text).toBe(`log.example/agents\n1000000\n${Buffer.from(checkpoint.root).toString('base64')}\n`)
    expect(parseCheckpoint(text)).toEqual({ ...checkpoint, root: new Uint8Array(checkpoint.root) })
    for (const wrong of [
      text.replace('1000000', '01'),
      text.replace('1000000', '-1'),
      text.replace('1000000', '9'.repeat(17)),
      `${text}extension\n`,
      text.trimEnd(),
      text.replace('=', ''),
      `\n${text}`,
    ])
      expect(() => parseCheckpoint(wrong), wrong).toThrow(TypeError)
  })
})

describe('cosignatures', () => {
  it('say when a cosigner has seen a checkpoint', () => {
    const line = parseSignatureLine(cosignNote(text, witness.name, witnessSecret, 1_679_315_147))
    expect(verifyCosignature(text, line, witness)).toBe(1_679_315_147)
    expect(verifyCosignature(text.replace('1000000', '1000001'), line, witness)).toBeUndefined()
    expect(verifyCosignature(text, line, { ...witness, name: 'witness.example/w2' })).toBeUndefined()
    expect(verifyCosignature(text, line, { ...witness, type: NOTE_KEY.signer })).toBeUndefined()
    const later = Uint8Array.from(line.signature)
    later[7] = (later[7] as number) + 1
    expect(verifyCosignature(text, { ...line, signature: later }, witness)).toBeUndefined()
  })

  it('and signatures of the log do not pass for each other', () => {
    const own = cosignNote(text, log.name, secretKey, 5)
    const note = parseNote(formatNote(text, [own]))
    expect(verifyNote(note, log)).toBe(false)
    expect(
      verifyCosignature(text, parseSignatureLine(signNote(text, log.name, secretKey)), {
        ...log,
        type: NOTE_KEY.cosigner,
      }),
    ).toBeUndefined()
  })
})

describe('proof texts', () => {
  it('carry index, path and the signed checkpoint', () => {
    const note = formatNote(text, [signNote(text, log.name, secretKey)])
    for (const length of [0, 1, 20]) {
      const proof = { index: 73_894, path: Array.from({ length }, () => randomBytes(32)), checkpoint: note }
      expect(parseLogProof(formatLogProof(proof))).toEqual(proof)
      expect(parseLogProof(formatLogProof(proof).replace('\nindex', '\nextra AAAA\nindex'))).toEqual(proof)
    }
    const good = formatLogProof({ index: 0, path: [randomBytes(32)], checkpoint: note })
    for (const wrong of [
      '',
      good.replace('@v1', '@v2'),
      good.replace('index 0', 'index 00'),
      good.replace('index 0', 'index'),
      good.replace('=\n', '\n'),
    ])
      expect(() => parseLogProof(wrong), wrong).toThrow(TypeError)
  })
})
