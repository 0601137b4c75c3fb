import { hash } from 'node:crypto'
import { readBounded } from '../platform/http.ts'
import type { Context } from '../context.ts'
import type { Config } from '../platform/config.ts'
import {
  formatNote,
  formatVkey,
  parseCheckpoint,
  parseNote,
  parseSignatureLine,
  verifyCosignature,
  verifyNote,
  type NoteKey,
} from '../crypto/note.ts'
import { MAX_SIGNED_AHEAD_MS, MAX_WITNESS_ANSWER_BYTES, PEER_TIMEOUT_MS } from '../platform/limits.ts'
import { SECOND_MS } from '../platform/time.ts'
import { checkpointOf, type StoredCheckpoint } from './checkpoint.ts'
import { proveConsistency } from './log.ts'
import type { LogTileStore } from './log-tile-store.ts'
import { createOutsider, noteAnswer, type Outsider, type Recollection } from './outsider.ts'

/*
 * Witnesses from outside (C2SP tlog-witness): each remembers the log that it has cosigned, and cosigns only
 * what continues it. So a reader knows that everyone is shown one log, and a signer that was restored from an
 * older copy learns what it has signed since. A witness that doesn't answer delays nothing.
 *
 * A witness proves that it remembers another log by a checkpoint by our own key, which it may serve at
 * `<url>/<hex of SHA-256 of the log's name>/checkpoint`.
 */

export interface OutsideWitness extends Outsider {
  readonly key: NoteKey
  readonly vkey: string
  /** Prefix of its `add-checkpoint`. */
  readonly url: string
  /** Size of the log that it cosigned last, as far as we know. */
  lastSize: number
}

/** The witnesses of the setting WITNESSES; none has been asked yet. */
export const createWitnesses = ({ witnesses }: Pick<Config, 'witnesses'>): OutsideWitness[] =>
  witnesses.map(({ key, url }) => ({
    ...createOutsider(key.name, false),
    key,
    vkey: formatVkey(key),
    url,
    lastSize: 0,
  }))

type WitnessContext = Pick<Context, 'entries' | 'seals' | 'metrics' | 'log' | 'now'>

/**
 * Submits the last signed checkpoint to every witness that has not cosigned it, and stores their
 * cosignatures. A witness that fails is logged; one that has another log is counted as an anomaly.
 *
 * @returns how many witnesses were asked
 */
export async function requestCosignatures(
  ctx: WitnessContext,
  witnesses: readonly OutsideWitness[],
): Promise<number> {
  if (witnesses.length === 0) return 0
  const checkpoint = checkpointOf(await ctx.seals.lastSigned())
  if (checkpoint === undefined) return 0
  const cosigned = await ctx.seals.cosignatures.findCosigned(
    checkpoint.size,
    witnesses.map(({ vkey }) => vkey),
  )
  const waiting = witnesses.filter(({ vkey }) => !cosigned.has(vkey))
  await Promise.all(
    waiting.map(async (witness) => noteAnswer(witness, await recallOfWitness(ctx, witness, checkpoint))),
  )
  return waiting.length
}

/**
 * Submits a checkpoint to a witness, which compares it with what it remembers, and stores its cosignature. Never
 * throws: a failure is logged, and a conflict is counted as an anomaly as well.
 */
export async function recallOfWitness(
  ctx: WitnessContext,
  witness: OutsideWitness,
  checkpoint: StoredCheckpoint,
): Promise<Recollection> {
  try {
    const sentence = await submitCheckpoint(ctx, witness, checkpoint)
    if (sentence === undefined) return { kind: 'agrees' }
    ctx.metrics.countAnomaly('witness')
    const isProven = await showsOtherLog(ctx.entries.tiles, witness, checkpoint)
    const proof = isProven
      ? 'a checkpoint by our own key proves it'
      : 'it shows no checkpoint by our own key that proves it'
    ctx.log.error({ witness: witness.name }, `${sentence}; ${proof}`)
    return {
      kind: 'conflict',
      because: 'witness_remembers_more',
      sentence,
      isProven,
    }
  } catch (error) {
    ctx.log.warn({ err: error, witness: witness.name }, 'a witness did not cosign; it is asked again')
    return { kind: 'away' }
  }
}

/**
 * Whether the witness serves a checkpoint that our own key has signed, of a log that ours doesn't have: a
 * larger one, or another of its size.
 */
