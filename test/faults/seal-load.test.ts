import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { afterEach, describe, expect, it } from 'vitest'
import { startServers, type TemporaryServers } from '../../scripts/embedded/temporary.ts'
import { isOutage } from '../../shared/platform/database.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { openLedger, verifyLedger, verifyWholeLedger, type TestLedger } from '../support/ledger.ts'
import {
  canRunPythonVerifier,
  NODE_VERIFIER,
  PYTHON_VERIFIER,
  reportToKnower,
} from '../support/run-verifier.ts'

let ledger: TestLedger
let servers: TemporaryServers | undefined
afterEach(async () => {
  await ledger.stop()
  await servers?.stop()
  servers = undefined
})

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** What an outage ends is done again; anything else ends the test. @returns whether it was done */
async function ride(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    if (!isOutage(error)) throw error
    await pause(50)
    return false
  }
}

async function work(): Promise<void> {
  await sequencePending(ledger.ctx, { useLease: false, batchSize: 40, limitMs: 500 })
  await makeSeal(ledger.ctx, { useLease: false })
  await signSeals(ledger.ctx)
}

describe('a chain made under load', () => {
  it('of 200 seals is accepted by both verifiers', async () => {
    ledger = await openLedger()
    const written: string[] = []
    let writing = true
    const writers = Array.from({ length: 8 }, async () => {
      while (writing) {
        written.push(...(await ledger.write(2)))
        await pause(20)
      }
    })
    for (let seals = 0; seals < 200; seals = (await ledger.ctx.seals.last())?._id ?? 0) await work()
    writing = false
    await Promise.all(writers)
    await ledger.seal()
    const { entries, seals } = await verifyWholeLedger(ledger.ctx, written)
    expect(seals.length).toBeGreaterThanOrEqual(200)
    const folder = path.dirname(ledger.keyFile)
    const dump = path.join(folder, 'dump.json')
    fs.writeFileSync(dump, JSON.stringify({ entries, seals }))
    for (const verifier of canRunPythonVerifier() ? [NODE_VERIFIER, PYTHON_VERIFIER] : [NODE_VERIFIER]) {
      expect(await reportToKnower(verifier, [dump], folder)).toMatchObject({
        ok: true,
        code: 0,
        seals: seals.length,
        signed: seals.length,
        entries_sealed: entries.length,
      })
    }
  }, 180_000)
})

describe('a MongoDB that steps down again and again', () => {
  it('loses no entry and breaks no chain, with four seal workers and 32 writers', async () => {
    servers = await startServers()
    const url = new URL(servers.mongod.url)
    url.pathname = '/stepdown'
    ledger = await openLedger({ mongodbUrl: url.href })
    const { ctx } = ledger
    const acknowledged: string[] = []
    let working = true
    const writers = Array.from({ length: 32 }, async () => {
      while (working) {
        await ride(async () => acknowledged.push(...(await ledger.write(2))))
        await pause(100)
      }
    })
    const workers = Array.from({ length: 4 }, async () => {
      while (working) await ride(work)
    })
    const admin = await new mongoose.mongo.MongoClient(
      `mongodb://127.0.0.1:${servers.mongod.port}/?directConnection=true`,
    ).connect()
    let outages = 0
    for (let round = 0; round < 5; round++) {
      await pause(2_000)
      // It steps up again by itself, being the only member; the command's own connection may be cut.
      await admin
        .db('admin')
        .command({ replSetStepDown: 1, force: true })
        .catch((error: unknown) => (isOutage(error) ? undefined : Promise.reject(error)))
      outages++
      while (!(await ride(() => verifyLedger(ctx, [...acknowledged], true)))) await pause(200)
    }
    working = false
    await Promise.all([...writers, ...workers])
    await admin.close()
    while (!(await ride(() => ledger.seal()))) await pause(200)
    const stored = (await ctx.posts.models.posts.find({}, { _id: 1 }).lean<{ _id: string }[]>()).map(
      ({ _id }) => _id,
    )
    const { seals } = await verifyWholeLedger(ctx, stored)
    const kept = new Set(stored)
    expect(acknowledged.filter((id) => !kept.has(id))).toEqual([])
    expect([outages, seals.length > 3, acknowledged.length > 100]).toEqual([5, true, true])
  }, 180_000)
})
