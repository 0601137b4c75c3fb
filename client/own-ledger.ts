import type { Client } from './client.ts'
import { RefusalError } from './errors.ts'
import { withFileLock, readPrivateFile, writePrivateFile } from './private-file.ts'
import { addOwnCosignatures, knownKeys, readRecord } from './verify-receipt.ts'
import { readPolicy } from './verify/check.ts'
import { Refused } from './verify/findings.ts'
import { connectLogs, readConsistency, verifyKeyAnswer, type KeyAnswer } from './verify/light.ts'
import { recall } from './verify/state.ts'
import { isObject } from './verify/values.ts'
import type { SealTrust } from './verify/verification.ts'

/*
 * What an agent asks the ledger about agents, itself among them. The service hands out cards and tokens, and
 * whoever runs it can change both; what it can't do unseen is take back a sealed entry.
 */

/** What the ledger says of a key. With neither field the agent's receipt proves it, but the tree of keys not yet. */
export interface KeyJudgement {
  /** The tree of keys has it, as this version of the agent's keys. */
  version?: number
  /** It is not proven; a sentence says why. */
  doubt?: string
}

const MAX_PAGES = 100

/**
 * Whether the ledger bears out the key on an agent's card: the tree of keys must have it, up to a signed
 * checkpoint that agrees with what was seen. One that was set after the entries in that tree must be that of
 * the newest `dm_key_change`, under a signed seal of a known key; so it is for a service that states no keys.
 * A receipt proves presence, not completeness.
 *
 * @param shown 64 hex characters
 * @returns the key's version if the tree has it, or in `doubt` a sentence that says what is missing
 * @throws RefusalError and TransportError as the client does
 * @internal
 */
export async function judgeKey(
  client: Client,
  agentId: string,
  shown: string,
  trust: SealTrust,
): Promise<KeyJudgement> {
  try {
    const proven = await proveKeys(client, agentId, trust)
    if (proven?.keys?.dm_key === shown) return { version: proven.keys.version }
    // A key that is younger than the tree of keys, or a service without such a tree: then its receipt must bear
    // it out.
    const doubt = await findReceiptDoubt(client, agentId, shown, trust, proven?.up_to ?? 0)
    return doubt === undefined ? {} : { doubt }
  } catch (error) {
    if (error instanceof Refused) return { doubt: error.message }
    throw error
  }
}

/**
 * Fetches an agent's keys, and verifies the proof by the service's keys that are pinned or remembered, and by
 * the log that was seen.
 *
 * @returns undefined if the service proves no keys, and isn't expected to
 * @throws Refused if it must be proven and is not: nothing weaker may take the place of the proof
 * @throws Unchecked if the policy or the state file can't be read; RefusalError and TransportError as the
 *   client does
 */
async function proveKeys(client: Client, agentId: string, trust: SealTrust): Promise<KeyAnswer | undefined> {
  const known = await recall(trust.stateFile, client.baseUrl)
  const pubkeys = knownKeys(trust, known)
  if (pubkeys.length === 0) return undefined
  const policy = trust.policyFile === undefined ? undefined : await readPolicy(trust.policyFile)
  let answer: KeyAnswer
  try {
    answer = await client.keys(agentId)
  } catch (error) {
    const isAbsent =
      error instanceof RefusalError && ['no_such_seal', 'no_such_route', 'not_found'].includes(error.error)
    if (!isAbsent) throw error
    if (known?.logged !== true) return undefined
    throw new Refused('wrong_keys', `the service proves no keys (${error.message})`)
  }
  const [tlog_proof = ''] = await addOwnCosignatures(client, trust, [answer.tlog_proof])
  const now = Math.floor(Date.now() / 1000)
  const seen = known && { ...known.log, keyForm: known.keyForm }
  const reader = { pubkeys, policy, seen, maxAge: trust.maxAgeSeconds, now }
  const log = verifyKeyAnswer(agentId, { ...answer, tlog_proof }, reader)
  if (known === undefined) return answer
  const { size } = known.log
  const isProvable = size > 0 && size !== log.size
  const proof = isProvable ? await client.consistency({ from: size, to: log.size }) : undefined
  connectLogs(known.log, log, proof && readConsistency(proof))
  return answer
}

/**
 * Says why an agent's receipt does not prove a key: its newest change of key must be to this key, and sealed.
 *
 * @param after entries up to this one are in the tree of keys, which has another key
 * @returns undefined if it proves the key
 */
