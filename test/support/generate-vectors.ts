import { hash } from 'node:crypto'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Point } from '@noble/ed25519'
import {
  NOTHING_SEEN,
  signatureHash,
  signStatement,
  statementOf,
  type AuthoredKind,
} from '../../shared/crypto/author.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { bindContent, commit } from '../../shared/crypto/commitment.ts'
import { ed25519PublicKey, keyFromHex, keyToHex } from '../../shared/crypto/ed25519.ts'
import { logRoot } from '../../shared/crypto/log-tree.ts'
import {
  buildTree,
  foldPath,
  inclusionPath,
  leafHash,
  merkleRoot,
  pathShape,
  type PathStep,
} from '../../shared/crypto/merkle.ts'
import { hashLeaves } from './merkle-leaves.ts'
import type { LedgerEntry, Receipt } from '../../shared/crypto/receipt.ts'
import { sealPayloadHash, type Seal, type SealFields } from '../../shared/crypto/seal-payload.ts'
import { once } from '../../shared/platform/once-per.ts'
import {
  bodyOf,
  buildChain,
  closingOf,
  leaveUnsigned,
  makeEntry,
  openingOf,
  OTHER_SEAL_KEY,
  receiptOver,
  saltOf,
  SEAL_KEY,
  sealedItem,
  sealOver,
  sign,
  statedBefore,
  type LedgerChain,
} from './ledger-chain.ts'

/*
 * The vectors of canonical JSON, leaves, trees, proofs, seals and receipts, as name → content; run as a
 * program it writes them to test/vectors. Every invalid one is wrong in one respect and otherwise whole:
 * where a seal's field is wrong, the seal is signed with that wrong field in it.
 */

type Vector = { kind: string; note: string; [part: string]: unknown }
export type InvalidVector = Vector & { reason: string }

const pubkey = keyToHex(ed25519PublicKey(SEAL_KEY))
const otherPubkey = keyToHex(ed25519PublicKey(OTHER_SEAL_KEY))

const sha256 = (data: string | Uint8Array) => hash('sha256', data, 'hex')
const nodeHash = (left: string, right: string) => sha256(Buffer.from(left + right, 'hex'))
/** Leaves without entries behind them, for trees of bare hashes. */
const bareLeaves = (count: number) => Array.from({ length: count }, (_, index) => sha256(`leaf ${index}`))
const flat = (hashes: readonly string[]) => Buffer.from(hashes.join(''), 'hex')
const rootOf = (hashes: readonly string[]) => merkleRoot(flat(hashes)).toString('hex')

function canonicalCases(texts: readonly string[]) {
  return texts.map((json) => {
    const canonical = canonicalJson(JSON.parse(json))
    return { json, canonical, sha256: sha256(canonical) }
  })
}

/** RFC 8785 appendix B, the finite ones, and the places where the notation changes. */
const NUMBERS = [
  ...[
    '0',
    '-0',
    '-0.0',
    '5e-324',
    '-5e-324',
    '1.7976931348623157e308',
    '-1.7976931348623157e308',
    '9007199254740992',
    '-9007199254740992',
  ],
  ...[
    '295147905179352830000',
    '9.999999999999997e22',
    '1e23',
    '1.0000000000000001e23',
    '999999999999999700000',
    '999999999999999900000',
    '1e21',
  ],
  ...[
    '9.999999999999997e-7',
    '0.000001',
    '333333333.3333332',
    '333333333.33333325',
    '333333333.3333333',
    '333333333.3333334',
    '333333333.33333343',
  ],
  ...[
    '-0.0000033333333333333333',
    '1424953923781206.2',
    '1E30',
    '4.50',
    '2e-3',
    '0.000000000000000000000000001',
    '1.0',
    '100',
    '1e2',
    '123456789012345678',
  ],
  ...[
    '9007199254740993',
    '18446744073709551615',
    '0.1',
    '1e-7',
    '123e-20',
    '-1.5e+300',
    '1e-400',
    '12345678901234567890123',
  ],
]

function canonicalJsonVectors(): Record<string, Vector> {
  return {
    'canonical-json-keys-by-utf16': {
      kind: 'canonical-json',
      note: 'RFC 8785 section 3.2.3: keys sorted by UTF-16 code units, not by code points',
      cases: canonicalCases([
        '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}',
        '{"10":1,"9":2,"a":3,"B":4,"":5,"aa":6,"a ":7}',
        '{"\\uffff":1,"\\ud800\\udc00":2,"\\ue000":3}',
        '{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":{}}',
        '{"__proto__":1,"constructor":{"toString":2},"A":0}',
      ]),
    },
    'canonical-json-strings': {
      kind: 'canonical-json',
      note: 'RFC 8785 section 3.2.2.2: seven short escapes, other controls as \\u00xx in lower case, everything else as it is',
      cases: canonicalCases([
        '"\\u20ac$\\u000f\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/"',
        '"\\u0000\\u0001\\u0008\\u0009\\u000a\\u000b\\u000c\\u000d\\u001f\\u0020\\u007f\\u0080"',
        '"\\u2028\\u2029\\ufeff\\u00a0\\u200b"',
        '"\\ud83d\\ude00 \\udbff\\udfff \\uFFFE"',
        '"e\\u0301 is not \\u00e9"',
        '"<\\/script>&"',
        '""',
      ]),
    },
    'canonical-json-numbers': {
      kind: 'canonical-json',
      note: 'RFC 8785 section 3.2.2.3 and appendix B: numbers are doubles, written as ECMAScript does',
      cases: canonicalCases(NUMBERS),
    },
    'canonical-json-structures': {
      kind: 'canonical-json',
      note: 'empty containers, literals, whitespace in the source, nesting',
      cases: canonicalCases([
        '{}',
        '[]',
        '[[],{},[{}]]',
        ' {\t"b" :\r\n[ 1 , 2 ] , "a" : null } ',
        '[true,false,null]',
        '"text"',
        '7',
        '['.repeat(100) + ']'.repeat(100),
      ]),
    },
  }
}

function invalidCanonicalJsonVectors(): Record<string, InvalidVector> {
  const refused = (reason: string, note: string, json: string, canonical = json): InvalidVector => ({
    kind: 'canonical-json',
    reason,
    note,
    cases: [{ json, canonical }],
  })
  return {
    'canonical-json-lone-surrogate': refused(
      'no_canonical_form',
      'half a character has no UTF-8 form',
      '"\\ud83d"',
      '"?"',
    ),
    'canonical-json-lone-surrogate-in-key': refused(
      'no_canonical_form',
      'a key is a string too',
      '{"\\ude00\\ud83d":1}',
      '{"?":1}',
    ),
    'canonical-json-number-too-large': refused(
      'no_canonical_form',
      'larger than any double',
      '1e400',
      'null',
    ),
    'canonical-json-nested-too-deep': refused(
      'no_canonical_form',
      'nested 501 levels',
      '['.repeat(501) + ']'.repeat(501),
    ),
    'canonical-json-nested-far-too-deep': refused(
      'no_canonical_form',
      'nested deeper than some parsers can go',
      '['.repeat(6_000) + ']'.repeat(6_000),
    ),
    'canonical-json-nan': refused('malformed_json', 'not JSON, though some parsers take it', 'NaN'),
    'canonical-json-trailing-comma': refused('malformed_json', 'not JSON', '[1,]'),
    'canonical-json-leading-zero': refused('malformed_json', 'not JSON', '01'),
    'canonical-json-raw-control': refused('malformed_json', 'a control character stands unescaped', '"\t"'),
    'canonical-json-sorted-by-code-points': refused(
      'wrong_canonical_form',
      'sorted by code points, as a sort of UTF-8 bytes would',
      '{"\\ud83d\\ude00":1,"\\ufb33":2}',
      '{"\ufb33":2,"\u{1f600}":1}',
    ),
    'canonical-json-keys-as-written': refused(
      'wrong_canonical_form',
      'keys in the order of the source',
      '{"b":1,"a":2}',
    ),
    'canonical-json-escaped-non-ascii': refused(
      'wrong_canonical_form',
      'escaped where the character itself belongs',
      '"\\u20ac"',
    ),
    'canonical-json-escaped-solidus': refused('wrong_canonical_form', 'the solidus takes no escape', '"\\/"'),
    'canonical-json-upper-case-escape': refused(
      'wrong_canonical_form',
      'hex digits of an escape are lower case',
      '"\\u001f"',
      '"\\u001F"',
    ),
    'canonical-json-long-escape': refused(
      'wrong_canonical_form',
      'a line feed has a short escape',
      '"\\n"',
      '"\\u000a"',
    ),
    'canonical-json-whitespace': refused('wrong_canonical_form', 'no whitespace between tokens', '{"a": 1}'),
    'canonical-json-float-form': refused('wrong_canonical_form', 'a whole number has no fraction', '1.0'),
    'canonical-json-negative-zero': refused('wrong_canonical_form', 'minus zero is written 0', '-0'),
    'canonical-json-exact-big-integer': refused(
      'wrong_canonical_form',
      'numbers are doubles: beyond 2^53 digits are lost',
      '9007199254740993',
    ),
    'canonical-json-key-twice': refused(
      'malformed_json',
      'another reader may take the other one',
      '{"a":1,"a":2}',
      '{"a":2}',
    ),
    'canonical-json-key-twice-escaped': refused(
      'malformed_json',
      'the same key in two spellings',
      '[{"a":1,"\\u0061":2}]',
      '[{"a":2}]',
    ),
    'canonical-json-other-hash': {
      ...refused('wrong_canonical_form', 'the text is right, its SHA-256 is another', '[]'),
      cases: [{ json: '[]', canonical: '[]', sha256: sha256('{}') }],
    },
    'canonical-json-exponent-without-plus': refused(
      'wrong_canonical_form',
      'a positive exponent carries its sign',
      '1e21',
      '1e21',
    ),
  }
}

