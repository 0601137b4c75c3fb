import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { sweepNano } from '../support/nano-jobs.ts'
import { FULL } from '../support/full.ts'
import { runVerb } from '../support/run-verb.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { closeContext, type Context } from '../../shared/context.ts'
import { enqueueSigning } from '../../shared/ledger/seal-service.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { readMemory } from '../../shared/ledger/seal-memory.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { createNanoKeys } from '../../shared/money/coins/nano/nano-keys.ts'
import { KEY_LEASES, LeaseLost, type KeyHost } from '../../shared/platform/lease-store.ts'
import { guardTransactions, keyOf, serveWithKey } from '../../workers/keyed-queues.ts'
import { openLedger, openWorkerContext, verifyWholeLedger, type SignerContext } from '../support/ledger.ts'
import { openNanoVenue, strangerAddress, XNO, type NanoVenue } from '../support/nano-venue.ts'
import { startWorkersProcess, type RunningProcess } from '../support/processes.ts'

const LIMIT = { limitMs: 90_000, everyMs: 100 }
const WALLET_QUEUES = 'fill-nano,sweep-nano,send-nano,reconcile-nano'
/** A host whose clock is an hour ahead. */
const HOUR_AHEAD = {
  NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent('const now = Date.now; Date.now = () => now() + 3600000')}`,
}

let venue: NanoVenue
let folder: string
const hosts: RunningProcess[] = []

beforeAll(async () => {
  venue = await openNanoVenue({ env: { PAYMENT_POLL_SECONDS: '1' } })
})
beforeEach(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'key-leases-'))
  await venue.reset()
})
afterEach(async () => {
  for (const host of hosts.splice(0)) {
    host.kill('SIGCONT')
    host.kill('SIGKILL')
    await host.ended
  }
  fs.rmSync(folder, { recursive: true })
})
afterAll(() => venue?.stop())

/** A host with a data folder of its own, and in it a seed. */
async function startWallet(seed: string, env: Record<string, string> = {}): Promise<RunningProcess> {
  const own = fs.mkdtempSync(path.join(folder, 'host-'))
  const seedFile = path.join(own, 'seed')
  fs.writeFileSync(seedFile, seed, { mode: 0o600 })
  const host = await startWorkersProcess({ ...venue.env, NANO_SEED_FILE: seedFile, DATA_DIR: own, ...env }, [
    '--queues',
    WALLET_QUEUES,
  ])
  hosts.push(host)
  return host
}

const seedOfVenue = (): string => fs.readFileSync(venue.env['NANO_SEED_FILE'] ?? '', 'utf8')

/** Waits until a process is in this state. @returns how long that took, in ms */
async function whenIs(ctx: Context, { pid }: RunningProcess, state: KeyHost['state']): Promise<number> {
  const startedAt = performance.now()
  const isSo = async (): Promise<true | undefined> =>
    (await ctx.leases.listHosts()).some(
      (found) => found.state === state && found.host.includes(`process ${pid})`),
    ) || undefined
  await waitFor(`a host that is ${state}`, isSo, LIMIT)
  return performance.now() - startedAt
}

const whenPaid = (payoutId: string) =>
  waitFor(
    'a payout that is confirmed',
    async () => ((await venue.payout(payoutId)).state === 'confirmed' ? true : undefined),
    LIMIT,
  )

async function operator(...argv: string[]) {
  const { exitCode, json: answer } = await runVerb(venue.env, argv)
  return { exitCode, answer }
}

const candidate = (id: string) => ({
  lease: KEY_LEASES.xno,
  id,
  host: id,
  publicName: venue.wallet.treasury.address,
  session: venue.ctx.database.openSession(),
})
const countOf = (host: RunningProcess, part: string): number => host.logged().split(part).length - 1
const fill = async (amountRaw: bigint) => {
  venue.pay(venue.wallet.treasury, amountRaw)
  await sweepNano(venue.ctx)
}
const sentTo = (address: string): bigint => venue.holds(address).receivableRaw

describe('of two hosts with one seed', () => {
  it.runIf(FULL)(
    'one works and the other waits, whatever its clock says, and takes over within seconds of the death of the first',
    async () => {
      await fill(10n * XNO)
      const first = await startWallet(seedOfVenue())
      await whenIs(venue.ctx, first, 'held')
      const second = await startWallet(seedOfVenue(), HOUR_AHEAD)
      await whenIs(venue.ctx, second, 'waiting')
      const before = await venue.owe(XNO, strangerAddress())
      await whenPaid(before._id)
      const highest = await venue.ctx.coins.addresses.highestIndex('xno')
      // Several rounds of both.
      for (let round = 0; round < 3; round++) await whenPaid((await venue.owe(XNO, strangerAddress()))._id)
      // On a machine that is held up for seconds the lease may change hands: each time addresses are left out once, and said once.
      const losses = countOf(first, 'no more') + countOf(second, 'no more')
      expect(await venue.ctx.coins.addresses.highestIndex('xno')).toBeLessThanOrEqual(
        highest + losses * 1_000,
      )
      expect(countOf(second, 'this one waits, and takes over')).toBe(1 + countOf(second, 'no more'))
      expect((await operator('status', '--wait', '20')).answer['keys']).toContainEqual(
        expect.objectContaining({ key: 'xno wallet', state: 'waiting' }),
      )
      first.kill('SIGKILL')
      const tookMs = await whenIs(venue.ctx, second, 'held')
      console.info(`taken over ${Math.round(tookMs)} ms after a SIGKILL`)
      const payee = strangerAddress()
      await whenPaid((await venue.owe(XNO, payee))._id)
      expect(sentTo(payee)).toBe(XNO)
      expect((await venue.ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
    },
  )

  it.runIf(FULL)(
    'one that was stopped and goes on after the other has taken over pays nothing a second time',
    async () => {
      await fill(20n * XNO)
      const first = await startWallet(seedOfVenue())
      await whenIs(venue.ctx, first, 'held')
      const second = await startWallet(seedOfVenue())
      await whenIs(venue.ctx, second, 'waiting')
      const payees = Array.from({ length: 6 }, () => strangerAddress())
      const owed = await Promise.all(payees.map((payee) => venue.owe(XNO, payee)))
      first.kill('SIGSTOP')
      await whenIs(venue.ctx, second, 'held')
      first.kill('SIGCONT')
      await first.waitForLine('has the xno wallet no more')
      for (const { _id } of owed) await whenPaid(_id)
      expect(payees.map(sentTo)).toEqual(payees.map(() => XNO))
      await whenIs(venue.ctx, first, 'waiting')
      expect((await venue.ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
    },
  )

  it('the one that has lost the lease stores nothing, also if that happens in the midst of a transaction', async () => {
    const { ctx } = venue
    const first = candidate('first')
    const claim = await ctx.leases.claim(first)
    if (claim.state !== 'held') throw new Error('nobody else is there')
    const guarded = guardTransactions(ctx, first, claim.fence)
    const at = 1
    const halt = (reason: string, meanwhile: () => Promise<unknown> = () => Promise.resolve()) =>
      guarded.database.transaction(async (session) => {
        await ctx.coins.halt('xno', at, reason, session)
        await meanwhile()
      })
    const takeOver = async () => {
      await ctx.leases.models.leases.updateOne({ _id: KEY_LEASES.xno }, { $set: { until: new Date(0) } })
      expect(await ctx.leases.claim(candidate('second'))).toEqual({ state: 'held', fence: claim.fence + 1 })
    }
    await expect(halt('in the midst', takeOver)).rejects.toBeInstanceOf(LeaseLost)
    await expect(halt('after it')).rejects.toBeInstanceOf(LeaseLost)
    // It is not told of what the next holder has stored in its way.
    const meeting = guarded.database.transaction(() => Promise.reject(new Error('a duplicate key')))
    await expect(meeting).rejects.toBeInstanceOf(LeaseLost)
    expect((await ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
  })
})

describe('the lease of a process that was stopped while it committed', () => {
  it.runIf(FULL)('is taken over all the same, and what it was committing is not stored', async () => {
    const { ctx } = venue
    const [stopped, next] = [candidate('stopped'), candidate('next')]
    const claim = await ctx.leases.claim(stopped)
    if (claim.state !== 'held') throw new Error('nobody else is there')
    stopped.session.startTransaction()
    await ctx.coins.halt('xno', 1, 'of the stopped one', stopped.session)
    await ctx.leases.expectFence(stopped, claim.fence, stopped.session)
    await waitFor(
      'the next holder',
      async () => {
        const { state } = await ctx.leases.claim(next).catch(() => ({ state: 'waiting' }))
        return state === 'held' ? true : undefined
      },
      LIMIT,
    )
    await expect(stopped.session.commitTransaction()).rejects.toThrow('has been aborted')
    expect((await ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
  })
})

describe('a host with another seed', () => {
  it.runIf(FULL)('refuses itself and disturbs nobody, until the operator names its treasury', async () => {
    await fill(10n * XNO)
    const right = await startWallet(seedOfVenue())
    await whenIs(venue.ctx, right, 'held')
    const otherSeed = randomBytes(32).toString('hex')
    const other = createNanoKeys(otherSeed).deriveAccount(0).address
    const stray = await startWallet(otherSeed)
    await whenIs(venue.ctx, stray, 'refused')
    for (let round = 0; round < 3; round++) await whenPaid((await venue.owe(XNO, strangerAddress()))._id)
    expect((await venue.ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
    const { answer } = await operator('status', '--wait', '20')
    expect(answer['findings']).toContainEqual(
      expect.objectContaining({ kind: 'key_refused', why: expect.stringContaining(other) as string }),
    )
    const known = venue.wallet.treasury.address
    /** However long it takes; the operator is told after 45 s to look again. */
    const reconcile = async (treasury: string, ...words: string[]) => {
      await operator('reconcile', 'xno', ...words)
      await waitFor(
        'the reconciliation',
        async () => {
          const last = await venue.ctx.journal.reconciliations.last('xno')
          return last?.treasury === treasury && last.treasury_before === known ? true : undefined
        },
        LIMIT,
      )
    }
    await reconcile(known)
    expect(await operator('reconcile', 'xno', '--take-over', strangerAddress())).toMatchObject({
      exitCode: 1,
      answer: { error: 'wrong_state', message: expect.stringContaining(other) as string },
    })
    await reconcile(other, '--take-over', other)
    await whenIs(venue.ctx, stray, 'held')
    await whenIs(venue.ctx, right, 'refused')
    expect(await venue.ctx.coins.findCoin('xno')).toMatchObject({ treasury_address: other })
  })
})

describe('of two hosts with one seal key', () => {
  it('the one that waits remembers what the other signs and signs on when that one stops; one with another key is refused', async () => {
    const ledger = await openLedger()
    const key = keyOf('sign-seals') ?? expect.fail('signing needs no key')
    const running: { close(): Promise<void> }[] = []
    const startHost = async (makeKey: (keyFile: string) => void) => {
      const own = fs.mkdtempSync(path.join(folder, 'host-'))
      const [keyFile, memoryFile] = [path.join(own, 'seal-key'), path.join(own, 'seal-memory')]
      fs.copyFileSync(ledger.memoryFile, memoryFile)
      makeKey(keyFile)
      const env = { ...ledger.env, SEAL_KEY_FILE: keyFile, SEAL_MEMORY_FILE: memoryFile, DATA_DIR: own }
      const ctx = await openWorkerContext(env)
      let serving: SignerContext | undefined
      const served = serveWithKey(ctx, key, (guarded) => {
        serving = guarded
        return { close: () => Promise.resolve((serving = undefined)) }
      })
      const host = {
        whenServing: () => waitFor('a host that serves', () => serving, LIMIT),
        isServing: () => serving !== undefined,
        remembers: () => readMemory(memoryFile)?.seq,
        async close() {
          running.splice(running.indexOf(host), 1)
          await served.close()
          await closeContext(ctx)
        },
      }
      running.push(host)
      return host
    }
    const states = async () => (await ledger.ctx.leases.listHosts()).map(({ state }) => state).sort()
    const whenThere = (state: KeyHost['state']) =>
      waitFor(`a host that is ${state}`, async () => (await states()).includes(state) || undefined, LIMIT)
    const copyKey = (keyFile: string) => fs.copyFileSync(ledger.keyFile, keyFile)
    const written: string[] = []
    const sealAndSign = async (signer: SignerContext) => {
      written.push(...(await ledger.write(2)))
      await sequencePending(ledger.ctx)
      await makeSeal(ledger.ctx)
      await signSeals(signer)
    }
    try {
      await sealAndSign(ledger.ctx)
      const first = await startHost(copyKey)
      const signer = await first.whenServing()
      const second = await startHost(copyKey)
      await whenThere('waiting')
      const other = await startHost((keyFile) => ensureSealKey(keyFile))
      await whenThere('refused')
      for (let round = 0; round < 2; round++) await sealAndSign(signer)
      await waitFor('the memory of the one that waits', () => second.remembers() === 3 || undefined, LIMIT)
      await first.close()
      await sealAndSign(await second.whenServing())
      expect([other.isServing(), await states()]).toEqual([false, ['held', 'refused']])
      expect((await ledger.ctx.seals.lastSigned())?._id).toBe(4)
      await verifyWholeLedger(ledger.ctx, written)
    } finally {
      for (const host of running.toReversed()) await host.close()
      await ledger.stop()
    }
  })

  it.runIf(FULL)(
    'the one that waits remembers what the other signs, and signs on when that one dies',
    async () => {
      const ledger = await openLedger()
      const startSigner = async () => {
        const own = fs.mkdtempSync(path.join(folder, 'host-'))
        const [keyFile, memoryFile] = [path.join(own, 'seal-key'), path.join(own, 'seal-memory')]
        fs.copyFileSync(ledger.keyFile, keyFile)
        fs.copyFileSync(ledger.memoryFile, memoryFile)
        const env = { ...ledger.env, SEAL_KEY_FILE: keyFile, SEAL_MEMORY_FILE: memoryFile, DATA_DIR: own }
        const host = await startWorkersProcess(env, ['--queues', 'sign-seals'])
        hosts.push(host)
        return host
      }
      const written: string[] = []
      const sealOne = async () => {
        written.push(...(await ledger.write(2)))
        await sequencePending(ledger.ctx)
        await makeSeal(ledger.ctx)
        // Asked for again at each look, as the ledger's pool does: while a job is ending, no second one is taken.
        const isSigned = async (): Promise<true | undefined> => {
          await enqueueSigning(ledger.ctx)
          return (await ledger.ctx.seals.listUnsigned(1)).length === 0 ? true : undefined
        }
        await waitFor('a signature', isSigned, LIMIT)
      }
      try {
        const first = await startSigner()
        await whenIs(ledger.ctx, first, 'held')
        const second = await startSigner()
        await whenIs(ledger.ctx, second, 'waiting')
        for (let round = 0; round < 3; round++) await sealOne()
        first.kill('SIGKILL')
        await whenIs(ledger.ctx, second, 'held')
        await sealOne()
        await sealOne()
        expect((await ledger.ctx.seals.lastSigned())?._id).toBe(5)
        await verifyWholeLedger(ledger.ctx, written)
      } finally {
        for (const host of hosts) host.kill('SIGKILL')
        await ledger.stop()
      }
    },
  )
})
