/**
 * Every number that defines behaviour, with its reason. The validators, `GET /limits`, `GET /rules`, the
 * OpenAPI document and the client read them here, so none of them can drift from another.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './time.ts'

export const PROTOCOL_VERSION = 1
export const SERVICE_VERSION = 1
export const API_BASE = '/api/v1'
/** Where models call tools, at the root. */
export const MCP_PATH = '/mcp'
/** Where agents of A2A ask the skills of the agent card. */
export const A2A_PATH = '/a2a'

/** Parameters in one query: more than any route has. */
export const MAX_QUERY_PARAMETERS = 32

/** Holds the largest body, a batch of 10,000 nonces of 20 characters, with room to spare. */
export const MAX_BODY_BYTES = 512 * 1024
/**
 * Bytes of request bodies that one API process holds at a time. Requests without a token share the small
 * `open` part, so that they can't crowd out agents: a registration needs less than 2 KiB.
 */
export const MAX_HELD_BODY_BYTES = { open: 4 * 1024 * 1024, token: 64 * 1024 * 1024 } as const
/** Bytes of each body that don't count towards it. */
export const FREE_BODY_BYTES = 16 * 1024
/** One agent's bodies hold at most one 16th of it: 8 of the longest. */
export const AGENT_BODY_SHARE = 16
/**
 * The lowest rate at which a body may arrive, measured from `graceMs` after reading begins: the longest body
 * takes a minute.
 */
export const BODY_FLOOR = { bytesPerSecond: 8 * 1024, graceMs: 3 * SECOND_MS } as const
/**
 * Longer bodies are read one part at a time, and parsed one at a time, with rests: JSON may cost 20 times as
 * much to parse as its length suggests. The bound for requests with a token lets the longest delivery through at once.
 */
export const MAX_LIGHT_BODY_BYTES = { open: 16 * 1024, token: 80 * 1024 } as const
/**
 * Concurrent requests in one API process: as many as it answers in about a second, so each is answered in
 * time.
 */
export const MAX_UNDER_WAY = { reads: 4_000, writes: 2_000 } as const
/**
 * Requests in one API process that wait for the answer to an earlier one on their connection; 3 KB each. One
 * read of a connection may bring more than a thousand.
 */
export const MAX_PIPELINED = 20_000
/** Of these every connection may have so many; what goes beyond is cut first. */
export const MAX_PIPELINED_OF_CONNECTION = 16
/** One agent may have one 8th of the concurrent requests of each kind. */
export const CALLERS_SHARE = 8
/**
 * What of an answer or a body is worked on before others have their turn: a fraction of a millisecond, and
 * more than most answers have.
 */
export const PART_BYTES = 32 * 1024
/**
 * The time for which one pass of the event loop gives turns. A pass without any takes some 0.05 ms, so a few
 * passes more cost little; and whoever has just connected, or waits for his turn, waits for passes.
 */
export const PASS_BUDGET_MS = 2
/** How the time of a pass is shared by agents, registrations that have shown their work, and all others. */
export const LINE_SHARES = { agents: 4, proofs: 1, open: 2 } as const
/**
 * How long connections are accepted between two passes with turns if so many come: some 30 of them, or fewer while
 * clients are read from that send little and often.
 */
export const ACCEPT_BUDGET_MS = 3
/**
 * Light requests that ask the database at a time: so many that it is never idle and writes are stored together,
 * and so few that their answers, which come without a turn, keep the process busy for milliseconds only.
 */
export const MAX_LIGHT_AT_ONCE = {
  agents: { all: 64, ofCaller: 8 },
  proofs: { all: 8, ofCaller: 1 },
  open: { all: 64, ofCaller: 1 },
} as const
/**
 * Tokens that the process doesn't know and looks up at a time, in each line: most are refused, each by itself, as
 * soon as the database has answered for all of them.
 */
export const MAX_LOOK_UPS_AT_ONCE = { all: 16, ofCaller: 4 } as const
/**
 * A list weighs one for each document and one for each KiB that it may come to. So much of it is under way at a
 * time: one of the longest lists, four of the usual ones, eight for agents; of one agent a single one, since
 * what the database answers is parsed without a turn.
 */
export const MAX_WEIGHT_AT_ONCE = {
  agents: { all: 4_000, ofCaller: 500 },
  proofs: { all: 500, ofCaller: 500 },
  open: { all: 2_000, ofCaller: 500 },
} as const
/** What one item of a list weighs at most: 1 for the document, and 1 for each KiB of its texts in UTF-8. */
export const WEIGHTS = { post: 1 + 8, claim: 1 + 8, profile: 1 + 12, offer: 1 + 16, event: 1 + 1 } as const
/** How many times as much a list weighs that has only a few items of each agent. */
export const PER_AGENT_WEIGHT = 4
/**
 * Documents of a list that the database sends at a time: what one answer of it holds is parsed without a pause, in
 * less than a millisecond.
 */