/** An entry whose leaf preimage is exactly as long as a node's: 64 bytes. */
function entryLikeANode(id: number): LedgerEntry {
  const empty = { ...makeEntry(id, {}), kind: '' }
  const entry = { ...empty, kind: 'k'.repeat(63 - canonicalJson(empty).length) }
  if (1 + Buffer.byteLength(canonicalJson(entry)) !== 64)
    throw new Error('the entry has no room for 64 bytes')
  return entry
}

function leafVectors(): Record<string, Vector> {
  const leaf = (note: string, entry: LedgerEntry): Vector => ({
    kind: 'leaf',
    note,
    entry,
    canonical: canonicalJson(entry),
    leaf: leafHash(entry),
  })
  return {
    'leaf-of-a-post': leaf('SHA-256 of the byte 00 and the canonical JSON', makeEntry(1)),
    'leaf-of-nested-data': leaf(
      'keys are sorted at every depth',
      makeEntry(2, {
        owed: { xno: '0.100000', xmr: '0.00000000' },
        ids: ['mkt_1', 'mkt_2'],
        days: 1.5,
        by: null,
        '\u{1f600}': true,
        '\ufb33': false,
      }),
    ),
    'leaf-of-64-bytes': leaf("the preimage is as long as a node's", entryLikeANode(3)),
  }
}

function invalidLeafVectors(): Record<string, InvalidVector> {
  const entry = makeEntry(1)
  const { id: _id, ...withoutId } = entry
  return {
    'leaf-without-its-byte': {
      kind: 'leaf',
      reason: 'wrong_leaf',
      note: 'the byte 00 is missing from the preimage',
      entry,
      leaf: sha256(canonicalJson(entry)),
    },
    'leaf-with-a-node-byte': {
      kind: 'leaf',
      reason: 'wrong_leaf',
      note: 'the byte is 01',
      entry,
      leaf: sha256('\x01' + canonicalJson(entry)),
    },
    'leaf-of-keys-as-written': {
      kind: 'leaf',
      reason: 'wrong_leaf',
      note: 'hashed as it was written, not in canonical form',
      entry,
      leaf: sha256('\0' + JSON.stringify(entry)),
    },
    'leaf-of-another-entry': {
      kind: 'leaf',
      reason: 'wrong_leaf',
      note: 'one letter of the entry differs',
      entry: { ...entry, kind: 'Post' },
      leaf: leafHash(entry),
    },
    'leaf-of-a-lone-surrogate': {
      kind: 'leaf',
      reason: 'malformed_entry',
      note: 'the entry has no canonical JSON',
      entry: makeEntry(1, { name: '\ud83d' }),
      leaf: leafHash(entry),
    },
    'leaf-of-an-entry-without-id': {
      kind: 'leaf',
      reason: 'malformed_entry',
      note: 'an entry has id, at, kind and data',
      entry: withoutId,
      leaf: leafHash(withoutId),
    },
  }
}

function treeVectors(): Record<string, Vector> {
  const leaves = bareLeaves(20)
  const roots = Object.fromEntries(leaves.map((_, index) => [index + 1, rootOf(leaves.slice(0, index + 1))]))
  return {
    'tree-1-to-20-leaves': {
      kind: 'tree',
      note: 'roots[n] is the root over the first n leaves; an odd node moves up unchanged',
      leaves,
      roots,
    },
  }
}

function invalidTreeVectors(): Record<string, InvalidVector> {
  const [a, b, c] = bareLeaves(3) as [string, string, string]
  const withByte = sha256(Buffer.concat([Buffer.from([1]), Buffer.from(a + b, 'hex')]))
  return {
    'tree-duplicated-odd-leaf': {
      kind: 'tree',
      reason: 'wrong_root',
      note: 'the odd leaf is paired with itself',
      leaves: [a, b, c],
      roots: { 3: nodeHash(nodeHash(a, b), nodeHash(c, c)) },
    },
    'tree-node-byte': {
      kind: 'tree',
      reason: 'wrong_root',
      note: 'RFC 6962 puts 01 before a node; here nothing stands before it',
      leaves: [a, b],
      roots: { 2: withByte },
    },
    'tree-of-hex-characters': {
      kind: 'tree',
      reason: 'wrong_root',
      note: 'the hex characters are hashed, not the bytes they stand for',
      leaves: [a, b],
      roots: { 2: sha256(a + b) },
    },
    'tree-odd-leaf-first': {
      kind: 'tree',
      reason: 'wrong_root',
      note: 'the odd leaf is joined from the left',
      leaves: [a, b, c],
      roots: { 3: nodeHash(c, nodeHash(a, b)) },
    },
    'tree-children-swapped': {
      kind: 'tree',
      reason: 'wrong_root',
      note: 'right before left',
      leaves: [a, b],
      roots: { 2: nodeHash(b, a) },
    },
  }
}

type Proof = {
  leaf: string
  path: PathStep[]
  root: string
  index: number
  count: number
  entry?: LedgerEntry
}

function proofIn(leaves: readonly string[], index: number): Proof {
  const levels = buildTree(flat(leaves))
  return {
    leaf: leaves[index] as string,
    path: inclusionPath(levels, index),
    root: (levels.at(-1) as Buffer).toString('hex'),
    index,
    count: leaves.length,
  }
}

function proofVectors(): Record<string, Vector> {
  const proof = (note: string, parts: Proof): Vector => ({ kind: 'proof', note, ...parts })
  const entries = Array.from({ length: 6 }, (_, index) => makeEntry(index + 1))
  const siblings = pathShape(2 ** 40 + 12_345, 2 ** 40 + 12_300).map((side, step) => ({
    hash: sha256(`sibling ${step}`),
    side,
  }))
  const leaf = sha256('leaf')
  return {
    'proof-of-the-only-leaf': proof('the leaf is the root and the path is empty', proofIn(bareLeaves(1), 0)),
    'proof-of-the-first-of-seven': proof('three siblings, all on the right', proofIn(bareLeaves(7), 0)),
    'proof-of-the-odd-last-of-five': proof(
      'the odd leaf moves up two levels: one step',
      proofIn(bareLeaves(5), 4),
    ),
    'proof-of-the-odd-last-of-seven': proof(
      'the odd leaf moves up one level: two steps',
      proofIn(bareLeaves(7), 6),
    ),
    'proof-in-the-middle-of-twenty': proof('both sides', proofIn(bareLeaves(20), 13)),
    'proof-of-an-entry': proof('from the entry to the root', {
      ...proofIn(entries.map(leafHash), 3),
      entry: makeEntry(4),
    }),
    'proof-in-a-huge-tree': proof('more leaves than 32 bits count', {
      leaf,
      path: siblings,
      root: foldPath(leaf, siblings),
      index: 2 ** 40 + 12_300,
      count: 2 ** 40 + 12_345,
    }),
  }
}

