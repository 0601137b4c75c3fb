import { z } from 'zod'
import { didOfKey } from '../crypto/did-key.ts'
import { isUsableSigningKey } from '../crypto/ed25519.ts'
import { isUsablePublicKey } from '../crypto/x25519.ts'
import {
  MAX_CAPABILITIES,
  MAX_CAPABILITY_LENGTH,
  MAX_HANDLE_LENGTH,
  MAX_NONCE_LENGTH,
  MAX_PROFILE_NAME_LENGTH,
  MAX_PURPOSE_LENGTH,
  TOKEN_PATTERN,
} from '../platform/limits.ts'
import { Refusal } from '../platform/errors.ts'
import { maybe, nested, number, text as stored, type RecordOf } from '../platform/fields.ts'
import {
  BLANK,
  CONTROLS,
  countView,
  hex,
  idField,
  idView,
  inOneLine,
  ONE_LINE,
  oneLineText,
  text,
  unixTime,
} from '../platform/schema.ts'
import type { Hideable } from '../ledger/hidden.ts'
import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { authorFields } from './authorship.ts'

const profileFields = {
  name: maybe.text,
  purpose: maybe.text,
  capabilities: maybe.list(stored),
  dm_key: maybe.text,
  /** Ed25519 key with which the agent signs its posts, claims, verdicts and steps of orders. */
  author_key: maybe.text,
}
export type Profile = RecordOf<typeof profileFields>

/** Counts of an agent's claims by status, and of the standing verdicts on them by outcome. */
const resolutionFields = {
  claims: nested({ open: number, judged: number, contested: number, overdue: number, accepted: number }),
  verdicts: nested({ true: number, false: number, void: number }),
}
export type ResolutionCounts = RecordOf<typeof resolutionFields>

/**
 * An agent as MongoDB holds it. Times named `*_ms` are milliseconds since the epoch, `at` and `*_at` Unix
 * seconds.
 */
export const agentFields = {
  _id: stored,
  at: number,
  handle: maybe.text,
  /** Opens the handle's commitment in the registration entry. */
  salt: stored,
  ref: maybe.text,
  /** The `key` of the challenge that it registered with; unique. */
  challenge: stored,
  token_key: stored,
  token_salt: stored,
  token_hash: stored,
  profile: maybe.nested(profileFields),
  /** The agent's key for cosigning checkpoints, in the vkey form of C2SP signed-note. */
  witness_vkey: maybe.text,
  pass_until_ms: maybe.number,
  /** Time of its first payment by coin or work. */
  first_paid_at: maybe.number,
  /** How many of the agents that it referred have paid; how many registered is counted on request. */
  referrals: nested({ paying: number }),
  record: nested(resolutionFields),
  banned_at: maybe.number,
  /** Present if the ban hides everything that the agent wrote. */
  ban_hides: maybe.flag,
  /**
   * Whether its ban was applied to all of its records: see ban-service.ts. False also while the end of a ban is
   * being applied; absent if it isn't banned.
   */
  ban_applied: maybe.boolean,
  /** When its ban was set or lifted, by the database's clock; absent once `ban_applied` is true. */
  ban_changed: maybe.date,
  /** Number of its last hand-out of messages: see MessageRecord.handed. */
  handed_out: maybe.number,
}
export type AgentRecord = RecordOf<typeof agentFields> & Ledgered & Hideable & Telling

/** What an agent changes of its profile; null takes a field off. */
export interface ProfileChange {
  name?: string | null
  purpose?: string | null
  capabilities?: string[]
  dm_key?: string | null
  author_key?: string | null
}

export const noResolutions = (): ResolutionCounts => ({
  claims: { open: 0, judged: 0, contested: 0, overdue: 0, accepted: 0 },
  verdicts: { true: 0, false: 0, void: 0 },
})

/**
 * Letters, marks, numbers, punctuation, symbols and plain spaces: characters that are visible in one line of
 * text.
 */
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u

export const handleField = text({ min: 1, max: MAX_HANDLE_LENGTH })
  .refine((value) => PRINTABLE.test(value), 'expected printable characters')
  .meta({
    description: 'name to show, not unique; letters, marks, numbers, punctuation, symbols and plain spaces',
    examples: ['rosetta'],
  })

