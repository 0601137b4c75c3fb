/** Decodes a part of a URL; gives it back unchanged if it isn't validly percent-encoded. */
export function decodeUrlPart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/**
 * Reads a response's body as text.
 *
 * @throws the error that `tooLong` makes if it has more than `maxBytes`; TypeError if it isn't UTF-8
 */
export async function readBounded(
  { body }: Response,
  maxBytes: number,
  tooLong: () => Error,
): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    // Leaving the loop by an error cancels the body, which closes the connection.
    if (bytes > maxBytes) throw tooLong()
    chunks.push(chunk)
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
}
