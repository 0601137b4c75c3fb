/** Throws, since a page has no files: an agent in a browser keeps its identity and work where its page does. */
function refuse(): never {
  throw new Error('There are no files in a browser; leave the options that name one out.')
}

export const withFileLock = refuse
export const readPrivateFile = refuse
export const writePrivateFile = refuse
