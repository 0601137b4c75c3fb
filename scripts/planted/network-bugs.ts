import type { PlantedBug } from './bugs.ts'

const LEDGER = 'shared/ledger/'
const EVENTS = 'shared/events/'
const SERVERS = 'shared/servers/'
const HTTP = 'api/http/'

/** Bugs of the ledger, of events, of HTTP, of what serves queues, and of the client. */
export const NETWORK_BUGS: readonly PlantedBug[] = [
  // Ledger
  {
    name: 'entry-numbered-twice',
    mistake: 'an entry is numbered again by a sequencer that follows one that died',
    file: `${LEDGER}entry-store.ts`,
    text: 'entrySchema.index({ source: 1 }, { unique: true })',
    instead: 'entrySchema.index({ source: 1 })',
    tests: ['workers/sequencer'],
  },
  {
    name: 'pending-cleared-first',
    mistake:
      'an entry is taken off its record before it is in the ledger, and lost if the process dies between',
    file: `${LEDGER}sequencer.ts`,
    text: '      highest = await insertEntries(ctx, batch.entries, highest, watch)\n      await clearing\n      clearing = inBackground(clearPending(batch, watch))\n',
    instead:
      '      await clearing\n      await clearPending(batch, watch)\n      highest = await insertEntries(ctx, batch.entries, highest, watch)\n',
    tests: ['workers/sequencer'],
  },
  {
    name: 'seal-before-its-tiles',
    mistake: 'a seal can be seen before the tiles that prove its entries are stored',
    file: `${LEDGER}sealer.ts`,
    text: '  await Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())])\n',
    instead: '  void Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())])\n',
    tests: ['workers/sealer'],
  },
  {
    name: 'seal-by-a-fast-clock',
    mistake: 'one clock that is ahead dates every later seal',
    file: `${LEDGER}sealer.ts`,
    text: '  return Math.min(nowMs, databaseMs)',
    instead: '  return nowMs',
    tests: ['workers/signer'],
  },
  {
    name: 'remembered-after-signing',
    mistake: 'a signature exists before the memory of it, so a restored database can be signed a second time',
    file: `${LEDGER}signing.ts`,
    text: `  await memory.write({ ...remembered, seq, payload_hash: head.payloadHash, pubkey, origin, log, keys }, watch)

  // By this machine's clock, unless it is too far ahead of the database's.
  const nowMs = Math.min(ctx.now(), ctx.database.now() + MAX_SIGNED_AHEAD_MS)
  const signedAt = Math.max(unixSeconds(nowMs), seal.at)
  const signature = await performStep(watch, 'sign', () => ({
    ...signSeal(fields, key, signedAt),
    ...signCheckpoint(origin, log, key, pubkey),
  }))
`,
    instead: `  // By this machine's clock, unless it is too far ahead of the database's.
  const nowMs = Math.min(ctx.now(), ctx.database.now() + MAX_SIGNED_AHEAD_MS)
  const signedAt = Math.max(unixSeconds(nowMs), seal.at)
  const signature = await performStep(watch, 'sign', () => ({
    ...signSeal(fields, key, signedAt),
    ...signCheckpoint(origin, log, key, pubkey),
  }))
  await memory.write({ ...remembered, seq, payload_hash: head.payloadHash, pubkey, origin, log, keys }, watch)
`,
    tests: ['workers/sealer'],
  },
  {
    name: 'second-seal-signed',
    mistake: 'another seal is signed for a seq that the memory knows: a fork of the ledger',
    file: `${LEDGER}seal-memory.ts`,
    text: '    return next.payloadHash === remembered.payload_hash\n',
    instead: "    return next.payloadHash !== ''\n",
    tests: ['unit/seal-memory'],
  },
  {
    name: 'proof-beyond-the-checkpoint',
    mistake: 'a tile is given with hashes that no checkpoint covers',
    file: `${LEDGER}log-service.ts`,
    text: '  if (fullWidth < width)',
    instead: '  if (fullWidth < Math.min(width, 1))',
    tests: ['api/log'],
  },
  {
    name: 'last-entry-unproven',
    mistake: 'the last entry of a checkpoint has no proof in the log',
    file: `${LEDGER}log-service.ts`,
    text: '    if (entry._id > size) return undefined\n',
    instead: '    if (entry._id >= size) return undefined\n',
    tests: ['api/log'],
  },
  {
    name: 'cosignature-unverified',
    mistake: 'what a witness answers is stored as its cosignature, whatever it is',
    file: `${LEDGER}witnesses.ts`,
    text: '    const at = verifyCosignature(text, parseSignatureLine(line), key)\n',
    instead: '    const at = verifyCosignature(text, parseSignatureLine(line), key) ?? 0\n',
    tests: ['workers/witnesses'],
  },
  {
    name: 'witness-conflict-ignored',
    mistake: 'a host that was restored as a whole signs a second history that a witness would have prevented',
    file: `${LEDGER}witnesses.ts`,
    text: '  if (conflict !== undefined)\n    throw new SealError(',
    instead: '  if (conflict === null)\n    throw new SealError(',
    tests: ['workers/witnesses'],
  },
  {
    name: 'unsealed-page-for-ever',
    mistake: 'a page of the ledger whose entries no seal covers is kept by caches for ever',
    file: `${LEDGER}sealed-pages.ts`,
    text: 'isFinal: count === limit && lastId <= sealedUpTo.id',
    instead: 'isFinal: count === limit',
    tests: ['api/seals'],
  },
  {
    name: 'chain-state-stale',
    mistake: 'whoever asks with an etag never learns that the chain was found broken',
    file: `${LEDGER}seal-service.ts`,
    text: '-${unsignedSeqs[0] ?? 0}-${status.revision}`',
    instead: '-${unsignedSeqs[0] ?? 0}`',
    tests: ['api/seals'],
  },
  {
    name: 'receipt-sealed-in-part',
    mistake: 'a receipt says that it is sealed although one of its entries is not',
    file: 'shared/account/receipt-service.ts',
    text: 'sealed: items.every(({ sealed }) => sealed)',
    instead: 'sealed: items.some(({ sealed }) => sealed)',
    tests: ['api/seals'],
  },
  {
    name: 'receipt-cut-off-unsaid',
    mistake: 'a receipt that is cut off after its first page does not say so',
    file: 'shared/account/receipt-service.ts',
    text: 'const hasMore = rest.length >= MAX_RECEIPT_ENTRIES',
    instead: 'const hasMore = rest.length > MAX_RECEIPT_ENTRIES',
    tests: ['api/seals'],
  },
  // Events
  {
    name: 'events-lost-at-a-page-end',
    mistake: 'who reads on after a full page of events misses the others',
    file: `${EVENTS}event-service.ts`,
    text: 'const next = last === undefined ? Math.max(upTo, after) : seqOf(last)',
    instead:
      'const next = last === undefined || events.length === limit ? Math.max(upTo, after) : seqOf(last)',
    tests: ['api/events'],
  },
  {
    name: 'events-out-of-order',
    mistake: 'two steps of one record are told in the wrong order if the second clock is behind',
    file: `${EVENTS}event-store.ts`,
    text: 'latestMs = Math.max(latestMs, mark.at_ms)',
    instead: 'latestMs = mark.at_ms',
    tests: ['api/events'],
  },
  {
    name: 'marks-of-the-wrong-age',
    mistake: 'the round over marks that nobody asks for leaves the old ones where they are',
    file: `${EVENTS}event-store.ts`,
    text: 'atMs < beforeMs',
    instead: 'atMs > beforeMs',
    tests: ['api/events'],
  },
  {
    name: 'pass-end-told-again',
    mistake: 'an agent is told with each of its calls that its pass ends',
    file: `${EVENTS}event-store.ts`,
    text: '...(isPassEndingNew ? { pass_told_ms: passEnding.passToldMs } : {})',
    instead: '...(isPassEndingNew ? {} : {})',
    tests: ['api/events'],
  },
  // HTTP
  {
    name: 'ban-felt-late',
    mistake: 'a banned agent is served for a minute by the processes that remember its token',
    file: `${HTTP}authenticate.ts`,
    text: 'untilMs: nowMs + TOKEN_CACHE_MS',
    instead: 'untilMs: nowMs + 60 * TOKEN_CACHE_MS',
    tests: ['api/tokens'],
  },
  {
    name: 'body-by-an-old-token',
    mistake: 'a write whose body was on its way when its agent was banned is made all the same',
    file: `${HTTP}serve.ts`,
    text: 'bodyCameAtOnce ? caller : await this.#authenticate()',
    instead: 'bodyCameAtOnce || caller !== undefined ? caller : await this.#authenticate()',
    tests: ['api/tokens'],
  },
  {
    name: 'answer-after-a-ban',
    mistake: 'a wait that began before a ban is answered with messages after it',
    file: `${HTTP}serve.ts`,
    text: 'caller: await this.#timed(() => this.#authenticate()),',
    instead: 'caller,',
    tests: ['api/tokens'],
  },
  {
    name: 'headers-without-a-deadline',
    mistake: 'clients that send their headers a byte at a time hold connections three times as long',
    file: `${HTTP}server.ts`,
    text: '  http.headersTimeout = 10 * SECOND_MS\n',
    instead: '  http.headersTimeout = 30 * SECOND_MS\n',
    tests: ['api/hostile-connections'],
  },
  {
    name: 'two-tokens-in-one-request',
    mistake: 'a request with two tokens is served by the first, while a proxy may have looked at the second',
    file: `${HTTP}ambiguous.ts`,
    text: "const SINGLE_HEADERS = ['authorization', 'host']",
    instead: "const SINGLE_HEADERS = ['host']",
    tests: ['api/hostile-connections'],
  },
  {
    name: 'chunked-body-without-limit',
    mistake: 'a body without a length is read into memory however long it is',
    file: `${HTTP}body.ts`,
    text: 'const fits = length <= MAX_BODY_BYTES',
    instead: 'const fits = length <= Number.MAX_SAFE_INTEGER',
    tests: ['api/hostile-connections'],
  },
  {
    name: 'defect-told-in-full',
    mistake: 'the message of a defect, with names of servers and collections in it, is told to whoever asks',
    file: `${HTTP}answer.ts`,
    text: "  return new Refusal('internal', 'The service failed at this request; it has been logged.')",
    instead: "  return new Refusal('internal', `The service failed at this request: ${String(error)}`)",
    tests: ['unit/refusals'],
  },
  {
    name: 'room-for-one-more',
    mistake: 'one request more than there is room for is under way',
    file: `${HTTP}admission.ts`,
    text: 'if (underWay[kind] >= maxUnderWay[kind] ||',
    instead: 'if (underWay[kind] > maxUnderWay[kind] ||',
    tests: ['unit/admission'],
  },
  // Servers and workers
  {
    name: 'bound-passed-by-one',
    mistake: 'a count goes past its bound by one addition',
    file: `${SERVERS}bounded-counts.ts`,
    text: '{ $not: { $gt: (atMost[name] ?? 0) - by } }',
    instead: '{ $not: { $gt: (atMost[name] ?? 0) - Math.min(by, 0) } }',
    tests: ['api/shares'],
  },
  {
    name: 'work-after-the-lease',
    mistake: 'a process that slept through its lease of a wallet goes on storing what it does with it',
    file: 'workers/keyed-queues.ts',
    text: '        await ctx.leases.expectFence(candidate, fence, session)\n',
    instead: '        void fence\n',
    tests: ['workers/key-leases'],
  },
  {
    name: 'lease-renewed-too-late',
    mistake: 'the lease of a key ends before its holder renews it, so two processes use the key by turns',
    file: 'workers/keyed-queues.ts',
    text: 'const RENEW_EVERY_MS = 2 * SECOND_MS',
    instead: 'const RENEW_EVERY_MS = 20 * SECOND_MS',
    tests: ['workers/key-leases'],
  },
  {
    name: 'write-to-a-closed-socket',
    mistake: 'a job or request hangs for ever if MongoDB closes its connection at a bad moment',
    file: 'shared/servers/closed-sockets.ts',
    text: "else socket.once('close', closed.resolve)",
    instead: "else socket.once('drain', closed.resolve)",
    tests: ['workers/closed-sockets'],
  },
  {
    name: 'failed-job-acknowledged',
    mistake: 'a job whose handler threw counts as done and is not tried again',
    file: 'workers/queue-worker.ts',
    text: '      throw error\n    } finally {',
    instead: '    } finally {',
    tests: ['workers/queue-worker'],
  },
  {
    name: 'hopeless-job-retried',
    mistake: 'a job that no other try can help is tried again and again',
    file: 'workers/queue-worker.ts',
    text: 'if (error instanceof Refusal && !isWorthRetrying(error.code))',
    instead: 'if (error instanceof Refusal && isWorthRetrying(error.code))',
    tests: ['workers/queue-worker'],
  },
  {
    name: 'sweep-trusts-a-fast-clock',
    mistake: 'a batch that a clock far ahead has stored waits until that time',
    file: 'workers/jobs/sweep.ts',
    text: '    ctx.databaseNow() + sweepMs,\n',
    instead: '    Number.MAX_SAFE_INTEGER,\n',
    tests: ['workers/sweep'],
  },
  // Client
  {
    name: 'keys-by-any-signature',
    mistake: "a client takes another agent's keys by a checkpoint that no known key has signed",
    file: 'client/key-proof.ts',
    text: "    if (!isSignedByAny(pubkeys, note, head.origin)) throw refuse('no known key has signed its checkpoint')\n",
    instead: "    if (pubkeys.length === 0) throw refuse('no known key has signed its checkpoint')\n",
    tests: ['unit/key-proof'],
  },
  {
    name: 'receipt-of-another-record',
    mistake: 'a client takes the receipt of another record for the one that it asked for',
    file: 'client/verify-receipt.ts',
    text: 'const isOther = receipt.id !== recordId',
    instead: 'const isOther = receipt.ok && receipt.id === undefined && recordId !== undefined',
    tests: ['unit/verify-receipt'],
  },
  {
    name: 'rewritten-log-cosigned',
    mistake: "an agent cosigns a log that doesn't go on from the one that it cosigned before",
    file: 'client/witness.ts',
    text: '    if (!verifyLogConsistency(before, head, path))\n',
    instead: '    if (!verifyLogConsistency(before, head, path) && path.length === 0)\n',
    tests: ['flows/first-contact'],
  },
  {
    name: 'answer-without-a-time-limit',
    mistake: 'a client waits without end for the rest of an answer that stands still',
    file: 'client/http.ts',
    text: "signal.addEventListener('abort', stop, { once: true })",
    instead: "signal.removeEventListener('abort', stop)",
    tests: ['unit/client'],
  },
  {
    name: 'token-sent-elsewhere',
    mistake: "a client follows a redirection, and takes the agent's token with it",
    file: 'client/http.ts',
    text: "redirect: 'manual',",
    instead: "redirect: 'follow',",
    tests: ['unit/client'],
  },
  {
    name: 'secrets-open-to-others',
    mistake: "other users of the machine can read an agent's token and keys",
    file: 'client/private-file.ts',
    text: 'const OWNER_ONLY_FILE = 0o600',
    instead: 'const OWNER_ONLY_FILE = 0o644',
    tests: ['unit/agent-files'],
  },
]
