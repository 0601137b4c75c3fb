import { z } from 'zod'
import { EVENT_KINDS, eventKind, type EventKind, type Telling } from '../events/mark.ts'
import type { Config } from '../platform/config.ts'
import { list, maybe, number, text, textOf, textOrEmpty, type RecordOf } from '../platform/fields.ts'
import { invalidField } from '../platform/errors.ts'
import { text as textField, unixTime } from '../platform/schema.ts'
import { MAX_DOORBELL_URL_LENGTH } from '../platform/limits.ts'

/**
 * Terms.
 *
 * - A *doorbell* is one https URL of an agent, which is told when the agent has events that it hasn't asked for. It
 *   promises nothing: events are kept and given by GET /events.
 * - A *ring* is one POST to it.
 * - A *proof* comes first: a challenge is posted to the URL, and its HMAC under a secret that only the agent was
 *   given comes back.
 */
export const DOORBELL_STATES = ['unproven', 'on', 'silent', 'off'] as const
export type DoorbellState = (typeof DOORBELL_STATES)[number]

const quietFields = { from: text, to: text }
export type QuietHours = RecordOf<typeof quietFields>

/** Times named `*_ms` are milliseconds by the database's clock. */
export const doorbellFields = {
  /** The agent. */
  _id: text,
  /** Names this setting of it: another POST /doorbell makes another. */
  rev: text,
  /** Empty once it is removed. */
  url: textOrEmpty,
  /** Kinds of events that ring it. */
  kinds: list(textOf<EventKind>()),
  quiet_hours: maybe.nested(quietFields),
  /** When it was set, in Unix seconds. */
  at: number,
  state: textOf<DoorbellState | 'removed'>(),
  /** Until it is proven: the key of the proof's HMAC. */
  secret: maybe.text,
  /** When a ring or a challenge is due; absent if none is. */
  due_ms: maybe.number,
  /** How often the ring that is due was tried in vain, and when it was tried first. */
  tries: number,
  begun_ms: maybe.number,
  /** When it was last tried. */
  tried_ms: maybe.number,
  /** The newest event for which it should ring, and the number of the agent's last event then. */
  news_ms: maybe.number,
  news_seq: maybe.number,
  /** When the last ring that arrived was sent, and the number of the agent's last event then. */
  rung_ms: maybe.number,
  rung_seq: maybe.number,
  /** Since when no ring has arrived. */
  failing_ms: maybe.number,
  /** Why the last one didn't. */
  failure: maybe.text,
  /** The last one failed or took long: it waits apart from others. */
  slow: maybe.flag,
  /** Names the last change that was stored, of many that go to the database together. */
  step: maybe.text,
}
export type DoorbellRecord = RecordOf<typeof doorbellFields> & Telling

const HOUR = /^([01]\d|2[0-3]):[0-5]\d$/
const hourField = z
  .string()
  .regex(HOUR, 'expected a time of day in UTC such as 22:00')
  .meta({ examples: ['22:00'] })

export const doorbellBody = z.object({
  url: textField({ min: 1, max: MAX_DOORBELL_URL_LENGTH }).meta({
    description:
      'https://, a host name, port 443; no user, no fragment. Setting it again, even to the same, begins with the proof',
    examples: ['https://bell.example/ring'],
  }),
  kinds: z
    .array(eventKind, 'expected a list of kinds of events')
    .min(1, 'expected at least one kind of event')
    .max(EVENT_KINDS.length, 'expected each kind once')
    .transform((kinds) => [...new Set(kinds)])
    .optional()
    .describe('kinds of events that ring; all if absent'),
  quiet_hours: z
    .object({ from: hourField, to: hourField })
    .optional()
    .describe(
      'from and to, times of day in UTC, between which it does not ring; what comes then rings at `to`',
    ),
})
export type DoorbellFields = z.output<typeof doorbellBody>

const doorbellState = z
  .object({
    url: z.string(),
    state: z
      .enum(DOORBELL_STATES)
      .describe(
        'unproven: its URL has not answered the challenge; on; silent: it did not answer for an hour, until you ask for your events; off: it did not answer for a week, set it again',
      ),
    kinds: z.array(eventKind),
    quiet_hours: z.object({ from: z.string(), to: z.string() }).nullable(),
    set_at: unixTime(),
    rung_at: unixTime().nullable().describe('when the last ring that arrived was sent'),
    failing_since: unixTime().nullable(),
    failure: z.string().nullable().describe('why the last ring or challenge failed'),
  })
  .meta({ id: 'Doorbell' })

export const doorbellView = z.object({ doorbell: doorbellState.nullable() })
export const doorbellSetView = z.object({
  doorbell: doorbellState.nullable(),
  secret: z
    .string()
    .describe(
      'shown this once: your receiver answers a challenge with its HMAC-SHA256 under this text, in lower-case hex',
    ),
})

const seconds = (ms: number | undefined): number | null => (ms === undefined ? null : Math.floor(ms / 1_000))

export function viewDoorbell(bell: DoorbellRecord | undefined): z.input<typeof doorbellView>['doorbell'] {
  return bell === undefined || bell.state === 'removed' ? null : viewSet({ ...bell, state: bell.state })
}

/** A doorbell that isn't removed. */
type Present = DoorbellRecord & { state: DoorbellState }

/** Returns a doorbell as answers show it. */
const viewSet = (bell: Present): z.input<typeof doorbellState> => ({
  url: bell.url,
  state: bell.state,
  kinds: bell.kinds,
  quiet_hours:
    bell.quiet_hours === undefined ? null : { from: bell.quiet_hours.from, to: bell.quiet_hours.to },
  set_at: bell.at,
  rung_at: seconds(bell.rung_ms),
  failing_since: seconds(bell.failing_ms),
  failure: bell.failure ?? null,
})

const URL_FORM = 'expected an https:// URL with a host name, without port, user and fragment'

/**
 * Checks the URL of a doorbell, without asking anybody.
 *
 * @returns it as it is called, which is how the signature names it
 * @throws Refusal `invalid_field`
 */
export function checkDoorbellUrl(
  text: string,
  { hosts, testHosts }: Pick<Config['doorbells'], 'hosts' | 'testHosts'>,
): string {
  const url = URL.parse(text)
  const isForm =
    url?.protocol === 'https:' && url.username === '' && url.password === '' && !text.includes('#')
  if (url === null || !isForm) throw invalidField('url', `url: ${URL_FORM}.`)
  // An address in any spelling: the parser has made it plain.
  if (url.hostname.startsWith('[') || /^[\d.]+$/.test(url.hostname))
    throw invalidField('url', `url: ${URL_FORM}; an address is not a host name.`)
  const isForTest = testHosts.has(url.host)
  if (!isForTest && (url.port !== '' || !/^[a-z0-9_-]+(\.[a-z0-9_-]+)+$/.test(url.hostname)))
    throw invalidField('url', `url: ${URL_FORM}.`)
  if (
    hosts !== undefined &&
    !hosts.some((host) => url.hostname === host || url.hostname.endsWith(`.${host}`))
  )
    throw invalidField('url', `url: this service rings only at ${hosts.join(', ')} and below.`)
  return url.href
}
