#!/usr/bin/env node
/*
 * Checks the ledger of an agent network without trusting it. One file, no dependency, Node 18 or later.
 *
 *   node seal-verify.mjs BASE_URL       the whole chain: every seal, every entry, every signature
 *   node seal-verify.mjs DUMP.json      the same over a saved dump {entries, seals}
 *   node seal-verify.mjs RECEIPT.json   one receipt, offline
 *   node seal-verify.mjs --vector FILE  test vectors
 *
 * A leaf is SHA-256 of the byte 00 and the entry's canonical JSON (RFC 8785); a node is SHA-256 of left and right bytes,
 * an odd node moves up unchanged (the shape of RFC 6962). A seal signs, with Ed25519, the canonical JSON of its at,
 * count, from_id, prev_root, root, seq and to_id, which is rebuilt here and never taken from the server. Sealing
 * prevents rewriting, not withholding: an entry that was never made can't be missed by anybody.
 *
 * Exit: 0 everything holds, 1 something doesn't (one line each, with a fixed word), 2 nothing could be checked.
 */
import * as crypto from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const USAGE = `usage: node seal-verify.mjs BASE_URL | DUMP.json | RECEIPT.json [options]
       node seal-verify.mjs --vector FILE [--vector FILE ...] [--json]

  --pubkey HEX   accept this key and no other (give it again for each further key)
  --state FILE   where the last head of each BASE_URL is remembered (default .seal-verify.json)
  --save FILE    write what was read from BASE_URL as a dump
  --json         print one JSON object instead of lines

exit 0: everything holds; 1: something does not; 2: nothing could be checked`

const SEALS_PER_PAGE = 1_000
const ENTRIES_PER_PAGE = 10_000 // the most that the service gives
const MAX_ANSWER_BYTES = 256 * 2 ** 20
const REQUEST_TIMEOUT_MS = 60_000
const RETRY_PAUSES_MS = [500, 1_500]
const PROGRESS_EVERY_MS = 2_000
const MAX_FINDINGS_KEPT = 1_000
const MAX_JSON_DEPTH = 500
const DUMP_HEAD = '{"entries":['
const DUMP_MIDDLE = '],"seals":['

const HEX_HASH = /^[0-9a-f]{64}$/
const SIGNATURE_BASE64 = /^[A-Za-z0-9+/]{86}==$/
const LONE_SURROGATE = /\p{Cs}/u
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')

/** Nothing could be checked: exit 2. */
class Unchecked extends Error {
  constructor(word, message) {
    super(message)
    this.word = word
  }
}

/** A check that failed, with its fixed word. */
class Refused extends Error {
  constructor(reason, message) {
    super(message)
    this.reason = reason
  }
}

// ——— canonical JSON, hashes, signatures

function canonicalJson(value, depth = 0) {
  if (typeof value === 'string') {
    if (LONE_SURROGATE.test(value)) throw new Refused('no_canonical_form', 'a lone surrogate has no UTF-8 form')
    return JSON.stringify(value)
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new Refused('no_canonical_form', 'a number is too large')
    return JSON.stringify(value)
  }
  if (value === null || typeof value === 'boolean') return String(value)
  if (depth === MAX_JSON_DEPTH) throw new Refused('no_canonical_form', `nested deeper than ${MAX_JSON_DEPTH} levels`)
  if (Array.isArray(value)) return '[' + value.map((item) => canonicalJson(item, depth + 1)).join(',') + ']'
  const members = Object.keys(value).sort() // by UTF-16 code units
  return '{' + members.map((key) => canonicalJson(key, depth + 1) + ':' + canonicalJson(value[key], depth + 1)).join(',') + '}'
}

const sha256Hex = (data) => (crypto.hash ? crypto.hash('sha256', data, 'hex') : crypto.createHash('sha256').update(data).digest('hex'))
const leafHash = (entry) => sha256Hex('\0' + canonicalJson(entry))
const nodeHash = (left, right) => sha256Hex(Buffer.from(left + right, 'hex'))

/** The root of a tree whose leaves come one by one: keeps one complete subtree for each bit of the count. */
class GrowingTree {
  count = 0
  #subtrees = []

