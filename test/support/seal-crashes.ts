import fs from 'node:fs'
import { announce, signAnnouncement } from '../../shared/announcements/announcement-service.ts'
import { announcementPayload, type AnnouncementRecord } from '../../shared/announcements/announcement.ts'
import { keyFromHex, signatureFromBase64 } from '../../shared/crypto/ed25519.ts'
import { ed25519Verify } from '../../shared/crypto/ed25519-verify.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { adoptionFileOf, writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { verifyNewSeals } from '../../shared/ledger/chain-check.ts'
import { sealFields } from '../../shared/ledger/seal.ts'
import { openLedger, takeBackup, verifyLedger, verifyWholeLedger, type TestLedger } from './ledger.ts'
import { startChild } from './processes.ts'

const CHILD = new URL('./seal-child.ts', import.meta.url)

/** Every write and step of the sequencer, the sealer and the signing, in their order. */
export const STEPS = [
  'entries',
  'marks',
  'closing',
  'log-tiles',
  'seal',
  'status',
  'peers',
  'read-again',
  'memory-file',
  'memory',
  'sign',
  'verify',
  'signature',
] as const

/** Every write of taking an adoption, in their order. */
export const ADOPTION_STEPS = ['adoption', 'memory-file', 'memory', 'adopted'] as const

/** Every write of signing an announcement, in their order. */
export const ANNOUNCEMENT_STEPS = ['statement-file', 'statement', 'announcement'] as const

/** Runs a seal worker in a process of its own. @returns the signal that ended it, or its exit code */
export function runSealChild(ledger: TestLedger, env: Record<string, string>): Promise<string | number> {
  return startChild(CHILD, { ...ledger.env, ...env }).ended
}

/** A chain of one seal, and 130 posts that wait: three batches of the child's. */
export async function openWaitingLedger(): Promise<{ ledger: TestLedger; written: string[] }> {
  const ledger = await openLedger()
  const written = await ledger.write(3)
  await ledger.seal()
  written.push(...(await ledger.write(130)))
  return { ledger, written }
}

/**
 * A database that was restored without its last two seals, beside a memory that has them, and the operator's
 * decision to go on from it.
 */
export async function openAdoptingLedger(): Promise<{ ledger: TestLedger; written: string[] }> {
  const ledger = await openLedger()
  const { ctx } = ledger
  const written = await ledger.write(3)
  await ledger.seal()
  const restore = await takeBackup(ctx)
  for (let round = 0; round < 2; round++) {
    await ledger.write(1)
    await ledger.seal()
  }
  await restore()
  written.push(...(await ledger.write(3)))
  const last = await ctx.seals.lastSigned()
  if (last === undefined) throw new Error('there is no seal')
  await writeAdoption(ctx, last._id, sealPayloadHash(sealFields(last)))
  return { ledger, written }
}

/**
 * The next worker's work after one that died while it took an adoption. @throws Error where something doesn't
 * hold
 */
export async function recoverAdoption(ledger: TestLedger, written: string[]): Promise<void> {
  await recoverLedger(ledger, written)
  const { entries } = await verifyWholeLedger(ledger.ctx, written)
  const adoptions = entries.filter(({ kind }) => kind === 'seal_adoption').length
  if (adoptions !== 1) throw new Error(`the adoption is on record ${adoptions} times`)
  if (fs.existsSync(adoptionFileOf(ledger.memoryFile)))
    throw new Error('the adoption was taken and is still there to be taken')
}

/** A numbered announcement without a signature. */
export async function openAnnouncement(): Promise<{ ledger: TestLedger; id: string }> {
  const ledger = await openLedger()
  const { _id: id } = await announce(ledger.ctx, { kind: 'notice', text: 'It stands.' })
  await ledger.seal()
  return { ledger, id }
}

/** @throws Error unless the next worker signs what one that died did not */
export async function recoverAnnouncement(ledger: TestLedger, id: string): Promise<void> {
  await signAnnouncement(ledger.ctx, id)
  const { signature, pubkey, ...announcement } = (await ledger.ctx.announcements.find(id)) ?? {}
  if (signature === undefined || pubkey === undefined) throw new Error('the announcement has no signature')
  if (
    !ed25519Verify(
      signatureFromBase64(signature),
      announcementPayload(announcement as AnnouncementRecord),
      keyFromHex(pubkey),
    )
  )
    throw new Error('the signature of the announcement does not verify')
}

/**
 * What the next worker does after one that died, with everything verified after each step. @throws Error
 * where something doesn't hold
 */
export async function recoverLedger(ledger: TestLedger, written: string[]): Promise<void> {
  await verifyLedger(ledger.ctx, written)
  await ledger.seal()
  await verifyLedger(ledger.ctx, written)
  written.push(...(await ledger.write(2)))
  await ledger.seal()
  const { seals } = await verifyWholeLedger(ledger.ctx, written)
  const status = await verifyNewSeals(ledger.ctx)
  if (!status.intact || status.seq !== seals.length || status.open.length > 0)
    throw new Error(`the chain is said to stand so: ${JSON.stringify(status)}`)
  const remembered = JSON.parse(fs.readFileSync(ledger.memoryFile, 'utf8')) as { seq: number }
  if (remembered.seq !== seals.length)
    throw new Error(`the seal memory ends at seal ${remembered.seq}, the chain at ${seals.length}`)
}
