#!/usr/bin/env node
/*
 * Checks the ledger of an agent network without trusting it. One file, no dependency, Node 18 or later.
 *
 *   node seal-verify.mjs BASE_URL         the chain of a service: what is new since the last check; --full: all of it
 *   node seal-verify.mjs DUMP.json        a saved dump {entries, seals}, offline
 *   node seal-verify.mjs RECEIPT.json     one receipt, offline
 *   node seal-verify.mjs --evidence FILE  a proof that one key signed two histories, offline
 *   node seal-verify.mjs --note FILE      a checkpoint that another reader was shown
 *   node seal-verify.mjs --vector FILE    test vectors
 *
 * A leaf is SHA-256 of the byte 00 and the entry's canonical JSON (RFC 8785); a node is SHA-256 of left and
 * right bytes, an odd node moves up unchanged (the shape of RFC 6962). A seal signs, with Ed25519, the
 * canonical JSON of its at, count, from_id, prev_root, root, seq and to_id, which is rebuilt here and never
 * taken from the server. Sealing prevents rewriting, not withholding: nobody can miss an entry that was never
 * made.
 *
 * Exit: 0 all that was asked about holds and stands under a signature of a key that is pinned or remembered;
 * 1 something doesn't hold (one line each, with a fixed word); 2 it could not be checked; 3 nothing is wrong,
 * but nothing binding was found either.
 */
import * as crypto from 'node:crypto'
import { createReadStream, realpathSync } from 'node:fs'
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import zlib from 'node:zlib'

const USAGE = `usage: node seal-verify.mjs BASE_URL | DUMP.json | RECEIPT.json [options]
       node seal-verify.mjs --evidence FILE | --vector FILE [--vector FILE ...] [options]

  --pubkey HEX          accept this key and no other (give it again for each further key)
  --policy FILE         whose cosignatures a checkpoint must have (C2SP tlog-policy); its logs' keys are pinned
  --state FILE          where keys and seals that were seen are remembered (default .seal-verify.json)
  --service URL         the remembered service that a receipt is of, if there are several
  --consistency FILE    what the service answers to GET /ledger/consistency, between the log seen and the receipt's
  --note FILE           compare a signed checkpoint that another reader was shown with what is remembered
  --full                read the whole ledger again, not only what is new
  --save FILE           write what was read from BASE_URL as a dump; reads everything
  --expect SEQ:HISTORY  compare with what another reader saw; may be given again
  --max-age SECONDS     how old the newest cosignature that counts may be, or without any the newest signed seal
                        (default 1800 for a service; any age for a file)
  --max-seals N         give up if there are more to check at once (default 1000000)
  --max-entries N       the same of entries (default 100000000)
  --timeout SECONDS     for each answer as a whole (default 30)
  --deadline SECONDS    for all answers of a service together (default 3600); the next check goes on from there
  --json                print one JSON object instead of lines

exit 0: it holds, under a known key; 1: something does not hold; 2: it could not be checked; 3: nothing binding`

const SEALS_PER_PAGE = 1_000
const ENTRIES_PER_PAGE = 10_000 // the most that the service gives
const MAX_ANSWER_BYTES = 16 * 2 ** 20
const MAX_FILE_BYTES = MAX_ANSWER_BYTES // but for a dump line by line, each line of which may have as much
const MAX_CONTAINERS = 500_000 // lists and objects of one answer or file
const MIN_ENTRIES_PER_PAGE = 100
const MAX_RETRY_AFTER_SECONDS = 60
const KEEP_EVERY_MS = 10_000
const MAX_REDIRECTS = 3
const RETRY_PAUSES_MS = [500, 1_500]
const PROGRESS_EVERY_MS = 2_000
const MAX_FINDINGS = 1_000 // then the check ends: it is broken
const MAX_LISTED = 1_000
const MAX_JSON_DEPTH = 500 // of what is hashed
const MAX_PARSED_DEPTH = 1_000
const MAX_CLOCK_SKEW_SECONDS = 300
const LOCK_STALE_MS = 10_000
const DUMP_HEAD = '{"entries":['
const DUMP_MIDDLE = '],"seals":['

const KEY_UNKNOWN = `nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey`
const RECEIPT_KEY_UNKNOWN = `${KEY_UNKNOWN}, or check the service first, so that its key is remembered`

const HEX_HASH = /^[0-9a-f]{64}$/
const SIGNATURE_BASE64 = /^[A-Za-z0-9+/]{86}==$/
const LONE_SURROGATE = /\p{Cs}/u
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')

/**
 * Something could not be checked, so the exit code is 2; `word` is its fixed word, `help` lines that follow
 * it.
 */
class Unchecked extends Error {
  constructor(word, message, help = '') {
    super(message)
    this.word = word
    this.help = help
  }
}

/** Something does not hold; `reason` is its fixed word. */
class Refused extends Error {
  constructor(reason, message) {
    super(message)
    this.reason = reason
  }
}

// ——— JSON as it is read: UTF-8, no key twice in an object, nested to a bound

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Parses JSON in UTF-8. Throws SyntaxError, TypeError or RangeError. */
function parseJson(bytes) {
  return parseJsonText(utf8.decode(bytes))
}

/**
 * Parses JSON; throws SyntaxError for a key that stands twice in an object, RangeError for too deep nesting.
 */
function parseJsonText(text) {
  // Before it is parsed, which would cost fifty times its size.
  const { members, depth, containers } = measureJson(text)
  if (depth > MAX_PARSED_DEPTH) throw new RangeError(`it is nested deeper than ${MAX_PARSED_DEPTH} levels`)
  if (containers > MAX_CONTAINERS)
    throw new RangeError(`it has more than ${MAX_CONTAINERS} lists and objects`)
  const value = JSON.parse(text)
  // JSON.parse keeps the last of two equal keys, and another reader the first: then there are more colons
  // than keys.
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
    if (code === 0x22) {
      while (++at < text.length && text.charCodeAt(at) !== 0x22) if (text.charCodeAt(at) === 0x5c) at++
    } else if (code === 0x3a) members++
    else if (code === 0x5b || code === 0x7b) {
      containers++
      depth = Math.max(depth, ++level)
    } else if (code === 0x5d || code === 0x7d) level--
  }
  return { members, depth, containers }
}

/** How many members all objects in a value have together. */
function countMembers(value) {
  if (typeof value !== 'object' || value === null) return 0
  const parts = Object.values(value)
  let count = Array.isArray(value) ? 0 : parts.length
  for (const part of parts) count += countMembers(part)
  return count
}

// ——— canonical JSON, hashes, signatures

/** The canonical JSON of a value (RFC 8785). Throws Refused `no_canonical_form` if it has none. */
function canonicalJson(value, depth = 0) {
  if (typeof value === 'string') {
    if (LONE_SURROGATE.test(value))
      throw new Refused('no_canonical_form', 'a lone surrogate has no UTF-8 form')
    return JSON.stringify(value)
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new Refused('no_canonical_form', 'a number is too large')
    return JSON.stringify(value)
  }
  if (value === null || typeof value === 'boolean') return String(value)
  if (depth === MAX_JSON_DEPTH)
    throw new Refused('no_canonical_form', `nested deeper than ${MAX_JSON_DEPTH} levels`)
  if (Array.isArray(value)) return '[' + value.map((item) => canonicalJson(item, depth + 1)).join(',') + ']'
  const members = Object.keys(value).sort() // by UTF-16 code units
  return (
    '{' +
    members
      .map((key) => canonicalJson(key, depth + 1) + ':' + canonicalJson(value[key], depth + 1))
      .join(',') +
    '}'
  )
}

const sha256Hex = (data) =>
  crypto.hash ? crypto.hash('sha256', data, 'hex') : crypto.createHash('sha256').update(data).digest('hex')
const leafHash = (entry) => sha256Hex('\0' + canonicalJson(entry))
const nodeHash = (left, right) => sha256Hex(Buffer.from(left + right, 'hex'))

/**
 * A Merkle tree whose leaves are added one by one. It keeps the roots of complete subtrees alone, one for
 * each bit of the count. `root()` needs at least one leaf.
 */
class GrowingTree {
  count
  /** Roots of the complete subtrees, the largest first. */
  frontier
  #join

  constructor(join = nodeHash, count = 0, frontier = []) {
    this.#join = join
    this.count = count
    this.frontier = [...frontier]
  }

  add(leaf) {
    let node = leaf
    for (let rest = this.count; rest % 2 === 1; rest = Math.floor(rest / 2))
      node = this.#join(this.frontier.pop(), node)
    this.frontier.push(node)
    this.count++
  }

  root() {
    return this.frontier.reduceRight((right, left) => this.#join(left, right))
  }
}

/** The hash of a node in the log over all entries and in the tree of keys (RFC 6962 section 2.1), as hex. */
const logNodeHash = (left, right) => sha256Hex(Buffer.from(`01${left}${right}`, 'hex'))
const EMPTY_LOG_ROOT = sha256Hex('')
const EMPTY_KEY_ROOT = '0'.repeat(64)

const logHeadOf = (tree) => ({ size: tree.count, root: tree.count === 0 ? EMPTY_LOG_ROOT : tree.root() })

/**
 * The keys of all agents under one root: a prefix tree over SHA-256 of the agent's id, the highest bit first.
 * A part with one leaf is that leaf, one without any is 32 zero bytes. In form 1 a revocation (a change of a
 * key to null) does nothing; in form 2 the key is gone from the leaf.
 */
class KeyTree {
  count = 0
  #root = null
  #form

  constructor(form) {
    this.#form = form
  }

  /** Does what an entry says that changes a key. @returns whether it changes anything */
  apply({ id, kind, data }) {
    const field = KEY_FIELDS[kind]
    const { agent_id: agentId, [field]: key } = data
    if (typeof agentId !== 'string') return false
    const { [field]: before, ...rest } = this.get(agentId) ?? { agent_id: agentId, version: 0 }
    const isRevoked = this.#form === 2 && key === null && before !== undefined
    if (!isRevoked && !isHexHash(key)) return false
    const keys = isRevoked ? rest : { ...rest, [field]: key }
    this.set({ ...keys, version: rest.version + 1, entry_id: id })
    return true
  }

  /** What a closing entry states of it, besides its form. */
  state() {
    return { root: this.root(), count: this.count }
  }

  /** The keys that were set for an agent last, or undefined. */
  get(agentId) {
    const place = sha256Hex(agentId)
    let part = this.#root
    for (let depth = 0; part !== null && part.place === undefined; depth++)
      part = part.sides[bitAt(place, depth)]
    return part?.place === place ? part.keys : undefined
  }

  set(keys) {
    if (this.get(keys.agent_id) === undefined) this.count++
    const leaf = { place: sha256Hex(keys.agent_id), keys, hash: sha256Hex('\0' + canonicalJson(keys)) }
    this.#root = insertKey(this.#root, leaf, 0)
  }

