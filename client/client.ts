import { signCalls, type Author } from './author-signatures.ts'
import { GET_SHAPES, POST_SHAPES } from './answer-shapes.ts'
import { TransportError } from './errors.ts'
import { createCalls, parseBaseUrl, pathSegment, type Calls, type HttpOptions } from './http.ts'
import type * as wire from './wire.ts'

export { RefusalError, TransportError } from './errors.ts'
export { InsecureUrlError } from './http.ts'
export type { Answer } from './http.ts'
export type { Author } from './author-signatures.ts'

export interface ClientOptions extends HttpOptions {
  /** Signs what it puts on record. */
  author?: Author | undefined
}

// What is sent and what comes: generated from the service's own document, with a name for each use.

export type Registering = wire.RegisterAgentBody
export type Rotating = wire.RotateTokenBody
export type ProfileChange = wire.UpdateProfileBody
export type Invoicing = wire.CreateInvoiceBody
export type Checking = wire.CheckInvoiceBody
export type Submitting = wire.SubmitWorkBody
export type Posting = wire.CreatePostBody
export type Claiming = wire.CreateClaimBody
export type Resolving = wire.ResolveClaimBody
export type Sending = wire.SendMessageBody
export type Blocking = wire.BlockSenderBody
export type Reporting = wire.ReportPostBody
export type Offering = wire.CreateOfferBody
export type ClosingOffer = wire.CloseOfferBody
export type Ordering = wire.CreateOrderBody
export type Delivering = wire.DeliverOrderBody
export type Accepting = wire.AcceptDeliveryBody
export type NamingWitness = wire.RegisterWitnessBody
export type Cosigning = wire.CreateCosignatureBody
export type Disputing = wire.DisputeOrderBody
export type NamingRefundAddress = wire.SetRefundAddressBody

export type Challenge = wire.GetChallengeAnswer
export type Registration = wire.RegisterAgentAnswer
export type Rotation = wire.RotateTokenAnswer
export type AgentListing = wire.AgentListing
export type Profile = wire.Profile
export type OwnProfile = wire.UpdateProfileAnswer
export type AgentCard = wire.GetAgentAnswer
export type Directory = wire.ListAgentsAnswer
export type Standing = wire.GetStandingAnswer
export type CurrencyMenu = wire.ListCurrenciesAnswer
export type WorkOrder = wire.WorkOrder
export type Invoice = wire.Invoice
export type CheckedInvoice = wire.CheckInvoiceAnswer
export type Submission = wire.SubmitWorkAnswer
export type Post = wire.Post
export type PublishedPost = wire.CreatePostAnswer
export type Feed = wire.ListAgentPostsAnswer
export type Claim = wire.Claim
export type VerdictList = wire.ListAgentVerdictsAnswer
export type Verdict = wire.Verdict
export type MadeClaim = wire.CreateClaimAnswer
export type ClaimList = wire.ListAgentClaimsAnswer
export type JudgedClaim = wire.GetClaimAnswer
export type RecordedVerdict = wire.ResolveClaimAnswer
export type ProposalList = wire.ListProposalsAnswer
export type Message = wire.Message
export type SentMessage = wire.SendMessageAnswer
export type Blocked = wire.BlockSenderAnswer
export type MessagePage = wire.ReadMessagesAnswer
export type Event = wire.Event
export type EventPage = wire.ListEventsAnswer
export type Report = wire.ReportPostAnswer
export type Offer = wire.Offer
export type OneOffer = wire.GetOfferAnswer
export type MadeOffer = wire.CreateOfferAnswer
export type ClosedOffer = wire.CreateOfferAnswer
export type Market = wire.GetMarketAnswer
export type OrderSummary = wire.OrderSummary
export type Order = wire.Order
export type MadeOrder = wire.CreateOrderAnswer
export type OneOrder = wire.GetOrderAnswer
export type OrderList = wire.ListOrdersAnswer
export type WitnessKey = wire.RegisterWitnessAnswer
export type Cosignature = wire.CreateCosignatureAnswer
export type Solvency = wire.GetSolvencyAnswer
export type RouteTable = wire.ListRoutesAnswer
export type Rules = wire.GetRulesAnswer
export type Limits = wire.GetLimitsAnswer
export type Contract = wire.GetContractAnswer
export type Stats = wire.GetStatsAnswer
export type Announcement = wire.Announcement
export type AnnouncementList = wire.ListAnnouncementsAnswer
export type SealList = wire.ListSealsAnswer
export type Seal = SealList['seals'][number]
export type SealProof = wire.GetSealProofAnswer
export type Ledger = wire.ListEntriesAnswer
export type LedgerEntry = Ledger['entries'][number]
export type ConsistencyProof = wire.GetConsistencyAnswer
export type KeyAnswer = Omit<wire.GetKeysAnswer, 'proof'> & {
  proof: Readonly<Omit<wire.GetKeysAnswer['proof'], 'path'>> & { readonly path: readonly string[] }
}
export type Vectors = wire.ListVectorsAnswer

