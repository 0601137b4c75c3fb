import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient } from '../../client/client.ts'
import { verifySolvency } from '../../client/solvency.ts'
import { EXIT_CODES } from '../../client/verify/report.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { readReport, startPythonVerifier, verifyInNode } from '../support/both-verifiers.ts'
import { preparePythonProgram } from '../support/python.ts'
import { SEAL_KEY } from '../support/ledger-chain.ts'
import { PYTHON_VERIFIER, canRunPythonVerifier } from '../support/run-verifier.ts'
import { CHEATS } from '../support/venue-cheats.ts'
import { makeVenue, serveVenues, type Venue } from '../support/venue-model.ts'

/*
 * Fifty venues that are honest, each another one, and those that cheat, as they look to whoever checks them: the
 * package, both verifiers of the chain, and a stranger who has written a check of its own by the published rules.
 */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const HONEST = 50
/** What only the chain can show is found by both of its verifiers. */
const OF_THE_CHAIN = ['wrong_liabilities', 'wrong_owed', 'order_overdrawn', 'wrong_fee']

let folder: string
let served: Awaited<ReturnType<typeof serveVenues>>
const at = Math.floor(Date.now() / 1_000) - 60
const honest = Array.from({ length: HONEST }, (_, number) => makeVenue(`honest-${number}`, number + 1, at))
const REMAINDER = 5_000n
/** What an agent has left below a day, of which the venue takes away a part in the name of others. */
const owning = Array.from({ length: 10 }, (_, number) =>
  makeVenue(`owning-${number}`, number + 1, at, {
    trade: (model, seq) => {
      if (seq === 2) model.move('xno', 'outside', 'remainders', REMAINDER, 'agt_buyer')
      if (seq === 3 && number % 2 === 1)
        model.move('xno', 'remainders', 'venue', model.sums.xno.remainders - REMAINDER + 1n)
    },
  }),
)
const cheats = CHEATS.map((cheat, number) => makeVenue(`cheat-${number}`, number + 1, at, cheat))

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'venues-'))
  served = await serveVenues([...honest, ...owning, ...cheats])
})
afterAll(async () => {
  await served.close()
  rmSync(folder, { recursive: true })
})

const urlOf = ({ name }: Venue): string => `${served.url}/${name}`
const judge = (
  venue: Venue,
  nodes: object = { nanoRpc: `${urlOf(venue)}/nano`, moneroRpc: `${urlOf(venue)}/xmr` },
  token?: string,
) =>
  verifySolvency({
    client: createClient({ baseUrl: urlOf(venue), ...(token === undefined ? {} : { token }) }),
    trust: { stateFile: join(folder, `${venue.name}.json`), pubkeys: [PUBKEY] },
    ...nodes,
  })

const nodesOf = (venue: Venue) => ({ nanoRpc: `${urlOf(venue)}/nano`, moneroRpc: `${urlOf(venue)}/xmr` })
/** The venue takes any. */
const TOKEN = `sk_${'0'.repeat(64)}`
/** What the buyer of every order is told: what payees and orders have, and the remainder. */
const ownOf = ({ sums, orders }: Venue): string => {
  const isOpen = ({ status }: Venue['orders'][number]) => status === 'paid' || status === 'disputed'
  const heldIn = (coin: string) =>
    orders.reduce((sum, order) => (order.coin === coin && isOpen(order) ? sum + order.held : sum), 0n)
  const shown = [
    ...[`${heldIn('xno')} xno in orders`, `${sums.xno.owed} xno in owed`, `${REMAINDER} xno in remainders`],
    ...[`${heldIn('xmr')} xmr in orders`, `${sums.xmr.owed} xmr in owed`],
  ]
  return `yours: ${shown.filter((part) => !part.startsWith('0 ')).join(', ')}`
}

/** What a stranger says of each: a program of its own. */
const askStranger = (venues: readonly Venue[]) =>
  askPython(PYTHON_VERIFIER[0], venues, [join(import.meta.dirname, 'stranger_solvency.py'), PUBKEY])

