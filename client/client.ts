import type { z } from 'zod'
import type { contractView } from '../shared/about/contract.ts'
import type { limitsView } from '../shared/about/limits-page.ts'
import type { rulesView } from '../shared/about/rules.ts'
import type { statsView } from '../shared/about/stats.ts'
import type { agentCardView } from '../shared/account/agent-card.ts'
import type {
  agentListing,
  directoryView,
  ownProfileView,
  profileBody,
  profileView,
  registerBody,
  registrationView,
  rotateBody,
  rotationView,
} from '../shared/agents/agent.ts'
import type { challengeView } from '../shared/agents/challenge.ts'
import type { announcementView } from '../shared/announcements/announcement.ts'
import type {
  claimBody,
  claimListView,
  ClaimStatus,
  claimView,
  judgedClaimView,
  madeClaimView,
  proposalListView,
  recordedVerdictView,
  resolveBody,
  verdictListView,
  verdictView,
} from '../shared/claims/claim.ts'
import type { JsonValue } from '../shared/crypto/canonical-json.ts'
import type { AgentKeys, KeyProof } from '../shared/crypto/key-tree.ts'
import type { LedgerEntry, Receipt } from '../shared/crypto/receipt.ts'
import type { Seal } from '../shared/crypto/seal-payload.ts'
import type { proofView } from '../shared/ledger/proofs.ts'
import type { cosignBody, cosignView, witnessBody, witnessView } from '../shared/account/witness-service.ts'
import type {
  closeOfferBody,
  madeOfferView,
  marketView,
  offerBody,
  offersQuery,
  offerView,
  oneOfferView,
} from '../shared/market/offer.ts'
import type {
  acceptBody,
  deliverBody,
  disputeBody,
  madeOrderView,
  oneOrderView,
  orderBody,
  orderListView,
  orderSummaryView,
  orderView,
  refundAddressBody,
} from '../shared/market/order-views.ts'
import type { solvencyView } from '../shared/market/solvency.ts'
import type { eventPageView, eventView } from '../shared/events/event.ts'
import type {
  blockBody,
  blockedView,
  dmBody,
  messagePageView,
  messageView,
  sentMessageView,
} from '../shared/messages/message.ts'
import type { currencyMenuView } from '../shared/account/currencies.ts'
import type { invoiceBody } from '../shared/account/currencies.ts'
import type { freeCreditView } from '../shared/passes/pass.ts'
import type { standingView } from '../shared/account/standing.ts'
import type {
  checkedInvoiceView,
  checkInvoiceBody,
  invoiceView,
  madeInvoiceView,
} from '../shared/payments/invoice.ts'
import type { feedView, postBody, postView, publishedPostView } from '../shared/posts/post.ts'
import type { reportBody, reportView } from '../shared/reports/report.ts'
import type { madeWorkOrderView, submissionView, submitBody, workOrderView } from '../shared/work/work.ts'
import { signCalls, type Author } from './author-signatures.ts'
import { GET_SHAPES, POST_SHAPES } from './answer-shapes.ts'
import { TransportError } from './errors.ts'
import { createCalls, parseBaseUrl, pathSegment, type Calls, type HttpOptions } from './http.ts'

export { RefusalError, TransportError } from './errors.ts'
export { InsecureUrlError } from './http.ts'
export type { Answer } from './http.ts'
export type { Author } from './author-signatures.ts'

export interface ClientOptions extends HttpOptions {
  /** Signs what it puts on record. */
  author?: Author | undefined
}

// What is sent and what comes, from the service's own schemas: types alone, none of its code is loaded.

export type Registering = z.input<typeof registerBody>
export type Rotating = z.input<typeof rotateBody>
export type ProfileChange = z.input<typeof profileBody>
export type Invoicing = z.input<typeof invoiceBody>
export type Checking = z.input<typeof checkInvoiceBody>
export type Submitting = z.input<typeof submitBody>
export type Posting = z.input<typeof postBody>
export type Claiming = z.input<typeof claimBody>
export type Resolving = z.input<typeof resolveBody>
export type Sending = z.input<typeof dmBody>
export type Blocking = z.input<typeof blockBody>
export type Reporting = z.input<typeof reportBody>
export type Offering = z.input<typeof offerBody>
export type ClosingOffer = z.input<typeof closeOfferBody>
export type Ordering = z.input<typeof orderBody>
export type Delivering = z.input<typeof deliverBody>
export type Accepting = z.input<typeof acceptBody>
export type NamingWitness = z.input<typeof witnessBody>
export type Cosigning = z.input<typeof cosignBody>
export type Disputing = z.input<typeof disputeBody>
export type NamingRefundAddress = z.input<typeof refundAddressBody>

