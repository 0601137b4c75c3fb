import { describe, expect, it } from 'vitest'
import { connectEntry, readCheckpoint, readLogProof, verifyPlace } from '../../client/verify/light.ts'
import { Refused } from '../../client/verify/findings.ts'
import { GrowingTree } from '../../client/verify/trees.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import { buildChain, makeEntry, type LedgerChain } from '../support/ledger-chain.ts'
import { noteOf, receiptInLog } from '../support/log-proofs.ts'

const SIZE = 21
const chainOf = (changedAt = 0): LedgerChain =>
  buildChain([SIZE], 0, {
    entry: (id) => (id === changedAt ? { ...makeEntry(id), kind: 'claim' } : undefined),
  })
const WHOLE = chainOf()

/** What a reader remembers who has seen so much of the log. */
function seenOf(size: number) {
  const tree = new GrowingTree()
  for (const entry of WHOLE.entries.slice(0, size)) tree.add(leafHash(entry))
  return tree.state()
}

/** An entry of a log of this size, with its place in it. */
function placed(chain: LedgerChain, id: number, size: number) {
  const note = noteOf(chain, { size })
  const [item] = receiptInLog(chain, 'any', [id], note).entries
  const proof = readLogProof(item?.tlog_proof)
  return { leaf: leafHash(chain.entries[id - 1] as object), proof, log: readCheckpoint(note) }
}

describe('an entry in a log', () => {
  it('is compared with the log that was seen by its own path, at any sizes, if that log is no larger', () => {
    const remembered = Array.from({ length: SIZE + 1 }, (_, seen) => seenOf(seen))
    for (let size = 1; size <= SIZE; size++)
      for (let id = 1; id <= size; id++) {
        const { leaf, proof, log } = placed(WHOLE, id, size)
        expect(() => verifyPlace(id, leaf, proof, log)).not.toThrow()
        for (const [seen, state] of remembered.entries())
          expect(connectEntry(id, leaf, proof, log, state), `${id} of ${size}, seen ${seen}`).toBe(
            id <= seen && seen <= size ? 'same' : 'not_checked',
          )
      }
  })

  it('is refused if the log that was seen has another in its place, or beside it in the same subtree', () => {
    for (const [changed, id, seen, end] of [
      [5, 5, 16, 'refused'],
      [5, 6, 16, 'refused'],
      [5, 5, 5, 'refused'],
      // Entry 5 is a subtree of its own in a log of 5.
      [5, 4, 5, 'held'],
      [17, 4, 17, 'held'],
      [20, 19, 20, 'refused'],
    ] as const) {
      const { leaf, proof, log } = placed(chainOf(changed), id, SIZE)
      const compare = () => connectEntry(id, leaf, proof, log, seenOf(seen))
      if (end === 'held') expect(compare(), `${changed} ${id} ${seen}`).toBe('same')
      else expect(compare, `${changed} ${id} ${seen}`).toThrow(Refused)
    }
  })
})
