import { escapeControls, oneLine } from './format.ts'

/** Shows how something goes on, on stderr. What others wrote may be part of it. */
export interface ProgressLine {
  /** What is under way. On a terminal it replaces the line before it; elsewhere one in 30 s is shown. */
  show(text: string): void
  /** Something that has happened, on a line of its own. */
  say(text: string): void
  /** Ends the line that stands, if one does. */
  end(): void
}

export interface ProgressStream {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

const PLAIN_MS = 30_000
const CLEAR_LINE = '\r\u001b[K'

export function createProgressLine(stream: ProgressStream, enabled: boolean): ProgressLine {
  if (!enabled) return { show: () => undefined, say: () => undefined, end: () => undefined }
  let standing = false
  let shownAtMs = -Infinity
  const end = () => {
    if (standing) stream.write(CLEAR_LINE)
    standing = false
  }
  return {
    show(shown) {
      const text = escapeControls(oneLine(shown))
      if (stream.isTTY === true) {
        stream.write(CLEAR_LINE + text.slice(0, Math.max(20, (stream.columns || 80) - 1)))
        standing = true
      } else if (performance.now() - shownAtMs >= PLAIN_MS) {
        stream.write(`${text}\n`)
        shownAtMs = performance.now()
      }
    },
    say(text) {
      end()
      stream.write(`${escapeControls(oneLine(text))}\n`)
    },
    end,
  }
}
