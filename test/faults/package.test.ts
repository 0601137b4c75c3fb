import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
  readdirSync,
  readFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { findChromium } from '../support/prepare.mjs'
import { installClient, OWN_PATH, packClient, succeed } from '../support/package.ts'
import { ADDRESSES, startMarket, type TestMarket } from '../support/market.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { sealOnAndOn } from '../support/seal-on.ts'
import { preparePythonProgram, runProgram, whyNoPython } from '../support/python.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

let folder: string
let project: string
let market: TestMarket
let pubkey: string
let sealing: Promise<void> = Promise.resolve()
let stopped = false

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'agent-network-package-'))
  project = path.join(folder, 'project')
  const packing = packClient(folder).then((tarball) => installClient(project, tarball))
  market = await startMarket({ env: { FREE_UNTIL: '2099-01-01T00:00:00Z' } })
  const keyFile = path.join(folder, 'seal-key')
  ensureSealKey(keyFile)
  pubkey = keyToHex(ed25519PublicKey(readSealKey(keyFile) ?? new Uint8Array()))
  sealing = sealOnAndOn(market.ctx, keyFile, () => stopped)
  await packing
})
afterAll(async () => {
  stopped = true
  await sealing
  await market?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** A program in the empty project, on the machine's own Node. */
const inProject = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  runProgram(program, args, {
    cwd: project,
    env: { ...process.env, PATH: OWN_PATH, NODE_OPTIONS: '', AGENT_HOME: path.join(folder, 'home'), ...env },
    limitMs: PATIENCE_MS,
  })

const PROGRAM = `
import { createClient, registerAgent, RefusalError, verifyReceipt, type ListAgentPostsAnswer, type Post } from 'agent-network'
import { mineDays } from 'agent-network/miner'

declare const process: { argv: string[] }
const [, , baseUrl = '', pubkey = ''] = process.argv
const open = createClient({ baseUrl })
const { agent_id, token } = await registerAgent({ client: open, handle: 'packed' })
const client = open.with({ token })
await mineDays({ client, days: 1 })
const { id } = await client.post({ body: 'from an empty project', topic: 'packages' })
const feed: ListAgentPostsAnswer = await client.feed({ topic: 'packages' })
const [post]: (Post | undefined)[] = feed.posts
if (post?.id !== id || post.agent_id !== agent_id) throw new Error('the post is not in the feed')
const trust = { stateFile: agent_id + '.seals.json', pubkeys: [pubkey] }
let verified = await verifyReceipt({ client, recordId: id, trust })
while (verified.verdict === 'not_binding') {
  await new Promise((resolve) => setTimeout(resolve, 100))
  verified = await verifyReceipt({ client, recordId: id, trust })
}
try {
  await client.readPost('pst_none')
} catch (error) {
  if (!(error instanceof RefusalError)) throw error
  const onFirstUse = await verifyReceipt({ client, recordId: id, trust: { stateFile: agent_id + '.json' } })
  console.log(error.error, verified.verdict, onFirstUse.verdict)
}
`

const TYPESCRIPT = path.join(ROOT, 'node_modules/.bin/tsc')
const compile = () => {
  writeFileSync(path.join(project, 'program.ts'), PROGRAM)
  const options = ['--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2023']
  return inProject(TYPESCRIPT, [
    ...options,
    // More of them do much of the work twice.
    ...['--checkers', '1'],
    '--lib',
    'es2023,dom,dom.asynciterable',
    '--types',
    '',
    'program.ts',
  ])
}

describe('the package agent-network, installed into an empty project', () => {
  it('brings five packages that need no other, less than 101 KiB packed, and nothing of the service', () => {
    const installed = readdirSync(path.join(project, 'node_modules')).filter((name) => !name.startsWith('.'))
    expect(installed.toSorted()).toEqual(['@noble', 'agent-network', 'commander'])
    const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
    expect(statSync(path.join(folder, tarball)).size).toBeLessThan(101 * 1024)
    const index = readFileSync(
      path.join(project, 'node_modules/agent-network/dist/types/client/index.d.ts'),
      'utf8',
    )
    expect(index).not.toContain('zod')
  })

  it('loads no miner for whoever only reads and writes', () => {
    const dist = path.join(project, 'node_modules/agent-network/dist')
    const loaded = new Set<string>()
    const load = (name: string): void => {
      if (loaded.has(name)) return
      loaded.add(name)
      const text = readFileSync(path.join(dist, name), 'utf8')
      for (const [, other = ''] of text.matchAll(/(?:from|import) ?"\.\/([^"]+)"/g)) load(other)
    }
    for (const entry of ['index.js', 'platform.js']) load(entry)
    const miner = [...loaded].filter((name) =>
      /WebAssembly|Worker\(|#threads/.test(readFileSync(path.join(dist, name), 'utf8')),
    )
    expect(miner).toEqual([])
  })

  it('compiles with tsc --strict, registers, posts, and verifies the receipt', async () => {
    await succeed(compile())
    expect(await succeed(inProject('node', ['program.js', market.url, pubkey]))).toBe(
      'no_such_post good good\n',
    )
  })

  it.each(['20', '22', '24'])('does so on Node %s', async (version) => {
    await succeed(compile())
    const home = path.join(folder, `node-${version}`)
    mkdirSync(home)
    await succeed(
      runProgram('npm', ['install', '--silent', `node@${version}`], { cwd: home, limitMs: 300_000 }),
    )
    const node = path.join(home, 'node_modules/.bin/node')
    expect(await succeed(inProject(node, ['program.js', market.url, pubkey]))).toContain(
      'no_such_post good good\n',
    )
  })

  it('is the whole command: npx agent-network registers, posts, and verifies the receipt', async () => {
    const agent = async (...words: string[]) => {
      const { code, output } = await inProject('npx', [
        '--offline',
        'agent-network',
        ...words,
        '--json',
        '--url',
        market.url,
      ])
      return { code, ...(JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, unknown>) }
    }
    expect(await agent('register', '--handle', 'shell')).toMatchObject({ code: 0, ok: true })
    expect(await agent('invoice', 'pow')).toMatchObject({ code: 0, credited_days: 1 })
    const { id } = (await agent('post', 'from npx')) as { id?: string }
    let receipt: Record<string, unknown>
    do receipt = await agent('receipt', String(id), '--pubkey', pubkey)
    while (receipt['binding'] !== true)
    expect(receipt).toMatchObject({ code: 0, ok: true, binding: true })
  })
})

const PYTHON_PROGRAM = `
import asyncio, sys, time
from agent_network import (AsyncClient, Client, Refusal, Trust, load_identity, mine_days, mine_shares, open_from, read_sealed,
                           register_agent, save_identity, seal_for, send_sealed, verify_receipt)

def main():
    base_url, pubkey = sys.argv[1:]
    open_client = Client(base_url)
    trust = Trust("seals.json", [pubkey])
    agents = []
    for name in ("ada", "bob"):
        register_agent(open_client, handle=name, on_identity=lambda identity: save_identity(name + ".json", identity))
        identity = load_identity(name + ".json")
        agents.append((open_client.with_token(identity["token"]), identity))
    (ada, ada_id), (bob, bob_id) = agents
    mine_days(ada); mine_days(bob)
    topic = f"python-{sys.version_info.minor}"
    post_id = ada.post(body="from Python", topic=topic)["id"]
    assert post_id in [post["id"] for post in open_client.feed(topic=topic)["posts"]]
    while (verified := verify_receipt(ada, post_id, trust)).verdict == "not_binding":
        time.sleep(0.1)
    print(verified.verdict, verify_receipt(ada, post_id, Trust("first-use.json")).verdict)
    seal_options = {"trust": trust, "pin_dir": "ada.keys"}
    send_sealed(ada, ada_id, bob_id["agent_id"], "sealed in Python", **seal_options)
    [message] = read_sealed(bob, bob_id, "bob.keys", trust=trust)
    print(message["text"], message["sender_key"])
    box = seal_for(ada, ada_id, bob_id["agent_id"], "a delivery", order_id="mkt_1", **seal_options)
    print(open_from(bob, bob_id, ada_id["agent_id"], box, "bob.keys", order_id="mkt_1"),
          "problem" in open_from(bob, bob_id, ada_id["agent_id"], box, "bob.keys", order_id="mkt_2"))
    offer = ada.make_offer(title="t", description="d", price_usd=2, delivery_hours=24, payout_addresses={"xno": "${ADDRESSES.xno}"})
    order = bob.place_order(offer_id=offer["offer_id"], currency="xno")
    print(order["order"]["status"], ada.orders()["orders"][0]["role"])
    assert len(set(mine_shares("a" * 32, 12, 3))) == 3
    try:
        bob.deliver(order_id=order["order_id"], delivery="x")
    except Refusal as error:
        print(error.status, error.error)
    print(asyncio.run(AsyncClient(base_url, bob_id["token"]).me())["agent_id"] == bob_id["agent_id"])

if __name__ == "__main__":
    main()
`

const PYTHON_FIRST = `
import sys, time
from agent_network import Client, Trust, mine_days, register_agent, verify_receipt

if __name__ == "__main__":
    client = Client(sys.argv[1])
    agent = client.with_token(register_agent(client, handle="first")["token"])
    mine_days(agent)
    post_id = agent.post(body="first")["id"]
    while (verified := verify_receipt(agent, post_id, Trust("seals.json", [sys.argv[2]]))).verdict == "not_binding":
        time.sleep(0.1)
    print(verified.verdict)
`

const missingPython = whyNoPython()

describe.skipIf(missingPython !== undefined)('the Python package, installed into a fresh environment', () => {
  const use = async (interpreter: string) => {
    const home = path.join(folder, path.basename(interpreter))
    cpSync(path.join(ROOT, 'client/python'), path.join(home, 'source'), { recursive: true })
    const limitMs = 180_000
    await succeed(runProgram(interpreter, ['-m', 'venv', path.join(home, 'venv')], { limitMs }))
    const python = path.join(home, 'venv/bin/python')
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check']
    await succeed(runProgram(python, [...pip, path.join(home, 'source')], { cwd: home, limitMs }))
    writeFileSync(path.join(home, 'program.py'), PYTHON_PROGRAM)
    const ran = await succeed(runProgram(python, ['program.py', market.url, pubkey], { cwd: home, limitMs }))
    // The verifier says how far it is if it takes more than two seconds.
    return ran
      .trim()
      .split('\n')
      .filter((line) => !line.startsWith('... '))
  }
  const ALL_WELL = [
    'good good',
    'sealed in Python pinned',
    "{'text': 'a delivery', 'sender_key': 'pinned'} True",
    'awaiting_payment seller',
    '403 not_yours',
    'True',
  ]

  it('registers, mines, posts, verifies, seals and trades', async () => {
    expect(await use('python3')).toEqual(ALL_WELL)
  }, 600_000)

  it.each(['3.10', '3.11', '3.12', '3.13', '3.14'])(
    'does so on Python %s, if that is here',
    async (version) => {
      const { code } = await runProgram(`python${version}`, ['-c', 'import venv, ensurepip'], {
        limitMs: PATIENCE_MS,
      })
      if (code === 0) expect(await use(`python${version}`)).toEqual(ALL_WELL)
      else console.info(`not checked on Python ${version}: it is not here`)
    },
    600_000,
  )
})

describe('an agent that knows only the base URL and reads only what is served', () => {
  // Days are bought here, by work and by coin, as most of the guide is about.
  let paid: TestMarket
  let paidSealing: Promise<void> = Promise.resolve()
  let paidStopped = false
  let paidPubkey = ''
  beforeAll(async () => {
    paid = await startMarket()
    const keyFile = path.join(mkdtempSync(path.join(folder, 'paid-')), 'seal-key')
    ensureSealKey(keyFile)
    paidPubkey = keyToHex(ed25519PublicKey(readSealKey(keyFile) ?? new Uint8Array()))
    paidSealing = sealOnAndOn(paid.ctx, keyFile, () => paidStopped)
  })
  afterAll(async () => {
    paidStopped = true
    await paidSealing
    await paid?.stop()
  })

  it.skipIf(missingPython !== undefined)(
    'does everything of /llms.txt, messages and deliveries included, and guesses nothing',
    async () => {
      const cwd = path.join(folder, 'stranger')
      mkdirSync(cwd)
      const python = await preparePythonProgram('pynacl', '1.6.2', 'python')
      const script = [path.join(ROOT, 'test/interop/stranger.py'), paid.url, paidPubkey]
      let output = ''
      const told = await succeed(
        runProgram(python, [...script, path.join(ROOT, 'client/python/agent_network')], {
          cwd,
          env: { ...process.env, ADDRESS: ADDRESSES.xno },
          limitMs: 300_000,
          onOutput(text) {
            output += text
            const [line, invoice] = /^pay (.*)\n/m.exec(output) ?? []
            if (line === undefined || invoice === undefined) return
            output = output.replace(line, '')
            const { amountRaw, ...order } = JSON.parse(invoice) as Record<
              'id' | 'invoiceId' | 'amountRaw',
              string
            >
            void paid.payPercent({ ...order, coin: 'xno', amountRaw: BigInt(amountRaw) }, 100)
          },
        }),
      )
      expect(told).toMatch(/^verified$/m)
    },
    400_000,
  )
})

/* What a newcomer waits for: told, not judged, since a busy machine takes as long as it takes. */
describe('one line in an empty environment, up to the first verified receipt', () => {
  const time = async (title: string, line: string, cwd: string) => {
    const home = path.join(cwd, 'home')
    mkdirSync(home, { recursive: true })
    const from = performance.now()
    const told = await succeed(
      runProgram('sh', ['-c', line], { cwd, env: { PATH: OWN_PATH, HOME: home }, limitMs: 300_000 }),
    )
    console.info(
      `${title}: ${((performance.now() - from) / 1_000).toFixed(1)} s, ${told.trim().replaceAll('\n', ', ')}`,
    )
    expect(told).toContain('good')
  }
  const clock = `echo "at $(date +%s.%N | cut -c 6-14) s"`

  it('is through on Node', async () => {
    const cwd = path.join(folder, 'only-node')
    mkdirSync(cwd)
    writeFileSync(path.join(cwd, 'first.mjs'), stripTypeScriptTypes(PROGRAM))
    const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
    const install = `npm install --silent --no-audit --no-fund ../${tarball}`
    await time(
      'only Node',
      `${clock} && ${install} && ${clock} && node first.mjs ${market.url} ${pubkey} && ${clock}`,
      cwd,
    )
  }, 400_000)

  it.skipIf(missingPython !== undefined)(
    'is through on Python',
    async () => {
      const cwd = path.join(folder, 'only-python')
      mkdirSync(cwd)
      const source = path.join(cwd, 'source')
      cpSync(path.join(ROOT, 'client/python'), source, { recursive: true })
      const pip = 'python -m pip --quiet --no-input --disable-pip-version-check'
      await succeed(
        runProgram('sh', ['-c', `${pip.replace('python', 'python3')} wheel --no-deps -w . ./source`], {
          cwd,
          limitMs: 300_000,
        }),
      )
      rmSync(source, { recursive: true })
      writeFileSync(path.join(cwd, 'first.py'), PYTHON_FIRST)
      const install = `python3 -m venv venv && . venv/bin/activate && ${pip} install ./*.whl`
      await time(
        'only Python',
        `${clock} && ${install} && ${clock} && python first.py ${market.url} ${pubkey} && ${clock}`,
        cwd,
      )
    },
    400_000,
  )
})

describe('the build for browsers, in a page of another origin', () => {
  it('registers, posts and reads', async () => {
    const pages = await servePages()
    const browser = await chromium.launch({
      executablePath: findChromium(process.env),
      // Chromium's sandbox needs a user that is not root.
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    })
    try {
      const page = await browser.newPage()
      const said: string[] = []
      page.on('pageerror', (error) => said.push(error.message))
      await page.goto(pages.url)
      const result = await page.evaluate(`(${IN_PAGE})(${JSON.stringify(market.url)})`)
      expect([result, said]).toEqual([
        {
          topic: 'browsers',
          author: true,
          opened: 'sealed in a page',
          refused: 'no_such_post',
          document: 'agent-network',
        },
        [],
      ])
    } finally {
      await browser.close()
      await pages.close()
    }
  })

  // Text: what a page runs is not compiled as this file is.
  const IN_PAGE = `async (baseUrl) => {
    const net = await import('agent-network')
    const { mineDays } = await import('agent-network/miner')
    const open = net.createClient({ baseUrl })
    const { agent_id, token } = await net.registerAgent({ client: open, handle: 'page' })
    const { author_secret_key: secret_key, author_public_key: author_key } = net.newAuthorKeyPair()
    const plain = open.with({ token })
    await plain.updateProfile({ author_key })
    const client = plain.with({ author: { agent_id, secret_key } })
    await mineDays({ client, days: 1 })
    const { id } = await client.post({ body: 'from a page', topic: 'browsers' })
    const { posts } = await client.feed({ topic: 'browsers' })
    const [me, you] = [net.newDmKeyPair(), net.newDmKeyPair()]
    const purpose = { kind: 'message' }
    const box = net.sealBox({
      plaintext: 'sealed in a page',
      senderSecretKey: me.secretKey,
      senderId: agent_id,
      recipientPublicKey: you.publicKey,
      recipientId: 'agt_other',
      purpose,
    })
    const opened = net.openBox({
      box,
      purpose,
      recipientSecretKey: you.secretKey,
      recipientId: 'agt_other',
      senderPublicKey: me.publicKey,
      senderId: agent_id,
    })
    const refused = await client
      .readPost('pst_none')
      .catch((error) => error.error)
    return {
      topic: posts.find((post) => post.id === id)?.topic,
      author: posts[0]?.author !== undefined,
      opened: new TextDecoder().decode(opened),
      refused,
      document: (await client.openApi()).info.title,
    }
  }`

  /** A page with an import map, and what was installed, as a site without a bundler would have it. */
  async function servePages(): Promise<{ url: string; close(): Promise<void> }> {
    const noble = ['ciphers', 'curves', 'hashes'].map((name) => [`@noble/${name}/`, `/@noble/${name}/`])
    const imports = Object.fromEntries([
      ['agent-network', '/agent-network/dist/browser.js'],
      ['agent-network/miner', '/agent-network/dist/mine.js'],
      ['#platform', '/agent-network/dist/platform-browser.js'],
      ['#threads', '/agent-network/dist/threads-browser.js'],
      ['@noble/ed25519', '/@noble/ed25519/index.js'],
      ...noble,
    ]) as Record<string, string>
    const html = `<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script>`
    const server = createServer((req, res) => {
      const file = path.join(project, 'node_modules', req.url ?? '')
      const isScript = file.endsWith('.js')
      res.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html')
      res.end(isScript ? readFileSync(file) : html)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return {
      url: `http://localhost:${(server.address() as AddressInfo).port}/`,
      close: () => new Promise((resolve) => void server.close(() => resolve())),
    }
  }
})
