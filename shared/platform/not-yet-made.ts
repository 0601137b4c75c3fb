/**
 * A collection that another process has to make is not there, or not with all its indexes: worth looking
 * again.
 */
export class NotYetMade extends Error {
  override name = 'NotYetMade'
}
