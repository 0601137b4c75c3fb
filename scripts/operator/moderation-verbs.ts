import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { usageError } from '../../client/command/command-error.ts'
import { flagOption, textOption } from '../../client/command/verb.ts'
import { formatCount, formatTime, toOneLine, indent } from '../../client/command/format.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { applyBan } from '../../shared/agents/ban-service.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { TOKEN_CACHE_MS } from '../../shared/platform/limits.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import type { PostRecord } from '../../shared/posts/post.ts'
import { findHideable, setHidden } from '../../shared/reports/hiding-service.ts'
import { RULE_IDS, type ReportRecord } from '../../shared/reports/report.ts'
import { showDone } from './output.ts'
import { defineOperatorVerb, limitOf, limitOption, type OperatorVerb, type VerbOutput } from './verb.ts'

const NOTE = {
  note: textOption('TEXT', 'why, for yourselves: `show` tells it, and nobody else sees it'),
} as const
const LONGEST_NOTE = 1_000
/** An agent that is banned may write for so long: while its token is remembered, and then for a last request. */
const LAST_RECORDS_MS = TOKEN_CACHE_MS + 250
/** How much of a post's text is shown; `--json` has all of it. */
const SHOWN_CHARACTERS = 400

export const moderationVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'reports',
    words: [],
    options: limitOption(),
    help: 'What agents reported, newest first, with the posts',
    changes: false,
    run: ({ ctx, options }) => listReports(ctx, limitOf(options)),
  }),
  defineOperatorVerb({
    name: 'hide',
    words: ['ID'],
    options: {
      rule: textOption('RULE', `what it breaks: ${RULE_IDS.join(', ')}; as it was last reported if absent`),
      ...NOTE,
    },
    help: 'Hide a post, a claim, an offer, or of an agent handle and profile; the ledger shows for which rule',
    changes: true,
    run: ({ ctx, words: [id], options: { rule, note }, dryRun }) =>
      withNote(ctx, { about: id, act: 'hide', note, dryRun }, () => setHiding(ctx, id, true, dryRun, rule)),
  }),
  defineOperatorVerb({
    name: 'unhide',
    words: ['ID'],
    options: NOTE,
    help: 'Show again what was hidden',
    changes: true,
    run: ({ ctx, words: [id], options: { note }, dryRun }) =>
      withNote(ctx, { about: id, act: 'unhide', note, dryRun }, () => setHiding(ctx, id, false, dryRun)),
  }),
  defineOperatorVerb({
    name: 'ban',
    words: ['AGENT_ID'],
    options: {
      hide: flagOption('hide all that it wrote too, with its handle and profile, until the ban is lifted'),
      ...NOTE,
    },
    help: "Remove an agent's access within a second, and all of it from the lists; its data stays",
    changes: true,
    run: ({ ctx, words: [agentId], options: { hide: hides, note }, dryRun }) =>
      withNote(ctx, { about: agentId, act: 'ban', note, dryRun }, () =>
        setBan(ctx, agentId, true, dryRun, hides),
      ),
  }),
  defineOperatorVerb({
    name: 'unban',
    words: ['AGENT_ID'],
    options: NOTE,
    help: 'Give a banned agent its access back, and show again what its ban hid',
    changes: true,
    run: ({ ctx, words: [agentId], options: { note }, dryRun }) =>
      withNote(ctx, { about: agentId, act: 'unban', note, dryRun }, () =>
        setBan(ctx, agentId, false, dryRun),
      ),
  }),
]

/**
 * Does an act, and then stores the operator's note why, if there is one. It is stored even if the act changed
 * nothing, since the reason may be another one. A dry run stores none.
 *
 * @param about the id of what is acted on
 * @throws CommandError, before the act, if the note is empty or too long
 */
async function withNote(
  ctx: Context,
  { about, act, note, dryRun }: { about: string; act: string; note: string | undefined; dryRun: boolean },
  perform: () => Promise<VerbOutput>,
): Promise<VerbOutput> {
  if (note !== undefined && (note.trim() === '' || note.length > LONGEST_NOTE))
    throw usageError(`"--note" expected 1 to ${LONGEST_NOTE} characters.`)
  const shown = await perform()
  if (note !== undefined && !dryRun)
    await ctx.operation.notes.add({
      at: unixSeconds(ctx.now()),
      about,
      act,
      note,
      by: os.userInfo().username,
    })
  return shown
}