function invalidProofVectors(): Record<string, InvalidVector> {
  const proof = (reason: string, note: string, parts: object): InvalidVector => ({
    kind: 'proof',
    reason,
    note,
    ...parts,
  })
  const good = proofIn(bareLeaves(7), 4)
  const refold = (parts: Proof): Proof => ({ ...parts, root: foldPath(parts.leaf, parts.path) })
  const odd = bareLeaves(5)[4] as string
  const flipped = good.path.map((step, index) =>
    index === 1 ? { ...step, side: step.side === 'left' ? ('right' as const) : ('left' as const) } : step,
  )

  // The two halves of a 64-byte entry's preimage pose as two leaves below it.
  const entries = [makeEntry(1), entryLikeANode(2), makeEntry(3)]
  const preimage = Buffer.from('\0' + canonicalJson(entries[1]))
  const below = proofIn(entries.map(leafHash), 1)
  const posing = {
    ...below,
    leaf: preimage.toString('hex', 0, 32),
    path: [{ hash: preimage.toString('hex', 32), side: 'right' as const }, ...below.path],
  }
  const inner = {
    ...good,
    leaf: nodeHash(good.leaf, (good.path[0] as PathStep).hash),
    path: good.path.slice(1),
  }
  return {
    'proof-with-an-extra-step': proof(
      'path_shape',
      'one step more than the position has, and a root that fits it',
      refold({ ...good, path: [...good.path, { hash: sha256('more'), side: 'left' }] }),
    ),
    'proof-with-a-step-missing': proof(
      'path_shape',
      'the last step is left out, and the root fits',
      refold({ ...good, path: good.path.slice(0, -1) }),
    ),
    'proof-of-half-a-64-byte-entry': proof(
      'path_shape',
      'an entry of 64 bytes poses as a node: the fold reaches the true root',
      posing,
    ),
    'proof-of-an-inner-node': proof(
      'path_shape',
      'a node poses as a leaf: the fold reaches the true root',
      inner,
    ),
    'proof-with-a-duplicated-odd-leaf': proof(
      'path_shape',
      'the odd last leaf is paired with itself',
      refold({
        ...proofIn(bareLeaves(5), 4),
        path: [{ hash: odd, side: 'left' }, ...proofIn(bareLeaves(5), 4).path],
      }),
    ),
    'proof-with-a-wrong-side': proof(
      'wrong_side',
      'one sibling is on the other side, and the root fits',
      refold({ ...good, path: flipped }),
    ),
    'proof-for-another-index': proof('wrong_side', "a true path, shown for the neighbour's position", {
      ...good,
      index: 5,
    }),
    'proof-for-another-count': proof('path_shape', 'a true path, shown for a smaller tree', {
      ...good,
      count: 5,
    }),
    'proof-with-a-wrong-sibling': proof('wrong_root', 'one sibling is another hash', {
      ...good,
      path: good.path.map((step, index) => (index === 2 ? { ...step, hash: sha256('other') } : step)),
    }),
    'proof-to-another-root': proof('wrong_root', 'the root of another tree', {
      ...good,
      root: rootOf(bareLeaves(8)),
    }),
    'proof-beyond-the-count': proof('malformed_proof', 'there is no such index', { ...good, index: 7 }),
    'proof-of-a-fractional-index': proof('malformed_proof', 'there is no such index', {
      ...good,
      index: 4.5,
    }),
    'proof-in-upper-case': proof('malformed_proof', 'hashes are written in lower case', {
      ...good,
      leaf: good.leaf.toUpperCase(),
    }),
    'proof-to-a-root-in-upper-case': proof('malformed_proof', 'hashes are written in lower case', {
      ...good,
      root: good.root.toUpperCase(),
    }),
    'proof-without-a-path': proof('malformed_proof', 'a path is a list, be it an empty one', {
      ...proofIn(bareLeaves(1), 0),
      path: null,
    }),
    'proof-with-an-unknown-side': proof('malformed_proof', 'a side is left or right', {
      ...good,
      path: good.path.map((step, index) => (index === 0 ? { ...step, side: 'both' } : step)),
    }),
    'proof-of-another-entry': proof('wrong_leaf', "the path is true, but the entry isn't the leaf's", {
      ...proofIn(entries.map(leafHash), 0),
      entry: makeEntry(3),
    }),
  }
}

/** The chain with one seal's fields changed and that seal signed again. */
function withSeal(chain: LedgerChain, seq: number, change: Partial<SealFields>): LedgerChain {
  return {
    ...chain,
    seals: chain.seals.map((seal) => (seal.seq === seq ? sign({ ...fieldsOf(seal), ...change }) : seal)),
  }
}

/**
 * A chain whose closing entries don't name the seal before them, as they once didn't, with the seals' own
 * fields changed: the closing entries, the roots and what links them follow, so that what is changed is all
 * that is wrong.
 */
function buildOlder(
  sizes: readonly number[],
  waiting = 0,
  changes: Partial<Record<number, Partial<SealFields>>> = {},
): LedgerChain {
  const older = buildChain(sizes, waiting, { chainedFrom: Infinity })
  const chain: LedgerChain = { entries: [...older.entries], seals: [] }
  for (const { seq: place, from_id, to_id, at: madeAt } of older.seals) {
    const { seq = place, at = madeAt } = changes[place] ?? {}
    chain.entries[to_id - 1] = closingOf(to_id, seq, at)
    chain.seals.push(
      sign({ ...sealOver(chain.entries.slice(from_id - 1, to_id), chain.seals.at(-1) ?? null, at), seq }),
    )
  }
  return chain
}

/** The chain with the closing entry of its last seal changed, and that seal made anew. */
function withClosing(
  chain: LedgerChain,
  change: (closing: LedgerEntry) => Partial<LedgerEntry>,
): LedgerChain {
  const last = chain.seals.at(-1) as Seal
  const closing = chain.entries[last.to_id - 1] as LedgerEntry
  const entries = chain.entries.with(last.to_id - 1, { ...closing, ...change(closing) })
  const seal = sign(
    sealOver(entries.slice(last.from_id - 1, last.to_id), chain.seals.at(-2) ?? null, last.at),
  )
  return { entries, seals: [...chain.seals.slice(0, -1), seal] }
}

/** Entries of a market order whose sums come to 90, and to 0 after its payouts. */
const MONEY: Readonly<Record<number, Pick<LedgerEntry, 'kind' | 'data'>>> = {
  1: { kind: 'payment', data: { order_id: 'mkt_1', coin: 'xno', amount_raw: '100' } },
  2: { kind: 'payment', data: { invoice_id: 'inv_1', coin: 'xno', amount_raw: '7' } },
  3: { kind: 'fee', data: { order_id: 'mkt_1', coin: 'xno', amount_raw: '20' } },
  4: { kind: 'fee', data: { order_id: 'mkt_1', coin: 'xno', amount_raw: '10', step: 'returned' } },
  6: { kind: 'payout', data: { payout_id: 'out_1', coin: 'xno', amount_raw: '60', step: 'confirmed' } },
  7: { kind: 'payout', data: { payout_id: 'out_2', coin: 'xno', amount_raw: '60', step: 'signed' } },
  8: { kind: 'dispute_outcome', data: { order_id: 'mkt_1', coin: 'xno', written_off_raw: '30' } },
}
const moneyChain = () =>
  buildChain([5, 4], 0, {
    entry: (id) => (MONEY[id] === undefined ? undefined : { ...makeEntry(id), ...MONEY[id] }),
  })
/** Money that came to nobody, some of which was sent back, and for a pass, of which some is left. */
const MOVES: Readonly<Record<number, LedgerEntry['data']>> = {
  1: { coin: 'xno', from: 'outside', to: 'unassigned', amount_raw: '9' },
  2: { coin: 'xno', from: 'unassigned', to: 'outside', amount_raw: '4' },
  4: { coin: 'xmr', from: 'outside', to: 'invoices', amount_raw: '8' },
  5: { coin: 'xmr', from: 'invoices', to: 'remainders', amount_raw: '3' },
}
const NO_SUMS = { orders: '0', owed: '0', invoices: '0', remainders: '0', unassigned: '0' }
const FIRST_SUMS = { xno: { ...NO_SUMS, unassigned: '5' }, xmr: NO_SUMS }
const SECOND_SUMS = { ...FIRST_SUMS, xmr: { ...NO_SUMS, invoices: '5', remainders: '3' } }

/** @param last what the second of two seals states; nothing if absent */
const liabilityChain = (last?: object) =>
  buildChain([3, 3], 0, {
    loggedFrom: 1,
    entry: (id) => MOVES[id] && { ...makeEntry(id), kind: 'money_move', data: MOVES[id] },
    stated: (seq, before) => {
      const liabilities = seq === 1 ? FIRST_SUMS : last
      return { ...before, ...(liabilities === undefined ? {} : { liabilities }) }
    },
  })