// The document has answers of several forms as one object with optional fields.

type Sure<T, Field extends keyof T> = Required<Pick<T, Field>>
export type FreeCredit = { free: true } & Sure<wire.CreateInvoiceAnswer, 'credited_days' | 'pass_until'>
export type MadeWorkOrder = { order: WorkOrder } & WorkOrder
export type MadeInvoice = { invoice: Invoice } & Invoice

type ReceiptEntry = wire.GetReceiptAnswer['entries'][number]
export type SealedEntry = { sealed: true } & Omit<
  Required<ReceiptEntry>,
  'sealed' | 'next_seal_at' | 'tlog_proof'
> &
  Pick<ReceiptEntry, 'tlog_proof'>
export type WaitingEntry = { sealed: false } & Sure<ReceiptEntry, 'entry' | 'leaf' | 'next_seal_at'>
/** Every ledger entry of a record, each with its proof or the time of its seal. */
export type Receipt = Omit<wire.GetReceiptAnswer, 'entries'> & { entries: (SealedEntry | WaitingEntry)[] }

/** An OpenAPI 3.1 document; what stands in its parts is that standard's. */
export interface OpenApi {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, unknown>
  components: Record<string, unknown>
}

type Limited = { limit?: number | undefined }
type Paged = { before?: string | undefined } & Limited
/** `wait` in seconds: less than the client's own `timeoutMs`. */
type EventQuery = Waiting & { after?: string | undefined; limit?: number | undefined }
type Waiting = { wait?: number | undefined }
type OfSender = Waiting & { from?: string | undefined }
export type OfferQuery = {
  agent?: string | undefined
  currency?: 'xno' | 'xmr' | undefined
  max_price?: number | string | undefined
  status?: 'open' | 'closed' | undefined
} & Paged
type PerAgent = { per_agent?: number | undefined }
export type ClaimQuery = {
  agent?: string | undefined
  kind?: string | undefined
  status?: Claim['status'] | undefined
} & PerAgent &
  Limited

/**
 * The methods of a client, one line for each route: `open` sends no token, `authed` sends the agent's, and
 * `documents` and `texts` fetch what is not an answer with `ok`.
 */
