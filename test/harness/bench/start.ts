import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import mongoose from 'mongoose'
import { findFreePort, isPortAnswering } from '../../../scripts/embedded/ports.ts'
import { requireMongod } from '../../../scripts/embedded/programs.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { compareInTurns, compareWith, median, type Figure } from './figure.ts'
import { makePlace, runNpmStart, type Place } from './npm-start.ts'

const WARM_ROUNDS = 7
const COLD_ROUNDS = 2
const LIMIT_MS = 60_000

/**
 * Measures how long `npm start` takes to its first answer: with all in place beside mongod alone on the same
 * data, and on a fresh clone beside `npm ci` alone on another one. `WARM_ROUNDS` and `COLD_ROUNDS` say how
 * often each is done; 0 leaves the latter out.
 */
export async function benchStart(): Promise<Figure[]> {
  const warm = await benchWarm(Number(process.env['WARM_ROUNDS'] ?? WARM_ROUNDS))
  const rounds = Number(process.env['COLD_ROUNDS'] ?? COLD_ROUNDS)
  return rounds === 0 ? [warm] : [warm, await benchCold(rounds), ...(await benchInstall())]
}

/** What an operator without extras installs: MB on the disk, and packages. */
async function benchInstall(): Promise<Figure[]> {
  let [mb, packages] = [0, 0]
  await inClone((folder) => {
    const args = ['ci', '--omit=dev', '--omit=optional', '--no-audit', '--no-fund', '--loglevel=error']
    execFileSync('npm', args, {
      cwd: folder,
      env: { ...process.env, ...withoutPackages() },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    mb = Number(execFileSync('du', ['-sm', 'node_modules'], { cwd: folder, encoding: 'utf8' }).split('\t')[0])
    const installed = JSON.parse(
      fs.readFileSync(path.join(folder, 'node_modules', '.package-lock.json'), 'utf8'),
    ) as { packages: Record<string, unknown> }
    packages = Object.keys(installed.packages).length
  })
  const name = 'start: npm ci --omit=dev --omit=optional'
  return [
    compareWith(
      { name: 'limit', value: 120 },
      { name: `${name}, on the disk`, value: mb, unit: 'MB', better: 'lower', goal: 1 },
    ),
    compareWith(
      { name: 'limit', value: 110 },
      { name: `${name}, packages`, value: packages, unit: 'packages', better: 'lower', goal: 1 },
    ),
  ]
}

async function benchWarm(rounds: number): Promise<Figure> {
  const place = await makePlace()
  const copy = path.join(place.dataDir, 'mongo-alone')
  try {
    await timeStart(place) // makes the data
    fs.cpSync(path.join(place.dataDir, 'mongo'), copy, { recursive: true })
    return await compareInTurns(
      rounds,
      { name: 'mongod alone on the same data, to its own', sample: () => timeMongod(copy) },
      {
        name: 'start: warm npm start, to its first answer',
        sample: () => timeStart(place),
        unit: 'ms',
        better: 'lower',
        goal: 3,
      },
    )
  } finally {
    place.remove()
  }
}

/** @returns milliseconds to the API's first answer */
async function timeStart(place: Place, options: Parameters<typeof runNpmStart>[1] = {}): Promise<number> {
  const network = runNpmStart(place, options)
  try {
    return await network.firstAnswerMs
  } finally {
    await network.stop()
  }
}

/** @returns milliseconds from the start of a mongod to its answer to a ping */
async function timeMongod(dbPath: string): Promise<number> {
  const binary = requireMongod()
  const port = await findFreePort()
  const startedAt = performance.now()
  const child = spawn(
    binary,
    ['--dbpath', dbPath, '--port', String(port), '--bind_ip', '127.0.0.1', '--nounixsocket', '--quiet'],
    { stdio: 'ignore' },
  )
  const gone = new Promise((resolve) => child.once('exit', resolve))
  try {
    await waitFor('mongod', async () => ((await isPortAnswering(port)) ? true : undefined), {
      limitMs: LIMIT_MS,
      everyMs: 10,
    })
    const url = `mongodb://127.0.0.1:${port}/?directConnection=true`
    const client = await new mongoose.mongo.MongoClient(url).connect()
    await client.db('admin').command({ ping: 1 })
    const tookMs = performance.now() - startedAt
    await client.close()
    return tookMs
  } finally {
    child.kill('SIGTERM')
    await gone
  }
}

/**
 * Each round clones the project twice. Neither clone has packages, nor does the first start find a MongoDB or
 * a Redis; npm's and pip's own caches are as they are.
 */
async function benchCold(rounds: number): Promise<Figure> {
  const starts: number[] = []
  const installs: number[] = []
  for (let round = 0; round < rounds; round++) {
    await inClone(async (folder) => {
      const place = await makePlace()
      const env = { ...withoutPackages(), AGENT_NETWORK_CACHE: path.join(place.dataDir, 'cache') }
      try {
        starts.push((await timeStart(place, { folder, env })) / 1_000)
      } finally {
        place.remove()
      }
    })
    await inClone((folder) => {
      const startedAt = performance.now()
      execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
        cwd: folder,
        env: { ...process.env, ...withoutPackages() },
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      installs.push((performance.now() - startedAt) / 1_000)
    })
  }
  return compareWith(
    { name: 'npm ci alone', value: median(installs) },
    {
      name: 'start: cold npm start on a fresh clone, to its first answer',
      value: median(starts),
      unit: 's',
      better: 'lower',
      goal: 1.2,
    },
  )
}

/** A search path without this clone's own Node, as that of a person who runs npm. */
const withoutPackages = (): NodeJS.ProcessEnv => ({
  PATH: (process.env['PATH'] ?? '')
    .split(path.delimiter)
    .filter((folder) => !folder.includes(`${path.sep}node_modules${path.sep}`))
    .join(path.delimiter),
})

/** Copies what git tracks into a fresh folder, and removes it after the work. */
async function inClone(work: (folder: string) => Promise<void> | void): Promise<void> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-clone-'))
  try {
    const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8', maxBuffer: 2 ** 24 })
    for (const file of files.split('\0').filter((name) => name !== '' && fs.existsSync(name))) {
      fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
      fs.copyFileSync(file, path.join(folder, file))
    }
    await work(folder)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}