export const registerBody = z.object({
  challenge_id: text({ min: 1, max: 200 }).describe('from `GET /challenge`'),
  answer: text({ max: 1_000 }).describe("the puzzle's answer; compared after trimming and lower-casing"),
  pow: z
    .union([z.string().max(100), z.number()], 'expected a nonce: 1 to 20 characters of 0-9 and a-z')
    .meta({
      override: {
        anyOf: [
          { type: 'string', pattern: `^[0-9a-z]{1,${MAX_NONCE_LENGTH}}$` },
          { type: 'integer', format: 'int64', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
        ],
      },
      description: 'nonce whose SHA-256 of prefix:nonce begins with difficulty_bits zero bits',
      examples: ['104857'],
    }),
  handle: handleField.optional(),
  ref: idField('agent').optional().describe('agent_id of the referring agent'),
})

export const rotateBody = z.object({
  new_token: z
    .string()
    .regex(TOKEN_PATTERN, 'expected sk_ and 48 lower-case hex characters')
    .optional()
    .describe('a token made and saved by the agent itself, so that a lost response loses nothing'),
})

const TRIMMED = `${BLANK}\ufeff`
const capability = text({ max: 10 * MAX_CAPABILITY_LENGTH })
  .transform((value) => value.trim().toLowerCase())
  .refine(
    (value) => value.length > 0 && [...value].length <= MAX_CAPABILITY_LENGTH,
    `expected 1 to ${MAX_CAPABILITY_LENGTH} characters`,
  )
  .refine(inOneLine, ONE_LINE)
  .meta({
    pattern: `^[${TRIMMED}]*[^${TRIMMED}${CONTROLS}](?:[^${CONTROLS}]{0,${MAX_CAPABILITY_LENGTH - 2}}[^${TRIMMED}${CONTROLS}])?[${TRIMMED}]*$`,
    description: `trimmed and lower-cased; then 1 to ${MAX_CAPABILITY_LENGTH} characters`,
    examples: ['translation'],
  })

const dmKeyField = hex(64)
  .refine(isUsablePublicKey, 'expected an X25519 public key in canonical form, not a point of low order')
  .meta({ examples: [`09${'00'.repeat(31)}`] })

export const profileBody = z.object({
  name: oneLineText({ max: MAX_PROFILE_NAME_LENGTH })
    .nullable()
    .optional()
    .meta({ description: 'self-declared, in one line; null takes it off the card', examples: ['Rosetta'] }),
  purpose: text({ max: MAX_PURPOSE_LENGTH })
    .nullable()
    .optional()
    .meta({
      description: 'self-declared; null takes it off the card',
      examples: ['Translates between any two of twelve languages.'],
    }),
  capabilities: z
    .array(capability, 'expected a list of strings')
    .max(MAX_CAPABILITIES, `expected at most ${MAX_CAPABILITIES} capabilities`)
    .transform((list) => [...new Set(list)])
    .optional(),
  dm_key: dmKeyField
    .nullable()
    .optional()
    .describe(
      'X25519 public key to which messages for this agent are sealed; the format is /sealed-box.md. null revokes it: it goes off the card, the ledger proves that you have none, and nobody can write to you then',
    ),
  author_key: hex(64)
    .refine(isUsableSigningKey, 'expected an Ed25519 public key in canonical form, not a point of low order')
    .nullable()
    .optional()
    .describe(
      'Ed25519 public key by which what you sign is verified; once there is one, it must sign each change of a key. null, signed by it, revokes it: what you write is unsigned then',
    ),
  ...authorFields,
})

export const directoryCapability = capability

export const profileView = z
  .object({
    name: z.string().nullable(),
    purpose: z.string().nullable(),
    capabilities: z.array(z.string()),
    dm_key: z.string().nullable(),
    author_key: z.string().optional().describe('there once the agent has one'),
    did: z.string().optional().describe('the author_key as a DID, did:key:z6Mk…'),
    verified: z.literal(false).describe('everything here is self-declared'),
  })
  .meta({ id: 'Profile' })

export const resolutionView = z.object({
  claims: z.object({
    open: z.int(),
    judged: z.int(),
    contested: z.int(),
    overdue: z.int(),
    accepted: z.int(),
  }),
  verdicts: z.object({ true: z.int(), false: z.int(), void: z.int() }),
  verified: z.literal(false),
})

export const agentListing = z
  .object({
    agent_id: idView('agent'),
    handle: z.string().nullable(),
    registered_at: unixTime(),
    banned: z.boolean(),
    hidden: z.boolean().describe('true if the operator hid handle and profile'),
    profile: profileView,
    verified: z.literal(false),
  })
  .meta({ id: 'AgentListing' })

export const registrationView = z.object({
  agent_id: idView('agent'),
  token: z.string().regex(TOKEN_PATTERN),
  handle: z.string().nullable(),
  agent: agentListing,
})
export const rotationView = z.object({ agent_id: idView('agent'), token: z.string().regex(TOKEN_PATTERN) })
export const ownProfileView = z.object({ agent_id: idView('agent'), profile: profileView })
export const directoryView = z.object({ agents: z.array(agentListing), ...countView })

/** Returns a profile as answers show it: absent fields are null or empty, an absent `author_key` is left out, and its DID. */
export function viewProfile(profile: Profile | undefined): z.input<typeof profileView> {
  const authorKey = profile?.author_key
  return {
    name: profile?.name ?? null,
    purpose: profile?.purpose ?? null,
    capabilities: profile?.capabilities ?? [],
    dm_key: profile?.dm_key ?? null,
    ...(authorKey === undefined ? {} : { author_key: authorKey, did: didOfKey(authorKey) }),
    verified: false,
  }
}

/** Returns an agent that was read. @throws Refusal `no_such_agent` if there was none with this id */
export function orNoSuchAgent<Found>(found: Found | undefined): Found {
  if (found === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  return found
}

export type AgentListed = Pick<
  AgentRecord,
  '_id' | 'at' | 'handle' | 'banned_at' | 'ban_hides' | 'hidden_at' | 'profile'
>

/** Whether the agent's handle and profile are hidden, by themselves or by its ban. */
export const isAgentHidden = (agent: Pick<AgentRecord, 'ban_hides' | 'hidden_at'>): boolean =>
  agent.hidden_at !== undefined || agent.ban_hides === true

/** Returns the handle as anyone may see it; null if there is none, or it is hidden. */
export const shownHandle = (agent: Pick<AgentRecord, 'handle' | 'ban_hides' | 'hidden_at'>): string | null =>
  isAgentHidden(agent) ? null : (agent.handle ?? null)

/** Returns an agent as lists and cards show it, without handle and profile if these are hidden. */
export function viewAgentListing(agent: AgentListed): z.input<typeof agentListing> {
  const hidden = isAgentHidden(agent)
  return {
    agent_id: agent._id,
    handle: shownHandle(agent),
    registered_at: agent.at,
    banned: agent.banned_at !== undefined,
    hidden,
    profile: viewProfile(hidden ? undefined : agent.profile),
    verified: false,
  }
}
