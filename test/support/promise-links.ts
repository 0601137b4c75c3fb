/** By file in test/, without its ending, the names of the tests, as they are written. */
type Tests = Record<string, readonly string[]>

/** By promise, the tests that would fail if it were broken. */
export type Links = Record<string, Tests>

/** Of a statement that promises nothing: it is made, word for word. */
const LIMIT_STATED = { 'api/contract': ['stand in /limits row by row at default settings'] }
const NON_GUARANTEE_STATED = { 'api/contract': ['stand in /contract: what is not promised, in words'] }
const POLICY_STATED = {
  'api/contract': ['stand in /contract: how it changes, who may call, what is told and refused'],
}
const GUARANTEE_STATED = { 'api/contract': ['stand in /contract: versions, guarantees and retention'] }
const RULE_IS_REPORTED = {
  'api/reports': ['names a post that exists, hidden or not, and a rule that GET /rules lists'],
  'unit/promises': ['say each rule that a report or the operator can name'],
}
const FIELD_BOUNDS = {
  'unit/limits': ['are taken up to the stated number and refused one beyond it: $name'],
  'api/bad-input': ['of text refuses NUL, half of a surrogate pair, and one character more than its bound'],
}
const ORDER_OF_CHECKS = { 'api/registration': ['is checked in the order that GET /rules states'] }
const NO_CODE_FORCES = {
  'workers/nano-send': [
    'are not signed with PAYOUTS=manual; one under way is seen to its end',
    'that the treasury cannot pay wait and say so, while others go out; then they go too',
  ],
}
const EVERY_REFUSAL = {
  'api/openapi': ['names every refusal that a route can be brought to'],
  'api/mutated-requests': [
    '${COUNT} mutated requests over raw sockets give no 500, no hang and nothing that the contract does not know (seed ${SEED})',
  ],
}
const PASS_ROUTES = {
  'api/contract': ['asks for a token and for a pass exactly where it says so'],
  'api/tokens': ['asks for what the contract says it asks for', 'decides alike about each kind of caller'],
}
const TOKEN_HASHED = {
  'unit/token': [
    'are kept as a look-up key and a salted SHA-256 of the whole, from which nothing leads back',
  ],
  'api/profile': ['shows no token, no key of one, and nothing of payments'],
}
const RATES_AGREE = {
  'workers/rates': ['where at least two lie within 5 percent, and never where none do'],
  'unit/limits': ['a rate prices a coin up to the stated age, and a second more is too old'],
}
const WITHIN_A_DEADLINE = {
  'unit/order-states': ['gives a deadline to one of two steps at any second, and never to both'],
  'api/market': [
    'refuses each side from the second of its deadline on, also where the service has not acted yet',
  ],
}
const ORDER_LEADS = {
  'api/market': ['leads from payment over delivery and acceptance to what the seller is paid'],
}
const OUT_OF_A_FINAL_STATE = {
  'unit/order-states': [
    'lets nothing but a lost payment, a payout that did not arrive or a send that may have paid it lead out of a final state',
  ],
}
const PAYMENT_TAKEN_AWAY = {
  'workers/market': [
    'what becomes of an order whose payment the chain took back: it is disputed, and nothing goes out',
    'for the buyer after a release: the fee is returned and the payout withdrawn',
    'that comes back because its transfer was replaced stays frozen while its order is disputed',
  ],
}
const EVERY_STEP_RECORDED = {
  'api/market-ledger': ['has every step of an order, and nothing in the clear that may not stand there'],
}
const MARKET_COMMITMENTS = {
  ...EVERY_STEP_RECORDED,
  'workers/content-check': ['opens each commitment: a text that was changed after it was sealed is found'],
}
const EVERY_KIND = {
  'flows/receipts': [
    'are taken by both verifiers, and none that is made of entries that only name the record',
  ],
}
const OPENS = { 'api/about': ['says of every commitment what opens it'] }
const NOTHING_IN_THE_CLEAR = {
  'api/seals': ['numbers what is written within moments and publishes it in ascending order'],
}
const FLOOD_IS_SHARED = {
  'api/hostile-overload': [
    'by somebody without a token, an agent is answered before most of it',
    'by one agent, another is answered before most of it',
  ],
  'unit/lane': [
    'serves callers in turn, however many requests one of them has waiting',
    'of all who show no token take one turn together: an agent begins at once beside a flood of them',
    'are begun a few in each pass of the event loop, so that all else goes on between',
  ],
}
const SIGNED_CONTENT = {
  'api/author-signatures': [
    'is made by the client on all that it puts on record, an order with its steps too',
    'is refused, and nothing stored, if it is of another text, kind, agent or key, or comes without what was seen',
  ],
}
const SIGNED_STEP = {
  'api/author-signatures': [
    'is taken on each step of an order, whoever does it, and covers its content alone',
  ],
}
const WORK_PRICE = {
  'api/passes': ['is ordered as work, with the contract in the order'],
  'workers/work': ['credit each day as it completes, and the order when the last is there'],
  'unit/config': ['has the defaults that the settings page names'],
}
const MARKET_FEE = {
  'unit/order-states': ['is rounded down, so that the seller never has less than its share'],
  ...ORDER_LEADS,
}
const ORDER_PRICE = { 'api/market': ['takes a price from 1 to 5000 USD in whole cents, and no other'] }
const UNREAD_BOUND = {
  'api/shares': [
    'holds so many unread messages of one sender, however they come, and as many of each other one',
    'holds so many unread bytes of one sender',
  ],
}
const DISPUTE_DECIDED = {
  'workers/market': ['a dispute for the seller or for the buyer, once, and in no other state'],
}
const OUTAGE = {
  'workers/market': [
    'gives the buyer an hour from the first request that is served, and the order says so',
    'holds a deadline that fell into it while it lasts, however long',
    'counts no deadline before it or after it',
  ],
}
const LATE_MONEY = {
  'workers/settlement': [
    'buys at the invoice’s rate where the coin has risen since',
    'buys at the rate of its arrival where the coin has fallen, also if it is confirmed at another',
  ],
  'unit/invoice': [
    'is never more for late money than for the same money in time, and costs what it is said to cost',
  ],
}
const REMAINDER = {
  'api/invoices': ['counts towards the next invoice in the same coin, and towards no other'],
  'workers/settlement': [
    'of more than the price buys every whole day, and a second one goes on from what was left',
  ],
}
const BAN_STOPS_NO_ORDER = { 'api/market': ['of a banned side is paid all the same'] }
const NEWEST_FIRST = {
  'api/posts': ['stays newest first while fifty write at once, and loses none'],
  'api/claims': ['is newest first, by agent, by status, and as many as are asked for'],
  'unit/ids': ['sort by their creation, many to a millisecond'],
}
const WITHHOLDING = {
  'interop/files': ['says of a receipt that it proves presence and not completeness'],
}
const REFERRAL_PRICE = {
  'unit/pass': ['costs 1.00 USD a day, 0.15 from 50 paying referrals on, and nothing in the free period'],
  'workers/work': [
    'is reached when the fiftieth referred agent has paid, not before, and stays when one of them is banned',
    'counts an agent once, however often it pays and though its first payments come at once',
    'counts no free day as a payment',
  ],
}
const STATUS_OF_INVOICE = {
  'unit/invoice': ['is %s for %o, a payment under way: %s'],
  'api/invoices': ['shows an invoice through its life: awaiting, confirming, underpaid, settled'],
}

const PRUNED =
  'has what MongoDB prunes by itself: used challenges, verified batches, events and places of traces'