  root() {
    return hashOfPart(this.#root)
  }
}

/** Bit number `depth` of a place, the highest first. @param place 64 hex characters */
const bitAt = (place, depth) => (parseInt(place[depth >> 2], 16) >> (3 - (depth & 3))) & 1

/** Puts a leaf into the part of the tree that begins at `depth`. @returns the part that takes its place */
function insertKey(part, leaf, depth) {
  if (part === null || part.place === leaf.place) return leaf
  const inner = part.place === undefined ? part : { sides: [null, null], hash: null }
  if (inner !== part) inner.sides[bitAt(part.place, depth)] = part
  const side = bitAt(leaf.place, depth)
  inner.sides[side] = insertKey(inner.sides[side], leaf, depth + 1)
  inner.hash = null // made when it is asked for
  return inner
}

function hashOfPart(part) {
  if (part === null) return EMPTY_KEY_ROOT
  part.hash ??= logNodeHash(...part.sides.map(hashOfPart))
  return part.hash
}

/**
 * Throws unless `leaf` is number `index` of `count` under `root`: RFC 6962 gives each position one shape of
 * path only.
 */
function checkInclusion({ leaf, path, root, index, count }) {
  const malformed = (sentence) => new Refused('malformed_proof', sentence)
  if (!isHexHash(leaf)) throw malformed('leaf is not 64 lower-case hex characters')
  if (!isHexHash(root)) throw malformed('root is not 64 lower-case hex characters')
  if (!isWhole(count) || count < 1 || !isWhole(index) || index >= count)
    throw malformed(`there is no index ${show(index)} among ${show(count)}`)
  const isStep = (step) =>
    isObject(step) && isHexHash(step.hash) && (step.side === 'left' || step.side === 'right')
  if (!Array.isArray(path) || !path.every(isStep)) throw malformed('path is not a list of {hash, side}')
  const sides = []
  for (
    let position = index, width = count;
    width > 1;
    position = Math.floor(position / 2), width = Math.ceil(width / 2)
  ) {
    if (position % 2 === 1) sides.push('left')
    else if (position + 1 < width) sides.push('right')
  }
  if (path.length !== sides.length)
    throw new Refused(
      'path_shape',
      `index ${index} of ${count} takes ${sides.length} steps, the path has ${path.length}`,
    )
  const wrong = sides.findIndex((side, step) => path[step].side !== side)
  if (wrong !== -1)
    throw new Refused(
      'wrong_side',
      `index ${index} of ${count} has its sibling on the ${sides[wrong]} at step ${wrong}`,
    )
  const reached = path.reduce(
    (node, { hash, side }) => (side === 'left' ? nodeHash(hash, node) : nodeHash(node, hash)),
    leaf,
  )
  if (reached !== root) throw new Refused('wrong_root', `the path leads to ${reached}, not to ${root}`)
}

/** The text that a seal's signature covers. Throws Refused `malformed_seal` if a field has the wrong form. */
function sealPayload(seal) {
  if (!isObject(seal)) throw new Refused('malformed_seal', 'a seal is not an object')
  const wrong = ['seq', 'at', 'count', 'from_id', 'to_id'].filter((field) => !isWhole(seal[field]))
  if (!isHexHash(seal.root)) wrong.push('root')
  if (seal.prev_root !== null && !isHexHash(seal.prev_root)) wrong.push('prev_root')
  if (seal.signed === true) {
    if (!isSignature(seal.signature)) wrong.push('signature')
    if (!isHexHash(seal.pubkey)) wrong.push('pubkey')
    if (seal.algo !== 'ed25519') wrong.push('algo')
    if (!isWhole(seal.signed_at)) wrong.push('signed_at')
  } else if (seal.signed !== false || (seal.signature ?? null) !== null) wrong.push('signed')
  if (wrong.length > 0)
    throw new Refused('malformed_seal', `missing or of the wrong form: ${wrong.join(', ')}`)
  const { at, count, from_id, prev_root, root, seq, to_id } = seal
  return canonicalJson({ at, count, from_id, prev_root, root, seq, to_id })
}

const FIELD_PRIME = 2n ** 255n - 19n
const ORDER_8_Y = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n

/**
 * Whether a key is one of the eight points of small order, in any encoding: anyone can make a "signature" for
 * it.
 */
function isWeakKey(pubkey) {
  const bytes = Buffer.from(pubkey, 'hex').reverse()
  bytes[0] &= 0x7f // the sign of x
  const y = BigInt('0x' + bytes.toString('hex')) % FIELD_PRIME
  return [0n, 1n, FIELD_PRIME - 1n, ORDER_8_Y, FIELD_PRIME - ORDER_8_Y].includes(y)
}

const MAX_KEY_OBJECTS = 1_000
const keyObjects = new Map()

/** Whether an Ed25519 signature (base64) is the key's (hex) over the text. */
function isSignedBy(pubkey, payload, signature) {
  if (!keyObjects.has(pubkey)) {
    if (keyObjects.size === MAX_KEY_OBJECTS) keyObjects.clear()
    keyObjects.set(
      pubkey,
      crypto.createPublicKey({
        key: Buffer.concat([SPKI_ED25519, Buffer.from(pubkey, 'hex')]),
        format: 'der',
        type: 'spki',
      }),
    )
  }
  return crypto.verify(
    null,
    Buffer.from(payload, 'utf8'),
    keyObjects.get(pubkey),
    Buffer.from(signature, 'base64'),
  )
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const isWhole = (value) => Number.isSafeInteger(value) && value >= 0
const isHexHash = (value) => typeof value === 'string' && HEX_HASH.test(value)
const isSignature = (value) =>
  typeof value === 'string' &&
  SIGNATURE_BASE64.test(value) &&
  Buffer.from(value, 'base64').toString('base64') === value

/**
 * A value as JSON for a message, at most 80 characters. JSON that was parsed may be nested deeper, or be
 * longer, than can be written again.
 */
function show(value) {
  try {
    return JSON.stringify(value ?? null).slice(0, 80)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return 'something unprintable'
  }
}

const number = (value) => (isWhole(value) ? String(value) : '?')

/**
 * Escapes everything but printable ASCII, so that nothing that a server wrote reaches a terminal as a
 * command.
 */
function escapeText(text) {
  return text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const nowSeconds = () => Math.floor(Date.now() / 1000)

// ——— what both a chain and a receipt need

/** The list of what does not hold, and proofs of contradictions. */
class Findings {
  #kept = []
  /** How many seals are dated after now, and the latest of them: {count, at, now, where}; null if none is. */
  future = null
  /** Two signed sides of a contradiction, for whoever doesn't trust the finder. */
  fork = null
  /** The same of two signed checkpoints. */
  logFork = null

  get list() {
    return this.future === null ? this.#kept : [...this.#kept, futureFinding(this.future)]
  }

  get total() {
    return this.#kept.length + (this.future === null ? 0 : 1)
  }

  get isFull() {
    return this.#kept.length >= MAX_FINDINGS
  }

  add(reason, where, message) {
    if (!this.isFull) this.#kept.push({ reason, where, message })
  }

  /** Compares a seal's time with now. However many are later, it is one finding: the clock here may be wrong. */
  addTime(where, at, now) {
    if (at <= now + MAX_CLOCK_SKEW_SECONDS) return
    const { count, ...latest } = this.future ?? { count: 0, at: -1 }
    this.future = { ...(at > latest.at ? { at, now, where } : latest), count: count + 1 }
  }

  /** Runs a check; if it throws Refused, adds that. @returns whether it went well */
  run(where, check) {
    try {
      check()
      return true
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.add(error.reason, where, error.message)
      return false
    }
  }

  /**
   * Keeps two checkpoints that contradict each other, if an accepted key signed both; with the proof that
   * shows it if their sizes differ.
   */
  keepLogFork(seen, shown, proof, keys) {
    const [from, to] = seen.size <= shown.size ? [seen, shown] : [shown, seen]
    const pubkey = [...keys.accepted].find((key) =>
      [from, to].every((side) => side.note !== undefined && isNoteBy(side.note, key)),
    )
    if (pubkey === undefined || this.logFork !== null) return
    const found = {
      pubkey,
      notes: [from.note, to.note],
      ...(from.size === to.size ? {} : { consistency: proof ?? {} }),
    }
    if (isContradiction(from, to, found.consistency)) this.logFork = found
  }

  /** Keeps two different seals of one number, if an accepted key signed both. */
  keepFork(seen, shown, keys) {
    const isProof = (seal) =>
      seal.signed &&
      keys.accepted.has(seal.pubkey) &&
      !isWeakKey(seal.pubkey) &&
      isSignedBy(seal.pubkey, sealPayload(seal), seal.signature)
    if (this.fork === null && isProof(seen) && isProof(shown))
      this.fork = [signedSide(seen), signedSide(shown)]
  }
}

/** The one finding for all seals that are dated after now. @param date what the service's own clock says, if it disagrees */
function futureFinding({ count, at, now, where, date }) {
  const many = count === 1 ? '' : `, the latest of ${count} seals that are dated after now`
  const doubt =
    date === undefined
      ? "it is of the future, or this machine's clock is behind"
      : `the service's own Date is ${date}`
  const message = `is dated ${at}${many}; this machine's clock says ${now}: ${doubt}`
  return { reason: 'from_the_future', where, message }
}

/** The fields of a seal that prove who signed what. */
function signedSide({ seq, at, count, from_id, to_id, root, prev_root, signature, pubkey }) {
  return { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey }
}

/**
 * Which keys are accepted: the pinned ones, else the remembered ones, else the first that is seen, which
 * binds nobody.
 */
class Keys {
  constructor(pinned, remembered) {
    this.trust = pinned.length > 0 ? 'pinned' : remembered.length > 0 ? 'remembered' : 'first_seen'
    this.accepted = new Set(pinned.length > 0 ? pinned : remembered)
    this.seen = new Set()
    this.last = null
  }

  /** Throws Refused if a key isn't accepted; only once for a key that signs several seals in a row. */
  check(pubkey) {
    if (this.accepted.size === 0) this.accepted.add(pubkey)
    this.seen.add(pubkey)
    const isNews = pubkey !== this.last // a foreign key is one finding, not one for each seal that it signs
    this.last = pubkey
    if (this.accepted.has(pubkey) || !isNews) return
    if (this.trust === 'pinned')
      throw new Refused('wrong_key', `signed with ${pubkey}, which is not a pinned key`)
    throw new Refused(
      'key_changed',
      `signed with ${pubkey}, not with ${[...this.accepted].join(' or ')}; if you know this key to be the service's, accept it: --pubkey for each key`,
    )
  }
}

/** Checks whose key signed a seal, and the signature; adds what does not hold to the findings. */
function checkSignature(seal, payload, keys, findings, where) {
  if (seal.signed_at < seal.at)
    findings.add('signed_before_made', where, `signed at ${seal.signed_at}, before it was made at ${seal.at}`)
  findings.run(where, () => keys.check(seal.pubkey))
  if (isWeakKey(seal.pubkey)) findings.add('weak_key', where, `anyone can sign for the key ${seal.pubkey}`)
  else if (!isSignedBy(seal.pubkey, payload, seal.signature))
    findings.add('bad_signature', where, `the signature is not that of ${seal.pubkey} over this payload`)
}

/**
 * Checks what a seal says by itself: its range, its count and its time, and that the first begins the chain.
 */
function checkSealAlone(seal, now, findings, where) {
  if (seal.count < 1 || seal.count !== seal.to_id - seal.from_id + 1)
    findings.add(
      'wrong_count',
      where,
      `count is ${seal.count} for the entries ${seal.from_id} to ${seal.to_id}`,
    )
  if (seal.seq === 1 && seal.from_id !== 1)
    findings.add('range_gap', where, `the first seal begins at entry ${seal.from_id}, not 1`)
  if (seal.seq === 1 && seal.prev_root !== null)
    findings.add('wrong_prev_root', where, 'the first seal names a previous root')
  if (seal.seq > 1 && seal.prev_root === null)
    findings.add('wrong_prev_root', where, 'only the first seal has no previous root')
  const latest = seal.signed ? Math.max(seal.at, seal.signed_at) : seal.at
  findings.addTime(where, latest, now)
}

/** Checks what a seal says about the one before it. */
function checkSealLink(previous, seal, findings, where) {
  if (seal.at < previous.at)
    findings.add('at_goes_back', where, `at ${seal.at} is before the ${previous.at} of seal ${previous.seq}`)
  if (seal.seq !== previous.seq + 1) return
  if (seal.from_id !== previous.to_id + 1)
    findings.add('range_gap', where, `begins at entry ${seal.from_id}, ${previous.to_id + 1} was due`)
  if (seal.prev_root !== null && seal.prev_root !== previous.root)
    findings.add(
      'wrong_prev_root',
      where,
      `names ${seal.prev_root}, the root of seal ${previous.seq} is ${previous.root}`,
    )
}

/** Throws Refused `malformed_entry` unless the entry has the form of one. */
function checkEntry(entry) {
  const isWellFormed =
    isObject(entry) &&
    isWhole(entry.id) &&
    isWhole(entry.at) &&
    typeof entry.kind === 'string' &&
    isObject(entry.data)
  if (!isWellFormed) throw new Refused('malformed_entry', 'an entry is not {id, at, kind, data}')
}

// ——— the log over all entries: signed notes, checkpoints and proofs, as in C2SP and RFC 6962

const MAX_NOTE_CHARACTERS = 65_536
const MAX_NOTE_LINES = 64
const MAX_LOG_PATH = 128
const NOTE_NAME = /^[^\s\p{Cc}\p{Zs}+]{1,255}$/u
const LOG_SIZE = /^(0|[1-9][0-9]{0,15})$/
const PROOF_HEADER = 'c2sp.org/tlog-proof@v1'

/** The bytes of a text in base64; undefined unless it is their canonical form. */
function fromBase64(text) {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

/**
 * Parses a signed checkpoint, without checking its signatures. Throws Refused with the fixed word `word`.
 *
 * @returns {text, origin, size, root, lines}: the signed text, what it states, and the signature lines
 */
function readCheckpoint(note, word) {
  const wrong = (sentence) => new Refused(word, sentence)
  if (
    typeof note !== 'string' ||
    note.length > MAX_NOTE_CHARACTERS ||
    !note.endsWith('\n') ||
    LONE_SURROGATE.test(note)
  )
    throw wrong('it is no signed note')
  const end = note.lastIndexOf('\n\n') // C2SP signed-note: the text may have empty lines, the signatures none
  const text = note.slice(0, end + 1)
  const lines = note.slice(end + 2, -1).split('\n')
  const [origin, size, encoded, ...rest] = text.split('\n')
  const root = fromBase64(encoded ?? '')
  if (
    end === -1 ||
    lines.length > MAX_NOTE_LINES ||
    rest.length !== 1 ||
    !NOTE_NAME.test(origin) ||
    !LOG_SIZE.test(size) ||
    root?.length !== 32
  )
    throw wrong('it is no checkpoint of three lines: origin, size and root')
  if (!isWhole(Number(size))) throw wrong('its size is too large')
  return { text, origin, size: Number(size), root: root.toString('hex'), lines }
}

/**
 * Checks that one of `pubkeys` has signed a checkpoint, under the name of its log. Throws Refused with
 * `word`.
 *
 * @returns that key
 */
function checkNoteSignature({ text, origin, lines }, pubkeys, word) {
  for (const pubkey of pubkeys) {
    const id = noteKeyId(origin, SIGNER, pubkey)
    for (const line of lines) {
      const [dash, name, encoded, ...rest] = line.split(' ')
      const bytes = fromBase64(encoded ?? '')
      if (
        dash !== '—' ||
        rest.length > 0 ||
        name !== origin ||
        bytes?.length !== 68 ||
        bytes.toString('hex', 0, 4) !== id
      )
        continue
      if (!isWeakKey(pubkey) && isSignedBy(pubkey, text, bytes.toString('base64', 4))) return pubkey
      throw new Refused(word, `the signature of the checkpoint is not that of ${pubkey}`)
    }
  }
  throw new Refused(word, 'no known key has signed the checkpoint')
}

/** Whether a text is a checkpoint that this key has signed. */
function isNoteBy(note, pubkey) {
  try {
    return (
      checkNoteSignature(readCheckpoint(note, 'wrong_checkpoint'), [pubkey], 'wrong_checkpoint') === pubkey
    )
  } catch (error) {
    if (error instanceof Refused) return false
    throw error
  }
}

/** Parses the text of a tlog-proof. Throws Refused `wrong_log_proof`. @returns {index, path, checkpoint} */
function readLogProof(proof) {
  const wrong = new Refused('wrong_log_proof', 'it is not the text of a tlog-proof')
  if (typeof proof !== 'string' || proof.length > MAX_NOTE_CHARACTERS) throw wrong
  const end = proof.indexOf('\n\n')
  const [header, ...lines] = proof.slice(0, Math.max(end, 0)).split('\n')
  if (lines[0]?.startsWith('extra ')) lines.shift()
  const [, index = ''] = /^index (.*)$/.exec(lines.shift() ?? '') ?? []
  const path = lines.map(fromBase64)
  if (
    end === -1 ||
    header !== PROOF_HEADER ||
    !LOG_SIZE.test(index) ||
    path.length > MAX_LOG_PATH ||
    path.some((step) => step?.length !== 32)
  )
    throw wrong
  return {
    index: Number(index),
    path: path.map((step) => step.toString('hex')),
    checkpoint: proof.slice(end + 2),
  }
}

/**
 * The root that a path leads to from leaf `index` of `size` (RFC 9162 section 2.1.3.2); undefined for one of
 * another shape.
 */
function rootByPath(leaf, index, size, path) {
  if (!isWhole(size) || !isWhole(index) || index >= size) return undefined
  let [place, last, running] = [index, size - 1, leaf]
  for (const sibling of path) {
    if (last === 0) return undefined
    if (place % 2 === 1 || place === last) {
      running = logNodeHash(sibling, running)
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)]
    } else running = logNodeHash(running, sibling)
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 ? running : undefined
}

/**
 * The roots of the logs of two sizes, 0 < from < to, that a path states (RFC 9162 section 2.1.4.2); undefined
 * for another shape.
 */
function consistencyRoots(from, to, hashes) {
  let [place, last] = [from - 1, to - 1]
  while (place % 2 === 1) [place, last] = [(place - 1) / 2, Math.floor(last / 2)]
  const [first, ...siblings] = hashes
  if (first === undefined) return undefined
  let [older, newer] = [first, first]
  for (const sibling of siblings) {
    if (last === 0) return undefined
    if (place % 2 === 1 || place === last) {
      ;[older, newer] = [logNodeHash(sibling, older), logNodeHash(sibling, newer)]
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)]
    } else newer = logNodeHash(newer, sibling)
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 ? { older, newer } : undefined
}

const isLogPath = (path) => Array.isArray(path) && path.length <= MAX_LOG_PATH && path.every(isHexHash)
const isPowerOfTwo = (size) => countBits(size) === 1

/** Whether the log `to` begins with the log `from`; both are {size, root}. */
function isConsistent(from, to, path) {
  if (!isLogPath(path) || from.size > to.size) return false
  if (from.size === to.size) return path.length === 0 && from.root === to.root
  if (from.size === 0) return path.length === 0 && from.root === EMPTY_LOG_ROOT
  // A power of two of leaves is a complete subtree: then its root is the first hash, which the reader has.
  const roots = consistencyRoots(from.size, to.size, isPowerOfTwo(from.size) ? [from.root, ...path] : path)
  return roots?.older === from.root && roots.newer === to.root
}

// ——— whose word is enough: the reader's policy (C2SP tlog-policy)

const MAX_POLICY_ROWS = 256

/**
 * Parses a policy. Throws Unchecked with the line that is wrong. A witness counts because the reader named
 * it.
 *
 * @returns {logs, witnesses, groups, quorum}: keys as {name, pubkey}, witnesses and groups by the policy's
 *   names
 */
function parsePolicy(text) {
  const policy = { logs: [], witnesses: new Map(), groups: new Map(), quorum: undefined }
  const { logs, witnesses, groups } = policy
  const members = new Set()
  const isDefined = (name) => witnesses.has(name) || groups.has(name)
  for (const [at, line] of text.split('\n').entries()) {
    const refuse = (sentence) => new Unchecked('usage', `line ${at + 1} of the policy: ${sentence}`)
    const [word, ...items] = line.split(/[ \t]+/).filter((item) => item !== '')
    if (word === undefined || word.startsWith('#')) continue
    const [name = ''] = items
    const expectFresh = () => {
      if (name === '' || name === 'none' || isDefined(name))
        throw refuse(`expected a name that nothing else has, got ${show(name)}`)
    }
    const readKey = (vkey, type, others) => {
      const key = parseVkey(vkey)
      const isKnown = key !== undefined && KEY_TYPES.includes(key.type)
      if (key === undefined || (isKnown && key.type !== type))
        throw refuse('expected the vkey of such an Ed25519 key')
      if (others.some(({ pubkey }) => pubkey === key.pubkey))
        throw refuse(`the key of ${show(key.name)} is there twice`)
      return key
    }
    if (logs.length > MAX_POLICY_ROWS || witnesses.size > MAX_POLICY_ROWS || groups.size > MAX_POLICY_ROWS)
      throw refuse(`expected at most ${MAX_POLICY_ROWS} of each`)
    if (word === 'log') {
      if (items.length < 1 || items.length > 2) throw refuse('expected log <vkey> [<url>]')
      logs.push(readKey(items[0], SIGNER, logs))
    } else if (word === 'witness') {
      if (items.length < 2 || items.length > 3) throw refuse('expected witness <name> <vkey> [<url>]')
      expectFresh()
      witnesses.set(name, readKey(items[1], COSIGNER, [...witnesses.values()]))
    } else if (word === 'group') {
      const [, many = '', ...named] = items
      expectFresh()
      const fixed = new Map([
        ['all', named.length],
        ['any', 1],
      ])
      const threshold = fixed.get(many) ?? (/^[1-9][0-9]{0,3}$/.test(many) ? Number(many) : 0)
      if (threshold < 1 || threshold > named.length)
        throw refuse('expected group <name> all|any|<k> <name>..., k of them at most')
      for (const member of named) {
        if (!isDefined(member)) throw refuse(`${show(member)} is defined on no line before`)
        if (members.has(member)) throw refuse(`${show(member)} is a member twice`)
        members.add(member)
      }
      groups.set(name, { threshold, members: named })
    } else if (word === 'quorum') {
      if (items.length !== 1 || policy.quorum !== undefined) throw refuse('expected one line quorum <name>')
      if (name !== 'none' && !isDefined(name)) throw refuse(`${show(name)} is defined on no line before`)
      policy.quorum = name
    } else throw refuse(`expected log, witness, group or quorum, got ${show(word)}`)
  }
  if (policy.quorum === undefined) throw new Unchecked('usage', 'the policy has no line quorum <name>')
  return policy
}

/** The first four bytes, as hex, of SHA-256(name || 0A || type || key). */
const noteKeyId = (name, type, pubkey) =>
  sha256Hex(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(type), Buffer.from(pubkey, 'hex')])).slice(
    0,
    8,
  )

const SIGNER = 0x01
const COSIGNER = 0x04
const KEY_TYPES = [SIGNER, COSIGNER] // both Ed25519

/**
 * Parses a vkey, `<name>+<key id>+<base64 of type and key>`. One of a type that isn't known here, as newer
 * policies may have, is a key that nothing is ever signed by.
 *
 * @returns {name, type, pubkey, vkey}; undefined for any other text
 */
function parseVkey(vkey) {
  const [, name = '', id, encoded = ''] = /^([^+]*)\+([^+]*)\+(.*)$/s.exec(vkey) ?? []
  const bytes = fromBase64(encoded)
  if (bytes === undefined || bytes.length < 2 || !NOTE_NAME.test(name) || LONE_SURROGATE.test(name))
    return undefined
  const [type, pubkey] = [bytes[0], bytes.toString('hex', 1)]
  if (KEY_TYPES.includes(type) && bytes.length !== 33) return undefined
  return noteKeyId(name, type, pubkey) === id ? { name, type, pubkey, vkey } : undefined
}

/**
 * When a witness has cosigned a checkpoint (C2SP tlog-cosignature, cosignature/v1): the newest time that a
 * line of its own states, in Unix seconds; undefined if it hasn't. A line from the future doesn't count.
 */
function cosignedAt({ text, lines }, { name, type, pubkey }, now) {
  if (type !== COSIGNER) return undefined
  const id = noteKeyId(name, COSIGNER, pubkey)
  let newest
  for (const line of lines) {
    const [dash, of, encoded, ...rest] = line.split(' ')
    const bytes = fromBase64(encoded ?? '')
    if (dash !== '—' || rest.length > 0 || of !== name) continue
    if (bytes?.length !== 76 || bytes.toString('hex', 0, 4) !== id || isWeakKey(pubkey)) continue
    const at = Number(bytes.readBigUInt64BE(4))
    if (at > now + MAX_CLOCK_SKEW_SECONDS || at <= (newest ?? -1)) continue
    if (isSignedBy(pubkey, `cosignature/v1\ntime ${at}\n${text}`, bytes.toString('base64', 12))) newest = at
  }
  return newest
}

/** Whether these witnesses are enough for a policy. */
function meetsQuorum({ groups, quorum }, cosigners) {
  const isMet = (name) => {
    const group = groups.get(name)
    if (group === undefined) return cosigners.includes(name)
    return group.members.filter(isMet).length >= group.threshold
  }
  return quorum === 'none' || isMet(quorum)
}

/**
 * Says what a verdict rests on: the key, those of the policy's witnesses who cosigned every checkpoint that
 * it was drawn from, and what this reader had seen of the log.
 *
 * @param support {checkpoints, covered, upTo, madeAt, seenSize}: the entries up to `covered` stand under
 *   checkpoints, those up to `upTo` should, and the newest seal was made at `madeAt` (null: no matter)
 * @param time {now, maxAge}: in Unix seconds, and in seconds; null: any age
 * @returns {rests, reasons}: what the report says, and why that isn't enough
 */
function judgeSupport(policy, support, trust, { now, maxAge }) {
  const { checkpoints } = support
  const newest = checkpoints.reduce((one, other) => (other.size > (one?.size ?? -1) ? other : one), null)
  const times = new Map() // when the newest was cosigned, by the names of those who cosigned all of them
  const early = [] // whose cosignature is dated after now
  for (const [name, key] of newest === null ? [] : (policy?.witnesses ?? [])) {
    const at = cosignedAt(newest, key, now)
    if (checkpoints.every((each) => cosignedAt(each, key, now) !== undefined)) times.set(name, at)
    else if (at === undefined && cosignedAt(newest, key, MAX_RECORDED) !== undefined) early.push(name)
  }
  const names = [...times.keys()]
  const isCosigned = names.length > 0
  const rests = {
    key: trust,
    cosigned_by: names,
    ...(isCosigned ? { cosigned_size: newest.size, cosigned_at: Math.max(...times.values()) } : {}),
    quorum: policy?.quorum ?? null,
    seen_size: support.seenSize,
  }
  const reasons = [
    ...(policy === null ? [] : policyDoubts(policy, checkpoints, names, early)),
    ...coverDoubts(support, isCosigned),
    ...ageDoubts(rests.cosigned_at, support.madeAt, now, maxAge),
  ]
  return { rests, reasons }
}

/** Why checkpoints that these witnesses cosigned are not enough for a policy: [word, sentence] each. */
function policyDoubts(policy, checkpoints, names, early) {
  const foreign = checkpoints.find(({ origin }) => policy.logs.every(({ name }) => name !== origin))
  if (policy.logs.length > 0 && foreign !== undefined)
    return [['other_log', `the log ${show(foreign.origin)} is none of the policy's`]]
  if (meetsQuorum(policy, names)) return []
  const who =
    checkpoints.length === 0
      ? 'there is no checkpoint of it to be cosigned'
      : names.length === 0
        ? "none of the policy's witnesses has cosigned the checkpoint"
        : `of the policy's witnesses only ${names.join(', ')} cosigned the checkpoint`
  const clocks =
    early.length === 0
      ? ''
      : `; the time of ${early.join(', ')} is after now, so its clock is ahead or this machine's is behind`
  return [['quorum_not_met', `${who}, and the quorum is ${policy.quorum}${clocks}`]]
}

/** A checkpoint says nothing of the entries behind it: an old one must not vouch for a fork. */
function coverDoubts({ checkpoints, covered, upTo }, isCosigned) {
  if (checkpoints.length === 0 || covered >= upTo) return []
  const what = isCosigned ? 'cosigned' : 'under the checkpoint that is shown'
  return [
    ['not_cosigned_yet', `${what} up to entry ${covered} of ${upTo}: no witness has vouched for the rest`],
  ]
}

/** What witnesses cosigned is as old as the newest cosignature; anything else, as the newest seal says. */
function ageDoubts(cosignedAt, madeAt, now, maxAge) {
  const at = cosignedAt ?? madeAt
  if (at === null || maxAge === null || now - at <= maxAge) return []
  const what = cosignedAt === undefined ? 'signed seal' : 'cosignature'
  const sentence = `the newest ${what} is ${now - at} s old, and ${maxAge} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead`
  return [['stale', sentence]]
}

const RESTS_ON_KEY = {
  pinned: 'the pinned key',
  remembered: 'the remembered key',
  first_seen: 'a key that is not known',
}

/** The line that says what a verdict rests on, from the parts that judgeSupport() gives. */
function restsLine({ key, cosigned_by: names, quorum, seen_size: seenSize }) {
  const parts = [RESTS_ON_KEY[key]]
  if (names.length > 0)
    parts.push(
      `${names.length === 1 ? 'the cosignature' : `${names.length} cosignatures`} of ${names.join(', ')} (quorum ${quorum})`,
    )
  if (seenSize !== null) parts.push(`what was seen here of the log of ${seenSize} entries`)
  const last = parts.pop()
  return `rests on: ${parts.length === 0 ? `${last} alone` : `${parts.join(', ')} and ${last}`}`
}

/** The line that says how far witnesses have vouched, and when they last did; none if nobody has. */
const cosignedLines = ({ cosigned_size: size, cosigned_at: at }) =>
  size === undefined ? [] : [`cosigned: the log up to entry ${size}, last at ${at}`]

// ——— the sums owed

const AMOUNT = /^[0-9]{1,60}$/
const NOTHING_OWED = { xno: 0n, xmr: 0n }
const SUM = /^(0|-?[1-9][0-9]{0,77})$/

/**
 * What an entry adds to the sums owed: a payment for an order is owed from when it is counted until the fee
 * is taken, a payout has arrived, or the operator writes off what the chain took back. A payment's step
 * `undone` takes it back, and a payout's step that `undoes` an earlier one owes it again.
 *
 * @returns {coin, change}; null if it changes nothing; undefined if its amount can't be read, which counts as
 *   nothing
 */
function owedChange({ kind, data }) {
  let field = 'amount_raw'
  let sign = -1n
  if (kind === 'payment') {
    if (!Object.hasOwn(data, 'order_id')) return null
    sign = data.step === 'undone' ? -1n : 1n
  } else if (kind === 'fee') sign = data.step === 'returned' ? 1n : -1n
  else if (kind === 'payout') {
    if (Object.hasOwn(data, 'undoes')) sign = 1n
    else if (data.step !== 'confirmed' && data.step !== 'manual') return null
  } else if (kind === 'dispute_outcome') field = 'written_off_raw'
  else return null
  const amount = data[field]
  if (typeof amount !== 'string' || !AMOUNT.test(amount)) return undefined
  if (BigInt(amount) === 0n) return null
  return typeof data.coin === 'string' && Object.hasOwn(NOTHING_OWED, data.coin)
    ? { coin: data.coin, change: sign * BigInt(amount) }
    : undefined
}

/** The sums that a closing entry states; null if it states none in the right form. */
function readOwed({ owed }) {
  const isSum = (text) => typeof text === 'string' && SUM.test(text)
  return isObject(owed) && isSum(owed.xno) && isSum(owed.xmr)
    ? { xno: BigInt(owed.xno), xmr: BigInt(owed.xmr) }
    : null
}

// ——— the whole chain

/*
 * What is remembered of a service: {seq, payload_hash, history, pubkeys} of the last signed seal, and from a
 * check that read everything also what the next one goes on from: the signed seal itself, `owed`, `chained`,
 * `adoptions`, `logged`, `log`
 * (its size and the roots of its complete subtrees, one for each bit of the size), `keys` (root and count of
 * the agents' keys; null: not known before it is stated), `checkpoint` (the newest that was verified),
 * `heard` (those of others that lie beyond it), and `seals`, one record a seal in base64: at and to_id (6
 * bytes each), root (32), signature (64 bytes, zero if unsigned).
 */
const RECORD_BYTES = 108
const RECORD_SIGNATURE_AT = 44
const NO_SIGNATURE = Buffer.alloc(64)
const MAX_RECORDED = 2 ** 48 - 1 // larger ones are never remembered: they are of the future, or not there

/** A seal as it is remembered, in RECORD_BYTES. */
function sealRecord(seal) {
  const record = Buffer.alloc(RECORD_BYTES)
  record.writeUIntBE(Math.min(seal.at, MAX_RECORDED), 0, 6)
  record.writeUIntBE(Math.min(seal.to_id, MAX_RECORDED), 6, 6)
  record.write(seal.root, 12, 'hex')
  if (seal.signed) record.write(seal.signature, RECORD_SIGNATURE_AT, 'base64')
  return record
}

/** The seal of a number from the remembered records, as an unsigned one. */
function readRecord(records, seq) {
  const part = (place) => records.subarray(place * RECORD_BYTES, (place + 1) * RECORD_BYTES)
  const own = part(seq - 1)
  const before = seq === 1 ? null : part(seq - 2)
  const fromId = before === null ? 1 : before.readUIntBE(6, 6) + 1
  const toId = own.readUIntBE(6, 6)
  return {
    seq,
    at: own.readUIntBE(0, 6),
    count: toId - fromId + 1,
    from_id: fromId,
    to_id: toId,
    root: own.toString('hex', 12, RECORD_SIGNATURE_AT),
    prev_root: before === null ? null : before.toString('hex', 12, RECORD_SIGNATURE_AT),
    signed: false,
    signature: null,
  }
}

/** As readRecord(), with the signature if it was signed, and the one of `pubkeys` that made it. */
function readSignedRecord(records, seq, pubkeys) {
  const seal = readRecord(records, seq)
  const signature = records
    .subarray((seq - 1) * RECORD_BYTES + RECORD_SIGNATURE_AT, seq * RECORD_BYTES)
    .toString('base64')
  const pubkey = pubkeys.find((key) => isSignedBy(key, sealPayload(seal), signature))
  return pubkey === undefined
    ? seal
    : { ...seal, signed: true, signature, pubkey, algo: 'ed25519', signed_at: seal.at }
}

const recordsOf = (remembered) =>
  remembered?.seals === undefined ? null : Buffer.from(remembered.seals, 'base64')
const isEachSigned = (records) => {
  for (let end = RECORD_BYTES; end <= records.length; end += RECORD_BYTES)
    if (records.subarray(end - 64, end).equals(NO_SIGNATURE)) return false
  return true
}

/** One number for all payloads up to a seal: two readers who compare it compare their whole history. */
const nextHistory = (history, payloadHash) => sha256Hex(history + payloadHash)

/** The history up to a seal, from the remembered records. */
function historyAt(records, seq) {
  let history = ''
  for (let next = 1; next <= seq; next++)
    history = nextHistory(history, sha256Hex(sealPayload(readRecord(records, next))))
  return history
}

/**
 * Verifies the chain of a source, reading it in order; memory doesn't grow with the entries. A chain that was
 * checked before is read from its remembered head on, unless that head is not there any more: then all of it
 * is read, to say what changed.
 *
 * @param source seals(after): every seal after that seq; entries(from): every entry from that id on; async
 *   iterables
 * @param options.remembered what an earlier check left, or null
 * @param options.mayBeOlder of a dump: it may end before what is remembered
 * @param options.clock () => Unix seconds; a check may take an hour, and seals are made meanwhile
 * @returns the ChainWalk, with its findings
 */
async function verifyChain(source, options) {
  const { remembered, pinned, isFull } = options
  const records = recordsOf(remembered)
  const canGoOn =
    !isFull &&
    records !== null &&
    remembered.log !== undefined && // an older version kept none
    isEachSigned(records) &&
    (pinned.length === 0 || remembered.pubkeys.every((key) => pinned.includes(key)))
  if (canGoOn) {
    const walk = await new ChainWalk(source, options, records).goOn()
    if (walk !== null) return walk
  }
  return new ChainWalk(source, options, records).fromTheBeginning()
}

/** Reads a chain seal by seal, and checks each with its entries. */
class ChainWalk {
  findings = new Findings()
  seq = 0
  previous = null
  previousHash = null
  history = ''
  /** Unknown (null) after a seal whose entries aren't there. */
  owed = NOTHING_OWED
  /** Whether closing entries name the seal before by now. */
  isChained = false
  /** Whether they state the log and the keys by now. */
  isLogged = false
  /** The log over all entries so far; null after a seal whose entries aren't there. */
  log = new GrowingTree(logNodeHash)
  /** The agents' keys, by the entries alone; null if not all of them were read. */
  keyTree = new KeyTree(2)
  /** The same in form 1, until a closing entry states form 2. */
  olderKeyTree = new KeyTree(1)
  /** The form of the tree that closing entries state by now. */
  keyForm = 1
  /**
   * {root, count} of keys that are not in `keyTree`, where entries give them no more than was stated; null:
   * unknown.
   */
  keysStated = null
  signed = 0
  unsigned = []
  unsignedCount = 0
  entriesSealed = 0
  entriesWaiting = 0
  unreadable = 0
  adoptions = []
  head = null
  /** The last signed seal whose entries were all checked, and what follows from them; null before. */
  checked = null
  fresh = []
  firstRewritten = null

