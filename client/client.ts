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
  const methods = createMethods({
    ...createCalls(options),
    documents: createCalls({ ...options, fetch: createDocumentFetch(wrapJson, options.fetch) }).open,
    texts: createCalls({ ...options, fetch: createDocumentFetch(wrapText, options.fetch) }).open,
  })
  return {
    ...methods,
    ...(options.author === undefined ? {} : signCalls(methods, options.author)),
    baseUrl: parseBaseUrl(options.baseUrl),
    with: (changes) => createClient({ ...options, ...changes }),
  }
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