/** Two seals that state these liabilities, over this entry. */
const statedWith = (place: number, entry: Pick<LedgerEntry, 'kind' | 'data'>, sums: object) =>
  buildChain([3, 3], 0, {
    loggedFrom: 1,
    entry: (id) => (id === place ? { ...makeEntry(id), ...entry } : undefined),
    stated: (_seq, before) => ({ ...before, liabilities: { xno: { ...NO_SUMS, ...sums }, xmr: NO_SUMS } }),
  })
const paidOut = {
  kind: 'payout',
  data: { payout_id: 'out_1', order_id: 'mkt_1', coin: 'xno', amount_raw: '10', step: 'confirmed' },
}
const tooDear = {
  kind: 'order',
  data: {
    order_id: 'mkt_1',
    step: 'ordered',
    status: 'awaiting_payment',
    coin: 'xno',
    amount_raw: '100',
    fee_raw: '21',
  },
}
const unreadable = {
  ...makeEntry(1),
  kind: 'payment',
  data: { order_id: 'mkt_1', coin: 'xno', amount_raw: '1e3' },
}

/**
 * Seals 1 and 2 made anew over another first entry, with the entries and the seals after them as they were.
 */
function rewriteTwo({ entries, seals }: LedgerChain): LedgerChain {
  const rewritten = entries.with(0, { ...makeEntry(1), kind: 'claim' })
  const [one, two] = seals as [Seal, Seal]
  const first = sign(sealOver(rewritten.slice(0, one.to_id), null, one.at))
  const closing = closingOf(two.to_id, 2, two.at, undefined, first)
  rewritten[two.to_id - 1] = closing
  const second = sign(sealOver(rewritten.slice(one.to_id, two.to_id), first, two.at))
  const third = seals[2] as Seal
  return { entries: rewritten, seals: [first, second, sign({ ...fieldsOf(third), prev_root: second.root })] }
}

function closedWithSum(chain: LedgerChain, xno: string | number): LedgerChain {
  return withClosing(chain, ({ data }) => ({ data: { ...data, owed: { xno, xmr: '0' } } }))
}

function fieldsOf({ seq, at, count, root, prev_root, from_id, to_id }: Seal): SealFields {
  return { seq, at, count, root, prev_root, from_id, to_id }
}

function withSigned(chain: LedgerChain, seq: number, change: object): object {
  return { ...chain, seals: chain.seals.map((seal) => (seal.seq === seq ? { ...seal, ...change } : seal)) }
}

/** What a verifier remembers after a good run over `seals`, the last of them signed. */
function rememberedAfter(entries: readonly LedgerEntry[], seals: readonly Seal[]): object {
  const last = seals.at(-1) as Seal
  const size = last.to_id
  const frontier: string[] = []
  for (let from = 0, width = 2 ** 52; width >= 1; width /= 2) {
    if (Math.floor(size / width) % 2 === 0) continue
    frontier.push(logRoot(hashLeaves(entries.slice(from, from + width))).toString('hex'))
    from += width
  }
  return {
    ...{ seq: last.seq, payload_hash: sealPayloadHash(last), pubkeys: [pubkey] },
    log: { size, frontier },
  }
}

function chainVector(note: string, parts: object): Vector {
  return { kind: 'seal', note, ...parts }
}

const AUTHOR_KEY = keyToHex(new Uint8Array(32).fill(0x61))
const authorPubkey = keyToHex(ed25519PublicKey(keyFromHex(AUTHOR_KEY)))

/** What an author shows of its signature over these fields. */
function authorshipOf(kind: AuthoredKind, fields: Record<string, string | null>, secretKey = AUTHOR_KEY) {
  const signature = signStatement(statementOf('agt_1', kind, fields, NOTHING_SEEN), secretKey)
  return { author_key: keyToHex(ed25519PublicKey(keyFromHex(secretKey))), seen: NOTHING_SEEN, signature }
}

const SIGNED_CHANGE = { author: authorshipOf('dm_key_change', { dm_key: 'cd'.repeat(32) }) }

/**
 * Three seals that state log and keys; agt_1 sets a message key, an author key, and a message key that
 * `author` signed.
 */
function keyedChain(author: object = SIGNED_CHANGE): LedgerChain {
  const changes: Record<number, Pick<LedgerEntry, 'kind' | 'data'>> = {
    1: { kind: 'dm_key_change', data: { agent_id: 'agt_1', dm_key: 'ab'.repeat(32) } },
    2: { kind: 'dm_key_change', data: { agent_id: 'agt_2', dm_key: 'ef'.repeat(32) } },
    3: { kind: 'author_key_change', data: { agent_id: 'agt_1', author_key: authorPubkey } },
    6: { kind: 'dm_key_change', data: { agent_id: 'agt_1', dm_key: 'cd'.repeat(32), ...author } },
  }
  return buildChain([5, 3, 2], 0, {
    loggedFrom: 2,
    entry: (id) => (changes[id] === undefined ? undefined : { ...makeEntry(id), ...changes[id] }),
  })
}

function sealVectors(): Record<string, Vector> {
  const chain = buildChain([3, 1, 5])
  const [first, second, third] = chain.seals as [Seal, Seal, Seal]
  const secondKey = sign(fieldsOf(third), OTHER_SEAL_KEY)
  return {
    'seal-chain-of-three': chainVector('ranges, roots, links and signatures hold', chain),
    'seal-log-and-keys': chainVector(
      'closing entries state the log and the keys up to the seal before, from seal 2 on',
      keyedChain(),
    ),
    'seal-single': chainVector('the first seal has no previous root', buildChain([1])),
    'seal-none-yet': chainVector('no seal, two entries waiting', buildChain([], 2)),
    'seal-entries-waiting': chainVector('entries after the last seal are not a fault', buildChain([2, 2], 3)),
    'seal-unsigned-last': chainVector('an unsigned seal is reported, not a fault', {
      ...chain,
      seals: [first, second, leaveUnsigned(fieldsOf(third))],
    }),
    'seal-unsigned-between': chainVector('a seal may be signed after a later one', {
      ...chain,
      seals: [first, leaveUnsigned(fieldsOf(second)), third],
    }),
    'seal-at-equal': chainVector(
      'two seals of one second',
      buildOlder([3, 1, 5], 0, { 2: { at: first.at } }),
    ),
    'seal-liabilities': chainVector('money that is of no order', liabilityChain(SECOND_SUMS)),
    'seal-sums-owed': chainVector('payments, fees, a payout and what is written off', moneyChain()),
    'seal-amount-unreadable': chainVector(
      'an amount that cannot be read counts as nothing',
      buildChain([2], 0, { entry: (id) => ({ ...unreadable, id }) }),
    ),
    'seal-closings-of-once': chainVector('no closing entry names the seal before', buildOlder([3, 1, 5])),
    'seal-closings-of-two-times': chainVector(
      'from seal 3 on they do',
      buildChain([3, 1, 5, 2], 0, { chainedFrom: 3 }),
    ),
    'seal-now': chainVector('no older than now', { ...chain, now: third.at }),
    'seal-key-pinned': chainVector('signed with the pinned key', { ...chain, pubkeys: [pubkey] }),
    'seal-key-changed-and-accepted': chainVector('both keys are pinned', {
      ...chain,
      seals: [first, second, secondKey],
      pubkeys: [pubkey, otherPubkey],
    }),
    'seal-remembered': chainVector('longer than when it was seen, and otherwise unchanged', {
      ...chain,
      remembered: rememberedAfter(chain.entries, [first, second]),
    }),
  }
}

