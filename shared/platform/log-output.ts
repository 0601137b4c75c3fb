import fs from 'node:fs'

/** Characters that are buffered while the output takes none; further lines are dropped. */
const KEPT_LENGTH = 1024 * 1024
/** Pause before the next try when the disk is full or the reader has ended. */
const BROKEN_PAUSE_MS = 1_000
/** Pause before the next try when the reader is slow. */
const BEHIND_PAUSE_MS = 50
/** How long the process waits at its end for a slow reader. */
const LAST_LIMIT_MS = 2_000

export interface LogOutput {
  /** Buffers a line to be written soon, or drops it if the buffer is full; never throws. */
  write(line: string): void
  /** Writes the buffered lines synchronously, at the end of the process; gives up if that is impossible. */
  flush(): void
}

/**
 * Creates an output that writes lines to an open file, all of one pass of the event loop at once. If the file
 * can't be written, lines are buffered, and dropped once the buffer is full; their number is logged when the
 * file can be written again.
 *
 * The file is written on this thread if that never waits, which keeps the order of lines to the end of the
 * process. Else the thread pool writes it, and what the pool has not begun to write when the process ends
 * comes after the last lines.
 */
export function openLogOutput(output: number, keptLength = KEPT_LENGTH): LogOutput {
  const prompt = openPrompt(output)
  const fd = prompt ?? output
  let waiting: string[] = []
  let waitingLength = 0
  let dropped = 0
  /** Bytes of earlier lines that are being written. */
  let rest: Buffer = Buffer.alloc(0)
  let isInFlight = false
  /** A write is under way or scheduled. */
  let isScheduled = false

  const takeWaiting = (): void => {
    rest = Buffer.from(waiting.join(''))
    waiting = []
    waitingLength = 0
  }
  /** Writes what waits, and goes on until nothing waits; after an error, tries again after a pause. */
  const writeNext = (): void => {
    if (rest.length === 0) takeWaiting()
    if (rest.length === 0) {
      isScheduled = false
      return
    }
    if (prompt !== undefined) {
      try {
        rest = rest.subarray(fs.writeSync(fd, rest))
      } catch (error) {
        tryAgainAfter(error as NodeJS.ErrnoException)
        return
      }
      setImmediate(writeNext)
      return
    }
    isInFlight = true
    fs.write(fd, rest, (error, written) => {
      isInFlight = false
      if (error !== null) {
        tryAgainAfter(error)
        return
      }
      rest = rest.subarray(written)
      writeNext()
    })
  }
  const tryAgainAfter = (error: NodeJS.ErrnoException): void => {
    setTimeout(writeNext, isBehind(error) ? BEHIND_PAUSE_MS : BROKEN_PAUSE_MS).unref()
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
        const msg = 'lines of the log were dropped here'
        add(`${JSON.stringify({ level: 40, time: Date.now(), pid: process.pid, dropped, msg })}\n`)
        dropped = 0
      }
      add(line)
      if (isScheduled) return
      isScheduled = true
      // All lines of one pass of the event loop go into one write; none is under way if the pass ends the
      // process.
      setImmediate(writeNext)
    },
    flush() {
      // A write that is under way is completed by the operating system.
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

/**
 * A descriptor of the same output whose writes never wait: of a pipe or a terminal a new one, so that other
 * programs on it keep theirs; of a socket, which supervisors give, and which can't be opened anew, the same.
 *
 * @returns undefined if there is none, for instance without /proc or for a pipe of another user
 */
function openPrompt(fd: number): number | undefined {
  const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = fs.constants
  try {
    const stat = fs.fstatSync(fd)
    if (stat.isFile()) return fd
    if (stat.isFIFO() || stat.isCharacterDevice())
      return fs.openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY)
    // Node sets its stdout to this when that is first asked for.
    if (fd === 1) void process.stdout
    const [, flags = ''] =
      /^flags:\s+0?(\d+)$/m.exec(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & O_NONBLOCK) === 0 ? undefined : fd
  } catch {
    return undefined
  }
}

/** Whether a write failed only because the reader is slow. */
function isBehind({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EAGAIN' || code === 'EBUSY'
}

let standardOutput: LogOutput | undefined

/** Opens the one output of this process's logs, which is flushed when the process exits. */
export function openStandardOutput(): LogOutput {
  if (standardOutput !== undefined) return standardOutput
  const output = openLogOutput(1)
  process.once('exit', () => output.flush())
  return (standardOutput = output)
}
