import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { answerChallenge } from '../../client/doorbell.ts'
import { signPost, signingKeyOf } from '../../shared/crypto/message-signature.ts'

const SECRET_KEY = signingKeyOf(new Uint8Array(32).fill(5))
const KEY = SECRET_KEY.publicKey
const URL_RUNG = 'https://bell.example/'

interface Receiver {
  default: { fetch(request: Request): Promise<Response> }
}

/** The cloud function of docs/agents.md, with a key, a secret, and a note of what it wakes. */
async function recipe(): Promise<Receiver['default']> {
  const docs = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8')
  const [, code = ''] = /```js\n(import [^\n]*\nconst URL = [\s\S]*?)```/.exec(docs) ?? []
  const filled = code
    .replace("KEYS = ['…']", `KEYS = ['${KEY}']`)
    .replace("SECRET = '…'", "SECRET = 's3cret'")
    .replace(/const wake = .*/, 'const wake = () => globalThis.woken.push(1)')
  const module = (await import(`data:text/javascript,${encodeURIComponent(filled)}`)) as Receiver
  return module.default
}

describe('the cloud function in the docs', () => {
  it('answers a challenge, wakes at a ring, and takes nothing that is not signed for it', async () => {
    const woken: number[] = []
    Object.assign(globalThis, { woken })
    const receiver = await recipe()
    const at = Math.floor(Date.now() / 1000)
    const send = (body: string, change: { url?: string; at?: number; sent?: string } = {}) => {
      const headers = signPost({ url: change.url ?? URL_RUNG, body, at: change.at ?? at }, SECRET_KEY)
      return receiver.fetch(new Request(URL_RUNG, { method: 'POST', headers, body: change.sent ?? body }))
    }
    const challenge = 'ab'.repeat(32)
    const answered = await send(JSON.stringify({ agent_id: 'agt_1', kind: 'challenge', at, challenge }))
    expect(await answered.text()).toBe(answerChallenge(challenge, 's3cret'))
    const ring = JSON.stringify({ agent_id: 'agt_1', kind: 'wake', at })
    expect((await send(ring)).status).toBe(200)
    expect(woken).toEqual([1])
    for (const change of [
      { url: 'https://other.example/' },
      { at: at - 301 },
      { sent: ring.replace('1', '2') },
    ])
      expect((await send(ring, change)).status).toBe(401)
    expect((await receiver.fetch(new Request(URL_RUNG, { method: 'POST', body: ring }))).status).toBe(401)
    expect(woken).toEqual([1])
    Reflect.deleteProperty(globalThis, 'woken')
  })
})