function invalidSealVectors(): Record<string, InvalidVector> {
  const invalid = (reason: string, note: string, parts: object): InvalidVector => ({
    kind: 'seal',
    reason,
    note,
    ...parts,
  })
  const chain = buildOlder([3, 2, 5])
  const newer = buildChain([3, 2, 5])
  const keyed = keyedChain()
  const [first, second, third] = chain.seals as [Seal, Seal, Seal]
  const entriesBut = (id: number, entry?: LedgerEntry) =>
    chain.entries.flatMap((own) => (own.id !== id ? [own] : entry === undefined ? [] : [entry]))
  const [a, b, c] = chain.entries.slice(0, 3).map(leafHash) as [string, string, string]
  const duplicated = nodeHash(nodeHash(a, b), nodeHash(c, c))
  const byteChanged = Buffer.from(second.signature as string, 'base64')
  byteChanged.writeUInt8(byteChanged.readUInt8(40) ^ 1, 40)
  const scalar = 12_345n
  const weakSignature = Buffer.concat([
    Point.BASE.multiply(scalar).toBytes(),
    Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex').reverse(),
  ]).toString('base64')
  const identity = '01' + '00'.repeat(31)
  const redated = buildOlder([3, 2, 5], 0, { 1: { at: first.at - 1 } })
  const emptyLast = sign({
    ...fieldsOf(third),
    seq: 4,
    at: third.at,
    count: 0,
    root: sha256(''),
    prev_root: third.root,
    from_id: 11,
    to_id: 10,
  })
  const overlapping = sign(sealOver(chain.entries.slice(2, 5), first, second.at))
  const afterOverlap = sign({ ...fieldsOf(third), prev_root: overlapping.root })
  const skipping = sign(sealOver(chain.entries.slice(4, 5), first, second.at))
  const afterSkip = sign({ ...fieldsOf(third), prev_root: skipping.root })
  const fromTwo = sign(sealOver(chain.entries.slice(1, 3), null, first.at))
  return {
    'seal-prev-roots-swapped': invalid('wrong_prev_root', "seals 2 and 3 name each other's previous root", {
      ...chain,
      seals: [
        first,
        sign({ ...fieldsOf(second), prev_root: third.prev_root }),
        sign({ ...fieldsOf(third), prev_root: first.root }),
      ],
    }),
    'seal-prev-root-missing': invalid(
      'wrong_prev_root',
      'only the first seal has none',
      withSeal(chain, 2, { prev_root: null }),
    ),
    'seal-prev-root-on-the-first': invalid(
      'wrong_prev_root',
      'there is nothing before the first seal',
      withSeal(chain, 1, { prev_root: sha256('before') }),
    ),
    'seal-count-wrong': invalid(
      'wrong_count',
      'count says one entry more than the range',
      withSeal(chain, 2, { count: 3 }),
    ),
    'seal-count-zero': invalid('wrong_count', 'a seal covers an entry at least', {
      ...chain,
      seals: [...chain.seals, emptyLast],
    }),
    'seal-range-gap': invalid('range_gap', 'an entry is left out between two seals', {
      ...chain,
      seals: [first, skipping, afterSkip],
    }),
    'seal-range-overlap': invalid('range_gap', 'an entry stands under two seals', {
      ...chain,
      seals: [first, overlapping, afterOverlap],
    }),
    'seal-range-not-from-one': invalid('range_gap', 'the first seal begins at entry 2', {
      entries: chain.entries,
      seals: [fromTwo],
    }),
    'seal-seq-gap': invalid(
      'seq_gap',
      'seal 3 was not made, or is held back',
      buildOlder([3, 2, 5], 0, { 3: { seq: 4 } }),
    ),
    'seal-seq-not-from-one': invalid('seq_gap', 'the beginning of the chain is missing', {
      ...chain,
      seals: [second, third],
    }),
    'seal-seq-repeated': invalid('seq_gap', 'one seal stands there twice', {
      ...chain,
      seals: [first, second, second, third],
    }),
    'seal-at-going-back': invalid(
      'at_goes_back',
      'made before the one before it',
      buildOlder([3, 2, 5], 0, { 3: { at: second.at - 1 } }),
    ),
    'seal-signed-before-made': invalid('signed_before_made', 'the signature is older than the seal', {
      ...chain,
      seals: [first, { ...second, signed_at: second.at - 1 }, third],
    }),
    'seal-signature-of-another-payload': invalid(
      'bad_signature',
      'the signature of seal 3 stands under seal 2',
      withSigned(chain, 2, { signature: third.signature }),
    ),
    'seal-signature-altered': invalid(
      'bad_signature',
      'one bit of the signature is flipped',
      withSigned(chain, 2, { signature: byteChanged.toString('base64') }),
    ),
    'seal-field-altered-after-signing': invalid(
      'bad_signature',
      'one second earlier than what was signed',
      withSigned(chain, 3, { signature: sign({ ...fieldsOf(third), at: third.at + 1 }).signature }),
    ),
    'seal-pubkey-of-another': invalid(
      'bad_signature',
      "the key isn't the signer's",
      withSigned({ ...chain, seals: [first] }, 1, { pubkey: otherPubkey }),
    ),
    'seal-weak-key': invalid(
      'weak_key',
      'the key is the neutral point, for which anyone signs',
      withSigned({ ...chain, seals: [first] }, 1, { pubkey: identity, signature: weakSignature }),
    ),
    'seal-key-changed': invalid('key_changed', 'seal 3 is signed with another key', {
      ...chain,
      seals: [first, second, sign(fieldsOf(third), OTHER_SEAL_KEY)],
    }),
    'seal-key-not-pinned': invalid('wrong_key', 'whole, but not signed with the pinned key', {
      ...chain,
      pubkeys: [otherPubkey],
    }),
    'seal-key-not-the-remembered': invalid('key_changed', 'the whole chain is signed anew with another key', {
      ...chain,
      seals: chain.seals.map((seal) => sign(fieldsOf(seal), OTHER_SEAL_KEY)),
      remembered: rememberedAfter(chain.entries, [first, second]),
    }),
    'seal-root-of-other-entries': invalid('wrong_root', 'an entry was changed after it was sealed', {
      seals: chain.seals,
      entries: entriesBut(4, { ...makeEntry(4), kind: 'claim' }),
    }),
    'seal-root-with-duplicated-odd-leaf': invalid('wrong_root', 'the odd entry is paired with itself', {
      entries: chain.entries,
      seals: [sign({ ...fieldsOf(first), root: duplicated })],
    }),
    'seal-entry-missing': invalid('entry_gap', 'a sealed entry is missing from the ledger', {
      seals: chain.seals,
      entries: entriesBut(5),
    }),
    'seal-entries-end-early': invalid('entry_gap', 'the ledger ends before the last seal does', {
      seals: chain.seals,
      entries: entriesBut(10),
    }),
    'seal-entry-malformed': invalid('malformed_entry', 'an entry without data', {
      seals: chain.seals,
      entries: chain.entries.map(({ data, ...rest }) => (rest.id === 4 ? rest : { ...rest, data })),
    }),
    'seal-waiting-entry-missing': invalid('entry_gap', 'the ids after the last seal have a gap', {
      seals: [first, second, third],
      entries: [...chain.entries, makeEntry(11), makeEntry(13)],
    }),
    'seal-root-in-upper-case': invalid(
      'malformed_seal',
      'a root is written in lower case',
      withSigned(chain, 3, { root: third.root.toUpperCase() }),
    ),
    'seal-seq-as-text': invalid(
      'malformed_seal',
      'a number stands there as a string',
      withSigned(chain, 3, { seq: '3' }),
    ),
    'seal-count-as-boolean': invalid(
      'malformed_seal',
      'true is no number',
      withSigned(buildChain([1]), 1, { count: true }),
    ),
    'seal-field-missing': invalid(
      'malformed_seal',
      'prev_root is absent, which is not null',
      withSigned(buildChain([1]), 1, { prev_root: undefined }),
    ),
    'seal-not-an-object': invalid('malformed_seal', 'a seal is null', {
      ...chain,
      seals: [first, second, null],
    }),
    'seal-pubkey-too-short': invalid(
      'malformed_seal',
      'a key is 32 bytes',
      withSigned(chain, 3, { pubkey: pubkey.slice(2) }),
    ),
    'seal-signed-at-missing': invalid(
      'malformed_seal',
      'a signed seal says when',
      withSigned(chain, 3, { signed_at: null }),
    ),
    'seal-entry-with-a-lone-surrogate': invalid('malformed_entry', 'a sealed entry has no canonical JSON', {
      seals: chain.seals,
      entries: entriesBut(4, makeEntry(4, { name: '\ud83d' })),
    }),
    'seal-of-another-algorithm': invalid(
      'malformed_seal',
      'only ed25519 is known',
      withSigned(chain, 3, { algo: 'ed448' }),
    ),
    'seal-signature-without-padding': invalid(
      'malformed_seal',
      'not the one base64 text of 64 bytes',
      withSigned(chain, 3, { signature: (third.signature as string).slice(0, 86) }),
    ),
    'seal-signed-without-signature': invalid(
      'malformed_seal',
      'signed, it says, but there is no signature',
      withSigned(chain, 3, { signature: null }),
    ),
    'seal-signature-disowned': invalid(
      'malformed_seal',
      'unsigned, it says, but there is a signature',
      withSigned(chain, 3, { signed: false }),
    ),
    'seal-head-rewritten': invalid('history_rewritten', 'the last seal that was seen is another now', {
      ...buildOlder([3, 2, 5], 0, { 2: { at: second.at + 1 } }),
      remembered: rememberedAfter(chain.entries, [first, second]),
    }),
    'seal-before-the-head-rewritten': invalid(
      'history_rewritten',
      'the head is unchanged, but seals 1 and 2 were signed anew',
      {
        entries: redated.entries,
        seals: [...redated.seals.slice(0, 2), third],
        remembered: rememberedAfter(chain.entries, [first, second, third]),
      },
    ),
    'seal-before-the-head-rewritten-in-vain': invalid(
      'wrong_prev_seal',
      'seals 1 and 2 were signed anew, and seal 3 names the payload that seal 2 had',
      rewriteTwo(newer),
    ),
    'seal-closing-missing': invalid(
      'wrong_closing',
      'the last entry is a post',
      withClosing(chain, () => makeEntry(10)),
    ),
    'seal-closing-of-another': invalid(
      'wrong_closing',
      'it closes seal 2',
      withClosing(chain, ({ data }) => ({ data: { ...data, seal: 'seal_2' } })),
    ),
    'seal-closing-of-another-time': invalid(
      'wrong_closing',
      'a second before the seal',
      withClosing(chain, ({ at }) => ({ at: at - 1 })),
    ),
    'seal-log-of-another-root': invalid(
      'wrong_log',
      'the root is not that of the entries before',
      withClosing(keyed, ({ data }) => ({ data: { ...data, log: { size: 8, root: sha256('other') } } })),
    ),
    'seal-log-of-another-size': invalid(
      'wrong_log',
      'the log up to the seal before has 8 entries',
      withClosing(keyed, ({ data }) => ({
        data: { ...data, log: statedBefore(keyed.entries.slice(0, 9)).log },
      })),
    ),
    'seal-log-left-out': invalid(
      'wrong_log',
      'once closing entries state the log, each does',
      withClosing(keyed, ({ data: { log: _log, ...data } }) => ({ data })),
    ),
    'seal-keys-of-another-root': invalid(
      'wrong_keys',
      'the keys as they were a seal earlier',
      withClosing(keyed, ({ data }) => ({
        data: { ...data, keys: statedBefore(keyed.entries.slice(0, 5)).keys },
      })),
    ),
    'seal-keys-of-another-count': invalid(
      'wrong_keys',
      'two agents have keys',
      withClosing(keyed, ({ data }) => ({
        data: { ...data, keys: { ...statedBefore(keyed.entries.slice(0, 8)).keys, count: 3 } },
      })),
    ),
    'seal-keys-left-out': invalid(
      'wrong_keys',
      'once closing entries state the log, they state the keys',
      withClosing(keyed, ({ data: { keys: _keys, ...data } }) => ({ data })),
    ),
    'seal-key-change-without-signature': invalid(
      'wrong_author',
      'agt_1 has an author key by then',
      keyedChain({}),
    ),
    'seal-key-change-signed-by-another': invalid(
      'wrong_author',
      'a true signature, but not of the author key of agt_1',
      keyedChain({ author: authorshipOf('dm_key_change', { dm_key: 'cd'.repeat(32) }, '62'.repeat(32)) }),
    ),
    'seal-sums-owed-false': invalid(
      'wrong_owed',
      'one raw less than the entries give',
      closedWithSum(moneyChain(), '9'),
    ),
    'seal-liabilities-false': invalid(
      'wrong_liabilities',
      'one raw less is unassigned than the entries give',
      liabilityChain({ ...SECOND_SUMS, xno: { ...NO_SUMS, unassigned: '4' } }),
    ),
    'seal-liabilities-incomplete': invalid(
      'wrong_liabilities',
      'the sum of remainders is missing',
      liabilityChain({ ...SECOND_SUMS, xmr: { orders: '0', owed: '0', invoices: '5', unassigned: '0' } }),
    ),
    'seal-liabilities-left-out': invalid(
      'wrong_liabilities',
      'the seal before states them',
      liabilityChain(),
    ),
    'seal-order-overdrawn': invalid(
      'order_overdrawn',
      'a payout of an order that nobody has paid for, still so a seal later',
      statedWith(1, paidOut, { owed: '-10' }),
    ),
    'seal-order-of-another-fee': invalid('wrong_fee', 'the fee of 100 is 20', statedWith(4, tooDear, {})),
    'seal-sums-owed-as-numbers': invalid(
      'wrong_owed',
      'sums are decimal digits in a string',
      closedWithSum(moneyChain(), 10),
    ),
    'seal-sums-owed-missing': invalid(
      'wrong_owed',
      'no sums',
      withClosing(newer, ({ data: { owed: _owed, ...data } }) => ({ data })),
    ),
    'seal-previous-seal-unnamed': invalid(
      'wrong_prev_seal',
      'once closing entries name the seal before, each does',
      withClosing(newer, ({ data: { prev_seal: _named, ...data } }) => ({ data })),
    ),
    'seal-previous-seal-of-another': invalid(
      'wrong_prev_seal',
      'the payload of seal 1, not of seal 2',
      withClosing(newer, ({ data }) => ({
        data: { ...data, prev_seal: sealPayloadHash(newer.seals[0] as Seal) },
      })),
    ),
    'seal-previous-seal-of-the-first': invalid(
      'wrong_prev_seal',
      'before the first seal there is none',
      withClosing(buildChain([2]), ({ data }) => ({ data: { ...data, prev_seal: '0'.repeat(64) } })),
    ),
    'seal-from-the-future': invalid('from_the_future', 'an hour after now', {
      ...newer,
      now: third.at - 3_600,
    }),
    'seal-chain-shortened': invalid('chain_shortened', 'seals that were seen are gone', {
      entries: chain.entries,
      seals: [first],
      remembered: rememberedAfter(chain.entries, [first, second]),
    }),
    'seal-chain-gone': invalid('chain_shortened', 'no seal is left', {
      entries: chain.entries,
      seals: [],
      remembered: rememberedAfter(chain.entries, [first]),
    }),
    'seal-signature-withdrawn': invalid(
      'signature_withdrawn',
      'the head that was seen has lost its signature',
      {
        ...chain,
        seals: [first, leaveUnsigned(fieldsOf(second)), third],
        remembered: rememberedAfter(chain.entries, [first, second]),
      },
    ),
  }
}

