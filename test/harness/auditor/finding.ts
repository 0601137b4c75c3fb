/** Something wrong, and words by which the requests concerned are found in the history. */
export interface Finding {
  what: string
  words: string[]
  /** When it was noticed, in milliseconds of the history; absent if that was after the run. */
  atMs?: number
}

/** An empty list of findings, and a function that adds to it. */
export function collectFindings() {
  const findings: Finding[] = []
  return {
    findings,
    addFinding: (what: string, ...words: string[]): void => void findings.push({ what, words }),
  }
}

/** The ids, addresses and hashes in a sentence. */
export const namesIn = (what: string): string[] =>
  what.match(/\b(?:[a-z]{2,4}_[0-9a-z]{26}|nano_[0-9a-z]{60}|[0-9a-f]{64})\b/g) ?? []

/** A finding for each sentence, about what it names. */
export const findingsOf = (sentences: readonly string[]): Finding[] =>
  sentences.map((what) => ({ what, words: namesIn(what) }))
