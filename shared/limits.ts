/**
 * Every number that defines behaviour, with its reason. The validators, `GET /limits`, `GET /rules`, the OpenAPI
 * document and the client read them here, so none of them can drift from another.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './time.ts'

export const PROTOCOL_VERSION = 1
export const SERVICE_VERSION = 1
export const API_BASE = '/api/v1'

/** A body of 512 KiB holds the largest defined one, a batch of 10,000 nonces of 20 characters, with room to spare. */
export const MAX_BODY_BYTES = 512 * 1024
/**
 * Bodies that one API process holds at a time, of all requests together. Routes without a token have little of it to
 * share, so that nobody who has shown nothing can crowd out agents: a registration needs less than 2 KiB.
 */
export const MAX_HELD_BODY_BYTES = { open: 4 * 1024 * 1024, token: 64 * 1024 * 1024 } as const
/** Of each body, what does not count for that. */
export const FREE_BODY_BYTES = 16 * 1024
/** Requests under way in one API process: about what it answers in a second, so that whoever is let in is answered in time. */
export const MAX_UNDER_WAY = { reads: 4_000, writes: 2_000 } as const
/** Entries on one receipt; the agent of a busy operator's life has fewer. */
export const MAX_RECEIPT_ENTRIES = 500
/** Requests that wait for a worker's verdict in one API process; the next is told that it takes longer. */
export const MAX_WAITING = 4_000
/** Answers that callers leave lying in one API process: some 25 of the longest. */
export const MAX_UNREAD_ANSWER_BYTES = 128 * 1024 * 1024

/** Bounds of `limit` on a list, and what an absent one means. */
export const LIST_LIMIT = { min: 1, max: 200, fallback: 50 } as const
/** `/seal` and `/ledger` are walked by verifiers, whose cost is in round trips. */
export const WALK_LIMIT = { min: 1, max: 10_000, fallback: 50 } as const

/** Long enough to solve a puzzle by thinking and the work on one slow core (2^20 hashes), short enough to forget. */
export const CHALLENGE_TTL_MS = 10 * MINUTE_MS
/** The form of a share is the rule of `crypto/pow.ts`, which stands on its own. */
export { MAX_NONCE_LENGTH, PREFIX_LENGTH } from './crypto/pow.ts'

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
/** How long `POST /work/submit` waits for the workers' verdict before it answers 202. */
export const VERDICT_WAIT_MS = 5 * SECOND_MS
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

/** What the operator announces at once: a page. */
export const MAX_ANNOUNCEMENT_LENGTH = 4_000

export const MAX_BOX_BYTES = 64 * 1024
/** Messages handed out by one `GET /dm`: at 64 KiB each, 6.4 MB at the most. */
export const DM_PAGE = 100

/** Verdicts shown with one claim at once: a claim may gather any number of them. */
export const VERDICT_LIMIT = { min: 1, max: 200, fallback: 200 } as const

/** `GET /me` counts unread messages this far, so that its cost stays bounded. */
export const MAX_UNREAD_COUNTED = 10_000
/** Likewise the agents that somebody referred. */
export const MAX_REFERRALS_COUNTED = 10_000

/** An answer 503 asks for this much patience. */
export const RETRY_AFTER_SECONDS = 2
/** A request that has no answer by then gets 503, so that an outage is known within 2 seconds; REQUEST_SECONDS where it is set. */
export const REQUEST_TIMEOUT_MS = 1_800
/** The API looks for a MongoDB that takes commands for this much less, so that the request's own limit is the last to pass. */
export const TIME_TO_ANSWER_MS = 300
/** Waiting longer than this for Redis would hold up an answer that does not need it. */
export const QUEUE_TIMEOUT_MS = 500
/** A process that was told to stop finishes what it has within this time. */
export const STOP_LIMIT_MS = 20 * SECOND_MS
/** The most that it may be told to go on serving before that, while a load balancer takes it out. */
export const MAX_DRAIN_SECONDS = 30
/** Past this, connections that are kept alive and have asked nothing are cut at a stop; those in use were told to close. */
export const IDLE_DRAIN_MS = 2 * SECOND_MS

/** How long a used challenge is remembered: past its expiry it is refused for its age. */
export const USED_CHALLENGE_TTL_MS = CHALLENGE_TTL_MS + HOUR_MS

/** How often pending ledger entries get their numbers. */
export const SEQUENCE_EVERY_MS = 1 * SECOND_MS
/** How often the whole chain of seals is verified from its beginning. */
export const CHAIN_WALK_EVERY_MS = HOUR_MS
/** Seals in one `GET /seal` without `limit`: 69 days of one every 10 minutes, some 5 MB. */
export const MAX_SEALS_LISTED = WALK_LIMIT.max
/** How long `GET /receipt/<id>` waits for an entry that was written just now to get its number; with all else it is answered within 5 s. */
export const RECEIPT_WAIT_MS = 2 * SECOND_MS

/**
 * A clock that differs from the database's by more than this is wrong. By one that is ahead nobody's time ends and no outage
 * is written down, and nobody's time begins by one that is behind.
 */
export const MAX_CLOCK_OFF_MS = 30 * SECOND_MS

/** A statement is not signed whose time is further ahead than this, of the signer's clock or of the database's. */
export const MAX_SIGNED_AHEAD_MS = 5 * MINUTE_MS
/** An announcement whose time is further back is not signed: the key says what is said now. The signer may be away for a night. */
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
/** Days that one invoice can credit, a century: what a mistake or a lie sends beyond that stays a remainder, and no date overflows. */
export const MAX_CREDITED_DAYS = 36_500
/** How long an invoice that lapsed is still looked at hourly; after that, when its owner asks. */
export const LAPSED_WATCH_MS = 30 * DAY_MS
export const LAPSED_LOOK_EVERY_MS = HOUR_MS
/** One invoice asks the workers for a fresh look at most this often. */
export const CHECK_EVERY_MS = 2 * SECOND_MS
/** Addresses that lie ready for the API, per coin. */
export const ADDRESS_POOL = 200
/** How long an API process goes by what it read of the coins and their rates for the menu. */
export const COIN_CACHE_MS = 1 * SECOND_MS
/** Past this it goes by what it read before. */
export const COIN_READ_LIMIT_MS = 500
/** How long a request waits for an address while the pool is being filled. */
export const ADDRESS_WAIT_MS = 2 * SECOND_MS