/** By the entry's id. */
const OF_SELLER = new Map([
  [1, 'registration'],
  [2, 'token_rotation'],
  [5, 'ban'],
])

/**
 * Two seals and two entries that wait: an agent's own entries, its posts, and every third one a step of an
 * order.
 */
function orderChain(): LedgerChain {
  const chain: LedgerChain = { entries: [], seals: [] }
  for (let id = 1; id <= 9; id++) {
    const kind = OF_SELLER.get(id) ?? (id % 3 === 0 ? 'order' : 'post')
    if (kind === 'post') chain.entries.push(makeEntry(id))
    else if (kind === 'order')
      chain.entries.push({ ...makeEntry(id, { order_id: 'mkt_7', seller_id: 'agt_seller' }), kind })
    else chain.entries.push({ ...makeEntry(id, { agent_id: 'agt_seller' }), kind })
  }
  chain.seals.push(sign(sealOver(chain.entries.slice(0, 4), null)))
  chain.seals.push(sign(sealOver(chain.entries.slice(4, 7), chain.seals[0] as Seal)))
  return chain
}

function sealed(entries: LedgerEntry[]): LedgerChain {
  return { entries, seals: [sign(sealOver(entries, null))] }
}

/** The entry of pst_1 under a seal, with a commitment to content that names a record. */
const boundTo = (id: string) =>
  sealed([makeEntry(1, { post_id: 'pst_1', body: commit(saltOf(1), bindContent(id, { body: bodyOf(1) })) })])
const openingWith = (id: string) => ({ ...openingOf(1), content: bindContent(id, { body: bodyOf(1) }) })

const AUTHORED_POST = { body: 'signed by its author', topic: null }

/**
 * The receipt of a post that its author signed, or of one whose entry states, or whose opening shows,
 * something else.
 */
function authoredPost({ stated, shown }: { stated?: object; shown?: object } = {}) {
  const author = authorshipOf('post', AUTHORED_POST)
  const content = bindContent('pst_1', AUTHORED_POST)
  const data = {
    post_id: 'pst_1',
    agent_id: 'agt_1',
    content_hash: commit(saltOf(1), content),
    ...(stated ?? statedFor(author)),
  }
  const opening = {
    entry_id: 1,
    field: 'content_hash',
    salt: Buffer.from(saltOf(1)).toString('hex'),
    content,
  }
  return {
    ...receiptOver(sealed([makeEntry(1, data)]), 'pst_1', [1]),
    openings: [{ ...opening, ...(shown ?? { author }) }],
  }
}

