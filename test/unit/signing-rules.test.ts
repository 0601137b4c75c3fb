import { describe, expect, it } from 'vitest'
import { findForbidding, type Recollection } from '../../shared/ledger/outsider.ts'
import { headOf, SealError, type SealRecord } from '../../shared/ledger/seal.ts'
import type { Remembered } from '../../shared/ledger/seal-memory.ts'
import { SIGNING_REFUSALS, SigningStopped } from '../../shared/ledger/signing-refusals.ts'
import { decideSigning, findNextSeal, type SealToSign } from '../../shared/ledger/signing-rules.ts'

const KEY = 'aa'.repeat(32)
const OTHER_KEY = 'bb'.repeat(32)
const AT = 1_700_000_000
const SECOND_MS = 1_000

/** Seal `seq` of a history: two entries a seal, and a second between two of them. */
const seal = (seq: number, history = 1): SealRecord => ({
  _id: seq,
  at: AT + seq,
  count: 2,
  root: String(history).repeat(64),
  prev_root: seq === 1 ? null : String(history).repeat(64),
  from_id: 2 * seq - 1,
  to_id: 2 * seq,
  signed: false,
})
const log = (size: number, history = 1) => ({ size, root: String(history).repeat(64) })
const keys = { root: '9'.repeat(64), count: 0 }

/** A memory of seal `seq`; of a key that has signed nothing for 0. */
const remember = (seq: number, history = 1, more: Partial<Remembered> = {}): Remembered => {
  const head = headOf(seq === 0 ? undefined : seal(seq, history))
  return { seq, payload_hash: head.payloadHash, pubkey: KEY, ...more }
}

/** Seal 5 after signed seal 4, an hour later, by clocks that agree. */
const facts = (changes: Partial<SealToSign> = {}): SealToSign => ({
  seal: seal(5),
  last: seal(4),
  remembered: remember(4, 1, { log: log(8), keys }),
  pubkey: KEY,
  origin: 'a.example/log',
  after: { log: log(10), keys },
  nowMs: (AT + 3_600) * SECOND_MS,
  databaseMs: (AT + 3_600) * SECOND_MS,
  ...changes,
})
const first = { seal: seal(1), last: undefined, after: { log: log(2), keys } }
const remembers = (seq: number, history?: number, more?: Partial<Remembered>) => ({
  remembered: remember(seq, history, more),
})

describe('a seal may be signed that is', () => {
  it.each<[string, Partial<SealToSign>]>([
    ['the first of all', { ...first, ...remembers(0) }],
    ['the one after the last signed', {}],
    ['the one after the last signed, by a memory of an earlier version', remembers(4)],
    ['the one whose signature was made and not stored', remembers(5, 1, { log: log(10), keys })],
    ['dated as far ahead as clocks may differ', { nowMs: (AT + 5 - 300) * SECOND_MS }],
    ['dated as the one before, whatever the clocks say', { last: { ...seal(4), at: AT + 5 }, nowMs: 0 }],
  ])('%s', (name, changes) => {
    const all = facts(changes)
    if (name.startsWith('dated as the one before'))
      all.remembered = { ...all.remembered, payload_hash: headOf(all.last).payloadHash }
    expect(decideSigning(all)).toMatchObject({
      kind: 'sign',
      remember: {
        seq: all.seal._id,
        payload_hash: headOf(all.seal).payloadHash,
        pubkey: KEY,
        origin: 'a.example/log',
        log: all.after.log,
        keys,
      },
    })
  })

  it('remembered with what adoptions gave up before it', () => {
    const given_up = { from: 5, to: 9 }
    expect(decideSigning(facts(remembers(4, 1, { given_up })))).toMatchObject({ remember: { given_up } })
  })

  it.each([
    ['by both clocks', 3_600, 3_600, 3_600],
    ["at most five minutes after the database's time", 5_000, 3_600, 3_900],
    ['not before the seal is dated', 0, 0, 5],
  ])('signed %s', (_, now, database, expected) => {
    const times = { nowMs: (AT + now) * SECOND_MS, databaseMs: (AT + database) * SECOND_MS }
    expect(decideSigning(facts(times))).toMatchObject({ signedAt: AT + expected })
  })
})

