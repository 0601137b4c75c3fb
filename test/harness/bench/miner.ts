import { createHash, hash } from 'node:crypto'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { createSHA256 } from 'hash-wasm'
import { createSearch } from '../../../client/miner/block-search.ts'
import { prepareNativeSearch } from '../../../client/miner/native-search.ts'
import { mineShares } from '../../../client/miner/miner.ts'
import type { MiningProgress } from '../../../client/work-bound.ts'
import { BLOCK_NONCES, drawHead } from '../../../client/miner/block.ts'
import { findShares } from '../../../shared/crypto/pow.ts'
import type { Solver } from '../../../shared/passes/solvers.ts'
import {
  compareInTurns,
  compareWith,
  measureInTurns,
  timeRate,
  type Contender,
  type Figure,
} from './figure.ts'

const PREFIX = '5f1d7a84c9e2b3061728394a5b6c7d8e'
const SHARE_BITS = 26
const SAMPLE_MS = 300
const TURN_MS = 25
const SAMPLE_SECONDS_OF_PROGRAMS = 1
const PREIMAGE_BYTES = 52
const NATIVE_BLOCKS = 400
const NONCES = Array.from(
  { length: 50_000 },
  (_, i) => `k3x9q0ab7c1${(i * 7919).toString(16).padStart(8, '0')}`,
)
/** Prepared, so that the references only hash. */
const PREIMAGES = NONCES.map((nonce) => Buffer.from(`${PREFIX}:${nonce}`).toString('latin1'))

const MINER = 'this miner, one thread'
const PLAIN_HASH = "crypto.hash('sha256', s, 'hex')"
const CREATE_HASH = "crypto.createHash('sha256')"
const HASH_WASM = 'hash-wasm'
const OPENSSL = 'OpenSSL'
const PYTHON = "Python's hashlib"

/** Measures the hash rate of every solver that this machine has, on one core. Takes about 10 seconds. */
export async function measureSolvers(): Promise<Solver[]> {
  const hasher = await createSHA256()
  const contenders: Contender[] = [
    { name: MINER, sample: sampleMiner() },
    { name: PLAIN_HASH, sample: sampleLoop((text) => hash('sha256', text, 'hex')) },
    { name: CREATE_HASH, sample: sampleLoop((text) => createHash('sha256').update(text).digest('hex')) },
    { name: HASH_WASM, sample: sampleLoop((text) => hasher.init().update(text).digest('hex')) },
  ]
  if (await hasProgram('openssl', 'version')) contenders.push({ name: OPENSSL, sample: sampleOpenssl })
  if (await hasProgram('python3', '--version')) contenders.push({ name: PYTHON, sample: samplePython })
  const rates = await measureInTurns(contenders, 3)
  return Array.from(rates, ([name, hashesPerSecond]) => ({ name, hashesPerSecond }))
}

/** Compares the miner with every other solver, the native search with the miner, and all cores with one. */
export async function benchMiner(): Promise<Figure[]> {
  const solvers = await measureSolvers()
  const miner = solvers.find(({ name }) => name === MINER)
  if (miner === undefined) throw new Error('the miner was not measured')
  const figures = solvers
    .filter((solver) => solver !== miner)
    .map(({ name, hashesPerSecond }) =>
      compareWith(
        { name, value: hashesPerSecond },
        {
          name: MINER,
          value: miner.hashesPerSecond,
          unit: 'hashes/s',
          better: 'higher',
          ...(name === PLAIN_HASH ? { goal: 5 } : {}),
        },
      ),
    )
  figures.push(...(await benchNativeSearch()))
  const allCores = await measureAllCores()
  const beside = { name: MINER, value: miner.hashesPerSecond }
  figures.push(
    compareWith(beside, {
      name: 'this miner, all cores',
      value: allCores,
      unit: 'hashes/s',
      better: 'higher',
    }),
  )
  return figures
}

/** Compares the native search with WebAssembly, one thread each; empty if this machine can't compile it. */
async function benchNativeSearch(): Promise<Figure[]> {
  const search = await prepareNativeSearch()
  if ('missing' in search) {
    console.error(`miner: no native search here: ${search.missing}`)
    return []
  }
  const sampleNative = async (): Promise<number> => {
    const begun = performance.now()
    await runProgram(search.program, [PREFIX, drawHead(), String(SHARE_BITS), String(NATIVE_BLOCKS)])
    return (NATIVE_BLOCKS * BLOCK_NONCES * 1000) / (performance.now() - begun)
  }
  return [
    await compareInTurns(
      9,
      { name: MINER, sample: sampleMiner() },
      {
        name: 'the native search, one thread',
        unit: 'hashes/s',
        better: 'higher',
        goal: 4,
        sample: sampleNative,
      },
    ),
  ]
}