const statedFor = ({ author_key, signature }: { author_key: string; signature: string }) => ({
  author: { author_key, signature_hash: signatureHash(signature) },
})

/** An agent's entries: its registration, a first author key, and a message key that the author key signed. */
function keyChanges(author: object) {
  const registered = { ...makeEntry(1, { agent_id: 'agt_1' }), kind: 'registration' }
  const first = {
    ...makeEntry(2, { agent_id: 'agt_1', author_key: authorPubkey }),
    kind: 'author_key_change',
  }
  const next = {
    ...makeEntry(3, { agent_id: 'agt_1', dm_key: 'ab'.repeat(32), author } as LedgerEntry['data']),
    kind: 'dm_key_change',
  }
  return receiptOver(sealed([registered, first, next]), 'agt_1', [1, 2, 3])
}

function receiptVectors(): Record<string, Vector> {
  const chain = orderChain()
  const receipt = (note: string, parts: object): Vector => ({ kind: 'receipt', note, ...parts })
  const newer = sealed([
    makeEntry(1),
    { ...makeEntry(2, { of: [{ any: 'pst_1' }], new_id: 'new_1' }), kind: 'newer' },
  ])
  const unsigned = {
    ...chain,
    seals: [leaveUnsigned(fieldsOf(chain.seals[0] as Seal)), chain.seals[1] as Seal],
  }
  return {
    'receipt-of-a-post': receipt('one entry under its seal', { receipt: receiptOver(chain, 'pst_4', [4]) }),
    'receipt-with-an-opening': receipt('for those who may read the record: salt and content', {
      receipt: { ...receiptOver(chain, 'pst_4', [4]), openings: [openingOf(4)] },
    }),
    'receipt-with-an-opening-of-its-record': receipt(
      'the content names the record, whose commitment can be of no other one',
      {
        receipt: { ...receiptOver(boundTo('pst_1'), 'pst_1', [1]), openings: [openingWith('pst_1')] },
      },
    ),
    'receipt-under-two-seals': receipt("an order's steps under two neighbouring seals", {
      receipt: receiptOver(chain, 'mkt_7', [3, 6]),
    }),
    'receipt-of-one-agent': receipt('several entries under one seal', {
      receipt: receiptOver(chain, 'agt_seller', [1, 2, 5]),
    }),
    'receipt-still-waiting': receipt('the last entry has no seal yet', {
      receipt: receiptOver(chain, 'mkt_7', [3, 6, 9]),
    }),
    'receipt-under-an-unsigned-seal': receipt('reported, not a fault', {
      receipt: receiptOver(unsigned, 'mkt_7', [3, 6]),
    }),
    'receipt-of-a-kind-unknown': receipt('a kind that no table has yet: it names the record', {
      receipt: receiptOver(newer, 'pst_1', [1, 2]),
    }),
    'receipt-of-a-record-unknown': receipt('a prefix that no table has yet: each entry names the record', {
      receipt: receiptOver(newer, 'new_1', [2]),
    }),
    'receipt-signed-by-its-author': receipt(
      'the entry has the hash of a signature, the opening the signature',
      {
        receipt: authoredPost(),
      },
    ),
    'receipt-of-a-signed-key': receipt('a change of a key carries the whole signature', {
      receipt: keyChanges(authorshipOf('dm_key_change', { dm_key: 'ab'.repeat(32) })),
    }),
    'receipt-key-pinned': receipt('signed with the pinned key', {
      receipt: receiptOver(chain, 'pst_4', [4]),
      pubkeys: [pubkey],
    }),
  }
}

