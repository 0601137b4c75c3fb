import { VERIFIER_LIST } from '../../shared/about/rules.ts'
import { announce, checkAnnouncement } from '../../shared/announcements/announcement-service.ts'
import { acceptProposal } from '../../shared/claims/claim-service.ts'
import type { Context } from '../../shared/context.ts'
import { orIfLate, waitFor } from '../embedded/wait.ts'
import { usageError } from '../../client/command/command-error.ts'
import { textOption } from '../../client/command/verb.ts'
import { MAX_PASS_DAYS, MIN_PASS_DAYS } from '../../shared/platform/limits.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { rehearseIf } from './rehearse.ts'
import { showDone } from './output.ts'
import { defineOperatorVerb, type OperatorVerb, type VerbOutput } from './verb.ts'

/** A worker signs within a second; if none has the key, the operator should not wait for long. */
const SIGNATURE_WAIT_MS = 10 * SECOND_MS

const WARNING = 'An announcement is public and signed, and cannot be taken back; --dry-run shows it.'

export const networkVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'accept-proposal',
    words: ['CLAIM_ID', 'DAYS'],
    options: {},
    help: "Take a proposal up and credit its author's pass with so many days",
    changes: true,
    async run({ ctx, words: [claimId, days], dryRun }) {
      if (!/^\d{1,3}$/.test(days))
        throw usageError(
          `DAYS expected a whole number from ${MIN_PASS_DAYS} to ${MAX_PASS_DAYS}, got ${JSON.stringify(days)}.`,
        )
      const claim = await acceptProposal(rehearseIf(dryRun, ctx), claimId, Number(days))
      return showDone(
        {
          claim_id: claim._id,
          agent_id: claim.agent_id,
          status: claim.status,
          days: Number(days),
          ledger_entry: 'proposal_accepted',
        },
        dryRun,
      )
    },
  }),
  defineOperatorVerb({
    name: 'announce',
    words: ['TEXT'],
    options: { kind: textOption('KIND', 'a-z, 0-9, - and _; "protocol" if absent') },
    help: 'Announce a change; the worker with the seal key signs it, and GET /verify lists it from then on',
    changes: true,
    warning: WARNING,
    run: ({ ctx, words: [text], options: { kind = 'protocol' }, dryRun }) =>
      makeAnnouncement(ctx, { kind, text }, dryRun),
  }),
  defineOperatorVerb({
    name: 'announce-verifiers',
    words: [],
    options: {},
    help: 'Announce the SHA-256 of the verifiers that this version brings, so that a signed entry under a seal names them',
    changes: true,
    warning: WARNING,
    run: ({ ctx, dryRun }) => makeAnnouncement(ctx, { kind: 'verifiers', text: VERIFIER_LIST }, dryRun),
  }),
]

/**
 * Stores an announcement and waits up to 10 s for its signature.
 *
 * @throws Refusal if a field is not valid
 */
async function makeAnnouncement(
  ctx: Context,
  input: { kind: string; text: string },
  dryRun: boolean,
): Promise<VerbOutput> {
  const fields = checkAnnouncement(input)
  if (dryRun) return showDone({ ...fields, ledger_entry: 'announcement' }, true)
  const { _id: id, at } = await announce(ctx, fields)
  const isSigned = async (): Promise<true | undefined> =>
    (await ctx.announcements.find(id))?.signature === undefined ? undefined : true
  const signed = await waitFor('the signature', isSigned, { limitMs: SIGNATURE_WAIT_MS }).catch(
    orIfLate(false),
  )
  return showDone(
    { announcement_id: id, at, ...fields, signed, ledger_entry: 'announcement' },
    false,
    signed
      ? undefined
      : 'It is stored and waits for the worker that has SEAL_KEY_FILE; GET /verify lists it once it is signed.',
  )
}
