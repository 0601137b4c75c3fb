import type { Context } from '../context.ts'
import { makeMark } from '../events/mark.ts'
import { Refusal, type ErrorCode } from '../platform/errors.ts'
import type { Hideable, SetHidden } from '../ledger/hidden.ts'
import { newStepId } from '../platform/ids.ts'
import { unixSeconds } from '../platform/time.ts'

type HidingContext = Pick<Context, 'agents' | 'posts' | 'claims' | 'offers' | 'now'>

interface Kind {
  /** The field of the ledger entry's data that holds the record's id. */
  idField: string
  /** Refuses an id of this kind that no record has. */
  absentCode: ErrorCode
  store(ctx: HidingContext): {
    find(id: string): Promise<(Hideable & { _id: string; agent_id?: string }) | undefined>
    setHidden: SetHidden
  }
}

/** The kinds of records that the operator can hide, by id prefix; of an agent, its handle and profile. */
const KINDS: Readonly<Record<string, Kind>> = {
  pst: { idField: 'post_id', absentCode: 'no_such_post', store: (ctx) => ctx.posts },
  clm: { idField: 'claim_id', absentCode: 'no_such_claim', store: (ctx) => ctx.claims },
  ofr: { idField: 'offer_id', absentCode: 'no_such_offer', store: (ctx) => ctx.offers },
  agt: { idField: 'agent_id', absentCode: 'no_such_agent', store: (ctx) => ctx.agents },
}

/** Returns the kind of record that an id is of. @throws Refusal `no_such_record` if such can't be hidden */
function requireKind(id: string): Kind {
  const kind = KINDS[id.split('_', 1)[0] ?? '']
  if (kind !== undefined) return kind
  throw new Refusal(
    'no_such_record',
    'Nothing with such an id can be hidden; expected the id of a post, a claim, an offer or an agent.',
  )
}

/**
 * Reads a record that can be hidden, hidden or not.
 *
 * @returns the name of its id field in ledger entries, the agent that it belongs to, and the record
 * @throws Refusal `no_such_record` for an id of another kind; `no_such_post`, `no_such_claim`,
 *   `no_such_offer` or `no_such_agent` if there is no such record
 */
export async function findHideable(
  ctx: HidingContext,
  id: string,
): Promise<{ idField: string; agentId: string; record: Hideable }> {
  const { idField, absentCode, store } = requireKind(id)
  const record = await store(ctx).find(id)
  if (record === undefined) throw new Refusal(absentCode, `There is nothing with the id ${id}.`)
  return { idField, agentId: record.agent_id ?? record._id, record }
}

/**
 * Hides a record, or shows it again; it stays stored. The ledger entries of both steps carry the rule that it
 * was hidden for. The author of a post is told by an event.
 *
 * @param hidden true to hide, false to show again
 * @param rule id of the rule that the record breaks, used only for hiding; null in the entries if absent
 * @returns false if the record was in that state already
 * @throws Refusal `no_such_record` for an id of a kind that can't be hidden; `no_such_post`, `no_such_claim`,
 *   `no_such_offer` or `no_such_agent` if there is no such record
 */
export async function setHidden(ctx: HidingContext, id: string, hidden: boolean, rule?: string): Promise<boolean> {
  const { idField, agentId, record } = await findHideable(ctx, id)
  const at = unixSeconds(ctx.now())
  const kind = hidden ? 'hide' : 'unhide'
  const hiddenRule = hidden ? rule : record.hidden_rule
  const entry = {
    source: `${id}/${kind}/${newStepId()}`,
    at,
    kind,
    data: { [idField]: id, rule: hiddenRule ?? null },
  } as const
  const fields = { hidden, ...(hiddenRule === undefined ? {} : { rule: hiddenRule }) }
  const marks = idField === 'post_id' ? { tells: makeMark(agentId, 'post_hidden', id, fields) } : {}
  const { store } = requireKind(id)
  return store(ctx).setHidden(id, hidden ? at : undefined, hiddenRule, entry, marks)
}
