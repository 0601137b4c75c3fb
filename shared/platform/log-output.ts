import fs from 'node:fs'
import pino from 'pino'

/** Bytes that are kept while the output takes none; further lines are dropped. */
const KEPT_BYTES = 1024 * 1024
/** The pause before what is kept is tried again, if no line comes before. */
const TRY_AGAIN_MS = 1_000

/**
 * Opens an output that writes lines to an open file. If the file can't be written, because its disk is full or
 * its reader is slow or gone, lines are kept, and dropped once there are too many; their number is logged when
 * lines are taken again. Nothing waits for it.
 */
export function openLogOutput(fd: number, keptBytes = KEPT_BYTES): pino.DestinationStream {
  const output = pino.destination({
    fd: openPrompt(fd) ?? fd,
    // In the order of the lines to the end of the process, which the thread pool doesn't keep.
    sync: true,
    maxLength: keptBytes,
    retryEAGAIN: () => false,
  })
  let dropped = 0
  let isTriedAgain = false
  output.on('drop', () => dropped++)
  // The line is kept.
  output.on('error', () => {
    if (isTriedAgain) return
    isTriedAgain = true
    setTimeout(() => {
      isTriedAgain = false
      output.write('')
    }, TRY_AGAIN_MS).unref()
  })
  return {
    write(line) {
      if (dropped > 0) {
        const told = dropped
        const msg = 'lines of the log were dropped here'
        output.write(`${JSON.stringify({ level: 40, time: Date.now(), pid: process.pid, dropped, msg })}\n`)
        dropped = dropped === told ? 0 : told
      }
      output.write(line)
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
    if (stat.isFIFO() || stat.isCharacterDevice())
      return fs.openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY)
    // Node sets its stdout, if that is a socket, to this when it is first asked for.
    if (fd === 1 && stat.isSocket()) void process.stdout
    return undefined
  } catch {
    return undefined
  }
}

let standardOutput: pino.DestinationStream | undefined

/** Opens the one output of this process's logs. */
export const openStandardOutput = (): pino.DestinationStream => (standardOutput ??= openLogOutput(1))
