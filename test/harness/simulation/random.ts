/** Random numbers of a seed: sfc32 (Chris Doty-Humphrey, PractRand). */
export interface Random {
  /** At least 0, below 1. */
  fraction(): number
  /** A whole number from 0 to `below` - 1. */
  below(below: number): number
  chance(rate: number): boolean
  pick<T>(choices: readonly T[]): T
  weighted<T extends { weight: number }>(choices: readonly T[]): T
}

export function createRandom(seed: number): Random {
  let [a, b, c, count] = [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0, 0x9e3779b9, 1]
  const next = (): number => {
    const sum = (((a + b) | 0) + count) | 0
    count = (count + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    return sum >>> 0
  }
  for (let round = 0; round < 12; round++) next()
  const fraction = (): number => next() / 2 ** 32
  const below = (limit: number): number => Math.floor(fraction() * limit)
  return {
    fraction,
    below,
    // A number is drawn even if the rate is 0, so that a rate changes no other choice.
    chance: (rate) => fraction() < rate,
    pick: (choices) => choices[below(choices.length)] as (typeof choices)[number],
    weighted(choices) {
      let rest = fraction() * choices.reduce((sum, { weight }) => sum + weight, 0)
      for (const choice of choices) {
        rest -= choice.weight
        if (rest < 0) return choice
      }
      return choices.at(-1) as (typeof choices)[number]
    },
  }
}
