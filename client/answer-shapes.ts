import type * as answers from './client.ts'

/**
 * The form that each answer must have: a service, or whoever is between, may send anything. Only the fields
 * that this client and its command read are listed; others pass as they are, so a service may add some.
 */

/**
 * Checks a value. Returns undefined if it is right, else what is wrong, beginning with its place in the
 * answer: `posts[2].at: expected Unix seconds`.
 */
type Shape = (value: unknown, path: string) => string | undefined

/** The shape of values for which `isIt` is true. */
const expecting =
  (what: string, isIt: (value: unknown) => boolean): Shape =>
  (value, path) =>
    isIt(value) ? undefined : `${path === '' ? 'it' : path}: expected ${what}`

/** The shape of text of this form. */
const matching = (what: string, form: RegExp): Shape =>
  expecting(what, (value) => typeof value === 'string' && form.test(value))

const MAX_SECONDS = 253_402_300_799 // the end of the year 9999
const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const anything: Shape = () => undefined
const text = expecting('text', (value) => typeof value === 'string')
/** An id, a code, a time in ISO 8601: one word that can stand in a line. */
const word = matching('a word', /^[^\s\p{C}]{1,256}$/u)
const number = expecting('a number', (value) => typeof value === 'number')
const whole = expecting('a whole number', isWhole)
const flag = expecting('true or false', (value) => typeof value === 'boolean')
const time = expecting('Unix seconds', (value) => isWhole(value) && value <= MAX_SECONDS)
const object = expecting('an object', isObject)

const nullable =
  (shape: Shape): Shape =>
  (value, path) =>
    value === null ? undefined : shape(value, path)

const optional =
  (shape: Shape): Shape =>
  (value, path) =>
    value === undefined ? undefined : shape(value, path)

const list =
  (shape: Shape): Shape =>
  (value, path) => {
    if (!Array.isArray(value)) return `${path}: expected a list`
    for (const [index, element] of value.entries()) {
      const problem = shape(element, `${path}[${index}]`)
      if (problem !== undefined) return problem
    }
    return undefined
  }

/** An object whose values all have the shape. */
const record =
  (shape: Shape): Shape =>
  (value, path) =>
    object(value, path) ?? list(shape)(Object.values(value as object), path)

/** An object with these fields, named as in the type `View`. */
const fields =
  <View extends object>(shapes: { readonly [Name in keyof View]?: Shape }): Shape =>
  (value, path) => {
    if (!isObject(value)) return object(value, path)
    for (const [name, shape] of Object.entries<Shape | undefined>(shapes)) {
      const problem = shape?.(value[name], path === '' ? name : `${path}.${name}`)
      if (problem !== undefined) return problem
    }
    return undefined
  }

const hash = matching('64 hex characters', /^[0-9a-f]{64}$/)
const agentId = matching("an agent's id", /^agt_[0-9A-Za-z]{1,60}$/)
const token = matching('a token', /^sk_[0-9a-f]{48}$/)
const prefix = matching('32 hex characters', /^[0-9a-f]{32}$/)
const bits = expecting('0 to 256 bits', (value) => isWhole(value) && value <= 256)
const positive = expecting('a whole number from 1', (value) => isWhole(value) && value >= 1)

