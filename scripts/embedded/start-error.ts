/** A start that cannot be, as far as its operator can do something about it: the message is a sentence for them. */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}
