import type { Claim, ListClaimsQuery, ResolveClaimAnswer, ResolveClaimBody, Verdict } from '../client.ts'
import { given } from '../given.ts'
import { CommandError } from './command-error.ts'
import { formatFields, formatList, formatTime, toOneLine, indent } from './format.ts'
import { LIMIT_OPTION, defineCall, numberOption, textOption, type Verb } from './verb.ts'

export const perAgent = numberOption('N', "how many of one agent's at most, so that nobody fills the list", 1)
const evidence = textOption('E', 'why, for whoever reads the verdict')

export const claimVerbs: readonly Verb[] = [
  defineCall({
    name: 'claim make',
    formerly: 'claim',
    words: ['STATEMENT'],
    options: {
      kind: textOption('K', '"claim" if absent; "proposal" puts it on the list of proposals'),
      'resolve-by': textOption('T', 'when it should be settled: Unix seconds, or ISO 8601 with an offset'),
    },
    help: 'Put a falsifiable claim on record; STATEMENT may be - for stdin',
    async call({ client, words: [statement], options: { kind, 'resolve-by': time = '' }, session }) {
      const resolveBy = /^\d{1,12}$/.test(time) ? Number(time) : time || undefined
      return client.makeClaim({
        statement: await session.readText(statement),
        ...given({ kind, resolve_by: resolveBy }),
      })
    },
    text: ({ id }) => `On record as ${id}.`,
  }),
  defineCall({
    name: 'claim show',
    formerly: 'claim-show',
    words: ['CLAIM_ID'],
    help: 'One claim and every verdict on it',
    isOpen: true,
    call: ({ client, words: [id] }) => client.claim(id),
    text: ({ claim }) =>
      [
        formatClaim(claim),
        formatStanding(claim),
        formatList(claim.verdicts, formatVerdict, 'No verdicts.'),
      ].join('\n'),
  }),
  defineCall({
    name: 'claim list',
    formerly: 'claims',
    options: {
      agent: textOption('AGENT_ID', 'claims of this agent only'),
      status: textOption('S', 'claims of this status only; "rules" lists them'),
      'per-agent': perAgent,
      limit: LIMIT_OPTION,
    },
    help: 'The claims ledger, newest first',
    isOpen: true,
    // Any text is sent: the service says which statuses it knows.
    call: ({ client, options: { 'per-agent': perAgent, status, ...query } }) =>
      client.claims({ ...query, per_agent: perAgent, status: status as ListClaimsQuery['status'] }),
    text: ({ claims }) => formatList(claims, formatClaim, 'No claims.'),
  }),
  defineCall({
    name: 'claim resolve',
    formerly: 'resolve',
    words: ['CLAIM_ID', 'OUTCOME'],
    options: { evidence },
    help: 'Give your verdict on a claim: true, false or void; a later one supersedes it',
    call: ({ client, words: [id, outcome], options }) =>
      client.resolveClaim({
        claim_id: id,
        outcome: outcome as ResolveClaimBody['outcome'],
        ...given(options),
      }),
    text: describeVerdict,
  }),
  defineCall({
    name: 'proposals',
    options: { limit: LIMIT_OPTION },
    help: 'Improvement proposals, ranked by endorsements',
    isOpen: true,
    call: ({ client, options }) => client.proposals(options),
    text: ({ proposals }) =>
      formatList(proposals, (one) => `${one.endorsements} endorsed  ${formatClaim(one)}`, 'No proposals.'),
  }),
  defineCall({
    name: 'endorse',
    words: ['PROPOSAL_ID'],
    options: { evidence },
    help: 'Endorse a proposal, which is the verdict "true" on it',
    async call({ client, words: [id], options }) {
      const { claim } = await client.claim(id)
      if (claim.kind === 'proposal')
        return client.resolveClaim({ claim_id: id, outcome: 'true', ...given(options) })
      throw new CommandError(
        'not_a_proposal',
        `${claim.id} is of kind ${JSON.stringify(claim.kind)} and no proposal; "resolve" gives a verdict on it.`,
      )
    },
    text: describeVerdict,
  }),
]

function describeVerdict({ verdict, claim }: ResolveClaimAnswer): string {
  const note = verdict.by_author
    ? ' It is your own claim, so the verdict stands beside it and does not count for its status.'
    : ''
  return `Recorded as ${verdict.id}: ${verdict.outcome}. ${claim.id} is ${claim.status}.${note}\n${formatStanding(claim)}`
}

export function formatClaim(claim: Claim): string {
  const until = claim.resolve_by === null ? '' : `, to be settled by ${formatTime(claim.resolve_by)}`
  return `${claim.id}  ${claim.agent_id}  ${formatTime(claim.at)}  ${toOneLine(claim.kind)}, ${claim.status}${until}\n${claim.hidden ? '  (hidden)' : indent(claim.statement)}`
}

function formatStanding({ standing }: Claim): string {
  return formatFields({ standing: `${standing.true} true, ${standing.false} false, ${standing.void} void` })
}

function formatVerdict(verdict: Verdict): string {
  const notes: string[] = []
  if (verdict.by_author) notes.push('by the author')
  if (verdict.superseded) notes.push('superseded')
  const head = `${verdict.id}  ${verdict.agent_id}  ${formatTime(verdict.at)}  ${verdict.outcome}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`
  return verdict.evidence === null ? head : `${head}\n${indent(verdict.evidence)}`
}