/**
 * Compares the service's verifier of shares with a loop of bare hashes over the same nonces, in nonces a
 * second.
 */
export async function benchFindShares(): Promise<Figure[]> {
  const head = `${PREFIX}:`
  let length = 0
  const figure = await compareInTurns(
    40,
    {
      name: 'bare crypto.hash loop',
      sample: () =>
        timeRate(() => {
          for (const nonce of NONCES) length += hash('sha256', head + nonce, 'hex').length
          return NONCES.length
        }, TURN_MS),
    },
    {
      name: 'findShares',
      unit: 'nonces/s',
      better: 'higher',
      goal: 0.8,
      sample: () =>
        timeRate(() => {
          length += findShares(PREFIX, NONCES, SHARE_BITS).length
          return NONCES.length
        }, TURN_MS),
    },
  )
  if (length === 0) throw new Error('nothing was hashed')
  return [figure]
}

/** A contender's sample: hashes per second of this miner on the calling thread. */
function sampleMiner(): () => number {
  const searchBlock = createSearch()
  return () =>
    timeRate(() => {
      searchBlock(PREFIX, drawHead(), SHARE_BITS)
      return BLOCK_NONCES
    }, SAMPLE_MS)
}

/** A contender's sample: hashes per second of a loop that looks for a leading zero with `hashText`. */
function sampleLoop(hashText: (text: string) => string): () => number {
  return () =>
    timeRate(() => {
      let weak = 0
      for (const text of PREIMAGES) if (hashText(text).charCodeAt(0) !== 48) weak++
      if (weak === 0) throw new Error('nothing was hashed')
      return PREIMAGES.length
    }, SAMPLE_MS)
}

const runProgram = promisify(execFile)

/** Whether this machine has a program that runs with this argument. */
async function hasProgram(program: string, argument: string): Promise<boolean> {
  try {
    await runProgram(program, [argument])
    return true
  } catch {
    return false // absent or not runnable: its figure is left out
  }
}

/** Measures OpenSSL's hash function alone, in hashes per second: an upper bound for solvers that use it. */
async function sampleOpenssl(): Promise<number> {
  const seconds = String(SAMPLE_SECONDS_OF_PROGRAMS)
  // -elapsed, since it would measure processor time otherwise.
  const options = ['-elapsed', '-mr', '-seconds', seconds, '-bytes', String(PREIMAGE_BYTES)]
  const { stdout } = await runProgram('openssl', ['speed', ...options, 'sha256'])
  const bytesPerSecond = Number(/^\+F:\d+:sha256:([\d.]+)/m.exec(stdout)?.[1])
  if (!(bytesPerSecond > 0)) throw new Error(`openssl speed answered in an unknown form: ${stdout}`)
  return bytesPerSecond / PREIMAGE_BYTES
}

/** Measures a plain solver in Python, in hashes per second. */
async function samplePython(): Promise<number> {
  const { stdout } = await runProgram('python3', [
    '-c',
    PYTHON_SOLVER,
    PREFIX,
    String(SAMPLE_SECONDS_OF_PROGRAMS),
  ])
  const rate = Number(stdout)
  if (!(rate > 0)) throw new Error(`python3 answered ${JSON.stringify(stdout)}`)
  return rate
}

/** What an agent would write without thinking about speed. */
const PYTHON_SOLVER = `
import hashlib, sys, time
prefix, seconds = sys.argv[1], float(sys.argv[2])
nonce, zeros, start = 0, "0" * 6, time.perf_counter()
while time.perf_counter() - start < seconds:
    for _ in range(10000):
        if hashlib.sha256(f"{prefix}:{nonce}".encode()).hexdigest().startswith(zeros): pass
        nonce += 1
print(nonce / (time.perf_counter() - start))
`

/** Measures this miner's hashes per second on all cores, between its first and fourth report of progress. */
async function measureAllCores(): Promise<number> {
  const stopper = new AbortController()
  const reports: { atMs: number; hashes: number }[] = []
  const onProgress = ({ hashes }: MiningProgress): void => {
    reports.push({ atMs: performance.now(), hashes })
    if (reports.length === 4) stopper.abort()
  }
  await mineShares({
    prefix: PREFIX,
    difficultyBits: 256,
    count: 1,
    signal: stopper.signal,
    onProgress,
  }).catch((error: unknown) => {
    if (!stopper.signal.aborted) throw error
  })
  const [first, , , last] = reports
  if (first === undefined || last === undefined) throw new Error('the miner ended before it was measured')
  return ((last.hashes - first.hashes) / (last.atMs - first.atMs)) * 1000
}