/**
 * Bans an agent or lifts its ban.
 *
 * @param hides whether the ban hides all that the agent wrote
 * @throws Refusal `no_such_agent`
 */
async function setBan(
  ctx: Context,
  agentId: string,
  banned: boolean,
  dryRun: boolean,
  hides = false,
): Promise<VerbOutput> {
  const agent = await ctx.agents.find(agentId)
  if (agent === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  const isAlready = hides ? agent.ban_hides === true : agent.banned_at !== undefined
  const changed = dryRun ? isAlready !== banned : await setBanned(ctx, agentId, banned, hides)
  if (changed && banned && !dryRun) {
    // What it wrote while an API process still remembered its token.
    await sleep(LAST_RECORDS_MS)
    await applyBan(ctx, agentId)
  }
  const hidden = banned && (hides || agent.ban_hides === true)
  const entryKind = banned ? 'ban' : 'unban'
  return showDone(
    {
      agent_id: agentId,
      banned,
      ...(hidden ? { hidden } : {}),
      changed,
      ledger_entry: changed ? entryKind : null,
    },
    dryRun,
  )
}

/**
 * Hides a record, or shows it again.
 *
 * @param named the rule that it breaks, for hiding; if absent, the one that it was last reported for
 * @throws CommandError if there is no such rule, Refusal if there is no such record
 */
async function setHiding(
  ctx: Context,
  id: string,
  hidden: boolean,
  dryRun: boolean,
  named?: string,
): Promise<VerbOutput> {
  if (named !== undefined && !RULE_IDS.some((known) => known === named))
    throw usageError(`There is no rule "${named}"; the rules are ${RULE_IDS.join(', ')}.`)
  const { idField, agentId, record } = await findHideable(ctx, id)
  const rule = hidden ? (named ?? (await ctx.reports.findNewest(id))?.rule) : record.hidden_rule
  const changed = dryRun
    ? (record.hidden_at !== undefined) !== hidden
    : await setHidden(ctx, id, hidden, rule)
  const entryKind = hidden ? 'hide' : 'unhide'
  return showDone(
    {
      [idField]: id,
      agent_id: agentId,
      hidden,
      rule: rule ?? null,
      changed,
      ledger_entry: changed ? entryKind : null,
    },
    dryRun,
  )
}

/** The newest reports, each with its post. */
async function listReports(ctx: Context, limit: number): Promise<VerbOutput> {
  const reports = await ctx.reports.listNewest(limit)
  const posts = await ctx.posts.findAll([...new Set(reports.map(({ post_id }) => post_id))])
  const postById = new Map(posts.map((post) => [post._id, post]))
  const views = reports.map((report) => viewReport(report, postById.get(report.post_id)))
  const lines = reports.map((report) => formatReport(report, postById.get(report.post_id)))
  return {
    answer: { ok: true, reports: views, count: reports.length },
    text: reports.length === 0 ? 'No reports.' : lines.join('\n'),
  }
}

function viewReport(report: ReportRecord, post: PostRecord | undefined): object {
  const { _id: id, at, rule, agent_id, post_id } = report
  const shown = post && {
    agent_id: post.agent_id,
    at: post.at,
    topic: post.topic ?? null,
    body: post.body,
    hidden: post.hidden_at !== undefined,
  }
  return { id, at, rule, agent_id, post_id, post: shown ?? null }
}

function formatReport(report: ReportRecord, post: PostRecord | undefined): string {
  const head = `${report.post_id}  ${report.rule}  reported ${formatTime(report.at)} by ${report.agent_id}`
  if (post === undefined) return `${head}\n  (there is no such post)`
  const hidden = post.hidden_at === undefined ? '' : ', hidden'
  const topic = post.topic === undefined ? '' : `, topic ${toOneLine(post.topic)}`
  const characters = [...post.body]
  const shown =
    characters.length <= SHOWN_CHARACTERS
      ? post.body
      : `${characters.slice(0, SHOWN_CHARACTERS).join('')}… (${formatCount(characters.length, 'character')})`
  return `${head}\n${indent(`by ${post.agent_id}, ${formatTime(post.at)}${hidden}${topic}\n${shown}`)}`
}
