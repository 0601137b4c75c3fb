#!/usr/bin/env node
/*!
 * Checks the ledger of an agent network without trusting it. One file, no dependency, Node 20.12 or later.
 *
 *   node seal-verify.mjs BASE_URL         the chain of a service: what is new since the last check; --full: all of it
 *   node seal-verify.mjs DUMP.json        a saved dump {entries, seals}, offline
 *   node seal-verify.mjs RECEIPT.json     one receipt, offline
 *   node seal-verify.mjs --evidence FILE  a proof that one key signed two histories, offline
 *   node seal-verify.mjs --note FILE      a checkpoint that another reader was shown
 *
 * A leaf is SHA-256 of the byte 00 and the entry's canonical JSON (RFC 8785); a node of a seal's tree is SHA-256
 * of left and right bytes, and of the log's tree of 01, left and right (RFC 6962). A seal signs, with Ed25519,
 * the canonical JSON of its at, count, from_id, prev_root, root, seq and to_id, which is rebuilt here and never
 * taken from the server. Sealing prevents rewriting, not withholding: nobody can miss an entry that was never
 * made.
 *
 * Exit: 0 all that was asked about holds and stands under a signature of a key that is pinned or remembered;
 * 1 something doesn't hold (one line each, with a fixed word); 2 it could not be checked; 3 nothing is wrong,
 * but nothing binding was found either.
 *
 * Bundled from client/verify/main.ts and what that imports; all comments stand there. MIT OR Apache-2.0.
 */
import { createReadStream, realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import path from 'node:path'
import { createPublicKey, hash, randomBytes, verify } from 'node:crypto'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import zlib from 'node:zlib'

// shared/crypto/canonical-json.ts
/** Deeper nesting is refused: recursion stays bounded, and other implementations can state the same bound. */
const MAX_JSON_DEPTH = 500
/**
 * Writes a JSON value as the text that is hashed and signed: keys sorted by UTF-16 code units, no whitespace,
 * strings and numbers as ECMAScript writes them, applied recursively (RFC 8785).
 *
 * Nothing is dropped or converted silently: a stranger couldn't check a value that changes on its way to the
 * hash. So everything that JSON has no form for throws a TypeError that names the place:
 * undefined (also as an object's value or an array's hole), NaN and the infinities, BigInt, functions,
 * symbols, lone surrogates in a string or a key, cycles, and instances of classes (Date, Map, Buffer,
 * ObjectId), which must be made plain by the caller.
 *
 * @returns text to be encoded as UTF-8; -0 is written `0`
 * @throws TypeError for a value as above, or nested deeper than MAX_JSON_DEPTH
 */
function canonicalJson(value) {
  try {
    return write(value, [])
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { keys, sentence } = error
    const place = keys.length === 0 ? 'the value itself' : keys.map((key) => JSON.stringify(key)).join(' > ')
    throw new TypeError(`canonical JSON refused at ${place}: ${sentence}`)
  }
}
/** Thrown at the value that is refused; each container on the way up adds its key to `keys`. */
var Refusal = class {
  keys = []
  sentence
  constructor(sentence) {
    this.sentence = sentence
  }
}
/**
 * The canonical text of any value inside the containers `ancestors`.
 *
 * @throws Refusal for a value that has none; TypeError if it is nested too deeply
 */
function write(value, ancestors) {
  switch (typeof value) {
    case 'string':
      return writeString(value)
    case 'number':
      if (!Number.isFinite(value)) throw new Refusal(`${value} has no JSON form`)
      return String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      return value === null ? 'null' : writeContainer(value, ancestors)
    default:
      throw new Refusal(`a value of type ${typeof value} has no JSON form`)
  }
}
/**
 * The canonical text of an array or object.
 *
 * @throws Refusal if it contains itself, or a value without a text; TypeError if nested too deeply
 */
function writeContainer(value, ancestors) {
  if (ancestors.includes(value)) throw new Refusal('the value contains itself')
  if (ancestors.length === MAX_JSON_DEPTH)
    throw new TypeError(`JSON nested deeper than ${MAX_JSON_DEPTH} levels is refused`)
  ancestors.push(value)
  const text = Array.isArray(value) ? writeArray(value, ancestors) : writeObject(value, ancestors)
  ancestors.pop()
  return text
}
/** The canonical text of an array. A Refusal of an element gets the element's index as its first key. */
function writeArray(value, ancestors) {
  let text = '['
  let index = 0
  try {
    for (; index < value.length; index++) text += (index === 0 ? '' : ',') + write(value[index], ancestors)
  } catch (error) {
    if (error instanceof Refusal) error.keys.unshift(index)
    throw error
  }
  return text + ']'
}
/** The canonical text of a plain object. A Refusal of a value gets the value's name as its first key. */
function writeObject(value, ancestors) {
  if (!isPlainObject(value))
    throw new Refusal(`an instance of ${value.constructor?.name || 'a class'} is not a plain object`)
  let text = '{'
  let currentKey = ''
  try {
    for (const key of sortKeys(Object.keys(value))) {
      currentKey = key
      text += (text.length === 1 ? '' : ',') + writeString(key) + ':' + write(value[key], ancestors)
    }
  } catch (error) {
    if (error instanceof Refusal) error.keys.unshift(currentKey)
    throw error
  }
  return text + '}'
}
/** Up to this many keys, an insertion sort is faster than Array.prototype.sort. */
const FEW_KEYS = 16
/**
 * Sorts keys in place by UTF-16 code units (RFC 8785 section 3.2.3), as `>` and Array.prototype.sort compare
 * strings, and returns them.
 */
function sortKeys(keys) {
  if (keys.length > FEW_KEYS) return keys.sort()
  for (let next = 1; next < keys.length; next++) {
    const key = keys[next]
    let place = next
    for (; place > 0 && keys[place - 1] > key; place--) keys[place] = keys[place - 1]
    keys[place] = key
  }
  return keys
}
/** Printable ASCII that JSON has no escape for: nearly every string of the ledger. */
const PLAIN = /^[ !#-[\]-~]*$/
/**
 * Writes a string with its quotes. JSON.stringify escapes exactly what RFC 8785 section 3.2.2.2 asks for, but
 * would write a lone surrogate as an escape, so that is refused here.
 */
function writeString(value) {
  if (PLAIN.test(value)) return `"${value}"`
  if (!value.isWellFormed()) throw new Refusal('a lone surrogate has no UTF-8 form')
  return JSON.stringify(value)
}
/**
 * Whether an object is plain: an object literal, of this realm or another, or one without a prototype; not an
 * instance of a class.
 */
function isPlainObject(value) {
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}

// shared/crypto/ed25519.ts
const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64
const BASE64 = /^[A-Za-z0-9+/]{86}==$/
/**
 * The 64 bytes of a signature in base64.
 *
 * @throws TypeError for anything but the one base64 text of 64 bytes: padding missing, other alphabet, bits
 *   left over
 */
function signatureFromBase64(base64) {
  if (typeof base64 !== 'string' || !BASE64.test(base64))
    throw new TypeError('"base64" expected 88 characters of base64 with padding')
  const signature = Buffer.from(base64, 'base64')
  if (signature.toString('base64') !== base64)
    throw new TypeError('"base64" has bits left over after its 64 bytes')
  return new Uint8Array(signature)
}

// shared/crypto/author.ts
/** `seen` of an agent that has verified no log yet: the empty tree (RFC 6962 section 2.1). */
const NOTHING_SEEN = {
  size: 0,
  root: hash('sha256', '', 'hex'),
}
/** The fields of `content` by the entry's kind; for orders and disputes, by kind and step. */
const SIGNED_FIELDS = {
  post: ['body', 'topic'],
  claim: ['kind', 'resolve_by', 'statement'],
  verdict: ['claim_id', 'evidence', 'outcome'],
  dm_key_change: ['dm_key'],
  author_key_change: ['author_key'],
  'order ordered': ['currency', 'offer_id', 'refund_address', 'step'],
  'order delivered': ['delivery', 'order_id', 'step'],
  'order accepted': ['order_id', 'step'],
  'dispute disputed': ['order_id', 'reason', 'step'],
  'order refund_address': ['address', 'order_id', 'step'],
}
/**
 * Makes the statement that an agent signs. Its content has exactly the fields that SIGNED_FIELDS names for
 * the kind: taken from `fields`, null if absent there.
 *
 * @param authored the kind, or kind and step, such as `order delivered`; the step becomes a field of the
 *   content
 */
function statementOf(agentId, authored, fields, seen) {
  const [kind = '', step] = authored.split(' ')
  const values =
    step === void 0
      ? fields
      : {
          ...fields,
          step,
        }
  return {
    agent_id: agentId,
    kind,
    content: Object.fromEntries(SIGNED_FIELDS[authored].map((field) => [field, values[field] ?? null])),
    seen: {
      size: seen.size,
      root: seen.root,
    },
  }
}
/**
 * The bytes that the signature covers: canonical JSON in UTF-8.
 *
 * @throws TypeError for content that has no canonical JSON
 */
function authorText({ agent_id, kind, content, seen }) {
  return Buffer.from(
    canonicalJson({
      agent_id,
      kind,
      content,
      seen,
    }),
    'utf8',
  )
}
/**
 * SHA-256 of a signature's 64 bytes, in hex. The ledger entry carries this instead of the signature, with
 * which guesses at a hidden text could be checked.
 */
function signatureHash(signature) {
  return hash('sha256', signatureFromBase64(signature), 'hex')
}

// shared/crypto/merkle.ts
/** Bytes of a leaf or node. crypto.hash is fastest with its result as 'binary', which is latin1. */
const HASH_BYTES = 32
/** Levels of the tree that one tile spans, and the hashes it holds at most: 8 KiB. */
const TILE_HEIGHT = 8
const TILE_WIDTH = 2 ** TILE_HEIGHT
const HEX_HASH$3 = /^[0-9a-f]{64}$/
/**
 * The leaf of a ledger entry: SHA-256 of the byte 00 and the entry's canonical JSON, 64 lower-case hex
 * characters.
 *
 * @throws TypeError for anything but a plain object that has canonical JSON
 */
function leafHash(entry) {
  return hash('sha256', leafPreimage(leafText(entry)), 'hex')
}
/** U+0000 is the byte 00 in UTF-8. */
const leafPreimage = (text) => '\0' + text
/** The canonical JSON of an entry. @throws TypeError for anything but a plain object that has it */
function leafText(entry) {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw new TypeError('"entry" expected a plain object')
  return canonicalJson(entry)
}
/**
 * Computes the root that a leaf and its path lead to, 64 lower-case hex characters. That alone proves nothing
 * about the leaf's position: use verifyInclusion() for that.
 *
 * @throws TypeError for a hash that isn't 64 lower-case hex characters, or a side that isn't `left` or
 *   `right`
 */
function foldPath(leaf, path) {
  assertHexHash('leaf', leaf)
  let running = leaf
  for (const [step, { hash: sibling, side }] of path.entries()) {
    assertHexHash(`path[${step}].hash`, sibling)
    if (side !== 'left' && side !== 'right')
      throw new TypeError(`"path[${step}].side" expected "left" or "right", got ${JSON.stringify(side)}`)
    running = hash(
      'sha256',
      Buffer.from(side === 'left' ? sibling + running : running + sibling, 'hex'),
      'hex',
    )
  }
  return running
}
/**
 * Lists the side of each sibling on the path of leaf `index` in a tree of `count` leaves, lowest first. It is
 * the only shape that such a path can have (RFC 6962 section 2.1.1).
 *
 * @throws RangeError for an index outside the tree
 */
function pathShape(count, index) {
  assertIndex(index, count)
  const sides = []
  let position = index
  for (let width = count; width > 1; width = Math.ceil(width / 2)) {
    if (position % 2 === 1) sides.push('left')
    else if (position + 1 < width) sides.push('right')
    position = Math.floor(position / 2)
  }
  return sides
}
/**
 * Whether `leaf` is number `index` (from 0) of the `count` leaves under `root`.
 *
 * `index` and `count` come from the reader and the signed seal, never from the path. A path with one step too
 * many, a wrong side, a 64-byte entry posing as a node or an odd leaf paired with itself has another shape,
 * or another root.
 *
 * Doesn't throw.
 *
 * @returns `ok: true`, or the reason: `malformed_proof` if a part has the wrong form, `path_shape` for the
 *   wrong number of steps, `wrong_side` for a sibling on the wrong side, `wrong_root` if the path leads to
 *   another root
 */
function verifyInclusion(proof) {
  const { leaf, path, root, index, count } = proof
  if (!Array.isArray(path)) return fault('malformed_proof', '"path" is not a list')
  let shape
  let reached
  try {
    assertHexHash('root', root)
    shape = pathShape(count, index)
    reached = foldPath(leaf, path)
  } catch (error) {
    return fault('malformed_proof', error instanceof Error ? error.message : String(error))
  }
  if (path.length !== shape.length)
    return fault(
      'path_shape',
      `index ${index} of ${count} takes ${shape.length} steps, the path has ${path.length}`,
    )
  for (const [step, side] of shape.entries())
    if (path[step]?.side !== side)
      return fault('wrong_side', `index ${index} of ${count} has its sibling on the ${side} at step ${step}`)
  if (reached !== root) return fault('wrong_root', `the path leads to ${reached}, not to ${root}`)
  return { ok: true }
}
function fault(reason, message) {
  return {
    ok: false,
    reason,
    message,
  }
}
function assertIndex(index, count) {
  if (!Number.isSafeInteger(count) || count < 1)
    throw new RangeError(`"count" expected a whole number from 1, got ${count}`)
  if (!Number.isSafeInteger(index) || index < 0 || index >= count)
    throw new RangeError(`"index" expected a whole number from 0 to ${count - 1}, got ${index}`)
}
function assertHexHash(name, value) {
  if (typeof value !== 'string' || !HEX_HASH$3.test(value))
    throw new TypeError(`"${name}" expected 64 lower-case hex characters, got ${JSON.stringify(value)}`)
}

// client/verify/values.ts
const MAX_ANSWER_BYTES = 16 * 2 ** 20
const MAX_CLOCK_SKEW_SECONDS = 300
const MAX_CONTAINERS = 5e5
const MAX_PARSED_DEPTH = 1e3
const SIGNATURE_BASE64 = /^[A-Za-z0-9+/]{86}==$/
const HEX_HASH$2 = /^[0-9a-f]{64}$/
const utf8 = new TextDecoder('utf-8', {
  fatal: true,
  ignoreBOM: true,
})
/** The text of bytes in UTF-8. @throws TypeError */
const decodeText = (bytes) => utf8.decode(bytes)
/**
 * Parses JSON. A key that stands twice in an object is refused, since another reader might take the other
 * one.
 *
 * @param source bytes are UTF-8
 * @throws SyntaxError or TypeError for what is no such JSON, RangeError for what is nested too deep or has too
 *   many parts
 */
function parseJson(source) {
  const text = typeof source === 'string' ? source : decodeText(source)
  const { members, depth, containers } = measureJson(text)
  if (depth > MAX_PARSED_DEPTH) throw new RangeError(`it is nested deeper than ${MAX_PARSED_DEPTH} levels`)
  if (containers > MAX_CONTAINERS)
    throw new RangeError(`it has more than ${MAX_CONTAINERS} lists and objects`)
  const value = JSON.parse(text)
  if (members !== countMembers(value)) throw new SyntaxError('it has a key twice in one object')
  return value
}
/** Counts what stands outside strings of a text that is to be JSON: colons, lists and objects, their nesting. */
function measureJson(text) {
  let members = 0
  let containers = 0
  let depth = 0
  let level = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 34) {
      while (++at < text.length && text.charCodeAt(at) !== 34) if (text.charCodeAt(at) === 92) at++
    } else if (code === 58) members++
    else if (code === 91 || code === 123) {
      containers++
      depth = Math.max(depth, ++level)
    } else if (code === 93 || code === 125) level--
  }
  return {
    members,
    depth,
    containers,
  }
}
/** How many members all objects in a value have together. */
function countMembers(value) {
  if (typeof value !== 'object' || value === null) return 0
  const parts = Object.values(value)
  let count = Array.isArray(value) ? 0 : parts.length
  for (const part of parts) count += countMembers(part)
  return count
}
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const isWhole = (value) => Number.isSafeInteger(value) && Number(value) >= 0
const isHexHash$1 = (value) => typeof value === 'string' && HEX_HASH$2.test(value)
/** The value of a member that an object has by itself; undefined if it has none. */
const memberOf = (value, name) => (Object.hasOwn(value, name) ? value[name] : void 0)
/** The 64 bytes of a signature in base64; undefined unless the text is their canonical form. */
function decodeSignature(value) {
  if (typeof value !== 'string' || !SIGNATURE_BASE64.test(value)) return void 0
  const signature = Buffer.from(value, 'base64')
  return signature.toString('base64') === value ? signature : void 0
}
/** A value as JSON for a message, at most 80 characters. */
function show(value) {
  try {
    return JSON.stringify(value ?? null).slice(0, 80)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return 'something unprintable'
  }
}
const showNumber = (value) => (isWhole(value) ? String(value) : '?')
const nowSeconds = () => Math.floor(Date.now() / 1e3)