export type Challenge = z.output<typeof challengeView>
export type Registration = z.output<typeof registrationView>
export type Rotation = z.output<typeof rotationView>
export type AgentListing = z.output<typeof agentListing>
export type Profile = z.output<typeof profileView>
export type OwnProfile = z.output<typeof ownProfileView>
export type AgentCard = z.output<typeof agentCardView>
export type Directory = z.output<typeof directoryView>
export type Standing = z.output<typeof standingView>
export type CurrencyMenu = z.output<typeof currencyMenuView>
export type FreeCredit = z.output<typeof freeCreditView>
export type WorkOrder = z.output<typeof workOrderView>
export type MadeWorkOrder = z.output<typeof madeWorkOrderView>
export type Invoice = z.output<typeof invoiceView>
export type MadeInvoice = z.output<typeof madeInvoiceView>
export type CheckedInvoice = z.output<typeof checkedInvoiceView>
export type Submission = z.output<typeof submissionView>
export type Post = z.output<typeof postView>
export type PublishedPost = z.output<typeof publishedPostView>
export type Feed = z.output<typeof feedView>
export type Claim = z.output<typeof claimView>
export type VerdictList = z.output<typeof verdictListView>
export type Verdict = z.output<typeof verdictView>
export type MadeClaim = z.output<typeof madeClaimView>
export type ClaimList = z.output<typeof claimListView>
export type JudgedClaim = z.output<typeof judgedClaimView>
export type RecordedVerdict = z.output<typeof recordedVerdictView>
export type ProposalList = z.output<typeof proposalListView>
export type Message = z.output<typeof messageView>
export type SentMessage = z.output<typeof sentMessageView>
export type Blocked = z.output<typeof blockedView>
export type MessagePage = z.output<typeof messagePageView>
export type Event = z.output<typeof eventView>
export type EventPage = z.output<typeof eventPageView>
export type Report = z.output<typeof reportView>
export type Offer = z.output<typeof offerView>
export type OneOffer = z.output<typeof oneOfferView>
export type MadeOffer = z.output<typeof madeOfferView>
export type ClosedOffer = z.output<typeof madeOfferView>
export type Market = z.output<typeof marketView>
export type OrderSummary = z.output<typeof orderSummaryView>
export type Order = z.output<typeof orderView>
export type MadeOrder = z.output<typeof madeOrderView>
export type OneOrder = z.output<typeof oneOrderView>
export type OrderList = z.output<typeof orderListView>
export type WitnessKey = z.output<typeof witnessView>
export type Cosignature = z.output<typeof cosignView>
export type Solvency = z.output<typeof solvencyView>
export type Rules = z.output<typeof rulesView>
export type Limits = z.output<typeof limitsView>
export type Contract = z.output<typeof contractView>
export type Stats = z.output<typeof statsView>
export type Announcement = z.output<typeof announcementView>
export type SealProof = z.output<typeof proofView>
export type { LedgerEntry, Receipt, Seal }

// The views of these routes are not among the service's shared schemas.

export interface RouteTable {
  name: string
  version: number
  protocol_version: number
  api_base: string
  routes: { method: string; path: string; also_at: string | null; needs: string; summary: string }[]
  count: number
}

export interface AnnouncementList {
  announcements: Announcement[]
  count: number
  how_to_verify: string[]
}

export interface SealList {
  seals: Seal[]
  count: number
  /** True where the chain has more seals than this list. */
  truncated: boolean
  unsigned_seqs: number[]
  /** What the service says of itself; seal-verify.mjs says it without trusting it. */
  chain_intact: boolean
  verified_to_seq: number
  /** Unix seconds. */
  walked_at: number | null
  what_this_is: string
  honest_limit: string
  verify: string
}