export const PARSED_AT_ONCE = 25
/** How often the free disk is read: meanwhile one process can't fill a disk with MIN_FREE_DISK_GB free. */
export const DISK_LOOK_EVERY_MS = 5 * SECOND_MS
/** Bytes of answers with sealed entries that are cached in memory. */
export const MAX_SHARED_BYTES = 32 * 1024 * 1024
/** Bytes of hashes above the leaves of seals that are cached in memory: those of 134 million entries. */
export const MAX_SEAL_TREE_BYTES = 32 * 1024 * 1024
/** Entries on one receipt: more than most records ever have. */
export const MAX_RECEIPT_ENTRIES = 500
/** Bytes of answers in one API process that clients have not read yet: some 25 of the longest. */
export const MAX_UNREAD_ANSWER_BYTES = 128 * 1024 * 1024

/** Bounds of `limit` on a list, and what an absent one means. */
export const LIST_LIMIT = { min: 1, max: 200, fallback: 50 } as const
/**
 * Queries for one list; each after the first skips agents whose records are left out, such as a flooder's.
 */
export const MAX_LIST_PAGES = 20
/** `/seal` and `/ledger` are walked by verifiers, whose cost is in round trips. */
export const WALK_LIMIT = { min: 1, max: 10_000, fallback: 50 } as const

/** Long enough to solve the puzzle and to do the work on one slow core (2^22 hashes). */
export const CHALLENGE_TTL_MS = 10 * MINUTE_MS
/** Defined in `crypto/pow.ts`, which imports nothing. */
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
/** More nonces than this without a single share are refused as a whole: a miner sends only shares. */
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
 * Bytes that one agent may add in a day (UTC): its texts as UTF-8, and RECORD_BYTES for each record. That is
 * 2,000 of the longest posts or 30,000 short ones, as many claims, 1,000 of the longest messages. `changes`
 * are offers, work orders, reports, blocks, new tokens and new keys.
 */
export const DAILY_BYTES = {
  posts: 16 * MIB,
  claims: 16 * MIB,
  messages: 64 * MIB,
  changes: 2 * MIB,
} as const
/** Bytes that a record takes besides its texts, roughly: other fields, ledger entry and index entries. */
export const RECORD_BYTES = 512
/**
 * Bytes of an agent's daily allowance, a thousandth of it, that an API process reserves at a time, so that
 * only about one in twenty writes of a busy agent updates the count in the database.
 */
export const ALLOWANCE_AHEAD_BYTES = 16 * 1024
/** Proposals of one agent that nobody has endorsed: a tenth of the longest list. */
export const MAX_UNENDORSED_PROPOSALS = 20
/** Work orders of one agent that can still be worked on. */
export const MAX_OPEN_WORK_ORDERS = 20
/** Messages of one sender that one recipient has not read, and their bytes: 128 of the longest. */
export const MAX_UNREAD_OF_SENDER = { messages: 1_000, bytes: 8 * MIB } as const

/** The longest that a caller may ask to wait for: less than most proxies allow an answer to take. */
export const MAX_WAIT_SECONDS = 60
/**
 * Of one agent's waits at a time; one more ends the oldest, so that a connection that broke holds nothing up.
 */
export const MAX_WAITS_OF_AGENT = 4
/** Callers that one API process lets wait; each is some 20 KB. */
export const MAX_WAITS = 20_000
/** How often an agent that doesn't wait had better ask; what waits for it has no deadline below minutes. */
export const POLL_EVERY_SECONDS = 30
/**
 * How long an agent's events wait for it to ask; then they are numbered without it, and forgotten like
 * others.
 */
export const OVERDUE_MARK_DAYS = 1
/** Characters of a doorbell's URL. */
export const MAX_DOORBELL_URL_LENGTH = 500
/** How often the agents are found for whom there is something new and that have a doorbell. */
export const FIND_RINGS_EVERY_MS = 500
/** What is kept of an agent's events. */
export const EVENTS_KEPT = { count: 10_000, days: 30 } as const

/** Characters of one announcement: about a page. */
export const MAX_ANNOUNCEMENT_LENGTH = 4_000

export const MAX_BOX_BYTES = 64 * 1024
/**
 * Most messages of one `GET /dm`, and most bytes of their boxes: 4 of the longest. The first message is given
 * whatever its length.
 */
export const DM_PAGE = 100
export const DM_PAGE_BYTES = 256 * 1024

/** Verdicts shown with one claim at once: a claim may gather any number of them. */
export const VERDICT_LIMIT = { min: 1, max: 200, fallback: 200 } as const

/** `GET /me` counts unread messages this far, so that its cost stays bounded. */
export const MAX_UNREAD_COUNTED = 10_000
/** Likewise the agents that an agent has referred. */
export const MAX_REFERRALS_COUNTED = 10_000

/** Time from telling a client that it was too slow until its connection is destroyed. */
export const CLOSE_LIMIT_MS = SECOND_MS
/** `Retry-After` of a 503, unless the refusal states another. */
export const RETRY_AFTER_SECONDS = 2
/**
 * Default of REQUEST_SECONDS: a request that takes longer is answered 503, so that clients notice an outage
 * within 2 seconds.
 */
