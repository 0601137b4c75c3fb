import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { MINUTE_MS } from '../../shared/platform/time.ts'
import { ledgerFindings } from '../../shared/operation/ledger-findings.ts'
import { afterEach, describe, expect, it } from 'vitest'
import {
  formatCheckpoint,
  formatNote,
  formatVkey,
  parseNote,
  signNote,
  verifyCosignature,
  NOTE_KEY,
} from '../../shared/crypto/note.ts'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import { readSealKey } from '../../shared/ledger/seal-key.ts'
import { readCheckpoint, formatCosignedNote } from '../../shared/ledger/log-service.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { requestCosignatures } from '../../shared/ledger/witnesses.ts'
import { FULL, sampled } from '../support/full.ts'
import {
  openLedger,
  openWorkerContext,
  takeBackup,
  verifyWholeLedger,
  type TestLedger,
} from '../support/ledger.ts'
import { startWitness } from '../harness/testbed/witness.ts'
import { startWorkersProcess } from '../support/processes.ts'
import { closeContext } from '../../shared/context.ts'

const ORIGIN = 'agents.example/ledger'
const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function openWitnessed(): Promise<{
  ledger: TestLedger
  witness: Awaited<ReturnType<typeof startWitness>>
}> {
  const witness = await startWitness('witness.example/w1')
  const ledger = await openLedger({
    env: { WITNESSES: witness.setting, WITNESS_QUORUM: '1', LEDGER_ORIGIN: ORIGIN },
  })
  const secret = readSealKey(ledger.keyFile) ?? new Uint8Array(32)
  witness.trust({ name: ORIGIN, type: NOTE_KEY.signer, publicKey: ed25519PublicKey(secret) })
  closing.push(witness.stop, ledger.stop)
  return { ledger, witness }
}

const anomalies = async ({ ctx }: TestLedger) =>
  (await ctx.metrics.registry.metrics()).match(/anomalies_total\{kind="witness"\} (\d+)/)?.[1]