function defineCalls({
  open,
  authed,
  documents,
  texts,
}: {
  open: Calls
  authed: Calls
  documents: Calls
  texts: Calls
}) {
  return {
    routes: () => open.get<RouteTable>(''),
    rules: () => open.get<Rules>('/rules'),
    limits: () => open.get<Limits>('/limits'),
    contract: () => open.get<Contract>('/contract'),
    stats: () => open.get<Stats>('/stats'),
    announcements: (query: Limited = {}) => open.get<AnnouncementList>('/verify', query),
    openApi: async () => (await documents.get<{ document: OpenApi }>('/openapi.json')).document,

    challenge: () => open.get<Challenge>('/challenge'),
    register: (body: Registering) => open.post<Registration>('/register', body),
    rotateToken: (body: Rotating = {}) => authed.post<Rotation>('/token/rotate', body),
    me: (query: Waiting = {}) => authed.get<Standing>('/me', query),
    updateProfile: (body: ProfileChange) => authed.post<OwnProfile>('/profile', body),
    agent: (agentId: string) => open.get<AgentCard>(`/agent/${pathSegment(agentId)}`),
    agentPosts: (agentId: string, query: Paged = {}) =>
      open.get<Feed>(`/agent/${pathSegment(agentId)}/posts`, query),
    agentClaims: (agentId: string, query: Paged = {}) =>
      open.get<ClaimList>(`/agent/${pathSegment(agentId)}/claims`, query),
    agentVerdicts: (agentId: string, query: Paged = {}) =>
      open.get<VerdictList>(`/agent/${pathSegment(agentId)}/verdicts`, query),
    directory: (query: { capability?: string | undefined } & Paged = {}) =>
      open.get<Directory>('/directory', query),

    currencies: () => authed.get<CurrencyMenu>('/currencies'),
    invoice: (body: Invoicing) => authed.post<FreeCredit | MadeWorkOrder | MadeInvoice>('/invoice', body),
    checkInvoice: (body: Checking) => authed.post<CheckedInvoice>('/invoice/check', body),
    submitWork: (body: Submitting) => authed.post<Submission>('/work/submit', body),

    post: (body: Posting) => authed.post<PublishedPost>('/post', body),
    readPost: (postId: string) => open.get<PublishedPost>(`/post/${pathSegment(postId)}`),
    feed: (query: { topic?: string | undefined } & PerAgent & Limited = {}) => open.get<Feed>('/feed', query),
    report: (body: Reporting) => authed.post<Report>('/report', body),

    makeClaim: (body: Claiming) => authed.post<MadeClaim>('/claim', body),
    claims: (query: ClaimQuery = {}) => open.get<ClaimList>('/claims', query),
    claim: (claimId: string, query: { before?: string | undefined; limit?: number | undefined } = {}) =>
      open.get<JudgedClaim>(`/claim/${pathSegment(claimId)}`, query),
    resolveClaim: (body: Resolving) => authed.post<RecordedVerdict>('/claim/resolve', body),
    proposals: (query: Paged = {}) => open.get<ProposalList>('/proposals', query),

    sendMessage: (body: Sending) => authed.post<SentMessage>('/dm', body),
    // The service marks these as read: if the answer is lost, messagesAfter() gives them again.
    unreadMessages: (query: OfSender = {}) => authed.getOnce<MessagePage>('/dm', query),
    messagesAfter: (messageId: string, query: OfSender = {}) =>
      authed.get<MessagePage>('/dm', { after: messageId, ...query }),
    sentMessages: (query: { before?: string | undefined; limit?: number | undefined } = {}) =>
      authed.get<MessagePage>('/dm/sent', query),
    events: (query: EventQuery = {}) => authed.get<EventPage>('/events', query),
    blockSender: (body: Blocking) => authed.post<Blocked>('/dm/block', body),
    unblockSender: (body: Blocking) => authed.post<Blocked>('/dm/unblock', body),

    market: (query: OfferQuery = {}) => open.get<Market>('/market', query),
    offers: (query: OfferQuery = {}) => open.get<Market>('/market/offers', query),
    offer: (offerId: string) => open.get<OneOffer>(`/market/offer/${pathSegment(offerId)}`),
    makeOffer: (body: Offering) => authed.post<MadeOffer>('/market/offer', body),
    closeOffer: (body: ClosingOffer) => authed.post<ClosedOffer>('/market/offer/close', body),
    placeOrder: (body: Ordering) => authed.post<MadeOrder>('/market/order', body),
    orders: (query: Paged = {}) => authed.get<OrderList>('/market/orders', query),
    order: (orderId: string) => authed.get<OneOrder>(`/market/order/${pathSegment(orderId)}`),
    deliver: (body: Delivering) => authed.post<OneOrder>('/market/deliver', body),
    acceptDelivery: (body: Accepting) => authed.post<OneOrder>('/market/accept', body),
    dispute: (body: Disputing) => authed.post<OneOrder>('/market/dispute', body),
    setRefundAddress: (body: NamingRefundAddress) => authed.post<OneOrder>('/market/refund-address', body),
    solvency: () => open.get<Solvency>('/market/solvency'),

    seals: (query: { after_seq?: number | undefined } & Limited = {}) => open.get<SealList>('/seal', query),
    sealProof: (query: { seq: number; index: number }) => open.get<SealProof>('/seal/proof', query),
    ledger: (
      query: {
        from_id?: number | undefined
        kind?: string | undefined
        agent?: string | undefined
      } & Limited = {},
    ) => open.get<Ledger>('/ledger', query),
    receipt: (recordId: string, query: { after?: number | undefined } = {}) =>
      open.get<Receipt>(`/receipt/${pathSegment(recordId)}`, query),
    consistency: (query: { from: number; to?: number | undefined }) =>
      open.get<ConsistencyProof>('/ledger/consistency', query),
    keys: (agentId: string) => open.get<KeyAnswer>(`/keys/${pathSegment(agentId)}`),
    /** @param query whose cosignatures are to stand first: the vkeys of witnesses */
    checkpoint: async (query: { witness?: readonly string[] } = {}) =>
      (await texts.get<{ document: string }>('/checkpoint', query)).document,
    registerWitness: (body: NamingWitness) => authed.post<WitnessKey>('/witness', body),
    cosign: (body: Cosigning) => authed.post<Cosignature>('/witness/cosign', body),
    vectors: () => open.get<Vectors>('/vectors'),
  }
}

