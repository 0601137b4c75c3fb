import { execFile, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { foldPath, leafHash } from '../../../shared/crypto/merkle.ts'
import type { LedgerEntry, Receipt } from '../../../shared/crypto/receipt.ts'
import { SECOND_MS } from '../../../shared/platform/time.ts'
import { askAtRest } from '../world/at-rest.ts'
import { collectFindings, type Finding } from './finding.ts'
import type { Stored } from './stored.ts'

const ENTRIES_PER_PAGE = 10_000
/** How many receipts are read and checked here; a few of them are given to the verifiers as well. */
const RECEIPTS = 150
const RECEIPTS_VERIFIED = 2

interface Json {
  [name: string]: unknown
}

/**
 * Reads the whole published ledger page by page, as anyone can.
 *
 * @throws Error if a page is not answered with 200
 */
export async function readLedger(url: string): Promise<LedgerEntry[]> {
  const entries: LedgerEntry[] = []
  for (;;) {
    const page = (
      await getJson(`${url}/api/v1/ledger?from_id=${entries.length + 1}&limit=${ENTRIES_PER_PAGE}`)
    )['entries'] as LedgerEntry[]
    entries.push(...page)
    if (page.length < ENTRIES_PER_PAGE) return entries
  }
}

/** @throws Error if the answer is not 200 */
async function getJson(url: string): Promise<Json> {
  const response = await askAtRest(() => fetch(url))
  const json = (await response.json()) as Json
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}: ${JSON.stringify(json)}`)
  return json
}

/**
 * Checks that the published ledger equals the stored one, has no gap, and has exactly one entry for each
 * stored record.
 */
export function checkEntries(published: readonly LedgerEntry[], stored: Stored): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const [index, entry] of published.entries()) {
    if (entry.id !== index + 1)
      return [{ what: `the ledger has entry ${entry.id} where ${index + 1} should be`, words: [] }]
    const { source: _, ...storedEntry } = stored.entries[index] ?? { source: '' }
    if (leafHash(storedEntry) !== leafHash(entry))
      addFinding(`entry ${entry.id} is published in another form than it is stored`)
  }
  if (published.length !== stored.entries.length)
    addFinding(`${published.length} entries are published, and ${stored.entries.length} are stored`)
  const sources = Map.groupBy(stored.entries, ({ source }) => source)
  for (const [source, entries] of sources)
    if (entries.length > 1) addFinding(`${source} has ${entries.length} entries`, ...source.split('/'))
  const records: [string, readonly { _id: string }[]][] = [
    ['registration', stored.agents],
    ['post', stored.posts],
    ['claim', stored.claims],
    ['verdict', stored.verdicts],
  ]
  for (const [step, documents] of records) {
    const ids = new Set(documents.map(({ _id }) => _id))
    for (const id of ids)
      if (!sources.has(`${id}/${step}`)) addFinding(`${id} is stored and has no entry in the ledger`, id)
    for (const { kind, source } of stored.entries)
      if (kind === step && !ids.has(source.split('/')[0] ?? ''))
        addFinding(`the ledger has ${source}, and no such record is stored`, source.split('/')[0] ?? source)
  }
  return findings
}

/** A receipt as it was given out. */
export interface SeenReceipt {
  id: string
  status: number
  receipt: Receipt
}

/** What anyone can read of the ledger. */
export interface SeenLedger {
  entries: LedgerEntry[]
  receipts: SeenReceipt[]
  /** Whether the service itself says that the chain is intact. */
  isIntact: boolean
  /** What the verifiers object to in the chain and in the first receipts. */
  objections: string[]
}

/** Reads receipts of about RECEIPTS records from the whole run, and runs the verifiers on the chain and a few. */
export async function readProofs(
  url: string,
  stored: Stored,
  folder: string,
): Promise<Omit<SeenLedger, 'entries'>> {
  const ids = [
    ...stored.agents,
    ...stored.posts,
    ...stored.claims,
    ...stored.verdicts,
    ...stored.orders.filter(({ credited_days: days }) => days > 0),
  ].map(({ _id }) => _id)
  const step = Math.max(1, Math.floor(ids.length / RECEIPTS))
  const receipts: SeenReceipt[] = []
  const objections = await runVerifiers(url, stored, folder)
  for (const id of ids.filter((_, index) => index % step === 0)) {
    const answer = await askAtRest(() => fetch(`${url}/api/v1/receipt/${id}`))
    const receipt = (await answer.json()) as Receipt
    receipts.push({ id, status: answer.status, receipt })
    if (answer.status !== 200 || receipts.length > RECEIPTS_VERIFIED) continue
    const file = path.join(folder, 'receipt.json')
    fs.writeFileSync(file, JSON.stringify(receipt))
    objections.push(
      ...(await runVerifiers(file, stored, folder)).map((what) => `of the receipt of ${id} ${what}`),
    )
  }
  const isIntact = (await getJson(`${url}/seal?limit=1`))['chain_intact'] === true
  return { receipts, objections, isIntact }
}

/** Checks that each record's entries are under a seal, and that their paths lead to the seal's root. */
export function checkReceipts({ receipts }: SeenLedger): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const { id, status, receipt } of receipts) {
    if (status !== 200) addFinding(`there is no receipt of ${id}: ${status} ${JSON.stringify(receipt)}`, id)
    else
      for (const item of receipt.entries) {
        if (!item.sealed) addFinding(`entry ${item.entry.id} of ${id} stands under no seal`, id)
        else if (leafHash(item.entry) !== item.leaf || foldPath(item.leaf, item.path) !== item.seal.root)
          addFinding(`entry ${item.entry.id} of ${id} does not fold up to the root of seal ${item.seq}`, id)
      }
  }
  return findings
}

/** Checks that both verifiers and the service accept the chain, and the verifiers its receipts. */
export const checkVerifiers = ({ isIntact, objections }: SeenLedger): Finding[] =>
  [...(isIntact ? [] : ['the service itself says that the chain is not intact']), ...objections].map(
    (what) => ({ what, words: [] }),
  )

/** Checks that all seals are signed and cover all entries. */
export function checkSeals({ seals, entries }: Stored): Finding[] {
  const { findings, addFinding } = collectFindings()
  const unsigned = seals.filter(({ signed }) => !signed).map(({ seq }) => seq)
  if (unsigned.length > 0) addFinding(`seals ${unsigned.join(', ')} have no signature`)
  const last = seals.at(-1)?.to_id ?? 0
  if (last !== entries.length)
    addFinding(`the last seal ends at entry ${last}, and the ledger at ${entries.length}`)
  return findings
}

/** The verifiers' exit code for a correct chain whose last seal is not signed. */
const NOT_BINDING = 3
const SIGNATURE_LOOKS = 20

const NODE_VERIFIER = fileURLToPath(new URL('../../../client/seal-verify.mjs', import.meta.url))
const PYTHON_VERIFIER = fileURLToPath(new URL('../../../client/python/seal_verify.py', import.meta.url))

/** Whether there is a Python for the second verifier. */
const hasPython = (): boolean => spawnSync('python3', ['--version'], { stdio: 'ignore' }).status === 0

/**
 * Runs both verifiers on a service's URL or a receipt's file, with the keys of the stored seals.
 *
 * @returns what they object to, a sentence each
 */
async function runVerifiers(target: string, stored: Stored, folder: string): Promise<string[]> {
  const commands: [string, string][] = [
    [process.execPath, NODE_VERIFIER],
    ...(hasPython() ? [['python3', PYTHON_VERIFIER] as [string, string]] : []),
  ]
  const keys = [...new Set(stored.seals.flatMap(({ pubkey }) => pubkey ?? []))].flatMap((key) => [
    '--pubkey',
    key,
  ])
  const objections: string[] = []
  for (const [program, script] of commands) {
    // A receipt may be older than what was seen of the ledger, and nothing is at hand to compare the two.
    const kind = target.startsWith('http') ? 'service' : 'receipt'
    const state = path.join(folder, `${path.basename(script)}.${kind}.state`)
    // --max-age, because the last seal of a network at rest may be old.
    const verify = () =>
      runProgram(program, [script, target, '--state', state, '--max-age', '999999', ...keys], folder)
    let { code, output } = await verify()
    // A new seal gets its signature within seconds.
    for (let left = SIGNATURE_LOOKS; code === NOT_BINDING && left > 0; left--) {
      await sleep(SECOND_MS)
      ;({ code, output } = await verify())
    }
    if (code !== 0)
      objections.push(`${path.basename(script)} says (exit ${code}): ${output.trim().slice(-500)}`)
  }
  return objections
}

/**
 * Runs a program without blocking this process, in which the network's gates are. Exit code -1: it was
 * killed.
 */
function runProgram(
  program: string,
  args: readonly string[],
  cwd: string,
): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(program, [...args], { cwd, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      resolve({
        code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1,
        output: `${stdout}${stderr}`,
      })
    })
  })
}
