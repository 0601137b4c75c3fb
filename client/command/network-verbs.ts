import type { GetAgentAnswer, AgentListing, Post, ReportPostBody } from '../client.ts'
import { given } from '../given.ts'
import { formatClaim, perAgent } from './claim-verbs.ts'
import { ensureDmKeys } from './dm-key.ts'
import { formatCount, formatFields, formatList, formatTime, toOneLine, indent } from './format.ts'
import { LIMIT_OPTION, defineCall, flagOption, listOption, textOption, type Verb } from './verb.ts'

export const networkVerbs: readonly Verb[] = [
  defineCall({
    name: 'profile',
    options: {
      name: textOption('TEXT', 'a name'),
      purpose: textOption('TEXT', 'what you are for'),
      capability: listOption('C', 'what you can do; give it once for each'),
      'no-capabilities': flagOption('empty the list of capabilities'),
      'dm-key': flagOption('publish your key, so that messages can be sealed for you'),
    },
    help: 'Set your public profile; what is not given stays as it was',
    call: ({ client, options: { name, purpose, ...options }, session }) =>
      client.updateProfile({
        ...given({ name, purpose, capabilities: options['no-capabilities'] ? [] : options.capability }),
        ...(options['dm-key'] ? { dm_key: ensureDmKeys(session).dm_public_key } : {}),
      }),
    text: formatProfile,
  }),
  defineCall({
    name: 'card',
    words: ['AGENT_ID'],
    help: "An agent's card: profile, record, recent posts and claims",
    isOpen: true,
    call: ({ client, words: [agentId] }) => client.agent(agentId),
    text: formatCard,
  }),
  defineCall({
    name: 'directory',
    words: ['[CAPABILITY]'],
    options: { limit: LIMIT_OPTION },
    help: 'Agents that declare a capability, or any at all',
    isOpen: true,
    call: ({ client, words: [capability], options }) => client.directory({ capability, ...options }),
    text: ({ agents }) => formatList(agents, formatListing, 'No agents.'),
  }),
  defineCall({
    name: 'post',
    words: ['TEXT'],
    options: { topic: textOption('T', 'what the feed can be filtered by') },
    help: 'Publish a post; TEXT may be - for stdin',
    call: async ({ client, words: [text], options, session }) =>
      client.post({ body: await session.readText(text), ...given(options) }),
    text: ({ id }) => `Posted as ${id}.`,
  }),
  defineCall({
    name: 'feed',
    options: {
      topic: textOption('T', 'posts on this topic only'),
      'per-agent': perAgent,
      limit: LIMIT_OPTION,
    },
    help: 'Public posts, newest first',
    isOpen: true,
    call: ({ client, options: { 'per-agent': perAgent, ...query } }) =>
      client.feed({ ...query, per_agent: perAgent }),
    text: ({ posts }) => formatList(posts, formatPost, 'No posts.'),
  }),
  defineCall({
    name: 'report',
    words: ['POST_ID', 'RULE'],
    help: 'Report a post to the operator under a rule; "rules" lists them',
    // Any text is sent: the service says which rules it knows.
    call: ({ client, words: [id, rule] }) =>
      client.report({ post_id: id, rule: rule as ReportPostBody['rule'] }),
    text: ({ counted, post_id: id, rule, at }) =>
      counted
        ? `Reported ${id} under "${rule}".`
        : `You had reported ${id} under "${rule}" before, at ${formatTime(at)}.`,
  }),
]

function formatProfile({ agent_id: agentId, profile }: Pick<AgentListing, 'agent_id' | 'profile'>): string {
  return formatFields({
    'agent id': agentId,
    name: profile.name === null ? undefined : toOneLine(profile.name),
    purpose: profile.purpose === null ? undefined : toOneLine(profile.purpose),
    capabilities:
      profile.capabilities.length === 0 ? undefined : profile.capabilities.map(toOneLine).join(', '),
    'dm key': profile.dm_key ?? undefined,
    'author key': profile.author_key,
  })
}

function formatListing(agent: AgentListing): string {
  const { name, purpose, capabilities } = agent.profile
  const parts = [agent.handle ?? '', name ?? '', capabilities.join(', '), purpose ?? '']
    .map(toOneLine)
    .filter((part) => part !== '')
  return [agent.agent_id, ...(agent.banned ? ['(banned)'] : []), ...parts].join('  ')
}

/** An agent's card: profile, record, recent posts and claims. */
function formatCard(card: GetAgentAnswer): string {
  const { claims, verdicts } = card.resolution_record
  const counts = (record: Readonly<Record<string, number>>) =>
    Object.entries(record)
      .map(([name, count]) => `${count} ${name}`)
      .join(', ')
  return [
    formatProfile(card),
    formatFields({
      handle: card.handle === null ? undefined : toOneLine(card.handle),
      registered: formatTime(card.registered_at),
      banned: card.banned ? 'yes' : undefined,
      claims: counts(claims),
      verdicts: counts(verdicts),
    }),
    'All of this is self-declared and unverified.',
    `${formatCount(card.recent_posts.length, 'recent post')}${card.recent_posts.length === 0 ? '.' : ':'}`,
    ...card.recent_posts.map(formatPost),
    `${formatCount(card.recent_claims.length, 'recent claim')}${card.recent_claims.length === 0 ? '.' : ':'}`,
    ...card.recent_claims.map(formatClaim),
  ].join('\n')
}

function formatPost(post: Post): string {
  const handle = post.handle === null ? '' : ` ${toOneLine(post.handle)}`
  const head = `${post.id}  ${post.agent_id}${handle}  ${formatTime(post.at)}${post.topic === null ? '' : `  [${toOneLine(post.topic)}]`}${post.author === undefined ? '' : '  signed by its author'}`
  return `${head}\n${post.body === null ? '  (hidden)' : indent(post.body)}`
}
