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
 * Appends lines; at the limit the file becomes `FILE.1` in place of the one before, so that two at most are
 * kept. If the file can't be written, as on a full disk, its lines are lost until it can, and nothing else
 * happens.
 *
 * @param report told when the file cannot be written any more, once until it can
 */
export function openLogFile(
  file: string,
  report: (line: string) => void,
  limitBytes = LOG_LIMIT_BYTES,
): LogFile {
  let handle: number | undefined
  let sizeBytes = 0
  let isFailing = false
  /** The file may end with half a line. */
  let isCut = false
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
        const text = `${isCut ? '\n' : ''}${line}\n`
        isCut = true
        fs.writeFileSync(handle ?? open(), text)
        isCut = false
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
 * For a log that another program writes, which has to open it anew.
 *
 * @returns whether it was rotated
 */
export function rotateLogFile(file: string, limitBytes = LOG_LIMIT_BYTES): boolean {
  fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const isLong = fs.existsSync(file) && fs.statSync(file).size >= limitBytes
  if (isLong) fs.renameSync(file, `${file}.1`)
  return isLong
}

/** The last whole lines of a file; none if there is no file. */
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
