import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const runningFile = z.object({ mongodbUrl: z.string(), redisUrl: z.string() })
export type RunningServers = z.output<typeof runningFile>

const fileIn = (dataDir: string): string => path.join(dataDir, 'running.json')

/** Notes where the servers of this start listen, for the operator's command; mode 600, because Redis's URL holds its password. */
export function noteRunning(dataDir: string, servers: RunningServers): void {
  const fresh = `${fileIn(dataDir)}.new`
  fs.rmSync(fresh, { force: true })
  fs.writeFileSync(fresh, `${JSON.stringify(servers)}\n`, { mode: 0o600 })
  fs.renameSync(fresh, fileIn(dataDir))
}

/** The servers of the last start in this folder, or undefined where there was none. They may have been stopped since. */
export function readRunning(dataDir: string): RunningServers | undefined {
  try {
    return runningFile.parse(JSON.parse(fs.readFileSync(fileIn(dataDir), 'utf8')))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