  constructor(
    source,
    { pinned, remembered, mayBeOlder = false, clock, expected = [], limits = {}, progress, keep },
    records,
  ) {
    this.source = source
    this.mayBeOlder = mayBeOlder
    this.remembered = remembered
    this.records = records
    this.clock = clock
    this.expected = expected
    this.maxSeals = limits.seals ?? Infinity
    this.progress = progress
    this.keep = keep
    this.keepAt = performance.now() + KEEP_EVERY_MS
    this.keys = new Keys(pinned, remembered?.pubkeys ?? [])
    this.reader = new EntryReader(source, limits.entries ?? Infinity)
  }

  async fromTheBeginning() {
    return this.#walk(this.source.seals(0)[Symbol.asyncIterator]())
  }

  /** Reads from the remembered head on. @returns null if the source no longer gives that very seal */
  async goOn() {
    const { seq, payload_hash, history, owed, chained, adoptions, unreadable, logged, log, keys } =
      this.remembered
    const { key_form: keyForm = 1 } = this.remembered
    // A head whose closing entry names the seal before it stands for all of them; an older one only for
    // itself.
    const seals = this.source.seals(chained ? seq - 1 : 0)[Symbol.asyncIterator]()
    for (let before = 1; !chained && before < seq; before++) {
      const { value } = await seals.next()
      if (!isSameSignedSeal(value, before, sha256Hex(sealPayload(readRecord(this.records, before)))))
        return null
    }
    const { value: shown } = await seals.next()
    if (!isSameSignedSeal(shown, seq, payload_hash)) return null
    const where = `seal ${seq}`
    for (const key of this.remembered.pubkeys) this.keys.seen.add(key)
    checkSealAlone(shown, this.clock(), this.findings, where)
    checkSignature(shown, sealPayload(shown), this.keys, this.findings, where)
    this.seq = this.signed = seq
    this.previous = shown
    this.previousHash = payload_hash
    this.history = history
    this.owed = readOwed({ owed })
    this.isChained = chained
    this.isLogged = logged
    this.log = new GrowingTree(logNodeHash, log.size, log.frontier)
    this.keyTree = this.olderKeyTree = null
    this.keyForm = keyForm
    this.keysStated = keys
    this.adoptions = [...adoptions]
    this.unreadable = unreadable
    this.atHead = {
      ...{ owed, chained, unreadable, adoptions, logged, log, keys },
      ...(keyForm === 1 ? {} : { key_form: keyForm }),
    }
    this.entriesSealed = shown.to_id
    this.head = { seq, payload_hash, history }
    this.headSeal = shown
    this.checked = { head: this.head, headSeal: shown, atHead: this.atHead }
    this.resumedAt = seq
    for (const expected of this.expected)
      if (expected.seq <= seq) this.#checkExpected(expected, historyAt(this.records, expected.seq))
    return this.#walk(seals)
  }

  /**
   * Checks all seals that come, and then what is missing or waiting. If the source breaks off, what was
   * checked up to the last signed seal is kept all the same.
   */
  async #walk(seals) {
    try {
      return await this.#walkToEnd(seals)
    } catch (error) {
      await this.keep?.(this)
      throw error
    }
  }

