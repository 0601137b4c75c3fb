import { formatDuration } from '../../client/command/format.ts'
import type { Context } from '../../shared/context.ts'

/** A part of what `status` shows. */
export interface StatusSection {
  /** Its key under `--json`. */
  name: string
  title: string
  /**
   * What it has to tell: the object for `--json`, and lines of text. A section that fails is shown with its
   * error; the others stand.
   */
  read(ctx: Context): Promise<{ answer: unknown; lines: readonly string[] }>
}

/** How long ago something was. @param at Unix seconds, as is `now` */
export const formatAge = (at: number, now: number): string => `${formatDuration(Math.max(0, now - at))} ago`

/** Rows as lines of aligned columns: the first column to the left, the others to the right. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  )
}
