import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { buildChain, makeEntry, SEAL_KEY, type LedgerChain } from '../support/ledger-chain.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/* A service that is busy, slow, or breaks off: what was verified is not verified again. */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const SEALS = 40
const PER_SEAL = 20
const CHAIN = buildChain(Array<number>(SEALS).fill(PER_SEAL), 0, { loggedFrom: 1 })

const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
afterAll(() => python?.stop())
const verifiers: [string, Verify][] = [
  ['node', verifyInNode],
  ...(python === undefined ? [] : [['python', python.verify] as [string, Verify]]),
]

/** Answers a page of entries; false to leave it to the service. */
type Hinder = (from: number, limit: number, response: ServerResponse) => boolean

describe.each(verifiers)('a check of a service in %s', (_name, verify) => {
  let folder: string
  let server: Server
  let url: string
  let shown: Seal[]
  let served: LedgerChain
  let hinder: Hinder
  let asked: { from: number; limit: number }[]
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'resuming-'))
    served = CHAIN
    shown = CHAIN.seals
    hinder = () => false
    asked = []
    server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
      const limit = Number(searchParams.get('limit'))
      const json = (body: object) => response.writeHead(200).end(JSON.stringify(body))
      if (pathname === '/seal') {
        const after = Number(searchParams.get('after_seq'))
        return void json({ seals: shown.filter(({ seq }) => seq > after).slice(0, limit) })
      }
      if (pathname !== '/api/v1/ledger') return void response.writeHead(404).end('{}')
      const from = Number(searchParams.get('from_id'))
      asked.push({ from, limit })
      if (!hinder(from, limit, response)) json({ entries: served.entries.slice(from - 1, from - 1 + limit) })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterEach(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    rmSync(folder, { recursive: true })
  })
  const state = () => join(folder, 'state.json')
  const check = async (...args: string[]) =>
    readReport(
      await verify([
        url,
        ...['--state', state(), '--pubkey', PUBKEY, '--max-age', String(2 ** 40), '--json'],
        ...args,
      ]),
    )
  /** Gives 100 entries at a time. */
  const inPages: Hinder = (from, _limit, response) => {
    response.writeHead(200).end(JSON.stringify({ entries: served.entries.slice(from - 1, from + 99) }))
    return true
  }
  const refuse = (response: ServerResponse, headers = {}) => {
    response.writeHead(503, headers).end('{}')
    return true
  }

  it('--max-seals bounds what one check reads, not how long a service may live', async () => {
    for (const seen of [15, 30]) {
      expect(await check('--max-seals', '15')).toMatchObject({
        code: 2,
        error: 'too_long',
        message:
          'there are more than 15 seals to check (--max-seals); the next check goes on from the last signed seal that was checked',
      })
      expect(JSON.parse(readFileSync(state(), 'utf8'))).toMatchObject({ [url]: { seq: seen } })
    }
    expect(await check('--max-seals', '15')).toMatchObject({ code: 0, resumed_at: 30, seals: SEALS })
    expect(await check('--max-seals', '0')).toMatchObject({ code: 0, resumed_at: SEALS })
    expect(await check('--max-seals', '15', '--full')).toMatchObject({ code: 2, error: 'too_long' })
  })

  it('goes on from the last signed seal whose entries it has checked, whatever broke it off', async () => {
    hinder = (from, limit, response) =>
      from > 400 ? (response.destroy(), true) : inPages(from, limit, response)
    expect(await check()).toMatchObject({ code: 2, error: 'unreachable' })
    expect(JSON.parse(readFileSync(state(), 'utf8'))[url].seq).toBe(20)
    hinder = inPages
    asked = []
    const went = await check()
    expect(went).toMatchObject({ code: 0, resumed_at: 20, remembered_seq: 20, entries_read: 400 })
    expect(asked[0]?.from).toBe(401)
    // Nothing of a chain that does not hold is kept.
    rmSync(state())
    shown = CHAIN.seals.map((seal) => (seal.seq === 1 ? { ...seal, at: seal.at + 1 } : seal))
    hinder = (from, limit, response) =>
      from > 400 ? (response.destroy(), true) : inPages(from, limit, response)
    expect((await check()).code).toBe(2)
    expect(() => readFileSync(state())).toThrow('ENOENT')
  })

  it('never forgets what it knew, if a check of everything breaks off sooner', async () => {
    hinder = inPages
    expect((await check()).code).toBe(0)
    const known = readFileSync(state(), 'utf8')
    hinder = (from, limit, response) =>
      from > 400 ? (response.destroy(), true) : inPages(from, limit, response)
    expect((await check('--full')).code).toBe(2)
    expect(readFileSync(state(), 'utf8')).toBe(known)
  })

  it('goes on from what another check has seen meanwhile, and finds that it was shown another history', async () => {
    const fork = buildChain(Array<number>(SEALS).fill(PER_SEAL), 0, {
      loggedFrom: 1,
      entry: (id) => (id === 3 ? { ...makeEntry(3), kind: 'claim' } : undefined),
    })
    let isOther = true
    hinder = (from, _limit, response) => {
      const answer = () => inPages(from, 100, response)
      if (!isOther) return answer()
      // Before the first answer, another check of the same service is shown the fork as a whole.
      isOther = false
      served = fork
      shown = fork.seals
      void verifyInNode([url, '--state', state(), '--pubkey', PUBKEY]).then(() => {
        served = CHAIN
        shown = CHAIN.seals
        answer()
      })
      return true
    }
    expect(await check()).toMatchObject({ code: 1, words: ['history_rewritten'] })
  })

  it('asks an overloaded service for half as much, and comes again when it says so', async () => {
    let refusals = 0
    hinder = (_from, limit, response) => limit > 200 && refuse(response, { 'retry-after': '0' })
    expect(await check()).toMatchObject({ code: 0, entries_read: SEALS * PER_SEAL })
    const limits = asked.map(({ limit }) => limit)
    expect(limits.slice(0, 7)).toEqual([10_000, 5_000, 2_500, 1_250, 625, 312, 156])
    expect(new Set(limits.slice(6))).toEqual(new Set([156]))
    rmSync(state())
    hinder = (_from, _limit, response) => refusals++ < 9 && refuse(response, { 'retry-after': '0' })
    expect((await check()).code).toBe(0)
    // A service that goes on refusing is not asked for ever.
    hinder = (_from, _limit, response) => refuse(response, { 'retry-after': '0' })
    expect(await check('--full')).toMatchObject({ code: 2, error: 'unreachable' })
    // And not waited for beyond the deadline.
    hinder = (_from, _limit, response) => refuse(response, { 'retry-after': '50' })
    expect(await check('--full', '--deadline', '20')).toMatchObject({ code: 2, error: 'deadline' })
  })

  it('ends at its deadline, however slowly the service goes on answering, and then goes on', async () => {
    let pages = 0
    hinder = (from, _limit, response) => {
      pages++
      setTimeout(
        () => response.writeHead(200).end(JSON.stringify({ entries: CHAIN.entries.slice(from - 1, from) })),
        20,
      )
      return true
    }
    expect(await check('--deadline', '1')).toMatchObject({ code: 2, error: 'deadline' })
    expect(pages).toBeLessThan(SEALS * PER_SEAL)
    hinder = inPages
    expect(await check()).toMatchObject({ code: 0 })
  })
})