  async #walkToEnd(seals) {
    for (let next = await seals.next(); !next.done && !this.findings.isFull; next = await seals.next())
      await this.#checkSeal(next.value)
    if (this.remembered !== null && this.seq < this.remembered.seq) {
      const message = `ends at seal ${this.seq}, but seal ${this.remembered.seq} was seen before`
      if (!this.mayBeOlder) this.findings.add('chain_shortened', 'chain', message)
      if (this.firstRewritten !== null)
        this.findings.add(
          'history_rewritten',
          `seal ${this.firstRewritten}`,
          'has another payload than when it was seen before',
        )
    }
    if (!this.findings.isFull) await this.#countWaiting()
    return this
  }

  /** Checks the next seal of the chain, with its entries. */
  async #checkSeal(seal) {
    const due = this.seq + 1
    // Of this check: a chain that was checked before may be of any length.
    if (this.fresh.length >= this.maxSeals)
      throw new Unchecked(
        'too_long',
        `there are more than ${this.maxSeals} seals to check (--max-seals)${this.keep === undefined ? '' : NEXT_GOES_ON}`,
      )
    this.seq = isWhole(seal?.seq) ? seal.seq : due
    const where = `seal ${this.seq}`
    let payload
    if (!this.findings.run(where, () => (payload = sealPayload(seal)))) {
      this.previous = this.previousHash = null
      this.#loseCount()
      return
    }
    if (seal.seq !== due) this.findings.add('seq_gap', where, `seal ${due} was due`)
    checkSealAlone(seal, this.clock(), this.findings, where)
    if (this.previous !== null) checkSealLink(this.previous, seal, this.findings, where)
    const payloadHash = sha256Hex(payload)
    this.history = nextHistory(this.history, payloadHash)
    this.fresh.push(sealRecord(seal))
    if (seal.signed) {
      this.signed++
      this.head = { seq: seal.seq, payload_hash: payloadHash, history: this.history }
      this.headSeal = seal
      checkSignature(seal, payload, this.keys, this.findings, where)
    } else {
      this.unsignedCount++
      if (this.unsigned.length < MAX_LISTED) this.unsigned.push(seal.seq)
    }
    this.#compareWithMemory(seal, payload, payloadHash, where)
    for (const expected of this.expected)
      if (expected.seq === seal.seq) this.#checkExpected(expected, this.history)
    await this.#checkEntries(seal, where)
    if (seal.signed) {
      this.atHead = this.#whatFollowsFromEntries()
      this.checked = { head: this.head, headSeal: seal, atHead: this.atHead }
    }
    this.previous = seal
    this.previousHash = payloadHash
    this.progress?.(`seal ${seal.seq}, entry ${seal.to_id}`)
    if (seal.signed && performance.now() > this.keepAt) {
      await this.keep?.(this)
      this.keepAt = performance.now() + KEEP_EVERY_MS
    }
  }

  /**
   * Compares a seal with what is remembered of it. Every payload up to the remembered head is in its
   * `history`, so that no rewritten seal hides behind an unchanged head.
   */
  #compareWithMemory(seal, payload, payloadHash, where) {
    const { remembered, records, findings } = this
    if (remembered === null || seal.seq > remembered.seq || seal.seq < 1) return
    if (records !== null && payload !== sealPayload(readRecord(records, seal.seq))) {
      this.firstRewritten ??= seal.seq
      findings.keepFork(readSignedRecord(records, seal.seq, remembered.pubkeys), seal, this.keys)
    }
    if (seal.seq !== remembered.seq) return
    const first =
      this.firstRewritten === null || this.firstRewritten === seal.seq
        ? ''
        : ` (seal ${this.firstRewritten} is the first)`
    if (payloadHash !== remembered.payload_hash)
      findings.add('history_rewritten', where, `has another payload than when it was seen before${first}`)
    else if (this.history !== remembered.history)
      findings.add(
        'history_rewritten',
        where,
        `is as it was, but a seal before it has another payload than when it was seen${first}`,
      )
    if (!seal.signed) findings.add('signature_withdrawn', where, 'was signed when it was seen before')
  }

  /** Compares the history up to a seal with the one that another reader saw. */
  #checkExpected({ seq, history }, own) {
    if (history !== own)
      this.findings.add('other_history', `seal ${seq}`, `has the history ${own}, and ${history} was expected`)
  }

  /**
   * Checks the entries of a seal: their numbers, their root, what they do to the sums, and the closing entry.
   */
  async #checkEntries(seal, where) {
    const tree = new GrowingTree()
    const before = { log: this.log && logHeadOf(this.log), keys: this.#keyStates() }
    this.areKeysChanged = false
    let last
    for (let id = seal.from_id; id <= seal.to_id; id++) {
      const entry = await this.reader.take(id)
      if (entry === undefined) this.findings.add('entry_gap', where, `entry ${id} is missing from the ledger`)
      const isGood =
        entry !== undefined && this.findings.run(`entry ${id}`, () => addEntry(tree, this.log, entry, id))
      if (!isGood) {
        this.reader.forget()
        this.entriesSealed += tree.count
        this.#loseCount()
        return
      }
      if (id < seal.to_id) this.#addEntry(entry)
      last = entry
      if (tree.count % 10_000 === 0) this.progress?.(`${where}, entry ${id}`)
    }
    this.entriesSealed += tree.count
    if (last === undefined) return
    this.findings.run(where, () => this.#checkSeenLog(seal))
    if (tree.root() === seal.root) return this.#checkClosing(last, seal, before, where)
    this.findings.add(
      'wrong_root',
      where,
      `its entries ${seal.from_id} to ${seal.to_id} have the root ${tree.root()}, not ${seal.root}`,
    )
    this.#loseCount()
  }

  /**
   * Compares the log up to a seal with a checkpoint of that size that was verified by proofs. Throws Refused.
   */
  #checkSeenLog(seal) {
    const { checkpoint } = this.remembered ?? {}
    if (checkpoint === undefined || this.log === null) return
    const seen = readCheckpoint(checkpoint, 'wrong_checkpoint')
    if (seen.size === seal.to_id) connectLogs(seen, logHeadOf(this.log), null)
  }

  /** Forgets what follows from all entries, once some of them aren't there. */
  #loseCount() {
    this.owed = this.log = this.keyTree = this.olderKeyTree = this.keysStated = null
  }

  /** Root and count of the agents' keys, by the form of the tree; null if unknown. */
  #keyStates() {
    const states = this.keyTree === null ? {} : { 2: this.keyTree.state(), 1: this.olderKeyTree?.state() }
    return { 1: null, 2: null, [this.keyForm]: this.keysStated, ...states }
  }

  /** The same in the form that is stated by now. */
  #keyState() {
    return this.#keyStates()[this.keyForm]
  }

  /** Adds to the sums, the adoptions and the keys what an entry says. */
  #addEntry(entry) {
    const added = owedChange(entry)
    if (added === undefined) this.unreadable++
    else if (added !== null && this.owed !== null)
      this.owed = { ...this.owed, [added.coin]: this.owed[added.coin] + added.change }
    this.#listAdoption(entry)
    if (isKeyChange(entry)) this.#addKey(entry)
  }

  /**
   * Sets the key that an entry changes, and checks its signature: once an agent has an author key, each
   * change of its keys needs one by that.
   */
  #addKey(entry) {
    const { data, id, kind } = entry
    const standing = typeof data.agent_id === 'string' ? this.keyTree?.get(data.agent_id) : undefined
    this.findings.run(`entry ${id}`, () => {
      if (isSignedChange(entry)) checkKeyChange(entry)
      if (standing?.author_key !== undefined && data.author?.author_key !== standing.author_key)
        throw new Refused(
          'wrong_author',
          `changes a key without the signature of the author key that stood, ${standing.author_key}`,
        )
    })
    const key = data[KEY_FIELDS[kind]]
    if (typeof data.agent_id !== 'string' || (key !== null && !isHexHash(key))) return // no key of anybody
    this.areKeysChanged = true
    this.keysStated = null
    this.keyTree?.apply(entry)
    this.olderKeyTree?.apply(entry)
  }

  #listAdoption({ id, at, kind, data }) {
    if (kind !== 'seal_adoption' || this.adoptions.length >= MAX_LISTED) return
    this.adoptions.push({ entry_id: id, at, data: canonicalJson(data).slice(0, 300) })
  }

  /**
   * Checks the closing entry of a seal: its sums, the seal before, and the log and the keys before the seal.
   */
  #checkClosing({ at, kind, data }, seal, before, where) {
    if (kind !== 'solvency' || data.seal !== `seal_${seal.seq}` || at !== seal.at) {
      this.findings.add(
        'wrong_closing',
        where,
        `does not end with its own closing entry of the time ${seal.at}`,
      )
      this.#loseCount()
      return
    }
    const stated = readOwed(data)
    const isRight =
      stated !== null &&
      (this.owed === null || (stated.xno === this.owed.xno && stated.xmr === this.owed.xmr))
    if (!isRight) {
      const own = this.owed === null ? 'two sums' : `xno ${this.owed.xno} and xmr ${this.owed.xmr}`
      this.findings.add(
        'wrong_owed',
        where,
        `its closing entry states ${show(data.owed)}, the entries give ${own}`,
      )
    }
    this.owed = stated // so that one false sum is one finding
    this.#checkPreviousSeal(data, seal, where)
    this.#checkBefore(data, seal, before, where)
  }

  /**
   * Checks that a closing entry states the log and the keys up to the seal before. Older ones don't state
   * them.
   */
  #checkBefore({ log, keys }, seal, before, where) {
    this.isLogged ||= log !== undefined
    if (!this.isLogged) return
    const isLog = isObject(log) && log.size === seal.from_id - 1 && isHexHash(log.root)
    if (!isLog || (before.log !== null && log.root !== before.log.root))
      this.findings.add(
        'wrong_log',
        where,
        `its closing entry states the log ${show(log)}, the entries give ${before.log === null ? `one of size ${seal.from_id - 1}` : show(before.log)}`,
      )
    const form = isObject(keys) ? (Object.hasOwn(keys, 'v') ? keys.v : 1) : undefined
    const isKeys = [1, 2].includes(form) && isWhole(keys.count) && isHexHash(keys.root)
    const own = (isKeys && before.keys[form]) || null
    if (!isKeys || (own !== null && (keys.root !== own.root || keys.count !== own.count)))
      this.findings.add(
        'wrong_keys',
        where,
        `its closing entry states the keys ${show(keys)}, the entries give ${own === null ? 'a root and a count' : show(own)}`,
      )
    else if (form < this.keyForm)
      this.findings.add(
        'wrong_keys',
        where,
        'its closing entry states the keys in form 1, in which revoked keys stay, after one that stated form 2',
      )
    else {
      this.keyForm = form
      if (form === 2) this.olderKeyTree = null
      if (!this.areKeysChanged) this.keysStated = { root: keys.root, count: keys.count }
    }
  }

  /**
   * Checks that a closing entry names the payload of the seal before, so that a head commits to all history.
   * Older ones don't name it.
   */
  #checkPreviousSeal(data, seal, where) {
    const isThere = Object.hasOwn(data, 'prev_seal')
    this.isChained ||= isThere
    if (!this.isChained) return
    const named = data.prev_seal ?? null
    const isKnown = this.previous !== null && this.previous.seq === seal.seq - 1
    const isRight = seal.seq === 1 ? named === null : isKnown ? named === this.previousHash : isHexHash(named)
    if (isRight) return
    const due = seal.seq === 1 ? 'null' : isKnown ? this.previousHash : 'the payload hash of a seal'
    this.findings.add(
      'wrong_prev_seal',
      where,
      `its closing entry names ${show(named)} as the seal before it, not ${due}`,
    )
  }

  /** Counts the entries behind the last seal, and checks their numbers and their form. */
  async #countWaiting() {
    const { findings, reader } = this
    let due = this.previous === null ? 1 : this.previous.to_id + 1
    for (let entry = await reader.take(due); entry !== undefined; entry = await reader.take(due)) {
      const isGood = findings.run(`entry ${due}`, () => {
        checkEntry(entry)
        checkNumber(entry, due)
        if (entry.kind === 'seal_adoption') inCanonicalForm(entry.data)
      })
      if (!isGood) break
      this.#listAdoption(entry)
      this.entriesWaiting++
      due++
      if (this.entriesWaiting % 10_000 === 0) this.progress?.(`unsealed entry ${due}`)
    }
  }

  /** Words for why a chain without a finding binds nobody, each with a sentence. */
  notBinding() {
    const reasons = []
    if (this.head === null) reasons.push(['no_signed_seal', 'there is no signed seal'])
    else if (this.keys.trust === 'first_seen') reasons.push(['key_unknown', KEY_UNKNOWN])
    if (this.head !== null && this.unsignedCount > 0)
      reasons.push([
        'unsigned',
        `${this.unsignedCount === 1 ? 'a seal has' : `${this.unsignedCount} seals have`} no signature`,
      ])
    const ahead = this.expected.find(({ seq }) => seq > this.seq)
    if (ahead !== undefined)
      reasons.push([
        'behind',
        `another reader saw seal ${ahead.seq}, and this chain ends at seal ${this.seq}`,
      ])
    const seen = this.mayBeOlder ? null : seenLog(this.remembered)
    const longest = Math.max(this.headSeal?.to_id ?? 0, this.shown?.[0]?.size ?? 0)
    if (seen !== null && seen.size > longest)
      reasons.push([
        'behind',
        `a log of ${seen.size} entries was seen before, and the one that is shown ends at entry ${longest}`,
      ])
    return reasons
  }

  /** What is remembered of all entries up to here. */
  #whatFollowsFromEntries() {
    const { owed, isChained: chained, isLogged: logged, unreadable, log } = this
    return {
      owed: owed && { xno: String(owed.xno), xmr: String(owed.xmr) },
      ...{ chained, unreadable, adoptions: [...this.adoptions], logged },
      log: log && { size: log.count, frontier: [...log.frontier] },
      keys: this.#keyState(),
      ...(this.keyForm === 1 ? {} : { key_form: this.keyForm }),
    }
  }

  /** Root and count of the keys, and whether they were recomputed from all entries. */
  keyReport() {
    const keys = this.#keyState()
    return keys && { ...keys, recomputed: this.keyTree !== null }
  }

  /** What is to be remembered of a chain without findings: everything up to the last signed seal that was checked. */
  memory() {
    const { checkpoint = this.remembered?.checkpoint, heard = this.remembered?.heard ?? [] } = this
    const kept = this.resumedAt === undefined ? [] : [this.records]
    const { head, headSeal, atHead } = this.checked
    const { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey, signed_at } = headSeal
    return {
      ...head,
      pubkeys: [...this.keys.seen],
      checked_at: this.clock(),
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
        algo: 'ed25519',
        signed_at,
      },
      ...atHead,
      ...(checkpoint === undefined ? {} : { checkpoint }),
      ...(heard.length === 0 ? {} : { heard }),
      seals: Buffer.concat([...kept, ...this.fresh])
        .subarray(0, seq * RECORD_BYTES)
        .toString('base64'),
    }
  }
}

/** Whether a value is a signed seal with this number and payload. */
function isSameSignedSeal(shown, seq, payloadHash) {
  try {
    return shown.signed === true && shown.seq === seq && sha256Hex(sealPayload(shown)) === payloadHash
  } catch {
    return false // the walk over everything says what is wrong with it
  }
}

function checkNumber(entry, due) {
  if (entry.id !== due) throw new Refused('entry_gap', `the ledger gives entry ${entry.id} in its place`)
}

/** The canonical JSON of a value in an entry. Throws Refused `malformed_entry` if it has none. */
function inCanonicalForm(value) {
  try {
    return canonicalJson(value)
  } catch (error) {
    throw error instanceof Refused ? new Refused('malformed_entry', error.message) : error
  }
}

/**
 * Adds an entry to its seal's tree and to the log. Throws Refused if it is malformed, or has another number.
 */
function addEntry(tree, log, entry, due) {
  checkEntry(entry)
  checkNumber(entry, due)
  const leaf = sha256Hex('\0' + inCanonicalForm(entry))
  tree.add(leaf)
  log?.add(leaf)
}

/**
 * Gives entries by number from a source that is read forward; begins a new reading only if the numbers jump.
 */
class EntryReader {
  count = 0
  #source
  #limit
  #iterator = null
  #due = null

  constructor(source, limit) {
    this.#source = source
    this.#limit = limit
  }