/** What the package of Python says of each. */
const askPackage = async (venues: readonly Venue[], more: object = {}) =>
  askPython(
    await preparePythonProgram('pynacl', '1.6.2', 'python'),
    venues,
    ['-c', PACKAGE_PROGRAM, PUBKEY, folder, join(import.meta.dirname, '../../client/python')],
    more,
  )

const PACKAGE_PROGRAM = `
import hashlib, json, os, sys
pubkey, folder, package = sys.argv[1:]
sys.path.insert(0, package)
from agent_network import Client, Trust, verify_solvency
for line in sys.stdin:
    venue = json.loads(line)
    state = os.path.join(folder, "package-" + hashlib.sha256(venue["url"].encode()).hexdigest())
    trust = Trust(state_file=state, pubkeys=[pubkey])
    client = Client(venue["url"], venue.get("token"))
    said = verify_solvency(client, trust, venue["nano"], venue["monero"], venue.get("agent"))
    print(json.dumps({"text": said.text, "code": {"good": 0, "broken": 1, "unchecked": 2, "not_binding": 3}[said.verdict], "words": said.reasons}))
`

async function askPython(
  python: string,
  venues: readonly Venue[],
  args: readonly string[],
  more: object = {},
): Promise<{ code: number; words: string[]; text?: string }[]> {
  const child = spawn(python, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const said: { code: number; words: string[]; text?: string }[] = []
  createInterface(child.stdout).on('line', (line) => said.push(JSON.parse(line) as (typeof said)[number]))
  for (const venue of venues) {
    const nodes = { nano: `${urlOf(venue)}/nano`, monero: `${urlOf(venue)}/xmr` }
    child.stdin.write(`${JSON.stringify({ url: urlOf(venue), ...nodes, ...more })}\n`)
  }
  child.stdin.end()
  await new Promise((resolve) => child.on('close', resolve))
  return said
}

describe('whoever checks what a venue holds', () => {
  it(`finds ${HONEST} honest venues covered`, async () => {
    for (const venue of honest) {
      const { verdict, text } = await judge(venue)
      expect(verdict, `${venue.name}: ${text}`).toBe('good')
    }
  })

  // holds: limits.solvency, limits.solvency.detail
  it.each(CHEATS.map((cheat, number) => ({ ...cheat, number })))(
    'is told that $name',
    async ({ number, ends }) => {
      const [code, ...words] = ends
      const { verdict, reasons, text } = await judge(cheats[number] as Venue)
      expect(
        { code: EXIT_CODES[verdict], isTold: words.every((word) => reasons.includes(word)) },
        text,
      ).toEqual({
        code,
        isTold: true,
      })
      expect(text).not.toContain('\n')
    },
  )

  it("is told that an agent's own money, of all its orders, is more than all that is stated", async () => {
    for (const [number, venue] of owning.entries()) {
      const { verdict, reasons, text } = await judge(
        venue,
        { ...nodesOf(venue), agentId: 'agt_buyer' },
        TOKEN,
      )
      expect([verdict, reasons], text).toEqual(number % 2 === 1 ? ['broken', ['own_left_out']] : ['good', []])
      if (number % 2 === 0) expect(text).toContain(ownOf(venue))
    }
    expect(owning.some(({ orders }) => orders.length > 2)).toBe(true)
  })

  it.skipIf(!canRunPythonVerifier())(
    'is told the same by the package of Python (skipped if there is no python3)',
    async () => {
      const said = await askPackage(owning, { agent: 'agt_buyer', token: TOKEN })
      for (const [number, venue] of owning.entries()) {
        expect(said[number]).toMatchObject(
          number % 2 === 1 ? { code: 1, words: ['own_left_out'] } : { code: 0, words: [] },
        )
        if (number % 2 === 0) expect(said[number]?.text).toContain(ownOf(venue))
      }
    },
  )

  it('says without a node what stays unchecked', async () => {
    const { verdict, reasons } = await judge(honest[0] as Venue, {})
    expect({ verdict, reasons }).toEqual({ verdict: 'unchecked', reasons: ['no_node', 'no_node'] })
  })

  it('is told by a node that does not answer that the venue could not be checked', async () => {
    const dead = { nanoRpc: 'http://127.0.0.1:9/', moneroRpc: 'http://127.0.0.1:9' }
    expect(await judge(honest[1] as Venue, dead)).toMatchObject({
      verdict: 'unchecked',
      reasons: ['node', 'node'],
    })
  })

  it('counts sums of Monero above 2^53 to the piconero', async () => {
    const owedBy = ({ chain }: Venue): bigint => {
      const { data } = chain.entries.at(-1) as { data: { liabilities?: { xmr: Record<string, string> } } }
      return Object.values(data.liabilities?.xmr ?? {}).reduce((sum, part) => sum + BigInt(part), 0n)
    }
    const venue = honest.find((one) => owedBy(one) > 0n && owedBy(one) % 2n === 1n) as Venue
    const spent = 2n ** 53n + 3n // a double of it is one more, and that of the total is exact
    const server = createServer((_, response) =>
      response.end(
        `{"result":{"good":true,"note":"\\"9007199254740993","spent":${spent},"total":${spent + owedBy(venue)}}}`,
      ),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const nodes = { nanoRpc: `${urlOf(venue)}/nano`, moneroRpc: `http://127.0.0.1:${port}` }
    const { text } = await judge(venue, nodes).finally(() => server.close())
    expect(text).toContain(`xmr: covered, ${owedBy(venue)} for ${owedBy(venue)} owed`)
  })

  it.skipIf(!canRunPythonVerifier()).each([
    ['a stranger', askStranger],
    ['the package of Python', askPackage],
  ])('comes to the same end as %s (skipped if there is no python3)', async (_, ask) => {
    const said = await ask([...honest, ...cheats])
    for (const [number, venue] of [...honest, ...cheats].entries()) {
      const [code, word] = CHEATS[number - HONEST]?.ends ?? [0]
      const { words = [], code: found } = said[number] ?? {}
      expect(
        { found, isTold: word === undefined || words.includes(word) },
        `${venue.name}: ${words.join()}`,
      ).toEqual({
        found: code,
        isTold: true,
      })
    }
  })

  it.skipIf(!canRunPythonVerifier())(
    'comes to the same end by each verifier of the chain, at once and seal by seal (skipped if there is no python3)',
    async () => {
      const python = startPythonVerifier()
      try {
        for (const [number, venue] of [...honest.slice(0, 10), ...cheats].entries()) {
          const cheat = CHEATS[number - 10]
          const file = join(folder, 'dump.json')
          writeFileSync(file, JSON.stringify(venue.chain))
          const own = cheat?.ends.filter((word) => OF_THE_CHAIN.includes(String(word))) ?? []
          const states = { node: join(folder, 'node.json'), python: join(folder, 'python.json') }
          for (const state of Object.values(states)) rmSync(state, { force: true })
          const ends = async (target: string, ...more: string[]) =>
            Promise.all(
              [[verifyInNode, states.node] as const, [python.verify, states.python] as const].map(
                async ([verify, state]) => {
                  const ended = await verify([
                    target,
                    ...more,
                    '--json',
                    '--state',
                    state,
                    '--pubkey',
                    PUBKEY,
                  ])
                  const { code, words } = readReport(ended)
                  return { code, words }
                },
              ),
            )
          const [node, other] = await ends(file)
          expect(other, venue.name).toEqual(node)
          expect(node, venue.name).toMatchObject({ code: own.length === 0 ? 0 : 1 })
          for (const word of own) expect(node?.words, venue.name).toContain(word)
          // What is remembered after a part of the chain leads to the same end.
          await ends(urlOf(venue), '--max-seals', '2')
          const [nodeAfter, pythonAfter] = await ends(urlOf(venue))
          expect(pythonAfter, venue.name).toEqual(nodeAfter)
          expect(nodeAfter, venue.name).toEqual(node)
        }
      } finally {
        python.stop()
      }
    },
  )
})
