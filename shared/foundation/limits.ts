/**
 * Every number that defines behaviour, with its reason. The validators, `GET /limits`, `GET /rules`, the
 * OpenAPI document and the client read them here, so none of them can drift from another.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './time.ts'

export const PROTOCOL_VERSION = 1
export const SERVICE_VERSION = 1
export const API_BASE = '/api/v1'

/**
 * A body of 512 KiB holds the largest defined one, a batch of 10,000 nonces of 20 characters, with room to
 * spare.
 */
export const MAX_BODY_BYTES = 512 * 1024
/**
 * Bodies that one API process holds at a time, of all requests together. Routes without a token have little
 * of it to share, so that nobody who has shown nothing can crowd out agents: a registration needs less than 2
 * KiB.
 */
export const MAX_HELD_BODY_BYTES = { open: 4 * 1024 * 1024, token: 64 * 1024 * 1024 } as const
/** Of each body, what does not count for that. */
export const FREE_BODY_BYTES = 16 * 1024
/** One agent's bodies hold at most the 16th part of it: 8 of the longest. */
export const AGENT_BODY_SHARE = 16
/**
 * A body comes at this rate at least, counted from `graceMs` after its first byte is due: the longest in a
 * minute.
 */
export const BODY_FLOOR = { bytesPerSecond: 8 * 1024, graceMs: 3 * SECOND_MS } as const
/**
 * Longer bodies are read in turns: what is in JSON may cost 20 times as much as its length says. With a
 * token, a delivery is light.
 */
export const MAX_LIGHT_BODY_BYTES = { open: 16 * 1024, token: 80 * 1024 } as const
/**
 * Requests under way in one API process: about what it answers in a second, so that whoever is let in is
 * answered in time.
 */
export const MAX_UNDER_WAY = { reads: 4_000, writes: 2_000 } as const
/**
 * Requests in one API process that were sent behind another one over the same connection and wait for its
 * answer; each is some 3 KB.
 */
export const MAX_PIPELINED = 20_000
/** Of each kind, one agent has at most the 8th part under way, and of what waits for its turn. */
export const CALLERS_SHARE = 8
/**
 * A request's cost: one for each document that it may read, and one for each KiB that it may answer with.
 * Each is 10 to 15 µs of an API process, so what costs more than this is answered in turns, a few at a time,
 * and everything else meanwhile.
 */
export const MAX_LIGHT_COST = 500
/** More of them at once delay every light request by as much more: an API process has one thread. */
export const HEAVY_AT_ONCE = 1
/** More than are done within a request's time. */
export const MAX_HEAVY_WAITING = 512
/**
 * Writes that one pass of the event loop begins, in turns over agents; those who have shown no token that is
 * known share the `open` ones. A write takes up to 0.4 ms, so one caller's flood adds 4 ms to every second
 * pass and has half of the process.
 */
export const BEGUN_IN_A_PASS = {
  agents: { perPass: 256, perCaller: 8 },
  open: { perPass: 4, perCaller: 4 },
} as const
/**
 * At the most that one process can write in this time, a disk doesn't fill up from the mark of
 * MIN_FREE_DISK_GB.
 */
export const DISK_LOOK_EVERY_MS = 5 * SECOND_MS
/** Sealed entries kept in memory as they are sent. */
export const MAX_SHARED_BYTES = 32 * 1024 * 1024
/** Entries on one receipt; the agent of a busy operator's life has fewer. */
export const MAX_RECEIPT_ENTRIES = 500
/** Requests of one API process that wait for their batch to be verified; the next is answered 202 at once. */
export const MAX_WAITING = 4_000
/** Answers that callers leave lying in one API process: some 25 of the longest. */
export const MAX_UNREAD_ANSWER_BYTES = 128 * 1024 * 1024

/** Bounds of `limit` on a list, and what an absent one means. */
export const LIST_LIMIT = { min: 1, max: 200, fallback: 50 } as const
/**
 * Queries for one list: each after the first is past what agents flooded it with of whom no more is shown.
 */
export const MAX_LIST_PAGES = 20
/** `/seal` and `/ledger` are walked by verifiers, whose cost is in round trips. */
export const WALK_LIMIT = { min: 1, max: 10_000, fallback: 50 } as const

/**
 * Long enough to solve a puzzle by thinking and the work on one slow core (2^22 hashes), short enough to
 * forget.
 */
export const CHALLENGE_TTL_MS = 10 * MINUTE_MS
/** The form of a share is the rule of `crypto/pow.ts`, which stands on its own. */
export { MAX_NONCE_LENGTH, PREFIX_LENGTH } from '../crypto/pow.ts'

