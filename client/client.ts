import { signCalls, type Author } from './author-signatures.ts'
import { createCalls, parseBaseUrl, type HttpOptions } from './http.ts'
import { createMethods } from './routes.ts'
import type { CreateInvoiceAnswer, PassInvoice, WorkOrder } from './wire.ts'

export { RefusalError, TransportError } from './errors.ts'
export { InsecureUrlError } from './http.ts'
export type { Answer } from './http.ts'
export type { Author } from './author-signatures.ts'
export type * from './wire.ts'

export interface ClientOptions extends HttpOptions {
  /** Signs what it puts on record. */
  author?: Author | undefined
}

// What POST /invoice gives.

export type FreeCredit = Extract<CreateInvoiceAnswer, { free: true }>
export type MadeWorkOrder = Extract<CreateInvoiceAnswer, { order: WorkOrder }>
export type MadeInvoice = Extract<CreateInvoiceAnswer, { invoice: PassInvoice }>

/** One method for each route of the service. */
export interface Client extends ReturnType<typeof createMethods> {
  readonly baseUrl: string
  /** The same client with other options, such as the token that a registration gave. */
  with(changes: Partial<ClientOptions>): Client
}

/**
 * A client of one service, for one agent if a token is given. Every method resolves with the service's
 * answer, unchanged, or with a document if the route answers with one. An answer whose fields are not of
 * the form in schemas.ts is a TransportError `bad_answer`. It rejects with
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
  const methods = createMethods(createCalls(options))
  return {
    ...methods,
    ...(options.author === undefined ? {} : signCalls(methods, options.author)),
    baseUrl: parseBaseUrl(options.baseUrl),
    with: (changes) => createClient({ ...options, ...changes }),
  }
}
