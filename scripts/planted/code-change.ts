/** A text of one file, and what is put in its place. */
export interface CodeChange {
  readonly file: string
  /** Stands once in the file. */
  readonly text: string
  readonly instead: string
}

/**
 * Makes a change in the text of its file.
 *
 * @returns the changed text
 * @throws Error if the text that is replaced isn't there, or more than once
 */
export function applyCodeChange({ file, text, instead }: CodeChange, source: string): string {
  const [before, after, ...more] = source.split(text)
  if (after === undefined || more.length > 0)
    throw new Error(`${file} does not have ${JSON.stringify(text)} once`)
  return `${before}${instead}${after}`
}
