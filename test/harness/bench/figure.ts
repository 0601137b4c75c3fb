/** A measured figure beside a reference measured in the same run. */
export type Figure = {
  name: string
  value: number
  unit: string
  /** What `reference_value` is, in the same unit. */
  reference: string
  reference_value: number
  /** value / reference_value */
  ratio: number
  /** The least `ratio` wanted, or the greatest if `better` is lower. */
  goal?: number
  better: 'higher' | 'lower'
}

/**
 * The middle value, or the mean of the two middle ones.
 *
 * @throws Error on an empty list
 */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((x, y) => x - y)
  const upper = sorted[sorted.length >> 1]
  const lower = sorted[(sorted.length - 1) >> 1]
  if (upper === undefined || lower === undefined) throw new Error('"values" must not be empty')
  return (lower + upper) / 2
}

/** The value at `part` of the way through the sorted list: 0.99 gives the p99. NaN on an empty list. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

/** Something to measure; each call of `sample` takes one sample, in the same unit for all contenders. */
export type Contender = { name: string; sample: () => number | Promise<number> }

/**
 * Takes `rounds` samples of each contender, and returns the medians by name. Contenders take turns, so that a
 * slow phase of the machine affects all of them; the first round is a warm-up and does not count.
 */
export async function measureInTurns(
  contenders: readonly Contender[],
  rounds: number,
): Promise<Map<string, number>> {
  const samples = new Map<string, number[]>(contenders.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const { name, sample } of contenders) {
      const value = await sample()
      if (round > 0) samples.get(name)?.push(value)
    }
  }
  return new Map(Array.from(samples, ([name, values]) => [name, median(values)]))
}

/** Measures a figure and its reference in turns, and compares their medians. */
export async function compareInTurns(
  rounds: number,
  reference: Contender,
  { sample, ...figure }: Contender & { unit: string; better: Figure['better']; goal?: number },
): Promise<Figure> {
  const values = await measureInTurns([reference, { name: figure.name, sample }], rounds)
  const valueOf = (name: string): number => values.get(name) ?? Number.NaN
  return compareWith(
    { name: reference.name, value: valueOf(reference.name) },
    { ...figure, value: valueOf(figure.name) },
  )
}

/**
 * Repeats `work` for at least `minMs`.
 *
 * @returns the sum of its results, per second
 */
export function timeRate(work: () => number, minMs: number): number {
  const startedAt = performance.now()
  let done = 0
  let elapsedMs = 0
  do {
    done += work()
    elapsedMs = performance.now() - startedAt
  } while (elapsedMs < minMs)
  return (done / elapsedMs) * 1000
}

/** The figure with its reference and their ratio. */
export function compareWith(
  reference: { name: string; value: number },
  figure: { name: string; value: number; unit: string; better: Figure['better']; goal?: number },
): Figure {
  return {
    ...figure,
    reference: reference.name,
    reference_value: reference.value,
    ratio: figure.value / reference.value,
  }
}

/** The figures as text, a line each. */
export function formatFigures(figures: readonly Figure[]): string {
  return figures.map(formatFigure).join('\n')
}

/** One line: value, reference, ratio, and whether the goal is met. */
function formatFigure(figure: Figure): string {
  const { name, value, unit, reference, reference_value: beside, ratio, goal, better } = figure
  const line = `${name}: ${formatValue(value)} ${unit}, ${reference}: ${formatValue(beside)} ${unit}, ratio ${ratio.toFixed(2)}`
  if (goal === undefined) return line
  return `${line} (goal ${better === 'higher' ? 'at least' : 'at most'} ${goal}: ${isMet(figure) ? 'met' : 'MISSED'})`
}

/** Whether the ratio reaches the goal; true if there is none. */
export function isMet({ ratio, goal, better }: Figure): boolean {
  return goal === undefined || (better === 'higher' ? ratio >= goal : ratio <= goal)
}

/** Four significant digits, with commas between thousands. */
export const formatValue = (value: number): string =>
  Number(value.toPrecision(4)).toLocaleString('en-US', { maximumFractionDigits: 4 })
