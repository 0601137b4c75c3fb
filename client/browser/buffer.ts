/** The part of Node's Buffer that the client uses, for the build that runs in browsers. */
export class Buffer extends Uint8Array<ArrayBuffer> {
  static override from(
    source: string | ArrayLike<number> | Iterable<number>,
    encoding: unknown = 'utf8',
  ): Buffer {
    const bytes = typeof source === 'string' ? decode(source, encoding) : source
    const copy = allocate((bytes as Uint8Array).length)
    copy.set(bytes as ArrayLike<number>)
    return copy
  }

  static override of(...bytes: number[]): Buffer {
    return Buffer.from(bytes)
  }

  static alloc(length: number, fill = 0): Buffer {
    const buffer = allocate(length)
    buffer.fill(fill)
    return buffer
  }

  static concat(parts: readonly Uint8Array[]): Buffer {
    const whole = allocate(parts.reduce((sum, part) => sum + part.length, 0))
    let at = 0
    for (const part of parts) {
      whole.set(part, at)
      at += part.length
    }
    return whole
  }

  static compare(a: Uint8Array, b: Uint8Array): number {
    for (let i = 0; i < Math.min(a.length, b.length); i++)
      if (a[i] !== b[i]) return (a[i] ?? 0) < (b[i] ?? 0) ? -1 : 1
    return Math.sign(a.length - b.length)
  }

  equals(other: Uint8Array): boolean {
    return Buffer.compare(this, other) === 0
  }

  override toString(encoding: unknown = 'utf8'): string {
    if (encoding === 'utf8') return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this)
    if (encoding === 'hex') return Array.from(this, (byte) => byte.toString(16).padStart(2, '0')).join('')
    let latin1 = ''
    for (const byte of this) latin1 += String.fromCharCode(byte)
    if (encoding === 'base64') return btoa(latin1)
    if (encoding === 'base64url')
      return btoa(latin1).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    return latin1 // latin1, binary, and ascii for what is
  }
}

const allocate = (length: number): Buffer => new Buffer(new ArrayBuffer(length))

/**
 * The bytes of a text in an encoding, as Node reads it: hex ends before the first pair that isn't two hex
 * digits, and base64 is read without the characters that don't belong to it.
 */
function decode(text: string, encoding: unknown): Uint8Array | number[] {
  if (encoding === 'utf8') return new TextEncoder().encode(text)
  if (encoding === 'hex') {
    const [digits] = /^([0-9a-fA-F]{2})*/.exec(text) ?? ['']
    return Array.from({ length: digits.length / 2 }, (_, i) =>
      Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16),
    )
  }
  const latin1 =
    encoding === 'base64' || encoding === 'base64url'
      ? atob(
          text
            .replaceAll('-', '+')
            .replaceAll('_', '/')
            .replace(/[^0-9A-Za-z+/]/g, ''),
        )
      : text
  return Array.from(latin1, (char) => char.charCodeAt(0) & 0xff)
}