// client/verify/wording.ts
const WORDING = {
  at_goes_back: 'at {} is before the {} of seal {}',
  bad_signature: 'the signature is not that of {} over this payload',
  chain_shortened: 'ends at seal {}, but seal {} was seen before',
  conflicting_seals: 'brings another seal {} than an entry before it',
  'entry_gap.missing': 'entry {} is missing from the ledger',
  'entry_gap.other': 'the ledger gives entry {} in its place',
  'from_the_future.here':
    "is dated {}{}; this machine's clock says {}: it is of the future, or this machine's clock is behind",
  'from_the_future.there': "is dated {}{}; this machine's clock says {}: the service's own Date is {}",
  'from_the_future.many': ', the latest of {} seals that are dated after now',
  'history_rewritten.entry': 'is as it was, but an entry before it is another than when it was seen',
  'history_rewritten.in_chain': 'has another payload than when it was seen in the chain',
  'history_rewritten.payload': 'has another payload than when it was seen before',
  key_changed:
    "signed with {}, not with {}; if you know this key to be the service's, accept it: --pubkey for each key",
  'log_rewritten.entry': 'entry {} is not the one in the log that was seen before, of size {}',
  'log_rewritten.log':
    'the log of size {} with the root {} does not agree with the one seen before, of size {} with the root {}',
  'log_rewritten.two': 'two checkpoints of size {} differ',
  'malformed_entry.form': 'an entry is not {id, at, kind, data}',
  'malformed_entry.json': '{}',
  malformed_proof: 'it is not leaf, root, an index below the count, and a path of {hash, side}',
  'malformed_receipt.entries': 'it has no entries',
  'malformed_receipt.id': 'it names no record',
  'malformed_receipt.openings': 'openings is not a list',
  'malformed_receipt.order': 'the entries are not in ascending order',
  'malformed_receipt.seal': 'stands under seal {} and brings seal {}',
  'malformed_receipt.sealed': 'an entry does not say whether it is sealed',
  'malformed_receipt.whole': 'sealed does not say whether all its entries are',
  'malformed_seal.form': 'a seal is not an object',
  'malformed_seal.fields': 'missing or of the wrong form: {}',
  'malformed_seal.signature': 'it lacks an Ed25519 signature, its key or its time',
  'malformed_seal.signed': 'it does not say whether it is signed',
  'no_contradiction.logs': 'it is not two checkpoints of one log that contradict each other',
  'no_contradiction.seals': 'it is not two different seals of one number',
  order_overdrawn: 'order {} has paid out more than was paid for it',
  path_shape: 'the path has another number of steps than index {} of {} takes',
  'range_gap.first': 'the first seal begins at entry {}, not 1',
  'range_gap.next': 'begins at entry {}, {} was due',
  'range_gap.within': 'begins at entry {}, seal {} ends at {}',
  seq_gap: 'seal {} was due',
  signature_withdrawn: 'was signed when it was seen before',
  signed_before_made: 'signed at {}, before it was made at {}',
  weak_key: 'anyone can sign for the key {}',
  'wrong_author.agent': 'the entry names no agent',
  'wrong_author.form': 'its author is not {author_key, seen: {size, root}, signature}',
  'wrong_author.json': '{}',
  'wrong_author.not_carried': 'the entry carries no signature',
  'wrong_author.not_shown': 'the entry carries a signature, and none is shown',
  'wrong_author.other': 'the entry carries another signature',
  'wrong_author.signature': 'the signature is not that of {} over what the entry says',
  'wrong_author.standing': 'changes a key without the signature of the author key that stood, {}',
  'wrong_author.weak': 'anyone can sign for the key {}',
  'wrong_checkpoint.form': 'it is no checkpoint: {}',
  'wrong_checkpoint.key': 'it names no key',
  'wrong_checkpoint.signer': 'no known key has signed the checkpoint, or not this one',
  'wrong_checkpoint.text': 'it is no text in UTF-8',
  wrong_closing: 'does not end with its own closing entry of the time {}',
  wrong_count: 'count is {} for the entries {} to {}',
  'wrong_fee.stated': 'the order states the fee {}, and {} are due',
  'wrong_fee.taken': 'the fees of {} come to {}, and {} are due at most',
  wrong_index: 'index {} of seal {} is entry {}',
  wrong_key: 'signed with {}, which is not a pinned key',
  'wrong_keys.form':
    'its closing entry states the keys in form 1, in which revoked keys stay, after one that stated form 2',
  'wrong_keys.state': 'its closing entry states the keys {}, the entries give {}',
  wrong_leaf: "the entry's leaf is {}, not {}",
  wrong_liabilities: 'its closing entry states the liabilities {}, the entries give {}',
  wrong_log: 'its closing entry states the log {}, the entries give {}',
  'wrong_log_proof.path': "the path does not lead from entry {} to the log's root",
  'wrong_log_proof.text': 'it is not the text of a tlog-proof',
  'wrong_opening.commitment': 'salt and content do not give the commitment in {}',
  'wrong_opening.entry': 'there is no such entry in the receipt',
  'wrong_opening.field': 'the entry has no commitment in {}',
  'wrong_opening.form': 'it is not {entry_id, field, salt, content}',
  'wrong_opening.json': '{}',
  'wrong_opening.record': 'its content is of another record, {}',
  wrong_owed: 'its closing entry states {}, the entries give {}',
  'wrong_prev_root.first': 'the first seal names a previous root',
  'wrong_prev_root.none': 'only the first seal has no previous root',
  'wrong_prev_root.other': 'names {}, the root of seal {} is {}',
  wrong_prev_seal: 'its closing entry names {} as the seal before it, not {}',
  'wrong_record.making': 'has no entry of kind {}, without which there is no {}',
  'wrong_record.other': 'is no entry of {}',
  'wrong_root.entries': 'its entries {} to {} have the root {}, not {}',
  'wrong_root.path': 'the path of index {} of {} leads to another root',
  wrong_side: 'the path has a sibling on another side than index {} of {} has it',
  behind: 'a log of {} entries was seen before, and the one that is shown ends at entry {}',
  'key_unknown.chain':
    "nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey",
  'key_unknown.file':
    "nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey, or check the service first, so that its key is remembered",
  no_signed_seal: 'there is no signed seal',
  'not_compared.checks':
    'other checks of this service went on meanwhile, and could not be compared with this one',
  'not_compared.dump':
    'it ends at seal {}, and what was seen here at seal {}: nothing tells whether that goes on from it',
  'not_compared.note': 'nothing that was seen of this log could be compared with it',
  'not_compared.receipt':
    'seal {} lies in the ledger that was seen here, and nothing shows that it is the same: --consistency, with a receipt in the log',
  'not_cosigned_yet.cosigned': 'cosigned up to entry {} of {}: no witness has vouched for the rest',
  'not_cosigned_yet.shown':
    'under the checkpoint that is shown up to entry {} of {}: no witness has vouched for the rest',
  other_log: "the log {} is none of the policy's",
  'quorum_not_met.ahead': "; the time of {} is after now, so its clock is ahead or this machine's is behind",
  'quorum_not_met.no_checkpoint': 'there is no checkpoint of it to be cosigned, and the quorum is {}{}',
  'quorum_not_met.none': "none of the policy's witnesses has cosigned the checkpoint, and the quorum is {}{}",
  'quorum_not_met.some': "of the policy's witnesses only {} cosigned the checkpoint, and the quorum is {}{}",
  'stale.cosignature':
    "the newest cosignature is {} s old, and {} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead",
  'stale.seal':
    "the newest signed seal is {} s old, and {} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead",
  'unsigned.many': '{} seals have no signature',
  'unsigned.named': 'seal {} has no signature',
  'unsigned.one': 'a seal has no signature',
  'waiting.many': '{} entries wait for a seal',
  'waiting.one': 'an entry waits for a seal',
  deadline:
    'the service had not answered everything within {} s (--deadline); the next check goes on from the last signed seal that was checked',
  'too_long.entries': 'the ledger has more than {} entries (--max-entries)',
  'too_long.seals': 'there are more than {} seals to check (--max-seals)',
  'too_long.seals_kept':
    'there are more than {} seals to check (--max-seals); the next check goes on from the last signed seal that was checked',
  'unreachable.again': '{}: {}',
  'unreachable.encoding': '{} answers in an encoding that was not asked for',
  'unreachable.gzip': '{} answers with gzip that is broken, or of more than {} bytes',
  'unreachable.json': '{} does not answer in JSON: {}',
  'unreachable.large': '{} answers with more than {} bytes',
  'unreachable.list': '{} does not answer with a list of {}',
  'unreachable.more': '{} answers with more {} than it was asked for',
  'unreachable.origin': '{} redirects to another origin',
  'unreachable.redirects': '{} redirects without end',
  'unreachable.slow': '{} gave no whole answer within {} s',
  'unreachable.status': '{} answered {}',
  wrong_clock:
    "the newest seal is dated {} by the service and this machine's clock says {}; this machine's clock is {} behind, or the service's Date and its seals are wrong together",
}
/** A sentence with its fixed word. @param shown what stands in its places */
function say(sentence, ...shown) {
  const [reason = ''] = sentence.split('.')
  const rest = shown.map(String)
  return {
    reason,
    message: WORDING[sentence].replaceAll('{}', () => rest.shift() ?? ''),
  }
}

// client/verify/findings.ts
/** Something does not hold; `reason` is its fixed word. */
var Refused = class extends Error {
  reason
  constructor(reason, message) {
    super(message)
    this.reason = reason
  }
}
/** What is thrown for something that does not hold, in a sentence of the table. */
function refusal(sentence, ...shown) {
  const { reason, message } = say(sentence, ...shown)
  return new Refused(reason, message)
}
/** Something could not be checked; `word` is its fixed word, `help` has lines that follow it. */
var Unchecked = class extends Error {
  word
  help
  constructor(word, message, help = '') {
    super(message)
    this.word = word
    this.help = help
  }
}
/** What is thrown for what could not be checked, in a sentence of the table. */
function unchecked(sentence, ...shown) {
  const { reason, message } = say(sentence, ...shown)
  return new Unchecked(reason, message)
}
/** With so many the check ends: it is broken. */
const MAX_FINDINGS = 1e3
const MAX_MESSAGE_CHARACTERS = 1e3
/** The list of what does not hold, and the proof of a contradiction if there is one. */
var Findings = class {
  #kept = []
  future
  fork
  get list() {
    return this.future === void 0 ? this.#kept : [...this.#kept, describeFuture(this.future)]
  }
  get total() {
    return this.#kept.length + (this.future === void 0 ? 0 : 1)
  }
  get isFull() {
    return this.#kept.length >= MAX_FINDINGS
  }
  add(where, sentence, ...shown) {
    this.#keep(where, say(sentence, ...shown))
  }
  #keep(where, { reason, message }) {
    if (!this.isFull)
      this.#kept.push({
        reason,
        where,
        message: message.slice(0, MAX_MESSAGE_CHARACTERS),
      })
  }
  /** Runs a check that throws Refused for what doesn't hold, and adds that. */
  run(where, check) {
    try {
      return {
        held: true,
        value: check(),
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.#keep(where, error)
      return { held: false }
    }
  }
  /** Compares a seal's time with now. However many are later, it is one finding: the clock here may be wrong. */
  addTime(where, seal, now) {
    const at = seal.signed ? Math.max(seal.at, seal.signed_at) : seal.at
    if (at <= now + MAX_CLOCK_SKEW_SECONDS) return
    const known = this.future ?? {
      count: 0,
      at: -1,
      now,
      where,
    }
    this.future = {
      ...(at > known.at
        ? {
            ...known,
            at,
            now,
            where,
          }
        : known),
      count: known.count + 1,
    }
  }
}
function describeFuture({ count, at, now, where, serviceNow }) {
  const many = count === 1 ? '' : say('from_the_future.many', count).message
  return {
    where,
    ...(serviceNow === void 0
      ? say('from_the_future.here', at, many, now)
      : say('from_the_future.there', at, many, now, serviceNow)),
  }
}

// shared/crypto/ed25519-verify.ts
/** What stands before the 32 bytes of an Ed25519 key in DER (RFC 8410 section 4). */
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')
const MAX_KEYS = 1e3
/** By the key in hex; undefined for one of small order. */
const keyObjects = /* @__PURE__ */ new Map()
/**
 * Whether 64 bytes are the signature of a message by a 32-byte Ed25519 key. A key of small order signs
 * nothing: anyone can make a "signature" for it.
 */
function isSignedBy(signature, message, publicKey) {
  const key = recall(keyObjects, publicKey, openKey)
  return key !== void 0 && verify(null, message, key, signature)
}
/** @returns undefined for a key of small order */
function openKey(keyHex) {
  if (isWeakKey(keyHex)) return void 0
  const der = Buffer.concat([SPKI_ED25519, Buffer.from(keyHex, 'hex')])
  return createPublicKey({
    key: der,
    format: 'der',
    type: 'spki',
  })
}
/** Returns what is known of a key; makes it if it is asked for the first time, or after MAX_KEYS others. */
function recall(known, publicKey, make) {
  const keyHex = Buffer.from(publicKey).toString('hex')
  const found = known.get(keyHex)
  if (found !== void 0) return found
  const made = make(keyHex)
  if (known.size >= MAX_KEYS) known.clear()
  known.set(keyHex, made)
  return made
}
const FIELD_PRIME = 2n ** 255n - 19n
/** y of two points of order 8; the other two have its negative. */
const ORDER_8_Y = 55188659117513257062467267217118295137698188065244968500265048376614075373511n
const SMALL_ORDER_Y = /* @__PURE__ */ new Set([0n, 1n, FIELD_PRIME - 1n, ORDER_8_Y, FIELD_PRIME - ORDER_8_Y])
/** Whether a key is a point of small order, in any encoding: anyone can make signatures for such a key. */
function isSmallOrderKey(pubkey) {
  const bigEndian = Buffer.from(pubkey).reverse()
  bigEndian[0] = bigEndian[0] & 127
  return SMALL_ORDER_Y.has(BigInt('0x' + bigEndian.toString('hex')) % FIELD_PRIME)
}
/** Whether anyone can sign for a key. @param pubkey 64 hex characters */
const isWeakKey = (pubkey) => isSmallOrderKey(Buffer.from(pubkey, 'hex'))

// client/verify/entries.ts
/** Reads an entry. @throws Refused `malformed_entry` */
function readEntry(value) {
  if (!(
    isObject(value) &&
    isWhole(value['id']) &&
    isWhole(value['at']) &&
    typeof value['kind'] === 'string' &&
    isObject(value['data'])
  ))
    throw refusal('malformed_entry.form')
  return value
}
/** What `make` makes of a value in canonical JSON. @throws Refused with this sentence if it has none */
function inCanonicalForm(sentence, make) {
  try {
    return make()
  } catch (error) {
    throw error instanceof TypeError ? refusal(sentence, error.message) : error
  }
}
/** An entry's leaf, 64 hex characters. @throws Refused `malformed_entry` */
const leafOf = (entry) => inCanonicalForm('malformed_entry.json', () => leafHash(entry))
/** @throws Refused unless `leaf` is the entry's */
function checkLeaf(entry, leaf) {
  const own = leafOf(entry)
  if (leaf !== own) throw refusal('wrong_leaf', own, show(leaf))
}
/** The opening that the signature of an entry of this kind comes with. */
const SIGNED_OPENINGS = {
  post: 'content_hash',
  claim: 'content_hash',
  verdict: 'evidence_hash',
}
/** The field of `data` that has the key, by the kind of entry that changes one. */
const KEY_FIELDS = {
  dm_key_change: 'dm_key',
  author_key_change: 'author_key',
}
const keyFieldOf = (kind) =>
  kind === 'dm_key_change' || kind === 'author_key_change' ? KEY_FIELDS[kind] : void 0
/**
 * Checks an author's signature over what an entry says.
 *
 * @param author as the entry or an opening has it
 * @param opened the content that the entry has a commitment to
 * @throws Refused `wrong_author`
 */
function checkAuthor({ id, kind, data }, author, opened) {
  const { author_key: key, seen, signature } = isObject(author) ? author : {}
  const bytes = decodeSignature(signature)
  const { size, root } = isObject(seen) ? seen : {}
  if (!isHexHash$1(key) || bytes === void 0 || !isWhole(size) || !isHexHash$1(root))
    throw refusal('wrong_author.form')
  if (typeof data['agent_id'] !== 'string') throw refusal('wrong_author.agent')
  const names = SIGNED_FIELDS[kind]
  const fields = Object.fromEntries(
    names.map((name) => [name, memberOf(Object.hasOwn(opened, name) ? opened : data, name)]),
  )
  const statement = statementOf(data['agent_id'], kind, fields, {
    size,
    root,
  })
  const text = inCanonicalForm('wrong_author.json', () => authorText(statement))
  if (isWeakKey(key)) throw refusal('wrong_author.weak', key)
  if (!isSignedBy(bytes, text, Buffer.from(key, 'hex'))) throw refusal('wrong_author.signature', key)
  return {
    entry_id: id,
    author_key: key,
    signature: String(signature),
  }
}
/** Whether an entry changes a key and carries the whole signature of the author key that stood before it. */
const isSignedChange = ({ kind, data }) => keyFieldOf(kind) !== void 0 && Object.hasOwn(data, 'author')
/** Checks the signature of a change of a key. @throws Refused `wrong_author` */
function checkKeyChange(entry) {
  const { entry_id, author_key } = checkAuthor(entry, entry.data['author'], {})
  return {
    entry_id,
    author_key,
  }
}
/**
 * Checks the author's signature that comes with an opening.
 *
 * @returns none if the entry states no author, or carries its signature elsewhere
 * @throws Refused `wrong_author`
 */
function checkOpenedAuthor(opening, entry) {
  const { kind, data } = entry
  if (memberOf(SIGNED_OPENINGS, kind) !== opening['field']) return []
  const [states, shows] = [Object.hasOwn(data, 'author'), Object.hasOwn(opening, 'author')]
  if (!states && !shows) return []
  if (!shows) throw refusal('wrong_author.not_shown')
  if (!states) throw refusal('wrong_author.not_carried')
  const { content } = opening
  const shown = checkAuthor(entry, opening['author'], isObject(content) ? content : {})
  const stated = data['author']
  if (
    !isObject(stated) ||
    stated['author_key'] !== shown.author_key ||
    stated['signature_hash'] !== signatureHash(shown.signature)
  )
    throw refusal('wrong_author.other')
  return [
    {
      entry_id: entry.id,
      author_key: shown.author_key,
    },
  ]
}
/**
 * By the prefix of a record's id: the kind of entry that makes it; then, by the fields of `data` of which the first that is
 * there has its id, the kinds that may stand under it. The ids of other records may stand in the same data, so that one
 * that stands anywhere says little: a credit for a claim names the agent too, and is the claim's.
 */
const RECORDS = {
  agt: [
    'registration',
    {
      agent_id:
        'registration token_rotation dm_key_change author_key_change witness_key ban unban hide unhide',
      'claim_id payment_id invoice_id order_id agent_id': 'pass_credit',
    },
  ],
  pst: ['post', { post_id: 'post hide unhide' }],
  clm: ['claim', { claim_id: 'claim proposal_accepted pass_credit hide unhide' }],
  vrd: ['verdict', { verdict_id: 'verdict' }],
  ann: ['announcement', { announcement_id: 'announcement' }],
  ofr: ['offer', { offer_id: 'offer offer_closed hide unhide' }],
  mkt: ['order', { order_id: 'order fee payment dispute dispute_outcome' }],
  wrk: ['pass_credit', { order_id: 'pass_credit' }],
  inv: ['pass_credit', { 'payment_id invoice_id': 'pass_credit' }],
  pay: [
    'payment',
    {
      'step payment_id': 'payment',
      payment_id: 'pass_credit',
    },
  ],
  out: ['payout', { payout_id: 'payout' }],
  opr: ['operator_act', { act_id: 'operator_act' }],
  rcn: ['reconcile', { reconciliation_id: 'reconcile' }],
  seal: [void 0, { seal: 'solvency seal_adoption' }],
}
const prefixOf = (recordId) => recordId.split('_', 1)[0] ?? ''
/** The fields that may have a record's id, by its prefix and the kind of entry. */
const ID_FIELDS = /* @__PURE__ */ new Map(
  Object.entries(RECORDS).flatMap(([prefix, [, kinds]]) =>
    Object.entries(kinds).flatMap(([fields, names]) =>
      names.split(' ').map((kind) => [`${prefix} ${kind}`, fields.split(' ')]),
    ),
  ),
)
const KNOWN_KINDS = /* @__PURE__ */ new Set([...ID_FIELDS.keys()].map((key) => key.split(' ')[1]))
/**
 * Whether an entry belongs to the record of this id. A kind that is in no row of the table is newer than it:
 * then the id must be some string in the data.
 */
function isOfRecord({ kind, data }, recordId) {
  const fields = ID_FIELDS.get(`${prefixOf(recordId)} ${kind}`)
  if (fields === void 0) return !KNOWN_KINDS.has(kind) && names(data, recordId)
  const field = fields.find((name) => Object.hasOwn(data, name))
  return field !== void 0 && data[field] === recordId
}
/**
 * Checks that the entry that makes the record is among these: a record that was never made must not be proven
 * by what others say of it.
 *
 * @throws Refused `wrong_record`
 */
function checkMaking(recordId, entries) {
  const [madeBy] = memberOf(RECORDS, prefixOf(recordId)) ?? []
  if (madeBy !== void 0 && ![...entries].some(({ kind }) => kind === madeBy))
    throw refusal('wrong_record.making', madeBy, show(recordId))
}
/** Whether some string in `value` is `recordId`. */
function names(value, recordId) {
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (next === recordId) return true
    if (typeof next === 'object' && next !== null) for (const part of Object.values(next)) open.push(part)
  }
  return false
}
/** The data of an entry as one line of at most 300 characters. */
const showData = ({ data }) =>
  inCanonicalForm('malformed_entry.json', () => canonicalJson(data)).slice(0, 300)

// shared/crypto/key-tree.ts
/** The root of a tree without keys. */
const EMPTY_KEY_ROOT = Buffer.alloc(HASH_BYTES)
const ID_BITS = 8 * HASH_BYTES
const sha256 = (bytes) => Buffer.from(hash('sha256', bytes, 'binary'), 'latin1')
/**
 * Computes the hash of an agent's leaf, 32 bytes.
 *
 * @throws TypeError for fields that have no canonical JSON
 */
function keyLeafHash({ agent_id, dm_key, author_key, version, entry_id }) {
  const keys = {
    ...(dm_key === void 0 ? {} : { dm_key }),
    ...(author_key === void 0 ? {} : { author_key }),
  }
  return sha256(
    '\0' +
      canonicalJson({
        agent_id,
        ...keys,
        version,
        entry_id,
      }),
  )
}
/** An agent's place in the tree: the bits of this hash, the highest first, lead down to it from the root. */
const placeOf = (agentId) => sha256(agentId)
/** Bit number `depth` of a place, the highest first. */
const bitAt = (place, depth) => (place[depth >> 3] >> (7 - (depth & 7))) & 1
/** The hash of a node with two or more leaves below it, of the hashes of its halves. */
const keyNodeHash = (left, right) => sha256(Buffer.concat([Buffer.of(1), left, right]))
function hashOf(part) {
  if (part === void 0) return EMPTY_KEY_ROOT
  part.hash ??= 'keys' in part ? keyLeafHash(part.keys) : keyNodeHash(hashOf(part.left), hashOf(part.right))
  return part.hash
}
/** The part that has these two below it. */
const join = (left, right) => ({
  left,
  right,
  hash: void 0,
})
/**
 * An empty tree.
 *
 * @param depth of a part of a tree: so many bits lead to it, and all places in it begin with the same ones
 */
const createKeyTree = (depth = 0) => keyTreeOf(void 0, 0, 1, depth)
/** The tree with this root, `top` bits below that of the whole. @param count how many agents are in it */
function keyTreeOf(root, count, form, top) {
  /** Walks down to an agent's place: what is there, and the siblings on the way, lowest first. */
  function find(agentId) {
    const place = placeOf(agentId)
    const path = []
    let part = root
    for (let depth = top; part !== void 0 && 'left' in part; depth++) {
      const isRight = bitAt(place, depth) === 1
      path.unshift(isRight ? part.left : part.right)
      part = isRight ? part.right : part.left
    }
    return {
      part,
      path,
    }
  }
  const keysOf = (part) => (part !== void 0 && 'keys' in part ? part.keys : void 0)
  const get = (agentId) => {
    const keys = keysOf(find(agentId).part)
    return keys?.agent_id === agentId ? keys : void 0
  }
  return {
    get root() {
      return hashOf(root)
    },
    count,
    form,
    get,
    with: (keys, formAfter = form) =>
      keyTreeOf(
        insert(
          root,
          {
            place: placeOf(keys.agent_id),
            keys,
            hash: void 0,
          },
          top,
        ),
        get(keys.agent_id) === void 0 ? count + 1 : count,
        formAfter,
        top,
      ),
    prove: (agentId) => {
      const { part, path } = find(agentId)
      return {
        found: keysOf(part) ?? null,
        path: path.map((sibling) => hashOf(sibling).toString('hex')),
      }
    },
  }
}
/**
 * Returns `part` with a leaf added, or in place of the leaf of the same agent; `part` itself stays as it was.
 *
 * @param depth how many bits lead from the root to `part`
 */
function insert(part, leaf, depth) {
  if (part === void 0) return leaf
  if ('left' in part)
    return bitAt(leaf.place, depth) === 0
      ? join(insert(part.left, leaf, depth + 1), part.right)
      : join(part.left, insert(part.right, leaf, depth + 1))
  if (part.place.equals(leaf.place)) return leaf
  const bit = bitAt(leaf.place, depth)
  if (bit === bitAt(part.place, depth)) {
    const below = insert(part, leaf, depth + 1)
    return bit === 0 ? join(below, void 0) : join(void 0, below)
  }
  return bit === 0 ? join(leaf, part) : join(part, leaf)
}

