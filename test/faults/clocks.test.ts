import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import {
  buildChain,
  receiptOver,
  SEAL_KEY,
  serveChain,
  sign,
  type LedgerChain,
  type LedgerServer,
} from '../support/ledger-chain.ts'
import { cosign, POLICY } from '../support/log-policies.ts'
import { consistencyOf, noteOf } from '../support/log-proofs.ts'
import { canRunPythonVerifier, PYTHON_VERIFIER, reportOf } from '../support/run-verifier.ts'

/*
 * Two clocks disagree, the reader's and the service's: a service whose clock is ahead looks to its reader as
 * any service looks to a reader whose clock is behind.
 */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const now = () => Math.floor(Date.now() / 1000)
const HOURS = 3_600
const SEALS = 26
/** A chain whose newest seal is as old as `aheadSeconds` ago, negative: of the time to come; one seal each 10 min. */
const chainAhead = (aheadSeconds: number, options = {}): LedgerChain =>
  buildChain(Array(SEALS).fill(2), 0, {
    at: now() + aheadSeconds - (SEALS - 1) * 600,
    ...options,
  })

describe.skipIf(!canRunPythonVerifier())('clocks that disagree (skipped if there is no python3)', () => {
  const folder = mkdtempSync(join(tmpdir(), 'clocks-'))
  const state = join(folder, 'state.json')
  const file = join(folder, 'file.json')
  let python: ReturnType<typeof startPythonVerifier>
  let server: LedgerServer

  beforeAll(async () => {
    python = startPythonVerifier()
    server = await serveChain(chainAhead(0))
  })
  beforeEach(() => {
    rmSync(state, { force: true })
    delete server.date
    server.note = undefined
  })
  afterAll(async () => {
    python.stop()
    await server.close()
    rmSync(folder, { recursive: true })
  })

  const both = () => [verifyInNode, python.verify]
  const check = async (verify: Verify, ...args: string[]) =>
    readReport(await verify([...args, '--state', state, '--json']))

  it('a reader whose clock is behind is told so, and accuses nobody', async () => {
    for (const verify of both())
      for (const more of [[], ['--pubkey', PUBKEY]]) {
        server.chain = chainAhead(2 * HOURS)
        server.date = now() + 2 * HOURS
        const report = await check(verify, server.url, ...more)
        expect(report).toMatchObject({ code: 2, verdict: 'unchecked', error: 'wrong_clock' })
        expect(report.message).toMatch(
          /^the newest seal is dated [0-9]+ by the service and this machine's clock says [0-9]+; this machine's clock is (119|120) min behind, or the service's Date and its seals are wrong together$/,
        )
        expect(existsSync(state), 'what cannot be checked is not remembered').toBe(false)
      }
  })

  it('a reader who comes back with a clock that went behind is told so too', async () => {
    for (const verify of both()) {
      rmSync(state, { force: true })
      const chain = chainAhead(0, { at: now() - 600 })
      server.chain = { ...chain, seals: chain.seals.slice(0, 2) }
      server.date = null
      expect(await check(verify, server.url)).toMatchObject({ code: 3, words: ['key_unknown'] })
      server.chain = chain
      server.date = now() + 4 * HOURS
      expect(await check(verify, server.url)).toMatchObject({ code: 2, error: 'wrong_clock' })
    }
  })

  it('seals that are later than the clock of their own service are one finding, with their number', async () => {
    for (const verify of both())
      for (const date of [now(), now() - HOURS, now() + HOURS]) {
        server.chain = chainAhead(2 * HOURS)
        server.date = date
        const report = await check(verify, server.url, '--pubkey', PUBKEY)
        expect(report).toMatchObject({ code: 1, words: ['from_the_future'], findings_total: 1 })
        expect(report.findings).toHaveLength(1)
        expect(report.findings?.[0]).toMatchObject({ where: `seal ${SEALS}` })
        expect(report.findings?.[0]?.message).toMatch(
          /the latest of 12 seals .*the service's own Date is [0-9]+$/,
        )
        expect(existsSync(state)).toBe(false)
      }
  })

  it('the Date of a service excuses nothing else', async () => {
    for (const verify of both()) {
      server.chain = chainAhead(2 * HOURS)
      const [first, second, ...rest] = server.chain.seals
      if (first?.signed !== true || second?.signed !== true) throw new Error('the first two are not signed')
      server.chain.seals = [{ ...first, signature: second.signature }, second, ...rest]
      server.date = now() + 2 * HOURS
      expect(await check(verify, server.url)).toMatchObject({
        code: 1,
        words: ['bad_signature', 'from_the_future'],
        findings_total: 2,
      })
    }
  })

  it('without a Date the one finding says that this clock may be behind', async () => {
    const hidden = (id: number) => ({
      ...{ id, at: 1, kind: id === 45 ? 'post' : 'hide' },
      data: { agent_id: 'agt_seller', post_id: 'pst_45' },
    })
    const chain = chainAhead(2 * HOURS, { entry: (id: number) => (id < 45 ? undefined : hidden(id)) })
    const receipt = receiptOver(chain, 'pst_45', [45, 47, 49, 51])
    for (const verify of both()) {
      server.chain = chain
      server.date = null
      const ends = [await check(verify, server.url)]
      for (const shown of [chain, receipt]) {
        writeFileSync(file, JSON.stringify(shown))
        ends.push(await check(verify, file))
      }
      for (const { findings = [], ...end } of ends) {
        expect(end).toMatchObject({ code: 1, words: ['from_the_future'], findings_total: 1 })
        expect(findings[0]?.where).toBe(`seal ${SEALS}`)
        expect(findings[0]?.message).toContain("or this machine's clock is behind")
      }
    }
  })

  it('a seal that is made while a long check goes on is not of the future', async () => {
    server.chain = chainAhead(350)
    const aheadAfterTwo = `import http.client, runpy, sys, time
asked, ask, clock = [], http.client.HTTPConnection.request, time.time
http.client.HTTPConnection.request = lambda *args, **more: (asked.append(1), ask(*args, **more))[1]
time.time = lambda: clock() + (400 if len(asked) > 1 else 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")`
    const [program, script] = PYTHON_VERIFIER
    const args = [server.url, '--pubkey', PUBKEY]
    expect(
      await reportOf([program, '-c', aheadAfterTwo, String(script)], [...args, '--state', state], folder),
    ).toMatchObject({ code: 0 })
    rmSync(state)
    server.requests = []
    const clock = Date.now
    const ahead = vi
      .spyOn(Date, 'now')
      .mockImplementation(() => clock() + (server.requests.length > 1 ? 400_000 : 0))
    try {
      expect(await check(verifyInNode, ...args)).toMatchObject({ code: 0 })
    } finally {
      ahead.mockRestore()
    }
  })

  it('a Date that is none is no Date', async () => {
    for (const verify of both()) {
      server.chain = chainAhead(2 * HOURS)
      server.date = Infinity
      expect(await check(verify, server.url)).toMatchObject({ code: 1, words: ['from_the_future'] })
    }
  })

  it('one seal of the future after many good ones is told by its number', async () => {
    for (const verify of both()) {
      server.chain = chainAhead(-60)
      const last = server.chain.seals.at(-1) as (typeof server.chain.seals)[number]
      server.chain.seals[SEALS - 1] = sign(last, SEAL_KEY, now() + 100 * 365 * 86_400)
      const { findings, ...end } = await check(verify, server.url)
      expect(end).toMatchObject({ code: 1, words: ['from_the_future'] })
      expect(findings?.[0]?.message).toMatch(/^is dated [0-9]+; this machine's clock says /)
    }
  })

  it('whose clock may be wrong is said of cosignatures of the future and of old seals too', async () => {
    const policy = join(folder, 'policy')
    writeFileSync(policy, POLICY.replace(/quorum .*/, 'quorum X1'))
    for (const verify of both()) {
      rmSync(state, { force: true })
      const chain = chainAhead(-2 * HOURS, { loggedFrom: 1 })
      const note = noteOf(chain)
      const text = note.slice(0, note.indexOf('\n\n') + 1)
      server.chain = chain
      server.note = `${note}${cosign(text, 'X1', now() + 2 * HOURS)}\n`
      server.consistency = consistencyOf
      const { not_binding: doubts = [], ...end } = await check(verify, server.url, '--policy', policy)
      expect(end).toMatchObject({ code: 3, words: ['quorum_not_met', 'stale'] })
      expect(doubts.find(({ reason }) => reason === 'quorum_not_met')?.message).toContain(
        "the time of X1 is after now, so its clock is ahead or this machine's is behind",
      )
      expect(doubts.find(({ reason }) => reason === 'stale')?.message).toContain(
        "this machine's clock is ahead",
      )
    }
  })
})