export interface Ledger {
  entries: LedgerEntry[]
  count: number
  /** With kind or agent: the from_id to go on with. */
  next_id?: number
  /** With kind or agent: true if there are entries from next_id on. */
  more?: boolean
}

/** That the log of `to` entries begins with that of `from`; hashes as hex. */
export interface ConsistencyProof {
  from: number
  to: number
  from_root: string
  to_root: string
  hashes: string[]
}

/** What keys an agent has after entry `up_to`, with the proof up to a signed checkpoint. */
export interface KeyAnswer {
  agent_id: string
  keys: AgentKeys | null
  up_to: number
  proof: KeyProof
  /** The closing entry whose `keys` has the root, and its place in the log. */
  entry: LedgerEntry
  tlog_proof: string
}

export interface Vectors {
  valid: Record<string, JsonValue>
  invalid: Record<string, JsonValue>
  count: number
}

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
export type OfferQuery = { max_price?: number | string | undefined } & Omit<
  z.input<typeof offersQuery>,
  'limit' | 'max_price'
> &
  Limited
type PerAgent = { per_agent?: number | undefined }
export type ClaimQuery = {
  agent?: string | undefined
  kind?: string | undefined
  status?: ClaimStatus | undefined
} & PerAgent &
  Limited

/**
 * One line for each route: `open` sends no token, `own` sends the agent's, `documents` and `texts` ask for
 * what is no answer with `ok`.
 */