// shared/crypto/note.ts
/** The type byte of a key: `signer` writes the note, `cosigner` adds a timestamped signature. */
const NOTE_KEY = {
  signer: 1,
  cosigner: 4,
}
/** Limits of a note: signature lines, and characters in all. */
const MAX_SIGNATURES = 64
const MAX_NOTE_CHARACTERS = 65536
const KEY_ID_BYTES = 4
const TIME_BYTES = 8
const NAME = /^[^\s\p{Cc}\p{Zs}+]{1,255}$/u
const DECIMAL = /^(?:0|[1-9]\d{0,15})$/
/**
 * Whether a text can be the name of a key, and so the origin of a log: no spaces, no plus, no control
 * characters.
 */
const isNoteName = (name) => NAME.test(name) && name.isWellFormed()
/**
 * Computes the key id of C2SP signed-note.
 *
 * @returns 8 lower-case hex characters
 * @throws TypeError for a name or key of another form
 */
function noteKeyId({ name, type, publicKey }) {
  if (!isNoteName(name))
    throw new TypeError(`"name" expected no spaces and no plus, got ${JSON.stringify(name)}`)
  if (publicKey.length !== PUBLIC_KEY_BYTES)
    throw new TypeError(`"publicKey" expected ${PUBLIC_KEY_BYTES} bytes, got ${publicKey.length}`)
  const bytes = Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), Buffer.of(type), publicKey])
  return hash('sha256', bytes, 'hex').slice(0, 8)
}
/** Writes a verifier key (C2SP signed-note). @throws TypeError as noteKeyId() does */
function formatVkey(key) {
  return `${key.name}+${noteKeyId(key)}+${Buffer.concat([Buffer.of(key.type), key.publicKey]).toString('base64')}`
}
/**
 * Parses a vkey.
 *
 * @throws TypeError for anything but one of an Ed25519 key, exactly as formatVkey() writes it
 */
function parseVkey(vkey) {
  const wrong = /* @__PURE__ */ new TypeError(
    '"vkey" expected <name>+<key id>+<base64 of type and Ed25519 key>',
  )
  const [name = '', , ...rest] = typeof vkey === 'string' ? vkey.split('+') : []
  const bytes = fromBase64(rest.join('+'))
  const type = Object.values(NOTE_KEY).find((value) => value === bytes?.[0])
  if (bytes?.length !== 1 + PUBLIC_KEY_BYTES || type === void 0 || !isNoteName(name)) throw wrong
  const key = {
    name,
    type,
    publicKey: new Uint8Array(bytes.subarray(1)),
  }
  if (formatVkey(key) !== vkey) throw wrong
  return key
}
/**
 * Parses a vkey of a type that isn't known here, whatever the length of its key.
 *
 * @returns undefined if it isn't one
 */
function parseUnknownVkey(vkey) {
  const [name = '', id, ...rest] = vkey.split('+')
  const bytes = fromBase64(rest.join('+'))
  const isKnown = Object.values(NOTE_KEY).some((type) => type === bytes?.[0])
  if (bytes === void 0 || bytes.length < 2 || isKnown || !isNoteName(name)) return void 0
  if (hash('sha256', Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), bytes]), 'hex').slice(0, 8) !== id)
    return void 0
  return {
    name,
    type: 'unknown',
    publicKey: new Uint8Array(bytes.subarray(1)),
  }
}
/** The bytes that a cosignature covers (C2SP tlog-cosignature). @param at Unix seconds */
function cosignedBytes(text, at) {
  assertText(text)
  return Buffer.from(`cosignature/v1\ntime ${at}\n${text}`, 'utf8')
}
/**
 * The same for whoever looks for lines of known keys alone: a line that is no signature is passed over, as
 * one of an unknown key is.
 *
 * @throws TypeError for anything that is not a signed note
 */
function parseNoteOfAnyLines(note) {
  const { text, lines } = splitNote(note)
  const signatures = []
  for (const line of lines)
    try {
      signatures.push(parseSignatureLine(line))
    } catch {}
  return {
    text,
    signatures,
  }
}
/** @throws TypeError for anything that is not a signed note */
function splitNote(note) {
  if (typeof note !== 'string' || note.length > MAX_NOTE_CHARACTERS)
    throw new TypeError('"note" expected a signed note')
  const end = note.lastIndexOf('\n\n')
  if (end < 0 || !note.endsWith('\n') || !note.isWellFormed())
    throw new TypeError('"note" expected a text, an empty line and signature lines')
  const text = note.slice(0, end + 1)
  assertText(text)
  const lines = note.slice(end + 2, -1).split('\n')
  if (lines.length > MAX_SIGNATURES)
    throw new TypeError(`"note" expected at most ${MAX_SIGNATURES} signature lines`)
  return {
    text,
    lines,
  }
}
/**
 * Takes a signature line apart; verifies nothing.
 *
 * @param line without its line feed
 * @throws TypeError for anything but a signature line
 */
function parseSignatureLine(line) {
  const [dash, name = '', encoded = '', ...rest] = typeof line === 'string' ? line.split(' ') : []
  const bytes = fromBase64(encoded)
  if (
    dash !== '—' ||
    rest.length > 0 ||
    !isNoteName(name) ||
    bytes === void 0 ||
    bytes.length <= KEY_ID_BYTES
  )
    throw new TypeError('"line" expected — <name> <base64 of key id and signature>')
  return {
    name,
    keyId: bytes.toString('hex', 0, KEY_ID_BYTES),
    signature: new Uint8Array(bytes.subarray(KEY_ID_BYTES)),
    line,
  }
}
/** Whether a line claims to be by a key: it has the key's name and id. */
const isLineOf = ({ name, keyId }, key) => name === key.name && keyId === noteKeyId(key)
/** As verifyNote(), with the caller's own check of a signature. */
function verifyNoteBy(verify, note, key) {
  const lines = note.signatures.filter((signature) => isLineOf(signature, key))
  const isGood = ({ signature }) =>
    key.type === NOTE_KEY.signer &&
    signature.length === SIGNATURE_BYTES &&
    verify(signature, Buffer.from(note.text, 'utf8'), key.publicKey)
  return lines.length > 0 && lines.every(isGood)
}
/** As verifyCosignature(), with the caller's own check of a signature. */
function verifyCosignatureBy(verify, text, line, key) {
  if (
    key.type !== NOTE_KEY.cosigner ||
    !isLineOf(line, key) ||
    line.signature.length !== TIME_BYTES + SIGNATURE_BYTES
  )
    return void 0
  const at = Number(Buffer.from(line.signature.subarray(0, TIME_BYTES)).readBigUInt64BE())
  if (!Number.isSafeInteger(at)) return void 0
  return verify(line.signature.subarray(TIME_BYTES), cosignedBytes(text, at), key.publicKey) ? at : void 0
}
/**
 * Parses the text of a checkpoint.
 *
 * @throws TypeError for a text that is not a checkpoint; extension lines after the third are refused, since
 *   nobody audits them
 */
function parseCheckpoint(text) {
  const [origin = '', size = '', encoded = '', end, ...rest] = text.split('\n')
  const root = fromBase64(encoded)
  if (
    end !== '' ||
    rest.length > 0 ||
    !isNoteName(origin) ||
    !DECIMAL.test(size) ||
    !Number.isSafeInteger(Number(size)) ||
    root?.length !== HASH_BYTES
  )
    throw new TypeError('"text" expected a checkpoint: origin, size and base64 root, a line each')
  return {
    origin,
    size: Number(size),
    root: new Uint8Array(root),
  }
}
const PROOF_HEADER = 'c2sp.org/tlog-proof@v1'
/**
 * Parses the text of C2SP tlog-proof. An `extra` line is ignored, and the checkpoint isn't parsed.
 *
 * @throws TypeError for any other text
 */
function parseLogProof(proof) {
  const wrong = /* @__PURE__ */ new TypeError('"proof" expected the text of a tlog-proof')
  const end = typeof proof === 'string' ? proof.indexOf('\n\n') : -1
  if (end < 0 || proof.length > MAX_NOTE_CHARACTERS) throw wrong
  const [header, ...lines] = proof.slice(0, end).split('\n')
  if (lines[0]?.startsWith('extra ')) lines.shift()
  const [, index = ''] = /^index (.*)$/.exec(lines.shift() ?? '') ?? []
  const path = lines.map(fromBase64)
  if (header !== PROOF_HEADER || !DECIMAL.test(index) || !path.every((step) => step?.length === HASH_BYTES))
    throw wrong
  return {
    index: Number(index),
    path,
    checkpoint: proof.slice(end + 2),
  }
}
/** Decodes base64 (RFC 4648 section 4); undefined for anything but the one canonical text of its bytes. */
function fromBase64(text) {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : void 0
}
/**
 * @throws TypeError unless `text` can be that of a note: lines without control characters, each with a line
 *   feed
 */
function assertText(text) {
  if (
    typeof text !== 'string' ||
    !text.endsWith('\n') ||
    /[^\P{Cc}\n\u007f-\u009f]/u.test(text) ||
    !text.isWellFormed()
  )
    throw new TypeError('"text" expected lines of text, each with a line feed')
}

// shared/crypto/log-policy.ts
const NONE = 'none'
/** At most this many logs, this many witnesses and this many groups. */
const MAX_ROWS = 256
/** Parses a policy (C2SP tlog-policy). @throws TypeError that says which line is wrong, and why */
function parseLogPolicy(text) {
  const logs = []
  const witnesses = []
  const groups = []
  let quorum
  const grouped = /* @__PURE__ */ new Set()
  const isDefined = (name) => [...witnesses, ...groups].some((row) => row.name === name)
  for (const [at, line] of text.split('\n').entries()) {
    const refuse = (sentence) => /* @__PURE__ */ new TypeError(`line ${at + 1} of the policy: ${sentence}`)
    const [word, ...items] = line.split(/[ \t]+/).filter((item) => item !== '')
    if (word === void 0 || word.startsWith('#')) continue
    const name = items[0] ?? ''
    const assertUnused = () => {
      if (name === '' || name === NONE || isDefined(name))
        throw refuse(`expected a name that nothing else has, got "${name}"`)
    }
    /** Parses a key of this type that isn't among `others`. */
    const parseNewKey = (vkey, type, others) => {
      const key = readVkey(vkey, refuse)
      if (key.type !== 'unknown' && key.type !== type)
        throw refuse(`the vkey of ${key.name} is of another type`)
      if (others.some(({ publicKey }) => Buffer.compare(publicKey, key.publicKey) === 0))
        throw refuse(`the key of ${key.name} is there twice`)
      return key
    }
    if (logs.length > MAX_ROWS || witnesses.length > MAX_ROWS || groups.length > MAX_ROWS)
      throw refuse(`expected at most ${MAX_ROWS} of each`)
    switch (word) {
      case 'log':
        if (items.length < 1 || items.length > 2) throw refuse('expected log <vkey> [<url>]')
        logs.push(parseNewKey(items[0], NOTE_KEY.signer, logs))
        break
      case 'witness': {
        const [, vkey, url] = items
        if (items.length < 2 || items.length > 3) throw refuse('expected witness <name> <vkey> [<url>]')
        assertUnused()
        const others = witnesses.map((witness) => witness.key)
        const key = parseNewKey(vkey, NOTE_KEY.cosigner, others)
        witnesses.push(
          url === void 0
            ? {
                name,
                key,
              }
            : {
                name,
                key,
                url,
              },
        )
        break
      }
      case 'group': {
        const [, howMany = '', ...members] = items
        assertUnused()
        const threshold = parseThreshold(howMany, members.length)
        if (threshold < 1 || threshold > members.length)
          throw refuse('expected group <name> all|any|<k> <name>..., k of them at most')
        for (const member of members) {
          if (!isDefined(member)) throw refuse(`"${member}" is defined on no line before`)
          if (grouped.has(member)) throw refuse(`"${member}" is a member twice`)
          grouped.add(member)
        }
        groups.push({
          name,
          threshold,
          members,
        })
        break
      }
      case 'quorum':
        if (items.length !== 1 || quorum !== void 0) throw refuse('expected one line quorum <name>')
        if (name !== NONE && !isDefined(name)) throw refuse(`"${name}" is defined on no line before`)
        quorum = name
        break
      default:
        throw refuse(`expected log, witness, group or quorum, got "${word}"`)
    }
  }
  if (quorum === void 0) throw new TypeError('the policy has no line quorum <name>')
  return {
    logs,
    witnesses,
    groups,
    quorum,
  }
}
/** How many members of a group must cosign, by the word `all`, `any` or a number; 0 for any other word. */
function parseThreshold(word, members) {
  if (word === 'all') return members
  if (word === 'any') return 1
  return /^[1-9]\d{0,3}$/.test(word) ? Number(word) : 0
}
/**
 * Parses a vkey. One of a type that isn't known here, as newer policies may have, is a key that nothing is
 * ever signed by.
 *
 * @throws the error that `refuse` makes of what is wrong with it
 */
function readVkey(vkey, refuse) {
  try {
    return parseUnknownVkey(vkey ?? '') ?? parseVkey(vkey ?? '')
  } catch (error) {
    throw refuse(error.message)
  }
}
/** Whether these witnesses suffice for the policy's quorum. @param cosigners names of those that cosigned */
function meetsQuorum({ groups, quorum }, cosigners) {
  const isMet = (name) => {
    const group = groups.find((candidate) => candidate.name === name)
    return group === void 0 ? cosigners.has(name) : group.members.filter(isMet).length >= group.threshold
  }
  return quorum === NONE || isMet(quorum)
}

// shared/crypto/log-tree.ts
/** The root of a log without entries: SHA-256 of nothing (RFC 6962 section 2.1). */
const EMPTY_LOG_ROOT = Buffer.from(hash('sha256', '', 'binary'), 'latin1')
const preimage = Buffer.alloc(1 + 2 * HASH_BYTES, 1)
/**
 * The hash of a node of the log's tree, from those of its children.
 *
 * @throws TypeError unless both have 32 bytes
 */
function logNodeHash(left, right) {
  assertHash('left', left)
  assertHash('right', right)
  preimage.set(left, 1)
  preimage.set(right, 1 + HASH_BYTES)
  return Buffer.from(hash('sha256', preimage, 'binary'), 'latin1')
}
/**
 * Whether `leaf` is number `index` (from 0) in the log of this size and root (RFC 9162 section 2.1.3.2, whose
 * fn and sn are `place` and `last`). Doesn't throw.
 *
 * @param proof `path` as logInclusionPath() gives it
 */
function verifyLogInclusion(proof) {
  const { leaf, index, size, path, root } = proof
  if (!isSize(size) || !isSize(index) || index >= size || ![leaf, root, ...path].every(isHash)) return false
  let [place, last] = [index, size - 1]
  let running = leaf
  for (const sibling of path) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      running = logNodeHash(sibling, running)
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)]
    } else running = logNodeHash(running, sibling)
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 && Buffer.compare(running, root) === 0
}
/**
 * Whether the log `to` begins with the log `from` (RFC 9162 section 2.1.4.2, whose fn and sn are `place` and
 * `last`). Every log begins with the empty one. Doesn't throw.
 *
 * @param path as logConsistencyPath() gives it; nothing may be left over
 */
function verifyLogConsistency(from, to, path) {
  if (
    !isSize(from.size) ||
    !isSize(to.size) ||
    from.size > to.size ||
    ![from.root, to.root, ...path].every(isHash)
  )
    return false
  const hasWrongEmptyRoot = (head) => head.size === 0 && Buffer.compare(head.root, EMPTY_LOG_ROOT) !== 0
  if (hasWrongEmptyRoot(from) || hasWrongEmptyRoot(to)) return false
  if (from.size === to.size) return path.length === 0 && Buffer.compare(from.root, to.root) === 0
  if (from.size === 0) return path.length === 0
  let [place, last] = [from.size - 1, to.size - 1]
  while (place % 2 === 1) [place, last] = [(place - 1) / 2, Math.floor(last / 2)]
  const [first, ...siblings] = place === 0 ? [from.root, ...path] : path
  if (first === void 0) return false
  let [older, newer] = [first, first]
  for (const sibling of siblings) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      older = logNodeHash(sibling, older)
      newer = logNodeHash(sibling, newer)
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)]
    } else newer = logNodeHash(newer, sibling)
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 && Buffer.compare(older, from.root) === 0 && Buffer.compare(newer, to.root) === 0
}
const isSize = (size) => Number.isSafeInteger(size) && size >= 0
const isHash = (value) => value instanceof Uint8Array && value.length === HASH_BYTES
function assertHash(name, value) {
  if (!isHash(value)) throw new TypeError(`"${name}" expected 32 bytes`)
}

// client/verify/light.ts
const MAX_LOG_PATH = 128
const bytesOf = (hex) => Buffer.from(hex, 'hex')
/** Reads a checkpoint, of which nothing is verified. @throws Refused `wrong_checkpoint` */
function readCheckpoint(note) {
  try {
    const parsed = parseNoteOfAnyLines(note)
    const { origin, size, root } = parseCheckpoint(parsed.text)
    return {
      origin,
      size,
      root: Buffer.from(root).toString('hex'),
      note,
      parsed,
    }
  } catch (error) {
    throw error instanceof TypeError ? refusal('wrong_checkpoint.form', error.message) : error
  }
}
/** Whether one of these keys (64 hex characters) has signed a checkpoint, under the name of its log. */
const isSignedLog = ({ origin, parsed }, pubkeys) =>
  [...pubkeys].some((pubkey) =>
    verifyNoteBy(isSignedBy, parsed, {
      name: origin,
      type: NOTE_KEY.signer,
      publicKey: bytesOf(pubkey),
    }),
  )
/** Reads a checkpoint that one of these keys must have signed. @throws Refused `wrong_checkpoint` */
function verifyCheckpoint(note, pubkeys) {
  const log = readCheckpoint(note)
  if (!isSignedLog(log, pubkeys)) throw refusal('wrong_checkpoint.signer')
  return log
}
/** At most so many witnesses are asked for by name. */
const MAX_WITNESSES_ASKED = 30
/** The vkeys of a policy's witnesses, whose lines a service is asked for, so that others can't crowd them out. */
const witnessesOf = (policy) =>
  (policy?.witnesses ?? [])
    .flatMap(({ key }) => (key.type === 'unknown' ? [] : [formatVkey(key)]))
    .slice(0, MAX_WITNESSES_ASKED)
/** The keys of the logs that a policy names, 64 hex characters each. */
const logKeysOf = (policy) =>
  (policy?.logs ?? []).flatMap(({ type, publicKey }) =>
    type === 'unknown' ? [] : [Buffer.from(publicKey).toString('hex')],
  )
/**
 * Finds the policy's witnesses that cosigned a note: by their names, the time of each one's newest
 * cosignature.
 *
 * @param now a cosignature from the future doesn't count. Infinity: they all do
 */
function findCosigners(policy, note, now = Infinity) {
  const newestTimes = /* @__PURE__ */ new Map()
  for (const { name, key } of policy.witnesses) {
    if (key.type === 'unknown') continue
    const times = note.signatures
      .flatMap((line) => verifyCosignatureBy(isSignedBy, note.text, line, key) ?? [])
      .filter((at) => at <= now + MAX_CLOCK_SKEW_SECONDS)
    if (times.length > 0) newestTimes.set(name, Math.max(...times))
  }
  return newestTimes
}
const NO_SUPPORT = {
  checkpoints: [],
  covered: 0,
  upTo: 0,
  madeAt: void 0,
  seenSize: null,
}
/**
 * Says what a verdict rests on, and why that isn't enough.
 *
 * @param maxAge seconds; undefined: any age
 */
function judgeSupport(policy, support, key, { now, maxAge }) {
  const { checkpoints } = support
  const newest = checkpoints.reduce((one, other) => (other.size > (one?.size ?? -1) ? other : one), void 0)
  const cosigners = new Map(policy && newest && findCosigners(policy, newest.parsed, now))
  for (const { parsed } of checkpoints) {
    const own = policy && findCosigners(policy, parsed, now)
    for (const name of cosigners.keys()) if (own?.has(name) !== true) cosigners.delete(name)
  }
  const names = [...cosigners.keys()]
  const cosignedAt = names.length > 0 ? Math.max(...cosigners.values()) : void 0
  return {
    rests: {
      key,
      cosigned_by: names,
      ...(newest === void 0 || cosignedAt === void 0
        ? {}
        : {
            cosigned_size: newest.size,
            cosigned_at: cosignedAt,
          }),
      quorum: policy?.quorum ?? null,
      seen_size: support.seenSize,
    },
    doubts: [
      ...(policy === void 0 ? [] : policyDoubts(policy, checkpoints, names, newest, now)),
      ...coverDoubts(support, names.length > 0),
      ...ageDoubts(cosignedAt, support.madeAt, now, maxAge),
    ],
  }
}
/** Why checkpoints that these witnesses cosigned are not enough for a policy. */
function policyDoubts(policy, checkpoints, names, newest, now) {
  const foreign = checkpoints.find(({ origin }) => policy.logs.every(({ name }) => name !== origin))
  if (policy.logs.length > 0 && foreign !== void 0) return [say('other_log', show(foreign.origin))]
  const { quorum } = policy
  if (meetsQuorum(policy, new Set(names))) return []
  if (newest === void 0) return [say('quorum_not_met.no_checkpoint', quorum, '')]
  const inTime = findCosigners(policy, newest.parsed, now)
  const early = [...findCosigners(policy, newest.parsed).keys()].filter((name) => !inTime.has(name))
  const clocks = early.length === 0 ? '' : say('quorum_not_met.ahead', early.join(', ')).message
  return names.length === 0
    ? [say('quorum_not_met.none', quorum, clocks)]
    : [say('quorum_not_met.some', names.join(', '), quorum, clocks)]
}
/** A checkpoint says nothing of the entries behind it: an old one must not vouch for a fork. */
function coverDoubts({ checkpoints, covered, upTo }, isCosigned) {
  if (checkpoints.length === 0 || covered >= upTo) return []
  return [say(isCosigned ? 'not_cosigned_yet.cosigned' : 'not_cosigned_yet.shown', covered, upTo)]
}
/** What witnesses cosigned is as old as the newest cosignature; anything else, as the newest seal says. */
function ageDoubts(cosignedAt, madeAt, now, maxAge) {
  const at = cosignedAt ?? madeAt
  if (at === void 0 || maxAge === void 0 || now - at <= maxAge) return []
  return [say(cosignedAt === void 0 ? 'stale.seal' : 'stale.cosignature', now - at, maxAge)]
}
/** The proof in an answer to GET /ledger/consistency, which may be anything. */
const readConsistency = (answer) =>
  isObject(answer)
    ? {
        root: answer['from_root'],
        path: answer['hashes'],
      }
    : {}
