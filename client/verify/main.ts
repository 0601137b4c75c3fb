import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import {
  checkEvidence,
  checkFile,
  checkNote,
  checkService,
  verify,
  type ReceiptOptions,
  type ServiceOptions,
} from './check.ts'
import { readJsonFile, readText } from './files.ts'
import { Unchecked } from './findings.ts'
import { describe, describeAsJson, EXIT_CODES } from './report.ts'
import { isHexHash, show } from './values.ts'
import type { SealTrust, Verification } from './verification.ts'

/*
 * The command, of which client/seal-verify.mjs is the bundle.
 */

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

const one = { type: 'string' } as const
const many = { type: 'string', multiple: true } as const
const flag = { type: 'boolean' } as const
const OPTIONS = {
  ...{ pubkey: many, policy: one, state: one, service: one, consistency: one, note: one, evidence: one },
  ...{ full: flag, json: flag },
  ...{ 'max-age': one, 'max-seals': one, 'max-entries': one, timeout: one, deadline: one },
} satisfies ParseArgsOptionsConfig

interface Arguments {
  target: string
  kind: 'evidence' | 'note' | 'service' | 'file'
  reader: SealTrust
  options: ServiceOptions & ReceiptOptions
}

/** @throws Unchecked */
async function readArguments(args: readonly string[]): Promise<Arguments> {
  const { values, positionals } = parse(args)
  const [target, ...others] = [
    ...positionals,
    ...[values.evidence ?? []].flat(),
    ...[values.note ?? []].flat(),
  ]
  if (target === undefined || others.length > 0)
    throw new Unchecked('usage', 'one thing to check is needed', USAGE)
  const whole = (
    name: 'max-age' | 'max-seals' | 'max-entries' | 'timeout' | 'deadline',
    fallback?: number,
  ) => {
    const given = values[name]
    if (given !== undefined && !/^[0-9]{1,15}$/.test(given))
      throw new Unchecked('usage', `--${name} takes a whole number, not ${show(given)}`)
    return given === undefined ? fallback : Number(given)
  }
  const { pubkey: pubkeys = [], consistency } = values
  for (const key of pubkeys)
    if (!isHexHash(key))
      throw new Unchecked('usage', `--pubkey takes 64 lower-case hex characters, not ${show(key)}`)
  const kind = values.evidence !== undefined ? 'evidence' : values.note !== undefined ? 'note' : 'file'
  const isService = kind === 'file' && /^https?:/i.test(target)
  const answer: unknown = consistency === undefined ? undefined : await readJsonFile(consistency)
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
      maxSeals: whole('max-seals', 1_000_000) ?? Infinity,
      maxEntries: whole('max-entries', 100_000_000) ?? Infinity,
      timeoutMs: (whole('timeout', 30) ?? 30) * 1000,
      deadlineMs: (whole('deadline', 3_600) ?? 3_600) * 1000,
      service: values.service === undefined ? undefined : normalizeBase(values.service),
      consistency: consistency === undefined ? undefined : () => Promise.resolve(answer),
    },
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS })
  } catch (error) {
    throw new Unchecked('usage', (error as Error).message, USAGE)
  }
}

const BASE_URL = /^(https?):\/\/([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:\/[A-Za-z0-9._~-]+)*)\/*$/
const DEFAULT_PORTS: { readonly [scheme: string]: number } = { http: 80, https: 443 }

/** The one form of a service's URL: `https://Host:443/` and `https://host/api/v1` become `https://host`. */
function normalizeBase(target: string): string {
  // Scheme and host, up to the third slash, may be in capitals.
  const parts = target.split('/').map((part, place) => (place < 3 ? part.toLowerCase() : part))
  const [, scheme, host, port = '', route = ''] = BASE_URL.exec(parts.join('/')) ?? []
  if (scheme === undefined || /\/\.\.?(\/|$)/.test(route))
    throw new Unchecked('usage', `${target} is not the address of a service`)
  const place = port === '' || Number(port) === DEFAULT_PORTS[scheme] ? host : `${host}:${Number(port)}`
  return `${scheme}://${place}${route.replace(/\/api\/v1$/, '')}`
}

/** Checks what the arguments name. @throws Unchecked */
async function run(
  args: readonly string[],
  progress: ((line: string) => void) | undefined,
): Promise<Verification> {
  const { kind, target, reader, options } = await readArguments(args)
  if (kind === 'evidence') return checkEvidence(target, reader)
  if (kind === 'note') return checkNote(await readText(target), target, reader, options)
  if (kind === 'service') return checkService(target, reader, { ...options, progress })
  return checkFile(target, reader, { ...options, progress })
}

/** Runs the command with these arguments and prints nothing. It never rejects. */
export async function check(
  args: readonly string[],
  progress?: (line: string) => void,
): Promise<{ exitCode: 0 | 1 | 2 | 3; result: Verification; text: string; json: string }> {
  const result = await verify(() => run(args, progress))
  return {
    exitCode: EXIT_CODES[result.verdict],
    result,
    text: describe(result),
    json: describeAsJson(result),
  }
}

const PROGRESS_EVERY_MS = 2_000

function showOnStderr(): (line: string) => void {
  let next = Date.now() + PROGRESS_EVERY_MS
  return (line) => {
    if (Date.now() < next) return
    next = Date.now() + PROGRESS_EVERY_MS
    process.stderr.write(`... ${line}\n`)
  }
}

const program = process.argv[1]
if (program !== undefined && realpathSync(program) === fileURLToPath(import.meta.url)) {
  const args = process.argv.slice(2)
  const { exitCode, result, text, json } = await check(args, showOnStderr())
  const isJson = args.includes('--json')
  const stream = result.verdict === 'unchecked' && !isJson ? process.stderr : process.stdout
  stream.write(`${isJson ? json : text}\n`, () => process.exit(exitCode))
}
