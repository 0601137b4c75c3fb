import fs from 'node:fs'

/** Lines wait for an output that takes none up to so many characters; what comes beyond that is dropped. */
const KEPT_LENGTH = 1024 * 1024
/** A full disk, or a reader that is gone. */
const BROKEN_PAUSE_MS = 1_000
/** A reader that is behind. */
const BEHIND_PAUSE_MS = 50
/** How long the end of the process waits for a reader that is behind. */
const LAST_LIMIT_MS = 2_000

export interface LogOutput {
  /** Takes a line, or drops it; never throws. */
  write(line: string): void
  /** Writes what waits, now, and gives up if that cannot be written: for the end of the process. */
  flush(): void
}

/**
 * Writes lines to an open file without waiting for them. An output that cannot be written stops nothing:
 * lines wait for it and are dropped when there are too many; how many those were is said once it takes lines
 * again.
 */
export function openLogOutput(fd: number, keptLength = KEPT_LENGTH): LogOutput {
  let waiting: string[] = []
  let waitingLength = 0
  let dropped = 0
  /** What of the lines before those that wait is not yet written. */
  let rest: Buffer = Buffer.alloc(0)
  let isInFlight = false
  /** A write is under way, or due. */
  let isTold = false

  const takeWaiting = (): void => {
    rest = Buffer.from(waiting.join(''))
    waiting = []
    waitingLength = 0
  }
  const next = (): void => {
    if (rest.length === 0) takeWaiting()
    if (rest.length === 0) {
      isTold = false
      return
    }
    isInFlight = true
    fs.write(fd, rest, (error, written) => {
      isInFlight = false
      if (error !== null) {
        setTimeout(next, isBehind(error) ? BEHIND_PAUSE_MS : BROKEN_PAUSE_MS).unref()
        return
      }
      rest = rest.subarray(written)
      next()
    })
  }
  const add = (line: string): void => {
    waiting.push(line)
    waitingLength += line.length
  }
  return {
    write(line) {
      if (waitingLength + line.length > keptLength) {
        dropped += 1
        return
      }
      if (dropped > 0) {
        add(
          `${JSON.stringify({ level: 40, time: Date.now(), pid: process.pid, dropped, msg: 'lines of the log were dropped here' })}\n`,
        )
        dropped = 0
      }
      add(line)
      if (isTold) return
      isTold = true
      // All lines of one turn in one write, and none of them under way if the turn ends the process.
      setImmediate(next)
    },
    flush() {
      // What is under way is the system's to end.
      if (isInFlight || rest.length === 0) takeWaiting()
      const limit = performance.now() + LAST_LIMIT_MS
      while (rest.length > 0) {
        try {
          rest = rest.subarray(fs.writeSync(fd, rest))
        } catch (error) {
          if (!isBehind(error as NodeJS.ErrnoException) || performance.now() >= limit) return
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BEHIND_PAUSE_MS)
        }
        if (rest.length === 0) takeWaiting()
      }
    },
  }
}

function isBehind({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EAGAIN' || code === 'EBUSY'
}

let standardOutput: LogOutput | undefined

/** The one output of this process's logs. */
export function openStandardOutput(): LogOutput {
  if (standardOutput !== undefined) return standardOutput
  const output = openLogOutput(1)
  process.once('exit', () => output.flush())
  return (standardOutput = output)
}