describe('witnesses from outside', () => {
  it('cosign each checkpoint, and their lines stand below it', async () => {
    const { ledger, witness } = await openWitnessed()
    const written: string[] = []
    for (const posts of [3, 300, 2]) {
      written.push(...(await ledger.write(posts)))
      await ledger.seal()
      await requestCosignatures(ledger.ctx, ledger.ctx.signing.witnesses)
      const { checkpoint } = await readCheckpoint(ledger.ctx)
      const note = parseNote(await formatCosignedNote(ledger.ctx.seals, checkpoint))
      expect(note.signatures).toHaveLength(2)
      const [, line] = note.signatures
      expect(line && verifyCosignature(note.text, line, witness.key)).toBeGreaterThan(1_700_000_000)
      expect(witness.seenSize()).toBe(checkpoint.size)
    }
    await verifyWholeLedger(ledger.ctx, written)
    // Another process begins with what the witness says.
    const other = await openWorkerContext(ledger.env)
    closing.push(() => closeContext(other))
    await ledger.write(1)
    await ledger.seal()
    await requestCosignatures(other, other.signing.witnesses)
    expect(witness.seenSize()).toBe((await readCheckpoint(ledger.ctx)).checkpoint.size)
    expect(await anomalies(ledger)).toBe('0')
  })

  it('are missed by the operator if fewer than WITNESS_QUORUM have cosigned, and hold up nothing', async () => {
    const { ledger } = await openWitnessed()
    const missed = async () =>
      (await ledgerFindings.read(ledger.ctx)).flatMap((finding) =>
        finding?.kind === 'log_unwitnessed' ? [finding.why] : [],
      )
    await ledger.write(3)
    await ledger.seal()
    expect(await missed()).toEqual([]) // it may still be asked
    ledger.advance(3 * MINUTE_MS)
    expect(await missed()).toEqual(['without a cosignature: witness.example/w1'])
    await requestCosignatures(ledger.ctx, ledger.ctx.signing.witnesses)
    expect(await missed()).toEqual([])
  })

  it('keep a host from signing that was restored as a whole, memory and database from one older copy', async () => {
    const { ledger, witness } = await openWitnessed()
    await ledger.write(3)
    await ledger.seal()
    await requestCosignatures(ledger.ctx, ledger.ctx.signing.witnesses)
    const restore = await takeBackup(ledger.ctx)
    const memory = fs.readFileSync(ledger.memoryFile)
    await ledger.write(3)
    await ledger.seal()
    await requestCosignatures(ledger.ctx, ledger.ctx.signing.witnesses)
    const seen = witness.seenSize()
    await restore()
    fs.writeFileSync(ledger.memoryFile, memory)

    const restarted = await openWorkerContext(ledger.env)
    closing.push(() => closeContext(restarted))
    await ledger.write(1)
    await sequencePending(restarted, { useLease: false })
    await makeSeal(restarted, { useLease: false })
    await expect(signSeals(restarted)).rejects.toThrow(`has seen a log of ${seen} entries`)
    expect(fs.readFileSync(ledger.memoryFile)).toEqual(memory)
    expect(await restarted.seals.listUnsigned(5)).toEqual([2])
  })

  it('stop no signing by a size that one of them names and nothing shows, and are counted', async () => {
    const size = 999_999_999_999
    const honest = await startWitness('witness.example/w1')
    let shown = ''
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      request.resume()
      const isQuestion = request.method === 'GET'
      response.writeHead(isQuestion ? 200 : 409).end(isQuestion ? shown : `${size}\n`)
    }
    const liars = await Promise.all(
      ['liar.example/w2', 'liar.example/w3'].map(async (name) => {
        const server = createServer((request, response) => void answer(request, response))
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
        closing.push(() => new Promise((resolve) => server.close(() => resolve())))
        const key = { name, type: NOTE_KEY.cosigner, publicKey: ed25519PublicKey(randomBytes(32)) }
        return `${formatVkey(key)}@http://127.0.0.1:${(server.address() as AddressInfo).port}`
      }),
    )
    const settings = (count: number) => [honest.setting, ...liars.slice(0, count)].join(',')
    const ledger = await openLedger({ env: { WITNESSES: settings(1), LEDGER_ORIGIN: ORIGIN } })
    closing.push(honest.stop, ledger.stop)
    const secret = readSealKey(ledger.keyFile) ?? new Uint8Array(32)
    honest.trust({ name: ORIGIN, type: NOTE_KEY.signer, publicKey: ed25519PublicKey(secret) })
    await ledger.write(2)
    await ledger.seal()
    const restart = async (witnesses: string) => {
      const restarted = await openWorkerContext({ ...ledger.env, WITNESSES: witnesses })
      closing.push(() => closeContext(restarted))
      await ledger.write(1)
      await sequencePending(restarted, { useLease: false })
      await makeSeal(restarted, { useLease: false })
      return restarted
    }
    // What another key has signed proves nothing either.
    const sign = (key: Uint8Array, origin = ORIGIN) => {
      const text = formatCheckpoint({ origin, size, root: new Uint8Array(32) })
      return formatNote(text, [signNote(text, origin, key)])
    }
    for (const nothing of sampled([
      sign(randomBytes(32)),
      sign(secret, 'other.example/ledger'),
      '',
      'no note',
    ])) {
      shown = nothing
      expect(await signSeals(await restart(settings(1))), nothing).toEqual({
        signed: 1,
        because: 'all_signed',
      })
    }
    expect(Number(await anomalies(ledger))).toBe(0) // of that process, which asked before there was a checkpoint
    // One that our own key has signed is a proof, whoever shows it.
    shown = sign(secret)
    const refused = await restart(settings(1))
    await expect(signSeals(refused)).rejects.toThrow(`has seen a log of ${size} entries`)
    // And so is what two witnesses say, who have nothing to do with each other.
    shown = ''
    await expect(signSeals(await restart(settings(2)))).rejects.toThrow(`has seen a log of ${size} entries`)
  })

  it.runIf(FULL)(
    'are missed by a signer that starts without them and without peers, and it says so in one line',
    async () => {
      const alone = 'nobody outside this host remembers what was signed'
      const ledger = await openLedger({ env: { LEDGER_ORIGIN: ORIGIN } })
      closing.push(ledger.stop)
      for (const [settings, lines] of [
        [{}, 1],
        [{ SEAL_PEERS: 'http://127.0.0.1:9' }, 0],
      ] as [Record<string, string>, number][]) {
        const workers = await startWorkersProcess({ ...ledger.env, ...settings }, ['--queues', 'sign-seals'])
        closing.push(workers.stop)
        await workers.waitForLine('the workers work')
        // Said before, or never.
        const said = workers.logged().split('\n')
        expect(said.filter((line) => line.includes(alone))).toHaveLength(lines)
        await workers.stop()
      }
    },
  )

  it('are not believed without a cosignature by their own key', async () => {
    const [named, another] = [
      await startWitness('witness.example/w1'),
      await startWitness('witness.example/w1'),
    ]
    // At the one's address answers another of the same name.
    const [vkey] = named.setting.split('@http')
    const [, address] = another.setting.split('@http')
    const ledger = await openLedger({ env: { WITNESSES: `${vkey}@http${address}`, LEDGER_ORIGIN: ORIGIN } })
    closing.push(named.stop, another.stop, ledger.stop)
    const publicKey = ed25519PublicKey(readSealKey(ledger.keyFile) ?? new Uint8Array(32))
    another.trust({ name: ORIGIN, type: NOTE_KEY.signer, publicKey })
    await ledger.write(3)
    await ledger.seal()
    await requestCosignatures(ledger.ctx, ledger.ctx.signing.witnesses)
    const { checkpoint } = await readCheckpoint(ledger.ctx)
    expect(another.seenSize()).toBe(checkpoint.size)
    expect(parseNote(await formatCosignedNote(ledger.ctx.seals, checkpoint)).signatures).toHaveLength(1)
    expect(await anomalies(ledger)).toBe('0')
    expect(ledger.ctx.signing.witnesses.map(({ isAway }) => isAway)).toContain(true)
  })

  it('delay nothing while they are away, which is a thing to look at and no anomaly', async () => {
    const { ledger, witness } = await openWitnessed()
    await witness.stop()
    closing.shift()
    const written = await ledger.write(3)
    await ledger.seal()
    await requestCosignatures(ledger.ctx, ledger.ctx.signing.witnesses)
    written.push(...(await ledger.write(1)))
    await ledger.seal()
    await verifyWholeLedger(ledger.ctx, written)
    expect(await anomalies(ledger)).toBe('0')
    expect(ledger.ctx.signing.witnesses.every(({ isAway }) => isAway)).toBe(true)
  })
})