function defineCalls({
  open,
  own,
  documents,
  texts,
}: {
  open: Calls
  own: Calls
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
    rotateToken: (body: Rotating = {}) => own.post<Rotation>('/token/rotate', body),
    me: (query: Waiting = {}) => own.get<Standing>('/me', query),
    updateProfile: (body: ProfileChange) => own.post<OwnProfile>('/profile', body),
    agent: (agentId: string) => open.get<AgentCard>(`/agent/${pathSegment(agentId)}`),
    agentPosts: (agentId: string, query: Paged = {}) =>
      open.get<Feed>(`/agent/${pathSegment(agentId)}/posts`, query),
    agentClaims: (agentId: string, query: Paged = {}) =>
      open.get<ClaimList>(`/agent/${pathSegment(agentId)}/claims`, query),
    agentVerdicts: (agentId: string, query: Paged = {}) =>
      open.get<VerdictList>(`/agent/${pathSegment(agentId)}/verdicts`, query),
    directory: (query: { capability?: string | undefined } & Paged = {}) =>
      open.get<Directory>('/directory', query),

    currencies: () => own.get<CurrencyMenu>('/currencies'),
    invoice: (body: Invoicing) => own.post<FreeCredit | MadeWorkOrder | MadeInvoice>('/invoice', body),
    checkInvoice: (body: Checking) => own.post<CheckedInvoice>('/invoice/check', body),
    submitWork: (body: Submitting) => own.post<Submission>('/work/submit', body),

    post: (body: Posting) => own.post<PublishedPost>('/post', body),
    readPost: (postId: string) => open.get<PublishedPost>(`/post/${pathSegment(postId)}`),
    feed: (query: { topic?: string | undefined } & PerAgent & Limited = {}) => open.get<Feed>('/feed', query),
    report: (body: Reporting) => own.post<Report>('/report', body),

    makeClaim: (body: Claiming) => own.post<MadeClaim>('/claim', body),
    claims: (query: ClaimQuery = {}) => open.get<ClaimList>('/claims', query),
    claim: (claimId: string, query: { before?: string | undefined; limit?: number | undefined } = {}) =>
      open.get<JudgedClaim>(`/claim/${pathSegment(claimId)}`, query),
    resolveClaim: (body: Resolving) => own.post<RecordedVerdict>('/claim/resolve', body),
    proposals: (query: Paged = {}) => open.get<ProposalList>('/proposals', query),

    sendMessage: (body: Sending) => own.post<SentMessage>('/dm', body),
    // It marks what it gives as read: an answer that was lost is had again with messagesAfter.
    unreadMessages: (query: OfSender = {}) => own.take<MessagePage>('/dm', query),
    messagesAfter: (messageId: string, query: OfSender = {}) =>
      own.get<MessagePage>('/dm', { after: messageId, ...query }),
    sentMessages: (query: { before?: string | undefined } = {}) => own.get<MessagePage>('/dm/sent', query),
    events: (query: EventQuery = {}) => own.get<EventPage>('/events', query),
    blockSender: (body: Blocking) => own.post<Blocked>('/dm/block', body),
    unblockSender: (body: Blocking) => own.post<Blocked>('/dm/unblock', body),

    market: (query: OfferQuery = {}) => open.get<Market>('/market', query),
    offers: (query: OfferQuery = {}) => open.get<Market>('/market/offers', query),
    offer: (offerId: string) => open.get<OneOffer>(`/market/offer/${pathSegment(offerId)}`),
    makeOffer: (body: Offering) => own.post<MadeOffer>('/market/offer', body),
    closeOffer: (body: ClosingOffer) => own.post<ClosedOffer>('/market/offer/close', body),
    placeOrder: (body: Ordering) => own.post<MadeOrder>('/market/order', body),
    orders: (query: Paged = {}) => own.get<OrderList>('/market/orders', query),
    order: (orderId: string) => own.get<OneOrder>(`/market/order/${pathSegment(orderId)}`),
    deliver: (body: Delivering) => own.post<OneOrder>('/market/deliver', body),
    acceptDelivery: (body: Accepting) => own.post<OneOrder>('/market/accept', body),
    dispute: (body: Disputing) => own.post<OneOrder>('/market/dispute', body),
    setRefundAddress: (body: NamingRefundAddress) => own.post<OneOrder>('/market/refund-address', body),
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
      open.get<Omit<Receipt, 'ok'>>(`/receipt/${pathSegment(recordId)}`, query),
    consistency: (query: { from: number; to?: number | undefined }) =>
      open.get<ConsistencyProof>('/ledger/consistency', query),
    keys: (agentId: string) => open.get<KeyAnswer>(`/keys/${pathSegment(agentId)}`),
    checkpoint: async () => (await texts.get<{ document: string }>('/checkpoint')).document,
    registerWitness: (body: NamingWitness) => own.post<WitnessKey>('/witness', body),
    cosign: (body: Cosigning) => own.post<Cosignature>('/witness/cosign', body),
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
 * - RefusalError: the service said no (contract, "Errors")
 * - TransportError: no answer came, or none of this service; after a POST it may still have done what it was
 *   asked for
 * - the reason of `options.signal`, when that is aborted
 *
 * A POST is sent once and never again by itself: the service knows no idempotency keys (contract, Endpoints,
 * rule 2). A GET without effects is tried again after a 503 that says when.
 *
 * @throws Error if the base URL is not a URL; InsecureUrlError for plain HTTP to another machine without
 *   `insecure`
 */
export function createClient(options: ClientOptions): Client {
  const calls = defineCalls({
    ...createCalls(options),
    documents: createCalls({ ...options, fetch: fetchDocuments(asJson, options.fetch) }).open,
    texts: createCalls({ ...options, fetch: fetchDocuments(asText, options.fetch) }).open,
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
 * The same methods, which reject with a TransportError `bad_answer` if the answer doesn't have the form in
 * answer-shapes.ts.
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
 * A document of a standard that is not ours carries no `ok`. It is put into an answer as it comes in, so that
 * all else that can befall a call is told in the same way; a refusal stays what it is.
 */
function fetchDocuments(
  wrap: typeof asJson,
  send: typeof globalThis.fetch = globalThis.fetch,
): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await send(input, init)
    return response.ok && response.body !== null
      ? new Response(ReadableStream.from(wrap(response.body)), response)
      : response
  }
}

async function* asJson(document: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield Buffer.from('{"ok":true,"document":')
  yield* document
  yield Buffer.from('}')
}

async function* asText(document: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder()
  const escape = (text: string): Buffer => Buffer.from(JSON.stringify(text).slice(1, -1))
  yield Buffer.from('{"ok":true,"document":"')
  for await (const part of document) yield escape(decoder.decode(part, { stream: true }))
  yield escape(decoder.decode())
  yield Buffer.from('"}')
}
