/** What a profile reads of its command line. */
export interface Reader {
  /** Ends the command with 2, a message and how it is used. */
  stop(message: string): never
  /** An option as a number. Ends the command with 2 if it isn't a whole number above 0. */
  whole(name: string, text: string | undefined): number
  /** The names in a comma-separated list. Ends the command with 2 if one is unknown. */
  kinds<Kind extends string>(name: string, text: string, known: readonly Kind[]): Kind[]
}

/** Makes the reader of a profile. @param usage how it is used */
export function readerOf(usage: string): Reader {
  const stop = (message: string): never => {
    process.stderr.write(`${message}\n${usage}\n`)
    process.exit(2)
  }
  return {
    stop,
    whole(name, text) {
      if (text === undefined || !/^[1-9]\d{0,9}$/.test(text))
        stop(`${name} expected a whole number above 0, got ${JSON.stringify(text)}`)
      return Number(text)
    },
    kinds(name, text, known) {
      const words = text.split(',')
      const unknown = words.filter((word) => !known.some((kind) => kind === word))
      if (unknown.length > 0) stop(`${name} names ${unknown.join(', ')}`)
      return known.filter((kind) => words.includes(kind))
    },
  }
}