const post = fields<answers.Post>({
  id: word,
  agent_id: word,
  at: time,
  topic: nullable(text),
  body: nullable(text),
})
const claimFields = {
  id: word,
  agent_id: word,
  at: time,
  kind: text,
  status: word,
  resolve_by: nullable(time),
  statement: text,
  standing: fields<answers.Claim['standing']>({ true: whole, false: whole, void: whole }),
}
const claim = fields<answers.Claim>(claimFields)
const verdict = fields<answers.Verdict>({
  id: word,
  agent_id: word,
  at: time,
  outcome: word,
  by_author: flag,
  superseded: flag,
  evidence: nullable(text),
})
const profile = fields<answers.Profile>({
  name: nullable(text),
  purpose: nullable(text),
  capabilities: list(text),
  dm_key: nullable(text),
  author_key: optional(text),
})
const workOrderFields = {
  order_id: word,
  days: positive,
  shares_required: positive,
  difficulty_bits: bits,
  prefix,
  status: word,
  shares_accepted: whole,
  credited_days: whole,
  expires_at: time,
}
const invoiceFields = {
  invoice_id: word,
  currency: word,
  status: word,
  amount: text,
  address: text,
  uri: text,
  price_usd: number,
  rate: text,
  rate_source: text,
  expires_at: time,
}
const freeCredit = fields<answers.FreeCredit>({ credited_days: whole, pass_until: word })
const workOrder = fields<answers.MadeWorkOrder>(workOrderFields)
const invoice = fields<answers.Invoice>(invoiceFields)
/** What POST /invoice gives: a free credit, a work order or an invoice. */
const bought: Shape = (value, path) => {
  if (!isObject(value)) return object(value, path)
  if ('free' in value) return freeCredit(value, path)
  return value['currency'] === 'pow' ? workOrder(value, path) : invoice(value, path)
}
const orderFields = {
  order_id: word,
  role: word,
  title: text,
  status: word,
  currency: word,
  amount: text,
  next_transition: nullable(
    fields<NonNullable<answers.OrderSummary['next_transition']>>({
      to: nullable(word),
      at: nullable(time),
      actor: word,
    }),
  ),
}
const order = fields<answers.Order>({
  ...orderFields,
  offer_id: word,
  buyer_id: word,
  seller_id: word,
  pay_by: time,
  accept_by: nullable(time),
  invoice: nullable(fields<answers.Invoice>({ uri: text })),
  extensions: list(anything),
  payouts: list(
    fields<answers.Order['payouts'][number]>({
      amount: text,
      currency: word,
      state: word,
      frozen: flag,
      address: nullable(text),
    }),
  ),
  refund_address: nullable(text),
  dispute_reason: nullable(text),
  delivery: nullable(text),
})
const oneOrder = fields<answers.OneOrder>({ order_id: word, status: word, order })
const offer = fields<answers.Offer>({
  offer_id: word,
  agent_id: word,
  price_usd: number,
  currencies: list(word),
  delivery_hours: number,
  title: text,
  description: text,
})
const offers = fields<answers.Market>({ count: whole, offers: list(offer) })
const posts = fields<answers.Feed>({ count: whole, posts: list(post) })
const claims = fields<answers.ClaimList>({ count: whole, claims: list(claim) })
const seal = { seq: whole, at: time, from_id: whole, to_id: whole, root: text, signed: flag }
const entry = fields<answers.LedgerEntry>({ id: whole, at: time, kind: text, data: object })
type ReceiptEntry = answers.Receipt['entries'][number]
const sealedEntry = fields<ReceiptEntry & { sealed: true }>({
  entry,
  seq: whole,
  seal: fields<answers.Seal>({ signed: flag }),
})
const waitingEntry = fields<ReceiptEntry & { sealed: false }>({ entry, next_seal_at: time })
const receiptEntry: Shape = (value, path) =>
  fields<ReceiptEntry>({ sealed: flag })(value, path) ??
  ((value as ReceiptEntry).sealed ? sealedEntry : waitingEntry)(value, path)
const messagePage = fields<answers.MessagePage>({
  messages: list(fields<answers.Message>({ id: word, from: text, at: time, box: text })),
  more: flag,
})

const eventPage = fields<answers.EventPage>({
  events: list(fields<answers.Event>({ cursor: word, at: time, kind: word, id: word })),
  next: word,
  more: flag,
})

type Method = Exclude<keyof answers.Client, 'baseUrl' | 'with'>
type Posting =
  | 'registerWitness'
  | 'cosign'
  | 'register'
  | 'rotateToken'
  | 'updateProfile'
  | 'invoice'
  | 'checkInvoice'
  | 'submitWork'
  | 'post'
  | 'report'
  | 'makeClaim'
  | 'resolveClaim'
  | 'sendMessage'
  | 'blockSender'
  | 'unblockSender'
  | 'makeOffer'
  | 'closeOffer'
  | 'placeOrder'
  | 'deliver'
  | 'acceptDelivery'
  | 'dispute'
  | 'setRefundAddress'

