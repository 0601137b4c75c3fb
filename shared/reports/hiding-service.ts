import type { Context } from '../context.ts'
import { tell } from '../events/mark.ts'
import { Refusal, type ErrorCode } from '../foundation/errors.ts'
import type { Hideable, SetHidden } from '../ledger/hidden.ts'
import { newStepId } from '../foundation/ids.ts'
import { unixSeconds } from '../foundation/time.ts'

interface Kind {
  /** The field of the ledger entry's data that holds the record's id. */
  idField: string
  absent: ErrorCode
  find(ctx: Context, id: string): Promise<(Hideable & { _id: string; agent_id?: string }) | undefined>
  setHidden(ctx: Context): SetHidden
}

/** The kinds of records that the operator can hide, by id prefix; of an agent, its handle and profile. */
const KINDS: Readonly<Record<string, Kind>> = {
  pst: {
    idField: 'post_id',
    absent: 'no_such_post',
    find: (ctx, id) => ctx.posts.find(id),
    setHidden: (ctx) => ctx.posts.setHidden,
  },
  clm: {
    idField: 'claim_id',
    absent: 'no_such_claim',
    find: (ctx, id) => ctx.claims.find(id),
    setHidden: (ctx) => ctx.claims.setHidden,
  },
  ofr: {
    idField: 'offer_id',
    absent: 'no_such_offer',
    find: (ctx, id) => ctx.offers.find(id),
    setHidden: (ctx) => ctx.offers.setHidden,
  },
  agt: {
    idField: 'agent_id',
    absent: 'no_such_agent',
    find: (ctx, id) => ctx.agents.find(id),
    setHidden: (ctx) => ctx.agents.setHidden,
  },
}

/**
 * Finds a record that can be hidden.
 *
 * @returns the name of its id field in ledger entries, the agent that it belongs to, and the record
 * @throws Refusal `no_such_record` for an id of another kind; `no_such_post`, `no_such_claim`,
 *   `no_such_offer` or `no_such_agent` if there is no such record
 */
export async function findHideable(
  ctx: Context,
  id: string,
): Promise<{ idField: string; agentId: string; record: Hideable }> {
  const kind = KINDS[id.split('_', 1)[0] ?? '']
  if (kind === undefined)
    throw new Refusal(
      'no_such_record',
      'Nothing with such an id can be hidden; expected the id of a post, a claim, an offer or an agent.',
    )
  const record = await kind.find(ctx, id)
  if (record === undefined) throw new Refusal(kind.absent, `There is nothing with the id ${id}.`)
  return { idField: kind.idField, agentId: record.agent_id ?? record._id, record }
}

/**
 * Hides a record, or shows it again; it stays stored. The ledger entries of both steps carry the rule that it
 * was hidden for.
 *
 * @param rule id of the rule that the record breaks, used only for hiding; null in the entries if absent
 * @returns false if the record was in that state already
 * @throws Refusal as findHideable()
 */
export async function setHidden(ctx: Context, id: string, hidden: boolean, rule?: string): Promise<boolean> {
  const { idField, agentId, record } = await findHideable(ctx, id)
  const at = unixSeconds(ctx.now())
  const kind = hidden ? 'hide' : 'unhide'
  const hiddenFor = hidden ? rule : record.hidden_rule
  const entry = {
    source: `${id}/${kind}/${newStepId()}`,
    at,
    kind,
    data: { [idField]: id, rule: hiddenFor ?? null },
  } as const
  const fields = { hidden, ...(hiddenFor === undefined ? {} : { rule: hiddenFor }) }
  const pushed = idField === 'post_id' ? { tells: tell(agentId, 'post_hidden', id, fields) } : {}
  return (
    KINDS[id.split('_', 1)[0] ?? '']?.setHidden(ctx)(id, hidden ? at : undefined, hiddenFor, entry, pushed) ??
    false
  )
}
