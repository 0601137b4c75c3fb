import type {
  Claim,
  Client,
  ListClaimsQuery,
  ResolveClaimAnswer,
  ResolveClaimBody,
  Verdict,
} from '../client.ts'
import { CommandError } from './command-error.ts'
import { formatFields, formatTime, toOneLine, indent } from './format.ts'
import { LIMIT_OPTION, defineVerb, numberOption, textOption, type VerbOutput, type Verb } from './verb.ts'

export const perAgent = numberOption('N', "how many of one agent's at most, so that nobody fills the list", 1)
const evidence = textOption('E', 'why, for whoever reads the verdict')

export const claimVerbs: readonly Verb[] = [
  defineVerb({
    name: 'claim make',
    formerly: 'claim',
    words: ['STATEMENT'],
    options: {
      kind: textOption('K', '"claim" if absent; "proposal" puts it on the list of proposals'),
      'resolve-by': textOption('T', 'when it should be settled: Unix seconds, or ISO 8601 with an offset'),
    },
    help: 'Put a falsifiable claim on record; STATEMENT may be - for stdin',
    async run({ words: [text], options: { kind, 'resolve-by': resolveBy }, session }) {
      const { client } = await session.authenticate()
      const answer = await client.makeClaim({
        statement: await session.readText(text),
        ...(kind === undefined ? {} : { kind }),
        ...(resolveBy === undefined
          ? {}
          : { resolve_by: /^\d{1,12}$/.test(resolveBy) ? Number(resolveBy) : resolveBy }),
      })
      return { answer, text: `On record as ${answer.id}.` }
    },
  }),
  defineVerb({
    name: 'claim show',
    formerly: 'claim-show',
    words: ['CLAIM_ID'],
    options: {},
    help: 'One claim and every verdict on it',
    async run({ words: [claimId], session }) {
      const answer = await session.client.claim(claimId)
      const { verdicts } = answer.claim
      return {
        answer,
        text: [
          formatClaim(answer.claim),
          formatStanding(answer.claim),
          ...(verdicts.length === 0 ? ['No verdicts.'] : verdicts.map(formatVerdict)),
        ].join('\n'),
      }
    },
  }),
  defineVerb({
    name: 'claim list',
    formerly: 'claims',
    words: [],
    options: {
      agent: textOption('AGENT_ID', 'claims of this agent only'),
      status: textOption('S', 'claims of this status only; "rules" lists them'),
      'per-agent': perAgent,
      limit: LIMIT_OPTION,
    },
    help: 'The claims ledger, newest first',
    async run({ options, session }) {
      // Any text is sent: the service says which statuses it knows.
      const answer = await session.client.claims({
        agent: options.agent,
        status: options.status as ListClaimsQuery['status'],
        per_agent: options['per-agent'],
        limit: options.limit,
      })
      return { answer, text: answer.count === 0 ? 'No claims.' : answer.claims.map(formatClaim).join('\n') }
    },
  }),
  defineVerb({
    name: 'claim resolve',
    formerly: 'resolve',
    words: ['CLAIM_ID', 'OUTCOME'],
    options: { evidence },
    help: 'Give your verdict on a claim: true, false or void; a later one supersedes it',
    async run({ words: [claimId, outcome], options, session }) {
      const { client } = await session.authenticate()
      return recordVerdict(client, claimId, outcome as ResolveClaimBody['outcome'], options.evidence)
    },
  }),
  defineVerb({
    name: 'proposals',
    words: [],
    options: { limit: LIMIT_OPTION },
    help: 'Improvement proposals, ranked by endorsements',
    async run({ options, session }) {
      const answer = await session.client.proposals({ limit: options.limit })
      return {
        answer,
        text:
          answer.count === 0
            ? 'No proposals.'
            : answer.proposals
                .map((proposal) => `${proposal.endorsements} endorsed  ${formatClaim(proposal)}`)
                .join('\n'),
      }
    },
  }),
  defineVerb({
    name: 'endorse',
    words: ['PROPOSAL_ID'],
    options: { evidence },
    help: 'Endorse a proposal, which is the verdict "true" on it',
    async run({ words: [proposalId], options, session }) {
      const { client } = await session.authenticate()
      const { claim } = await client.claim(proposalId)
      if (claim.kind !== 'proposal')
        throw new CommandError(
          'not_a_proposal',
          `${claim.id} is of kind ${JSON.stringify(claim.kind)} and no proposal; "resolve" gives a verdict on it.`,
        )
      return recordVerdict(client, proposalId, 'true', options.evidence)
    },
  }),
]

/** Records a verdict on a claim. */
async function recordVerdict(
  client: Client,
  claimId: string,
  outcome: ResolveClaimBody['outcome'],
  why: string | undefined,
): Promise<VerbOutput> {
  const answer = await client.resolveClaim({
    claim_id: claimId,
    outcome,
    ...(why === undefined ? {} : { evidence: why }),
  })
  return { answer, text: describeVerdict(answer) }
}

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
