import { describe, expect, it } from 'vitest'
import { leafHash } from '../../shared/crypto/merkle.ts'
import {
  computeLeaves,
  entryView,
  isReadable,
  numberEntry,
  recordOf,
  viewEntry,
  type EntryRecord,
} from '../../shared/ledger/entry.ts'
import { parsePendingEntry } from '../../shared/ledger/pending-check.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'

const pending: PendingEntry = {
  source: 'post_1/posted',
  at: 100,
  kind: 'post',
  data: { b: 2, a: ['x', null, true] },
}
const entry = (more: object = {}): EntryRecord => ({ ...numberEntry(pending, 7), ...more })
/** Data whose canonical JSON, with that of the kind and what stands around them, has so many bytes. */
const dataOf = (bytes: number) => ({ a: 'x'.repeat(bytes - '{"data":{"a":""},"kind":"post"}'.length) })

/** What somebody may write past the sequencer. */
const UNREADABLE: [what: string, more: object][] = [
  ['no time', { at: undefined }],
  ['a time before 1970', { at: -1 }],
  ['a part of a second', { at: 0.5 }],
  ['a time as text', { at: '100' }],
  ['no kind', { kind: undefined }],
  ['a kind that is no text', { kind: 5 }],
  ['a kind with half a character', { kind: '\ud800' }],
  ['no data', { data: undefined }],
  ['null for data', { data: null }],
  ['a list for data', { data: [] }],
  ['text for data', { data: 'x' }],
  ['data that JSON has no form for', { data: { a: Number.NaN } }],
  ['data with half a character', { data: { a: '\udc00' } }],
  ['more bytes than an entry of the log may have', { data: dataOf(65_001) }],
]

describe('an entry', () => {
  it('gets its number, and its record from its source', () => {
    expect(numberEntry(pending, 7)).toEqual({
      _id: 7,
      source: 'post_1/posted',
      record: 'post_1',
      at: 100,
      kind: 'post',
      data: pending.data,
    })
    expect(recordOf('a/b/c')).toBe('a')
    for (const source of ['', 'post_1', '/posted']) expect(() => recordOf(source)).toThrow(TypeError)
  })

  it('is published as its number, time, kind and data, and nothing else that is stored with it', () => {
    expect(viewEntry(entry({ secret: 1 }))).toEqual({ id: 7, at: 100, kind: 'post', data: pending.data })
    entryView.strict().parse(viewEntry(entry()))
    expect(viewEntry(entry({ at: 0 }))).toEqual({ id: 7, at: 0, kind: 'post', data: pending.data })
  })

  it.each(UNREADABLE)(
    'with %s is published as unreadable, and stops neither sealing nor reading',
    (_, more) => {
      const bad = entry(more)
      expect(isReadable(bad)).toBe(false)
      const at = Number.isSafeInteger(bad.at) && bad.at >= 0 ? bad.at : 0
      expect(viewEntry(bad)).toEqual({ id: 7, at, kind: 'unreadable', data: {} })
      const { leaves, unreadable } = computeLeaves([entry(), bad])
      expect([...unreadable]).toEqual([bad])
      expect(leaves.toString('hex')).toBe(leafHash(viewEntry(entry())) + leafHash(viewEntry(bad)))
    },
  )

  it('may have 65,000 bytes without its number and its time', () => {
    expect(isReadable(entry({ data: dataOf(65_000) }))).toBe(true)
    expect(isReadable(entry({ data: { a: 'é'.repeat(32_484) } }))).toBe(true)
    expect(isReadable(entry({ data: { a: 'é'.repeat(32_485) } }))).toBe(false)
  })

  it('has the leaf of its published form', () => {
    const entries = [entry(), entry({ _id: 8, data: {} })]
    const { leaves, unreadable } = computeLeaves(entries)
    expect(leaves.toString('hex')).toBe(entries.map((one) => leafHash(viewEntry(one))).join(''))
    expect(unreadable.size).toBe(0)
  })
})

describe('an entry that waits in a record for its number', () => {
  it('is taken if it has a source, a known kind and data that can be published', () => {
    expect(parsePendingEntry('posts', pending)).toBe(pending)
  })

  const REFUSED: [what: string, element: unknown][] = [
    ['that is no object', 'post'],
    ['that is null', null],
    ['without a source', { ...pending, source: undefined }],
    ['whose source names no step', { ...pending, source: 'post_1' }],
    ['whose source ends before its step', { ...pending, source: 'post_1/' }],
    ['whose source names no record', { ...pending, source: '/posted' }],
    ['of an unknown kind', { ...pending, kind: 'gift' }],
    ['that cannot be published', { ...pending, at: -1 }],
    ['of the kind that closes a seal', { ...pending, kind: 'solvency' }],
    ['that has a source of the sealer', { ...pending, source: 'seal_3/solvency' }],
  ]
  it.each(REFUSED)('%s is refused, with the reason in a sentence', (_, element) => {
    expect(parsePendingEntry('posts', element)).toMatch(/^.{12,}$/)
  })

  it('about the ledger itself has a place in one collection alone', () => {
    const places: [PendingEntry['kind'], string][] = [
      ['seal_adoption', 'seal_adoptions'],
      ['announcement', 'announcements'],
      ['operator_act', 'operator_acts'],
    ]
    for (const [kind, home] of places) {
      const own = { ...pending, kind }
      expect(parsePendingEntry(home, own)).toBe(own)
      expect(parsePendingEntry('posts', own)).toContain('posts')
    }
    const adoption = { ...pending, kind: 'seal_adoption', source: 'seal_3/adopted' }
    expect(parsePendingEntry('seal_adoptions', adoption)).toBe(adoption)
    const unseal = { ...pending, source: 'unseal_3/step' }
    expect(parsePendingEntry('posts', unseal)).toBe(unseal)
  })
})
