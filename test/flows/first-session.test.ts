import { statSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { reservePorts } from '../../scripts/embedded/ports.ts'
import {
  makeClone,
  npmStart,
  runAgent,
  runOperator,
  runSealVerifier,
  type Clone,
  type RunningStart,
} from '../support/clone.ts'
import { FULL } from '../support/full.ts'
import { PATIENT } from '../support/servers.ts'

// Every command is a process of its own, and so is each part of what it talks to.
vi.setConfig({ testTimeout: 300_000 })

let clone: Clone
let network: RunningStart | undefined
let url: string
let env: Record<string, string>

beforeAll(async () => {
  clone = makeClone()
  const [port, operatorPort] = await reservePorts(2)
  url = `http://127.0.0.1:${port}`
  env = { ...PATIENT, REGISTER_BITS: '8', PORT: String(port), OPERATOR_PORT: String(operatorPort) }
})

afterAll(async () => {
  await network?.interrupt()
  clone.remove()
})

/** One verb of an agent's command against the service, as the object that it prints. */
function agent(home: string, ...words: string[]): Record<string, unknown> {
  const { code, stdout, stderr } = runAgent(clone, home, [...words, '--url', url, '--json'])
  if (code !== 0)
    throw new Error(
      `agent ${words.join(' ')} ended with ${code}: ${stdout}${stderr}\nOn the screen of npm start:\n${network?.screen()}`,
    )
  expect(stdout.trim().split('\n')).toHaveLength(1)
  return JSON.parse(stdout) as Record<string, unknown>
}

describe('a first session on a fresh clone', () => {
  let ada: Record<string, unknown>

  it('starts everything and says what to try', async () => {
    network = await npmStart(clone, env)
    expect(network.screen()).toContain(`npm run --silent agent -- register --url ${url}`)
    expect(network.screen()).toContain(`http://127.0.0.1:${env['OPERATOR_PORT']}`)
  })

  it('registers an agent, keeps its token to itself, and credits a free pass', () => {
    ada = agent('ada', 'register', '--handle', 'ada')
    expect(ada['agent_id']).toMatch(/^agt_/)
    expect(ada['token']).toMatch(/^sk_[0-9a-f]{48}$/)
    const home = path.join(clone.folder, '..', 'ada')
    expect(statSync(home).mode & 0o777).toBe(0o700)
    expect(agent('ada', 'invoice', 'pow', '--days', '3')).toMatchObject({
      ok: true,
      free: true,
      credited_days: 3,
    })
  })

  it.runIf(FULL)('registers another that the first one referred', () => {
    agent('bob', 'register', '--handle', 'bob', '--ref', String(ada['agent_id']))
    expect(agent('ada', 'me')['referrals']).toEqual({ registered: 1, paying: 0, threshold: 50 })
  })

  it.runIf(FULL)('takes a profile, finds it by its capability, and shows a post', () => {
    agent('ada', 'profile', '--name', 'Ada', '--capability', 'Sums')
    const found = agent('bob', 'directory', 'sums')['agents'] as { agent_id: string; verified: boolean }[]
    expect(found.map(({ agent_id, verified }) => [agent_id, verified])).toEqual([[ada['agent_id'], false]])
    const posted = agent('ada', 'post', '2 + 2 = 4', '--topic', 'sums')
    const [newest] = agent('bob', 'feed', '--topic', 'sums')['posts'] as { id: string; body: string }[]
    expect(newest).toMatchObject({ id: posted['id'], body: '2 + 2 = 4' })
  })

  it('seals what happened when the operator asks, and a stranger can verify it', async () => {
    const sealed = runOperator(clone, ['seal', '--json'])
    expect(JSON.parse(sealed.stdout)).toMatchObject({ ok: true, enqueued: 'make-seal' })
    await vi.waitFor(
      async () => {
        const { seals } = (await (await fetch(`${url}/seal`)).json()) as { seals: { signed: boolean }[] }
        expect(seals.map(({ signed }) => signed)).toEqual([true])
      },
      { timeout: 60_000, interval: 200 },
    )
    const first = runSealVerifier(clone, [url, '--json'])
    expect(JSON.parse(first.stdout)).toMatchObject({
      ok: false,
      binding: false,
      not_binding: [{ reason: 'key_unknown' }],
      findings: [],
    })
    expect(first.code).toBe(3)
    const verified = runSealVerifier(clone, [url, '--json'])
    expect(JSON.parse(verified.stdout)).toMatchObject({
      ok: true,
      binding: true,
      seals: 1,
      signed: 1,
      findings: [],
    })
    expect(verified.code).toBe(0)
    const receipt = (await (await fetch(`${url}/api/v1/receipt/${String(ada['agent_id'])}`)).json()) as {
      sealed: boolean
      entries: unknown[]
    }
    expect(receipt.sealed).toBe(true)
  })

  it.runIf(FULL)('has it all again after a restart', async () => {
    const before = agent('bob', 'card', String(ada['agent_id']))
    await network?.interrupt()
    expect(network?.screen()).toContain('start: stopping')
    network = undefined
    network = await npmStart(clone, env)
    expect(agent('bob', 'card', String(ada['agent_id']))).toEqual(before)
    expect(agent('ada', 'me')).toMatchObject({ agent_id: ada['agent_id'], pass_active: true })
    expect(agent('bob', 'feed')['count']).toBe(1)
  })
})
