import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../../scripts/embedded/ports.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { readTreeUsage } from './proc.ts'

const FIRST_ANSWER_LIMIT_MS = 10 * 60_000
const LOOK_EVERY_MS = 10

export interface StartedNetwork {
  /** npm's own process; all others descend from it. */
  npmPid: number
  /** Resolves with the milliseconds from the start to the first answer of the API. */
  firstAnswerMs: Promise<number>
  /** Stops the network, and resolves once all its processes are gone. */
  stop(): Promise<void>
}

/** The data folder and the ports of a network. */
export interface Place {
  dataDir: string
  port: number
  operatorPort: number
  remove(): void
}

export async function makePlace(): Promise<Place> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-start-'))
  const port = await findFreePort()
  return {
    dataDir,
    port,
    operatorPort: await findFreePort(),
    remove: () => fs.rmSync(dataDir, { recursive: true, force: true }),
  }
}

/**
 * Runs `npm start` as a person does.
 *
 * @param folder the clone in which it is run; this one if absent
 */
export function runNpmStart(
  { dataDir, port, operatorPort }: Place,
  { folder = process.cwd(), env = {} }: { folder?: string; env?: NodeJS.ProcessEnv } = {},
): StartedNetwork {
  const startedAt = performance.now()
  const npm = spawn('npm', ['start'], {
    cwd: folder,
    env: {
      ...process.env,
      ...env,
      DATA_DIR: dataDir,
      PORT: String(port),
      OPERATOR_PORT: String(operatorPort),
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  let ended: string | undefined
  const gone = new Promise<void>((resolve) => {
    npm.once('error', ({ message }) => {
      ended = message
      resolve()
    })
    npm.once('exit', (code) => {
      ended ??= `exit code ${code}`
      resolve()
    })
  })
  const npmPid = npm.pid ?? 0
  const firstAnswer = waitFor(
    'the first answer',
    async () => {
      if (ended !== undefined) throw new Error(`npm start ended: ${ended}`)
      const answer = await fetch(`http://127.0.0.1:${port}/api/v1/challenge`).catch(() => undefined)
      await answer?.body?.cancel()
      return answer?.status === 200 ? performance.now() - startedAt : undefined
    },
    { limitMs: FIRST_ANSWER_LIMIT_MS, everyMs: LOOK_EVERY_MS },
  )
  firstAnswer.catch(() => undefined) // told to whoever waits for it
  return {
    npmPid,
    firstAnswerMs: firstAnswer,
    async stop() {
      if (ended !== undefined) return
      const pids = readTreeUsage(npmPid).map(({ pid }) => pid)
      npm.kill('SIGTERM')
      await gone
      while (pids.some((pid) => fs.existsSync(`/proc/${pid}`))) await sleep(20)
    },
  }
}