function invalidReceiptVectors(): Record<string, InvalidVector> {
  const chain = orderChain()
  const item = sealedItem(chain, 4)
  const post = receiptOver(chain, 'pst_4', [4])
  const order = receiptOver(chain, 'mkt_7', [3, 6])
  const [seal1, seal2] = chain.seals as [Seal, Seal]
  const invalid = (
    reason: string,
    note: string,
    receipt: Receipt | object,
    parts: object = {},
  ): InvalidVector => ({
    kind: 'receipt',
    reason,
    note,
    receipt,
    ...parts,
  })
  const postWith = (change: object) => ({ ...post, entries: [{ ...item, ...change }] })
  const altered = { ...item.entry, at: item.entry.at + 1 }
  const underOther = (change: Partial<SealFields>, secretKey?: Uint8Array) => ({
    ...order,
    entries: [
      sealedItem(chain, 3),
      { ...sealedItem(chain, 6), seal: sign({ ...fieldsOf(seal2), ...change }, secretKey) },
    ],
  })
  const shortCommitment = sha256(Buffer.concat([Buffer.from([4]), Buffer.from('"x"')]))
  const shortSalted = sealed([makeEntry(1, { post_id: 'pst_1', body: shortCommitment })])
  const verdict = {
    ...makeEntry(1, { verdict_id: 'vrd_1', claim_id: 'clm_1', agent_id: 'agt_1' }),
    kind: 'verdict',
  }
  const ordered = {
    ...makeEntry(1, { order_id: 'mkt_1', step: 'ordered', offer_id: 'ofr_1' }),
    kind: 'order',
  }
  const credit = {
    ...makeEntry(1, { agent_id: 'agt_1', means: 'coin', payment_id: 'pay_1', invoice_id: 'inv_1' }),
    kind: 'pass_credit',
  }
  const returned = {
    ...makeEntry(1, { step: 'returned', payment_id: 'pay_1', order_id: 'mkt_1' }),
    kind: 'payment',
  }
  const otherAuthor = '62'.repeat(32)
  const ofOther = authorshipOf('post', AUTHORED_POST, otherAuthor)
  const misquoted = authorshipOf('post', { ...AUTHORED_POST, body: 'something else' })
  const lateSeal = sign({ ...fieldsOf(seal2), seq: 5, from_id: 4, to_id: 6 })
  return {
    'receipt-entry-altered': invalid(
      'wrong_leaf',
      'one second of the entry differs',
      postWith({ entry: altered }),
    ),
    'receipt-entry-and-leaf-altered': invalid(
      'wrong_root',
      'the leaf fits the altered entry, the path no longer fits the root',
      postWith({ entry: altered, leaf: leafHash(altered) }),
    ),
    'receipt-index-of-another': invalid(
      'wrong_index',
      "the index is another entry's",
      postWith({ index: 2 }),
    ),
    'receipt-path-with-an-extra-step': invalid(
      'path_shape',
      'one step more than the position has',
      postWith({ path: [...item.path, { hash: sha256('more'), side: 'left' }] }),
    ),
    'receipt-path-with-a-wrong-side': invalid(
      'wrong_side',
      'the first sibling is on the other side',
      postWith({ path: item.path.map((step, index) => (index === 0 ? { ...step, side: 'right' } : step)) }),
    ),
    'receipt-path-missing': invalid('malformed_proof', 'there is no path', postWith({ path: undefined })),
    'receipt-seal-altered': invalid(
      'bad_signature',
      "the seal's time is another than was signed",
      postWith({ seal: { ...seal1, at: seal1.at - 1 } }),
    ),
    'receipt-seal-missing': invalid(
      'malformed_seal',
      'sealed, it says, but without the seal',
      postWith({ seal: undefined }),
    ),
    'receipt-seal-of-another-seq': invalid(
      'malformed_receipt',
      "seq is not the seal's",
      postWith({ seq: 2 }),
    ),
    'receipt-of-another-record': invalid('wrong_record', 'a true entry, but of another record', {
      ...post,
      id: 'pst_5',
    }),
    'receipt-of-a-claim-with-only-a-verdict': invalid(
      'wrong_record',
      'a true verdict names the claim, which was never made',
      {
        ...receiptOver(sealed([verdict]), 'clm_1', [1]),
      },
    ),
    'receipt-of-an-agent-with-only-a-post': invalid(
      'wrong_record',
      'a true post names the agent, which was never registered',
      {
        ...post,
        id: 'agt_seller',
      },
    ),
    'receipt-of-an-offer-with-only-an-order': invalid(
      'wrong_record',
      'a true order names the offer, which was never made',
      {
        ...receiptOver(sealed([ordered]), 'ofr_1', [1]),
      },
    ),
    'receipt-of-an-invoice-with-the-credit-of-a-payment': invalid(
      'wrong_record',
      "the payment's credit names its invoice too",
      {
        ...receiptOver(sealed([credit]), 'inv_1', [1]),
      },
    ),
    'receipt-of-a-payment-with-an-entry-of-its-order': invalid(
      'wrong_record',
      "the order's entry names the payment",
      {
        ...receiptOver(sealed([returned]), 'pay_1', [1]),
      },
    ),
    'receipt-id-in-another-field': invalid('wrong_record', 'the agent of a post is called as a post', {
      ...receiptOver(sealed([makeEntry(1, { post_id: 'pst_2', agent_id: 'pst_1' })]), 'pst_1', [1]),
    }),
    'receipt-entry-malformed': invalid('malformed_entry', 'an entry is null', postWith({ entry: null })),
    'receipt-without-id': invalid('malformed_receipt', 'it names no record', { ...post, id: undefined }),
    'receipt-sealed-not-said': invalid('malformed_receipt', "an entry doesn't say whether it is sealed", {
      ...post,
      sealed: false,
      entries: [{ ...item, sealed: undefined }],
    }),
    'receipt-openings-not-a-list': invalid('malformed_receipt', 'openings are a list', {
      ...post,
      openings: openingOf(4),
    }),
    'receipt-opening-malformed': invalid('wrong_opening', 'the salt is not 32 bytes', {
      ...post,
      openings: [{ ...openingOf(4), salt: '04' }],
    }),
    'receipt-opening-with-a-short-salt': invalid(
      'wrong_opening',
      'the commitment fits, but its salt is one byte',
      {
        ...receiptOver(shortSalted, 'pst_1', [1]),
        openings: [{ entry_id: 1, field: 'body', salt: '04', content: 'x' }],
      },
    ),
    'receipt-opening-with-a-lone-surrogate': invalid('wrong_opening', 'the content has no canonical JSON', {
      ...post,
      openings: [{ ...openingOf(4), content: '\ud83d' }],
    }),
    'receipt-of-an-agent-with-a-post-too': invalid(
      'wrong_record',
      'a kind that is known belongs to the records of its row alone',
      {
        ...receiptOver(chain, 'agt_seller', [1, 4]),
      },
    ),
    'receipt-author-misquoted': invalid(
      'wrong_author',
      'the signature is over another text',
      authoredPost({ stated: statedFor(misquoted), shown: { author: misquoted } }),
    ),
    'receipt-author-of-another-key': invalid(
      'wrong_author',
      'a true signature, but the entry carries another one',
      authoredPost({ shown: { author: ofOther } }),
    ),
    'receipt-author-not-shown': invalid(
      'wrong_author',
      'the entry carries a signature, the opening has none',
      authoredPost({ shown: {} }),
    ),
    'receipt-author-not-stated': invalid(
      'wrong_author',
      'the opening has a signature, the entry carries none',
      authoredPost({ stated: {} }),
    ),
    'receipt-author-malformed': invalid(
      'wrong_author',
      'what was seen has no size',
      authoredPost({ shown: { author: { ...ofOther, seen: { root: '0'.repeat(64) } } } }),
    ),
    'receipt-key-change-signed-for-another': invalid(
      'wrong_author',
      'the author key signed another message key',
      keyChanges(authorshipOf('dm_key_change', { dm_key: 'cd'.repeat(32) })),
    ),
    'receipt-key-change-signed-by-a-weak-key': invalid(
      'wrong_author',
      'a point of small order needs no secret',
      keyChanges({
        ...authorshipOf('dm_key_change', { dm_key: 'ab'.repeat(32) }),
        author_key: `01${'00'.repeat(31)}`,
      }),
    ),
    'receipt-seq-as-boolean': invalid('malformed_receipt', 'true is no number', postWith({ seq: true })),
    'receipt-from-the-future': invalid('from_the_future', 'an hour after now', post, {
      now: seal1.at - 3_600,
    }),
    'receipt-head-rewritten': invalid('history_rewritten', 'another payload than what was seen', post, {
      remembered: { ...rememberedAfter(chain.entries, [seal1]), payload_hash: sha256('other') },
    }),
    'receipt-without-entries': invalid('malformed_receipt', 'it proves nothing', { ...post, entries: [] }),
    'receipt-sealed-though-waiting': invalid('malformed_receipt', 'sealed, it says, but an entry waits', {
      ...receiptOver(chain, 'mkt_7', [6, 9]),
      sealed: true,
    }),
    'receipt-entries-out-of-order': invalid(
      'malformed_receipt',
      'entries ascend by id',
      receiptOver(chain, 'mkt_7', [6, 3]),
    ),
    'receipt-conflicting-seals': invalid('conflicting_seals', 'two seals of one number, both signed', {
      ...receiptOver(chain, 'agt_seller', [1, 2]),
      entries: [
        sealedItem(chain, 1),
        { ...sealedItem(chain, 2), seal: sign({ ...fieldsOf(seal1), at: seal1.at + 1 }) },
      ],
    }),
    'receipt-seals-not-linked': invalid(
      'wrong_prev_root',
      'the second seal names another previous root',
      underOther({ prev_root: sha256('other') }),
    ),
    'receipt-seals-going-back': invalid(
      'at_goes_back',
      'the second seal is older than the first',
      underOther({ at: seal1.at - 1 }),
    ),
    'receipt-seals-overlapping': invalid(
      'range_gap',
      'a later seal covers an entry that an earlier one covers',
      {
        ...order,
        entries: [
          sealedItem(chain, 3),
          {
            ...sealedItem(chain, 6),
            seq: 5,
            index: 2,
            path: pathFor([4, 5, 6], 2),
            seal: sign({ ...fieldsOf(lateSeal), root: rootFor([4, 5, 6]) }),
          },
        ],
      },
    ),
    'receipt-key-changed': invalid('key_changed', 'two seals, two keys', underOther({}, OTHER_SEAL_KEY)),
    'receipt-key-not-pinned': invalid('wrong_key', 'not signed with the pinned key', post, {
      pubkeys: [otherPubkey],
    }),
    'receipt-opening-of-other-content': invalid('wrong_opening', 'the content was changed', {
      ...post,
      openings: [{ ...openingOf(4), content: 'post number 5' }],
    }),
    'receipt-opening-of-another-record': invalid(
      'wrong_opening',
      'the commitment of another record, put under this one',
      {
        ...receiptOver(boundTo('pst_2'), 'pst_1', [1]),
        openings: [openingWith('pst_2')],
      },
    ),
    'receipt-opening-with-other-salt': invalid('wrong_opening', 'the salt was changed', {
      ...post,
      openings: [{ ...openingOf(4), salt: '00'.repeat(32) }],
    }),
    'receipt-opening-of-no-field': invalid('wrong_opening', 'the entry has no such field', {
      ...post,
      openings: [{ ...openingOf(4), field: 'toString' }],
    }),
    'receipt-opening-of-no-entry': invalid('wrong_opening', 'the receipt has no such entry', {
      ...post,
      openings: [{ ...openingOf(4), entry_id: 5 }],
    }),
  }
  function pathFor(ids: readonly number[], index: number): PathStep[] {
    return inclusionPath(buildTree(hashLeaves(ids.map((id) => chain.entries[id - 1] as LedgerEntry))), index)
  }
  function rootFor(ids: readonly number[]): string {
    return merkleRoot(hashLeaves(ids.map((id) => chain.entries[id - 1] as LedgerEntry))).toString('hex')
  }
}

interface Vectors {
  readonly valid: Readonly<Record<string, Vector>>
  readonly invalid: Readonly<Record<string, InvalidVector>>
}

/** Every vector of this part, by file name without `.json`. They are made once, and whoever changes one copies it. */
export const generateVectors = once(makeVectors)

function makeVectors(): Vectors {
  return {
    valid: {
      ...canonicalJsonVectors(),
      ...leafVectors(),
      ...treeVectors(),
      ...proofVectors(),
      ...sealVectors(),
      ...receiptVectors(),
    },
    invalid: {
      ...invalidCanonicalJsonVectors(),
      ...invalidLeafVectors(),
      ...invalidTreeVectors(),
      ...invalidProofVectors(),
      ...invalidSealVectors(),
      ...invalidReceiptVectors(),
    },
  }
}

export const VECTORS_DIR = fileURLToPath(new URL('../vectors', import.meta.url))
export const VECTOR_NAME = /^(canonical-json|leaf|tree|proof|seal|receipt)-.*\.json$/

export function vectorText(vector: Vector): string {
  return JSON.stringify(vector, null, 2) + '\n'
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [kind, vectors] of Object.entries<Readonly<Record<string, Vector>>>({ ...generateVectors() })) {
    const folder = `${VECTORS_DIR}/${kind}`
    for (const name of readdirSync(folder)) if (VECTOR_NAME.test(name)) rmSync(`${folder}/${name}`)
    for (const [name, vector] of Object.entries(vectors))
      writeFileSync(`${folder}/${name}.json`, vectorText(vector))
  }
}
