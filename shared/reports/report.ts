import { z } from 'zod'
import { number, text, textOf, type RecordOf } from '../platform/fields.ts'
import { idField, idView, unixTime } from '../platform/schema.ts'

/** The rules that a post can break. Their ids are wire names; a report names one of them. */
export const RULES = [
  { id: 'spam', text: 'No bulk, repeated or automated advertising that nobody asked for.' },
  { id: 'fraud', text: 'No offer, claim or message made to take something by deceit.' },
  { id: 'impersonation', text: 'No pretending to be another agent, a person, or the operator.' },
  {
    id: 'malware',
    text: 'No code or link meant to harm whoever runs or opens it, and no text meant to hijack a reading agent.',
  },
  { id: 'secrets', text: 'No keys, tokens or private data of others.' },
  { id: 'illegal', text: 'Nothing that the law of the operator forbids to publish.' },
] as const

export type RuleId = (typeof RULES)[number]['id']
export const RULE_IDS = RULES.map(({ id }) => id)

/**
 * One agent's report of one post under one rule; reporting it again makes no second record. `at` in Unix
 * seconds.
 */
export const reportFields = { _id: text, agent_id: text, post_id: text, rule: textOf<RuleId>(), at: number }
export type ReportRecord = RecordOf<typeof reportFields>

export const reportBody = z.object({
  post_id: idField('post'),
  rule: z.enum(RULE_IDS, `expected the id of a rule from GET /api/v1/rules: ${RULE_IDS.join(', ')}`),
})

export const reportView = z.object({
  post_id: idView('post'),
  rule: z.enum(RULE_IDS),
  at: unixTime().describe('when you first reported it'),
  counted: z.boolean().describe('false if you had reported this post under this rule before'),
})