function isConsistent(from, to, path) {
  return (
    Array.isArray(path) &&
    path.length <= MAX_LOG_PATH &&
    path.every(isHexHash$1) &&
    verifyLogConsistency(
      {
        size: from.size,
        root: bytesOf(from.root),
      },
      {
        size: to.size,
        root: bytesOf(to.root),
      },
      path.map(bytesOf),
    )
  )
}
const inOrder = (one, other) => (one.size <= other.size ? [one, other] : [other, one])
/**
 * Compares a log with the one that was seen.
 *
 * @param proof that the larger goes on from the smaller; undefined if the caller has none
 * @throws Refused `log_rewritten`
 */
function connectLogs(seen, shown, proof) {
  const [from, to] = inOrder(seen, shown)
  if (from.size === to.size && from.root === to.root) return 'same'
  if (from.size !== to.size && proof === void 0) return from.size > 0 ? 'not_checked' : 'consistent'
  if (from.size !== to.size && isConsistent(from, to, proof?.path)) return 'consistent'
  throw refusal('log_rewritten.log', shown.size, shown.root, seen.size, seen.root)
}
/**
 * Whether two logs contradict each other: they have one size and two roots, or the proof shows that the
 * larger begins with another log of the smaller's size.
 */
function isContradiction(from, to, consistency) {
  if (from.size === to.size) return from.root !== to.root
  const { root, path } = isObject(consistency) ? consistency : {}
  return (
    isHexHash$1(root) &&
    root !== from.root &&
    from.size > 0 &&
    isConsistent(
      {
        ...from,
        root,
      },
      to,
      path,
    )
  )
}
/**
 * Makes evidence for anybody of two checkpoints that contradict each other.
 *
 * @param pubkeys of which one must have signed both
 * @returns undefined if it can't be shown
 */