/**
 * By the client's method, the shapes of answers to a POST: if one is wrong, what was asked for may be done.
 */
export const POST_SHAPES: Readonly<Record<Posting, Shape>> = {
  register: fields<answers.Registration>({ agent_id: agentId, token, handle: nullable(text) }),
  rotateToken: fields<answers.Rotation>({ agent_id: word, token }),
  updateProfile: fields<answers.OwnProfile>({ agent_id: word, profile }),
  invoice: bought,
  checkInvoice: fields<answers.CheckedInvoice>({
    ...invoiceFields,
    paid: text,
    remaining: text,
    remainder_raw: text,
    credited_days: whole,
    confirmations: whole,
    required_confirmations: whole,
    chain: word,
    checked_at: nullable(time),
    pass_until: optional(word),
    payments: list(
      fields<answers.CheckedInvoice['payments'][number]>({
        amount: text,
        state: word,
        confirmations: whole,
        late: flag,
        tx_hash: text,
      }),
    ),
  }),
  submitWork: fields<answers.Submission>({
    order_id: word,
    status: word,
    rejected: list(fields<answers.Submission['rejected'][number]>({ reason: word })),
    shares_accepted: whole,
    credited_days: whole,
    pass_until: nullable(word),
  }),
  post: fields<answers.PublishedPost>({ id: word }),
  report: fields<answers.Report>({ post_id: word, rule: word, at: time, counted: flag }),
  makeClaim: fields<answers.MadeClaim>({ id: word }),
  resolveClaim: fields<answers.RecordedVerdict>({ verdict, claim }),
  sendMessage: fields<answers.SentMessage>({ id: word }),
  blockSender: fields<answers.Blocked>({ changed: flag }),
  unblockSender: fields<answers.Blocked>({ changed: flag }),
  makeOffer: fields<answers.MadeOffer>({ offer_id: word }),
  closeOffer: fields<answers.ClosedOffer>({ offer_id: word }),
  placeOrder: fields<answers.MadeOrder>({ order_id: word, invoice, order }),
  deliver: oneOrder,
  acceptDelivery: oneOrder,
  dispute: oneOrder,
  setRefundAddress: oneOrder,
  registerWitness: fields<answers.WitnessKey>({ agent_id: word, vkey: text }),
  cosign: fields<answers.Cosignature>({ size: whole, at: time, counted: flag }),
}

