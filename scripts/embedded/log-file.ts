import fs from 'node:fs'
import path from 'node:path'

const LOG_LIMIT_BYTES = 20 * 1024 * 1024
/** A server that dies writes its reason and then its stack, a line for each frame. */
const TAIL_BYTES = 256 * 1024

export interface LogFile {
  write(line: string): void
  close(): void
}

/**
 * A log file to append lines to, opened at the first. At the limit the file becomes `FILE.1` in place of the
 * one before, so that two at most are kept. A line that can't be written, as on a full disk, is lost.
 *
 * @param report gets a sentence when writing fails, once until it succeeds again
 */
export function openLogFile(
  file: string,
  report: (line: string) => void,
  limitBytes = LOG_LIMIT_BYTES,
): LogFile {
  let handle: number | undefined
  let sizeBytes = 0
  let isFailing = false
  let mayEndInHalfALine = false
  const open = (): number => {
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    handle = fs.openSync(file, 'a', 0o600)
    sizeBytes = fs.fstatSync(handle).size
    return handle
  }
  const close = (): void => {
    if (handle !== undefined) fs.closeSync(handle)
    handle = undefined
  }
  return {
    write(line) {
      try {
        const text = `${mayEndInHalfALine ? '\n' : ''}${line}\n`
        mayEndInHalfALine = true
        fs.writeFileSync(handle ?? open(), text)
        mayEndInHalfALine = false
        sizeBytes += Buffer.byteLength(text)
        if (sizeBytes >= limitBytes) {
          fs.renameSync(file, `${file}.1`)
          close()
        }
        isFailing = false
      } catch (error) {
        if (!isFailing)
          report(`${file} cannot be written, and lines may be lost until it can: ${(error as Error).message}`)
        isFailing = true
      }
    },
    close,
  }
}

/**
 * Renames a log file to `FILE.1` if it has reached the limit. The program that writes it has to open it anew
 * then.
 *
 * @returns whether it was renamed
 */
export function rotateLogFile(file: string, limitBytes = LOG_LIMIT_BYTES): boolean {
  fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const isDue = fs.existsSync(file) && fs.statSync(file).size >= limitBytes
  if (isDue) fs.renameSync(file, `${file}.1`)
  return isDue
}

/** The whole lines in the last 256 KB of a file, without empty ones; none if there is no file. */
export function readLastLines(file: string): string[] {
  if (!fs.existsSync(file)) return []
  const handle = fs.openSync(file, 'r')
  try {
    const size = fs.fstatSync(handle).size
    const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES))
    fs.readSync(handle, buffer, 0, buffer.length, size - buffer.length)
    const lines = buffer
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '')
    return size > buffer.length ? lines.slice(1) : lines
  } finally {
    fs.closeSync(handle)
  }
}
