import { escapeControls, toOneLine } from './format.ts'

/** Shows on stderr how far something is. Controls in the text are escaped: others may have written it. */
export interface ProgressLine {
  /** What is under way. On a terminal it replaces the line before it; elsewhere one in 30 s is shown. */
  show(text: string): void
  /** Something that has happened, on a line of its own. */
  say(text: string): void
  /** Clears the line that show() left on the terminal, if one is there. */
  end(): void
}

export interface ProgressStream {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

const PLAIN_MS = 30_000
const CLEAR_LINE = '\r\u001b[K'

/**
 * Creates a line that shows how far something is: on a terminal one line that is written over, elsewhere a
 * new line every 30 s.
 *
 * @param enabled if false, nothing is shown
 */
export function createProgressLine(stream: ProgressStream, enabled: boolean): ProgressLine {
  if (!enabled) return { show: () => undefined, say: () => undefined, end: () => undefined }
  let isLineOpen = false
  let shownAtMs = -Infinity
  const end = () => {
    if (isLineOpen) stream.write(CLEAR_LINE)
    isLineOpen = false
  }
  return {
    show(shown) {
      const text = escapeControls(toOneLine(shown))
      if (stream.isTTY === true) {
        stream.write(CLEAR_LINE + text.slice(0, Math.max(20, (stream.columns || 80) - 1)))
        isLineOpen = true
      } else if (performance.now() - shownAtMs >= PLAIN_MS) {
        stream.write(`${text}\n`)
        shownAtMs = performance.now()
      }
    },
    say(text) {
      end()
      stream.write(`${escapeControls(toOneLine(text))}\n`)
    },
    end,
  }
}