async function findReceiptDoubt(
  client: Client,
  agentId: string,
  shown: string,
  trust: SealTrust,
  after: number,
): Promise<string | undefined> {
  const { entries, problems } = await readRecord(client, agentId, trust)
  const wrong = problems.find(({ reason }) => reason !== 'waiting' && reason !== 'unsigned')
  if (wrong !== undefined)
    return wrong.verdict === 'unchecked' ? wrong.message : `${wrong.reason}: ${wrong.message}`
  const newest = entries.findLast(({ entry }) => entry.kind === 'dm_key_change')
  if (newest === undefined) return 'the ledger has no change of key of this agent'
  if (newest.entry.data['dm_key'] === shown && newest.entry.id <= after)
    return `entry ${newest.entry.id}, by which the key was set, is not what the tree of keys has`
  if (newest.entry.data['dm_key'] !== shown) return 'the newest change of key in the ledger is to another key'
  if (!newest.sealed || !newest.seal.signed)
    return `entry ${newest.entry.id}, by which the key was set, is not under a signed seal yet`
  return undefined
}

/** A change in the ledger that the agent itself did not make. */
export interface ForeignChange {
  entry_id: number
  /** Unix seconds. */
  at: number
  kind: 'dm_key_change' | 'author_key_change' | 'token_rotation'
  /** Of a change of a key: the one that was set; null if it was taken away. */
  key?: string | null
}

/** What an agent remembers of its own entries. */
interface Watch {
  /** The last entry that it has read. */
  after: number
  /** How many rotations of its token it has asked for. */
  asked: number
  /** How many rotations it has seen. */
  seen: number
}

/**
 * Reads the entries about an agent that are new since the last look, and gives those that it did not make: a
 * change to another key than its own, or more rotations of its token than it asked for. Writes how far it has
 * read, so that each is given once.
 *
 * @param ownKeys the agent's own public keys, hex
 * @param watchFile one for each service and agent; made at the first look, when rotations so far are taken
 *   for its own
 * @throws RefusalError and TransportError as the client does
 */
export async function findForeignChanges(options: {
  client: Client
  agentId: string
  ownKeys: readonly string[]
  watchFile: string
}): Promise<ForeignChange[]> {
  const { client, agentId, ownKeys, watchFile } = options
  const known = readWatch(watchFile)
  const watch = { ...(known ?? { after: 0, asked: 0, seen: 0 }) }
  const changes: ForeignChange[] = []
  for (let page = 0; page < MAX_PAGES; page++) {
    const { entries, truncated } = await client.receipt(agentId, { after: watch.after })
    const fresh = entries.map(({ entry }) => entry).filter(({ id }) => id > watch.after)
    for (const { id, at, kind, data } of fresh) {
      if (kind === 'dm_key_change' || kind === 'author_key_change') {
        const key = data[kind === 'dm_key_change' ? 'dm_key' : 'author_key']
        if (!(typeof key === 'string' && ownKeys.includes(key)))
          changes.push({ entry_id: id, at, kind, key: typeof key === 'string' ? key : null })
      }
      if (kind === 'token_rotation' && ++watch.seen > watch.asked && known !== undefined)
        changes.push({ entry_id: id, at, kind })
    }
    watch.after = fresh.at(-1)?.id ?? watch.after
    if (truncated !== true || fresh.length === 0) break
  }
  // Each is told once, and a rotation of somebody else's is not one of its own later.
  if (known?.after !== watch.after)
    withFileLock(watchFile, () => {
      const current = readWatch(watchFile)
      if (current?.after === known?.after)
        writePrivateFile(watchFile, { ...watch, asked: Math.max(current?.asked ?? 0, watch.seen) })
    })
  return changes
}

/** Counts a rotation before it is asked for, so that its entry is known as the agent's own. @internal */
export function expectRotation(watchFile: string): void {
  withFileLock(watchFile, () => {
    const watch = readWatch(watchFile)
    if (watch !== undefined) writePrivateFile(watchFile, { ...watch, asked: watch.asked + 1 })
  })
}

/** Reads the file; undefined if it is missing or invalid. Then the next look counts as the first. */
function readWatch(watchFile: string): Watch | undefined {
  return readPrivateFile(watchFile, (value) => {
    const { after, asked, seen } = isObject(value) ? value : {}
    const isCount = (value: unknown): value is number => Number.isSafeInteger(value)
    return isCount(after) && isCount(asked) && isCount(seen) ? { after, asked, seen } : undefined
  })
}
