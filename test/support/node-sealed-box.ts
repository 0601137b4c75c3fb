import { createCipheriv, createPrivateKey, createPublicKey, diffieHellman, hkdfSync } from 'node:crypto'

/**
 * The format written a second time on node:crypto alone, after sealed-box.md; it also makes what sealBox
 * never would.
 */
export function sealWithNode({
  padded,
  ephemeralSecretKey,
  nonce,
  senderSecretKey,
  senderId,
  recipientPublicKey,
  recipientId,
  version = 1,
  purpose = Buffer.alloc(0),
}: {
  padded: Uint8Array
  ephemeralSecretKey: string
  nonce: Uint8Array
  senderSecretKey: string
  senderId: string
  recipientPublicKey: string
  recipientId: string
  version?: number
  /** Of version 2, as it stands at the end of the derivation's info. */
  purpose?: Uint8Array
}) {
  const toPrivate = (hex: string) =>
    createPrivateKey({
      key: Buffer.from(`302e020100300506032b656e04220420${hex}`, 'hex'),
      format: 'der',
      type: 'pkcs8',
    })
  const toPublic = (hex: string) =>
    createPublicKey({
      key: Buffer.from(`302a300506032b656e032100${hex}`, 'hex'),
      format: 'der',
      type: 'spki',
    })
  const publicBytes = (hex: string) =>
    createPublicKey(toPrivate(hex)).export({ format: 'der', type: 'spki' }).subarray(-32)
  const withLength = (id: string) => Buffer.concat([Buffer.of(Buffer.byteLength(id)), Buffer.from(id)])

  const ephemeralPublicKey = publicBytes(ephemeralSecretKey)
  const ephemeralShared = diffieHellman({
    privateKey: toPrivate(ephemeralSecretKey),
    publicKey: toPublic(recipientPublicKey),
  })
  const staticShared = diffieHellman({
    privateKey: toPrivate(senderSecretKey),
    publicKey: toPublic(recipientPublicKey),
  })
  const info = Buffer.concat([
    Buffer.of(version),
    ephemeralPublicKey,
    publicBytes(senderSecretKey),
    Buffer.from(recipientPublicKey, 'hex'),
    withLength(senderId),
    withLength(recipientId),
    purpose,
  ])
  const salt = `agent-network sealed box v${version === 2 ? 2 : 1}`
  const okm = Buffer.from(hkdfSync('sha256', Buffer.concat([ephemeralShared, staticShared]), salt, info, 64))
  const key = okm.subarray(0, 32)
  const nonceKey = okm.subarray(32)

  // HChaCha20 is the ChaCha20 block without its final addition of the initial state, of which only public
  // words are left.
  const block = createCipheriv('chacha20', key, nonce.subarray(0, 16)).update(Buffer.alloc(64))
  const initial = Buffer.concat([Buffer.from('expand 32-byte k'), key, nonce.subarray(0, 16)])
  const subkey = Buffer.concat(
    [0, 1, 2, 3, 12, 13, 14, 15].map((word) => {
      const out = Buffer.alloc(4)
      out.writeUInt32LE((block.readUInt32LE(word * 4) - initial.readUInt32LE(word * 4)) >>> 0)
      return out
    }),
  )
  const header = Buffer.concat([Buffer.of(version), ephemeralPublicKey, nonce])
  const cipher = createCipheriv(
    'chacha20-poly1305',
    subkey,
    Buffer.concat([Buffer.alloc(4), nonce.subarray(16)]),
    { authTagLength: 16 },
  )
  cipher.setAAD(header, { plaintextLength: padded.length })
  const body = Buffer.concat([cipher.update(padded), cipher.final()])
  const box = `box${version === 2 ? 2 : 1}.${Buffer.concat([header, body, cipher.getAuthTag()]).toString('base64url')}`
  return { box, ephemeralPublicKey, ephemeralShared, staticShared, key, nonceKey }
}