describe('a seal must not be signed', () => {
  it.each<[string, Partial<SealToSign>, string]>([
    [
      'if the memory has another payload for its seq',
      remembers(5, 2),
      'another seal 5 was signed before, with the payload hash',
    ],
    [
      'if the memory has a higher seq',
      remembers(7),
      'seal 7 was signed before, and the database ends at signed seal 4',
    ],
    ['as the first, where another was signed', { ...first, ...remembers(1, 2) }, 'another seal 1 was signed'],
    ['after another last seal than the remembered one', remembers(4, 2), 'the database has another'],
    ['if the memory is older than the database', remembers(3), 'the memory is an older one'],
    ['if signed seals stand beside a memory of nothing', remembers(0), 'the memory is an older one'],
    [
      'by another key than the memory belongs to',
      { pubkey: OTHER_KEY },
      `the seal memory belongs to the key ${KEY}, and the key at hand is ${OTHER_KEY}`,
    ],
    [
      'if a larger log was signed',
      remembers(4, 1, { log: log(11) }),
      'a checkpoint of size 11 with the root 111',
    ],
    ['if another log of its size was signed', remembers(5, 1, { log: log(10, 2) }), 'and the root 1111'],
  ])('%s: memory and database differ', (_, changes, sentence) => {
    const decision = decideSigning(facts(changes))
    expect(decision).toMatchObject({ kind: 'memory_differs' })
    expect('sentence' in decision && decision.sentence).toContain(sentence)
  })

  it.each([
    [
      'more than five minutes before',
      'of this machine',
      { nowMs: (AT + 5 - 301) * SECOND_MS },
      'clock_behind',
    ],
    [
      'more than five minutes before',
      'of the database',
      { databaseMs: (AT + 5 - 301) * SECOND_MS },
      'date_ahead',
    ],
    ['more than five minutes before', 'of both', { nowMs: 0, databaseMs: 0 }, 'date_ahead'],
  ])('%s its date by the clock %s', (_, __, times, kind) => {
    expect(decideSigning(facts(times))).toMatchObject({ kind })
  })

  it('and says by how much the clock of this machine is behind', () => {
    expect(decideSigning(facts({ nowMs: (AT - 400) * SECOND_MS }))).toMatchObject({
      sentence: "this machine's clock is 4000 s behind the database's",
    })
  })
})

describe('the next seal to sign', () => {
  it.each([
    [
      'is none if all are signed',
      { last: seal(4), firstUnsigned: undefined, next: undefined },
      { kind: 'none' },
    ],
    [
      'is the one after the last signed one',
      { last: seal(4), firstUnsigned: 5, next: seal(5) },
      { kind: 'next', seal: seal(5) },
    ],
    [
      'is the first one',
      { last: undefined, firstUnsigned: 1, next: seal(1) },
      { kind: 'next', seal: seal(1) },
    ],
    [
      'is not known if a signed one follows an unsigned one',
      { last: seal(4), firstUnsigned: 3, next: seal(5) },
      { kind: 'out_of_order', sentence: 'seal 3 has no signature and seal 4 after it has one' },
    ],
    [
      'is not known if it is missing',
      { last: seal(4), firstUnsigned: 6, next: undefined },
      { kind: 'out_of_order', sentence: 'seal 5 is missing, and seal 6 comes after it' },
    ],
    [
      'is not known if the first of all is missing',
      { last: undefined, firstUnsigned: 2, next: undefined },
      { kind: 'out_of_order', sentence: 'seal 1 is missing, and seal 2 comes after it' },
    ],
  ])('%s', (_, position, expected) => {
    expect(findNextSeal(position)).toEqual(expected)
  })
})

describe('of what others remember, signing is forbidden by', () => {
  const conflict = (isProven: boolean, sentence = 'a claim'): Recollection => ({
    kind: 'conflict',
    because: 'witness_remembers_more',
    sentence,
    isProven,
  })
  const agrees: Recollection = { kind: 'agrees' }
  const away: Recollection = { kind: 'away' }
  it.each<[string, Recollection[], number, string | undefined]>([
    ['nothing, if nobody was asked', [], 0, undefined],
    ['nothing that agrees or is away', [agrees, away], 0, undefined],
    ['no single claim', [conflict(false), agrees], 0, undefined],
    ['two claims', [conflict(false, 'one'), conflict(false, 'two')], 0, 'one'],
    ['no two claims if the quorum is three', [conflict(false), conflict(false)], 3, undefined],
    [
      'three claims if the quorum is three',
      [conflict(false, 'one'), conflict(false), conflict(false)],
      3,
      'one',
    ],
    ['one proof, whatever the quorum is', [conflict(false), conflict(true, 'proof')], 9, 'proof'],
  ])('%s', (_, recollections, quorum, sentence) => {
    expect(findForbidding(recollections, quorum)).toEqual(
      sentence === undefined ? undefined : expect.objectContaining({ sentence }),
    )
  })
})

describe('a refusal to sign', () => {
  it('says what is wrong, then its remedy, and is named', () => {
    const error = new SigningStopped('other_log_name', 'it is another', { more: 'It was x.', cause: 'y' })
    expect(error).toBeInstanceOf(SealError)
    expect(error).toMatchObject({
      message: `it is another. ${SIGNING_REFUSALS.other_log_name.remedy} It was x.`,
      because: 'other_log_name',
      cause: 'y',
    })
    expect(new SigningStopped('date_ahead', 'it is').message).toBe(
      `it is. ${SIGNING_REFUSALS.date_ahead.remedy}`,
    )
  })
})