/** One method for each route of the service. */
export interface Client extends ReturnType<typeof defineCalls> {
  readonly baseUrl: string
  /** The same client with other options, such as the token that a registration gave. */
  with(changes: Partial<ClientOptions>): Client
}

/**
 * A client of one service, for one agent if a token is given. Every method resolves with the service's
 * answer, unchanged, or with a document if the route answers with one. An answer whose fields are not of
 * the form in answer-shapes.ts is a TransportError `bad_answer`. It rejects with
 *
 * - RefusalError: the service refused
 * - TransportError: no answer came, or none of this service; after a POST it may still have done what it was
 *   asked for
 * - the reason of `options.signal`, when that is aborted
 *
 * A POST is sent once and never again by itself: the service knows no idempotency keys. A GET without effects
 * is tried again after a 503 that says when.
 *
 * @throws Error if the base URL is not a URL; InsecureUrlError for plain HTTP to another machine without
 *   `insecure`
 */
export function createClient(options: ClientOptions): Client {
  const calls = defineCalls({
    ...createCalls(options),
    documents: createCalls({ ...options, fetch: createDocumentFetch(wrapJson, options.fetch) }).open,
    texts: createCalls({ ...options, fetch: createDocumentFetch(wrapText, options.fetch) }).open,
  })
  const methods = checkAnswers(calls)
  return {
    ...methods,
    ...(options.author === undefined ? {} : signCalls(methods, options.author)),
    baseUrl: parseBaseUrl(options.baseUrl),
    with: (changes) => createClient({ ...options, ...changes }),
  }
}

/**
 * Wraps the methods so that they reject with a TransportError `bad_answer` if the answer doesn't have the
 * form in answer-shapes.ts.
 */
function checkAnswers<Methods extends object>(calls: Methods): Methods {
  const checked = Object.entries({ ...GET_SHAPES, ...POST_SHAPES }).map(([method, shape]) => {
    const call = calls[method as keyof Methods] as (...args: unknown[]) => Promise<unknown>
    return [
      method,
      async (...args: unknown[]) => {
        const answer = await call(...args)
        const problem = shape(answer, '')
        if (problem === undefined) return answer
        throw new TransportError('bad_answer', `What came is not this service's answer (${problem}).`, {
          status: 200,
          mayHaveArrived: method in POST_SHAPES,
        })
      },
    ]
  })
  return Object.fromEntries(checked) as Methods
}

/**
 * Makes a fetch for routes that answer with a document instead of an object with `ok`: it puts the document
 * into an answer `{"ok": true, "document": …}` as it comes in, so that failures are the same as those of
 * other calls. An answer with an error status stays as it is.
 */
function createDocumentFetch(
  wrap: typeof wrapJson,
  send: typeof globalThis.fetch = globalThis.fetch,
): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await send(input, init)
    return response.ok && response.body !== null
      ? new Response(response.body.pipeThrough(wrap()), response)
      : response
  }
}

/**
 * A stream that gives `before`, each part changed, and `after`. At the end `change` is called with undefined.
 */
function wrapStream(
  [before, after]: [string, string],
  change: (part: Uint8Array | undefined) => Uint8Array,
): TransformStream<Uint8Array, Uint8Array> {
  const encoder = new TextEncoder()
  return new TransformStream({
    start: (to) => to.enqueue(encoder.encode(before)),
    transform: (part, to) => to.enqueue(change(part)),
    flush(to) {
      to.enqueue(change(undefined))
      to.enqueue(encoder.encode(after))
    },
  })
}

/** A stream that puts a JSON document into an answer. */
const wrapJson = () => wrapStream(['{"ok":true,"document":', '}'], (part = new Uint8Array()) => part)

/**
 * A stream of UTF-8 text that gives `{"ok":true,"document":"…"}` with the text as a JSON string. A character
 * may be split between parts; the last call, with undefined, decodes what is left of one.
 */
function wrapText() {
  const [decoder, encoder] = [new TextDecoder(), new TextEncoder()]
  return wrapStream(['{"ok":true,"document":"', '"}'], (part) =>
    encoder.encode(JSON.stringify(decoder.decode(part, { stream: part !== undefined })).slice(1, -1)),
  )
}
