import { z } from 'zod'
import { spendAllowance } from './allowance-service.ts'
import type { Context } from '../context.ts'
import {
  NOTE_KEY,
  parseSignatureLine,
  parseVkey,
  verifyCosignature,
  type NoteKey,
  type NoteSignature,
} from '../crypto/note.ts'
import { invalidField, Refusal } from '../platform/errors.ts'
import { newStepId } from '../platform/ids.ts'
import { MAX_SIGNED_AHEAD_MS, RECENT_CHECKPOINTS } from '../platform/limits.ts'
import { idView, text, unixTime } from '../platform/schema.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { checkpointOf } from '../ledger/checkpoint.ts'
import { readCheckpoint } from '../ledger/log-service.ts'
import type { SealStore } from '../ledger/seal-store.ts'

type WitnessContext = Pick<Context, 'agents' | 'seals' | 'now'>

/*
 * Agents as witnesses of the log: an agent registers a key, verifies checkpoints by its own means, and
 * submits its cosignature lines. Each reader's policy decides what a line is worth: anyone can make agents.
 */

export const witnessBody = z.object({
  vkey: text({ min: 1, max: 600 }).describe(
    'Ed25519 key of type 04 as C2SP signed-note writes it, its name `<origin>/w/<agent_id>`',
  ),
})
export const witnessView = z.object({ agent_id: idView('agent'), vkey: z.string() })
export const cosignBody = z.object({
  line: text({ min: 1, max: 600 }).describe(
    'the signature line of C2SP tlog-cosignature, version 1, over a recent checkpoint',
  ),
})
export const cosignView = z.object({
  size: z.int().min(0).describe('of the checkpoint that the line is for'),
  at: unixTime().describe('when it was cosigned, by the line'),
  counted: z.boolean().describe('false if this key has cosigned this size before'),
})

/** Returns the name that an agent's witness key must have, in the log of this origin. */
const witnessKeyName = (origin: string, agentId: string): string => `${origin}/w/${agentId}`

/**
 * Sets the key that the agent cosigns with, in the vkey form of C2SP signed-note. The change is a ledger
 * entry.
 *
 * @throws Refusal `invalid_field` if `vkey` is no cosigner's key of the expected name; `no_such_seal` before
 *   the first checkpoint; `wrong_state` if the agent has used up today's allowance
 */
export async function registerWitness(ctx: WitnessContext, agentId: string, vkey: string): Promise<void> {
  const { origin } = (await readCheckpoint(ctx)).checkpoint
  const expectedName = witnessKeyName(origin, agentId)
  const key = parseField('vkey', () => parseVkey(vkey))
  if (key.type !== NOTE_KEY.cosigner || key.name !== expectedName)
    throw invalidField('vkey', `Expected a vkey of type 04 with the name ${expectedName}.`)
  await spendAllowance(ctx, agentId, 'changes')
  await ctx.agents.setWitnessKey(agentId, vkey, {
    source: `${agentId}/witness-key/${newStepId()}`,
    at: unixSeconds(ctx.now()),
    kind: 'witness_key',
    data: { agent_id: agentId, vkey },
  })
}

/**
 * Verifies and stores an agent's cosignature of one of the last RECENT_CHECKPOINTS checkpoints.
 *
 * @param line the signature line of C2SP tlog-cosignature, version 1, without line feed
 * @returns the checkpoint's size, the time of the cosignature in Unix seconds, and whether it is the first of
 *   this key for this size
 * @throws Refusal `wrong_state` if the agent has no witness key; `invalid_field` if the line is no
 *   cosignature by that key of a recent checkpoint, or its time lies before the checkpoint's or ahead;
 *   `no_such_seal` before the first checkpoint
 */
export async function addCosignature(ctx: WitnessContext, agentId: string, line: string) {
  await readCheckpoint(ctx)
  const agent = await ctx.agents.find(agentId)
  const vkey = agent?.witness_vkey
  if (vkey === undefined)
    throw new Refusal('wrong_state', 'This agent has named no key to cosign with; POST /witness first.')
  const signature = parseField('line', () => parseSignatureLine(line))
  const cosigned = await findCosignedCheckpoint(ctx.seals, signature, parseVkey(vkey))
  if (cosigned === undefined)
    throw invalidField(
      'line',
      `The line is no cosignature of ${vkey} on one of the last ${RECENT_CHECKPOINTS} checkpoints.`,
    )
  const { size, at, madeAt } = cosigned
  if (at * SECOND_MS > ctx.now() + MAX_SIGNED_AHEAD_MS)
    throw invalidField('line', 'The cosignature states a time that lies ahead; set your clock.')
  if (at < madeAt)
    throw invalidField(
      'line',
      `The cosignature states the time ${at}, and the checkpoint was made at ${madeAt}; expected a time from then on: set your clock.`,
    )
  const counted = await ctx.seals.cosignatures.insert({ size, at, vkey, line, rank: 1 })
  return { size, at, counted }
}

/**
 * Finds the recent checkpoint that the line is a cosignature of, by this key.
 *
 * @returns its size, and in Unix seconds when it was cosigned and when it was made; undefined if there is none
 */
async function findCosignedCheckpoint(
  seals: Pick<SealStore, 'listNewest'>,
  line: NoteSignature,
  key: NoteKey,
) {
  for (const seal of (await seals.listNewest(RECENT_CHECKPOINTS)).toReversed()) {
    const checkpoint = checkpointOf(seal)
    const at = checkpoint === undefined ? undefined : verifyCosignature(checkpoint.text, line, key)
    if (checkpoint !== undefined && at !== undefined)
      return { size: checkpoint.size, at, madeAt: checkpoint.madeAt }
  }
  return undefined
}

/** Returns what `parse` returns; a TypeError that it throws becomes a Refusal `invalid_field`. */
function parseField<T>(field: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw invalidField(field, `The field is not usable: ${error.message}.`)
  }
}
