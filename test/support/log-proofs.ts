import type { GetKeysAnswer } from '../../client/client.ts'
import { hash } from 'node:crypto'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { createKeyTree } from '../../shared/crypto/key-tree.ts'
import { formatCheckpoint, formatLogProof, formatNote, signNote } from '../../shared/crypto/note.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { applyKey, receiptOver, SEAL_KEY, type LedgerChain } from './ledger-chain.ts'

/*
 * Proofs in the log by the recursive definitions of RFC 6962 section 2.1, independent of the code under test.
 */

export const ORIGIN = 'test.example/ledger'

const sha256 = (bytes: Buffer): Buffer => hash('sha256', bytes, 'buffer')
const leafOf = (entry: LedgerEntry): Buffer => sha256(Buffer.from('\0' + canonicalJson(entry)))

function split(count: number): number {
  let power = 1
  while (2 * power < count) power *= 2
  return power
}

function root(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return sha256(Buffer.alloc(0))
  if (leaves.length === 1) return leaves[0] as Buffer
  const k = split(leaves.length)
  return sha256(Buffer.concat([Buffer.of(1), root(leaves.slice(0, k)), root(leaves.slice(k))]))
}

function inclusion(index: number, leaves: readonly Buffer[]): Buffer[] {
  if (leaves.length === 1) return []
  const k = split(leaves.length)
  return index < k
    ? [...inclusion(index, leaves.slice(0, k)), root(leaves.slice(k))]
    : [...inclusion(index - k, leaves.slice(k)), root(leaves.slice(0, k))]
}

function subproof(size: number, leaves: readonly Buffer[], isWhole: boolean): Buffer[] {
  if (size === leaves.length) return isWhole ? [] : [root(leaves)]
  const k = split(leaves.length)
  return size <= k
    ? [...subproof(size, leaves.slice(0, k), isWhole), root(leaves.slice(k))]
    : [...subproof(size - k, leaves.slice(k), false), root(leaves.slice(0, k))]
}

const logOf = ({ entries }: LedgerChain, size: number): Buffer[] => entries.slice(0, size).map(leafOf)

/** The proof between the logs of two sizes, as GET /ledger/consistency has it. */
export const consistencyOf = (chain: LedgerChain, from: number, to: number) => ({
  from_root: root(logOf(chain, from)).toString('hex'),
  to_root: root(logOf(chain, to)).toString('hex'),
  hashes: from === 0 ? [] : subproof(from, logOf(chain, to), true).map((step) => step.toString('hex')),
})

/** The signed checkpoint of the log up to the newest seal, or of another size. */
export function noteOf(
  chain: LedgerChain,
  { size = chain.seals.at(-1)?.to_id ?? 0, key = SEAL_KEY, origin = ORIGIN } = {},
): string {
  const text = formatCheckpoint({ origin, size, root: root(logOf(chain, size)) })
  return formatNote(text, [signNote(text, origin, key)])
}

/** A receipt whose sealed entries have their places in the log with them. */
export function receiptInLog(
  chain: LedgerChain,
  id: string,
  ids: readonly number[],
  checkpoint = noteOf(chain),
) {
  const size = Number(checkpoint.split('\n')[1])
  const receipt = receiptOver(chain, id, ids)
  const leaves = logOf(chain, size)
  const entries = receipt.entries.map((item) => ({
    ...item,
    tlog_proof: formatLogProof({
      index: item.entry.id - 1,
      path: inclusion(item.entry.id - 1, leaves),
      checkpoint,
    }),
  }))
  return { ...receipt, entries }
}

/** What GET /keys/<agent_id> answers by the newest closing entry. */
export function keyAnswerOf(of: LedgerChain, agentId: string, checkpoint = noteOf(of)): GetKeysAnswer {
  const { from_id: from, to_id: to } = of.seals.at(-1) as { from_id: number; to_id: number }
  const tree = of.entries.slice(0, from - 1).reduce(applyKey, createKeyTree())
  const { found, path } = tree.prove(agentId)
  const [item] = receiptInLog(of, `seal_${of.seals.length}`, [to], checkpoint).entries
  return {
    agent_id: agentId,
    keys: tree.get(agentId) ?? null,
    form: 1,
    up_to: from - 1,
    proof: { found, path: [...path] },
    entry: of.entries[to - 1] as LedgerEntry,
    tlog_proof: item?.tlog_proof ?? '',
  }
}