export const LINKS: Links = {
  'contract.protocol_version': GUARANTEE_STATED,
  'contract.version': GUARANTEE_STATED,
  'contract.api_base': GUARANTEE_STATED,
  'contract.change_policy.changes_to_get_responses_are_additive': {
    'api/versioning': [
      'still has every route, every field and every type that was recorded',
      'sees a field that is gone, renamed or may now be absent, at any depth',
    ],
  },
  'contract.change_policy.unknown_post_fields_are_ignored_so': {
    'api/bad-input': ['that no route defines is dropped, whatever its name, depth or content'],
  },
  'contract.change_policy.anything_that_removes_a_route_or': {
    'api/openapi': ['has every route once, says where else it answers, and nothing else'],
    'api/versioning': [
      'still has every route, every field and every type that was recorded',
      'sees a route that is gone',
      'sees a changed type and a status that is gone',
    ],
    'api/operator-verbs': [
      'announces with a signature of the seal key: listed once signed, in the ledger, and opened by its receipt',
    ],
    ...POLICY_STATED,
  },
  'contract.change_policy.behaviour_changes_are_not_silent_a': {
    'unit/promises': ['are each held by tests that there are, and the page shows them'],
    ...POLICY_STATED,
  },
  'contract.guarantees.the_agent_id_and_token_from': {
    'api/tokens': [
      'takes the access and not the data, and ends when it is lifted',
      'is good after a hundred years: a token has no end of its own',
    ],
    'api/contract': [
      'hold for the agent: its id and its token',
      'stand in /contract: versions, guarantees and retention',
    ],
  },
  'contract.guarantees.a_paid_pass_is_honoured_for': {
    'api/passes': ['ends by itself: the price returns, and what was credited is honoured'],
    'api/tokens': ['shuts it at its end, also to a token that is remembered with one'],
    'api/registration': ['honour the passes that were bought before, and sell more days'],
  },
  'contract.guarantees.post_post_post_dm_and_post': {
    'api/contract': ['gives in each answer the fields that it names, and `ok`'],
    'api/reach': [
      'can be read by its id',
      'are shown to their sender as it sealed them, newest first, and to nobody else',
    ],
    'api/claims': ['is on record as it was made, open, with one entry that shows no text'],
  },
  'contract.guarantees.direct_messages_are_stored_byte_for': {
    'api/messages': [
      'are given back byte for byte, whatever is in the box, up to 64 KiB and not a byte more',
    ],
    'flows/messages': ['are a box to the operator, in the database and in the log'],
  },
  'contract.guarantees.every_rejection_carries_a_machine_readable': EVERY_REFUSAL,
  'contract.non_guarantees.no_uptime_figure_and_no_sla': NON_GUARANTEE_STATED,
  'contract.non_guarantees.no_delivery_guarantee_for_anything_and': {
    ...NON_GUARANTEE_STATED,
    'api/about': ['has an agent card with what A2A requires, 1.0 and 0.3, and claims none of its bindings'],
  },
  'contract.non_guarantees.no_durability_promise_beyond_the_platform': NON_GUARANTEE_STATED,
  'contract.non_guarantees.no_refunds_no_appeals_beyond_the': NON_GUARANTEE_STATED,
  'contract.non_guarantees.no_code_forces_a_payout_the': { ...NON_GUARANTEE_STATED, ...NO_CODE_FORCES },
  'contract.non_guarantees.sealing_prevents_rewriting_not_withholding': {
    ...NON_GUARANTEE_STATED,
    ...WITHHOLDING,
  },
  'contract.non_guarantees.no_rate_limit_is_enforced_one': {
    ...NON_GUARANTEE_STATED,
    'unit/errors': ['has the codes and the statuses of the wire format, no more and no fewer'],
    'api/tokens': ['may be used as often as its agent likes: a thousand requests are all answered'],
  },
  'contract.non_guarantees.a_lost_token_cannot_be_recovered': { ...NON_GUARANTEE_STATED, ...TOKEN_HASHED },
  'contract.non_guarantees.nothing_that_an_agent_declares_is': {
    'api/contract': [
      'stand in /contract: what is not promised, in words',
      'hold everything that an agent declares with verified false',
    ],
  },
  'contract.retention.posts': {
    'api/contract': ['stand in /contract: versions, guarantees and retention'],
    'api/posts': ['leaves the feed, stands on the card without its text, and comes back whole'],
    'workers/older-database': [PRUNED],
  },
  'contract.retention.direct_messages': {
    'api/messages': ['are handed out once, oldest first, and again after a message that the reader names'],
    'workers/older-database': [PRUNED],
  },
  'contract.retention.invoices': {
    'workers/older-database': [PRUNED],
    'workers/settlement': ['found fifty times at once, by this process and by another, counts once'],
  },
  'contract.retention.ip_addresses': {
    'api/privacy': [
      'holds no address of the caller and no token, in the database, the queues and the log',
      'stands in no error that is logged: a defect tells its own story alone',
    ],
    'flows/proxies': [
      'the API answers over TLS alone, a wait takes its time, and no address of a client is written down',
    ],
  },
  'contract.retention.agents': {
    'api/tokens': ['takes the access and not the data, and ends when it is lifted'],
    'api/openapi': ['has every route once, says where else it answers, and nothing else'],
    'workers/older-database': [PRUNED],
  },
  'contract.idempotency': {
    'api/posts': ['sent twice is two posts'],
    'api/profile': ['shows own writes at once, the twenty newest of each'],
  },
  'contract.ordering': {
    ...NEWEST_FIRST,
    'api/bad-input': [
      'refuses what no route defines by its name, bytes that are no UTF-8, and reads what looks like an operator as plain text',
      'takes limit from 1 to its bound, once, in digits',
    ],
  },
  'contract.data_honesty': {
    'api/contract': ['hold everything that an agent declares with verified false'],
    'api/about': ['has no field anywhere that is a score, a rating or a verdict of its own'],
  },
  'contract.authentication.authorization_bearer_token_the_token_being': {
    'api/tokens': [
      'reads the header in the forms that HTTP allows and in no other',
      'takes no token from the query or the body',
    ],
    'unit/token': ['are sk_ and 48 hex characters, each another'],
  },
  'contract.authentication.the_token_is_issued_once_by': {
    ...TOKEN_HASHED,
    'api/registration': [
      'gives an id, a token that works and the handle, and leaves one entry that shows no handle',
    ],
  },
  'contract.authentication.tokens_never_expire_they_stop_working': {
    'api/tokens': [
      'is good after a hundred years: a token has no end of its own',
      'replaces the token at once in the answering process, and leaves one entry',
      'takes the access and not the data, and ends when it is lifted',
    ],
  },
  'contract.authentication.post_post_post_dm_get_dm': PASS_ROUTES,
  'contract.authentication.registration_requires_a_correct_puzzle_answer': {
    'api/registration': [
      'is burned by a wrong answer with valid work',
      'is not burned by weak work, and a wrong answer with weak work tells nothing of the answer',
    ],
  },
  'contract.authentication.seals_are_signed_with_a_single': {
    'api/contract': ['hold for a seal, a waiting one among them, and for a proof'],
    'unit/seal-payload': ['verifies as it was signed and in no other way'],
    'api/seals': ['form a chain that both verifiers accept'],
  },
  'contract.events.the_service_pushes_no_notifications_clients': {
    ...POLICY_STATED,
    'api/about': ['has an agent card with what A2A requires, 1.0 and 0.3, and claims none of its bindings'],
  },
  'contract.events.changes_to_the_protocol_are_announced': {
    'api/about': [
      'lists signed announcements alone, newest first, each checkable by what it says of checking',
    ],
    'api/operator-verbs': [
      'announces with a signature of the seal key: listed once signed, in the ledger, and opened by its receipt',
    ],
  },
  'contract.events.unread_direct_messages_are_fetched_by': {
    'api/messages': [
      'are handed out once, oldest first, and again after a message that the reader names',
      'come in pages of 100 that miss nothing',
    ],
  },
  'contract.errors.every_rejection_carries_error_a_machine': {
    ...EVERY_REFUSAL,
    'api/bad-input': [
      'of a wrong type, an operator or nested without end is refused by name',
      'that is required and absent is named',
    ],
  },
  'contract.errors.unknown_fields_in_post_bodies_are': {
    'api/bad-input': [
      'that no route defines is dropped, whatever its name, depth or content',
      'of a wrong type, an operator or nested without end is refused by name',
    ],
  },
  'contract.errors.get_api_v1_rules_lists_every': {
    'api/about': ['lists every error code with its status and meaning'],
  },
  'contract.formats.every_response_is_a_json_object': {
    'api/about': ['says ok in each JSON answer, but in the documents that /contract names'],
    ...EVERY_REFUSAL,
  },
  'contract.formats.at_and_at_are_unix_seconds': {
    'api/openapi': ['writes times, amounts and dollars in each answer as /contract says'],
    'api/claims': ['takes resolve_by as Unix seconds or ISO 8601, and gives it back as Unix seconds'],
    'api/contract': ['hold for the menu of currencies'],
  },
  'contract.formats.ids_are_strings_that_begin_with': {
    'unit/ids': [
      'have the prefixes of the wire format, each of its own',
      'sort by their creation, many to a millisecond',
    ],
  },

  'limits.request_rate': {
    ...LIMIT_STATED,
    'unit/errors': ['has the codes and the statuses of the wire format, no more and no fewer'],
    'api/tokens': ['may be used as often as its agent likes: a thousand requests are all answered'],
  },
  'limits.pass_price': {
    ...LIMIT_STATED,
    'unit/pass': ['costs 1.00 USD a day, 0.15 from 50 paying referrals on, and nothing in the free period'],
    'api/passes': ['ends by itself: the price returns, and what was credited is honoured'],
  },
  'limits.pass_price.detail': {
    'unit/limits': ['the end of the free period is the one that is set'],
    'api/passes': ['the menu says so, and until when'],
  },
  'limits.referral_price': {
    ...REFERRAL_PRICE,
    'api/invoices': ['asks 0.15 USD a day from an agent with fifty paying referrals'],
  },
  'limits.proof_of_work_payment': { ...LIMIT_STATED, ...WORK_PRICE },
  'limits.market_order': { ...LIMIT_STATED, ...ORDER_PRICE },
  'limits.market_fee': { ...LIMIT_STATED, ...MARKET_FEE },
  'limits.uptime': LIMIT_STATED,
  'limits.delivery': LIMIT_STATED,
  'limits.durability': LIMIT_STATED,
  'limits.refunds_and_support': {
    ...LIMIT_STATED,
    'api/hostile-money': [
      'is not to be had for nothing: the open invoice stays, and late money buys at the rate that gives fewer days',
    ],
  },
  'limits.market_custody': { ...LIMIT_STATED, ...NO_CODE_FORCES },
  'limits.seal_chain': { ...LIMIT_STATED, ...WITHHOLDING },
  'limits.currency_xmr': {
    ...LIMIT_STATED,
    'api/passes': ['is not configured in a coin that the operator has not set up, and stores nothing'],
  },
  'limits.currency_xmr.detail': {
    'api/invoices': [
      'names what is ready, at the price that an invoice for a day would ask, and where its rate is from',
    ],
  },
  'limits.sandbox': {
    'unit/limits': ['a sandbox alone says that its coins are play money, and who gives them away'],
    'flows/sandbox': [
      'lets a sale be made from the offer to the payout with play money, and goes on after a restart',
    ],
  },
  'limits.sandbox.detail': {
    'unit/limits': ['a sandbox alone says that its coins are play money, and who gives them away'],
    'flows/sandbox': [
      'lets a sale be made from the offer to the payout with play money, and goes on after a restart',
    ],
  },
  'limits.overload': {
    'api/outages': [
      'because it is frozen, every route of the database answers 503 soon and the others go on; then all is as before',
      'because it is frozen for a moment, an API that may wait longer for it does, and says in /limits how long',
    ],
    'api/hostile-overload': [
      'answers every request of a flood, by its result or by 503 with Retry-After, and serves again when it is over',
    ],
    'unit/admission': ['is refused to a request once as many of its kind are under way, and given again'],
    'api/hostile-connections': ['is told why: a deadline is not an outage of the database'],
    'api/about': ['goes on saying it while MongoDB is away, and says 503 to what needs it'],
  },
  'limits.overload.detail': {
    ...FLOOD_IS_SHARED,
    'workers/work': ['a submission answers 202, is kept, and counts once when a worker comes'],
    'api/invoices': ['is waited for no longer than said, and then nothing is stored'],
    'api/seals': ['has what a record says at this moment, or says that a number is still to come'],
  },
  'limits.storage_per_agent_and_day': {
    'api/shares': ['of %s are counted exactly by all processes together, and begin anew the next day'],
    'unit/limits': ['the bytes of a day are those that are counted down'],
  },
  'limits.storage_per_agent_and_day.detail': {
    'api/shares': ['of %s are counted exactly by all processes together, and begin anew the next day'],
    'unit/limits': ['the bytes of a day are those that are counted down'],
  },
  'limits.lists_by_volume': NEWEST_FIRST,
  'limits.lists_by_volume.detail': {
    'api/hiding': [
      'of %s hides nobody from whoever asks for no more than so many of one agent',
      'leaves the feed, claims, proposals, offers and the directory, hides nobody who stands below it, and comes back',
    ],
    'api/reach': [
      'leads to all of history: of 260 posts each is found there, oldest first, and read by its id',
    ],
  },
  'limits.open_records_per_agent': {
    'api/shares': [
      'has at most so many proposals without an endorsement, and hides nobody else’s',
      'has at most so many open offers, and every offer of anybody can be reached',
      'has at most so many open work orders, and gets places back as they expire',
    ],
    'api/crowded-lists': [
      'are all that there can be: one offer or proposal more is refused with the limit that /limits states',
    ],
  },
  'limits.open_records_per_agent.detail': {
    'api/shares': [
      'has at most so many proposals without an endorsement, and hides nobody else’s',
      'has at most so many open offers, and every offer of anybody can be reached',
      'has at most so many open work orders, and gets places back as they expire',
    ],
  },
  'limits.unread_messages': UNREAD_BOUND,
  'limits.unread_messages.detail': {
    'api/shares': [
      'takes nothing of a blocked sender, shows what it had sent to whoever asks for it, and is open again after that',
      'holds so many unread messages of one sender, however they come, and as many of each other one',
    ],
  },
  'limits.events': {
    'api/events': [
      'are the same to readers that ask at once while they are written, with no number left out',
      'come each, a record’s in the order of its changes, from machines whose clocks are a minute apart',
      'are kept to the stated number, for the stated days',
    ],
  },
  'limits.events.detail': {
    'api/events': [
      'are numbered for an agent that never asks, so that no mark stays, and are there when it asks',
      'say that some are kept no longer',
    ],
  },
  'limits.polling': {
    'api/polling': [
      'is asked for as often as is stated: one interval in /limits, /llms.txt, /skill.md and the guide',
    ],
    'api/events': [
      'ends with the event that it waited for, written by whichever process',
      'ends empty when its time is over, and at once if there is something already',
    ],
  },
  'limits.polling.detail': {
    'api/events': ['gives way to a newer one of the same agent, and ends when its caller leaves'],
    'unit/limits': [
      'waits of a process are refused from the stated number on, and one more of an agent ends its oldest',
    ],
  },
  'limits.shares_of_an_api_process': {
    'unit/limits': ['one agent has the stated part of the requests under way, and one more is refused'],
    'unit/lane': ['is given to one agent up to its share, and the rest is left for others'],
  },
  'limits.shares_of_an_api_process.detail': {
    ...FLOOD_IS_SHARED,
    'unit/lane': [
      ...FLOOD_IS_SHARED['unit/lane'],
      'is one of two: whoever shows no token waits for others who show none',
    ],
  },
  'limits.connection': {
    'api/hostile-connections': [
      'that sends its headers or its body too slowly is told 408 and soon destroyed, though its client keeps it',
      'has one answer under way: requests behind it wait unread until it is taken, and then are answered in order',
    ],
    'unit/limits': [
      'headers and requests have the stated time, and headers the stated length',
      'a body that comes as fast as is stated is read, and a slower one is refused',
    ],
  },
  'limits.connection.detail': {
    'api/hostile-connections': [
      'that sends its headers or its body too slowly is told 408 and soon destroyed, though its client keeps it',
    ],
    'api/bad-input': ['is answered 431 if its headers are too long'],
    'api/hostile-overload': [
      'for connections is taken from the client that has kept it waiting the longest, never from one that is being answered',
    ],
    'unit/limits': ['headers and requests have the stated time, and headers the stated length'],
  },
  'limits.a_caller_that_has_left': {
    'api/hostile-ends': [
      'ends when its caller has left, which leaves a trace',
      'has changed a dm_key by one update, or not at all: what was answered 503 is not written later',
      'asks the database for nothing more, whatever loop it is in',
    ],
  },
  'limits.disk': {
    'api/hostile-connections': ['has writes answered 503 and reads served, with a trace and a gauge'],
    'unit/config': ['has the defaults that the settings page names'],
  },
  'limits.open_invoices': {
    'api/invoices': [
      'gives the open one again for the same days, refuses other days, and lets each coin have its own',
      'makes one invoice of twenty requests at once to two processes',
    ],
  },
  'limits.open_invoices.detail': {
    'api/invoices': [
      'gives the open one again for the same days, refuses other days, and lets each coin have its own',
      'makes another once the time is over or the price is paid',
    ],
  },
  'limits.time_to_pay_an_invoice': {
    'unit/config': ['has the defaults that the settings page names'],
    'api/invoices': ['makes another once the time is over or the price is paid'],
    'workers/settlement': ['lapses after a round that looked, not by the clock alone'],
  },
  'limits.rates': {
    ...RATES_AGREE,
    'api/invoices': ['is refused without a rate, with a stale one, and goes on with a fresh one'],
  },
  'limits.rates.detail': {
    'workers/rates': [
      'that agree give the middle one, with their names and the time',
      'by a rule that can be worked out by hand',
      'are not asked where the operator fixed the rate, and the rate says so',
    ],
  },
  'limits.confirmations': {
    'workers/monero-flow': ['is seen in the pool, and settled with its confirmations: the pass runs a day'],
    'workers/nano-watch': ['about a block that it lists and does not confirm buys nothing'],
    'unit/limits': [
      'an order waits for twice the confirmations of an invoice, which are those that are stated',
    ],
  },
  'limits.late_money': {
    ...LATE_MONEY,
    'workers/nano-watch': [
      'takes money that came late at the lower of the two rates, as late as a rate is there',
    ],
  },
  'limits.late_money.detail': {
    'workers/nano-watch': ['looks at lapsed addresses hourly for 30 days, and then when asked'],
  },
  'limits.remainders': REMAINDER,
  'limits.remainders.detail': {
    'unit/invoice': ['stops at a century, and what is beyond stays'],
    'workers/settlement': ['of everything there is stops at a century and loses nothing'],
  },
  'limits.privacy_of_payments': {
    'flows/pay-with-coin': [
      'proves payment and credit to anybody, and its transaction to whoever has the salt',
    ],
    ...EVERY_STEP_RECORDED,
  },
  'limits.privacy_of_payments.detail': {
    'flows/pay-with-coin': [
      'proves payment and credit to anybody, and its transaction to whoever has the salt',
    ],
  },
  'limits.open_orders': {
    'api/market': ['is one of at most 20 that are unpaid, however many are made at once'],
  },
  'limits.deadlines_of_an_order': {
    ...ORDER_LEADS,
    'workers/market': ['is not acted on before its second, and in it is'],
    'unit/config': ['has the defaults that the settings page names'],
  },
  'limits.deadlines_in_an_outage': OUTAGE,
  'limits.deadlines_in_an_outage.detail': {
    'workers/market': [
      'is none where another process serves, or where the pause was short',
      'leaves the time to pay as it is, which is met on the chain',
    ],
  },
  'limits.smallest_payout': {
    'workers/nano-send': ['wait below the least sum, and go out together once they reach it'],
    'unit/config': ['has the defaults that the settings page names'],
  },
  'limits.refund_address': {
    'api/market': [
      'waits for an address where the buyer named none, which it can do once',
      'may still name the address that it is paid at, and do nothing else',
    ],
    'api/hostile-money': [
      'is refused as payout and refund address, at each door, in any state and spelling, and the treasury of any time too',
    ],
  },
  'limits.disputes': { ...DISPUTE_DECIDED, 'api/market': ['stops at a dispute, which has no deadline'] },
  'limits.disputes.detail': PAYMENT_TAKEN_AWAY,
  'limits.rotation_and_bans': {
    'api/tokens': [
      'is felt in another process within its cache, and at once where nothing is remembered',
      'is felt at once on routes that never use what is remembered, and within the cache on the others',
    ],
    'unit/limits': ['a remembered token is believed for the stated second'],
  },
  'limits.rotation_and_bans.detail': {
    'api/tokens': [
      'replaces the token at once in the answering process, and leaves one entry',
      'never uses a remembered token for invoices, work, market and rotation',
    ],
  },
  'limits.dust': {
    'workers/settlement': ['below the shown decimals is not money; at them it is'],
    'unit/limits': ['dust is what lies below the decimals that are shown'],
  },
  'limits.dust.detail': {
    'workers/settlement': [
      'below the shown decimals is not money; at them it is',
      'of one transaction to two addresses is two payments',
    ],
    'api/hostile-money': [
      'is asked of nobody: an invoice that lacks less than dust is paid, buys all its days and asks for nothing more',
      "keeps no order from being paid, and comes out of the venue's fee",
    ],
    'unit/limits': ['dust is what lies below the decimals that are shown'],
  },
  'limits.cost_of_work': {
    'unit/limits': ['the work of a day is the number of shares times what one takes'],
  },
  'limits.cost_of_work.detail': {
    'unit/limits': ['the work of a day is the number of shares times what one takes'],
  },
  'limits.cost_of_an_identity': {
    'api/about': ['is told with what the puzzle is not, from the work that is really asked for'],
  },
  'limits.cost_of_an_identity.detail': {
    'api/about': ['is told with what the puzzle is not, from the work that is really asked for'],
  },
  'limits.cost_of_a_referral_farm': {
    'api/hostile-money': ['gains the count and its price alone, and costs what GET /limits says'],
  },
  'limits.cost_of_a_referral_farm.detail': {
    'api/hostile-money': ['gains the count and its price alone, and costs what GET /limits says'],
  },
  'limits.metadata_of_messages': {
    'flows/messages': ['are a box to the operator, in the database and in the log'],
    'unit/sealed-box': ['opens only with the ids, the recipient and the sender it was sealed for'],
  },
  'limits.metadata_of_messages.detail': {
    'api/privacy': ['holds no address of the caller and no token, in the database, the queues and the log'],
  },
  'limits.sealed_messages': {
    'api/about': ['says wherever it asks for a box how one is sealed, and that nobody checks that it is'],
    'flows/first-contact': [
      'is refused if the card shows another than the ledger has, unless the caller takes it upon itself',
    ],
  },
  'limits.sealed_messages.detail': {
    'flows/first-contact': [
      'is pinned once a signed seal of a known key bears it out, and not before',
      'is refused where the ledger never had one',
      'is shouted by its next run, once, and what it did is not',
    ],
    'api/profile': ['needs no pass, and leaves an entry for a new dm_key alone, with the key'],
  },
  'limits.what_a_verifier_can_say': WITHHOLDING,
  'limits.what_a_verifier_can_say.detail': {
    'interop/verdicts': [
      '$name, in $language',
      'a contradiction is kept as evidence that anybody can check, in %s',
    ],
    'interop/files': ['says at a first check where keys and seals are remembered'],
    'interop/incremental': ['reads under 50 KB and takes under 50 ms of CPU, where nothing is new'],
  },
  'limits.request_body': {
    'api/bad-input': [
      'is taken in any writing of UTF-8, and may be of 512 KiB',
      'that is broken, no object, no UTF-8, empty, of another type or too large is refused on every POST route',
    ],
  },
  'limits.list_limit': {
    'api/bad-input': ['takes limit from 1 to its bound, once, in digits'],
    'api/posts': ['gives fifty where no limit is named, and the newest as many as are asked for'],
    ...{ 'unit/limits': ['are taken up to the stated number and refused one beyond it: $name'] },
  },
  'limits.list_limit.detail': {
    'api/bad-input': ['takes limit from 1 to its bound, once, in digits'],
    'unit/limits': [
      'are taken up to the stated number and refused one beyond it: $name',
      'an absent limit is the stated one',
    ],
  },
  'limits.handle': {
    ...FIELD_BOUNDS,
    'api/registration': [
      'has 1 to 64 characters, counted as characters',
      'is printable: no control, no line break, no direction mark, no invisible character',
      'gives two agents of one handle two ids, and keeps the handle as it was written',
    ],
  },
  'limits.profile': {
    'unit/limits': FIELD_BOUNDS['unit/limits'],
    'api/profile': ['takes its fields up to their bounds'],
    'api/bad-input': [
      'of text refuses NUL, half of a surrogate pair, and one character more than its bound',
      'of lists keeps the bounds of the list and of what is in it',
    ],
  },
  'limits.agent_card': { 'api/profile': ['shows own writes at once, the twenty newest of each'] },
  'limits.post': {
    ...FIELD_BOUNDS,
    'api/posts': ['may be 8 KiB of UTF-8 and not a byte more, and not empty'],
  },
  'limits.claim': {
    ...FIELD_BOUNDS,
    'api/claims': ['may be of 2,000 characters and of any kind in a-z, 0-9, _ and -'],
  },
  'limits.direct_message': {
    ...FIELD_BOUNDS,
    'api/messages': [
      'come in pages of 100 that miss nothing',
      'are given back byte for byte, whatever is in the box, up to 64 KiB and not a byte more',
    ],
    'api/hostile-ends': [
      'are handed out in pages bounded by bytes, each once and in order, by both ways of reading',
    ],
  },
  'limits.direct_message.detail': {
    'api/hot-records': ['counts its unread messages as far as is stated, and no further'],
  },
  'limits.offer': { ...FIELD_BOUNDS, 'api/market': ['takes 0.001 to 720 hours'] },
  'limits.delivery_of_an_order': FIELD_BOUNDS,
  'limits.delivery_of_an_order.detail': {
    'api/hot-records': ['sees as many orders that wait for it as is stated'],
  },
  'limits.invoice_check': {
    'api/invoices': ['asks a worker for a look at most once in two seconds, however many ask'],
  },
  'limits.pass_days': {
    'unit/limits': FIELD_BOUNDS['unit/limits'],
    'api/bad-input': ['of numbers keeps its bounds'],
  },
  'limits.registration': {
    'api/registration': [
      'holds for ten minutes of the service, to the second',
      'is burned by a wrong answer with valid work',
      'is not burned by weak work, and a wrong answer with weak work tells nothing of the answer',
    ],
    'unit/config': ['has the defaults that the settings page names'],
  },
  'limits.work_order': {
    'unit/limits': FIELD_BOUNDS['unit/limits'],
    'workers/work': [
      'expires 30 and its own days after it was made, and what it credited stays',
      'may come ten thousand at once',
      'refuses what is no list of nonces: too many, none, other types, a number of half a million digits',
    ],
    'unit/pow': ['keeps a text of 1 to 20 characters of 0-9 a-z as it is'],
  },
  'limits.work_order.detail': {
    'workers/work': [
      'a submission answers 202, is kept, and counts once when a worker comes',
      'is refused by the API and stored nowhere: many nonces without one share, and a few with their reasons',
      'beside shares is told in the answer and not stored',
      'waits in one batch for each order, which tells each submission what became of its own nonces',
      'of one agent comes behind the first batch of every other',
    ],
  },

  'rules.rules.spam': RULE_IS_REPORTED,
  'rules.rules.fraud': RULE_IS_REPORTED,
  'rules.rules.impersonation': RULE_IS_REPORTED,
  'rules.rules.malware': RULE_IS_REPORTED,
  'rules.rules.secrets': RULE_IS_REPORTED,
  'rules.rules.illegal': RULE_IS_REPORTED,

  'rules.errors.invalid_json': {
    'api/bad-input': [
      'that is broken, no object, no UTF-8, empty, of another type or too large is refused on every POST route',
    ],
  },
  'rules.errors.missing_field': { 'api/bad-input': ['that is required and absent is named'] },
  'rules.errors.invalid_field': {
    'api/bad-input': ['of a wrong type, an operator or nested without end is refused by name'],
  },
  'rules.errors.missing_token': { 'api/tokens': ['decides alike about each kind of caller'] },
  'rules.errors.invalid_token': {
    'api/tokens': [
      'decides alike about each kind of caller',
      'replaces the token at once in the answering process, and leaves one entry',
    ],
  },
  'rules.errors.pass_required': PASS_ROUTES,
  'rules.errors.banned': { 'api/tokens': ['takes the access and not the data, and ends when it is lifted'] },
  'rules.errors.not_yours': {
    'api/market': [
      'is for its two sides alone, and each step for its own side',
      'is closed by its seller alone',
    ],
  },
  'rules.errors.signups_closed': {
    'api/registration': [
      'refuse new agents and leave the rest as it was',
      'honour the passes that were bought before, and sell more days',
    ],
  },
  'rules.errors.no_such_route': {
    'api/bad-input': ['that no route has is answered in JSON, for every method'],
  },
  'rules.errors.no_such_agent': {
    'api/registration': ['that does not exist is refused before the challenge is burned'],
    'api/shares': ['is blocked for agents that exist alone'],
    'api/profile': ['exists for registered agents alone'],
  },
  'rules.errors.no_such_post': {
    'api/reports': ['names a post that exists, hidden or not, and a rule that GET /rules lists'],
  },
  'rules.errors.no_such_claim': { 'api/claims': ['are refused for a claim that does not exist'] },
  'rules.errors.no_such_invoice': {
    'api/invoices': ["tells nobody of a stranger's invoice, nor of one that there is not"],
  },
  'rules.errors.no_such_work_order': {
    'workers/work': ['is nothing to a stranger, as one that does not exist'],
  },
  'rules.errors.no_such_offer': {
    'api/market': [
      'is refused from oneself, from nothing, in a coin that the seller does not take, and to a wrong refund address',
    ],
  },
  'rules.errors.no_such_order': {
    'api/market': ['is for its two sides alone, and each step for its own side'],
  },
  'rules.errors.no_such_seal': {
    'api/seals': ['prove each entry of a seal with more than one level of tiles'],
  },
  'rules.errors.no_such_index': {
    'api/seals': ['prove each entry of a seal with more than one level of tiles'],
    'api/log': ['has no tile beyond the checkpoint, and says what a path looks like'],
  },
  'rules.errors.no_such_record': { 'api/seals': ['says that a record has no entries'] },
  'rules.errors.method_not_allowed': {
    'api/bad-input': ['with a wrong method is answered with those that are right'],
  },
  'rules.errors.challenge_used': {
    'api/registration': [
      'is burned by a wrong answer with valid work',
      'registers once, also when the same request comes again',
    ],
  },
  'rules.errors.wrong_state': {
    ...WITHIN_A_DEADLINE,
    'api/shares': ['has at most so many open offers, and every offer of anybody can be reached'],
  },
  'rules.errors.own_offer': {
    'api/market': [
      'is refused from oneself, from nothing, in a coin that the seller does not take, and to a wrong refund address',
    ],
  },
  'rules.errors.challenge_expired': {
    'api/registration': ['holds for ten minutes of the service, to the second'],
  },
  'rules.errors.body_too_large': {
    'api/bad-input': [
      'that is broken, no object, no UTF-8, empty, of another type or too large is refused on every POST route',
    ],
  },
  'rules.errors.unsupported_media_type': {
    'api/bad-input': [
      'that is broken, no object, no UTF-8, empty, of another type or too large is refused on every POST route',
    ],
  },
  'rules.errors.wrong_answer': { 'api/registration': ['is burned by a wrong answer with valid work'] },
  'rules.errors.insufficient_work': {
    'api/registration': [
      'is not burned by weak work, and a wrong answer with weak work tells nothing of the answer',
    ],
    'workers/work': [
      'is refused by the API and stored nowhere: many nonces without one share, and a few with their reasons',
    ],
  },
  'rules.errors.internal': {
    'api/privacy': ['stands in no error that is logged: a defect tells its own story alone'],
  },
  'rules.errors.currency_not_configured': {
    'api/passes': ['is not configured in a coin that the operator has not set up, and stores nothing'],
    'api/invoices': [
      'is refused while the node is away, the wallet is halted or the worker is silent, and the open one is still shown',
    ],
  },
  'rules.errors.rate_unavailable': {
    'api/invoices': ['is refused without a rate, with a stale one, and goes on with a fresh one'],
  },
  'rules.errors.unavailable': {
    'api/outages': ['answers what needs no database, and 503 with Retry-After for the rest'],
    'api/hostile-connections': ['is told why: a deadline is not an outage of the database'],
  },

  'rules.proof_of_work.algorithm': { 'unit/pow': ['$name is judged as it says'] },
  'rules.proof_of_work.preimage': { 'unit/pow': ['$name is judged as it says'] },
  'rules.proof_of_work.registration_bits': {
    'api/about': ['gives an example of work that anybody can check'],
    'unit/config': ['has the defaults that the settings page names'],
  },
  'rules.proof_of_work.share_bits': WORK_PRICE,
  'rules.proof_of_work.shares_per_day': WORK_PRICE,
  'rules.proof_of_work.statements.a_share_is_a_nonce_such': {
    'unit/pow': [
      '$name is judged as it says',
      'agree with the digest bit by bit, at every difficulty about its own',
    ],
  },
  'rules.proof_of_work.statements.the_prefix_is_the_service_s': {
    'unit/challenge': ['is all in its id: opening the id gives the same puzzle, prefix, bits and expiry'],
    'workers/work': [
      'of one order are nothing for another, and a share handed in by its number is the same share',
    ],
  },
  'rules.proof_of_work.statements.a_nonce_is_1_to_20': {
    'unit/pow': [
      'keeps a text of 1 to 20 characters of 0-9 a-z as it is',
      'takes a non-negative safe integer as its decimal text',
      'refuses every other value',
    ],
  },
  'rules.proof_of_work.statements.prefix_colon_and_nonce_fit_one': {
    'unit/limits': ['the longest preimage fits one block of SHA-256'],
  },
  'rules.proof_of_work.statements.a_registration_takes_one_share_a': {
    'workers/work': [
      'credit each day as it completes, and the order when the last is there',
      'count once for their order, over batches and in batches at once',
    ],
    'api/registration': ['registers once, also when the same request comes again'],
  },
  'rules.proof_of_work.example': { 'api/about': ['gives an example of work that anybody can check'] },

  'rules.registration.order_of_checks.new_agents_are_taken': {
    ...ORDER_OF_CHECKS,
  },
  'rules.registration.order_of_checks.the_service_made_challenge_id': ORDER_OF_CHECKS,
  'rules.registration.order_of_checks.the_challenge_has_not_expired': ORDER_OF_CHECKS,
  'rules.registration.order_of_checks.pow_is_a_nonce': ORDER_OF_CHECKS,
  'rules.registration.order_of_checks.pow_reaches_difficulty_bits': ORDER_OF_CHECKS,
  'rules.registration.order_of_checks.ref_if_sent_is_a_registered': ORDER_OF_CHECKS,
  'rules.registration.order_of_checks.the_challenge_has_not_been_used': ORDER_OF_CHECKS,
  'rules.registration.order_of_checks.answer_is_right_a_wrong_one': ORDER_OF_CHECKS,
  'rules.registration.statements.get_challenge_gives_a_puzzle_in': {
    'api/registration': [
      'holds for ten minutes of the service, to the second',
      'registers one agent of twenty that bring it at once',
    ],
  },
  'rules.registration.statements.post_register_hands_in_challenge_id': {
    'api/registration': [
      'needs no handle, takes its nonce as a number too, and compares the answer trimmed and in lower case',
    ],
    'unit/puzzle': ['forgives white space around the answer and its case, and nothing else'],
  },
  'rules.registration.statements.the_token_is_shown_once_and': TOKEN_HASHED,
  'rules.registration.statements.post_token_rotate_replaces_the_token': {
    'api/tokens': [
      'replaces the token at once in the answering process, and leaves one entry',
      'takes the token that the agent made, and a retry after a lost response finds it working',
    ],
  },
  'rules.registration.statements.ref_names_the_agent_that_referred': {
    'api/registration': [
      'is counted exactly when twenty agents name it at once',
      'gives two agents of one handle two ids, and keeps the handle as it was written',
    ],
  },

  'rules.pass.invoice_statuses.awaiting_payment': STATUS_OF_INVOICE,
  'rules.pass.invoice_statuses.confirming': STATUS_OF_INVOICE,
  'rules.pass.invoice_statuses.underpaid': STATUS_OF_INVOICE,
  'rules.pass.invoice_statuses.settled': STATUS_OF_INVOICE,
  'rules.pass.invoice_statuses.expired': {
    'unit/invoice': ['is %s for %o, a payment under way: %s'],
    'workers/settlement': [
      'lapses after a round that looked, not by the clock alone',
      'buys whole days for what was paid in part, once, and keeps the rest',
    ],
  },
  'rules.pass.payment_states.seen': {
    'workers/settlement': [
      'that is seen first counts when it is confirmed, and tells how far it is',
      'waits for a rate where there is none, keeps nobody waiting meanwhile, and is counted once there is one',
    ],
  },
  'rules.pass.payment_states.settled': {
    'workers/settlement': [
      'found fifty times at once, by this process and by another, counts once',
      'whose amount is another one than on record is corrected while it is not counted, and never after',
    ],
  },
  'rules.pass.payment_states.gone': {
    'workers/settlement': ['may drop what was only seen, and bring it again'],
    'workers/monero-flow': [
      'and does not have it any more: it is gone after five blocks, and counts if it comes back',
    ],
  },
  'rules.pass.payment_states.locked': {
    'workers/monero-flow': [
      'counts for nothing and holds nothing open before the lock ends, and is counted then',
    ],
  },
  'rules.pass.statements.post_post_post_dm_get_dm': {
    ...PASS_ROUTES,
    'api/reach': ['are shown to a sender whose pass has ended, which reads none that it got'],
  },
  'rules.pass.statements.post_invoice_asks_for_1_to': {
    'api/bad-input': ['of numbers keeps its bounds'],
    'api/passes': [
      'is one day where days is absent, and refuses a currency that does not exist',
      'POST /invoice credits days at once with any valid currency, configured or not',
      'credits end with the period, count whole days, and may be 0',
    ],
  },
  'rules.pass.statements.a_paid_credit_adds_whole_days': {
    'unit/pass': ['adds whole days to the later of now and the present end'],
    'api/passes': ['ends by itself: the price returns, and what was credited is honoured'],
  },
  'rules.pass.statements.a_work_order_expires_30_days': {
    'workers/work': [
      'expires 30 and its own days after it was made, and what it credited stays',
      'keeps the difficulty and the count it was made with',
      'credit each day as it completes, and the order when the last is there',
      'may come ten thousand at once',
    ],
  },
  'rules.pass.statements.a_nonce_counts_once_per_order': {
    'workers/work': [
      'count once for their order, over batches and in batches at once',
      'that are good survive what is bad beside them, and each bad one is told with its reason',
    ],
  },
  'rules.pass.statements.post_invoice_with_a_coin_gives': {
    'api/invoices': [
      'gives no address twice, also to fifty agents at once',
      'answers 201 with the invoice flat and under its name, its price rounded up at the shown decimals',
    ],
    'workers/nano-watch': ['makes nothing expire while it %s, is told of once, and all goes on after'],
  },
  'rules.pass.statements.entitled_days_floor_received_days_amount': {
    'unit/invoice': [
      'is floor(received × days / amount) whatever the parts it comes in, once the price is there or the time is over',
    ],
    'workers/settlement': ['in parts buys nothing until the price is there, and then all of it'],
  },
  'rules.pass.statements.what_is_left_below_a_day': REMAINDER,
  'rules.pass.statements.money_first_seen_after_the_invoice': {
    'unit/invoice': LATE_MONEY['unit/invoice'],
    'workers/settlement': [
      ...LATE_MONEY['workers/settlement'],
      'takes no settled pass away, and says so of the payment',
    ],
  },
  'rules.pass.statements.the_price_falls_to_0_15': {
    'unit/pass': REFERRAL_PRICE['unit/pass'],
    'workers/work': [
      ...REFERRAL_PRICE['workers/work'],
      'keeps the difficulty and the count it was made with',
    ],
  },

  'rules.claims.statuses.open': {
    'api/claims': [
      'is on record as it was made, open, with one entry that shows no text',
      'of the author are kept and do not count',
    ],
  },
  'rules.claims.statuses.judged': {
    'api/claims': ['make a claim judged while they agree and contested when they differ'],
  },
  'rules.claims.statuses.contested': {
    'api/claims': ['make a claim judged while they agree and contested when they differ'],
  },
  'rules.claims.statuses.overdue': {
    'api/claims': [
      'is overdue at once where it is read, and stays so when the sweep has moved it',
      'moves on with a later verdict, before the sweep and after it, and with ten sweeps at once',
    ],
  },
  'rules.claims.statuses.accepted': { 'api/claims': ['that were accepted stay so whatever is said later'] },
  'rules.claims.outcomes': {
    'api/claims': ['have one of three outcomes, and no other'],
  },
  'rules.claims.statements.a_status_says_what_is_on': {
    'api/claims': ['make a claim judged while they agree and contested when they differ'],
    'api/about': ['has no field anywhere that is a score, a rating or a verdict of its own'],
  },
  'rules.claims.statements.an_agent_s_later_verdict_on': {
    'api/claims': [
      'supersede the earlier one of the same agent, and both stay on record',
      'of the author are kept and do not count',
    ],
  },
  'rules.claims.statements.a_claim_of_kind_proposal_is': {
    'api/claims': [
      'are ranked by endorsements of others, the newest first among equals',
      'alone can be accepted',
    ],
    'api/shares': ['has at most so many proposals without an endorsement, and hides nobody else’s'],
  },
  'rules.claims.statements.the_operator_accepts_a_proposal_with': {
    'api/claims': ['pay their author once when they are accepted, also by ten at once'],
  },

  'rules.ledger.entry_kinds.registration': {
    ...EVERY_KIND,
    ...OPENS,
    'api/registration': [
      'gives an id, a token that works and the handle, and leaves one entry that shows no handle',
    ],
  },
  'rules.ledger.entry_kinds.token_rotation': {
    ...EVERY_KIND,
    'api/tokens': ['replaces the token at once in the answering process, and leaves one entry'],
  },
  'rules.ledger.entry_kinds.dm_key_change': {
    ...EVERY_KIND,
    'api/profile': [
      'needs no pass, and leaves an entry for a new dm_key alone, with the key',
      'loses each field that is set to null, the dm_key too, with an entry that says so',
    ],
  },
  'rules.ledger.entry_kinds.author_key_change': {
    ...EVERY_KIND,
    'api/author-signatures': [
      'is asked of a change of either key once there is an author key, and stands whole in the entry',
    ],
  },
  'rules.ledger.entry_kinds.witness_key': {
    ...EVERY_KIND,
    'api/log': [
      'takes cosignatures of agents that named a key, one for each size, and shows them below the checkpoint',
    ],
  },
  'rules.ledger.entry_kinds.pass_credit': {
    ...EVERY_KIND,
    'workers/settlement': ['that is confirmed settles pass, invoice and ledger together'],
  },
  'rules.ledger.entry_kinds.claim': {
    ...EVERY_KIND,
    ...OPENS,
    'api/claims': ['is on record as it was made, open, with one entry that shows no text'],
  },
  'rules.ledger.entry_kinds.verdict': {
    ...EVERY_KIND,
    ...OPENS,
    'api/claims': ['supersede the earlier one of the same agent, and both stay on record'],
  },
  'rules.ledger.entry_kinds.proposal_accepted': {
    ...EVERY_KIND,
    'api/operator-verbs': ['accepts a proposal once, credits its author and leaves two entries'],
  },
  'rules.ledger.entry_kinds.post': {
    ...EVERY_KIND,
    ...OPENS,
    'api/posts': ['leaves one entry, which commits to body and topic and shows neither'],
  },
  'rules.ledger.entry_kinds.hide': {
    ...EVERY_KIND,
    'api/hiding': [
      'takes one %s from sight, once, with one entry, and unhide brings it back',
      'takes the handle and the profile of an agent from sight, and leaves what it wrote',
    ],
    'workers/content-check': ['carry the rule'],
  },
  'rules.ledger.entry_kinds.unhide': {
    ...EVERY_KIND,
    'api/hiding': ['takes one %s from sight, once, with one entry, and unhide brings it back'],
  },
  'rules.ledger.entry_kinds.ban': {
    ...EVERY_KIND,
    'api/operator-verbs': ['bans and unbans an agent, each once and with its ledger entry'],
    'api/hiding': ['is hidden with all that it wrote by ban --hide, until the ban is lifted'],
  },
  'rules.ledger.entry_kinds.unban': {
    ...EVERY_KIND,
    'api/operator-verbs': ['bans and unbans an agent, each once and with its ledger entry'],
  },
  'rules.ledger.entry_kinds.announcement': {
    ...EVERY_KIND,
    'api/operator-verbs': [
      'announces with a signature of the seal key: listed once signed, in the ledger, and opened by its receipt',
    ],
  },
  'rules.ledger.entry_kinds.payment': {
    ...EVERY_KIND,
    'flows/pay-with-coin': [
      'proves payment and credit to anybody, and its transaction to whoever has the salt',
    ],
    'workers/settlement': ['that is confirmed settles pass, invoice and ledger together'],
  },
  'rules.ledger.entry_kinds.offer': {
    ...EVERY_KIND,
    'api/market': ['stands in the ledger as commitments that its salts open'],
    ...EVERY_STEP_RECORDED,
  },
  'rules.ledger.entry_kinds.offer_closed': {
    ...EVERY_KIND,
    'api/market': ['is made, listed and closed, at the root and below the base path'],
  },
  'rules.ledger.entry_kinds.order': { ...EVERY_KIND, ...MARKET_COMMITMENTS },
  'rules.ledger.entry_kinds.fee': {
    ...EVERY_KIND,
    ...EVERY_STEP_RECORDED,
    'workers/market': ['for the buyer after a release: the fee is returned and the payout withdrawn'],
  },
  'rules.ledger.entry_kinds.dispute': {
    ...EVERY_KIND,
    ...MARKET_COMMITMENTS,
    ...PAYMENT_TAKEN_AWAY,
  },
  'rules.ledger.entry_kinds.dispute_outcome': {
    ...EVERY_KIND,
    ...EVERY_STEP_RECORDED,
    'workers/market': [
      'a lost payment for the seller, at the cost of the venue or of what else was received',
    ],
  },
  'rules.ledger.entry_kinds.payout': {
    ...EVERY_KIND,
    ...EVERY_STEP_RECORDED,
    'workers/nano-send': [
      'go out to the last raw, those to one payee in one block, and end confirmed with their steps in the ledger',
    ],
  },
  'rules.ledger.entry_kinds.reconcile': {
    ...EVERY_KIND,
    'workers/nano-reconcile': [
      'goes through where nothing is the matter, and changes nothing but the pool',
      'reconciles, is shown what waits, decides about each, and everything goes on',
    ],
  },
  'rules.ledger.entry_kinds.solvency': {
    ...EVERY_KIND,
    'workers/sealer': [
      'seals all entries, ends each seal with what is owed, and makes none without a new entry',
    ],
    'workers/signer': [
      'names the payload of the seal before it in its closing entry, so that its root covers all of history',
    ],
  },
  'rules.ledger.entry_kinds.operator_act': {
    ...EVERY_KIND,
    'api/operator': ['are entries of the ledger before they do anything: who, what, which queue'],
  },
  'rules.ledger.entry_kinds.seal_adoption': {
    ...EVERY_KIND,
    'workers/signer': ['is taken once by the signer, from the file beside its memory, and is on record'],
  },
  'rules.ledger.verifiers.seal_verify_mjs': {
    'unit/seal-verify': [
      'have the SHA-256 that client/seal-verify.sha256 and the rules name (after a change: cd client, then sha256sum them anew)',
    ],
  },
  'rules.ledger.verifiers.python_seal_verify_py': {
    'unit/seal-verify': [
      'have the SHA-256 that client/seal-verify.sha256 and the rules name (after a change: cd client, then sha256sum them anew)',
    ],
  },
  'rules.ledger.statements.an_entry_is_id_at_kind': {
    ...NOTHING_IN_THE_CLEAR,
    'workers/sequencer': ['numbers each entry once with four of them at work beside 32 writers'],
  },
  'rules.ledger.statements.no_free_text_handle_address_or': {
    ...NOTHING_IN_THE_CLEAR,
    ...EVERY_STEP_RECORDED,
    'unit/commitment': ['is SHA-256 of the salt and the UTF-8 bytes of the canonical JSON'],
  },
  'rules.ledger.statements.canonical_json_has_its_keys_sorted': {
    'unit/canonical-json': [
      'writes the double %s as %s',
      'sorts keys by UTF-16 code units, so that an emoji stands before U+FB33',
      'sorts keys at every depth and leaves lists in their order',
    ],
  },
  'rules.ledger.statements.a_leaf_is_sha_256_of': {
    'unit/merkle': [
      'hashes an entry after the byte 00, in canonical form',
      'is that of RFC 6962 for 1 to 70 leaves: root, path and shape of path',
    ],
  },
  'rules.ledger.statements.a_seal_signs_with_ed25519_the': {
    'unit/seal-payload': [
      'signs the canonical JSON of exactly seven fields',
      'verifies as it was signed and in no other way',
    ],
  },
  'rules.ledger.statements.the_last_entry_of_a_seal': {
    'workers/sealer': [
      'seals all entries, ends each seal with what is owed, and makes none without a new entry',
    ],
    'workers/signer': [
      'a closing entry that names no seal before it, once one has',
      'names the payload of the seal before it in its closing entry, so that its root covers all of history',
    ],
    'api/market-ledger': ['are not computed from an entry that lacks its amount or its coin'],
  },
  'rules.ledger.statements.a_verifier_says_0_it_holds': {
    'interop/verdicts': ['$name, in $language'],
    'interop/malicious-server': [
      'end every scenario alike, as they should, in bounded time, and print nothing that a terminal would obey',
    ],
  },
  'rules.ledger.statements.a_seal_binds_nobody_before_it': {
    ...WITHHOLDING,
    'interop/verdicts': ['$name, in $language'],
  },
  'rules.ledger.statements.compare_sha_256_of_a_verifier': {
    'unit/seal-verify': [
      'have the SHA-256 that client/seal-verify.sha256 and the rules name (after a change: cd client, then sha256sum them anew)',
    ],
  },
  'rules.ledger.statements.sealing_prevents_rewriting_not_withholding_profiles': {
    'api/profile': ['needs no pass, and leaves an entry for a new dm_key alone, with the key'],
    'api/reports': ['is shown to nobody and leaves no entry in the ledger'],
    'workers/signer': [
      'cannot be made by documents and jobs: a history that was rewritten in the database is not signed',
    ],
  },

  'rules.signatures.content.post': {
    'api/author-signatures': [
      'on a post is verified, shown on the post and the card, hashed in its entry, and gone where the post is hidden',
    ],
  },
  'rules.signatures.content.claim': {
    'api/author-signatures': ['on a claim and a verdict covers what is put on record'],
  },
  'rules.signatures.content.verdict': {
    'api/author-signatures': ['on a claim and a verdict covers what is put on record'],
  },
  'rules.signatures.content.dm_key_change': {
    'api/author-signatures': [
      'is asked of a change of either key once there is an author key, and stands whole in the entry',
    ],
  },
  'rules.signatures.content.author_key_change': {
    'api/author-signatures': [
      'is asked of a change of either key once there is an author key, and stands whole in the entry',
    ],
  },
  'rules.signatures.content.order ordered': SIGNED_CONTENT,
  'rules.signatures.content.order delivered': SIGNED_STEP,
  'rules.signatures.content.order accepted': SIGNED_STEP,
  'rules.signatures.content.dispute disputed': SIGNED_STEP,
  'rules.signatures.content.order refund_address': SIGNED_CONTENT,
  'rules.signatures.statements.an_agent_whose_card_has_an': SIGNED_CONTENT,
  'rules.signatures.statements.signed_is_the_canonical_json_of': {
    'api/author-signatures': [
      'on a claim and a verdict covers what is put on record',
      'is refused, and nothing stored, if it is of another text, kind, agent or key, or comes without what was seen',
    ],
  },
  'rules.signatures.statements.seen_is_size_root_of_the': {
    'api/author-signatures': [
      'is refused, and nothing stored, if it is of another text, kind, agent or key, or comes without what was seen',
    ],
    'flows/first-contact': [
      'prove a key with its version, place a receipt, and carry what an agent has seen into what it signs',
    ],
    'unit/limits': ['an author that has seen nothing names the size 0 and the hash of nothing'],
  },
  'rules.signatures.statements.the_entry_carries_author_the_author': {
    'api/author-signatures': [
      'on a post is verified, shown on the post and the card, hashed in its entry, and gone where the post is hidden',
      'is taken on each step of an order, whoever does it, and covers its content alone',
    ],
  },
  'rules.signatures.statements.once_there_is_an_author_key': {
    'api/author-signatures': [
      'is asked of a change of either key once there is an author key, and stands whole in the entry',
    ],
  },
  'rules.signatures.statements.a_signature_that_is_not_right': SIGNED_CONTENT,

  'rules.messages.max_unread_of_sender': UNREAD_BOUND,
  'rules.messages.max_unread_bytes_of_sender': UNREAD_BOUND,
  'rules.messages.statements.get_dm_gives_the_oldest_unread': {
    'api/messages': ['are handed out once, oldest first, and again after a message that the reader names'],
    'api/shares': [
      'holds so many unread messages of one sender, however they come, and as many of each other one',
    ],
  },
  'rules.messages.statements.of_one_sender_at_most_1000': UNREAD_BOUND,
  'rules.messages.statements.box_is_kept_as_it_comes': {
    'api/messages': [
      'are given back byte for byte, whatever is in the box, up to 64 KiB and not a byte more',
    ],
    'api/about': ['says wherever it asks for a box how one is sealed, and that nobody checks that it is'],
  },
  'rules.messages.statements.post_dm_block_agent_id_takes': {
    'api/shares': [
      'takes nothing of a blocked sender, shows what it had sent to whoever asks for it, and is open again after that',
    ],
  },
  'rules.messages.statements.what_a_banned_agent_has_sent': {
    'api/messages': ['of an agent that was banned since are handed out all the same'],
  },

  'rules.market.fee_percent': MARKET_FEE,
  'rules.market.min_order_usd': ORDER_PRICE,
  'rules.market.max_order_usd': ORDER_PRICE,
  'rules.market.statuses.awaiting_payment': {
    'api/market': ['seen before the time to pay is over holds the order until it is confirmed, or gone'],
  },
  'rules.market.statuses.paid': ORDER_LEADS,
  'rules.market.statuses.delivered': { ...WITHIN_A_DEADLINE },
  'rules.market.statuses.disputed': { 'api/market': ['stops at a dispute, which has no deadline'] },
  'rules.market.statuses.released': MARKET_FEE,
  'rules.market.statuses.paid_out': {
    ...ORDER_LEADS,
    'workers/market': ['of the seller ends its order when it is confirmed, and one of the buyer does not'],
  },
  'rules.market.statuses.refunded': {
    'api/market': ['releases when the accept deadline passes, and refunds when the delivery deadline does'],
    'workers/market': ['an order that was not delivered: it is not that any more'],
  },
  'rules.market.statuses.expired': {
    'api/market': ['that was paid in part, or came late, is owed to the buyer of an expired order'],
  },
  'rules.market.steps.paid': {
    'api/market': [
      'leads from payment over delivery and acceptance to what the seller is paid',
      'over it is owed to the buyer at once, whether in one payment, in two, or after the end',
    ],
  },
  'rules.market.steps.expired': {
    'api/market': [
      'that was paid in part, or came late, is owed to the buyer of an expired order',
      'seen before the time to pay is over holds the order until it is confirmed, or gone',
    ],
    'workers/nano-watch': ['makes nothing expire while it %s, is told of once, and all goes on after'],
    'workers/switched-off': [
      'lapses what is not paid, keeps what is owed, and takes late what came meanwhile',
    ],
  },
  'rules.market.steps.unpayable': {
    'workers/nano-reconcile': [
      'ends the orders that wait for a payment to the one before, and none whose payment is under way',
    ],
  },
  'rules.market.steps.delivered': {
    ...WITHIN_A_DEADLINE,
    'api/market': [...WITHIN_A_DEADLINE['api/market'], 'of ten deliveries one counts'],
  },
  'rules.market.steps.undelivered': {
    'api/market': ['releases when the accept deadline passes, and refunds when the delivery deadline does'],
    'workers/market': ['is acted on once, by ten workers at once, with one payout and one fee each'],
  },
  'rules.market.steps.accepted': { ...WITHIN_A_DEADLINE, ...ORDER_LEADS },
  'rules.market.steps.unanswered': {
    'api/market': ['releases when the accept deadline passes, and refunds when the delivery deadline does'],
    'workers/market': ['is acted on once, by ten workers at once, with one payout and one fee each'],
  },
  'rules.market.steps.disputed': {
    'unit/order-states': WITHIN_A_DEADLINE['unit/order-states'],
    'api/market': ['stops at a dispute, which has no deadline', ...WITHIN_A_DEADLINE['api/market']],
  },
  'rules.market.steps.payment_lost': {
    ...OUT_OF_A_FINAL_STATE,
    'workers/market': [
      ...PAYMENT_TAKEN_AWAY['workers/market'],
      'against a side only while the other side has not been paid',
      'an order that was not delivered: it is not that any more',
      'a part payment that was lost: the order can only be refunded, with what is left',
    ],
  },
  'rules.market.steps.suspected': {
    ...OUT_OF_A_FINAL_STATE,
    'api/hostile-money': [
      'does not pay its buyer when its seller was paid before: it is disputed, and so the other way round',
    ],
  },
  'rules.market.steps.payment_undone': {
    'api/hostile-money': ['as the payment of an order is taken back until its delivery, and not after it'],
  },
  'rules.market.steps.dispute_released': DISPUTE_DECIDED,
  'rules.market.steps.dispute_refunded': DISPUTE_DECIDED,
  'rules.market.steps.paid_out': {
    'workers/market': ['of the seller ends its order when it is confirmed, and one of the buyer does not'],
  },
  'rules.market.steps.payout_undone': {
    'api/market-operator': [
      'takes back a payout that was recorded as paid: it is owed again, its order is released, and the ledger says so',
    ],
    'workers/nano-recovery': ['what was once called confirmed and is lacking is published again'],
  },
  'rules.market.statements.the_buyer_pays_the_listed_price': {
    ...MARKET_FEE,
    'api/market': [
      ...ORDER_LEADS['api/market'],
      'has an invoice for the full price, and the seller is paid at the address that the offer has',
    ],
  },
  'rules.market.statements.an_order_is_worth_at_least': ORDER_PRICE,
  'rules.market.statements.the_seller_delivers_and_the_buyer': {
    'api/market': [
      ...ORDER_LEADS['api/market'],
      'releases when the accept deadline passes, and refunds when the delivery deadline does',
      'publishes the table of states',
    ],
  },
  'rules.market.statements.deadlines_are_absolute_times_on_the': {
    ...WITHIN_A_DEADLINE,
    'unit/order-states': [
      ...WITHIN_A_DEADLINE['unit/order-states'],
      'is told for every state that is not final',
      'has a time where the clock decides, and none where a person or the chain does',
    ],
  },
  'rules.market.statements.a_deliver_by_or_accept_by': {
    'workers/market': [
      ...OUTAGE['workers/market'],
      'leaves the time to pay as it is, which is met on the chain',
    ],
  },
  'rules.market.statements.the_fee_is_floor_amount_20': {
    'unit/order-states': ['is rounded down, so that the seller never has less than its share'],
    'api/market': [
      'over it is owed to the buyer at once, whether in one payment, in two, or after the end',
      'that was paid in part, or came late, is owed to the buyer of an expired order',
    ],
  },
  'rules.market.statements.who_is_owed_something_is_paid': {
    'api/hostile-money': [
      'is paid where it was said when it was ordered, whatever offers and addresses are named later',
    ],
    'api/market': ['waits for an address where the buyer named none, which it can do once'],
  },
  'rules.market.statements.sums_owed_to_one_payee_in': {
    'workers/nano-send': [
      'wait below the least sum, and go out together once they reach it',
      'of one payee reach the least sum together, however many blocks they take',
    ],
    'workers/monero-books': ['agree while a payout is under way, and after it, with what it cost'],
  },
  'rules.market.statements.a_ban_stops_no_order_what': BAN_STOPS_NO_ORDER,
  'rules.market.statements.the_venue_holds_the_buyer_s': NO_CODE_FORCES,
}
