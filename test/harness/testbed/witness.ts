import { hash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { ed25519PublicKey } from '../../../shared/crypto/ed25519.ts'
import { EMPTY_LOG_ROOT, verifyLogConsistency } from '../../../shared/crypto/log-tree.ts'
import {
  cosignNote,
  formatVkey,
  NOTE_KEY,
  parseCheckpoint,
  parseNote,
  verifyNote,
  type NoteKey,
} from '../../../shared/crypto/note.ts'

/**
 * Starts a witness by C2SP tlog-witness. It refuses all until it is told by `trust` whose log it watches.
 *
 * @returns `setting`: its row for WITNESSES; `setAway(true)`: it closes every connection without an answer
 */
export async function startWitness(name: string) {
  const secret = randomBytes(32)
  const key: NoteKey = { name, type: NOTE_KEY.cosigner, publicKey: ed25519PublicKey(secret) }
  let seen: { size: number; root: Uint8Array } = { size: 0, root: EMPTY_LOG_ROOT }
  let log: NoteKey | undefined
  /** The checkpoint that was cosigned last, as it was sent. */
  let cosigned: string | undefined
  let isAway = false
  /** Answers one add-checkpoint request, and remembers the checkpoint if it is cosigned. */
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    if (isAway) return response.destroy()
    if (request.method === 'GET') {
      const isAsked = request.url === `/${hash('sha256', log?.name ?? '', 'hex')}/checkpoint`
      return response.writeHead(isAsked && cosigned !== undefined ? 200 : 404).end(cosigned)
    }
    const [head = '', note = ''] = (await text(request)).split(/\n\n(.*)/s)
    const [old = '', ...lines] = head.split('\n')
    const opened = parseNote(note)
    const next = parseCheckpoint(opened.text)
    const answer = (status: number, body: string) => response.writeHead(status).end(body)
    if (log === undefined || !verifyNote(opened, log)) return answer(403, '')
    if (old !== `old ${seen.size}`) return answer(409, `${seen.size}\n`)
    const proof = lines.filter((line) => line !== '').map((line) => Buffer.from(line, 'base64'))
    if (next.size < seen.size) return answer(400, '')
    if (!verifyLogConsistency(seen, next, proof)) return answer(422, '')
    seen = next
    cosigned = note
    return answer(200, `${cosignNote(opened.text, name, secret, Math.floor(Date.now() / 1000))}\n`)
  }
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    key,
    setting: `${formatVkey(key)}@http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    trust: (logKey: NoteKey): void => {
      log = logKey
    },
    setAway(away: boolean): void {
      isAway = away
    },
    seenSize: (): number => seen.size,
    stop: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}
