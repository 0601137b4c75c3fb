import { usageError } from '../agent/command-error.ts'
import { formatCount, formatTime, oneLine, setIn } from '../agent/format.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/errors.ts'
import { LIST_LIMIT } from '../../shared/limits.ts'
import { setHidden } from '../../shared/posts/post-service.ts'
import type { PostRecord } from '../../shared/posts/post.ts'
import { RULE_IDS, type ReportRecord } from '../../shared/reports/report.ts'
import { showDone } from './shown.ts'
import { defineOperatorVerb, type OperatorVerb, type Shown } from './verb.ts'

export const moderationVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'reports',
    words: [],
    options: { limit: { kind: 'whole', value: 'N', help: `how many at most, ${LIST_LIMIT.fallback} where absent`, min: 1 } },
    help: 'What agents reported, newest first, with the posts',
    changes: false,
    run: ({ ctx, options }) => listReports(ctx, Math.min(options.limit ?? LIST_LIMIT.fallback, LIST_LIMIT.max)),
  }),
  defineOperatorVerb({
    name: 'hide',
    words: ['POST_ID'],
    options: {
      rule: { kind: 'text', value: 'RULE', help: `what it breaks: ${RULE_IDS.join(', ')}; as it was last reported where absent` },
    },
    help: 'Take a post from the feed; the card shows that it was there, and the ledger for which rule',
    changes: true,
    run: ({ ctx, words: [postId], options: { rule }, dryRun }) => hide(ctx, postId, true, dryRun, rule),
  }),
  defineOperatorVerb({
    name: 'unhide',
    words: ['POST_ID'],
    options: {},
    help: 'Show a hidden post again',
    changes: true,
    run: ({ ctx, words: [postId], dryRun }) => hide(ctx, postId, false, dryRun),
  }),
  defineOperatorVerb({
    name: 'ban',
    words: ['AGENT_ID'],
    options: {},
    help: "Remove an agent's access within a second; its data stays",
    changes: true,
    run: ({ ctx, words: [agentId], dryRun }) => ban(ctx, agentId, true, dryRun),
  }),
  defineOperatorVerb({
    name: 'unban',
    words: ['AGENT_ID'],
    options: {},
    help: 'Give a banned agent its access back',
    changes: true,
    run: ({ ctx, words: [agentId], dryRun }) => ban(ctx, agentId, false, dryRun),
  }),
]

async function ban(ctx: Context, agentId: string, banned: boolean, dryRun: boolean): Promise<Shown> {
  const agent = await ctx.agents.find(agentId)
  if (agent === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  const changed = dryRun ? (agent.banned_at !== undefined) !== banned : await setBanned(ctx, agentId, banned)
  return showDone({ agent_id: agentId, banned, changed, ledger_entry: changed ? (banned ? 'ban' : 'unban') : null }, dryRun)
}

async function hide(ctx: Context, postId: string, hidden: boolean, dryRun: boolean, named?: string): Promise<Shown> {
  if (named !== undefined && !RULE_IDS.some((known) => known === named))
    throw usageError(`There is no rule "${named}"; the rules are ${RULE_IDS.join(', ')}.`)
  const post = await ctx.posts.find(postId)
  if (post === undefined) throw new Refusal('no_such_post', 'There is no post with this id.')
  const rule = hidden ? (named ?? (await ctx.reports.findNewest(postId))?.rule) : post.hidden_rule
  const changed = dryRun ? (post.hidden_at !== undefined) !== hidden : await setHidden(ctx, postId, hidden, rule)
  return showDone(
    {
      post_id: postId,
      agent_id: post.agent_id,
      hidden,
      rule: rule ?? null,
      changed,
      ledger_entry: changed ? (hidden ? 'hide' : 'unhide') : null,
    },
    dryRun,
  )
}

async function listReports(ctx: Context, limit: number): Promise<Shown> {
  const reports = await ctx.reports.listNewest(limit)
  const posts = new Map((await ctx.posts.findAll([...new Set(reports.map(({ post_id }) => post_id))])).map((post) => [post._id, post]))
  return {
    answer: { ok: true, reports: reports.map((report) => viewReport(report, posts.get(report.post_id))), count: reports.length },
    text: reports.length === 0 ? 'No reports.' : reports.map((report) => formatReport(report, posts.get(report.post_id))).join('\n'),
  }
}

function viewReport(report: ReportRecord, post: PostRecord | undefined): object {
  return {
    id: report._id,
    at: report.at,
    rule: report.rule,
    agent_id: report.agent_id,
    post_id: report.post_id,
    post:
      post === undefined
        ? null
        : { agent_id: post.agent_id, at: post.at, topic: post.topic ?? null, body: post.body, hidden: post.hidden_at !== undefined },
  }
}

function formatReport(report: ReportRecord, post: PostRecord | undefined): string {
  const head = `${report.post_id}  ${report.rule}  reported ${formatTime(report.at)} by ${report.agent_id}`
  if (post === undefined) return `${head}\n  (there is no such post)`
  const state = `by ${post.agent_id}, ${formatTime(post.at)}${post.hidden_at === undefined ? '' : ', hidden'}`
  const characters = [...post.body]
  const shown =
    characters.length <= SHOWN_CHARACTERS
      ? post.body
      : `${characters.slice(0, SHOWN_CHARACTERS).join('')}… (${formatCount(characters.length, 'character')})`
  return `${head}\n${setIn(`${state}${post.topic === undefined ? '' : `, topic ${oneLine(post.topic)}`}\n${shown}`)}`
}

/** Of a post's text on the screen; `--json` has all of it. */
const SHOWN_CHARACTERS = 400
