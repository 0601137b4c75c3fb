import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'
import { preparePythonProgram, runProgram, whyNoPython } from '../support/python.ts'

const missing = whyNoPython()
const VECTORS = new URL('../vectors/valid/', import.meta.url)

/** Opens each vector, and seals and opens its text anew. */
const CHECK = `
import json, sys
sys.path.insert(0, "client/python")
from sealed_box import seal, unseal
for path in sys.argv[1:]:
    v = json.load(open(path))
    key = lambda name: bytes.fromhex(v[name])
    for box in (v["box"], seal(key("plaintext").decode(), key("sender_secret_key"), v["sender_id"], key("recipient_public_key"), v["recipient_id"], v.get("order_id"))):
        opened = unseal(box, key("recipient_secret_key"), v["recipient_id"], key("sender_public_key"), v["sender_id"], v.get("order_id"))
        assert opened.encode() == key("plaintext"), path
    try:
        unseal(v["box"], key("recipient_secret_key"), v["recipient_id"], key("sender_public_key"), v["sender_id"], "another")
        sys.exit("a box opened for another purpose")
    except Exception:
        print("ok")
`

describe('the sealed boxes of client/python/sealed_box.py', () => {
  it.skipIf(missing !== undefined)(
    `are those of the vectors, both ways${missing === undefined ? '' : ` (skipped: ${missing})`}`,
    async () => {
      const python = await preparePythonProgram('pynacl', '1.6.2', 'python')
      const vectors = fs.readdirSync(VECTORS).filter((name) => name.startsWith('sealed-box2-'))
      const { code, output } = await runProgram(
        python,
        ['-c', CHECK, ...vectors.map((name) => new URL(name, VECTORS).pathname)],
        {
          limitMs: PATIENCE_MS,
        },
      )
      expect([code, output.trim().split('\n')]).toEqual([0, vectors.map(() => 'ok')])
    },
  )
})
