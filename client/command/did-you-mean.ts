/**
 * ` did you mean "X"?` for the known word that is nearest to what was written, if it is at most two slips
 * away (one for a short word); else nothing.
 */
export function suggest(written: string, known: readonly string[]): string {
  const [best] = [...new Set(known)]
    .map((name) => ({ name, slips: countSlips(written, name) }))
    .filter(({ name, slips }) => slips <= (name.length > 4 ? 2 : 1))
    .sort((a, b) => a.slips - b.slips)
  return best === undefined ? '' : ` did you mean ${JSON.stringify(best.name)}?`
}

/**
 * How many letters were added, left out, replaced, or swapped with the next (optimal string alignment
 * distance).
 */
function countSlips(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      next[j] = Math.min(
        (row[j] ?? 0) + 1,
        (next[j - 1] ?? 0) + 1,
        (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1),
        swapped ? (before[j - 2] ?? 0) + 1 : Infinity,
      )
    }
    ;[before, row] = [row, next]
  }
  return row[b.length] ?? 0
}
