import type { Client, GetReceiptAnswer } from './client.ts'
import { isFailedCall, RefusalError } from './errors.ts'
import { checkNote, checkReceipt, checkService, readPolicy, verify } from './verify/check.ts'
import { witnessesOf } from './verify/light.ts'
import { describe } from './verify/report.ts'
import { recall } from './verify/state.ts'
import type { AskConsistency, Doubt, SealTrust, Verification } from './verify/verification.ts'

/*
 * What the service says, fetched by a client and verified here.
 */

/** The result of a verification. */
export interface Verified {
  /** Whether all of it is sealed with a key that is pinned or remembered, and everything holds. */
  ok: boolean
  verdict: Verification['verdict']
  /** Why not: words such as `waiting` (no seal yet), `key_unknown` (the first check), or what does not hold. */
  reasons: string[]
  /** The verifier's lines, safe for a terminal. */
  text: string
}

/**
 * Verifies the ledger of a service without trusting it: what is new since the last check, which is remembered
 * in `trust.stateFile`. The first check remembers the service's key, unless keys are pinned, and ends with
 * `key_unknown`. Never rejects because of the service: then `verdict` is `unchecked`.
 */
export async function verifyLedger({
  client,
  trust,
}: {
  client: Client
  trust: SealTrust
}): Promise<Verified> {
  const result = await verify(() => checkService(client.baseUrl, trust))
  return { ok: result.ok, verdict: result.verdict, reasons: reasonsOf(result), text: describe(result) }
}

const reasonsOf = ({ findings = [], not_binding: notBinding = [] }: Verification): string[] =>
  [...findings, ...notBinding].map(({ reason }) => reason)

/**
 * Fetches the receipt of a record and verifies it without trusting the service.
 *
 * @param trust where the verifier remembers the service, and keys that you know to be its own. If neither is
 *   known, the ledger is verified first, and the key that it was sealed with is remembered.
 * @throws RefusalError and TransportError as the client does
 */
export async function verifyReceipt(options: {
  client: Client
  recordId: string
  trust: SealTrust
}): Promise<Verified> {
  const { client, recordId, trust } = options
  const isPinned = trust.pubkeys !== undefined && trust.pubkeys.length > 0
  if (!isPinned && (await recall(trust.stateFile, client.baseUrl)) === undefined)
    await verifyLedger({ client, trust })
  const receipt = await fetchReceipt(client, recordId, trust)
  const result = await checkAnyReceipt(client, receipt, trust)
  const isOther = receipt.id !== recordId
  return {
    ok: result.ok && !isOther,
    verdict: isOther ? 'broken' : result.verdict,
    reasons: isOther ? [...reasonsOf(result), 'wrong_record'] : reasonsOf(result),
    text: describe(result),
  }
}

/**
 * Verifies what may be a receipt, with what the reader remembers of the client's service. Never rejects
 * because of it.
 * @internal
 */
export const checkAnyReceipt = (client: Client, receipt: unknown, trust: SealTrust): Promise<Verification> =>
  verify(() =>
    checkReceipt(receipt, 'receipt', trust, {
      service: client.baseUrl,
      consistency: askConsistency(client),
    }),
  )

/** Something that was found about a receipt: it is broken, unchecked, or binds nobody. @internal */
export type Problem = Doubt & { readonly verdict: Exclude<Verification['verdict'], 'good'> }

const MAX_PAGES = 100

/**
 * Fetches every entry of a record, page by page, and verifies each page. Entries that are not sealed or
 * signed yet are among them.
 *
 * @returns the entries in ascending order, and what was found about them; the page at which something doesn't hold, or
 *   could not be checked, is the last
 * @throws RefusalError and TransportError as the client does
 * @internal
 */
export async function readRecord(
  client: Client,
  id: string,
  trust: SealTrust,
): Promise<{ entries: GetReceiptAnswer['entries']; problems: Problem[] }> {
  const entries = new Map<number, GetReceiptAnswer['entries'][number]>()
  const problems: Problem[] = []
  const broken = (message: string) => problems.push({ verdict: 'broken', reason: 'wrong_record', message })
  for (let page = 0, after = 0; ; page++) {
    const receipt = await fetchReceipt(client, id, trust, after)
    if (receipt.id !== id) broken(`the service gives the receipt of ${receipt.id}`)
    else if (page === MAX_PAGES) broken('its receipt has no end')
    const {
      verdict,
      findings = [],
      not_binding: doubts = [],
      message = 'it could not be checked',
    } = await checkAnyReceipt(client, receipt, trust)
    if (verdict === 'unchecked') problems.push({ verdict, reason: verdict, message })
    problems.push(...findings.map((found) => ({ verdict: 'broken' as const, ...found })))
    problems.push(...doubts.map((doubt) => ({ verdict: 'not_binding' as const, ...doubt })))
    for (const item of receipt.entries) entries.set(item.entry.id, item)
    const last = receipt.entries.at(-1)?.entry.id ?? 0
    const isEnd = receipt.truncated !== true || last <= after
    if (isEnd || problems.some((problem) => problem.verdict !== 'not_binding'))
      return { entries: [...entries.values()].sort((a, b) => a.entry.id - b.entry.id), problems }
    after = last
  }
}