function logForkOf(seen, shown, proof, pubkeys) {
  if (!('note' in seen) || !('note' in shown)) return void 0
  const [from, to] = inOrder(seen, shown)
  const pubkey = [...pubkeys].find((key) => [from, to].every((side) => isSignedLog(side, [key])))
  const consistency = from.size === to.size ? {} : { consistency: proof ?? {} }
  return pubkey === void 0 || !isContradiction(from, to, proof)
    ? void 0
    : {
        kind: 'log_fork',
        pubkey,
        notes: [from.note, to.note],
        ...consistency,
      }
}
/** Reads the text of a C2SP tlog-proof, of which nothing is verified. @throws Refused `wrong_log_proof` */
function readLogProof(text) {
  try {
    const proof = parseLogProof(text)
    if (proof.path.length <= MAX_LOG_PATH) return proof
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
  throw refusal('wrong_log_proof.text')
}
/**
 * Verifies that the log of a checkpoint has an entry at the place that the proof names.
 *
 * @param leaf the entry's, 64 hex characters
 * @throws Refused `wrong_log_proof`
 */
function verifyPlace(entryId, leaf, { index, path }, log) {
  const place = {
    leaf: bytesOf(leaf),
    index,
    path,
    size: log.size,
    root: bytesOf(log.root),
  }
  if (index !== entryId - 1 || !verifyLogInclusion(place)) throw refusal('wrong_log_proof.path', entryId)
}
/**
 * Compares an entry whose place in a log is verified with the log that was seen. If that is no larger, it needs
 * no other proof: the subtree of the seen log that has the entry is a part of the larger log too, so the path
 * leads through its root.
 *
 * @param seen its size, and the roots of its complete subtrees, the largest first
 * @returns `same` if it is in both; `not_checked` if it lies beyond the seen log, or that is larger
 * @throws Refused `log_rewritten`
 */
function connectEntry(entryId, leaf, { index, path }, log, seen) {
  if (seen === void 0 || entryId > seen.size || log.size < seen.size) return 'not_checked'
  let [from, width, place] = [0, 2 ** 52, 0]
  for (; width >= 1; width /= 2) {
    if (Math.floor(seen.size / width) % 2 === 0) continue
    if (index < from + width) break
    from += width
    place++
  }
  let running = bytesOf(leaf)
  let step = 0
  for (let below = 1; below < width; below *= 2) {
    const sibling = path[step++] ?? running
    running =
      Math.floor(index / below) % 2 === 1 ? logNodeHash(sibling, running) : logNodeHash(running, sibling)
  }
  if (Buffer.from(running).toString('hex') === seen.frontier[place]) return 'same'
  throw refusal('log_rewritten.entry', entryId, seen.size)
}

// shared/crypto/seal-payload.ts
const HEX_HASH$1 = /^[0-9a-f]{64}$/
const WHOLE_FIELDS = ['seq', 'at', 'count', 'from_id', 'to_id']
/**
 * Writes the text that is signed: canonical JSON of exactly `at, count, from_id, prev_root, root, seq,
 * to_id`, to be encoded as UTF-8. A verifier always rebuilds it from the fields.
 *
 * @throws TypeError naming the field that is missing or has the wrong form
 */
function sealPayload(seal) {
  for (const field of WHOLE_FIELDS)
    if (!Number.isSafeInteger(seal[field]) || seal[field] < 0)
      throw new TypeError(`"${field}" expected a whole number from 0, got ${JSON.stringify(seal[field])}`)
  if (!isHexHash(seal.root))
    throw new TypeError(`"root" expected 64 lower-case hex characters, got ${JSON.stringify(seal.root)}`)
  if (seal.prev_root !== null && !isHexHash(seal.prev_root))
    throw new TypeError(
      `"prev_root" expected 64 lower-case hex characters or null, got ${JSON.stringify(seal.prev_root)}`,
    )
  const { at, count, from_id, prev_root, root, seq, to_id } = seal
  return canonicalJson({
    at,
    count,
    from_id,
    prev_root,
    root,
    seq,
    to_id,
  })
}
function isHexHash(value) {
  return typeof value === 'string' && HEX_HASH$1.test(value)
}

// client/verify/seals.ts
/** Reads a seal. @throws Refused `malformed_seal` */
function readSeal(value) {
  if (!isObject(value)) throw refusal('malformed_seal.form')
  let payload
  try {
    payload = sealPayload(value)
  } catch (error) {
    throw refusal('malformed_seal.fields', error instanceof Error ? error.message : error)
  }
  const { signed, signature, pubkey, algo, signed_at: signedAt } = value
  if (signed === true) {
    if (!(
      decodeSignature(signature) !== void 0 &&
      isHexHash$1(pubkey) &&
      algo === 'ed25519' &&
      isWhole(signedAt)
    ))
      throw refusal('malformed_seal.signature')
  } else if (signed !== false || (signature ?? null) !== null) throw refusal('malformed_seal.signed')
  return {
    seal: value,
    payload,
  }
}
const sha256Hex = (data) => hash('sha256', data, 'hex')
/**
 * Which keys are accepted: the pinned ones, else the remembered ones, else the first that is seen, which
 * binds nobody.
 */
var Keyring = class {
  trust
  accepted
  seen = /* @__PURE__ */ new Set()
  #last
  constructor(pinned, remembered) {
    this.trust = pinned.length > 0 ? 'pinned' : remembered.length > 0 ? 'remembered' : 'first_seen'
    this.accepted = new Set(pinned.length > 0 ? pinned : remembered)
  }
  /** @throws Refused if a key isn't accepted; once for a key that signs several seals in a row */
  check(pubkey) {
    if (this.accepted.size === 0) this.accepted.add(pubkey)
    this.seen.add(pubkey)
    const isRepeated = pubkey === this.#last
    this.#last = pubkey
    if (this.accepted.has(pubkey) || isRepeated) return
    throw this.trust === 'pinned'
      ? refusal('wrong_key', pubkey)
      : refusal('key_changed', pubkey, [...this.accepted].join(' or '))
  }
}
const hasSigned = ({ seal, payload }) =>
  seal.signed &&
  isSignedBy(
    Buffer.from(seal.signature, 'base64'),
    Buffer.from(payload, 'utf8'),
    Buffer.from(seal.pubkey, 'hex'),
  )
/** Checks whose key signed a seal, and the signature; adds what does not hold to the findings. */
function checkSignature(read, keyring, findings, where) {
  const { seal } = read
  if (!seal.signed) return
  if (seal.signed_at < seal.at) findings.add(where, 'signed_before_made', seal.signed_at, seal.at)
  findings.run(where, () => keyring.check(seal.pubkey))
  if (isWeakKey(seal.pubkey)) findings.add(where, 'weak_key', seal.pubkey)
  else if (!hasSigned(read)) findings.add(where, 'bad_signature', seal.pubkey)
}
/** Checks what a seal says by itself: its range, its count and its time, and that the first begins the chain. */
function checkSealAlone(seal, now, findings, where) {
  const { seq, count, from_id: from, to_id: to, prev_root: previous } = seal
  if (count < 1 || count !== to - from + 1) findings.add(where, 'wrong_count', count, from, to)
  if (seq === 1 && from !== 1) findings.add(where, 'range_gap.first', from)
  if (seq === 1 && previous !== null) findings.add(where, 'wrong_prev_root.first')
  if (seq > 1 && previous === null) findings.add(where, 'wrong_prev_root.none')
  findings.addTime(where, seal, now)
}
/** Checks what a seal says about one that stands before it. */
function checkSealLink(previous, seal, findings, where) {
  const { seq, at, from_id: from, prev_root: root } = seal
  if (at < previous.at) findings.add(where, 'at_goes_back', at, previous.at, previous.seq)
  if (seq !== previous.seq + 1) return
  if (from !== previous.to_id + 1) findings.add(where, 'range_gap.next', from, previous.to_id + 1)
  if (root !== null && root !== previous.root)
    findings.add(where, 'wrong_prev_root.other', root, previous.seq, previous.root)
}
/** The fields of a seal that prove who signed what. */
const signedSide = ({ seal }) => {
  const { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey } = seal
  return {
    seq,
    at,
    count,
    from_id,
    to_id,
    root,
    prev_root,
    signature,
    pubkey,
  }
}
/** Makes evidence for anybody of two different seals of one number; undefined unless accepted keys signed both. */
function sealForkOf(seen, shown, keyring) {
  const isProof = (read) => read.seal.signed && keyring.accepted.has(read.seal.pubkey) && hasSigned(read)
  return isProof(seen) && isProof(shown)
    ? {
        kind: 'fork',
        sides: [signedSide(seen), signedSide(shown)],
      }
    : void 0
}

// client/verify/money.ts
const AMOUNT = /^[0-9]{1,60}$/
const SUM = /^(0|-?[1-9][0-9]{0,77})$/
const isAmount = (text) => typeof text === 'string' && AMOUNT.test(text)
const isSum = (text) => typeof text === 'string' && SUM.test(text)
const isCoin = (coin) => typeof coin === 'string' && ['xno', 'xmr'].includes(coin)
/** By how many times an amount of its own an entry changes the sum owed. */
function owedTimes({ kind, data }) {
  const { step } = data
  if (kind === 'payment' && Object.hasOwn(data, 'order_id')) return step === 'undone' ? -1n : 1n
  if (kind === 'fee') return step === 'returned' ? 1n : -1n
  if (kind === 'payout' && Object.hasOwn(data, 'undoes')) return 1n
  return (kind === 'payout' && (step === 'confirmed' || step === 'manual')) || kind === 'dispute_outcome'
    ? -1n
    : 0n
}
/**
 * What an entry adds to the sum owed of its coin: a payment for an order is owed from when it is counted until the fee
 * is taken, a payout has arrived, or the operator writes off what the chain took back. A payment's step
 * `undone` takes it back, and a payout's step that `undoes` an earlier one owes it again.
 *
 * @returns undefined if its coin or amount can't be read: then it counts as nothing
 */
function owedChange(entry) {
  const times = owedTimes(entry)
  const { coin, amount_raw: raw, written_off_raw: writtenOff } = entry.data
  const amount = entry.kind === 'dispute_outcome' ? writtenOff : raw
  if (times === 0n) return 0n
  if (!isAmount(amount)) return void 0
  return BigInt(amount) === 0n || isCoin(coin) ? times * BigInt(amount) : void 0
}
/** The sums that a closing entry states; undefined if it states none in the right form. */
function readOwed(owed) {
  const { xno, xmr } = isObject(owed) ? owed : {}
  return isSum(xno) && isSum(xmr)
    ? {
        xno: BigInt(xno),
        xmr: BigInt(xmr),
      }
    : void 0
}
const showOwed = ({ xno, xmr }) => ({
  xno: String(xno),
  xmr: String(xmr),
})
/** Whose money a venue holds. `orders` and `owed` together are what closing entries state as `owed`. */
const PARTS = ['orders', 'owed', 'invoices', 'remainders', 'unassigned']
const NO_PARTS = {
  orders: 0n,
  owed: 0n,
  invoices: 0n,
  remainders: 0n,
  unassigned: 0n,
}
const NO_LIABILITIES = {
  xno: NO_PARTS,
  xmr: NO_PARTS,
}
/**
 * The liabilities after an entry. A move of money changes the parts that it names, of those that no other entries give;
 * a payout moves its amount between `orders` and `owed`; whatever else changes the sum owed changes `orders`.
 *
 * @param met payouts that were owed before; a ledger that states liabilities says so in the entry instead. This one is
 *   added.
 * @returns undefined if its coin or amount can't be read: then it changes nothing
 */
function addToLiabilities(before, entry, met) {
  const { kind, data } = entry
  const { coin, step, payout_id: payoutId } = data
  const isOwed = kind === 'payout' && step === 'owed' && !Object.hasOwn(data, 'again')
  const changes = changesOf(entry, isOwed && met?.has(payoutId) !== true)
  const isChange = changes !== void 0 && Object.values(changes).some((change) => change !== 0n)
  if (changes === void 0 || (isChange && !isCoin(coin))) return void 0
  if (isOwed && typeof payoutId === 'string') met?.add(payoutId)
  if (!isChange || !isCoin(coin)) return before
  const parts = PARTS.map((part) => [part, before[coin][part] + (changes[part] ?? 0n)])
  return {
    ...before,
    [coin]: Object.fromEntries(parts),
  }
}
/** What an entry adds to each part; undefined if that can't be read. */
function changesOf(entry, isFirstOwed) {
  const { kind, data } = entry
  const raw = isAmount(data['amount_raw']) ? BigInt(data['amount_raw']) : void 0
  if (kind === 'money_move') {
    const { from, to } = data
    const sumOf = (part) => (raw ?? 0n) * (BigInt(to === part) - BigInt(from === part))
    const [invoices, remainders, unassigned] = ['invoices', 'remainders', 'unassigned'].map(sumOf)
    return raw === void 0
      ? void 0
      : {
          invoices,
          remainders,
          unassigned,
        }
  }
  const sum = owedChange(entry)
  const sign = kind === 'payout' ? namedSign(data, isFirstOwed) : 0n
  if (sum === void 0 || (sign !== 0n && raw === void 0)) return void 0
  const owed = sign * (raw ?? 0n)
  return {
    owed,
    orders: sum - owed,
  }
}
/** By how many times its amount a payout's entry changes what is owed to somebody by name. */
function namedSign(data, isFirstOwed) {
  if (isFirstOwed || Object.hasOwn(data, 'undoes')) return 1n
  return ['confirmed', 'manual', 'withdrawn'].includes(data['step']) ? -1n : 0n
}
/** The liabilities that a closing entry states; undefined if it states none in the right form. */
function readLiabilities(stated) {
  const read = (coin) => {
    const parts = isObject(stated) ? memberOf(stated, coin) : void 0
    const sums = isObject(parts) ? PARTS.map((part) => memberOf(parts, part)) : []
    if (sums.length === 0 || !sums.every(isSum)) return void 0
    return Object.fromEntries(PARTS.map((part, place) => [part, BigInt(sums[place] ?? 0)]))
  }
  const [xno, xmr] = [read('xno'), read('xmr')]
  return xno === void 0 || xmr === void 0
    ? void 0
    : {
        xno,
        xmr,
      }
}
/** What closing entries state as `owed`. */
const owedOf = ({ xno, xmr }) => ({
  xno: xno.orders + xno.owed,
  xmr: xmr.orders + xmr.owed,
})
/** As closing entries state them. */
const showLiabilities = (liabilities) =>
  Object.fromEntries(
    Object.entries(liabilities).map(([coin, parts]) => [
      coin,
      Object.fromEntries(PARTS.map((part) => [part, String(parts[part])])),
    ]),
  )
/** Of the price of an order. */
const FEE_PERCENT = 20n
const OPEN = ['awaiting_payment', 'paid', 'delivered', 'disputed']
const UNKNOWN = {
  held: 0n,
  fee: -1n,
  taken: 0n,
  percent: 100n,
  isOpen: false,
}
const ORDER = /^(-?[0-9]{1,78} ){4}[01]$/
const showOrder = ({ isOpen, ...sums }) => [...Object.values(sums), Number(isOpen)].join(' ')
function readOrder(text) {
  const [held = 0n, fee = 0n, taken = 0n, percent = 0n, isOpen] = text.split(' ').map(BigInt)
  return {
    held,
    fee,
    taken,
    percent,
    isOpen: isOpen === 1n,
  }
}
const isMoneyState = (value) =>
  isObject(value) &&
  typeof value['stated'] === 'boolean' &&
  readLiabilities(value['liabilities']) !== void 0 &&
  Array.isArray(value['met']) &&
  value['met'].every((id) => typeof id === 'string') &&
  isObject(value['orders']) &&
  Object.values(value['orders']).every((order) => typeof order === 'string' && ORDER.test(order))
/** The sums that the entries so far give, and the orders. */
var LedgerMoney = class LedgerMoney {
  /** Undefined once some entries aren't there, as are the orders. */
  #sums = NO_LIABILITIES
  #isStated = false
  #met = /* @__PURE__ */ new Set()
  /** By order and coin. */
  #orders = /* @__PURE__ */ new Map()
  /** Orders that hold less than nothing: whether they did at the end of a seal before. */
  #below = /* @__PURE__ */ new Map()
  /** Goes on from what is remembered. */
  static from({ stated, liabilities, met, orders }) {
    const money = new LedgerMoney()
    money.#sums = readLiabilities(liabilities)
    money.#isStated = stated
    money.#met = new Set(met)
    for (const [key, text] of Object.entries(orders)) {
      money.#setOrder(key, readOrder(text))
      if (money.#below.has(key)) money.#below.set(key, true)
    }
    return money
  }
  /** Forgets what follows from all entries, once some of them aren't there. */
  lose() {
    this.#sums = this.#orders = void 0
    this.#below.clear()
  }
  /** Undefined if some entries weren't there. */
  state() {
    if (!this.#sums || !this.#orders) return void 0
    const orders = Object.fromEntries([...this.#orders].map(([key, order]) => [key, showOrder(order)]))
    const [liabilities, met] = [showLiabilities(this.#sums), [...this.#met]]
    return {
      owed: showOwed(owedOf(this.#sums)),
      money: {
        stated: this.#isStated,
        liabilities,
        met,
        orders,
      },
    }
  }
  /** Adds an entry to the sums, and to its order. @returns whether what it says can be read */
  add(entry, findings) {
    const after = addToLiabilities(this.#sums ?? NO_LIABILITIES, entry, this.#isStated ? void 0 : this.#met)
    if (this.#sums !== void 0) this.#sums = after ?? this.#sums
    findings.run(`entry ${entry.id}`, () => this.#addToOrder(entry))
    return after !== void 0
  }
  /** @throws Refused `wrong_fee` */
  #addToOrder(entry) {
    const { kind, data } = entry
    const { order_id: id, coin, step, amount_raw: price, fee_raw: stated, status } = data
    if (this.#orders === void 0 || typeof id !== 'string') return
    if (typeof status === 'string')
      for (const key of [`${id} xno`, `${id} xmr`]) {
        const order = this.#orders.get(key)
        if (order !== void 0)
          this.#setOrder(key, {
            ...order,
            isOpen: OPEN.includes(status),
          })
      }
    if (!isCoin(coin)) return
    const key = `${id} ${coin}`
    const order = { ...(this.#orders.get(key) ?? UNKNOWN) }
    const change = owedChange(entry) ?? 0n
    order.held += change
    const isPlaced = kind === 'order' && step === 'ordered' && isAmount(price)
    const due = isPlaced ? (BigInt(price) * FEE_PERCENT) / 100n : 0n
    if (isPlaced && order.fee < 0n)
      Object.assign(order, {
        fee: due,
        isOpen: true,
      })
    if (kind === 'dispute_outcome') order.percent = percentOf(data) ?? order.percent
    if (kind === 'fee') order.taken -= change
    this.#setOrder(key, order)
    if (!this.#isStated) return
    if (isPlaced && stated !== String(due)) throw refusal('wrong_fee.stated', show(stated), due)
    const { fee, taken } = order
    const most = (fee * order.percent) / 100n
    if (kind === 'fee' && fee >= 0n && (taken < 0n || taken > most))
      throw refusal('wrong_fee.taken', show(id), taken, most)
  }
  /** Keeps an order, unless it is at its end. */
  #setOrder(key, order) {
    if (order.held === 0n && !order.isOpen) this.#orders?.delete(key)
    else this.#orders?.set(key, order)
    if (order.held >= 0n) this.#below.delete(key)
    else if (!this.#below.has(key)) this.#below.set(key, false)
  }
  /** Checks the sums that a closing entry states. What it states counts from then on, so that one false sum is one finding. */
  checkClosing(data, findings, where) {
    const own = this.#sums && showOwed(owedOf(this.#sums))
    const owed = readOwed(data['owed'])
    if (owed === void 0 || (own !== void 0 && JSON.stringify(showOwed(owed)) !== JSON.stringify(own)))
      findings.add(where, 'wrong_owed', show(data['owed']), own === void 0 ? 'two sums' : show(own))
    this.#isStated ||= Object.hasOwn(data, 'liabilities')
    if (this.#isStated) {
      const stated = readLiabilities(data['liabilities'])
      const [given, due] = [stated, this.#sums].map((sums) => sums && JSON.stringify(showLiabilities(sums)))
      if (given === void 0 || (due !== void 0 && given !== due))
        findings.add(where, 'wrong_liabilities', show(data['liabilities']), due ?? 'ten sums')
      this.#sums = stated
      this.#met.clear()
    } else {
      const orders = (coin, sums = (this.#sums ?? NO_LIABILITIES)[coin]) => ({
        ...sums,
        orders: (owed?.[coin] ?? 0n) - sums.owed,
      })
      this.#sums = owed && {
        xno: orders('xno'),
        xmr: orders('xmr'),
      }
    }
    for (const [key, wasBelow] of this.#below) {
      this.#below.set(key, true)
      if (!wasBelow || !this.#isStated) continue
      findings.add(where, 'order_overdrawn', show(key))
      this.#below.delete(key)
    }
  }
}
/** What a dispute's outcome leaves of the fee; undefined if it says nothing of it. */
function percentOf({ outcome, split_percent: percent }) {
  if (outcome === 'release') return 100n
  if (outcome === 'refund') return 0n
  if (outcome !== 'split') return void 0
  return Number.isSafeInteger(percent) && Number(percent) >= 0 && Number(percent) <= 100
    ? BigInt(Number(percent))
    : 100n
}

// client/verify/trees.ts
/** The hash of a node in a seal's tree, whose leaves are its entries. */
const sealNodeHash = (left, right) =>
  Buffer.from(hash('sha256', Buffer.concat([left, right]), 'binary'), 'latin1')
/**
 * A Merkle tree (RFC 6962 section 2.1) whose leaves are added one by one. It keeps the roots of its complete
 * subtrees alone, one for each bit of the count.
 */
var GrowingTree = class GrowingTree {
  count
  /** The largest first. */
  frontier
  #join
  /** A log that can grow, of what is remembered of it. */
  static ofLog({ size, frontier }) {
    return new GrowingTree(void 0, size, frontier)
  }
  /** @param frontier 64 hex characters each */
  constructor(join = logNodeHash, count = 0, frontier = []) {
    this.#join = join
    this.count = count
    this.frontier = frontier.map((root) => Buffer.from(root, 'hex'))
  }
  /** @param leaf 64 hex characters */
  add(leaf) {
    let node = Buffer.from(leaf, 'hex')
    for (let rest = this.count; rest % 2 === 1; rest = Math.floor(rest / 2))
      node = this.#join(this.frontier.pop() ?? node, node)
    this.frontier.push(node)
    this.count++
  }
  head() {
    const root =
      this.count === 0 ? EMPTY_LOG_ROOT : this.frontier.reduceRight((right, left) => this.#join(left, right))
    return {
      size: this.count,
      root: Buffer.from(root).toString('hex'),
    }
  }
  /** As it is remembered. */
  state() {
    return {
      size: this.count,
      frontier: this.frontier.map((root) => Buffer.from(root).toString('hex')),
    }
  }
}
/**
 * The keys of all agents, by the entries of the ledger, in both forms of their tree. In form 1 a revocation (a change of a
 * key to null) does nothing; in form 2 the key is gone from the leaf.
 */
var LedgerKeys = class LedgerKeys {
  /** Form 1 goes once closing entries state form 2. Undefined: not all entries were read. */
  #trees = {
    1: createKeyTree(),
    2: createKeyTree(),
  }
  #form = 1
  /** What was stated in that form, if no entry has changed a key since. */
  #stated
  #isChanged = false
  /** Goes on from what was stated. */
  static from({ keys, key_form: form = 1 }) {
    const from = new LedgerKeys()
    from.lose()
    from.#form = form
    from.#stated = keys ?? void 0
    return from
  }
  /** The form that closing entries state by now. */
  get form() {
    return this.#form
  }
  /** Whether all entries were read. */
  get isComputed() {
    return this.#trees !== void 0
  }
  get(agentId) {
    return this.#trees?.[2].get(agentId)
  }
  /** Root and count; undefined: unknown. */
  state(form = this.#form) {
    const tree = this.#trees?.[form]
    if (tree !== void 0)
      return {
        root: tree.root.toString('hex'),
        count: tree.count,
      }
    return this.isComputed || form !== this.#form ? void 0 : this.#stated
  }
  /** Forgets what follows from all entries, once some of them aren't there. */
  lose() {
    this.#trees = this.#stated = void 0
  }
  beginSeal() {
    this.#isChanged = false
  }
  /** Takes what a seal's closing entry states. @param form that of an earlier one, or a later one */
  takeStated(form, stated) {
    this.#form = form
    if (form === 2 && this.#trees !== void 0) this.#trees[1] = void 0
    if (!this.#isChanged) this.#stated = stated
  }
  /** Does what an entry says that changes a key of an agent. */
  apply(entry) {
    this.#isChanged = true
    this.#stated = void 0
    if (this.#trees === void 0) return
    const { 1: older, 2: newer } = this.#trees
    const isRevoked = entry.data[keyFieldOf(entry.kind) ?? ''] === null
    this.#trees = {
      1: older && (isRevoked ? older : withKey(older, entry)),
      2: withKey(newer, entry),
    }
  }
}
/** The tree after the change of a key; a revocation of a key that isn't there changes nothing. */
function withKey(tree, { id, kind, data }) {
  const field = keyFieldOf(kind)
  const agentId = data['agent_id']
  if (field === void 0 || typeof agentId !== 'string') return tree
  const known = tree.get(agentId)
  const { [field]: before, ...rest } = known ?? {}
  const key = data[field]
  if (!isHexHash$1(key) && !(key === null && before !== void 0)) return tree
  const keys = isHexHash$1(key)
    ? {
        ...rest,
        [field]: key,
      }
    : rest
  return tree.with({
    ...keys,
    agent_id: agentId,
    version: (known?.version ?? 0) + 1,
    entry_id: id,
  })
}

// client/verify/state.ts
/** What a check that read everything left; undefined if none has. */
const memoryOf = (remembered) => (remembered !== void 0 && 'log' in remembered ? remembered : void 0)
/** The newest log that was verified before, by entries or by proofs; undefined if none was. */
function seenLog(remembered) {
  const memory = memoryOf(remembered)
  if (memory === void 0) return void 0
  const walked = GrowingTree.ofLog(memory.log).head()
  const shown = memory.checkpoint === void 0 ? void 0 : readCheckpoint(memory.checkpoint)
  return shown !== void 0 && shown.size >= walked.size ? shown : walked
}
const isCheckpoint = (note) => new Findings().run('', () => readCheckpoint(note)).held
const countBits = (size) => size.toString(2).replaceAll('0', '').length
const FORMS = {
  head: (head) => isObject(head) && head['signed'] === true,
  owed: (owed) => readOwed(owed) !== void 0,
  chained: (value) => typeof value === 'boolean',
  unreadable: isWhole,
  adoptions: Array.isArray,
  logged: (value) => typeof value === 'boolean',
  log: (log) =>
    isObject(log) &&
    isWhole(log['size']) &&
    Array.isArray(log['frontier']) &&
    log['frontier'].length === countBits(log['size']) &&
    log['frontier'].every(isHexHash$1),
  keys: (keys) => keys === null || (isObject(keys) && isWhole(keys['count']) && isHexHash$1(keys['root'])),
}
const OPTIONAL_FORMS = {
  unsigned: isWhole,
  money: isMoneyState,
  key_form: (form) => form === 1 || form === 2,
  checkpoint: isCheckpoint,
  heard: (notes) => Array.isArray(notes) && notes.every(isCheckpoint),
}
/** Whether a value has the form of what is remembered of a service. */
function isRemembered(value) {
  const hasForms = (fields, forms, isOptional) =>
    Object.entries(forms).every(
      ([name, isRight]) => (isOptional && fields[name] === void 0) || isRight(fields[name]),
    )
  return (
    isObject(value) &&
    isWhole(value['seq']) &&
    isHexHash$1(value['payload_hash']) &&
    Array.isArray(value['pubkeys']) &&
    value['pubkeys'].every(isHexHash$1) &&
    (value['log'] === void 0 || (hasForms(value, FORMS, false) && hasForms(value, OPTIONAL_FORMS, true)))
  )
}
/** Reads the state file, or gives an empty state if there is no file. @throws Unchecked for anything else */
async function readState(file) {
  let bytes
  try {
    bytes = await readFile(file)
  } catch (error) {
    if (isErrorWith(error, 'ENOENT')) return {}
    throw new Unchecked('usage', `the state file ${file} can't be read: ${error.message}`)
  }
  let state
  try {
    state = parseJson(bytes)
  } catch (error) {
    throw new Unchecked('usage', `the state file ${file} is not JSON: ${error.message}`)
  }
  if (!isObject(state) || !Object.values(state).every(isRemembered))
    throw new Unchecked(
      'usage',
      `the state file ${file} is not one of this program's: move it away to begin anew`,
    )
  return state
}
const isErrorWith = (error, code) => error instanceof Error && 'code' in error && error.code === code
/**
 * Changes the state as it stands now, one process after the other; a crash leaves the old file or the new one
 * whole.
 *
 * @throws Unchecked
 */
async function changeState(file, change) {
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
    throw new Unchecked('usage', `the state file ${file} can't be written: ${error.message}`)
  } finally {
    await rm(fresh, { force: true })
    if ((await readFile(lock, 'utf8').catch(() => '')) === `${holder}\n`) await rm(lock, { force: true })
  }
}
const LOCK_STALE_MS = 1e4
/** Waits for the lock and takes it. One that is much older than milliseconds is of a process that was killed. */
async function takeLock(lock, holder) {
  const isStale = (file) =>
    stat(file).then(
      ({ mtimeMs }) => Date.now() - mtimeMs > LOCK_STALE_MS,
      () => false,
    )
  const create = async (file) => {
    try {
      await writeFile(file, `${holder}\n`, { flag: 'wx' })
      return true
    } catch (error) {
      if (isErrorWith(error, 'EEXIST')) return false
      throw new Unchecked('usage', `the state file can't be locked: ${error.message}`)
    }
  }
  while (!(await create(lock))) {
    const breaking = `${lock}.breaking`
    if ((await isStale(lock)) && (await create(breaking))) {
      if (await isStale(lock)) await rm(lock, { force: true })
      await rm(breaking, { force: true })
    } else {
      if (await isStale(breaking)) await rm(breaking, { force: true })
      await setTimeout(20)
    }
  }
}
/** Remembers another reader's checkpoint beyond what was seen, to be compared as soon as the log is that long. */
function rememberHeard(state, service, note) {
  const memory = memoryOf(state[service])
  const heard = memory?.heard ?? []
  if (memory !== void 0 && !heard.includes(note))
    state[service] = {
      ...memory,
      heard: [...heard, note].slice(-16),
    }
}
/** Remembers a checkpoint that was verified by proofs, if it is newer than what was seen. */
function rememberCheckpoint(state, service, { size, note }) {
  const memory = memoryOf(state[service])
  if (memory !== void 0 && size > (seenLog(memory)?.size ?? Infinity))
    state[service] = {
      ...memory,
      checkpoint: note,
    }
}

// client/verify/evidence.ts
/**
 * Compares a signed log with the one that was seen.
 *
 * @returns how it stands to that; null, with evidence if it can be shown, if they contradict each other
 */
function compareLogs({ findings, keyring }, where, seen, shown, proof) {
  const compared = findings.run(where, () => connectLogs(seen, shown, proof))
  if (compared.held) return compared.value
  findings.fork ??= logForkOf(seen, shown, proof, keyring.accepted)
  return null
}
/** Adds what is wrong if a seal of the remembered head's number is another one, with evidence if it can be shown. */
function compareWithHead({ findings, keyring }, read, remembered, sentence) {
  if (sha256Hex(read.payload) === remembered.payload_hash) return
  findings.add(`seal ${read.seal.seq}`, sentence)
  const head = memoryOf(remembered)?.head
  if (head !== void 0) findings.fork ??= sealForkOf(readSeal(head), read, keyring)
}
/** Writes a proof of a contradiction into a new file. @returns its path @throws Unchecked */
async function writeEvidence(folder, fork, service, now) {
  const { kind, ...parts } = fork
  const text = `${JSON.stringify(
    {
      kind,
      service: service ?? null,
      found_at: now,
      ...parts,
    },
    null,
    2,
  )}\n`
  for (let count = 1; ; count++) {
    const file = path.join(folder, `fork-${now}${count === 1 ? '' : `-${count}`}.json`)
    try {
      await writeFile(file, text, { flag: 'wx' })
      return file
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST'))
        throw new Unchecked('usage', `the evidence can't be written: ${error.message}`)
    }
  }
}
/** Reads what may be evidence. @returns undefined if it isn't any */
function readEvidence(value) {
  if (!isObject(value)) return void 0
  const { kind, sides, notes, pubkey, consistency } = value
  if (kind === 'fork' && Array.isArray(sides) && sides.length === 2)
    return {
      kind,
      sides,
    }
  if (kind === 'log_fork' && Array.isArray(notes) && notes.length === 2)
    return {
      kind,
      notes,
      pubkey,
      consistency,
    }
}
/** The keys that evidence is of. */
const keysOfEvidence = (evidence) =>
  evidence.kind === 'fork'
    ? evidence.sides.map((side) => (isObject(side) ? side['pubkey'] : void 0))
    : [evidence.pubkey]
const checkEvidence$1 = (evidence, keyring) =>
  evidence.kind === 'fork' ? checkSealFork(evidence.sides, keyring) : checkLogFork(evidence, keyring)
function checkSealFork(sides, keyring) {
  const findings = new Findings()
  const read = []
  for (const [place, side] of sides.entries()) {
    const where = `side ${place + 1}`
    findings.run(where, () => {
      const seal = readSeal(
        isObject(side)
          ? {
              ...side,
              signed: true,
              algo: 'ed25519',
              signed_at: memberOf(side, 'at'),
            }
          : side,
      )
      read.push(seal)
      checkSignature(seal, keyring, findings, where)
    })
  }
  const [one, other] = read
  if (other !== void 0 && (one?.payload === other.payload || one?.seal.seq !== other.seal.seq))
    findings.add('evidence', 'no_contradiction.seals')
  return {
    findings,
    report: {
      seq: one?.seal.seq ?? null,
      payload_hashes: read.map(({ payload }) => sha256Hex(payload)),
    },
  }
}
function checkLogFork({ notes, pubkey, consistency }, keyring) {
  const findings = new Findings()
  const sides = []
  for (const [place, note] of notes.entries())
    findings.run(`note ${place + 1}`, () => {
      if (!isHexHash$1(pubkey)) throw refusal('wrong_checkpoint.key')
      keyring.check(pubkey)
      sides.push(verifyCheckpoint(note, [pubkey]))
    })
  const [from, to] = sides
  if (from !== void 0 && to !== void 0) {
    if (from.origin !== to.origin || !isContradiction(from, to, consistency))
      findings.add('evidence', 'no_contradiction.logs')
  }
  return {
    findings,
    report: {
      sizes: sides.map(({ size }) => size),
      roots: sides.map(({ root }) => root),
    },
  }
}

// client/verify/chain.ts
const KEEP_EVERY_MS = 1e4
const MAX_LISTED = 1e3
/**
 * Verifies a chain, from the remembered head on, unless that head is not there any more: then all of it is
 * read, to say what changed.
 *
 * @throws Unchecked if it can't be read
 */
async function walkChain(source, options) {
  const memory = memoryOf(options.remembered)
  const { pinned } = options
  if (
    options.isFull !== true &&
    memory !== void 0 &&
    memory.unsigned === 0 &&
    memory.money !== void 0 &&
    memory.chained &&
    (pinned.length === 0 || memory.pubkeys.every((key) => pinned.includes(key)))
  ) {
    const seals = source.seals(memory.seq - 1)[Symbol.asyncIterator]()
    const head = readHead((await seals.next()).value, memory)
    if (head !== void 0)
      return new ChainWalk(source, options, {
        memory,
        head,
      }).run(seals)
  }
  return new ChainWalk(source, options).run(source.seals(0)[Symbol.asyncIterator]())
}
/** The remembered head, as the source shows it; undefined if it shows anything else. */
function readHead(shown, memory) {
  try {
    const read = readSeal(shown)
    return read.seal.signed && read.seal.seq === memory.seq && sha256Hex(read.payload) === memory.payload_hash
      ? read
      : void 0
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return
  }
}
/** One check of a chain: reads it seal by seal, and checks each with its entries. */
var ChainWalk = class {
  findings = new Findings()
  keyring
  remembered
  /** The number of the head from which it went on; 0: it read everything. */
  resumedAt
  /** The last seal's number. */
  seq = 0
  sealsRead = 0
  signed = 0
  unsignedSeqs = []
  unsigned = 0
  entriesSealed = 0
  entriesWaiting = 0
  unreadable = 0
  adoptions = []
  /** The last signed seal. */
  head
  checked
  /** The newest checkpoint that was compared with the log. */
  #checkpoint
  /** Checkpoints of others that lie beyond it. */
  heard
  reader
  #options
  #clock
  #previous
  #money = new LedgerMoney()
  #isChained = false
  #isLogged = false
  /** Over all entries so far; undefined after a seal whose entries aren't there, as are the keys. */
  #log = new GrowingTree()
  #keys = new LedgerKeys()
  #keepAt = performance.now() + KEEP_EVERY_MS
  constructor(source, options, from) {
    this.#options = options
    this.#clock = options.clock ?? nowSeconds
    this.remembered = options.remembered
    this.keyring = new Keyring(options.pinned, options.remembered?.pubkeys ?? [])
    this.reader = new EntryReader(source, options.maxEntries ?? Infinity)
    this.heard = memoryOf(options.remembered)?.heard ?? []
    this.#checkpoint = memoryOf(options.remembered)?.checkpoint
    this.resumedAt = from?.memory.seq ?? 0
    if (from !== void 0) this.#goOn(from.memory, from.head)
  }
  #goOn(memory, head) {
    const { seal } = head
    const where = `seal ${seal.seq}`
    for (const key of memory.pubkeys) this.keyring.seen.add(key)
    checkSealAlone(seal, this.#clock(), this.findings, where)
    checkSignature(head, this.keyring, this.findings, where)
    this.seq = this.signed = seal.seq
    this.head = this.#previous = {
      seal,
      payloadHash: memory.payload_hash,
    }
    if (memory.money !== void 0) this.#money = LedgerMoney.from(memory.money)
    this.#isChained = memory.chained
    this.#isLogged = memory.logged
    this.#log = GrowingTree.ofLog(memory.log)
    this.#keys = LedgerKeys.from(memory)
    this.adoptions = [...memory.adoptions]
    this.unreadable = memory.unreadable
    this.entriesSealed = seal.to_id
    this.#setChecked(seal, memory.payload_hash)
  }
  /** Whether closing entries state the log and the keys by now. */
  get isLogged() {
    return this.#isLogged
  }
  /** The log over all entries under seals; undefined if some aren't there, or nothing states it. */
  get log() {
    return this.#isLogged ? this.#log?.head() : void 0
  }
  /** Root and count of the keys, and whether they were computed from all entries. */
  get keys() {
    const keys = this.#isLogged ? this.#keys.state() : void 0
    return (
      keys && {
        ...keys,
        recomputed: this.#keys.isComputed,
      }
    )
  }
  /**
   * Checks all seals that come, and then what is missing or waiting. If the source breaks off, what was
   * checked up to the last signed seal is kept all the same.
   *
   * @throws Unchecked
   */
  async run(seals) {
    try {
      for (
        let next = await seals.next();
        next.done !== true && !this.findings.isFull;
        next = await seals.next()
      )
        await this.#checkSeal(next.value)
    } catch (error) {
      await this.#options.keep?.(this)
      throw error
    }
    const { remembered } = this
    if (remembered !== void 0 && this.seq < remembered.seq && this.#options.mayBeOlder !== true)
      this.findings.add('chain', 'chain_shortened', this.seq, remembered.seq)
    if (!this.findings.isFull) await this.#countWaiting()
    return this
  }
  /** Checks the next seal of the chain, with its entries. */
  async #checkSeal(shown) {
    const { findings } = this
    const { maxSeals = Infinity, keep, progress } = this.#options
    const due = this.seq + 1
    if (this.sealsRead >= maxSeals)
      throw unchecked(keep === void 0 ? 'too_long.seals' : 'too_long.seals_kept', maxSeals)
    this.sealsRead++
    this.seq = isObject(shown) && isWhole(shown['seq']) ? shown['seq'] : due
    const where = `seal ${this.seq}`
    const read = findings.run(where, () => readSeal(shown))
    if (!read.held) {
      this.#previous = void 0
      this.#loseCount()
      return
    }
    const { seal, payload } = read.value
    const payloadHash = sha256Hex(payload)
    if (seal.seq !== due) findings.add(where, 'seq_gap', due)
    checkSealAlone(seal, this.#clock(), findings, where)
    if (this.#previous !== void 0) checkSealLink(this.#previous.seal, seal, findings, where)
    if (seal.signed) {
      this.signed++
      this.head = {
        seal,
        payloadHash,
      }
      checkSignature(read.value, this.keyring, findings, where)
    } else {
      this.unsigned++
      if (this.unsignedSeqs.length < MAX_LISTED) this.unsignedSeqs.push(seal.seq)
    }
    this.#compareWithHead(read.value, where)
    await this.#checkEntries(seal, where)
    this.#compareWithLog(seal, payloadHash, where)
    if (seal.signed) this.#setChecked(seal, payloadHash)
    this.#previous = {
      seal,
      payloadHash,
    }
    progress?.(`seal ${seal.seq}, entry ${seal.to_id}`)
    if (seal.signed && performance.now() > this.#keepAt) {
      await keep?.(this)
      this.#keepAt = performance.now() + KEEP_EVERY_MS
    }
  }
  /** Compares the seal of the remembered head's number with that. */
  #compareWithHead(shown, where) {
    const { remembered, findings } = this
    if (remembered === void 0 || shown.seal.seq !== remembered.seq) return
    if (!shown.seal.signed) findings.add(where, 'signature_withdrawn')
    compareWithHead(this, shown, remembered, 'history_rewritten.payload')
  }
  /**
   * Compares the log up to a seal with the one that was seen, up to the remembered head or to a checkpoint:
   * whatever was rewritten before has another root.
   */
  #compareWithLog(seal, payloadHash, where) {
    const memory = memoryOf(this.remembered)
    if (memory === void 0 || this.#log === void 0) return
    const log = this.#log.head()
    const seen = GrowingTree.ofLog(memory.log).head()
    if (seal.seq === memory.seq && payloadHash === memory.payload_hash && seen.root !== log.root)
      this.findings.add(where, 'history_rewritten.entry')
    const shown = memory.checkpoint === void 0 ? void 0 : readCheckpoint(memory.checkpoint)
    if (shown?.size === seal.to_id) this.findings.run(where, () => connectLogs(shown, log, void 0))
  }
  /** Checks the entries of a seal: their numbers, their root, what they do to the sums, and the closing entry. */
  async #checkEntries(seal, where) {
    const { findings, reader } = this
    const tree = new GrowingTree(sealNodeHash)
    const keys = {
      1: this.#keys.state(1),
      2: this.#keys.state(2),
    }
    const before = {
      log: this.#log?.head(),
      keys,
    }
    this.#keys.beginSeal()
    let last
    for (let id = seal.from_id; id <= seal.to_id; id++) {
      const taken = await reader.take(id)
      if (taken.kind === 'end') findings.add(where, 'entry_gap.missing', id)
      const read =
        taken.kind === 'end' ? void 0 : findings.run(`entry ${id}`, () => withLeaf(readDue(taken.value, id)))
      if (read?.held !== true) {
        reader.forget()
        this.entriesSealed += tree.count
        this.#loseCount()
        return
      }
      last = read.value.entry
      tree.add(read.value.leaf)
      this.#log?.add(read.value.leaf)
      if (id < seal.to_id) this.#addEntry(last)
      if (tree.count % 1e4 === 0) this.#options.progress?.(`${where}, entry ${id}`)
    }
    this.entriesSealed += tree.count
    if (last === void 0) return
    const { root } = tree.head()
    if (root === seal.root) return this.#checkClosing(last, seal, before, where)
    findings.add(where, 'wrong_root.entries', seal.from_id, seal.to_id, root, seal.root)
    this.#loseCount()
  }
  /** Forgets what follows from all entries, once some of them aren't there. */
  #loseCount() {
    this.#money.lose()
    this.#log = void 0
    this.#keys.lose()
  }
  /** Adds to the sums, the adoptions and the keys what an entry says. */
  #addEntry(entry) {
    if (!this.#money.add(entry, this.findings)) this.unreadable++
    this.#listAdoption(entry)
    const field = keyFieldOf(entry.kind)
    if (field !== void 0) this.#addKey(entry, entry.data[field])
  }
  /**
   * Sets the key that an entry changes, and checks its signature: once an agent has an author key, each change
   * of its keys needs one by that.
   */
  #addKey(entry, key) {
    const { agent_id: agentId, author } = entry.data
    const standing = typeof agentId === 'string' ? this.#keys.get(agentId)?.author_key : void 0
    this.findings.run(`entry ${entry.id}`, () => {
      if (isSignedChange(entry)) checkKeyChange(entry)
      if (standing !== void 0 && !(isObject(author) && author['author_key'] === standing))
        throw refusal('wrong_author.standing', standing)
    })
    if (typeof agentId !== 'string' || (key !== null && !isHexHash$1(key))) return
    this.#keys.apply(entry)
  }
  #listAdoption(entry) {
    if (entry.kind === 'seal_adoption' && this.adoptions.length < MAX_LISTED)
      this.adoptions.push({
        entry_id: entry.id,
        at: entry.at,
        data: showData(entry),
      })
  }
  /** Checks the closing entry of a seal: its sums, the seal before, and the log and the keys before the seal. */
  #checkClosing({ at, kind, data }, seal, before, where) {
    if (kind !== 'solvency' || data['seal'] !== `seal_${seal.seq}` || at !== seal.at) {
      this.findings.add(where, 'wrong_closing', seal.at)
      this.#loseCount()
      return
    }
    this.#money.checkClosing(data, this.findings, where)
    this.#checkPreviousSeal(data, seal, where)
    this.#isLogged ||= data['log'] !== void 0
    if (!this.#isLogged) return
    this.#checkStatedLog(data['log'], seal, before, where)
    this.#checkStatedKeys(data['keys'], before, where)
  }
  /**
   * Checks that a closing entry names the payload of the seal before, so that a head commits to all history.
   * Older ones don't name it.
   */
  #checkPreviousSeal(data, seal, where) {
    this.#isChained ||= Object.hasOwn(data, 'prev_seal')
    if (!this.#isChained) return
    const named = memberOf(data, 'prev_seal') ?? null
    const previous = this.#previous?.seal.seq === seal.seq - 1 ? this.#previous.payloadHash : void 0
    const due = seal.seq === 1 ? null : previous
    if (due === void 0 ? isHexHash$1(named) : named === due) return
    const what = due === void 0 ? 'the payload hash of a seal' : show(due)
    this.findings.add(where, 'wrong_prev_seal', show(named), what)
  }
  #checkStatedLog(stated, seal, { log: own }, where) {
    if (
      isObject(stated) &&
      stated['size'] === seal.from_id - 1 &&
      isHexHash$1(stated['root']) &&
      (own === void 0 || stated['root'] === own.root)
    )
      return
    const due = own === void 0 ? `one of size ${seal.from_id - 1}` : show(own)
    this.findings.add(where, 'wrong_log', show(stated), due)
  }
  #checkStatedKeys(stated, before, where) {
    const {
      root,
      count,
      v: form,
    } = isObject(stated)
      ? {
          v: 1,
          ...stated,
        }
      : {}
    const isForm = form === 1 || form === 2
    const own = isForm ? before.keys[form] : void 0
    if (
      !(isForm && isWhole(count) && isHexHash$1(root)) ||
      (own !== void 0 && (root !== own.root || count !== own.count))
    )
      return this.findings.add(
        where,
        'wrong_keys.state',
        show(stated),
        own === void 0 ? 'a root and a count' : show(own),
      )
    if (form < this.#keys.form) return this.findings.add(where, 'wrong_keys.form')
    this.#keys.takeStated(form, {
      root,
      count,
    })
  }
  /** Counts the entries behind the last seal, and checks their numbers and their form. */
  async #countWaiting() {
    let due = (this.#previous?.seal.to_id ?? 0) + 1
    for (
      let taken = await this.reader.take(due);
      taken.kind === 'entry';
      taken = await this.reader.take(due)
    ) {
      const { value } = taken
      if (!this.findings.run(`entry ${due}`, () => this.#listAdoption(readDue(value, due))).held) return
      this.entriesWaiting++
      due++
      if (this.entriesWaiting % 1e4 === 0) this.#options.progress?.(`unsealed entry ${due}`)
    }
  }
  /** Keeps what follows from all entries up to a signed seal, unless some of them aren't there. */
  #setChecked(seal, payloadHash) {
    const sums = this.#money.state()
    if (!seal.signed || sums === void 0 || this.#log === void 0) return
    const state = {
      ...sums,
      chained: this.#isChained,
      unreadable: this.unreadable,
      adoptions: [...this.adoptions],
      unsigned: this.unsigned,
      logged: this.#isLogged,
      log: this.#log.state(),
      keys: this.#keys.state() ?? null,
      ...(this.#keys.form === 1 ? {} : { key_form: this.#keys.form }),
    }
    this.checked = {
      seal,
      payloadHash,
      state,
    }
  }
  /** Takes a checkpoint that agrees with the log into what is to be remembered, unless it knows a larger one. */
  rememberCheckpoint({ size, note }) {
    if (this.#checkpoint === void 0 || size >= readCheckpoint(this.#checkpoint).size) this.#checkpoint = note
  }
  /** What is to be remembered: everything up to the last signed seal that was checked. */
  memory({ seal, payloadHash, state }) {
    const { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey, algo, signed_at } = seal
    const checkpoint = this.#checkpoint
    return {
      seq,
      payload_hash: payloadHash,
      pubkeys: [...this.keyring.seen],
      checked_at: this.#clock(),
      head: {
        seq,
        at,
        count,
        from_id,
        to_id,
        root,
        prev_root,
        signed: true,
        signature,
        pubkey,
        algo,
        signed_at,
      },
      ...state,
      ...(checkpoint === void 0 ? {} : { checkpoint }),
      ...(this.heard.length === 0 ? {} : { heard: this.heard }),
    }
  }
  /** Why a chain without a finding binds nobody. */
  doubts(shown) {
    const { head, remembered, unsigned, seq } = this
    const doubts = []
    if (head === void 0) doubts.push(say('no_signed_seal'))
    else if (this.keyring.trust === 'first_seen') doubts.push(say('key_unknown.chain'))
    if (head !== void 0 && unsigned > 0)
      doubts.push(unsigned === 1 ? say('unsigned.one') : say('unsigned.many', unsigned))
    const seen = seenLog(remembered)
    const longest = Math.max(head?.seal.to_id ?? 0, shown?.size ?? 0)
    if (this.#options.mayBeOlder === true) {
      if (remembered !== void 0 && seq < remembered.seq)
        doubts.push(say('not_compared.dump', seq, remembered.seq))
    } else if (seen !== void 0 && seen.size > longest) doubts.push(say('behind', seen.size, longest))
    return doubts
  }
  /** What its verdict can rest on besides the key: the checkpoint that is shown, and what was seen before. */
  support(shown) {
    const { remembered, head } = this
    return {
      checkpoints: shown === void 0 ? [] : [shown],
      covered: shown?.size ?? 0,
      upTo: head?.seal.to_id ?? 0,
      madeAt: head?.seal.at,
      seenSize:
        remembered !== void 0 && remembered.seq <= this.seq
          ? (memoryOf(remembered)?.head.to_id ?? null)
          : null,
    }
  }
}
/** Reads the entry in the place of `due`. @throws Refused */
function readDue(shown, due) {
  const entry = readEntry(shown)
  if (entry.id !== due) throw refusal('entry_gap.other', entry.id)
  return entry
}
const withLeaf = (entry) => ({
  entry,
  leaf: leafOf(entry),
})
/** Gives entries by number from a source that is read forward; begins a new reading only if the numbers jump. */
var EntryReader = class {
  count = 0
  #source
  #limit
  #iterator
  #due = 0
  constructor(source, limit) {
    this.#source = source
    this.#limit = limit
  }
  /** The entry that comes in the place of `id`. @throws Unchecked beyond the limit */
  async take(id) {
    if (this.#iterator === void 0 || this.#due !== id)
      this.#iterator = this.#source.entries(id)[Symbol.asyncIterator]()
    const { value, done } = await this.#iterator.next()
    this.#due = id + 1
    if (done === true) {
      this.forget()
      return { kind: 'end' }
    }
    if (++this.count > this.#limit) throw unchecked('too_long.entries', this.#limit)
    return {
      kind: 'entry',
      value,
    }
  }
  /** Begins a new reading with the next entry. */
  forget() {
    this.#iterator = void 0
  }
}

// client/verify/files.ts
const MAX_FILE_BYTES = MAX_ANSWER_BYTES
/** The bytes of a file, up to a size. @throws Unchecked */
async function readBytes(file) {
  const parts = []
  let size = 0
  try {
    for await (const part of createReadStream(file)) {
      parts.push(part)
      size += part.length
      if (size > MAX_FILE_BYTES) throw new Error(`${file} has more than ${MAX_FILE_BYTES} bytes`)
    }
  } catch (error) {
    throw new Unchecked('usage', error.message)
  }
  return Buffer.concat(parts)
}
/** A file's text. @throws Unchecked if it can't be read, or isn't UTF-8 */
async function readText(file) {
  const bytes = await readBytes(file)
  try {
    return decodeText(bytes)
  } catch {
    throw new Unchecked('usage', `${file} is not text in UTF-8`)
  }
}
/** The JSON in a file. @throws Unchecked */
async function readJsonFile(file) {
  const bytes = await readBytes(file)
  try {
    return parseJson(bytes)
  } catch (error) {
    throw new Unchecked('usage', `${file} is not JSON: ${error.message.slice(0, 200)}`)
  }
}
/** A source of lists. */
function listSource(seals, entries) {
  return {
    async *seals() {
      yield* seals
    },
    async *entries(from) {
      let isReached = false
      for (const entry of entries) {
        isReached ||= !isObject(entry) || !isWhole(entry['id']) || entry['id'] >= from
        if (isReached) yield entry
      }
    },
  }
}

// shared/crypto/commitment.ts
/**
 * Bytes of a commitment's salt: as long as the hash, so that guessing the content never beats guessing the
 * salt.
 */
const SALT_BYTES = 32
const HEX_HASH = /^[0-9a-f]{64}$/
/** Whether salt and content open a commitment; false if the salt isn't 64 hex characters. */
function isOpenedBy(commitment, salt, content) {
  return (
    typeof salt === 'string' &&
    HEX_HASH.test(salt) &&
    commitment === commit(Buffer.from(salt, 'hex'), content)
  )
}
/**
 * Makes a hiding commitment: SHA-256 of the salt's 32 bytes followed by the UTF-8 bytes of the content's
 * canonical JSON. The content of a record includes its id: bindContent().
 *
 * The caller makes and keeps the salt, fresh and random for each commitment. Without the salt, a commitment
 * reveals nothing about the content, even if only a handful of contents are possible.
 *
 * @param salt 32 bytes
 * @returns 64 lower-case hex characters
 * @throws TypeError for a salt of another length, or content that has no canonical JSON
 */
function commit(salt, content) {
  if (!(salt instanceof Uint8Array)) throw new TypeError(`"salt" expected a Uint8Array, got ${typeof salt}`)
  if (salt.length !== SALT_BYTES)
    throw new TypeError(`"salt" expected ${SALT_BYTES} bytes, got ${salt.length}`)
  return hash('sha256', Buffer.concat([salt, Buffer.from(canonicalJson(content), 'utf8')]), 'hex')
}

// client/verify/receipt.ts
/** The check of a receipt: every entry under its seal, and its place in the log of a signed checkpoint. */
var ReceiptCheck = class {
  findings = new Findings()
  keyring
  id = null
  entriesSealed = 0
  entriesWaiting = 0
  unsignedSeqs = []
  openings = 0
  authors = []
  /** Its newest checkpoint, and how that stands to the log that was seen; null: none was. */
  log
  support = NO_SUPPORT
  #reader
  #entries = /* @__PURE__ */ new Map()
  #seals = /* @__PURE__ */ new Map()
  #checkpoints = /* @__PURE__ */ new Map()
  /** Checkpoints by their text: many entries stand under one. */
  #notes = /* @__PURE__ */ new Map()
  #lastId = 0
  /** The last entry under a signed seal. */
  #upTo = 0
  /** Up to which of those all are in the log of a checkpoint. */
  #covered = 0
  /** For each entry whose path holds: its seal, and its place in the log if the receipt shows one. */
  #placed = []
  /** The seals that lie in what was seen and couldn't be compared with that. */
  #uncompared = /* @__PURE__ */ new Set()
  /** @param receipt what may be one */
  constructor(receipt, reader) {
    this.#reader = reader
    this.keyring = new Keyring(reader.pinned, reader.remembered?.pubkeys ?? [])
    const read = this.findings.run('receipt', () => readReceipt(receipt))
    if (!read.held) return
    const { id, entries, openings } = read.value
    this.id = id
    for (const item of entries) this.#checkItem(item, id)
    this.#connect()
    if (this.#entries.size === entries.length)
      this.findings.run('receipt', () => checkMaking(id, this.#entries.values()))
    this.#checkSeals()
    for (const opening of openings) this.#checkOpening(opening, id)
  }
  #checkItem(item, recordId) {
    const { findings } = this
    const shown = item['entry']
    const where = `entry ${showNumber(isObject(shown) ? shown['id'] : void 0)}`
    const read = findings.run(where, () => {
      const entry = readEntry(shown)
      if (entry.id <= this.#lastId) throw refusal('malformed_receipt.order')
      if (!isOfRecord(entry, recordId)) throw refusal('wrong_record.other', show(recordId))
      return entry
    })
    if (!read.held) return
    const entry = read.value
    this.#lastId = entry.id
    this.#entries.set(entry.id, entry)
    if (isSignedChange(entry)) {
      const author = findings.run(where, () => checkKeyChange(entry))
      if (author.held) this.authors.push(author.value)
    }
    if (item['sealed'] !== true) this.entriesWaiting++
    else this.#checkSealed(item, entry, where)
  }
  /** Checks an entry's proof, its seal, and its place in the log. */
  #checkSealed(item, entry, where) {
    const { findings } = this
    const read = findings.run(where, () => readSeal(item['seal']))
    if (!read.held) return
    const { seal } = read.value
    const placed = findings.run(where, () => checkPath(item, entry, read.value))
    if (placed.held) this.entriesSealed++
    this.#checkSeal(read.value, where)
    if (!placed.held) return
    const proof = memberOf(item, 'tlog_proof')
    const inLog =
      proof === void 0
        ? void 0
        : findings.run(where, () => this.#checkLogProof(proof, entry, String(item['leaf']), read.value))
    this.#placed.push({
      seal,
      place: inLog?.held === true ? inLog.value : void 0,
    })
    if (!seal.signed) return
    if (inLog?.held === true && this.#covered === this.#upTo) this.#covered = entry.id
    this.#upTo = entry.id
  }
  /** Checks a seal once, and that the receipt doesn't bring two of one number. */
  #checkSeal(read, where) {
    const { findings, keyring } = this
    const { seal, payload } = read
    const earlier = this.#seals.get(seal.seq)
    if (earlier !== void 0 && earlier.payload !== payload) {
      findings.add(where, 'conflicting_seals', seal.seq)
      findings.fork ??= sealForkOf(earlier, read, keyring)
    } else if (earlier?.seal.signature === seal.signature && earlier.seal.pubkey === seal.pubkey) return
    this.#seals.set(seal.seq, read)
    checkSealAlone(seal, this.#reader.now, findings, `seal ${seal.seq}`)
    if (seal.signed) checkSignature(read, keyring, findings, `seal ${seal.seq}`)
    else this.unsignedSeqs.push(seal.seq)
    this.#compareWithHead(read)
  }
  /** A seal of the remembered head's number must be that very seal. */
  #compareWithHead(read) {
    const { remembered, pinned } = this.#reader
    const { seal } = read
    if (remembered === void 0 || seal.seq !== remembered.seq) return
    if (seal.signed ? remembered.pubkeys.includes(seal.pubkey) : pinned.length === 0)
      compareWithHead(this, read, remembered, 'history_rewritten.in_chain')
  }
  /** Checks an entry's place in the log, under a checkpoint that a known key has signed. @throws Refused */
  #checkLogProof(text, entry, leaf, { seal }) {
    const proof = readLogProof(text)
    const known = this.#notes.get(proof.checkpoint)
    const log = known ?? readCheckpoint(proof.checkpoint)
    verifyPlace(entry.id, leaf, proof, log)
    const keys = seal.signed ? [...this.keyring.accepted, seal.pubkey] : this.keyring.accepted
    if (known === void 0 && !isSignedLog(log, keys)) throw refusal('wrong_checkpoint.signer')
    this.#notes.set(proof.checkpoint, log)
    const other = this.#checkpoints.get(log.size)
    if (other !== void 0 && other.root !== log.root) throw refusal('log_rewritten.two', log.size)
    this.#checkpoints.set(log.size, log)
    const seen = memoryOf(this.#reader.remembered)?.log
    return {
      log,
      connected: connectEntry(entry.id, leaf, proof, log, seen),
    }
  }
  /** Compares the newest checkpoint with the log that was seen. */
  #connect() {
    const { remembered, consistency } = this.#reader
    const seen = seenLog(remembered)
    let newest
    for (const log of this.#checkpoints.values()) if (log.size > (newest?.size ?? -1)) newest = log
    if (newest !== void 0) {
      const signed = newest
      const connected = seen === void 0 ? null : compareLogs(this, 'log', seen, signed, consistency)
      this.log = {
        signed,
        connected,
      }
    }
    const isConnected = this.log?.connected === 'same' || this.log?.connected === 'consistent'
    this.support = {
      checkpoints: [...this.#checkpoints.values()],
      covered: this.#covered,
      upTo: this.#upTo,
      madeAt: void 0,
      seenSize: isConnected ? (seen?.size ?? null) : null,
    }
    for (const { seal, place } of this.#placed) {
      const isCompared =
        seal.seq === remembered?.seq ||
        place?.connected === 'same' ||
        (isConnected && place?.log.size === newest?.size)
      if (seen !== void 0 && seal.to_id <= seen.size && !isCompared) this.#uncompared.add(seal.seq)
    }
  }
  /** Checks what the seals say about each other. */
  #checkSeals() {
    const inOrder = [...this.#seals.values()].map(({ seal }) => seal).sort((a, b) => a.seq - b.seq)
    for (const [place, seal] of inOrder.entries()) {
      const previous = inOrder[place - 1]
      if (previous === void 0) continue
      checkSealLink(previous, seal, this.findings, `seal ${seal.seq}`)
      if (seal.seq > previous.seq + 1 && seal.from_id <= previous.to_id)
        this.findings.add(`seal ${seal.seq}`, 'range_gap.within', seal.from_id, previous.seq, previous.to_id)
    }
  }
  #checkOpening(opening, recordId) {
    const where = `opening of entry ${showNumber(isObject(opening) ? opening['entry_id'] : void 0)}`
    const checked = this.findings.run(where, () => checkOpening(opening, recordId, this.#entries))
    if (!checked.held) return
    this.openings++
    this.authors.push(...checked.value)
  }
  /** Why a receipt without a finding binds nobody. */
  doubts() {
    const { entriesWaiting: waiting, unsignedSeqs: unsigned, keyring } = this
    const doubts = []
    if (waiting > 0) doubts.push(waiting === 1 ? say('waiting.one') : say('waiting.many', waiting))
    if (unsigned.length > 0) doubts.push(say('unsigned.named', unsigned.join(' ')))
    if (keyring.trust === 'first_seen' && keyring.seen.size > 0) doubts.push(say('key_unknown.file'))
    if (this.#uncompared.size > 0) doubts.push(say('not_compared.receipt', [...this.#uncompared].join(' ')))
    return doubts
  }
}
/** Reads what may be a receipt. @throws Refused `malformed_receipt` */
function readReceipt(value) {
  if (!isObject(value) || typeof value['id'] !== 'string' || value['id'] === '')
    throw refusal('malformed_receipt.id')
  const { id, entries, openings = [], sealed } = value
  if (!Array.isArray(entries) || entries.length === 0) throw refusal('malformed_receipt.entries')
  if (!entries.every((item) => isObject(item) && typeof item['sealed'] === 'boolean'))
    throw refusal('malformed_receipt.sealed')
  if (sealed !== entries.every((item) => item['sealed'])) throw refusal('malformed_receipt.whole')
  if (!Array.isArray(openings)) throw refusal('malformed_receipt.openings')
  return {
    id,
    entries,
    openings,
  }
}
/** Checks that an entry is in its seal where its index says. @throws Refused */
function checkPath(item, entry, { seal }) {
  const { leaf, index, path, seq } = item
  if (seq !== seal.seq) throw refusal('malformed_receipt.seal', show(seq), seal.seq)
  checkLeaf(entry, leaf)
  if (isWhole(index) && seal.from_id + index !== entry.id)
    throw refusal('wrong_index', index, seal.seq, seal.from_id + index)
  checkInclusion({
    leaf,
    path,
    root: seal.root,
    index,
    count: seal.count,
  })
}
/** Checks that a leaf is number `index` of `count` under a root. @throws Refused with the words of verifyInclusion() */
function checkInclusion({ leaf, path, root, index, count }) {
  const isStep = (step) =>
    isObject(step) && isHexHash$1(step['hash']) && (step['side'] === 'left' || step['side'] === 'right')
  if (!isHexHash$1(leaf) || !isHexHash$1(root) || !Array.isArray(path) || !path.every(isStep))
    throw refusal('malformed_proof')
  const verdict = verifyInclusion({
    leaf,
    path,
    root,
    index,
    count,
  })
  if (!verdict.ok)
    throw refusal(verdict.reason === 'wrong_root' ? 'wrong_root.path' : verdict.reason, index, count)
}
/**
 * Checks that an opening gives the commitment in its entry, and its author's signature.
 *
 * @returns whose key signed what is opened; none if nobody's
 * @throws Refused
 */
function checkOpening(opening, recordId, entries) {
  const { entry_id: entryId, field, salt, content } = isObject(opening) ? opening : {}
  if (
    !isObject(opening) ||
    typeof field !== 'string' ||
    !isHexHash$1(salt) ||
    !Object.hasOwn(opening, 'content')
  )
    throw refusal('wrong_opening.form')
  const entry = entries.get(entryId)
  if (entry === void 0) throw refusal('wrong_opening.entry')
  const commitment = memberOf(entry.data, field)
  if (!isHexHash$1(commitment)) throw refusal('wrong_opening.field', show(field))
  if (!inCanonicalForm('wrong_opening.json', () => isOpenedBy(commitment, salt, content)))
    throw refusal('wrong_opening.commitment', show(field))
  if (isObject(content) && Object.hasOwn(content, 'id') && content['id'] !== recordId)
    throw refusal('wrong_opening.record', show(content['id']))
  return checkOpenedAuthor(opening, entry)
}
/** Finds the largest checkpoint in a receipt, before anything of it is checked; undefined if it has none. */
function newestCheckpoint(receipt) {
  let newest
  for (const item of itemsIn(receipt)) {
    const read = new Findings().run('', () => readCheckpoint(readLogProof(item['tlog_proof']).checkpoint))
    if (read.held && read.value.size > (newest?.size ?? -1)) newest = read.value
  }
  return newest
}
/** The keys that a receipt's seals name. */
const keysIn = (receipt) => itemsIn(receipt).map(({ seal }) => (isObject(seal) ? seal['pubkey'] : void 0))
const itemsIn = (receipt) =>
  isObject(receipt) && Array.isArray(receipt['entries']) ? receipt['entries'].filter(isObject) : []

// client/verify/service.ts
const SEALS_PER_PAGE = 1e3
const ENTRIES_PER_PAGE = 1e4
const MIN_PER_PAGE = 100
const MAX_REDIRECTS = 3
const RETRY_PAUSES_MS = [500, 1500]
const MAX_RETRY_AFTER_SECONDS = 60
const beginPatience = (timeoutMs, deadlineMs) => ({
  timeoutMs,
  deadlineMs,
  endsAt: performance.now() + deadlineMs,
  ahead: void 0,
})
/** Seals and entries as a service gives them, page by page. */
function serviceSource(base, patience) {
  const limits = {
    seals: SEALS_PER_PAGE,
    entries: ENTRIES_PER_PAGE,
  }
  async function list(route, name) {
    const url = () => `${base}${route}&limit=${limits[name]}`
    /** Asks a service that is overloaded for half as much from now on. */
    const ease = () => {
      if (limits[name] <= MIN_PER_PAGE) return void 0
      limits[name] = Math.floor(limits[name] / 2)
      return url()
    }
    const answer = await getJson(url(), patience, ease)
    const items = isObject(answer) ? answer[name] : void 0
    if (!Array.isArray(items)) throw unchecked('unreachable.list', url(), name)
    if (items.length > limits[name]) throw unchecked('unreachable.more', url(), name)
    return items
  }
  return {
    async *seals(start) {
      for (let after = start; ;) {
        const seals = await list(`/seal?after_seq=${after}`, 'seals')
        yield* seals
        const last = seals.at(-1)
        const seq = isObject(last) ? last['seq'] : void 0
        if (!isWhole(seq) || seq <= after) return
        after = seq
      }
    },
    async *entries(from) {
      for (let next = from; ;) {
        const entries = await list(`/api/v1/ledger?from_id=${next}`, 'entries')
        if (entries.length === 0) return
        yield* entries
        next += entries.length
      }
    },
  }
}
/**
 * Fetches the newest checkpoint, with the lines of these witnesses.
 *
 * @returns undefined if the service has none
 * @throws Unchecked
 */
async function fetchCheckpoint(base, patience, witnesses) {
  const url = `${base}/api/v1/checkpoint`
  const query = witnesses.map((vkey) => `witness=${encodeURIComponent(vkey)}`).join('&')
  return (
    (query === ''
      ? void 0
      : await askAgain(`${url}?${query}`, patience, (one) => getBody(one, patience, [400, 404]))) ??
    (await askAgain(url, patience, (one) => getBody(one, patience, [404])))
  )
}
/** Fetches the proof between the logs of two sizes. @throws Unchecked */
const fetchConsistency = async (base, patience, from, to) =>
  readConsistency(await getJson(`${base}/api/v1/ledger/consistency?from=${from}&to=${to}`, patience))
/**
 * If seals are dated after now, says whether the service's own clock agrees with them.
 *
 * @throws Unchecked `wrong_clock` if it does and nothing else is wrong
 */
function judgeClock(findings, { ahead }) {
  const { future } = findings
  if (future === void 0 || ahead === void 0) return
  if (future.at > future.now + ahead + MAX_CLOCK_SKEW_SECONDS)
    findings.future = {
      ...future,
      serviceNow: future.now + ahead,
    }
  else if (findings.total === 1) {
    const behind = ahead < 120 ? `${ahead} s` : `${Math.floor(ahead / 60)} min`
    throw unchecked('wrong_clock', future.at, future.now, behind)
  }
}
const tooSlow = ({ deadlineMs }) => unchecked('deadline', deadlineMs / 1e3)
/** A failure of the connection, or one that the service calls passing: worth asking again. */
var Passing = class extends Error {
  /** The service says that it is overloaded. */
  isBusy
  /** When it says to come again; undefined: it doesn't. */
  retryAfterMs
  constructor(message, isBusy = false, retryAfterMs) {
    super(message)
    this.isBusy = isBusy
    this.retryAfterMs = retryAfterMs
  }
}
/** Fetches JSON, as askAgain() asks. @throws Unchecked */
const getJson = (url, patience, ease) =>
  askAgain(
    url,
    patience,
    async (asked) => {
      const body = await getBody(asked, patience)
      try {
        return parseJson(body ?? '')
      } catch (error) {
        throw unchecked('unreachable.json', asked, error.message.slice(0, 200))
      }
    },
    ease,
  )
/**
 * Asks, and again after a failure that may pass: twice, and each time that `ease` gives the URL of a smaller
 * question to a service that is overloaded.
 *
 * @throws Unchecked `unreachable` or `deadline`
 */
async function askAgain(url, patience, ask, ease = () => void 0) {
  let asked = url
  for (let repeats = 0; ;)
    try {
      return await ask(asked)
    } catch (error) {
      if (!(error instanceof Passing)) throw error
      const smaller = error.isBusy ? ease() : void 0
      const pause = RETRY_PAUSES_MS[smaller === void 0 ? repeats++ : 0]
      if (pause === void 0) throw unchecked('unreachable.again', asked, error.message)
      asked = smaller ?? asked
      const pauseMs = error.retryAfterMs ?? pause
      if (performance.now() + pauseMs > patience.endsAt) throw tooSlow(patience)
      await setTimeout(pauseMs)
    }
}
/**
 * Fetches the bytes of a good answer, decompressed.
 *
 * @returns undefined for a status that says that there is none, one of `absent`
 * @throws Passing or Unchecked
 */
async function getBody(url, patience, absent = []) {
  const { origin } = new URL(url)
  let address = url
  for (let redirects = 0; ; redirects++) {
    const { status, headers, body } = await getOnce(address, patience)
    compareClocks(patience, headers.date)
    if (absent.includes(status)) return void 0
    if (status === 200) return decompress(url, headers['content-encoding'], body)
    if (status >= 500 || status === 429)
      throw new Passing(
        `answered ${status}`,
        status === 503 || status === 429,
        readRetryAfter(headers['retry-after']),
      )
    if (![301, 302, 303, 307, 308].includes(status)) throw unchecked('unreachable.status', url, status)
    const { location = '' } = headers
    const route = location.startsWith(`${origin}/`) ? location.slice(origin.length) : location
    if (!/^\/(?!\/)[!-~]*$/.test(route)) throw unchecked('unreachable.origin', url)
    if (redirects === MAX_REDIRECTS) throw unchecked('unreachable.redirects', url)
    address = origin + route
  }
}
/** The milliseconds of a Retry-After in seconds, at most a minute; undefined for none. */
const readRetryAfter = (text = '') =>
  /^[0-9]{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_AFTER_SECONDS) * 1e3 : void 0
/** A Date as RFC 9110 has it. */
const HTTP_DATE = /^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [1-9][0-9]{3} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$/
function compareClocks(patience, date = '') {
  const at = HTTP_DATE.test(date) ? Date.parse(date) / 1e3 : NaN
  if (!Number.isNaN(at)) patience.ahead = Math.max(at - nowSeconds(), patience.ahead ?? -Infinity)
}
function decompress(url, encoding = 'identity', body) {
  if (encoding === 'identity') return body
  if (encoding !== 'gzip') throw unchecked('unreachable.encoding', url)
  try {
    return gunzip(body)
  } catch {
    throw unchecked('unreachable.gzip', url, MAX_ANSWER_BYTES)
  }
}
/** Decompresses gzip of one member without optional fields (RFC 1952), as servers send it. @throws Error */
function gunzip(body) {
  if (body.length < 18 || body.readUInt32BE(0) !== 529205248) throw new Error('no gzip')
  const plain = zlib.gunzipSync(body, { maxOutputLength: MAX_ANSWER_BYTES })
  if (body.readUInt32LE(body.length - 4) !== plain.length) throw new Error('no end')
  return plain
}
const agents = {
  http: new http.Agent({ keepAlive: true }),
  https: new https.Agent({ keepAlive: true }),
}
/** Makes one request and reads its whole answer, within a deadline and a size. @throws Passing or Unchecked */
async function getOnce(url, patience) {
  const leftMs = patience.endsAt - performance.now()
  if (leftMs <= 0) throw tooSlow(patience)
  const timeoutMs = Math.min(patience.timeoutMs, leftMs)
  const signal = AbortSignal.timeout(Math.ceil(timeoutMs))
  const headers = {
    accept: 'application/json',
    'accept-encoding': 'gzip',
  }
  const request = url.startsWith('https:')
    ? https.get(url, {
        agent: agents.https,
        headers,
        signal,
      })
    : http.get(url, {
        agent: agents.http,
        headers,
        signal,
      })
  request.on('error', () => void 0)
  try {
    const [response] = await once(request, 'response')
    const parts = []
    let bytes = 0
    for await (const part of response) {
      bytes += part.length
      if (bytes > MAX_ANSWER_BYTES) throw unchecked('unreachable.large', url, MAX_ANSWER_BYTES)
      parts.push(part)
    }
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      body: Buffer.concat(parts),
    }
  } catch (error) {
    request.destroy()
    if (error instanceof Unchecked) throw error
    if (!signal.aborted) throw new Passing(error.message || 'no connection')
    if (leftMs < patience.timeoutMs) throw tooSlow(patience)
    throw unchecked('unreachable.slow', url, timeoutMs / 1e3)
  }
}

// client/verify/check.ts
/**
 * Runs a check. Whatever goes wrong in it, a mistake of its own as well, is `unchecked`.
 *
 * @returns what the check ends with; never rejects
 */
async function verify$1(check) {
  try {
    return await check()
  } catch (error) {
    const { word = 'failed', help = '' } = error instanceof Unchecked ? error : {}
    return {
      ok: false,
      binding: false,
      verdict: 'unchecked',
      error: word,
      message: String(error instanceof Error ? error.message : error).slice(0, 1e3),
      ...(help && { help }),
    }
  }
}
/** @throws Unchecked */
async function readTrust({ stateFile, policyFile, pubkeys = [], maxAgeSeconds: maxAge }, service) {
  const policy = policyFile === void 0 ? void 0 : await readPolicy(policyFile)
  return {
    stateFile,
    policy,
    pinned: [...pubkeys, ...logKeysOf(policy)],
    maxAge,
    service,
  }
}
/** Reads a policy of witnesses. @throws Unchecked */
async function readPolicy(file) {
  const text = await readText(file)
  try {
    return parseLogPolicy(text)
  } catch (error) {
    throw new Unchecked('usage', error.message)
  }
}
const DEFAULT_MAX_AGE_SECONDS = 1800
const MAX_TURNS = 5
/**
 * Checks the ledger of a service, from what was checked before on, and remembers what it has verified.
 *
 * @throws Unchecked
 */
async function checkService(base, trust, options = {}) {
  const judge = await readTrust(
    {
      ...trust,
      maxAgeSeconds: trust.maxAgeSeconds ?? DEFAULT_MAX_AGE_SECONDS,
    },
    base,
  )
  const patience = beginPatience(options.timeoutMs ?? 3e4, options.deadlineMs ?? 36e5)
  for (let turn = 1; ; turn++) {
    const remembered = (await readState(judge.stateFile))[base]
    const keep = createMemory(judge.stateFile, base, remembered)
    const walk = await walkChain(serviceSource(base, patience), {
      ...options,
      pinned: judge.pinned,
      remembered,
      keep: async (one) => {
        if (one.findings.total === 0) await keep(one)
      },
    })
    judgeClock(walk.findings, patience)
    const shown =
      walk.findings.total === 0 && walk.checked?.state.logged === true
        ? await checkCheckpoint(base, walk, judge.policy, patience)
        : void 0
    const isOvertaken = walk.findings.total === 0 && (await keep(walk))
    if (isOvertaken && turn < MAX_TURNS) continue
    const doubts = walk.doubts(shown)
    if (isOvertaken) doubts.push(say('not_compared.checks'))
    return conclude(
      judge,
      {
        ...chainReport(base, walk),
        checkpoint: shown === void 0 ? null : headOf(shown),
        remembered_seq: remembered?.seq ?? null,
        state: judge.stateFile,
      },
      walk,
      doubts,
      walk.support(shown),
    )
  }
}
/**
 * Makes what remembers, of one service, what a walk without findings has verified, never less than was known. It returns
 * whether another check has put something else there meanwhile: then nothing is changed.
 */
function createMemory(file, service, remembered) {
  let known = remembered
  return async (walk) => {
    const { checked } = walk
    if (checked === void 0 || checked.seal.seq < (known?.seq ?? 0)) return false
    const memory = walk.memory(checked)
    let isOvertaken = false
    await changeState(file, (state) => {
      const current = state[service]
      isOvertaken =
        current !== void 0 && ![known?.payload_hash, memory.payload_hash].includes(current.payload_hash)
      if (!isOvertaken) state[service] = known = memory
    })
    return isOvertaken
  }
}
/**
 * Fetches the newest checkpoint, and checks that a known key has signed it and that it agrees with the log
 * that the entries give; adds what does not hold to the findings.
 *
 * @returns undefined if there is none, or it isn't signed
 * @throws Unchecked
 */
async function checkCheckpoint(base, walk, policy, patience) {
  const body = await fetchCheckpoint(base, patience, witnessesOf(policy))
  if (body === void 0 || walk.checked === void 0) return void 0
  const own = GrowingTree.ofLog(walk.checked.state.log).head()
  const { findings, keyring } = walk
  const read = findings.run('checkpoint', () => {
    let note
    try {
      note = decodeText(body)
    } catch {
      throw refusal('wrong_checkpoint.text')
    }
    return verifyCheckpoint(note, keyring.accepted)
  })
  if (!read.held) return void 0
  const shown = read.value
  const proofTo = async (one, other) =>
    one.size === other.size
      ? void 0
      : fetchConsistency(base, patience, Math.min(one.size, other.size), Math.max(one.size, other.size))
  const proof = await proofTo(own, shown)
  if (findings.run('checkpoint', () => connectLogs(own, shown, proof)).held) walk.rememberCheckpoint(shown)
  const beyond = []
  for (const note of walk.heard) {
    const heard = readCheckpoint(note)
    if (heard.size > shown.size) {
      beyond.push(note)
      continue
    }
    compareLogs(walk, 'note', shown, heard, await proofTo(heard, shown))
  }
  walk.heard = beyond
  return shown
}
const headOf = ({ origin, size, root }) => ({
  origin,
  size,
  root,
})
const chainReport = (target, walk) => ({
  kind: 'chain',
  target,
  seals: walk.resumedAt + walk.sealsRead,
  signed: walk.signed,
  unsigned_seqs: walk.unsignedSeqs,
  entries_sealed: walk.entriesSealed,
  entries_waiting: walk.entriesWaiting,
  resumed_at: walk.resumedAt === 0 ? null : walk.resumedAt,
  entries_read: walk.reader.count,
  head:
    walk.head === void 0
      ? null
      : {
          seq: walk.head.seal.seq,
          payload_hash: walk.head.payloadHash,
          at: walk.head.seal.at,
        },
  head_age_seconds: walk.head === void 0 ? null : nowSeconds() - walk.head.seal.at,
  log: walk.log ?? null,
  keys: walk.keys ?? null,
  adoptions: walk.adoptions,
  unreadable_amounts: walk.unreadable,
})
/** Checks a dump or a receipt in a file. @throws Unchecked */
async function checkFile(file, trust, options) {
  const content = await readJsonFile(file)
  const { seals, entries } = isObject(content) ? content : {}
  if (Array.isArray(entries) && !Array.isArray(seals)) return checkReceipt(content, file, trust, options)
  if (!Array.isArray(seals) || !Array.isArray(entries))
    throw new Unchecked('usage', `${file} is neither a dump {entries, seals} nor a receipt`)
  return checkDump(file, listSource(seals, entries), trust, options)
}
async function checkDump(file, source, trust, options) {
  const judge = await readTrust(trust, options.service)
  const remembered = await findService(judge, [await findFirstKey(source)])
  const walk = await walkChain(source, {
    ...options,
    pinned: judge.pinned,
    remembered,
    mayBeOlder: true,
    isFull: true,
  })
  return conclude(
    judge,
    {
      ...chainReport(file, walk),
      remembered_seq: null,
    },
    walk,
    walk.doubts(void 0),
    walk.support(void 0),
  )
}
/** The key of the first signed seal. */
async function findFirstKey(source) {
  for await (const seal of source.seals(0))
    if (isObject(seal) && seal['signed'] === true) return seal['pubkey']
}
/**
 * What is remembered of the service that a file is from, which the file doesn't say: the named service's,
 * else that of the only one, else of the one whose key signed it; undefined if none.
 */
async function findService({ stateFile, service }, keys) {
  const state = await readState(stateFile)
  if (service !== void 0) return state[service]
  const services = Object.values(state)
  if (services.length === 1) return services[0]
  return services.find(({ pubkeys }) => keys.some((key) => pubkeys.includes(key)))
}
/** Asks for the proof that one of two logs goes on from the other; undefined if it takes none, or nobody gives one. */
async function proofBetween(seen, shown, ask) {
  if (ask === void 0 || seen === void 0 || shown === void 0 || seen.size === shown.size) return void 0
  const answer = await ask(Math.min(seen.size, shown.size), Math.max(seen.size, shown.size))
  return answer === void 0 ? void 0 : readConsistency(answer)
}
/**
 * Checks a receipt; remembers its checkpoint if that goes on from what was seen.
 *
 * @param receipt what may be one
 * @param target what the report calls it
 * @throws Unchecked
 */
async function checkReceipt(receipt, target, trust, { service, consistency: ask } = {}) {
  const judge = await readTrust(trust, service)
  const remembered = await findService(judge, keysIn(receipt))
  const consistency = await proofBetween(seenLog(remembered), newestCheckpoint(receipt), ask)
  const reader = {
    pinned: judge.pinned,
    remembered,
    now: nowSeconds(),
    consistency,
  }
  const check = new ReceiptCheck(receipt, reader)
  const { log } = check
  const result = await conclude(
    judge,
    {
      kind: 'receipt',
      target,
      id: check.id,
      entries_sealed: check.entriesSealed,
      entries_waiting: check.entriesWaiting,
      unsigned_seqs: check.unsignedSeqs,
      openings: check.openings,
      authors: check.authors,
      log:
        log === void 0
          ? null
          : {
              ...headOf(log.signed),
              connected: log.connected,
            },
      proves: 'presence',
    },
    check,
    check.doubts(),
    check.support,
  )
  if (result.verdict === 'good' && log?.connected === 'consistent' && service !== void 0)
    await changeState(judge.stateFile, (state) => rememberCheckpoint(state, service, log.signed))
  return result
}
/**
 * Compares a checkpoint that another reader was shown with what is remembered of the service. One that goes on
 * from that is remembered, and so is one beyond it that can't be compared yet.
 *
 * @param target what the report calls it
 * @throws Unchecked
 */
async function checkNote(note, target, trust, { service, consistency: ask } = {}) {
  const judge = await readTrust(trust, service)
  const remembered = await findService(judge, [])
  const findings = new Findings()
  const keyring = new Keyring(judge.pinned, remembered?.pubkeys ?? [])
  const seen = seenLog(remembered)
  const read = findings.run('note', () => verifyCheckpoint(note, keyring.accepted))
  const shown = read.held ? read.value : void 0
  let connected = null
  if (shown !== void 0 && seen !== void 0) {
    const proof = await proofBetween(seen, shown, ask)
    connected = compareLogs(
      {
        findings,
        keyring,
      },
      'note',
      seen,
      shown,
      proof,
    )
  }
  const isConnected = connected === 'same' || connected === 'consistent'
  if (shown !== void 0 && service !== void 0 && connected !== null && connected !== 'same')
    await changeState(judge.stateFile, (state) =>
      isConnected ? rememberCheckpoint(state, service, shown) : rememberHeard(state, service, shown.note),
    )
  return conclude(
    judge,
    {
      kind: 'note',
      target,
      log:
        shown === void 0
          ? null
          : {
              ...headOf(shown),
              connected,
            },
      pubkeys: [...keyring.accepted],
    },
    {
      findings,
      keyring,
    },
    seen === void 0 || connected === 'not_checked' ? [say('not_compared.note')] : [],
    {
      ...NO_SUPPORT,
      checkpoints: shown === void 0 ? [] : [shown],
      seenSize: isConnected ? (seen?.size ?? null) : null,
    },
  )
}
/** Checks a file that is to prove that one key signed two histories. @throws Unchecked */
async function checkEvidence(file, trust) {
  const evidence = readEvidence(await readJsonFile(file))
  if (evidence === void 0) throw new Unchecked('usage', `${file} is not evidence of a fork`)
  const { pinned, stateFile } = await readTrust(trust, void 0)
  const named = keysOfEvidence(evidence)
  const remembered = Object.values(await readState(stateFile)).find(({ pubkeys }) =>
    named.some((key) => pubkeys.includes(key)),
  )
  const keyring = new Keyring(pinned, remembered?.pubkeys ?? [])
  const { findings, report } = checkEvidence$1(evidence, keyring)
  return conclude(
    { stateFile },
    {
      kind: 'evidence',
      target: file,
      ...report,
    },
    {
      findings,
      keyring,
    },
    keyring.trust === 'first_seen' ? [say('key_unknown.file')] : [],
  )
}
/**
 * Makes the verdict of the findings and of why nothing binds. Writes the two sides of a contradiction, if one
 * was found, beside the state file.
 */
async function conclude(judge, report, { findings, keyring }, ownDoubts, support) {
  const now = nowSeconds()
  const { policy, maxAge, stateFile, service } = judge
  const judged =
    support &&
    judgeSupport(policy, support, keyring.trust, {
      now,
      maxAge,
    })
  const doubts = [...ownDoubts, ...(judged?.doubts ?? [])]
  const verdict = findings.total > 0 ? 'broken' : doubts.length > 0 ? 'not_binding' : 'good'
  const evidence =
    findings.fork === void 0
      ? {}
      : { evidence: await writeEvidence(path.dirname(stateFile), findings.fork, service, now) }
  return {
    ok: verdict === 'good',
    binding: verdict === 'good',
    verdict,
    pubkeys: [...keyring.seen],
    key_trust: keyring.trust,
    ...report,
    ...(judged === void 0 ? {} : { rests_on: verdict === 'broken' ? null : judged.rests }),
    not_binding: verdict === 'broken' ? [] : doubts,
    findings: findings.list,
    findings_total: findings.total,
    ...evidence,
  }
}

// client/verify/report.ts
const EXIT_CODES = {
  good: 0,
  broken: 1,
  unchecked: 2,
  not_binding: 3,
}
/**
 * The lines of a result, safe for a terminal: everything but printable ASCII is escaped, and nothing of a
 * server's looks like this program's own `GOOD`.
 */
function describe(result) {
  return (
    result.verdict === 'unchecked'
      ? [result.message ?? '', ...(result.help ?? '').split('\n')]
      : resultLines(result)
  )
    .map((line) => protect(result, line))
    .join('\n')
    .trimEnd()
}
/** The result as JSON, with the same care. */
const describeAsJson = ({ help: _help, ...result }) => protect(result, JSON.stringify(result))
function protect({ verdict }, text) {
  const escaped = text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return verdict === 'good' ? escaped : escaped.replaceAll('GOOD', 'G\\u004fOD')
}
function resultLines(result) {
  const { kind, findings = [], findings_total: total = 0, rests_on: rests, log } = result
  const of = result
  return [
    ...findings.map(({ reason, where, message }) => `${reason} at ${where}: ${message}`),
    ...(total >= MAX_FINDINGS ? [`the check ended after ${MAX_FINDINGS} findings`] : []),
    ...(kind === 'chain' ? chainLines(result, of) : []),
    ...(kind === 'receipt' ? receiptLines(of) : []),
    ...((kind === 'receipt' || kind === 'note') && log ? [logLine(log)] : []),
    ...(kind === 'receipt' ? [PRESENCE] : []),
    ...(kind === 'evidence' ? [evidenceLine(of)] : []),
    ...(result.pubkeys ?? []).map((key) => `key: ${key} (${KEY_TRUST[result.key_trust ?? 'first_seen']})`),
    ...(result.evidence === void 0
      ? []
      : [`two signed histories, for anybody to check with --evidence: ${result.evidence}`]),
    ...(rests ? restsLines(rests) : []),
    ...(result.not_binding ?? []).map(({ reason, message }) => `${reason}: ${message}`),
    verdictLine(result, of),
  ]
}
const list = (value) => (Array.isArray(value) ? value : [])
function chainLines(result, of) {
  const { head, log, verdict } = result
  const unsigned = list(of['unsigned_seqs'])
  const { keys, state, remembered_seq: seen } = of
  const lines = [`seals: ${of['seals']}, of which signed: ${of['signed']}`]
  if (unsigned.length > 0)
    lines.push(
      `not signed, so not binding: seal ${unsigned.slice(0, 20).join(' ')}${unsigned.length > 20 ? ' ...' : ''}`,
    )
  lines.push(
    `entries under a seal: ${of['entries_sealed']}, waiting for one: ${of['entries_waiting']}, read now: ${of['entries_read']}`,
  )
  for (const { entry_id: id, at, data } of list(of['adoptions']))
    lines.push(`adoption: entry ${id} of the time ${at}: ${data}`)
  if (of['unreadable_amounts'] !== 0)
    lines.push(`entries whose amount cannot be read, which count as nothing: ${of['unreadable_amounts']}`)
  if (head)
    lines.push(
      `head: seal ${head.seq}, payload hash ${head.payload_hash}, made ${of['head_age_seconds']} s ago`,
    )
  if (log) lines.push(`log: size ${log.size}, root ${log.root} (other readers compare it with --note)`)
  if (keys)
    lines.push(
      `keys: of ${keys['count']} agents, root ${keys['root']}${keys['recomputed'] === true ? '' : ' (changes as stated: --full recomputes them)'}`,
    )
  if (typeof seen === 'number' && verdict !== 'broken')
    lines.push(`nothing up to seal ${seen} has changed since the last check`)
  if (state !== void 0)
    lines.push(
      verdict === 'broken'
        ? `nothing was remembered in ${state}`
        : seen === null && head
          ? `the first check of this service with ${state}: key and log are remembered from now on`
          : `remembered in ${state}`,
    )
  return lines
}
const CONNECTED = {
  same: 'the one seen before',
  consistent: 'consistent with the one seen before',
  not_checked: 'not compared with the one seen before (--consistency)',
}
const logLine = ({ size, root, connected }) =>
  `log: size ${size}, root ${root}, ${connected ? CONNECTED[connected] : 'and none was seen before'}`
const PRESENCE =
  'this shows that these entries are on record, not that there are no others: a later hide, ban or key may be left out'
function receiptLines(of) {
  const unsigned = list(of['unsigned_seqs'])
  return [
    `record: ${show(of['id'])}`,
    `openings checked: ${of['openings']}`,
    ...list(of['authors']).map(
      ({ entry_id: id, author_key: key }) => `entry ${id} is signed by the author key ${key}`,
    ),
    ...(unsigned.length > 0 ? [`not signed, so not binding: seal ${unsigned.join(' ')}`] : []),
    `entries under a seal: ${of['entries_sealed']}, waiting for one: ${of['entries_waiting']}`,
  ]
}
const evidenceLine = (of) =>
  of['sizes'] === void 0
    ? `seal: ${of['seq']}, payload hashes: ${list(of['payload_hashes']).join(' and ')}`
    : `checkpoints: sizes ${list(of['sizes']).join(' and ')}, roots ${list(of['roots']).join(' and ')}`
const KEY_TRUST = {
  pinned: 'pinned',
  remembered: 'the one remembered',
  first_seen: 'not known',
}
const RESTS_ON_KEY = {
  pinned: 'the pinned key',
  remembered: 'the remembered key',
  first_seen: 'a key that is not known',
}
/** What a verdict rests on, how far witnesses have vouched, and when they last did. */
function restsLines(rests) {
  const { key, cosigned_by: names, quorum, seen_size: seen } = rests
  const how = names.length === 1 ? 'the cosignature' : `${names.length} cosignatures`
  const parts = [
    RESTS_ON_KEY[key],
    ...(names.length > 0 ? [`${how} of ${names.join(', ')} (quorum ${quorum})`] : []),
    ...(seen === null ? [] : [`what was seen here of the log of ${seen} entries`]),
  ]
  const last = parts.pop()
  return [
    `rests on: ${parts.length === 0 ? `${last} alone` : `${parts.join(', ')} and ${last}`}`,
    ...(rests.cosigned_size === void 0
      ? []
      : [`cosigned: the log up to entry ${rests.cosigned_size}, last at ${rests.cosigned_at}`]),
  ]
}
const GOOD = {
  chain: 'GOOD: the whole chain holds',
  receipt: 'GOOD: every entry is under its seal',
  note: 'GOOD: the other reader was shown the same log',
  evidence: 'GOOD evidence: this key has signed two histories',
}
function verdictLine({ verdict, kind = 'chain', findings_total: total }, of) {
  if (verdict === 'good')
    return typeof of['resumed_at'] === 'number'
      ? 'GOOD: the chain holds, and goes on from what was checked before'
      : GOOD[kind]
  return verdict === 'broken'
    ? `BAD: ${total} finding${total === 1 ? '' : 's'}`
    : 'NOT BINDING: nothing is wrong, and nothing proves it'
}

// client/verify/main.ts
const USAGE = `usage: node seal-verify.mjs BASE_URL | DUMP.json | RECEIPT.json [options]
       node seal-verify.mjs --evidence FILE | --note FILE [options]

  --pubkey HEX          accept this key and no other (give it again for each further key)
  --policy FILE         whose cosignatures a checkpoint must have (C2SP tlog-policy); its logs' keys are pinned
  --state FILE          where keys and logs that were seen are remembered (default .seal-verify.json)
  --service URL         the remembered service that a receipt is of, if there are several
  --consistency FILE    what the service answers to GET /ledger/consistency, between the log seen and the receipt's
  --note FILE           compare a signed checkpoint that another reader was shown with what is remembered
  --full                read the whole ledger again, not only what is new
  --max-age SECONDS     how old the newest cosignature that counts may be, or without any the newest signed seal
                        (default 1800 for a service; any age for a file)
  --max-seals N         give up if there are more to check at once (default 1000000)
  --max-entries N       the same of entries (default 100000000)
  --timeout SECONDS     for each answer as a whole (default 30)
  --deadline SECONDS    for all answers of a service together (default 3600); the next check goes on from there
  --json                print one JSON object instead of lines

exit 0: it holds, under a known key; 1: something does not hold; 2: it could not be checked; 3: nothing binding`
const one = { type: 'string' }
const many = {
  type: 'string',
  multiple: true,
}
const flag = { type: 'boolean' }
const OPTIONS = {
  pubkey: many,
  policy: one,
  state: one,
  service: one,
  consistency: one,
  note: one,
  evidence: one,
  full: flag,
  json: flag,
  'max-age': one,
  'max-seals': one,
  'max-entries': one,
  timeout: one,
  deadline: one,
}
/** @throws Unchecked */
async function readArguments(args) {
  const { values, positionals } = parse(args)
  const [target, ...others] = [
    ...positionals,
    ...[values.evidence ?? []].flat(),
    ...[values.note ?? []].flat(),
  ]
  if (target === void 0 || others.length > 0)
    throw new Unchecked('usage', 'one thing to check is needed', USAGE)
  const whole = (name, fallback) => {
    const given = values[name]
    if (given !== void 0 && !/^[0-9]{1,15}$/.test(given))
      throw new Unchecked('usage', `--${name} takes a whole number, not ${show(given)}`)
    return given === void 0 ? fallback : Number(given)
  }
  const { pubkey: pubkeys = [], consistency } = values
  for (const key of pubkeys)
    if (!isHexHash$1(key))
      throw new Unchecked('usage', `--pubkey takes 64 lower-case hex characters, not ${show(key)}`)
  const kind = values.evidence !== void 0 ? 'evidence' : values.note !== void 0 ? 'note' : 'file'
  const isService = kind === 'file' && /^https?:/i.test(target)
  const answer = consistency === void 0 ? void 0 : await readJsonFile(consistency)
  return {
    target: isService ? normalizeBase(target) : target,
    kind: isService ? 'service' : kind,
    reader: {
      stateFile: values.state ?? '.seal-verify.json',
      pubkeys,
      policyFile: values.policy,
      maxAgeSeconds: whole('max-age'),
    },
    options: {
      isFull: values.full === true,
      maxSeals: whole('max-seals', 1e6) ?? Infinity,
      maxEntries: whole('max-entries', 1e8) ?? Infinity,
      timeoutMs: (whole('timeout', 30) ?? 30) * 1e3,
      deadlineMs: (whole('deadline', 3600) ?? 3600) * 1e3,
      service: values.service === void 0 ? void 0 : normalizeBase(values.service),
      consistency: consistency === void 0 ? void 0 : () => Promise.resolve(answer),
    },
  }
}
function parse(args) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: OPTIONS,
    })
  } catch (error) {
    throw new Unchecked('usage', error.message, USAGE)
  }
}
const BASE_URL = /^(https?):\/\/([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:\/[A-Za-z0-9._~-]+)*)\/*$/
const DEFAULT_PORTS = {
  http: 80,
  https: 443,
}
/** The one form of a service's URL: `https://Host:443/` and `https://host/api/v1` become `https://host`. */
function normalizeBase(target) {
  const parts = target.split('/').map((part, place) => (place < 3 ? part.toLowerCase() : part))
  const [, scheme, host, port = '', route = ''] = BASE_URL.exec(parts.join('/')) ?? []
  if (scheme === void 0 || /\/\.\.?(\/|$)/.test(route))
    throw new Unchecked('usage', `${target} is not the address of a service`)
  return `${scheme}://${port === '' || Number(port) === DEFAULT_PORTS[scheme] ? host : `${host}:${Number(port)}`}${route.replace(/\/api\/v1$/, '')}`
}
/** Checks what the arguments name. @throws Unchecked */
async function run(args, progress) {
  const { kind, target, reader, options } = await readArguments(args)
  if (kind === 'evidence') return checkEvidence(target, reader)
  if (kind === 'note') return checkNote(await readText(target), target, reader, options)
  if (kind === 'service')
    return checkService(target, reader, {
      ...options,
      progress,
    })
  return checkFile(target, reader, {
    ...options,
    progress,
  })
}
/** Runs the command with these arguments and prints nothing. It never rejects. */
async function check(args, progress) {
  const result = await verify$1(() => run(args, progress))
  return {
    exitCode: EXIT_CODES[result.verdict],
    result,
    text: describe(result),
    json: describeAsJson(result),
  }
}
const PROGRESS_EVERY_MS = 2e3
function showOnStderr() {
  let next = Date.now() + PROGRESS_EVERY_MS
  return (line) => {
    if (Date.now() < next) return
    next = Date.now() + PROGRESS_EVERY_MS
    process.stderr.write(`... ${line}\n`)
  }
}
const program = process.argv[1]
if (program !== void 0 && realpathSync(program) === fileURLToPath(import.meta.url)) {
  const args = process.argv.slice(2)
  const { exitCode, result, text, json } = await check(args, showOnStderr())
  const isJson = args.includes('--json')
  ;(result.verdict === 'unchecked' && !isJson ? process.stderr : process.stdout).write(
    `${isJson ? json : text}\n`,
    () => process.exit(exitCode),
  )
}

export { check }