  add(leaf) {
    let node = leaf
    for (let rest = this.count; rest % 2 === 1; rest = Math.floor(rest / 2)) node = nodeHash(this.#subtrees.pop(), node)
    this.#subtrees.push(node)
    this.count++
  }

  root() {
    return this.#subtrees.reduceRight((right, left) => nodeHash(left, right))
  }
}

/** Throws unless `leaf` is number `index` of `count` under `root`: RFC 6962 gives each position one shape of path only. */
function checkInclusion({ leaf, path, root, index, count }) {
  const malformed = (sentence) => new Refused('malformed_proof', sentence)
  if (!isHexHash(leaf)) throw malformed('leaf is not 64 lower-case hex characters')
  if (!isHexHash(root)) throw malformed('root is not 64 lower-case hex characters')
  if (!isWhole(count) || count < 1 || !isWhole(index) || index >= count)
    throw malformed(`there is no index ${show(index)} among ${show(count)}`)
  if (!Array.isArray(path)) throw malformed('path is not a list')
  for (const step of path) {
    if (!isObject(step) || !isHexHash(step.hash) || (step.side !== 'left' && step.side !== 'right'))
      throw malformed('a step is not {hash, side}')
  }
  const sides = []
  for (let position = index, width = count; width > 1; position = Math.floor(position / 2), width = Math.ceil(width / 2)) {
    if (position % 2 === 1) sides.push('left')
    else if (position + 1 < width) sides.push('right')
  }
  if (path.length !== sides.length)
    throw new Refused('path_shape', `index ${index} of ${count} takes ${sides.length} steps, the path has ${path.length}`)
  const wrong = sides.findIndex((side, step) => path[step].side !== side)
  if (wrong !== -1) throw new Refused('wrong_side', `index ${index} of ${count} has its sibling on the ${sides[wrong]} at step ${wrong}`)
  const reached = path.reduce((node, { hash, side }) => (side === 'left' ? nodeHash(hash, node) : nodeHash(node, hash)), leaf)
  if (reached !== root) throw new Refused('wrong_root', `the path leads to ${reached}, not to ${root}`)
}

/** The text that a seal's signature covers; throws `malformed_seal` where a field has the wrong form. */
function sealPayload(seal) {
  const malformed = (sentence) => new Refused('malformed_seal', sentence)
  if (!isObject(seal)) throw malformed('a seal is not an object')
  for (const field of ['seq', 'at', 'count', 'from_id', 'to_id']) {
    if (!isWhole(seal[field])) throw malformed(`${field} is not a whole number`)
  }
  if (!isHexHash(seal.root)) throw malformed('root is not 64 lower-case hex characters')
  if (seal.prev_root !== null && !isHexHash(seal.prev_root)) throw malformed('prev_root is neither 64 lower-case hex characters nor null')
  if (seal.signed === true) {
    if (!isSignature(seal.signature)) throw malformed('signature is not 64 bytes in base64')
    if (!isHexHash(seal.pubkey)) throw malformed('pubkey is not 64 lower-case hex characters')
    if (seal.algo !== 'ed25519') throw malformed(`algo is ${show(seal.algo)}, not "ed25519"`)
    if (!isWhole(seal.signed_at)) throw malformed('signed_at is not a whole number')
  } else if (seal.signed !== false || (seal.signature ?? null) !== null) {
    throw malformed('signed does not say whether there is a signature')
  }
  const { at, count, from_id, prev_root, root, seq, to_id } = seal
  return canonicalJson({ at, count, from_id, prev_root, root, seq, to_id })
}

const FIELD_PRIME = 2n ** 255n - 19n
const ORDER_8_Y = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n

/** The eight points of small order, in any encoding: for such a key anyone can make a "signature". */
function isWeakKey(pubkey) {
  const bytes = Buffer.from(pubkey, 'hex').reverse()
  bytes[0] &= 0x7f // the sign of x
  const y = BigInt('0x' + bytes.toString('hex')) % FIELD_PRIME
  return [0n, 1n, FIELD_PRIME - 1n, ORDER_8_Y, FIELD_PRIME - ORDER_8_Y].includes(y)
}

const keyObjects = new Map()

function isSignedBy(pubkey, payload, signature) {
  if (!keyObjects.has(pubkey)) {
    keyObjects.set(
      pubkey,
      crypto.createPublicKey({ key: Buffer.concat([SPKI_ED25519, Buffer.from(pubkey, 'hex')]), format: 'der', type: 'spki' }),
    )
  }
  return crypto.verify(null, Buffer.from(payload, 'utf8'), keyObjects.get(pubkey), Buffer.from(signature, 'base64'))
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const isWhole = (value) => Number.isSafeInteger(value) && value >= 0
const isHexHash = (value) => typeof value === 'string' && HEX_HASH.test(value)
const isSignature = (value) =>
  typeof value === 'string' && SIGNATURE_BASE64.test(value) && Buffer.from(value, 'base64').toString('base64') === value

/** For messages, in bounded length. JSON that was parsed may be nested deeper, or be longer, than can be written again. */
function show(value) {
  try {
    return JSON.stringify(value ?? null).slice(0, 80)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return 'something unprintable'
  }
}

// ——— what both a chain and a receipt need

/** Collects what was found: nothing is thrown away but the text of findings beyond the first thousand. */
class Findings {
  total = 0
  list = []

  add(reason, where, message) {
    this.total++
    if (this.list.length < MAX_FINDINGS_KEPT) this.list.push({ reason, where, message })
  }

  /** Runs a check and keeps what it refuses. */
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
}

/** Which keys are accepted: the pinned ones, else the remembered ones, else the first that is seen. */
class Keys {
  constructor(pinned, remembered) {
    this.pinned = pinned.length > 0
    this.remembered = !this.pinned && remembered.length > 0
    this.accepted = new Set(this.pinned ? pinned : remembered)
    this.seen = new Set()
    this.last = null
  }

  check(pubkey) {
    if (this.accepted.size === 0) this.accepted.add(pubkey)
    this.seen.add(pubkey)
    const isNews = pubkey !== this.last // a foreign key is one finding, not one for each seal that it signs
    this.last = pubkey
    if (this.accepted.has(pubkey) || !isNews) return
    if (this.pinned) throw new Refused('wrong_key', `signed with ${pubkey}, which is not a pinned key`)
    throw new Refused(
      'key_changed',
      `signed with ${pubkey}, not with ${[...this.accepted].join(' or ')}; if you know this key to be the service's, accept it: --pubkey for each key`,
    )
  }
}

function checkSignature(seal, payload, keys, findings, where) {
  if (seal.signed_at < seal.at) findings.add('signed_before_made', where, `signed at ${seal.signed_at}, before it was made at ${seal.at}`)
  findings.run(where, () => keys.check(seal.pubkey))
  if (isWeakKey(seal.pubkey)) findings.add('weak_key', where, `anyone can sign for the key ${seal.pubkey}`)
  else if (!isSignedBy(seal.pubkey, payload, seal.signature))
    findings.add('bad_signature', where, `the signature is not that of ${seal.pubkey} over this payload`)
}

/** What a seal says by itself: its range and count, and that the first begins the chain. */
function checkSealAlone(seal, findings, where) {
  if (seal.count < 1 || seal.count !== seal.to_id - seal.from_id + 1)
    findings.add('wrong_count', where, `count is ${seal.count} for the entries ${seal.from_id} to ${seal.to_id}`)
  if (seal.seq === 1 && seal.from_id !== 1) findings.add('range_gap', where, `the first seal begins at entry ${seal.from_id}, not 1`)
  if (seal.seq === 1 && seal.prev_root !== null) findings.add('wrong_prev_root', where, 'the first seal names a previous root')
  if (seal.seq > 1 && seal.prev_root === null) findings.add('wrong_prev_root', where, 'only the first seal has no previous root')
}

/** What a seal says about the one before it. */
function checkSealLink(previous, seal, findings, where) {
  if (seal.at < previous.at) findings.add('at_goes_back', where, `at ${seal.at} is before the ${previous.at} of seal ${previous.seq}`)
  if (seal.seq !== previous.seq + 1) return
  if (seal.from_id !== previous.to_id + 1)
    findings.add('range_gap', where, `begins at entry ${seal.from_id}, ${previous.to_id + 1} was due`)
  if (seal.prev_root !== null && seal.prev_root !== previous.root)
    findings.add('wrong_prev_root', where, `names ${seal.prev_root}, the root of seal ${previous.seq} is ${previous.root}`)
}

function checkEntry(entry) {
  const isWellFormed = isObject(entry) && isWhole(entry.id) && isWhole(entry.at) && typeof entry.kind === 'string' && isObject(entry.data)
  if (!isWellFormed) throw new Refused('malformed_entry', 'an entry is not {id, at, kind, data}')
}

// ——— the whole chain

/**
 * Walks the chain of a source once, in order; memory doesn't grow with the entries.
 *
 * @param source seals(): every seal from the first; entries(from): every entry from that id on; both async iterables
 * @param remembered what an earlier good run left: {seq, payload_hash, history, pubkeys}, or null
 */
async function verifyChain(source, { pinned, remembered, progress }) {
  const findings = new Findings()
  const keys = new Keys(pinned, remembered?.pubkeys ?? [])
  const reader = new EntryReader(source)
  const report = { seals: 0, signed: 0, unsigned_seqs: [], entries_sealed: 0, entries_waiting: 0, head: null }
  let history = ''
  let previous = null
  let seq = 0

  for await (const seal of source.seals()) {
    report.seals++
    const dueSeq = seq + 1
    seq = isWhole(seal?.seq) ? seal.seq : dueSeq
    const where = `seal ${seq}`
    let payload
    if (!findings.run(where, () => (payload = sealPayload(seal)))) {
      previous = null
      continue
    }
    if (seal.seq !== dueSeq) findings.add('seq_gap', where, `seal ${dueSeq} was due`)
    checkSealAlone(seal, findings, where)
    if (previous !== null) checkSealLink(previous, seal, findings, where)
    const payloadHash = sha256Hex(payload)
    history = sha256Hex(history + payloadHash)
    if (seal.signed) {
      report.signed++
      report.head = { seq: seal.seq, payload_hash: payloadHash, history }
      checkSignature(seal, payload, keys, findings, where)
    } else {
      report.unsigned_seqs.push(seal.seq)
    }
    checkRemembered(remembered, seal, payloadHash, history, findings, where)
    report.entries_sealed += await checkRoot(reader, seal, findings, where, progress)
    previous = seal
    progress?.(`seal ${seal.seq}, entry ${seal.to_id}`)
  }

  if (remembered !== null && seq < remembered.seq)
    findings.add('chain_shortened', 'chain', `ends at seal ${seq}, but seal ${remembered.seq} was seen before`)
  report.entries_waiting = await countWaiting(reader, previous, findings, progress)
  report.pubkeys = [...keys.seen]
  return { report, findings, keys }
}

/** Every payload up to the remembered head is in `history`, so that no rewritten seal hides behind an unchanged head. */
function checkRemembered(remembered, seal, payloadHash, history, findings, where) {
  if (remembered === null || seal.seq !== remembered.seq) return
  if (payloadHash !== remembered.payload_hash) findings.add('history_rewritten', where, 'has another payload than when it was seen before')
  else if (history !== remembered.history)
    findings.add('history_rewritten', where, 'is as it was, but a seal before it has another payload than when it was seen')
  if (!seal.signed) findings.add('signature_withdrawn', where, 'was signed when it was seen before')
}

async function checkRoot(reader, seal, findings, where, progress) {
  const tree = new GrowingTree()
  for (let id = seal.from_id; id <= seal.to_id; id++) {
    const entry = await reader.take(id)
    if (entry === undefined) {
      findings.add('entry_gap', where, `entry ${id} is missing from the ledger`)
      return tree.count
    }
    const isGood = findings.run(`entry ${id}`, () => {
      checkEntry(entry)
      if (entry.id !== id) throw new Refused('entry_gap', `the ledger gives entry ${entry.id} in its place`)
      addEntry(tree, entry)
    })
    if (!isGood) {
      reader.forget()
      return tree.count
    }
    if (tree.count % 10_000 === 0) progress?.(`${where}, entry ${id}`)
  }
  if (tree.count > 0 && tree.root() !== seal.root)
    findings.add('wrong_root', where, `its entries ${seal.from_id} to ${seal.to_id} have the root ${tree.root()}, not ${seal.root}`)
  return tree.count
}

function addEntry(tree, entry) {
  try {
    tree.add(leafHash(entry))
  } catch (error) {
    throw error instanceof Refused ? new Refused('malformed_entry', error.message) : error
  }
}

async function countWaiting(reader, lastSeal, findings, progress) {
  let count = 0
  let due = lastSeal === null ? 1 : lastSeal.to_id + 1
  for (let entry = await reader.take(due); entry !== undefined; entry = await reader.take(due)) {
    const isGood = findings.run(`entry ${due}`, () => {
      checkEntry(entry)
      if (entry.id !== due) throw new Refused('entry_gap', `the ledger gives entry ${entry.id} in its place`)
    })
    if (!isGood) break
    count++
    due++
    if (count % 10_000 === 0) progress?.(`unsealed entry ${due}`)
  }
  return count
}

/** Hands out entries by number from a source that is read forward; starts a new reading only where the numbers jump. */
class EntryReader {
  #source
  #iterator = null
  #due = null

  constructor(source) {
    this.#source = source
  }

  async take(id) {
    if (this.#iterator === null || this.#due !== id) this.#iterator = this.#source.entries(id)[Symbol.asyncIterator]()
    const { value, done } = await this.#iterator.next()
    this.#due = id + 1
    if (!done) return value
    this.forget()
    return undefined
  }

  forget() {
    this.#iterator = null
  }
}

// ——— sources: a service, a dump

function serviceSource(base, save) {
  return {
    async *seals() {
      for (let after = 0; ;) {
        const { seals } = await getList(`${base}/seal?after_seq=${after}&limit=${SEALS_PER_PAGE}`, 'seals')
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
        const { entries } = await getList(`${base}/api/v1/ledger?from_id=${next}&limit=${ENTRIES_PER_PAGE}`, 'entries')
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

async function getList(url, name) {
  const answer = await getJson(url)
  if (!isObject(answer) || !Array.isArray(answer[name])) throw new Unchecked('unreachable', `${url} does not answer with a list of ${name}`)
  return answer
}

async function getJson(url) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await getJsonOnce(url)
    } catch (error) {
      const pause = RETRY_PAUSES_MS[attempt]
      if (error instanceof Unchecked || pause === undefined)
        throw error instanceof Unchecked ? error : new Unchecked('unreachable', `${url}: ${error.cause?.message || error.message}`)
      await sleep(pause)
    }
  }
}

/** Throws Unchecked for an answer that asking again won't change, any other error where it may. */
async function getJsonOnce(url) {
  const response = await fetch(url, { headers: { accept: 'application/json' }, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
  if (response.status >= 500 || response.status === 429) throw new Error(`answered ${response.status}`)
  if (!response.ok) throw new Unchecked('unreachable', `${url} answered ${response.status}`)
  const parts = []
  let bytes = 0
  for await (const part of response.body) {
    bytes += part.length
    if (bytes > MAX_ANSWER_BYTES) throw new Unchecked('unreachable', `${url} answers with more than ${MAX_ANSWER_BYTES} bytes`)
    parts.push(part)
  }
  try {
    return parseJson(Buffer.concat(parts))
  } catch (error) {
    throw new Unchecked('unreachable', `${url} does not answer in JSON: ${error.message}`)
  }
}

function parseJson(bytes) {
  return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
}

/** A dump as --save writes it is read line by line; any other JSON of that shape is read as a whole. */
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
      if (line === DUMP_HEAD) part = 'entries'
      else if (line === DUMP_MIDDLE) part = 'seals'
      else if (line === ']}') return
      else if (part === wanted) yield parseFile(file, () => JSON.parse(line.endsWith(',') ? line.slice(0, -1) : line))
      if (part === 'seals' && wanted === 'entries') return
    }
    throw new Unchecked('usage', `${file} ends in the middle`)
  }
  return listSource(
    () => list('seals'),
    () => list('entries'),
  )
}

/** Lines end in LF alone: node:readline would also cut at U+2028, which canonical JSON leaves as it is. */
async function* readLines(file) {
  let rest = ''
  for await (const part of createReadStream(file, 'utf8')) {
    const lines = (rest + part).split('\n')
    rest = lines.pop()
    yield* lines
  }
}

function listSource(seals, entries) {
  return {
    seals,
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
  const bytes = await fromFile(() => readFile(file))
  return parseFile(file, () => parseJson(bytes))
}

function parseFile(file, parse) {
  try {
    return parse()
  } catch (error) {
    throw new Unchecked('usage', `${file} is not JSON: ${error.message}`)
  }
}

/** Writes what passes through as a dump; seals are held back until the entries are complete. */
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

function dumpLine(value) {
  try {
    return canonicalJson(value)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
  }
  // It is refused where it is checked, and kept as evidence, where it can be written again.
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (error instanceof RangeError) return 'null'
    throw error
  }
}

// ——— a receipt

function verifyReceipt(receipt, pinned) {
  const findings = new Findings()
  const keys = new Keys(pinned, [])
  const report = { id: null, entries_sealed: 0, entries_waiting: 0, unsigned_seqs: [], openings: 0 }
  const isReceipt = findings.run('receipt', () => {
    if (!isObject(receipt) || typeof receipt.id !== 'string' || receipt.id === '')
      throw new Refused('malformed_receipt', 'it names no record')
    if (!Array.isArray(receipt.entries) || receipt.entries.length === 0) throw new Refused('malformed_receipt', 'it has no entries')
    if (!receipt.entries.every((item) => isObject(item) && typeof item.sealed === 'boolean'))
      throw new Refused('malformed_receipt', 'an entry does not say whether it is sealed')
    if (receipt.sealed !== receipt.entries.every((item) => item.sealed))
      throw new Refused('malformed_receipt', 'sealed does not say whether all its entries are')
    if (receipt.openings !== undefined && !Array.isArray(receipt.openings)) throw new Refused('malformed_receipt', 'openings is not a list')
  })
  if (!isReceipt) return { report, findings, keys }

  report.id = receipt.id
  const seals = new Map()
  const entries = new Map()
  let lastId = 0
  for (const item of receipt.entries) {
    const where = `entry ${show(item.entry?.id)}`
    const isEntry = findings.run(where, () => {
      checkEntry(item.entry)
      if (item.entry.id <= lastId) throw new Refused('malformed_receipt', 'the entries are not in ascending order')
      if (!isOfRecord(item.entry, receipt.id)) throw new Refused('wrong_record', `is no entry of ${show(receipt.id)}`)
    })
    if (!isEntry) continue
    lastId = item.entry.id
    entries.set(lastId, item.entry)
    if (item.sealed) checkSealedItem(item, seals, keys, findings, report)
    else report.entries_waiting++
  }
  if (entries.size === receipt.entries.length) findings.run('receipt', () => checkMaking(receipt.id, entries))
  checkReceiptSeals(seals, findings)
  for (const opening of receipt.openings ?? []) {
    if (findings.run(`opening of entry ${show(opening?.entry_id)}`, () => checkOpening(opening, entries))) report.openings++
  }
  report.pubkeys = [...keys.seen]
  return { report, findings, keys }
}

function checkSealedItem(item, seals, keys, findings, report) {
  const { entry, leaf, index, path, seal, seq } = item
  const where = `entry ${entry.id}`
  let payload
  const isGood = findings.run(where, () => {
    payload = sealPayload(seal)
    if (seq !== seal.seq) throw new Refused('malformed_receipt', `stands under seal ${show(seq)} and brings seal ${seal.seq}`)
    checkLeaf(entry, leaf)
    if (isWhole(index) && seal.from_id + index !== entry.id)
      throw new Refused('wrong_index', `index ${index} of seal ${seal.seq} is entry ${seal.from_id + index}`)
    checkInclusion({ leaf, path, root: seal.root, index, count: seal.count })
  })
  if (payload === undefined) return
  if (isGood) report.entries_sealed++
  const known = seals.get(seal.seq)
  if (known !== undefined) {
    if (known.payload !== payload) findings.add('conflicting_seals', where, `brings another seal ${seal.seq} than an entry before it`)
    if (known.payload === payload && known.seal.signature === seal.signature && known.seal.pubkey === seal.pubkey) return
  }
  seals.set(seal.seq, { seal, payload })
  checkSealAlone(seal, findings, `seal ${seal.seq}`)
  if (seal.signed) checkSignature(seal, payload, keys, findings, `seal ${seal.seq}`)
  else report.unsigned_seqs.push(seal.seq)
}

function checkLeaf(entry, leaf) {
  let own
  try {
    own = leafHash(entry)
  } catch (error) {
    throw error instanceof Refused ? new Refused('malformed_entry', error.message) : error
  }
  if (leaf !== own) throw new Refused('wrong_leaf', `the entry's leaf is ${own}, not ${show(leaf)}`)
}

function checkReceiptSeals(seals, findings) {
  const inOrder = [...seals.values()].map(({ seal }) => seal).sort((a, b) => a.seq - b.seq)
  for (const [position, seal] of inOrder.entries()) {
    if (position === 0) continue
    const previous = inOrder[position - 1]
    checkSealLink(previous, seal, findings, `seal ${seal.seq}`)
    if (seal.seq > previous.seq + 1 && seal.from_id <= previous.to_id)
      findings.add('range_gap', `seal ${seal.seq}`, `begins at entry ${seal.from_id}, seal ${previous.seq} ends at ${previous.to_id}`)
  }
}

function checkOpening(opening, entries) {
  const wrong = (sentence) => new Refused('wrong_opening', sentence)
  if (!isObject(opening) || typeof opening.field !== 'string' || !isHexHash(opening.salt) || !('content' in opening))
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
  if (sha256Hex(Buffer.concat([Buffer.from(opening.salt, 'hex'), Buffer.from(content, 'utf8')])) !== commitment)
    throw wrong(`salt and content do not give the commitment in ${show(opening.field)}`)
}

/**
 * By the prefix of a record's id: the kind of entry that makes such a record, and, for each kind that may stand under it,
 * the fields of `data` of which the first that is there is the record's id. The ids of other records may stand in the same
 * data, so that one that stands anywhere says little.
 */
const RECORD_KINDS = new Map(
  Object.entries({
    agt: {
      madeBy: 'registration',
      registration: ['agent_id'],
      token_rotation: ['agent_id'],
      dm_key_change: ['agent_id'],
      pass_credit: ['claim_id', 'payment_id', 'invoice_id', 'order_id', 'agent_id'], // else it is that record's
      ban: ['agent_id'],
      unban: ['agent_id'],
    },
    pst: { madeBy: 'post', post: ['post_id'], hide: ['post_id'], unhide: ['post_id'] },
    clm: { madeBy: 'claim', claim: ['claim_id'], proposal_accepted: ['claim_id'], pass_credit: ['claim_id'] },
    vrd: { madeBy: 'verdict', verdict: ['verdict_id'] },
    ann: { madeBy: 'announcement', announcement: ['announcement_id'] },
    ofr: { madeBy: 'offer', offer: ['offer_id'], offer_closed: ['offer_id'] },
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
    rcn: { madeBy: 'reconcile', reconcile: ['reconciliation_id'] },
    seal: { solvency: ['seal'], seal_adoption: ['seal'] },
  }).map(([prefix, { madeBy, ...kinds }]) => [prefix, { madeBy, kinds: new Map(Object.entries(kinds)) }]),
)

const kindsOf = (id) => RECORD_KINDS.get(id.split('_', 1)[0])

/** A prefix or a kind that is not in the table, since it is newer: then the id must be some string in the data. */
function isOfRecord({ kind, data }, id) {
  const fields = kindsOf(id)?.kinds.get(kind)
  if (fields === undefined) return names(data, id)
  const field = fields.find((name) => Object.hasOwn(data, name))
  return field !== undefined && data[field] === id
}

/** A record that was never made must not be proven by what others say of it. */
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

/** Runs one vector by its `kind`; its `reason` isn't looked at. */
async function verifyVector(vector) {
  if (!isObject(vector)) throw new Unchecked('usage', 'a vector is not an object')
  if (vector.kind === 'seal') {
    if (!Array.isArray(vector.seals) || !Array.isArray(vector.entries))
      throw new Unchecked('usage', 'a vector of seals has seals and entries')
    const source = listSource(
      () => vector.seals,
      () => vector.entries,
    )
    return (await verifyChain(source, { pinned: vector.pubkeys ?? [], remembered: vector.remembered ?? null })).findings
  }
  if (vector.kind === 'receipt') return verifyReceipt(vector.receipt, vector.pubkeys ?? []).findings
  const check = VECTOR_CHECKS[vector.kind]
  if (check === undefined) throw new Unchecked('usage', `there is no kind of vector called ${show(vector.kind)}`)
  const findings = new Findings()
  findings.run(vector.kind, () => check(vector))
  return findings
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
    value = JSON.parse(json)
  } catch (error) {
    throw new Refused('malformed_json', error.message)
  }
  const own = canonicalJson(value)
  if (own !== canonical) throw new Refused('wrong_canonical_form', `it is ${own}, not ${canonical}`)
  if (sha256 !== undefined && sha256Hex(own) !== sha256)
    throw new Refused('wrong_canonical_form', `its SHA-256 is ${sha256Hex(own)}, not ${sha256}`)
}

// ——— the state file: {BASE_URL: {seq, payload_hash, history, pubkeys, checked_at}}

async function readState(file) {
  let text
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return {}
    throw new Unchecked('usage', `the state file ${file} can't be read: ${error.message}`)
  }
  const state = parseFile(`the state file ${file}`, () => JSON.parse(text))
  const isHead = (head) =>
    isObject(head) &&
    isWhole(head.seq) &&
    isHexHash(head.payload_hash) &&
    isHexHash(head.history) &&
    Array.isArray(head.pubkeys) &&
    head.pubkeys.every(isHexHash)
  if (!isObject(state) || !Object.values(state).every(isHead))
    throw new Unchecked('usage', `the state file ${file} is not one of this program's: move it away to begin anew`)
  return state
}

/** Written beside the old one and renamed, so that a crash leaves one of the two whole. */
async function writeState(file, state) {
  const fresh = `${file}.${process.pid}.new`
  try {
    await writeFile(fresh, JSON.stringify(state, null, 2) + '\n')
    await rename(fresh, file)
  } catch (error) {
    await rm(fresh, { force: true })
    throw new Unchecked('usage', `the state file ${file} can't be written: ${error.message}`)
  }
}

// ——— the command

async function main(args) {
  const { target, options } = readArguments(args)
  if (options.vector !== undefined) return reportVectors(options.vector)
  if (/^https?:/i.test(target)) return checkService(normalizeBase(target), options)
  return checkFile(target, options)
}

function readArguments(args) {
  let parsed
  try {
    parsed = parseArgs({
      args,
      allowPositionals: true,
      options: {
        pubkey: { type: 'string', multiple: true },
        state: { type: 'string' },
        save: { type: 'string' },
        vector: { type: 'string', multiple: true },
        json: { type: 'boolean' },
      },
    })
  } catch (error) {
    throw new Unchecked('usage', error.message)
  }
  const { positionals } = parsed
  const options = { pubkey: [], state: '.seal-verify.json', ...parsed.values }
  if (options.vector === undefined ? positionals.length !== 1 : positionals.length !== 0) throw new Unchecked('usage', USAGE)
  for (const key of options.pubkey)
    if (!isHexHash(key)) throw new Unchecked('usage', `--pubkey takes 64 lower-case hex characters, not ${show(key)}`)
  return { target: positionals[0], options }
}

/** `https://Host:443/` and `https://host/api/v1` are one service, remembered once. */
function normalizeBase(target) {
  let url
  try {
    url = new URL(target)
  } catch {
    throw new Unchecked('usage', `${target} is not an address`)
  }
  return (url.origin + url.pathname).replace(/\/+$/, '').replace(/\/api\/v1$/, '')
}

async function checkService(base, options) {
  const state = await readState(options.state)
  const remembered = state[base] ?? null
  const save = options.save === undefined ? undefined : await fromFile(() => openSave(options.save))
  let result
  try {
    result = await verifyChain(serviceSource(base, save), { pinned: options.pubkey, remembered, progress: progressOnStderr() })
  } finally {
    await save?.close()
  }
  const { report, findings, keys } = result
  if (findings.total === 0 && report.head !== null) {
    state[base] = { ...report.head, pubkeys: report.pubkeys, checked_at: Math.floor(Date.now() / 1000) }
    await writeState(options.state, state)
  }
  return outcome({ kind: 'chain', target: base, ...report, remembered_seq: remembered?.seq ?? null, ...trust(keys) }, findings)
}

async function checkFile(file, options) {
  const lines = await fromFile(() => dumpSource(file))
  const content = lines === null ? await readJsonFile(file) : null
  if (isObject(content) && !Array.isArray(content.seals) && Array.isArray(content.entries)) {
    const { report, findings, keys } = verifyReceipt(content, options.pubkey)
    return outcome({ kind: 'receipt', target: file, ...report, ...trust(keys) }, findings)
  }
  if (lines === null && !(isObject(content) && Array.isArray(content.seals) && Array.isArray(content.entries)))
    throw new Unchecked('usage', `${file} is neither a dump {entries, seals} nor a receipt`)
  const source =
    lines ??
    listSource(
      () => content.seals,
      () => content.entries,
    )
  const { report, findings, keys } = await verifyChain(source, { pinned: options.pubkey, remembered: null, progress: progressOnStderr() })
  return outcome({ kind: 'chain', target: file, ...report, remembered_seq: null, ...trust(keys) }, findings)
}

/** A file that can't be read is a wrong argument. */
async function fromFile(read) {
  try {
    return await read()
  } catch (error) {
    throw error instanceof Unchecked ? error : new Unchecked('usage', error.message)
  }
}

const trust = (keys) => ({ key_trust: keys.pinned ? 'pinned' : keys.remembered ? 'remembered' : 'first_seen' })

function outcome(report, findings) {
  return { ok: findings.total === 0, ...report, findings: findings.list, findings_total: findings.total }
}

async function reportVectors(files) {
  const results = []
  for (const file of files) {
    const findings = await verifyVector(await readJsonFile(file))
    results.push({ file, ok: findings.total === 0, findings: findings.list })
  }
  return { ok: results.every(({ ok }) => ok), kind: 'vectors', results }
}

function progressOnStderr() {
  let next = Date.now() + PROGRESS_EVERY_MS
  return (text) => {
    if (Date.now() < next) return
    next = Date.now() + PROGRESS_EVERY_MS
    process.stderr.write(`... ${text}\n`)
  }
}

function toLines(result) {
  if (result.kind === 'vectors')
    return result.results.map(
      ({ file, ok, findings }) =>
        `${file}: ${ok ? 'accepted' : `refused ${findings.map(({ reason, message }) => `${reason}: ${message}`).join('; ')}`}`,
    )
  const lines = result.findings.map(({ reason, where, message }) => `${reason} at ${where}: ${message}`)
  if (result.findings_total > result.findings.length) lines.push(`and ${result.findings_total - result.findings.length} more findings`)
  if (result.kind === 'chain') lines.push(`seals: ${result.seals}, of which signed: ${result.signed}`)
  if (result.kind === 'receipt') lines.push(`record: ${show(result.id)}`, `openings checked: ${result.openings}`)
  if (result.unsigned_seqs.length > 0) lines.push(`not signed yet, so not binding: seal ${result.unsigned_seqs.join(' ')}`)
  lines.push(`entries under a seal: ${result.entries_sealed}, waiting for one: ${result.entries_waiting}`)
  for (const key of result.pubkeys ?? []) lines.push(`key: ${key} (${KEY_TRUST[result.key_trust]})`)
  if (result.head) lines.push(`head: seal ${result.head.seq}, payload hash ${result.head.payload_hash}`)
  if (result.kind === 'chain' && result.remembered_seq !== null && result.ok)
    lines.push(`nothing up to seal ${result.remembered_seq} has changed since the last check`)
  return [...lines, verdictLine(result)]
}

const KEY_TRUST = {
  pinned: 'pinned',
  remembered: 'the one remembered',
  first_seen: 'taken from what was checked: compare it with a source you trust and pin it with --pubkey',
}

function verdictLine(result) {
  if (!result.ok) return `BAD: ${result.findings_total} finding${result.findings_total === 1 ? '' : 's'}`
  if (result.kind === 'receipt')
    return result.entries_waiting > 0 ? 'GOOD so far: not every entry is under a seal yet' : 'GOOD: every entry is under its seal'
  return result.seals === 0 ? 'GOOD: there are no seals yet' : 'GOOD: the whole chain holds'
}

const asJson = process.argv.includes('--json')
try {
  const result = await main(process.argv.slice(2))
  process.stdout.write((asJson ? JSON.stringify(result) : toLines(result).join('\n')) + '\n')
  process.exitCode = result.ok ? 0 : 1
} catch (error) {
  if (!(error instanceof Unchecked)) throw error
  if (asJson) process.stdout.write(JSON.stringify({ ok: false, error: error.word, message: error.message }) + '\n')
  else process.stderr.write(`${error.message}\n`)
  process.exitCode = 2
}