/**
 * Fetches the receipt of a record, with the cosignatures of the reader's own witnesses.
 *
 * @param after entries after this one, of a record with very many
 * @throws RefusalError and TransportError as the client does
 * @internal
 */
export async function fetchReceipt(client: Client, recordId: string, trust: SealTrust, after?: number) {
  const receipt = await client.receipt(recordId, { after })
  const proofs = receipt.entries.flatMap((item) => (item.sealed && item.tlog_proof) || [])
  const cosigned = await addOwnCosignatures(client, trust, proofs)
  const byProof = new Map(proofs.map((proof, place) => [proof, cosigned[place] ?? proof]))
  const entries = receipt.entries.map((item) => {
    const proof = item.sealed ? byProof.get(item.tlog_proof ?? '') : undefined
    return proof === undefined ? item : { ...item, tlog_proof: proof }
  })
  return { ...receipt, entries }
}

/**
 * Puts the cosignatures of the reader's own witnesses into proofs that hang on the newest checkpoint: below
 * the one that comes with a proof others may have crowded them out. Proofs under another checkpoint stay as
 * they are, and so do all if there is no policy, or the service knows no such question.
 *
 * @param proofs texts of C2SP tlog-proof, of which nothing is checked here
 * @internal
 */
export async function addOwnCosignatures(
  client: Client,
  { policyFile }: SealTrust,
  proofs: readonly string[],
): Promise<string[]> {
  // Whoever verifies says what is wrong with the policy's file.
  const policy = policyFile === undefined ? undefined : await readPolicy(policyFile).catch(() => undefined)
  const witness = witnessesOf(policy)
  if (witness.length === 0 || proofs.length === 0) return [...proofs]
  let note: string
  try {
    note = await client.checkpoint({ witness })
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error
    return [...proofs]
  }
  const signedPart = (text: string): string => text.slice(0, text.lastIndexOf('\n\n'))
  return proofs.map((proof) => {
    const start = proof.indexOf('\n\n') + 2
    return signedPart(proof.slice(start)) === signedPart(note) ? proof.slice(0, start) + note : proof
  })
}

/** The log that was shown elsewhere can't be the one that this reader has seen: the service has signed both. */
export interface LogFork {
  message: string
  /** A file that convinces anybody, offline, if one could be made. */
  evidence?: string
}

/**
 * Compares a checkpoint that was shown elsewhere with the log that this reader has seen, whoever cosigned it:
 * two histories are two histories.
 *
 * @param ask how to get the proof between two logs
 * @returns the fork if they contradict each other; undefined if they agree, or can't be compared
 * @internal
 */
export async function findLogFork(
  client: Client,
  note: string,
  { stateFile, pubkeys }: SealTrust,
  ask: AskConsistency = askConsistency(client),
): Promise<LogFork | undefined> {
  const options = { service: client.baseUrl, consistency: ask }
  const result = await verify(() => checkNote(note, 'note', { stateFile, pubkeys }, options))
  const finding = result.findings?.find(({ reason }) => reason === 'log_rewritten')
  if (finding === undefined) return undefined
  return { message: finding.message, ...(result.evidence === undefined ? {} : { evidence: result.evidence }) }
}

/** The service's keys that are accepted: the pinned ones if there are any, else the remembered ones. @internal */
export const knownKeys = (
  { pubkeys = [] }: SealTrust,
  remembered: { pubkeys?: readonly string[] } | undefined,
): readonly string[] => (pubkeys.length > 0 ? pubkeys : (remembered?.pubkeys ?? []))

/**
 * Makes the function that asks for the consistency proof between two sizes of the log. It gives undefined if
 * the service refuses or doesn't answer, which leaves open whether they agree.
 */
const askConsistency =
  (client: Client): AskConsistency =>
  async (from, to) => {
    try {
      return await client.consistency({ from, to })
    } catch (error) {
      if (isFailedCall(error)) return undefined
      throw error
    }
  }
