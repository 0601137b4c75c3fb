import { describe, expect, it } from 'vitest'
import { answerChallenge, readRing } from '../../client/doorbell.ts'
import { signPost, signingKeyOf } from '../../shared/crypto/message-signature.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { preparePythonProgram, runProgram, whyNoPython } from '../support/python.ts'

const missing = whyNoPython()
const SECRET = signingKeyOf(new Uint8Array(32).fill(9))
const KEY = SECRET.publicKey
const URL = 'https://bell.example/ring'
const AT = 1_700_000_000
const BODY = JSON.stringify({ agent_id: 'agt_1', kind: 'challenge', at: AT, challenge: 'ab'.repeat(32) })
const headers = signPost({ url: URL, body: BODY, at: AT }, SECRET)

interface Case {
  url: string
  body: string
  headers: Record<string, string>
  keys: string[]
  now: number
}
const GOOD: Case = { url: URL, body: BODY, headers, keys: [KEY], now: AT + 299 }
const input = headers['signature-input']
const withInput = (text: string): Partial<Case> => ({ headers: { ...headers, 'signature-input': text } })
const CHANGES: Record<string, Partial<Case>> = {
  nothing: {},
  'another URL': { url: `${URL}/` },
  'another body': { body: BODY.replace('agt_1', 'agt_2') },
  'no headers': { headers: {} },
  'another key': { keys: ['00'.repeat(32)] },
  'no key': { keys: [] },
  'two keys': { keys: ['00'.repeat(32), KEY] },
  'too late': { now: AT + 301 },
  'too early': { now: AT - 301 },
  'fewer components': withInput(input.replace('"@method" ', '')),
  'another order': withInput(input.replace('"@method" "@target-uri"', '"@target-uri" "@method"')),
  'another tag': withInput(input.replace('doorbell"', 'other"')),
  'another time': withInput(input.replace(String(AT), String(AT + 1))),
  'a line feed behind': withInput(`${input}\n`),
  'another label': withInput(input.replace('bell=', 'sig1=')),
  'a signature of zeros': { headers: { ...headers, signature: `bell=:${'A'.repeat(86)}==:` } },
  'a signature cut short': { headers: { ...headers, signature: headers.signature.replace('==:', ':') } },
  'a line feed behind the signature': { headers: { ...headers, signature: `${headers.signature}\n` } },
  'another digest': { headers: { ...headers, 'content-digest': `sha-256=:${'A'.repeat(43)}=:` } },
}
const cases = Object.values(CHANGES).map((change) => ({ ...GOOD, ...change }))
const EXPECTED = Object.keys(CHANGES).map((name) => ['nothing', 'two keys'].includes(name))

const CHECK = `
import json, sys
sys.path.insert(0, "client/python/agent_network")
from doorbell import answer_challenge, read_ring
cases = json.loads(sys.argv[1])
print(json.dumps([read_ring(c["url"], c["body"].encode(), c["headers"], c["keys"], c["now"]) for c in cases]))
print(answer_challenge("ab" * 32, "cd" * 32))
`

describe('what a receiver reads of a post', () => {
  it('is a ring only if nothing of it was changed', () => {
    expect(cases.map((one) => readRing(one, one.keys, one.now) !== undefined)).toEqual(EXPECTED)
    expect(readRing(GOOD, [KEY], AT)).toEqual(JSON.parse(BODY))
  })

  it.skipIf(missing !== undefined)(
    `is the same in the Python package${missing === undefined ? '' : ` (skipped: ${missing})`}`,
    async () => {
      const python = await preparePythonProgram('pynacl', '1.6.2', 'python')
      const { code, output } = await runProgram(python, ['-c', CHECK, JSON.stringify(cases)], {
        limitMs: PATIENCE_MS,
      })
      const [read = '', answered] = output.trim().split('\n')
      expect([code, (JSON.parse(read) as unknown[]).map((one) => one !== null)]).toEqual([0, EXPECTED])
      expect(answered).toBe(answerChallenge('ab'.repeat(32), 'cd'.repeat(32)))
    },
  )
})