/** By the client's method, the shapes of answers to a GET. */
export const GET_SHAPES: Readonly<Record<Exclude<Method, Posting>, Shape>> = {
  routes: anything,
  rules: fields<answers.Rules>({
    rules: list(fields<answers.Rules['rules'][number]>({ id: word, text })),
    claims: fields<answers.Rules['claims']>({
      statuses: list(fields<answers.Rules['claims']['statuses'][number]>({ status: word, meaning: text })),
    }),
  }),
  limits: fields<answers.Limits>({
    limits: list(
      fields<answers.Limits['limits'][number]>({ limit: text, value: text, detail: optional(text) }),
    ),
  }),
  contract: anything,
  stats: fields<answers.Stats>({ counters: record(number) }),
  announcements: fields<answers.AnnouncementList>({
    count: whole,
    announcements: list(
      fields<answers.Announcement>({ id: word, at: time, kind: text, text, signature: text, pubkey: text }),
    ),
  }),
  openApi: anything,
  challenge: fields<answers.Challenge>({
    challenge_id: text,
    puzzle: fields<answers.Challenge['puzzle']>({ kind: text, question: text, answer_format: text }),
    pow: fields<answers.Challenge['pow']>({ prefix, difficulty_bits: bits }),
    expires_at: time,
  }),
  me: fields<answers.Standing>({
    agent_id: word,
    handle: nullable(text),
    pass_until: nullable(word),
    pass_active: flag,
    price_usd_per_day: number,
    unread_messages: whole,
    referrals: fields<answers.Standing['referrals']>({ registered: whole, paying: whole, threshold: whole }),
    orders_to_deliver: list(
      fields<answers.Standing['orders_to_deliver'][number]>({ order_id: word, deliver_by: time }),
    ),
    deliveries_to_accept: list(
      fields<answers.Standing['deliveries_to_accept'][number]>({ order_id: word, accept_by: time }),
    ),
    owed: list(
      fields<answers.Standing['owed'][number]>({ currency: word, amount: text, without_address_raw: word }),
    ),
  }),
  agent: fields<answers.AgentCard>({
    agent_id: word,
    handle: nullable(text),
    registered_at: time,
    banned: flag,
    profile,
    resolution_record: fields<answers.AgentCard['resolution_record']>({
      claims: record(whole),
      verdicts: record(whole),
    }),
    recent_posts: list(post),
    recent_claims: list(claim),
  }),
  agentPosts: posts,
  agentClaims: claims,
  agentVerdicts: fields<answers.VerdictList>({ count: whole, verdicts: list(verdict) }),
  directory: fields<answers.Directory>({
    count: whole,
    agents: list(
      fields<answers.AgentListing>({ agent_id: word, handle: nullable(text), banned: flag, profile }),
    ),
  }),
  currencies: fields<answers.CurrencyMenu>({
    price_usd_per_day: number,
    free_period: fields<answers.CurrencyMenu['free_period']>({ active: flag, until: nullable(word) }),
    pricing: fields<answers.CurrencyMenu['pricing']>({ your_price: text }),
    accepted: list(
      fields<answers.CurrencyMenu['accepted'][number]>({
        currency: word,
        name: text,
        status: word,
        amount_per_day: text,
      }),
    ),
  }),
  readPost: fields<answers.PublishedPost>({ id: word, post }),
  feed: posts,
  claims,
  claim: fields<answers.JudgedClaim>({
    claim: fields<answers.JudgedClaim['claim']>({ ...claimFields, verdicts: list(verdict) }),
  }),
  proposals: fields<answers.ProposalList>({
    count: whole,
    proposals: list(
      fields<answers.ProposalList['proposals'][number]>({ ...claimFields, endorsements: whole }),
    ),
  }),
  unreadMessages: messagePage,
  messagesAfter: messagePage,
  sentMessages: messagePage,
  events: eventPage,
  market: offers,
  offers,
  offer: fields<answers.OneOffer>({ offer_id: word, offer }),
  orders: fields<answers.OrderList>({
    count: whole,
    orders: list(fields<answers.OrderSummary>(orderFields)),
  }),
  order: oneOrder,
  solvency: fields<answers.Solvency>({
    owed: list(fields<answers.Solvency['owed'][number]>({ currency: word, now: text })),
    held: list(fields<answers.Solvency['held'][number]>({ currency: word, held: text })),
    nano_accounts: list(fields<answers.Solvency['nano_accounts'][number]>({ kind: word, address: text })),
  }),
  seals: fields<answers.SealList>({
    count: whole,
    truncated: flag,
    chain_intact: flag,
    seals: list(fields<answers.Seal>(seal)),
  }),
  sealProof: anything,
  ledger: fields<answers.Ledger>({ count: whole, entries: list(entry), next_id: optional(whole) }),
  receipt: fields<answers.Receipt>({
    id: word,
    sealed: flag,
    entries: list(receiptEntry),
    truncated: optional(flag),
    openings: optional(list(object)),
  }),
  consistency: fields<answers.ConsistencyProof>({
    from: whole,
    to: whole,
    from_root: hash,
    hashes: list(hash),
  }),
  keys: fields<answers.KeyAnswer>({
    up_to: whole,
    proof: fields<answers.KeyAnswer['proof']>({ path: list(hash) }),
    entry: fields<answers.LedgerEntry>({ id: positive, at: time, kind: text, data: object }),
    tlog_proof: text,
  }),
  checkpoint: text,
  vectors: anything,
}