  /** The entry that comes in the place of `id`; undefined at the end. Throws Unchecked beyond the limit. */
  async take(id) {
    if (this.#iterator === null || this.#due !== id)
      this.#iterator = this.#source.entries(id)[Symbol.asyncIterator]()
    const { value, done } = await this.#iterator.next()
    this.#due = id + 1
    if (done) {
      this.forget()
      return undefined
    }
    if (++this.count > this.#limit)
      throw new Unchecked('too_long', `the ledger has more than ${this.#limit} entries (--max-entries)`)
    return value
  }

  /** Begins a new reading with the next entry. */
  forget() {
    this.#iterator = null
  }
}

// ——— sources: a service, files

/**
 * Seals and entries as a service gives them, page by page.
 *
 * @param save gets all that passes, if it is there
 */
function serviceSource(base, { save, patience }) {
  const limits = { seals: SEALS_PER_PAGE, entries: ENTRIES_PER_PAGE }
  async function list(route, name) {
    const url = () => `${base}${route}&limit=${limits[name]}`
    /** Asks a service that is overloaded for half as much from now on. */
    const ease = () => {
      if (limits[name] <= MIN_ENTRIES_PER_PAGE) return undefined
      limits[name] = Math.floor(limits[name] / 2)
      return url()
    }
    const answer = await getJson(url(), patience, ease)
    if (!isObject(answer) || !Array.isArray(answer[name]))
      throw new Unchecked('unreachable', `${url()} does not answer with a list of ${name}`)
    if (answer[name].length > limits[name])
      throw new Unchecked('unreachable', `${url()} answers with more ${name} than it was asked for`)
    return answer[name]
  }
  return {
    async *seals(start) {
      for (let after = start; ;) {
        const seals = await list(`/seal?after_seq=${after}`, 'seals')
        if (seals.length === 0) return
        for (const seal of seals) {
          await save?.seal(seal)
          yield seal
        }
        const last = seals[seals.length - 1]?.seq
        if (!isWhole(last) || last <= after) return // the walk has said what is wrong with these; asking on would go in a circle
        after = last
      }
    },
    async *entries(from) {
      for (let next = from; ;) {
        const entries = await list(`/api/v1/ledger?from_id=${next}`, 'entries')
        if (entries.length === 0) return
        for (const entry of entries) {
          await save?.entry(entry)
          yield entry
        }
        next += entries.length
      }
    },
  }
}

/**
 * A failure of the connection, or one that the service calls passing: worth asking again. `isBusy` if the
 * service says that it is overloaded, and `retryAfterMs` if it says when to come again.
 */
class Passing extends Error {
  constructor(message, { isBusy = false, retryAfterMs } = {}) {
    super(message)
    this.isBusy = isBusy
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * How long a service is waited for: {timeoutMs, deadlineMs, endsAt}, the last by the monotonic clock; and by
 * how many seconds its clock was ahead of this machine's, at the most: `ahead`, null while no answer had a Date.
 */
function beginPatience({ timeoutMs, deadlineMs }) {
  return { timeoutMs, deadlineMs, endsAt: performance.now() + deadlineMs, ahead: null }
}

const HTTP_DATE =
  /^[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([1-9][0-9]{3}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT$/
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** The Unix seconds of a Date as RFC 9110 has it; null for any other text. */
function readHttpDate(text = '') {
  const [, day, month, year, ...time] = HTTP_DATE.exec(text) ?? []
  if (!MONTHS.includes(month)) return null
  return Date.UTC(Number(year), MONTHS.indexOf(month), Number(day), ...time.map(Number)) / 1000
}

function compareClocks(patience, date) {
  const at = readHttpDate(date)
  if (at !== null) patience.ahead = Math.max(at - nowSeconds(), patience.ahead ?? -Infinity)
}

/**
 * If seals are dated after now, says whether the service's own clock agrees with them. Throws Unchecked
 * `wrong_clock` if it does and nothing else is wrong.
 */
function judgeClock(findings, { ahead }) {
  const { future } = findings
  if (future === null || ahead === null) return
  if (future.at > future.now + ahead + MAX_CLOCK_SKEW_SECONDS)
    findings.future = { ...future, date: future.now + ahead }
  else if (findings.total === 1)
    throw new Unchecked(
      'wrong_clock',
      `the newest seal is dated ${future.at} by the service and this machine's clock says ${future.now}; this machine's clock is ${inMinutes(ahead)} behind, or the service's Date and its seals are wrong together`,
    )
}

const inMinutes = (seconds) => (seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`)

const NEXT_GOES_ON = '; the next check goes on from the last signed seal that was checked'

const tooSlow = ({ deadlineMs }) =>
  new Unchecked(
    'deadline',
    `the service had not answered everything within ${deadlineMs / 1000} s (--deadline)${NEXT_GOES_ON}`,
  )

/** Fetches JSON, as askAgain() asks. Throws Unchecked. */
const getJson = (url, patience, ease) =>
  askAgain(url, patience, async (asked) => parseAnswer(asked, await getBody(asked, patience)), ease)

/**
 * Asks, and again after a failure that may pass: twice, and each time that `ease` gives the URL of a smaller
 * question to a service that is overloaded. Throws Unchecked `unreachable` or `deadline`.
 */
async function askAgain(url, patience, ask, ease = () => undefined) {
  let asked = url
  for (let repeats = 0; ;) {
    try {
      return await ask(asked)
    } catch (error) {
      if (!(error instanceof Passing)) throw error
      const smaller = error.isBusy ? ease() : undefined
      const pause = RETRY_PAUSES_MS[smaller === undefined ? repeats++ : 0]
      if (pause === undefined) throw new Unchecked('unreachable', `${asked}: ${error.message}`)
      asked = smaller ?? asked
      const pauseMs = error.retryAfterMs ?? pause
      if (performance.now() + pauseMs > patience.endsAt) throw tooSlow(patience)
      await sleep(pauseMs)
    }
  }
}

/** The milliseconds of a Retry-After in seconds, at most a minute; undefined for none. */
const readRetryAfter = (text = '') =>
  /^[0-9]{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_AFTER_SECONDS) * 1000 : undefined

function parseAnswer(url, body) {
  try {
    return parseJson(body)
  } catch (error) {
    throw new Unchecked('unreachable', `${url} does not answer in JSON: ${error.message.slice(0, 200)}`)
  }
}

/**
 * Fetches the bytes of a good answer, decompressed. A redirection is followed within the origin alone. Throws
 * Passing or Unchecked.
 *
 * @returns null for a status that says that there is none, one of `absent`
 */
async function getBody(url, patience, absent = []) {
  const { origin } = new URL(url)
  let address = url
  for (let redirects = 0; ; redirects++) {
    const { status, headers, body } = await getOnce(address, patience)
    compareClocks(patience, headers.date)
    if (absent.includes(status)) return null
    if (status === 200) return decompress(url, headers['content-encoding'], body)
    if (status >= 500 || status === 429)
      throw new Passing(`answered ${status}`, {
        isBusy: status === 503 || status === 429,
        retryAfterMs: readRetryAfter(headers['retry-after']),
      })
    if (![301, 302, 303, 307, 308].includes(status))
      throw new Unchecked('unreachable', `${url} answered ${status}`)
    const { location = '' } = headers
    const route = location.startsWith(`${origin}/`) ? location.slice(origin.length) : location
    if (!/^\/(?!\/)[!-~]*$/.test(route))
      throw new Unchecked('unreachable', `${url} redirects to another origin`)
    if (redirects === MAX_REDIRECTS) throw new Unchecked('unreachable', `${url} redirects without end`)
    address = origin + route
  }
}

function decompress(url, encoding = 'identity', body) {
  if (encoding === 'identity') return body
  if (encoding !== 'gzip')
    throw new Unchecked('unreachable', `${url} answers in an encoding that was not asked for`)
  try {
    return gunzip(body)
  } catch {
    throw new Unchecked(
      'unreachable',
      `${url} answers with gzip that is broken, or of more than ${MAX_ANSWER_BYTES} bytes`,
    )
  }
}

/** Decompresses gzip of one member without optional fields (RFC 1952), as servers send it. Throws Error. */
function gunzip(body) {
  if (body.length < 18 || body.readUInt32BE(0) !== 0x1f8b0800) throw new Error('no gzip')
  const { buffer, engine } = zlib.inflateRawSync(body.subarray(10), {
    maxOutputLength: MAX_ANSWER_BYTES,
    info: true,
  })
  if (10 + engine.bytesWritten + 8 !== body.length || body.readUInt32LE(body.length - 4) !== buffer.length)
    throw new Error('no end')
  return buffer
}

const agents = {
  'http:': new http.Agent({ keepAlive: true }),
  'https:': new https.Agent({ keepAlive: true }),
}

/**
 * Makes one request and reads its whole answer, within a deadline and a size. Rejects with Passing or
 * Unchecked.
 */
function getOnce(url, patience) {
  const leftMs = patience.endsAt - performance.now()
  if (leftMs <= 0) return Promise.reject(tooSlow(patience))
  const timeoutMs = Math.min(patience.timeoutMs, leftMs)
  const { protocol } = new URL(url)
  const { get } = protocol === 'https:' ? https : http
  let isDone = false
  return new Promise((resolve, reject) => {
    const headers = { accept: 'application/json', 'accept-encoding': 'gzip' }
    const request = get(url, { agent: agents[protocol], headers }, (response) => {
      const parts = []
      let bytes = 0
      response.on('data', (part) => {
        bytes += part.length
        if (bytes > MAX_ANSWER_BYTES)
          fail(new Unchecked('unreachable', `${url} answers with more than ${MAX_ANSWER_BYTES} bytes`))
        else parts.push(part)
      })
      response.on('error', (error) => fail(new Passing(error.message)))
      response.on('close', () => fail(new Passing('the answer broke off')))
      response.on('end', () => {
        isDone = true
        clearTimeout(timer)
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) })
      })
    })
    const timer = setTimeout(
      () =>
        fail(
          leftMs < patience.timeoutMs
            ? tooSlow(patience)
            : new Unchecked('unreachable', `${url} gave no whole answer within ${timeoutMs / 1000} s`),
        ),
      timeoutMs,
    )
    function fail(error) {
      if (isDone) return
      isDone = true
      clearTimeout(timer)
      reject(error)
      request.destroy()
    }
    request.on('error', (error) => fail(new Passing(error.message || error.code || 'no connection')))
  })
}

/** A source of lists that functions give. */
function listSource(seals, entries) {
  return {
    async *seals() {
      yield* seals()
    },
    async *entries(from) {
      let isThere = false
      for await (const entry of entries()) {
        isThere ||= !isWhole(entry?.id) || entry.id >= from
        if (isThere) yield entry
      }
    },
  }
}

async function readJsonFile(file) {
  const bytes = await readBounded(file)
  return parseFile(file, () => parseJson(bytes))
}

/** The bytes of a file, up to a size. Throws Unchecked. */
async function readBounded(file) {
  const bytes = []
  let size = 0
  await fromFile(async () => {
    for await (const part of createReadStream(file)) {
      bytes.push(part)
      size += part.length
      if (size > MAX_FILE_BYTES) throw new Unchecked('usage', `${file} has more than ${MAX_FILE_BYTES} bytes`)
    }
  })
  return Buffer.concat(bytes)
}

function parseFile(file, parse) {
  try {
    return parse()
  } catch (error) {
    throw new Unchecked('usage', `${file} is not JSON: ${error.message.slice(0, 200)}`)
  }
}

// ——— dumps

/** The source of a dump as --save writes it, which is read line by line; null for any other file. */
async function dumpSource(file) {
  return (await hasDumpLines(file)) ? linesSource(file) : null
}

async function hasDumpLines(file) {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(DUMP_HEAD.length + 1), 0)
    return buffer.toString('latin1', 0, bytesRead) === DUMP_HEAD + '\n'
  } finally {
    await handle.close()
  }
}

function linesSource(file) {
  async function* list(wanted) {
    let part = ''
    for await (const line of readLines(file)) {
      const text = line.toString('latin1')
      if (part === 'end') throw new Unchecked('usage', `${file} goes on after its end`)
      if (text === DUMP_HEAD) part = 'entries'
      else if (text === DUMP_MIDDLE) part = 'seals'
      else if (text === ']}') part = 'end'
      else if (part === wanted)
        yield parseFile(file, () => parseJson(text.endsWith(',') ? line.subarray(0, -1) : line))
      if (part === 'seals' && wanted === 'entries') return
    }
    if (part !== 'end') throw new Unchecked('usage', `${file} ends in the middle`)
  }
  return listSource(
    () => list('seals'),
    () => list('entries'),
  )
}

/** The lines of a file as bytes; they end in LF, the last one with or without it. */
async function* readLines(file) {
  let rest = []
  let bytes = 0
  const take = (part) => {
    rest.push(part)
    bytes += part.length
    if (bytes > MAX_FILE_BYTES)
      throw new Unchecked('usage', `${file} has a line of more than ${MAX_FILE_BYTES} bytes`)
  }
  for await (const part of createReadStream(file)) {
    let start = 0
    for (let end = part.indexOf(10); end !== -1; end = part.indexOf(10, start)) {
      take(part.subarray(start, end))
      yield Buffer.concat(rest)
      rest = []
      bytes = 0
      start = end + 1
    }
    take(part.subarray(start))
  }
  const last = Buffer.concat(rest)
  if (last.length > 0) yield last
}

/** Opens a file to write a dump into, entry by entry; seals are held back until the entries are complete. */
async function openSave(file) {
  const handle = await open(file, 'w')
  const seals = []
  let pending = [DUMP_HEAD]
  let isFirst = true
  async function flush() {
    await handle.write(pending.join('\n') + '\n')
    pending = []
  }
  return {
    seal: (seal) => void seals.push(dumpLine(seal)),
    async entry(entry) {
      if (!isFirst) pending[pending.length - 1] += ','
      isFirst = false
      pending.push(dumpLine(entry))
      if (pending.length > 5_000) {
        const last = pending.pop() // it may still need its comma
        await flush()
        pending.push(last)
      }
    },
    async close() {
      pending.push(DUMP_MIDDLE, ...(seals.length > 0 ? [seals.join(',\n')] : []), ']}')
      await flush()
      await handle.close()
    },
  }
}

/** A value on one line: in canonical form if it has one, else as JSON; `null` if it can't be written. */
function dumpLine(value) {
  try {
    return canonicalJson(value)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
  }
  // The check refuses it; it is kept as evidence if it can be written.
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (error instanceof RangeError) return 'null'
    throw error
  }
}

// ——— a receipt

/**
 * Verifies a receipt.
 *
 * @param known {pinned, remembered, now}: keys, what is remembered of the service or null, and Unix seconds
 * @returns {report, findings, keys, support}
 */
function verifyReceipt(receipt, known) {
  const findings = new Findings()
  const keys = new Keys(known.pinned, known.remembered?.pubkeys ?? [])
  known = { ...known, records: recordsOf(known.remembered) } // decoded once, and not for each seal
  const report = {
    id: null,
    entries_sealed: 0,
    entries_waiting: 0,
    unsigned_seqs: [],
    openings: 0,
    authors: [],
    log: null,
    pubkeys: [],
  }
  const isReceipt = findings.run('receipt', () => {
    if (!isObject(receipt) || typeof receipt.id !== 'string' || receipt.id === '')
      throw new Refused('malformed_receipt', 'it names no record')
    if (!Array.isArray(receipt.entries) || receipt.entries.length === 0)
      throw new Refused('malformed_receipt', 'it has no entries')
    if (!receipt.entries.every((item) => isObject(item) && typeof item.sealed === 'boolean'))
      throw new Refused('malformed_receipt', 'an entry does not say whether it is sealed')
    if (receipt.sealed !== receipt.entries.every((item) => item.sealed))
      throw new Refused('malformed_receipt', 'sealed does not say whether all its entries are')
    if (receipt.openings !== undefined && !Array.isArray(receipt.openings))
      throw new Refused('malformed_receipt', 'openings is not a list')
  })
  if (!isReceipt) return { report, findings, keys, support: NO_SUPPORT }

  report.id = receipt.id
  const checkpoints = new Map() // by size
  let upTo = 0 // the last entry under a signed seal
  let covered = 0 // up to which of those all are in the log of a checkpoint
  const seals = new Map()
  const entries = new Map()
  let lastId = 0
  for (const item of receipt.entries) {
    const where = `entry ${number(item.entry?.id)}`
    const isEntry = findings.run(where, () => {
      checkEntry(item.entry)
      if (item.entry.id <= lastId)
        throw new Refused('malformed_receipt', 'the entries are not in ascending order')
      if (!isOfRecord(item.entry, receipt.id))
        throw new Refused('wrong_record', `is no entry of ${show(receipt.id)}`)
    })
    if (!isEntry) continue
    lastId = item.entry.id
    entries.set(lastId, item.entry)
    if (isSignedChange(item.entry) && findings.run(where, () => checkKeyChange(item.entry)))
      report.authors.push(authorAt(item.entry))
    if (item.sealed) {
      const isGood = checkSealedItem(item, seals, keys, known, findings, report)
      const isPlaced =
        isGood &&
        item.tlog_proof !== undefined &&
        findings.run(where, () => checkLogProof(item, keys, checkpoints))
      if (isGood && item.seal.signed) {
        if (isPlaced && covered === upTo) covered = lastId
        upTo = lastId
      }
    } else report.entries_waiting++
  }
  report.log = connectReceipt(checkpoints, known, keys, findings)
  if (entries.size === receipt.entries.length) findings.run('receipt', () => checkMaking(receipt.id, entries))
  checkReceiptSeals(seals, findings)
  for (const opening of receipt.openings ?? []) {
    let author = null
    const isGood = findings.run(
      `opening of entry ${number(opening?.entry_id)}`,
      () => (author = checkOpening(opening, receipt.id, entries)),
    )
    if (isGood) report.openings++
    if (author !== null) report.authors.push(author)
  }
  report.pubkeys = [...keys.seen]
  const support = {
    checkpoints: [...checkpoints.values()],
    covered,
    upTo,
    madeAt: null,
    seenSize: isConnected(report.log) ? seenLog(known.remembered).size : null,
  }
  return { report, findings, keys, support }
}

/**
 * Checks an entry's proof and its seal; adds what does not hold to the findings.
 *
 * @returns whether the proof holds
 */
function checkSealedItem(item, seals, keys, known, findings, report) {
  const { entry, leaf, index, path, seal, seq } = item
  const where = `entry ${entry.id}`
  let payload
  const isGood = findings.run(where, () => {
    payload = sealPayload(seal)
    if (seq !== seal.seq)
      throw new Refused('malformed_receipt', `stands under seal ${show(seq)} and brings seal ${seal.seq}`)
    checkLeaf(entry, leaf)
    if (isWhole(index) && seal.from_id + index !== entry.id)
      throw new Refused('wrong_index', `index ${index} of seal ${seal.seq} is entry ${seal.from_id + index}`)
    checkInclusion({ leaf, path, root: seal.root, index, count: seal.count })
  })
  if (payload === undefined) return false
  if (isGood) report.entries_sealed++
  const earlier = seals.get(seal.seq)
  if (earlier !== undefined) {
    if (earlier.payload !== payload) {
      findings.add('conflicting_seals', where, `brings another seal ${seal.seq} than an entry before it`)
      findings.keepFork(earlier.seal, seal, keys)
    } else if (earlier.seal.signature === seal.signature && earlier.seal.pubkey === seal.pubkey) return isGood
  }
  seals.set(seal.seq, { seal, payload })
  checkSealAlone(seal, known.now, findings, `seal ${seal.seq}`)
  if (seal.signed) checkSignature(seal, payload, keys, findings, `seal ${seal.seq}`)
  else report.unsigned_seqs.push(seal.seq)
  compareWithSeen(seal, payload, keys, known, findings)
  return isGood
}

/**
 * Checks an entry's place in the log over all entries, under a checkpoint that a known key has signed, and
 * adds the checkpoint to `checkpoints`. Throws Refused.
 */
function checkLogProof({ entry, leaf, seal, tlog_proof: text }, keys, checkpoints) {
  const { index, path, checkpoint: note } = readLogProof(text)
  const checkpoint = readCheckpoint(note, 'wrong_checkpoint')
  if (index !== entry.id - 1 || rootByPath(leaf, index, checkpoint.size, path) !== checkpoint.root)
    throw new Refused('wrong_log_proof', `the path does not lead from entry ${entry.id} to the log's root`)
  // The key of its seal is judged there.
  checkNoteSignature(
    checkpoint,
    seal.signed ? new Set([...keys.accepted, seal.pubkey]) : keys.accepted,
    'wrong_checkpoint',
  )
  const other = checkpoints.get(checkpoint.size)
  if (other !== undefined && other.root !== checkpoint.root)
    throw new Refused('log_rewritten', `two checkpoints of size ${checkpoint.size} differ`)
  checkpoints.set(checkpoint.size, { ...checkpoint, note })
}

/** The newest log that was verified before, by entries or by proofs; null if none was. */
function seenLog(remembered) {
  if (remembered?.log === undefined) return null
  const walked = logHeadOf(new GrowingTree(logNodeHash, remembered.log.size, remembered.log.frontier))
  if (remembered.checkpoint === undefined) return walked
  const { size, root } = readCheckpoint(remembered.checkpoint, 'wrong_checkpoint')
  return size >= walked.size ? { size, root, note: remembered.checkpoint } : walked
}

/**
 * Compares a signed log with the one that was seen: the larger must continue the smaller. Throws Refused
 * `log_rewritten` if they contradict each other.
 *
 * @param proof between the two, as readConsistency() gives it; null if there is none at hand
 * @returns `same`, `consistent`, or `not_checked` without a proof
 */
function connectLogs(seen, shown, proof) {
  const [from, to] = seen.size <= shown.size ? [seen, shown] : [shown, seen]
  if (from.size === to.size ? from.root === to.root : proof === null || isConsistent(from, to, proof.path))
    return from.size === to.size ? 'same' : proof === null && from.size > 0 ? 'not_checked' : 'consistent'
  throw new Refused(
    'log_rewritten',
    `the log of size ${shown.size} with the root ${shown.root} does not agree with the one seen before, of size ${seen.size} with the root ${seen.root}`,
  )
}

const NO_SUPPORT = { checkpoints: [], covered: 0, upTo: 0, madeAt: null, seenSize: null }
const isConnected = (log) => ['same', 'consistent'].includes(log?.connected)

/**
 * Compares a receipt's newest checkpoint with the log that was seen.
 *
 * @returns both for the report; null without one
 */
function connectReceipt(checkpoints, { remembered, consistency = null }, keys, findings) {
  let shown
  for (const checkpoint of checkpoints.values())
    if (shown === undefined || checkpoint.size > shown.size) shown = checkpoint
  if (shown === undefined) return null
  const seen = seenLog(remembered)
  let connected = null
  const isKept =
    seen === null || findings.run('log', () => (connected = connectLogs(seen, shown, consistency)))
  if (!isKept) findings.keepLogFork(seen, shown, consistency, keys)
  const { origin, size, root, note } = shown
  return { origin, size, root, connected, note }
}

/**
 * Checks that a seal in a receipt has the payload that it had when it was seen in the chain of the same
 * service.
 */
function compareWithSeen(seal, payload, keys, { pinned, remembered, records }, findings) {
  const isOfService = seal.signed ? remembered?.pubkeys.includes(seal.pubkey) : pinned.length === 0
  if (remembered === null || !isOfService || seal.seq < 1 || seal.seq > remembered.seq) return
  const isSame =
    records !== null
      ? payload === sealPayload(readRecord(records, seal.seq))
      : seal.seq < remembered.seq || sha256Hex(payload) === remembered.payload_hash // all that an older version kept
  if (isSame) return
  findings.add(
    'history_rewritten',
    `seal ${seal.seq}`,
    'has another payload than when it was seen in the chain',
  )
  if (records !== null) findings.keepFork(readSignedRecord(records, seal.seq, remembered.pubkeys), seal, keys)
}

/** Words for why a receipt without a finding binds nobody, each with a sentence. */
function receiptNotBinding({ report, keys }) {
  const reasons = []
  const { entries_waiting: waiting, unsigned_seqs: unsigned } = report
  if (waiting > 0)
    reasons.push(['waiting', `${waiting === 1 ? 'an entry waits' : `${waiting} entries wait`} for a seal`])
  if (unsigned.length > 0) reasons.push(['unsigned', `seal ${unsigned.join(' ')} has no signature`])
  if (keys.trust === 'first_seen' && keys.seen.size > 0) reasons.push(['key_unknown', RECEIPT_KEY_UNKNOWN])
  return reasons
}

/** Throws Refused unless `leaf` is the entry's hash. */
function checkLeaf(entry, leaf) {
  let own
  try {
    own = leafHash(entry)
  } catch (error) {
    throw error instanceof Refused ? new Refused('malformed_entry', error.message) : error
  }
  if (leaf !== own) throw new Refused('wrong_leaf', `the entry's leaf is ${own}, not ${show(leaf)}`)
}

/** Checks what the seals of a receipt say about each other. */
function checkReceiptSeals(seals, findings) {
  const inOrder = [...seals.values()].map(({ seal }) => seal).sort((a, b) => a.seq - b.seq)
  for (const [position, seal] of inOrder.entries()) {
    if (position === 0) continue
    const previous = inOrder[position - 1]
    checkSealLink(previous, seal, findings, `seal ${seal.seq}`)
    if (seal.seq > previous.seq + 1 && seal.from_id <= previous.to_id)
      findings.add(
        'range_gap',
        `seal ${seal.seq}`,
        `begins at entry ${seal.from_id}, seal ${previous.seq} ends at ${previous.to_id}`,
      )
  }
}

/**
 * Checks that an opening gives the commitment in its entry, and its author's signature. Throws Refused.
 *
 * @returns whose key signed what is opened, as authorAt(); null if nobody's
 */
function checkOpening(opening, record, entries) {
  const wrong = (sentence) => new Refused('wrong_opening', sentence)
  if (
    !isObject(opening) ||
    typeof opening.field !== 'string' ||
    !isHexHash(opening.salt) ||
    !('content' in opening)
  )
    throw wrong('it is not {entry_id, field, salt, content}')
  const data = entries.get(opening.entry_id)?.data
  if (data === undefined) throw wrong('there is no such entry in the receipt')
  const commitment = Object.hasOwn(data, opening.field) ? data[opening.field] : undefined
  if (!isHexHash(commitment)) throw wrong(`the entry has no commitment in ${show(opening.field)}`)
  let content
  try {
    content = canonicalJson(opening.content)
  } catch (error) {
    throw error instanceof Refused ? wrong(error.message) : error
  }
  if (
    sha256Hex(Buffer.concat([Buffer.from(opening.salt, 'hex'), Buffer.from(content, 'utf8')])) !== commitment
  )
    throw wrong(`salt and content do not give the commitment in ${show(opening.field)}`)
  // Commitments of earlier versions are to the content alone.
  if (isObject(opening.content) && Object.hasOwn(opening.content, 'id') && opening.content.id !== record)
    throw wrong(`its content is of another record, ${show(opening.content.id)}`)
  return checkOpenedAuthor(opening, entries.get(opening.entry_id))
}

// ——— signatures of agents over what they put on record

/** By the entry's kind: which opening the signature comes with, and the fields of what is signed. */
const AUTHORED = new Map([
  ['post', { opening: 'content_hash', fields: ['body', 'topic'] }],
  ['claim', { opening: 'content_hash', fields: ['kind', 'resolve_by', 'statement'] }],
  ['verdict', { opening: 'evidence_hash', fields: ['claim_id', 'evidence', 'outcome'] }],
  ['dm_key_change', { fields: ['dm_key'] }],
  ['author_key_change', { fields: ['author_key'] }],
])

const authorAt = ({ id, data }) => ({ entry_id: id, author_key: data.author.author_key })

/** The field of `data` that has the key, by the kind of entry that changes one. */
const KEY_FIELDS = { dm_key_change: 'dm_key', author_key_change: 'author_key' }
const isKeyChange = ({ kind }) => Object.hasOwn(KEY_FIELDS, kind)
const isSignedChange = (entry) => isKeyChange(entry) && Object.hasOwn(entry.data, 'author')

/** A change of a key carries the whole signature, by the author key that stood before it. */
const checkKeyChange = (entry) => checkAuthor(entry, entry.data.author, {})

/** Checks the author's signature that comes with an opening. Throws Refused. @returns as checkOpening() */
function checkOpenedAuthor(opening, entry) {
  const { kind, data } = entry
  if (AUTHORED.get(kind)?.opening !== opening.field) return null
  const [states, shows] = [Object.hasOwn(data, 'author'), Object.hasOwn(opening, 'author')]
  if (!states && !shows) return null
  const { author } = opening
  const wrong = (sentence) => new Refused('wrong_author', sentence)
  if (states !== shows)
    throw wrong(
      states ? 'the entry carries a signature, and none is shown' : 'the entry carries no signature',
    )
  checkAuthor(entry, author, isObject(opening.content) ? opening.content : {})
  const hash = sha256Hex(Buffer.from(author.signature, 'base64'))
  if (
    !isObject(data.author) ||
    data.author.author_key !== author.author_key ||
    data.author.signature_hash !== hash
  )
    throw wrong('the entry carries another signature')
  return authorAt(entry)
}

/**
 * Checks an author's signature over what an entry says. Throws Refused `wrong_author`.
 *
 * @param opened the content that the entry has a commitment to
 */
function checkAuthor({ kind, data }, author, opened) {
  const wrong = (sentence) => new Refused('wrong_author', sentence)
  const isWellFormed =
    isObject(author) &&
    isHexHash(author.author_key) &&
    isSignature(author.signature) &&
    isObject(author.seen) &&
    isWhole(author.seen.size) &&
    isHexHash(author.seen.root)
  if (!isWellFormed) throw wrong('its author is not {author_key, seen: {size, root}, signature}')
  if (typeof data.agent_id !== 'string') throw wrong('the entry names no agent')
  const valueOf = (field) =>
    Object.hasOwn(opened, field) ? opened[field] : Object.hasOwn(data, field) ? data[field] : null
  const content = Object.fromEntries(AUTHORED.get(kind).fields.map((field) => [field, valueOf(field)]))
  const { size, root } = author.seen
  let text
  try {
    text = canonicalJson({ agent_id: data.agent_id, kind, content, seen: { size, root } })
  } catch (error) {
    throw error instanceof Refused ? wrong(error.message) : error
  }
  if (isWeakKey(author.author_key)) throw wrong(`anyone can sign for the key ${author.author_key}`)
  if (!isSignedBy(author.author_key, text, author.signature))
    throw wrong(`the signature is not that of ${author.author_key} over what the entry says`)
}

/**
 * By the prefix of a record's id: the kind of entry that makes such a record, and, for each kind that may
 * stand under it, the fields of `data` of which the first that is there is the record's id. The ids of other
 * records may stand in the same data, so that one that stands anywhere says little.
 */
const RECORD_KINDS = new Map(
  Object.entries({
    agt: {
      madeBy: 'registration',
      registration: ['agent_id'],
      token_rotation: ['agent_id'],
      dm_key_change: ['agent_id'],
      author_key_change: ['agent_id'],
      witness_key: ['agent_id'],
      pass_credit: ['claim_id', 'payment_id', 'invoice_id', 'order_id', 'agent_id'], // else it is that record's
      ban: ['agent_id'],
      unban: ['agent_id'],
      hide: ['agent_id'],
      unhide: ['agent_id'],
    },
    pst: { madeBy: 'post', post: ['post_id'], hide: ['post_id'], unhide: ['post_id'] },
    clm: {
      madeBy: 'claim',
      claim: ['claim_id'],
      proposal_accepted: ['claim_id'],
      pass_credit: ['claim_id'],
      hide: ['claim_id'],
      unhide: ['claim_id'],
    },
    vrd: { madeBy: 'verdict', verdict: ['verdict_id'] },
    ann: { madeBy: 'announcement', announcement: ['announcement_id'] },
    ofr: {
      madeBy: 'offer',
      offer: ['offer_id'],
      offer_closed: ['offer_id'],
      hide: ['offer_id'],
      unhide: ['offer_id'],
    },
    mkt: {
      madeBy: 'order',
      order: ['order_id'],
      fee: ['order_id'],
      payment: ['order_id'],
      dispute: ['order_id'],
      dispute_outcome: ['order_id'],
    },
    wrk: { madeBy: 'pass_credit', pass_credit: ['order_id'] },
    inv: { madeBy: 'pass_credit', pass_credit: ['payment_id', 'invoice_id'] }, // else the payment's
    pay: { madeBy: 'payment', payment: ['step', 'payment_id'], pass_credit: ['payment_id'] }, // with a step it is an order's
    out: { madeBy: 'payout', payout: ['payout_id'] },
    opr: { madeBy: 'operator_act', operator_act: ['act_id'] },
    rcn: { madeBy: 'reconcile', reconcile: ['reconciliation_id'] },
    seal: { solvency: ['seal'], seal_adoption: ['seal'] },
  }).map(([prefix, { madeBy, ...kinds }]) => [prefix, { madeBy, kinds: new Map(Object.entries(kinds)) }]),
)

const kindsOf = (id) => RECORD_KINDS.get(id.split('_', 1)[0])

const KNOWN_KINDS = new Set([...RECORD_KINDS.values()].flatMap(({ kinds }) => [...kinds.keys()]))

/**
 * Whether an entry belongs to the record of this id. A kind that is in no row of the table is newer than it:
 * then the id must be some string in the data.
 */
function isOfRecord({ kind, data }, id) {
  const fields = kindsOf(id)?.kinds.get(kind)
  if (fields === undefined) return !KNOWN_KINDS.has(kind) && names(data, id)
  const field = fields.find((name) => Object.hasOwn(data, name))
  return field !== undefined && data[field] === id
}

/**
 * Throws Refused unless the entry that makes the record is among these: a record that was never made must not
 * be proven by what others say of it.
 */
function checkMaking(id, entries) {
  const madeBy = kindsOf(id)?.madeBy
  if (madeBy !== undefined && ![...entries.values()].some(({ kind }) => kind === madeBy))
    throw new Refused('wrong_record', `has no entry of kind ${madeBy}, without which there is no ${show(id)}`)
}

/** Whether some string in `value` is `id`. */
function names(value, id) {
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (next === id) return true
    // One by one: a call takes only so many arguments.
    if (typeof next === 'object' && next !== null) for (const part of Object.values(next)) open.push(part)
  }
  return false
}

// ——— vectors

/** Runs one vector by its `kind`; its `reason` isn't looked at. Without `now` no seal is of the future. */
async function verifyVector(vector) {
  if (!isObject(vector)) throw new Unchecked('usage', 'a vector is not an object')
  const { pubkeys: pinned = [], remembered = null, now = Infinity } = vector
  if (vector.kind === 'seal') {
    if (!Array.isArray(vector.seals) || !Array.isArray(vector.entries))
      throw new Unchecked('usage', 'a vector of seals has seals and entries')
    const source = listSource(
      () => vector.seals,
      () => vector.entries,
    )
    const walk = await verifyChain(source, { pinned, remembered, clock: () => now, isFull: true })
    return { findings: walk.findings, reasons: walk.notBinding() }
  }
  if (vector.kind === 'receipt') {
    const checked = verifyReceipt(vector.receipt, { pinned, remembered, now })
    return { findings: checked.findings, reasons: receiptNotBinding(checked) }
  }
  const check = VECTOR_CHECKS[vector.kind]
  if (check === undefined)
    throw new Unchecked('usage', `there is no kind of vector called ${show(vector.kind)}`)
  const findings = new Findings()
  findings.run(vector.kind, () => check(vector))
  return { findings, reasons: [] }
}

const VECTOR_CHECKS = {
  'canonical-json': ({ cases }) => cases.forEach(checkCanonicalCase),
  leaf: ({ entry, leaf }) => {
    checkEntry(entry)
    checkLeaf(entry, leaf)
  },
  tree: ({ leaves, roots }) => {
    const tree = new GrowingTree()
    for (const [index, leaf] of leaves.entries()) {
      tree.add(leaf)
      const root = roots[String(index + 1)]
      if (root !== undefined && tree.root() !== root)
        throw new Refused('wrong_root', `${index + 1} leaves have the root ${tree.root()}, not ${root}`)
    }
  },
  proof: (proof) => {
    if (proof.entry !== undefined) checkLeaf(proof.entry, proof.leaf)
    checkInclusion(proof)
  },
}

function checkCanonicalCase({ json, canonical, sha256 }) {
  let value
  try {
    value = parseJsonText(json)
  } catch (error) {
    throw error instanceof RangeError
      ? new Refused('no_canonical_form', error.message)
      : new Refused('malformed_json', error.message)
  }
  const own = canonicalJson(value)
  if (own !== canonical) throw new Refused('wrong_canonical_form', `it is ${own}, not ${canonical}`)
  if (sha256 !== undefined && sha256Hex(own) !== sha256)
    throw new Refused('wrong_canonical_form', `its SHA-256 is ${sha256Hex(own)}, not ${sha256}`)
}

// ——— evidence: two seals of one number that a key has signed

/** Writes a proof of a contradiction into a new file, which anybody can check. @returns its path */
async function writeEvidence(folder, found) {
  const text = JSON.stringify(found, null, 2) + '\n'
  const { found_at: now } = found
  for (let count = 1; ; count++) {
    const file = path.join(folder, `fork-${now}${count === 1 ? '' : `-${count}`}.json`)
    try {
      await writeFile(file, text, { flag: 'wx' })
      return file
    } catch (error) {
      if (error.code !== 'EEXIST')
        throw new Unchecked('usage', `the evidence can't be written: ${error.message}`)
    }
  }
}

/** Checks that two seals prove a fork: no finding means that they do. */
function verifyEvidence(evidence, { pinned, remembered }) {
  const findings = new Findings()
  const keys = new Keys(pinned, remembered)
  const report = { seq: null, payload_hashes: [] }
  const payloads = []
  for (const [place, side] of evidence.sides.entries()) {
    const where = `side ${place + 1}`
    findings.run(where, () => {
      const seal = { ...side, signed: true, algo: 'ed25519', signed_at: side?.at }
      const payload = sealPayload(seal)
      payloads.push(payload)
      report.payload_hashes.push(sha256Hex(payload))
      report.seq ??= seal.seq
      checkSignature(seal, payload, keys, findings, where)
    })
  }
  const isFork =
    payloads.length < 2 || (payloads[0] !== payloads[1] && evidence.sides[0].seq === evidence.sides[1].seq)
  if (!isFork) findings.add('no_contradiction', 'evidence', 'it is not two different seals of one number')
  report.pubkeys = [...keys.seen]
  return { report, findings, keys }
}

/**
 * Whether two logs contradict each other: they have one size and two roots, or the proof shows that the
 * larger begins with another log of the smaller's size.
 */
function isContradiction(from, to, consistency) {
  if (from.size === to.size) return from.root !== to.root
  const { root, path } = isObject(consistency) ? consistency : {}
  return (
    isHexHash(root) &&
    root !== from.root &&
    from.size > 0 &&
    isConsistent({ size: from.size, root }, to, path)
  )
}

/** Checks that two signed checkpoints prove a fork of the log: no finding means that they do. */
function verifyLogEvidence({ pubkey, notes, consistency }, { pinned, remembered }) {
  const findings = new Findings()
  const keys = new Keys(pinned, remembered)
  const report = { sizes: [], roots: [], pubkeys: [] }
  const sides = []
  for (const [place, note] of notes.entries())
    findings.run(`note ${place + 1}`, () => {
      const side = readCheckpoint(note, 'wrong_checkpoint')
      if (!isHexHash(pubkey)) throw new Refused('wrong_checkpoint', 'it names no key')
      keys.check(pubkey)
      checkNoteSignature(side, [pubkey], 'wrong_checkpoint')
      sides.push(side)
      report.sizes.push(side.size)
      report.roots.push(side.root)
    })
  if (sides.length === 2) {
    const [from, to] = sides
    const isOther = isContradiction(from, to, consistency)
    if (from.origin !== to.origin || !isOther)
      findings.add(
        'no_contradiction',
        'evidence',
        'it is not two checkpoints of one log that contradict each other',
      )
  }
  report.pubkeys = [...keys.seen]
  return { report, findings, keys }
}

// ——— the state file: {BASE_URL: what is remembered of that service}, see "the whole chain"

const STATE_FORMS = {
  head: (head) => isObject(head) && head.signed === true,
  owed: (owed) => readOwed({ owed }) !== null,
  chained: (value) => typeof value === 'boolean',
  unreadable: isWhole,
  adoptions: Array.isArray,
  seals: (text) => typeof text === 'string',
}
/** An older version kept none of these. */
const LOG_FORMS = {
  logged: (value) => typeof value === 'boolean',
  log: (log) =>
    isObject(log) &&
    isWhole(log.size) &&
    Array.isArray(log.frontier) &&
    log.frontier.length === countBits(log.size) &&
    log.frontier.every(isHexHash),
  keys: (keys) => keys === null || (isObject(keys) && isWhole(keys.count) && isHexHash(keys.root)),
}

const isCheckpoint = (note) => {
  try {
    return isObject(readCheckpoint(note, 'malformed'))
  } catch {
    return false
  }
}

const OPTIONAL_FORMS = {
  key_form: (form) => form === 1 || form === 2,
  checkpoint: isCheckpoint,
  heard: (notes) => Array.isArray(notes) && notes.every(isCheckpoint),
}

const countBits = (size) => size.toString(2).replaceAll('0', '').length

/** Whether a value has the form of what is remembered of a service. */
function isMemory(memory) {
  const isHead =
    isObject(memory) &&
    isWhole(memory.seq) &&
    isHexHash(memory.payload_hash) &&
    isHexHash(memory.history) &&
    Array.isArray(memory.pubkeys) &&
    memory.pubkeys.every(isHexHash)
  if (!isHead || memory.seals === undefined) return isHead // an older version kept no more
  const forms = Object.entries({
    ...STATE_FORMS,
    ...(memory.log === undefined ? {} : LOG_FORMS),
    ...OPTIONAL_FORMS,
  })
  const isWellFormed = forms.every(
    ([field, isRight]) => (field in OPTIONAL_FORMS && memory[field] === undefined) || isRight(memory[field]),
  )
  return isWellFormed && Buffer.from(memory.seals, 'base64').length === memory.seq * RECORD_BYTES
}

/** Reads the state file; an empty state if there is none. Throws Unchecked for anything else. */
async function readState(file) {
  let bytes
  try {
    bytes = await readFile(file)
  } catch (error) {
    if (error.code === 'ENOENT') return {}
    throw new Unchecked('usage', `the state file ${file} can't be read: ${error.message}`)
  }
  const state = parseFile(`the state file ${file}`, () => parseJson(bytes))
  if (!isObject(state) || !Object.values(state).every(isMemory))
    throw new Unchecked(
      'usage',
      `the state file ${file} is not one of this program's: move it away to begin anew`,
    )
  return state
}

/**
 * Changes the state as it stands now, one process after the other; a crash leaves the old file or the new one
 * whole.
 */
async function changeState(file, change) {
  const lock = `${file}.lock`
  const holder = `${process.pid}.${crypto.randomBytes(8).toString('hex')}`
  const fresh = `${file}.${holder}.new`
  await takeLock(lock, holder)
  try {
    const state = await readState(file)
    change(state)
    await writeFile(fresh, JSON.stringify(state, null, 1) + '\n', { flush: true })
    await rename(fresh, file)
  } catch (error) {
    throw error instanceof Unchecked
      ? error
      : new Unchecked('usage', `the state file ${file} can't be written: ${error.message}`)
  } finally {
    await rm(fresh, { force: true })
    // It is another's if this one was taken for dead.
    if ((await readFile(lock, 'utf8').catch(() => '')) === `${holder}\n`) await rm(lock, { force: true })
  }
}

/**
 * Waits for the lock and takes it. One that is much older than milliseconds is of a process that was killed.
 */
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
      if (error.code === 'EEXIST') return false
      throw new Unchecked('usage', `the state file can't be locked: ${error.message}`)
    }
  }
  while (!(await create(lock))) {
    // Only one may break a stale lock, and looks again: the lock may be a new one by now.
    const breaking = `${lock}.breaking`
    if ((await isStale(lock)) && (await create(breaking))) {
      if (await isStale(lock)) await rm(lock, { force: true })
      await rm(breaking, { force: true })
    } else {
      if (await isStale(breaking)) await rm(breaking, { force: true })
      await sleep(20)
    }
  }
}

/**
 * Puts what a check found into the state, unless another check saw more meanwhile. If the two saw different
 * histories, that is a finding instead.
 */
function remember(state, base, memory, { remembered, kept = remembered, keys, findings }) {
  const other = state[base]
  if (other !== undefined && other.history !== kept?.history) {
    const [less, more] = other.seq > memory.seq ? [memory, other] : [other, memory]
    const records = recordsOf(more)
    if (records !== null && historyAt(records, less.seq) !== less.history) {
      findings.add(
        'history_rewritten',
        `seal ${less.seq}`,
        'another check, which ended meanwhile, saw another history',
      )
      const known = recordsOf(less)
      for (let seq = 1; known !== null && seq <= less.seq; seq++) {
        const [one, two] = [known, records].map((own) =>
          readSignedRecord(own, seq, [...less.pubkeys, ...more.pubkeys]),
        )
        if (sealPayload(one) !== sealPayload(two)) findings.keepFork(one, two, keys)
      }
      return
    }
    if (more === other && records !== null && memory.seq < other.seq) return
  }
  state[base] = memory
}

// ——— dumps, evidence and vectors in files

/** Checks a dump or a receipt in a file. */
async function checkFile(file, options, progress) {
  const lines = await fromFile(() => dumpSource(file))
  const content = lines === null ? await readJsonFile(file) : null
  if (isObject(content) && !Array.isArray(content.seals) && Array.isArray(content.entries))
    return checkOneReceipt(content, file, options)
  if (
    lines === null &&
    !(isObject(content) && Array.isArray(content.seals) && Array.isArray(content.entries))
  )
    throw new Unchecked('usage', `${file} is neither a dump {entries, seals} nor a receipt`)
  const source =
    lines ??
    listSource(
      () => content.seals,
      () => content.entries,
    )
  const remembered = findService(
    await readState(options.state),
    [await findFirstKey(source)],
    options.service,
  )
  const walk = await verifyChain(source, {
    ...chainOptions(options, progress),
    remembered,
    mayBeOlder: true,
    isFull: true,
  })
  return conclude({ ...chainReport(file, walk), remembered_seq: null }, walk, walk.notBinding(), {
    base: options.service ?? null,
    options,
    support: chainSupport(walk),
  })
}

/** The key of the first signed seal. */
async function findFirstKey(source) {
  for await (const seal of source.seals(0)) if (seal?.signed === true) return seal.pubkey
  return undefined
}

/** Checks a file that is to prove that one key signed two histories. */
async function checkEvidence(file, options) {
  const evidence = await readJsonFile(file)
  const isLog =
    isObject(evidence) &&
    evidence.kind === 'log_fork' &&
    Array.isArray(evidence.notes) &&
    evidence.notes.length === 2
  if (
    !isLog &&
    (!isObject(evidence) ||
      evidence.kind !== 'fork' ||
      !Array.isArray(evidence.sides) ||
      evidence.sides.length !== 2)
  )
    throw new Unchecked('usage', `${file} is not evidence of a fork`)
  const known = Object.values(await readState(options.state)).map(({ pubkeys }) => pubkeys)
  const named = isLog ? [evidence.pubkey] : evidence.sides.map((side) => side?.pubkey)
  const remembered = known.find((pubkeys) => named.some((key) => pubkeys.includes(key))) ?? []
  const checked = (isLog ? verifyLogEvidence : verifyEvidence)(evidence, {
    pinned: options.pubkey,
    remembered,
  })
  const reasons = checked.keys.trust === 'first_seen' ? [['key_unknown', RECEIPT_KEY_UNKNOWN]] : []
  return conclude(
    { kind: 'evidence', target: file, ...checked.report, key_trust: checked.keys.trust },
    checked,
    reasons,
  )
}

/** Runs the vectors in files, each of which holds one or a list. */
async function checkVectors(files) {
  const results = []
  for (const file of files) {
    const content = await readJsonFile(file)
    for (const [place, vector] of (Array.isArray(content) ? content : [content]).entries()) {
      const { findings, reasons } = await verifyVector(vector)
      const name = Array.isArray(content) ? `${file}[${place}]` : file
      const notBinding = findings.total > 0 ? [] : reasons.map(([reason]) => reason)
      results.push({ file: name, ok: findings.total === 0, not_binding: notBinding, findings: findings.list })
    }
  }
  const ok = results.every((result) => result.ok)
  return { ok, binding: false, verdict: ok ? 'good' : 'broken', kind: 'vectors', results }
}

// ——— the command

/** Parses the arguments and checks what they name. @returns the result. Throws Unchecked */
async function main(args, { progress, receipt, note, consistency }) {
  const { target, options } = readArguments(args)
  options.policy =
    options.policy === undefined ? null : parsePolicy(await fromFile(() => readText(options.policy)))
  const logs = (options.policy?.logs ?? []).filter(({ type }) => type === SIGNER)
  options.pubkey = [...options.pubkey, ...logs.map(({ pubkey }) => pubkey)]
  if (note !== undefined) return checkNote(note, target, options, consistency)
  if (options.note !== undefined)
    return checkNote((await readBounded(options.note)).toString('utf8'), options.note, options)
  if (receipt !== undefined) return checkOneReceipt(receipt, target, options, consistency)
  if (options.vector !== undefined) return checkVectors(options.vector)
  if (options.evidence !== undefined) return checkEvidence(options.evidence, options)
  if (/^https?:/i.test(target)) return checkService(normalizeBase(target), options, progress)
  return checkFile(target, options, progress)
}

/** A file's text. Throws Unchecked if it isn't UTF-8. */
const readText = async (file) => {
  try {
    return utf8.decode(await readBounded(file))
  } catch (error) {
    throw error instanceof TypeError ? new Unchecked('usage', `${file} is not text in UTF-8`) : error
  }
}

const one = { type: 'string' }
const many = { type: 'string', multiple: true }
const flag = { type: 'boolean' }
const OPTIONS = {
  ...{
    pubkey: many,
    policy: one,
    state: one,
    service: one,
    full: flag,
    save: one,
    expect: many,
    vector: many,
    evidence: one,
    note: one,
    json: flag,
    consistency: one,
  },
  ...{ 'max-age': one, 'max-seals': one, 'max-entries': one, timeout: one, deadline: one },
}

function readArguments(args) {
  let parsed
  try {
    parsed = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  } catch (error) {
    throw new Unchecked('usage', error.message, USAGE)
  }
  const { values, positionals } = parsed
  const alone = [values.vector, values.evidence, values.note].filter((value) => value !== undefined)
  if (positionals.length + alone.length !== 1)
    throw new Unchecked('usage', 'one thing to check is needed', USAGE)
  const whole = (name, fallback) => {
    const given = values[name] ?? fallback
    if (given !== null && !/^[0-9]{1,15}$/.test(given))
      throw new Unchecked('usage', `--${name} takes a whole number, not ${show(given)}`)
    return given === null ? null : Number(given)
  }
  const options = {
    ...{ pubkey: [], state: '.seal-verify.json', ...values },
    maxAge: whole('max-age', null),
    maxSeals: whole('max-seals', '1000000'),
    maxEntries: whole('max-entries', '100000000'),
    timeoutMs: whole('timeout', '30') * 1000,
    deadlineMs: whole('deadline', '3600') * 1000,
    expected: (values.expect ?? []).map(readExpected),
    service: values.service === undefined ? undefined : normalizeBase(values.service),
  }
  for (const key of options.pubkey)
    if (!isHexHash(key))
      throw new Unchecked('usage', `--pubkey takes 64 lower-case hex characters, not ${show(key)}`)
  return { target: positionals[0], options }
}

function readExpected(given) {
  const [, seq, history] = /^([1-9][0-9]{0,14}):([0-9a-f]{64})$/.exec(given) ?? []
  if (seq === undefined)
    throw new Unchecked('usage', `--expect takes SEQ:HISTORY as a head is printed, not ${show(given)}`)
  return { seq: Number(seq), history }
}

const BASE_URL = /^(https?):\/\/([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:\/[A-Za-z0-9._~-]+)*)\/*$/
const DEFAULT_PORTS = { http: '80', https: '443' }

/** The one form of a service's URL: `https://Host:443/` and `https://host/api/v1` become `https://host`. */
function normalizeBase(target) {
  // Scheme and host, up to the third slash, may be in capitals.
  const parts = target.split('/').map((part, place) => (place < 3 ? part.toLowerCase() : part))
  const [, scheme, host, port = '', route = ''] = BASE_URL.exec(parts.join('/')) ?? []
  if (scheme === undefined || /\/\.\.?(\/|$)/.test(route))
    throw new Unchecked('usage', `${target} is not the address of a service`)
  const place =
    port === '' || Number(port) === Number(DEFAULT_PORTS[scheme]) ? host : `${host}:${Number(port)}`
  return `${scheme}://${place}${route.replace(/\/api\/v1$/, '')}`
}

const DEFAULT_MAX_AGE_SECONDS = 1_800 // three intervals of ten minutes

/** Checks the chain of a service, and remembers what was found. */
async function checkService(base, options, progress) {
  const state = await readState(options.state)
  const remembered = state[base] ?? null
  const save = options.save === undefined ? undefined : await fromFile(() => openSave(options.save))
  const patience = beginPatience(options)
  let walk
  try {
    walk = await verifyChain(serviceSource(base, { save, patience }), {
      ...chainOptions(options, progress),
      remembered,
      isFull: options.full === true || save !== undefined,
      keep: (broken) => keepProgress(options.state, base, broken),
    })
  } finally {
    await save?.close()
  }
  judgeClock(walk.findings, patience)
  const checkpoint =
    walk.findings.total === 0 && walk.atHead?.logged === true
      ? await checkCheckpoint(base, walk, options, patience)
      : null
  if (walk.findings.total === 0 && walk.head !== null)
    await changeState(options.state, (current) => remember(current, base, walk.memory(), walk))
  const report = {
    ...chainReport(base, walk),
    checkpoint,
    remembered_seq: remembered?.seq ?? null,
    state: options.state,
  }
  return conclude(report, walk, walk.notBinding(), {
    base,
    options,
    maxAge: options.maxAge ?? DEFAULT_MAX_AGE_SECONDS,
    support: chainSupport(walk),
  })
}

/** Remembers what a check of a whole service has verified so far, if that is more than was remembered. */
async function keepProgress(file, base, walk) {
  const known = walk.kept ?? walk.remembered
  if (walk.findings.total > 0 || walk.checked === null || walk.checked.head.seq <= (known?.seq ?? 0)) return
  const memory = walk.memory()
  await changeState(file, (state) => remember(state, base, memory, walk))
  walk.kept = memory
}

/**
 * What a chain's verdict can rest on besides the key: its checkpoint, and what was seen before, if it reaches
 * that.
 */
function chainSupport({ shown = [], headSeal, remembered, seq }) {
  const hasSeen = remembered !== null && remembered.seq <= seq
  return {
    checkpoints: shown,
    covered: shown[0]?.size ?? 0,
    upTo: headSeal?.to_id ?? 0,
    madeAt: headSeal?.at ?? null,
    seenSize: hasSeen ? (remembered.head?.to_id ?? null) : null,
  }
}

/**
 * Fetches the newest checkpoint and checks that a known key has signed it, and that it agrees with the log
 * that the entries give.
 *
 * @returns it for the report; null if there is none, or it isn't signed
 */
async function checkCheckpoint(base, walk, { policy }, patience) {
  const url = `${base}/api/v1/checkpoint`
  const query = witnessQuery(policy)
  // A service of an older version knows no such question, and one that is older still no checkpoint.
  const body =
    (query === ''
      ? null
      : await askAgain(url + query, patience, (asked) => getBody(asked, patience, [400, 404]))) ??
    (await askAgain(url, patience, (asked) => getBody(asked, patience, [404])))
  if (body === null) return null
  let shown
  const isSigned = walk.findings.run('checkpoint', () => {
    let note
    try {
      note = utf8.decode(body)
    } catch {
      throw new Refused('wrong_checkpoint', 'it is no signed note')
    }
    shown = { ...readCheckpoint(note, 'wrong_checkpoint'), note }
    checkNoteSignature(shown, walk.keys.accepted, 'wrong_checkpoint')
  })
  if (!isSigned) return null
  const { size, frontier } = walk.atHead.log
  const own = logHeadOf(new GrowingTree(logNodeHash, size, frontier))
  const proof = shown.size === own.size ? null : await getConsistency(base, own, shown, patience)
  const isAgreed = walk.findings.run('checkpoint', () => connectLogs(own, shown, proof))
  if (
    isAgreed &&
    shown.size >=
      (walk.remembered?.checkpoint === undefined ? 0 : readCheckpoint(walk.remembered.checkpoint, '').size)
  )
    walk.checkpoint = shown.note
  walk.shown = [shown]
  await compareHeard(base, walk, shown, patience)
  return { origin: shown.origin, size: shown.size, root: shown.root }
}

/** At most so many witnesses are asked for by name. */
const MAX_WITNESSES_ASKED = 30

/** The query that asks for the cosignatures of a policy's own witnesses, whom others must not crowd out. */
function witnessQuery(policy) {
  const vkeys = policyVkeys(policy)
  return vkeys.length === 0 ? '' : `?${vkeys.map((vkey) => `witness=${encodeURIComponent(vkey)}`).join('&')}`
}

const policyVkeys = (policy) =>
  [...(policy?.witnesses.values() ?? [])]
    .filter(({ type }) => type === COSIGNER)
    .map(({ vkey }) => vkey)
    .slice(0, MAX_WITNESSES_ASKED)

/** Compares the remembered checkpoints of other readers with the log, now that it is long enough. */
async function compareHeard(base, walk, own, patience) {
  walk.heard = []
  for (const note of walk.remembered?.heard ?? []) {
    const shown = { ...readCheckpoint(note, 'wrong_checkpoint'), note }
    if (shown.size > own.size) {
      walk.heard.push(note)
      continue
    }
    const proof = shown.size === own.size ? null : await getConsistency(base, shown, own, patience)
    if (!walk.findings.run('note', () => connectLogs(own, shown, proof)))
      walk.findings.keepLogFork(own, shown, proof, walk.keys)
  }
}

/** Fetches the consistency proof between two logs, as readConsistency() gives it. */
async function getConsistency(base, one, other, patience) {
  const [from, to] = [Math.min(one.size, other.size), Math.max(one.size, other.size)]
  return readConsistency(await getJson(`${base}/api/v1/ledger/consistency?from=${from}&to=${to}`, patience))
}

/** {root, path} of an answer to GET /ledger/consistency: the older root as that log has it, and the proof. */
const readConsistency = (answer) => (isObject(answer) ? { root: answer.from_root, path: answer.hashes } : {})

function chainOptions({ pubkey, expected, maxSeals, maxEntries }, progress) {
  const limits = { seals: maxSeals, entries: maxEntries }
  return { pinned: pubkey, expected, limits, clock: nowSeconds, progress }
}

function chainReport(target, walk) {
  const { head, headSeal } = walk
  return {
    kind: 'chain',
    target,
    seals: (walk.resumedAt ?? 0) + walk.fresh.length,
    signed: walk.signed,
    unsigned_seqs: walk.unsigned,
    entries_sealed: walk.entriesSealed,
    entries_waiting: walk.entriesWaiting,
    resumed_at: walk.resumedAt ?? null,
    entries_read: walk.reader.count,
    head: head === null ? null : { ...head, at: headSeal.at },
    head_age_seconds: head === null ? null : nowSeconds() - headSeal.at,
    log: walk.log && walk.isLogged ? logHeadOf(walk.log) : null,
    keys: walk.isLogged ? walk.keyReport() : null,
    adoptions: walk.adoptions,
    unreadable_amounts: walk.unreadable,
    pubkeys: [...walk.keys.seen],
    key_trust: walk.keys.trust,
  }
}

/** Checks a receipt; remembers its checkpoint if that goes on from what was seen. */
async function checkOneReceipt(receipt, target, options, proof) {
  const keys = Array.isArray(receipt.entries) ? receipt.entries.map((item) => item?.seal?.pubkey) : []
  const remembered = findService(await readState(options.state), keys, options.service)
  const consistency = await proofBetween(seenLog(remembered), newestCheckpoint(receipt), options, proof)
  const known = { pinned: options.pubkey, remembered, now: nowSeconds(), consistency }
  const checked = verifyReceipt(receipt, known)
  const { log, ...checkedReport } = checked.report
  const { note: _note, ...shownLog } = log ?? {}
  const report = {
    kind: 'receipt',
    target,
    ...checkedReport,
    log: log && shownLog,
    key_trust: checked.keys.trust,
    proves: 'presence',
  }
  const result = await conclude(report, checked, receiptNotBinding(checked), {
    base: options.service ?? null,
    options,
    support: checked.support,
  })
  if (result.verdict === 'good' && log?.connected === 'consistent' && options.service !== undefined)
    await changeState(options.state, (state) => rememberCheckpoint(state, options.service, log))
  return result
}

/**
 * The proof between two logs, from the file that the options name or else by `ask`; null if there is none.
 */
async function proofBetween(seen, shown, { consistency: file }, ask) {
  if (file !== undefined) return readConsistency(await readJsonFile(file))
  if (ask === undefined || seen === null || shown === null || seen.size === shown.size) return null
  const answer = await ask(Math.min(seen.size, shown.size), Math.max(seen.size, shown.size))
  return answer === undefined ? null : readConsistency(answer)
}

/** The checkpoint of the largest size in a receipt of which nothing is checked yet; null if there is none. */
function newestCheckpoint({ entries }) {
  let newest = null
  for (const item of Array.isArray(entries) ? entries : []) {
    try {
      const checkpoint = readCheckpoint(readLogProof(item?.tlog_proof).checkpoint, 'malformed')
      if (checkpoint.size > (newest?.size ?? -1)) newest = checkpoint
    } catch (error) {
      if (!(error instanceof Refused)) throw error
    }
  }
  return newest
}

const MAX_HEARD = 16

/** Compares a checkpoint that another reader was shown with what is remembered of the service. */
async function checkNote(note, target, options, ask) {
  const remembered = findService(await readState(options.state), [], options.service)
  const findings = new Findings()
  const keys = new Keys(options.pubkey, remembered?.pubkeys ?? [])
  const seen = seenLog(remembered)
  const report = { kind: 'note', target, log: null, pubkeys: [...keys.accepted], key_trust: keys.trust }
  let shown = null
  findings.run('note', () => {
    const read = readCheckpoint(note, 'wrong_checkpoint')
    checkNoteSignature(read, keys.accepted, 'wrong_checkpoint')
    shown = { ...read, note }
  })
  let connected = null
  if (shown !== null && seen !== null) {
    const proof = await proofBetween(seen, shown, options, ask)
    if (!findings.run('note', () => (connected = connectLogs(seen, shown, proof))))
      findings.keepLogFork(seen, shown, proof, keys)
  }
  if (shown !== null) report.log = { origin: shown.origin, size: shown.size, root: shown.root, connected }
  const isOpen = seen === null || connected === 'not_checked'
  const reasons = isOpen
    ? [['not_compared', 'nothing that was seen of this log could be compared with it']]
    : []
  if (connected === 'not_checked' || connected === 'consistent')
    await changeState(options.state, (state) =>
      (connected === 'consistent' ? rememberCheckpoint : hearNote)(state, options.service, shown),
    )
  const support = {
    checkpoints: shown === null ? [] : [shown],
    ...{ covered: 0, upTo: 0, madeAt: null }, // a checkpoint is asked about, and no entries
    seenSize: isConnected(report.log) ? seen.size : null,
  }
  return conclude(report, { findings, keys }, reasons, {
    ...{ base: options.service ?? null, options, support },
  })
}

/**
 * Remembers another reader's checkpoint beyond what was seen, to be compared as soon as the log is that long.
 */
function hearNote(state, base, { note }) {
  const memory = state[base]
  if (memory?.log === undefined) return
  const heard = memory.heard ?? []
  if (!heard.includes(note)) memory.heard = [...heard, note].slice(-MAX_HEARD)
}

/** Remembers a checkpoint that was verified by proofs, if it is newer than what was seen. */
function rememberCheckpoint(state, base, { size, note }) {
  const memory = state[base]
  if (memory !== undefined && size > (seenLog(memory)?.size ?? Infinity)) memory.checkpoint = note
}

/**
 * What is remembered of the service that a file is from, which the file doesn't say: the named service's,
 * else that of the only one, else of the one whose key signed it; null if none.
 */
function findService(state, keys, base) {
  if (base !== undefined) return state[base] ?? null
  const services = Object.values(state)
  if (services.length === 1) return services[0]
  return services.find(({ pubkeys }) => keys.some((key) => pubkeys.includes(key))) ?? null
}

/** Runs something that reads a file. Throws Unchecked `usage` if the file can't be read. */
async function fromFile(read) {
  try {
    return await read()
  } catch (error) {
    throw error instanceof Unchecked ? error : new Unchecked('usage', error.message)
  }
}

/**
 * Makes the result from the findings and the reasons why nothing binds. Writes the two sides of a
 * contradiction, if one was found, beside the state file.
 */
async function conclude(report, { findings, keys }, ownReasons, place = {}) {
  const now = nowSeconds()
  const judged =
    place.support &&
    judgeSupport(place.options.policy, place.support, keys.trust, {
      now,
      maxAge: place.maxAge ?? place.options.maxAge,
    })
  const reasons = [...ownReasons, ...(judged?.reasons ?? [])]
  const verdict = findings.total > 0 ? 'broken' : reasons.length > 0 ? 'not_binding' : 'good'
  const found =
    findings.fork !== null
      ? { kind: 'fork', service: place.base, found_at: now, sides: findings.fork }
      : findings.logFork !== null
        ? { kind: 'log_fork', service: place.base, found_at: now, ...findings.logFork }
        : null
  const evidence =
    found === null ? {} : { evidence: await writeEvidence(path.dirname(place.options.state), found) }
  return {
    ok: verdict === 'good',
    binding: verdict === 'good',
    verdict,
    ...report,
    ...(judged === undefined ? {} : { rests_on: verdict === 'broken' ? null : judged.rests }),
    not_binding: verdict === 'broken' ? [] : reasons.map(([reason, message]) => ({ reason, message })),
    findings: findings.list,
    findings_total: findings.total,
    ...evidence,
  }
}

function progressOnStderr() {
  let next = Date.now() + PROGRESS_EVERY_MS
  return (line) => {
    if (Date.now() < next) return
    next = Date.now() + PROGRESS_EVERY_MS
    process.stderr.write(`... ${line}\n`)
  }
}

/** A result as lines for people. */
function toLines(result) {
  if (result.kind === 'vectors')
    return result.results.map(
      ({ file, ok, findings }) =>
        `${file}: ${ok ? 'accepted' : `refused ${findings.map(({ reason, message }) => `${reason}: ${message}`).join('; ')}`}`,
    )
  const lines = result.findings.map(({ reason, where, message }) => `${reason} at ${where}: ${message}`)
  if (result.findings_total >= MAX_FINDINGS) lines.push(`the check ended after ${MAX_FINDINGS} findings`)
  if (result.kind === 'chain') lines.push(...chainLines(result))
  if (result.kind === 'receipt') lines.push(...receiptLines(result))
  if (result.kind === 'note' && result.log !== null) lines.push(logLine(result.log))
  if (result.kind === 'evidence')
    lines.push(
      result.seq === undefined
        ? `checkpoints: sizes ${result.sizes.join(' and ')}, roots ${result.roots.join(' and ')}`
        : `seal: ${result.seq}, payload hashes: ${result.payload_hashes.join(' and ')}`,
    )
  for (const key of result.pubkeys) lines.push(`key: ${key} (${KEY_TRUST[result.key_trust]})`)
  if (result.evidence !== undefined)
    lines.push(`two signed histories, for anybody to check with --evidence: ${result.evidence}`)
  if (result.rests_on) lines.push(restsLine(result.rests_on), ...cosignedLines(result.rests_on))
  for (const { reason, message } of result.not_binding) lines.push(`${reason}: ${message}`)
  return [...lines, verdictLine(result)]
}

function chainLines({
  seals,
  signed,
  unsigned_seqs: unsigned,
  entries_sealed: sealed,
  entries_waiting: waiting,
  ...result
}) {
  const { head, adoptions, unreadable_amounts: unreadable, remembered_seq: seen } = result
  const lines = [`seals: ${seals}, of which signed: ${signed}`]
  if (unsigned.length > 0)
    lines.push(
      `not signed, so not binding: seal ${unsigned.slice(0, 20).join(' ')}${unsigned.length > 20 ? ' ...' : ''}`,
    )
  lines.push(`entries under a seal: ${sealed}, waiting for one: ${waiting}, read now: ${result.entries_read}`)
  for (const { entry_id: id, at, data } of adoptions)
    lines.push(`adoption: entry ${id} of the time ${at}: ${data}`)
  if (unreadable > 0) lines.push(`entries whose amount cannot be read, which count as nothing: ${unreadable}`)
  if (head !== null) {
    lines.push(
      `head: seal ${head.seq}, payload hash ${head.payload_hash}, made ${result.head_age_seconds} s ago`,
    )
    lines.push(`history: ${head.seq}:${head.history} (other readers compare it with --expect)`)
  }
  if (result.log !== null) lines.push(`log: size ${result.log.size}, root ${result.log.root}`)
  if (result.keys !== null)
    lines.push(
      `keys: of ${result.keys.count} agents, root ${result.keys.root}${result.keys.recomputed ? '' : ' (changes as stated: --full recomputes them)'}`,
    )
  if (seen !== null && result.verdict !== 'broken')
    lines.push(`nothing up to seal ${seen} has changed since the last check`)
  if (result.state !== undefined)
    lines.push(
      result.verdict === 'broken'
        ? `nothing was remembered in ${result.state}`
        : seen === null && head !== null
          ? `the first check of this service with ${result.state}: key and seals are remembered from now on`
          : `remembered in ${result.state}`,
    )
  return lines
}

const logLine = ({ size, root, connected }) =>
  `log: size ${size}, root ${root}, ${CONNECTED[connected] ?? 'and none was seen before'}`

const CONNECTED = {
  same: 'the one seen before',
  consistent: 'consistent with the one seen before',
  not_checked: 'not compared with the one seen before (--consistency)',
}

function receiptLines({
  id,
  openings,
  authors,
  log,
  entries_sealed: sealed,
  entries_waiting: waiting,
  unsigned_seqs: unsigned,
}) {
  const lines = [`record: ${show(id)}`, `openings checked: ${openings}`]
  for (const { entry_id: entryId, author_key: key } of authors)
    lines.push(`entry ${entryId} is signed by the author key ${key}`)
  if (unsigned.length > 0) lines.push(`not signed, so not binding: seal ${unsigned.join(' ')}`)
  lines.push(`entries under a seal: ${sealed}, waiting for one: ${waiting}`)
  if (log !== null) lines.push(logLine(log))
  return [
    ...lines,
    'this shows that these entries are on record, not that there are no others: a later hide, ban or key may be left out',
  ]
}

const KEY_TRUST = { pinned: 'pinned', remembered: 'the one remembered', first_seen: 'not known' }

const GOOD = {
  chain: 'GOOD: the whole chain holds',
  resumed: 'GOOD: the chain holds, and goes on from what was checked before',
  receipt: 'GOOD: every entry is under its seal',
  note: 'GOOD: the other reader was shown the same log',
  evidence: 'GOOD evidence: this key has signed two histories',
}

function verdictLine({ verdict, kind, resumed_at: resumedAt, findings_total: total }) {
  if (verdict === 'good') return typeof resumedAt === 'number' ? GOOD.resumed : GOOD[kind]
  return verdict === 'broken'
    ? `BAD: ${total} finding${total === 1 ? '' : 's'}`
    : 'NOT BINDING: nothing is wrong, and nothing proves it'
}

/**
 * Reads what is remembered of a service: its keys, whether its closing entries state log and keys, and the
 * newest log that was verified, with its signed checkpoint if there was one. Undefined before the first check
 * of everything.
 */
export async function recall(stateFile, service) {
  const memory = (await readState(stateFile))[service]
  if (memory?.log === undefined) return undefined
  const { size, root } = seenLog(memory)
  return {
    pubkeys: memory.pubkeys,
    logged: memory.logged,
    key_form: memory.key_form ?? 1,
    log: { size, root },
    checkpoint: memory.checkpoint,
  }
}

/** The vkeys of the witnesses in a file with a policy, as many as are asked for. Rejects with Unchecked. */
export const readPolicyVkeys = async (file) => policyVkeys(parsePolicy(await fromFile(() => readText(file))))

const EXIT_CODES = { good: 0, broken: 1, unchecked: 2, not_binding: 3 }

/**
 * Runs the command with these arguments and prints nothing. It never rejects: whatever goes wrong is
 * `unchecked`.
 *
 * @param world.receipt a receipt that is at hand, in place of the file that the arguments name
 * @param world.note a checkpoint that another reader was shown, which is compared with what is remembered of
 *   `--service`
 * @param world.consistency (from, to) → the answer of GET /ledger/consistency; undefined if there is none
 * @returns {exitCode, result, text}: the object that --json prints, and the lines, safe for a terminal
 */
export async function check(args, world = {}) {
  let result
  let lines
  try {
    result = await main(args, world)
    lines = toLines(result)
  } catch (error) {
    const { word = 'failed', help = '' } = error instanceof Unchecked ? error : {}
    const message = String(error?.message ?? error).slice(0, 1_000)
    result = { ok: false, binding: false, verdict: 'unchecked', error: word, message }
    lines = [message, ...help.split('\n')]
  }
  // A server's own "GOOD" must not look like this program's.
  const print = (line) =>
    result.verdict === 'good' ? escapeText(line) : escapeText(line).replaceAll('GOOD', 'G\\u004fOD')
  const text = lines.map(print).join('\n').trimEnd()
  return { exitCode: EXIT_CODES[result.verdict], result, text, json: print(JSON.stringify(result)) }
}

async function run(args) {
  const { exitCode, result, text, json } = await check(args, { progress: progressOnStderr() })
  const [stream, output] = args.includes('--json')
    ? [process.stdout, json]
    : [result.verdict === 'unchecked' ? process.stderr : process.stdout, text]
  stream.write(`${output}\n`, () => process.exit(exitCode))
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  process.on('uncaughtException', (error) => {
    process.stderr.write(`${escapeText(String(error?.message))}\n`, () => process.exit(2))
  })
  await run(process.argv.slice(2))
}