async function showsOtherLog(
  tiles: Pick<LogTileStore, 'readRoot'>,
  { url }: OutsideWitness,
  { origin, size, key }: StoredCheckpoint,
): Promise<boolean> {
  const place = `${url}/${hash('sha256', origin, 'hex')}/checkpoint`
  try {
    const { status, text } = await exchange(place, { method: 'GET' })
    if (status !== 200) return false
    const note = parseNote(text)
    const shown = parseCheckpoint(note.text)
    if (shown.origin !== origin || !verifyNote(note, key)) return false
    return shown.size > size || !(await tiles.readRoot(shown.size)).equals(shown.root)
  } catch {
    return false // nothing that could be read proves nothing
  }
}

/**
 * Submits a checkpoint to a witness with a proof from the size that it cosigned last, and stores its
 * cosignature. If the witness says that it has another size (409) or that the proof is wrong (422), it is
 * asked once more, from the size that it has.
 *
 * @returns undefined if it has cosigned; a sentence about the conflict if it remembers another log
 * @throws Error if it doesn't answer, answers otherwise, or doesn't cosign
 */
async function submitCheckpoint(
  ctx: WitnessContext,
  witness: OutsideWitness,
  checkpoint: StoredCheckpoint,
): Promise<string | undefined> {
  const { size } = checkpoint
  let theirSize: number | undefined
  for (let tries = 0; tries < 2; tries++) {
    const from = theirSize ?? Math.min(witness.lastSize, size)
    const { status, text } = await postToWitness(
      witness,
      await formatRequest(ctx.entries.tiles, from, checkpoint),
    )
    if (status === 200) {
      await storeCosignature(ctx, witness, checkpoint, text)
      witness.lastSize = size
      return undefined
    }
    if (status === 422 && theirSize !== undefined)
      return `${witness.name} has seen another log of ${theirSize} entries than the first ${theirSize} here`
    if (status !== 409 && status !== 422) throw new Error(`it answered ${status}`)
    theirSize = status === 409 ? parseSize(text) : from
    if (theirSize > size)
      return `${witness.name} has seen a log of ${theirSize} entries, and there are ${size}`
  }
  throw new Error('its size changed while it was asked')
}

/**
 * The body of a request to `add-checkpoint` (C2SP tlog-witness): the old size, the proof from it to the
 * checkpoint, and the signed checkpoint.
 */
async function formatRequest(
  tiles: Pick<LogTileStore, 'find'>,
  from: number,
  { size, text, line }: StoredCheckpoint,
): Promise<string> {
  const proof = await proveConsistency(tiles, from, size)
  return `old ${from}\n${proof.map((hash) => `${hash.toString('base64')}\n`).join('')}\n${formatNote(text, [line])}`
}

/** The size in a witness's answer with status 409. @throws Error if the answer is not a size */
function parseSize(text: string): number {
  if (!/^(0|[1-9]\d{0,15})\n?$/.test(text)) throw new Error('it refused, and told no size')
  return Number(text)
}

/**
 * Stores the first valid cosignature of the checkpoint by the witness's key in its answer.
 *
 * @throws Error if there is none, or its time lies before the checkpoint's or ahead
 */
async function storeCosignature(
  ctx: WitnessContext,
  { key, vkey }: OutsideWitness,
  { text, size, madeAt }: StoredCheckpoint,
  answer: string,
): Promise<void> {
  for (const line of answer.split('\n').filter((part) => part !== '')) {
    const at = verifyCosignature(text, parseSignatureLine(line), key)
    if (at === undefined) continue
    if (at < madeAt || at * SECOND_MS > ctx.now() + MAX_SIGNED_AHEAD_MS)
      throw new Error(`its cosignature states the time ${at}: its clock is wrong`)
    await ctx.seals.cosignatures.insert({ size, vkey, line, at, rank: 0 })
    return
  }
  throw new Error('its answer has no cosignature by its key')
}

/**
 * Sends a request to a witness's `add-checkpoint`.
 *
 * @throws Error if no answer comes in time, or too long a one
 */
async function postToWitness(
  { url }: OutsideWitness,
  body: string,
): Promise<{ status: number; text: string }> {
  return exchange(`${url}/add-checkpoint`, { method: 'POST', body })
}

/** One request, and its answer. @throws Error if no answer comes in time, or too long a one */
async function exchange(
  address: string,
  request: { method: string; body?: string },
): Promise<{ status: number; text: string }> {
  const answer = await fetch(address, {
    ...request,
    redirect: 'error',
    signal: AbortSignal.timeout(PEER_TIMEOUT_MS),
  })
  const tooLong = () => new Error(`its answer is longer than ${MAX_WITNESS_ANSWER_BYTES} bytes`)
  return { status: answer.status, text: await readBounded(answer, MAX_WITNESS_ANSWER_BYTES, tooLong) }
}