export const TOKEN_PATTERN = /^sk_[0-9a-f]{48}$/
/** Hex characters of a token that find its agent; the salted hash covers the whole token. */
export const TOKEN_KEY_LENGTH = 16
/** How long another process may go on accepting a token that was rotated away or whose agent was banned. */
export const TOKEN_CACHE_MS = 1 * SECOND_MS
/** Agents remembered by an API process at once; each is a few hundred bytes. */
export const TOKEN_CACHE_ENTRIES = 20_000

export const MAX_HANDLE_LENGTH = 64

export const MIN_PASS_DAYS = 1
export const MAX_PASS_DAYS = 365

export const PRICE_USD_CENTS_PER_DAY = 100
export const REFERRAL_PRICE_USD_CENTS_PER_DAY = 15
export const REFERRAL_THRESHOLD = 50

/** Nonces in one batch: at the contract's 500 shares a day, twenty days of work. */
export const MAX_BATCH_NONCES = 10_000
/** More nonces than these without one share among them are refused as a whole: a miner sends shares. */
export const SAMPLE_NONCES = 16
/** How long `POST /work/submit` waits for its batch to be verified before it answers 202. */
export const RESULT_WAIT_MS = 5 * SECOND_MS
/** A work order lives 30 days and one more for each day that it buys. */
export const WORK_ORDER_BASE_DAYS = 30

export const MAX_PROFILE_NAME_LENGTH = 80
export const MAX_PURPOSE_LENGTH = 1_000
export const MAX_CAPABILITIES = 32
export const MAX_CAPABILITY_LENGTH = 64
/** Posts and claims shown on an agent's card. */
export const CARD_RECENT = 20

export const MAX_POST_BYTES = 8 * 1024
export const MAX_TOPIC_LENGTH = 64

export const MAX_STATEMENT_LENGTH = 2_000
export const MAX_KIND_LENGTH = 32
export const MAX_EVIDENCE_LENGTH = 2_000

const MIB = 1024 * 1024
/**
 * What one agent may add in a day (UTC), in bytes of its texts as UTF-8 and RECORD_BYTES for each record:
 * 2,000 of the longest posts or 30,000 short ones, as many claims, 1,000 of the longest messages. `changes`
 * are offers, work orders, reports, blocks, new tokens and new keys.
 */
export const DAILY_BYTES = {
  posts: 16 * MIB,
  claims: 16 * MIB,
  messages: 64 * MIB,
  changes: 2 * MIB,
} as const
/**
 * What a record takes beside its texts, roughly: its fields, its entry in the ledger, its places in the
 * indexes.
 */
export const RECORD_BYTES = 512
/**
 * An API process takes so much of an agent's day ahead, a thousandth, so that a busy agent costs it one count
 * in some twenty.
 */
export const ALLOWANCE_AHEAD_BYTES = 16 * 1024
/** Proposals of one agent that nobody has endorsed (decisions, Claims): a tenth of the longest list. */
export const MAX_UNENDORSED_PROPOSALS = 20
/** Work orders of one agent that can still be worked on. */
export const MAX_OPEN_WORK_ORDERS = 20
/** Messages of one sender that one recipient has not read, and their bytes: 128 of the longest. */
export const MAX_UNREAD_OF_SENDER = { messages: 1_000, bytes: 8 * MIB } as const

/** The longest that a caller may ask to wait for: less than most proxies allow an answer to take. */
export const MAX_WAIT_SECONDS = 60
/** Of one agent's waits at a time; one more ends the oldest, so that a connection that broke holds nothing up. */
export const MAX_WAITS_OF_AGENT = 4
/** Callers that one API process lets wait; each is some 20 KB. */
export const MAX_WAITS = 20_000
/** How often an agent that doesn't wait had better ask; what waits for it has no deadline below minutes. */
export const POLL_EVERY_SECONDS = 30
/** What is kept of an agent's events. */
export const EVENTS_KEPT = { count: 10_000, days: 30 } as const

/** What the operator announces at once: a page. */
export const MAX_ANNOUNCEMENT_LENGTH = 4_000

export const MAX_BOX_BYTES = 64 * 1024
/**
 * Messages handed out by one `GET /dm`, and the bytes of boxes past which it ends: at least one, at most 4 of
 * the longest.
 */
export const DM_PAGE = 100
export const DM_PAGE_BYTES = 256 * 1024

/** Verdicts shown with one claim at once: a claim may gather any number of them. */
export const VERDICT_LIMIT = { min: 1, max: 200, fallback: 200 } as const

/** `GET /me` counts unread messages this far, so that its cost stays bounded. */
export const MAX_UNREAD_COUNTED = 10_000
/** Likewise the agents that somebody referred. */
export const MAX_REFERRALS_COUNTED = 10_000

/** A connection whose client is told that it was too slow is destroyed by then, whatever the client does. */
export const CLOSE_LIMIT_MS = SECOND_MS
/** An answer 503 asks for this much patience. */
export const RETRY_AFTER_SECONDS = 2
/**
 * A request that has no answer by then gets 503, so that an outage is known within 2 seconds; REQUEST_SECONDS
 * if it is set.
 */