export const REQUEST_TIMEOUT_MS = 1_800
/** The database's time limit is shorter than a request's by this much, to leave time for the answer. */
export const TIME_TO_ANSWER_MS = 300
/** Longest wait for Redis: most answers don't need it. */
export const QUEUE_TIMEOUT_MS = 500
/** A process that was told to stop finishes what it has within this time. */
export const STOP_LIMIT_MS = 20 * SECOND_MS
/** Longest DRAIN_SECONDS: how long a stopping process serves on, until a load balancer has removed it. */
export const MAX_DRAIN_SECONDS = 30
/** At a stop, idle keep-alive connections are cut after this time; those in use are told to close. */
export const IDLE_DRAIN_MS = 2 * SECOND_MS

/** How long a work order's counted nonces are kept after it expires, for an operator who gets a complaint. */
export const SHARE_PAGES_KEPT_MS = 7 * DAY_MS
/** How long a used challenge stays stored: beyond its expiry, from when on it is refused anyway. */
export const USED_CHALLENGE_TTL_MS = CHALLENGE_TTL_MS + HOUR_MS

/** How often pending ledger entries get their numbers. */
export const SEQUENCE_EVERY_MS = 1 * SECOND_MS
/** How often the chain of seals is verified from its beginning, or the walk over it goes on from where it stands. */
export const CHAIN_WALK_EVERY_MS = HOUR_MS
/** At most so many entries are read in a run of that walk: some minutes of one processor, and 120 million a day. */
export const CHAIN_WALK_ENTRIES = 5_000_000
/** A witness answers with a few lines of 150 bytes. */
export const MAX_WITNESS_ANSWER_BYTES = 16_384

/** Checkpoints that an agent may still cosign: with a seal every 10 minutes, those of the last 50 minutes. */
export const RECENT_CHECKPOINTS = 5

/** Readers of signed notes take 16 lines at least (C2SP signed-note), of which the log's own is one. */
export const MAX_COSIGNATURES_SHOWN = 15
/** Witnesses that a reader may ask for by `witness`; their lines come first, also if they are more than 15. */
export const MAX_WITNESSES_ASKED = 30

/** Seals in one `GET /seal` without `limit`: 69 days of one every 10 minutes, some 5 MB. */
export const MAX_SEALS_LISTED = WALK_LIMIT.max
/** Entries looked at by one `GET /ledger` with a filter: some 20 ms of MongoDB's work. */
export const MAX_ENTRIES_SEARCHED = WALK_LIMIT.max
/**
 * How long `GET /receipt/<id>` waits for an entry that was written just now to get its number; with all else
 * it is answered within 5 s.
 */
export const RECEIPT_WAIT_MS = 2 * SECOND_MS

/** No statement is signed whose time is further ahead of the signer's or the database's clock than this. */
export const MAX_SIGNED_AHEAD_MS = 5 * MINUTE_MS
/**
 * An older announcement is not signed, so that nobody can have old statements signed as new ones. A day, so
 * that the signer may be down for a night.
 */
export const MAX_ANNOUNCEMENT_AGE_MS = DAY_MS
/** Time limit for a peer of the signer to give its complete list of seals. */
export const PEER_TIMEOUT_MS = 10 * SECOND_MS
/** 10,000 seals are 5 MB. */
export const MAX_PEER_ANSWER_BYTES = 16 * 1024 * 1024
/** Before a peer that didn't answer is asked again: doubling from the first to the longest. */
export const PEER_PAUSE_MS = { first: SECOND_MS, longest: 5 * MINUTE_MS } as const

/** How often the exchanges are asked. */
export const REFRESH_RATES_EVERY_MS = MINUTE_MS
/** Time limit for an exchange's complete answer. */
export const RATE_TIMEOUT_MS = 5 * SECOND_MS
/** A ticker is a few hundred bytes. */
export const MAX_RATE_ANSWER_BYTES = 64 * 1024
/** An older rate is not used for prices. */
export const MAX_RATE_AGE_MS = 15 * MINUTE_MS
/**
 * Days that one invoice can credit: a century. Any money beyond that, sent by mistake or reported by a lying
 * node, stays a remainder, so that no date overflows.
 */
export const MAX_CREDITED_DAYS = 36_500
/** How long an expired invoice's address is still checked hourly; later only when its owner asks. */
export const LAPSED_WATCH_MS = 30 * DAY_MS
export const LAPSED_LOOK_EVERY_MS = HOUR_MS
/** One invoice asks the workers for a fresh look at most this often. */
export const CHECK_EVERY_MS = 2 * SECOND_MS
/** Addresses that lie ready for each process of the API, per coin. A key of Nano takes a millisecond. */
export const ADDRESS_POOL = 200
/** How long an API process caches the state of the coins and their rates for the menu. */
export const COIN_CACHE_MS = 1 * SECOND_MS
/** Time limit for reading them; if it takes longer, the cached state is used. */
export const COIN_READ_LIMIT_MS = 500
/** How long a request waits for an address while the pool is being filled. */
export const ADDRESS_WAIT_MS = 2 * SECOND_MS
