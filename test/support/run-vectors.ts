import { walkChain } from '../../client/verify/chain.ts'
import { checkLeaf, readEntry } from '../../client/verify/entries.ts'
import { listSource } from '../../client/verify/files.ts'
import { Findings, Refused } from '../../client/verify/findings.ts'
import { checkInclusion, ReceiptCheck } from '../../client/verify/receipt.ts'
import { sha256Hex } from '../../client/verify/seals.ts'
import type { Remembered } from '../../client/verify/state.ts'
import { GrowingTree, sealNodeHash } from '../../client/verify/trees.ts'
import { isObject, parseJson, type Fields } from '../../client/verify/values.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import type { Finding } from '../../client/verify/verification.ts'

/* Test vectors, as any implementation can run them: by their `kind`. Their `reason` isn't looked at. */

export interface VectorResult {
  findings: Finding[]
  /** Words for why it binds nobody, if nothing was found. */
  notBinding: string[]
}

/** Runs one vector by the verifier in TypeScript. Without `now` no seal is of the future. */
export async function runVector(vector: Fields): Promise<VectorResult> {
  const { kind, now = Infinity } = vector as { kind: string; now?: number }
  const pinned = (vector['pubkeys'] ?? []) as string[]
  const remembered = (vector['remembered'] ?? undefined) as Remembered | undefined
  if (kind === 'seal') {
    const { seals, entries } = vector as { seals: unknown[]; entries: unknown[] }
    const options = { pinned, remembered, clock: () => now, isFull: true }
    const walk = await walkChain(listSource(seals, entries), options)
    return resultOf(walk.findings, walk.doubts(undefined))
  }
  if (kind === 'receipt') {
    const reader = { pinned, remembered, now, consistency: undefined }
    const check = new ReceiptCheck(vector['receipt'], reader)
    return resultOf(check.findings, check.doubts())
  }
  const check = CHECKS[kind]
  if (check === undefined) throw new Error(`there is no kind of vector called ${kind}`)
  const findings = new Findings()
  findings.run(kind, () => check(vector))
  return resultOf(findings, [])
}

const resultOf = (findings: Findings, doubts: readonly { reason: string }[]): VectorResult => ({
  findings: findings.list,
  notBinding: findings.total > 0 ? [] : doubts.map(({ reason }) => reason),
})

const CHECKS: { [kind: string]: (vector: Fields) => void } = {
  'canonical-json': ({ cases }) => (cases as CanonicalCase[]).forEach(checkCanonical),
  leaf: ({ entry, leaf }) => checkLeaf(readEntry(entry), leaf),
  tree: ({ leaves, roots }) => {
    const tree = new GrowingTree(sealNodeHash)
    for (const leaf of leaves as string[]) {
      tree.add(leaf)
      const due = (roots as Fields)[String(tree.count)]
      const { root } = tree.head()
      if (due !== undefined && root !== due)
        throw new Refused('wrong_root', `${tree.count} leaves have the root ${root}`)
    }
  },
  proof: (proof) => {
    if (isObject(proof['entry'])) checkLeaf(readEntry(proof['entry']), proof['leaf'])
    checkInclusion(proof)
  },
}

interface CanonicalCase {
  json: string
  canonical: string
  sha256?: string
}

function checkCanonical({ json, canonical, sha256 }: CanonicalCase): void {
  let value: unknown
  try {
    value = parseJson(json)
  } catch (error) {
    const word = error instanceof RangeError ? 'no_canonical_form' : 'malformed_json'
    throw new Refused(word, (error as Error).message)
  }
  let own: string
  try {
    own = canonicalJson(value)
  } catch (error) {
    throw new Refused('no_canonical_form', (error as Error).message)
  }
  if (own !== canonical || (sha256 !== undefined && sha256Hex(own) !== sha256))
    throw new Refused('wrong_canonical_form', `it is ${own}`)
}
