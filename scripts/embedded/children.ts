import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { replaceFile } from '../../shared/platform/durable-file.ts'
import { waitFor } from './wait.ts'

/**
 * Children must not outlive a start script that was killed and so could not stop them. Two things see to it.
 * A shell of a megabyte holds the other end of a pipe: when the pipe breaks it stops whoever is on its list,
 * the last started first. And the list is kept in the data folder, so that the next start stops whoever got
 * past a shell that was killed too.
 */
export interface ChildTracker {
  /** Puts a child on the list. */
  add(name: string, pid: number): void
  /** Takes a child that has ended off the list. */
  remove(pid: number): void
  /** Ends the shell; call it when every child is gone. */
  close(): void
}

const RECORD_NAME = 'children.json'
const LEFTOVER_LIMIT_MS = 20_000
const recordSchema = z.array(z.object({ name: z.string(), pid: z.int().positive(), identity: z.string() }))
type Child = z.output<typeof recordSchema>[number]

/** The program of the shell: it reads `add PID`, `remove PID` and `done` from its stdin. */
const WATCH = `
pids=
while read -r verb pid; do
  case $verb in
    add) pids="$pid $pids" ;;
    remove)
      kept=
      for other in $pids; do [ "$other" = "$pid" ] || kept="$kept $other"; done
      pids=$kept ;;
    done) exit 0 ;;
  esac
done
for pid in $pids; do
  kill -TERM "$pid" 2>/dev/null || continue
  turn=0
  while kill -0 "$pid" 2>/dev/null && [ "$turn" -lt 100 ]; do sleep 0.1; turn=$((turn + 1)); done
  kill -KILL "$pid" 2>/dev/null
done
[ -n "$THROW_AWAY" ] || exit 0
while read -r device place rest; do
  case $place in "$THROW_AWAY"/*) umount "$place" ;; esac
done </proc/mounts
rm -rf "$THROW_AWAY"
`

/**
 * Starts the watch over this process's children, see above.
 *
 * @param dataDir where the list is kept
 * @param isThrownAway whether the watch removes the folder too, with what is mounted in it, if this process is
 *   killed: what tests want
 */
export function trackChildren(
  dataDir: string,
  report: (line: string) => void,
  isThrownAway = false,
): ChildTracker {
  let children: Child[] = []
  let isClosed = false
  let isFailing = false
  /**
   * Stores the list. Doesn't throw: in a listener an error would end this process and every child with it.
   */
  const store = (): void => {
    try {
      writeRecord(dataDir, children)
      isFailing = false
    } catch (error) {
      if (!isFailing)
        report(
          `the list of child processes cannot be written (${(error as Error).message}); their watch alone stops them if this is killed`,
        )
      isFailing = true
    }
  }
  const shell = spawn('/bin/sh', ['-c', WATCH], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    env: { PATH: process.env.PATH, THROW_AWAY: isThrownAway ? dataDir : '' },
  })
  shell.on('error', (error) => report(`the watch over child processes could not start: ${error.message}`))
  shell.on('exit', () => {
    if (!isClosed)
      report('the watch over child processes ended; if this process is killed now, the next start stops them')
  })
  // The broken pipe of a shell that ended, which 'exit' has reported.
  shell.stdin.on('error', () => undefined)
  shell.unref()

  return {
    add(name, pid) {
      shell.stdin.write(`add ${pid}\n`)
      children = [...children, { name, pid, identity: identifyProcess(pid) ?? '' }]
      store()
    },
    remove(pid) {
      shell.stdin.write(`remove ${pid}\n`)
      children = children.filter((child) => child.pid !== pid)
      store()
    },
    close() {
      isClosed = true
      shell.stdin.end('done\n')
    },
  }
}

/**
 * Stops the children that an earlier start left running, the last started first: SIGTERM, and SIGKILL after
 * 20 s. Only the holder of the folder's lock may call it.
 *
 * @throws TimeoutError if one doesn't end
 */
export async function stopLeftovers(dataDir: string, report: (line: string) => void): Promise<void> {
  for (const child of readRecord(dataDir, report).reverse()) {
    const isRunning = () => identifyProcess(child.pid) === child.identity
    if (!isRunning()) continue
    report(`stopping ${child.name} (process ${child.pid}), left over from an earlier start`)
    signalProcess(child.pid, 'SIGTERM')
    const isGone = () => (isRunning() ? undefined : true)
    await waitFor(`the end of ${child.name}`, isGone, { limitMs: LEFTOVER_LIMIT_MS }).catch(async () => {
      signalProcess(child.pid, 'SIGKILL')
      await waitFor(`the end of ${child.name} (process ${child.pid}) after SIGKILL`, isGone, {
        limitMs: LEFTOVER_LIMIT_MS,
      })
    })
  }
  writeRecord(dataDir, [])
}

/**
 * Text that only this process has: when it started. A process id alone is given to another process one day.
 *
 * @returns undefined if no process with this id runs
 */
export function identifyProcess(pid: number): string | undefined {
  if (process.platform !== 'linux') {
    const listed = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' })
    return listed.status === 0 ? listed.stdout.trim() : undefined
  }
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    // After the name, which is in brackets and may hold anything: state is field 3, start time in ticks since
    // boot field 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined
    return `${fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}:${fields[19]}`
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Sends a signal to a process, or to a process group if the id is negative; does nothing if it is gone. */
export function signalProcess(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Reads the list of children that an earlier start stored. One that can't be read is reported and counts as
 * empty: the shell has stopped those on it, and a start must not fail because of it.
 */
function readRecord(dataDir: string, report: (line: string) => void): Child[] {
  const file = path.join(dataDir, RECORD_NAME)
  try {
    return recordSchema.parse(JSON.parse(fs.readFileSync(file, 'utf8')))
  } catch (error) {
    if (!isMissing(error))
      report(`${file} cannot be read; whatever an earlier start left running is not stopped`)
    return []
  }
}

/** Replaces the list as a whole: if this is cut off in the middle, the old list or the new one is there. */
function writeRecord(dataDir: string, children: readonly Child[]): void {
  replaceFile(path.join(dataDir, RECORD_NAME), JSON.stringify(children))
}

/** Whether an error says that a file or a process does not exist. */
function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ESRCH'
}