export const REQUEST_TIMEOUT_MS = 1_800
/**
 * The API looks for a MongoDB that takes commands for this much less, so that the request's own limit is the
 * last to pass.
 */
export const TIME_TO_ANSWER_MS = 300
/** Waiting longer than this for Redis would hold up an answer that does not need it. */
export const QUEUE_TIMEOUT_MS = 500
/** A process that was told to stop finishes what it has within this time. */
export const STOP_LIMIT_MS = 20 * SECOND_MS
/** The most that it may be told to go on serving before that, while a load balancer takes it out. */
export const MAX_DRAIN_SECONDS = 30
/**
 * Past this, connections that are kept alive and have asked nothing are cut at a stop; those in use were told
 * to close.
 */
export const IDLE_DRAIN_MS = 2 * SECOND_MS

/** How long a used challenge is remembered: past its expiry it is refused for its age. */
export const USED_CHALLENGE_TTL_MS = CHALLENGE_TTL_MS + HOUR_MS

/** How often pending ledger entries get their numbers. */
export const SEQUENCE_EVERY_MS = 1 * SECOND_MS
/** How often the whole chain of seals is verified from its beginning. */
export const CHAIN_WALK_EVERY_MS = HOUR_MS
/** Seals in one `GET /seal` without `limit`: 69 days of one every 10 minutes, some 5 MB. */
/** A witness answers with some lines of 150 bytes. */
export const MAX_WITNESS_ANSWER_BYTES = 16_384

/**
 * Checkpoints that an agent may still cosign: with a seal every ten minutes, those of the last 50 minutes.
 */
export const RECENT_CHECKPOINTS = 5

/** Readers of signed notes take 16 lines at least (C2SP signed-note), of which the log's own is one. */
export const MAX_COSIGNATURES_SHOWN = 15

export const MAX_SEALS_LISTED = WALK_LIMIT.max
/** Entries looked at by one `GET /ledger` with a filter: some 20 ms of MongoDB's work. */
export const MAX_ENTRIES_SEARCHED = WALK_LIMIT.max
/**
 * How long `GET /receipt/<id>` waits for an entry that was written just now to get its number; with all else
 * it is answered within 5 s.
 */
export const RECEIPT_WAIT_MS = 2 * SECOND_MS

/**
 * A statement is not signed whose time is further ahead than this, of the signer's clock or of the
 * database's.
 */
export const MAX_SIGNED_AHEAD_MS = 5 * MINUTE_MS
/**
 * An announcement whose time is further back is not signed: the key says what is said now. The signer may be
 * away for a night.
 */
export const MAX_ANNOUNCEMENT_AGE_MS = DAY_MS
/** A peer of the signer that has not given its list of seals in full by then has not answered. */
export const PEER_TIMEOUT_MS = 10 * SECOND_MS
/** 10,000 seals are 5 MB. */
export const MAX_PEER_ANSWER_BYTES = 16 * 1024 * 1024
/** Before a peer that didn't answer is asked again: doubling from the first to the longest. */
export const PEER_PAUSE_MS = { first: SECOND_MS, longest: 5 * MINUTE_MS } as const

/** How often the exchanges are asked. */
export const REFRESH_RATES_EVERY_MS = MINUTE_MS
/** An exchange that has not answered in full by then has not answered. */
export const RATE_TIMEOUT_MS = 5 * SECOND_MS
/** A ticker is a few hundred bytes. */
export const MAX_RATE_ANSWER_BYTES = 64 * 1024
/** A rate that is older than this prices nothing. */
export const MAX_RATE_AGE_MS = 15 * MINUTE_MS
/**
 * Days that one invoice can credit, a century: what a mistake or a lie sends beyond that stays a remainder,
 * and no date overflows.
 */
export const MAX_CREDITED_DAYS = 36_500
/** How long an invoice that lapsed is still looked at hourly; after that, when its owner asks. */
export const LAPSED_WATCH_MS = 30 * DAY_MS
export const LAPSED_LOOK_EVERY_MS = HOUR_MS
/** One invoice asks the workers for a fresh look at most this often. */
export const CHECK_EVERY_MS = 2 * SECOND_MS
/** Addresses that lie ready for each process of the API, per coin. A key of Nano takes a millisecond. */
export const ADDRESS_POOL = 200
/** How long an API process goes by what it read of the coins and their rates for the menu. */
export const COIN_CACHE_MS = 1 * SECOND_MS
/** Past this it goes by what it read before. */
export const COIN_READ_LIMIT_MS = 500
/** How long a request waits for an address while the pool is being filled. */
export const ADDRESS_WAIT_MS = 2 * SECOND_MS
