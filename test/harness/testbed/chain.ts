/*
 * The coin's network as an outsider sees it: every block in its ledger, and payments; and how its node is
 * made to lie. This is the only file here that knows the stand-in.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { hashStateBlock, type StateBlock } from '../../../devnet/nano-node/block.ts'
import { decodeAddress, encodeAddress, zeroHash } from '../../../devnet/nano-node/encoding.ts'
import type { RpcExchange } from '../../../devnet/nano-node/nano-node.ts'
import { CONFIRMED_AFTER_MS, signTreasuryBlock, type Coins } from './coins.ts'

/** A block as it stands in the ledger; hashes in lower case, as the service shows them. */
export interface Block {
  readonly hash: string
  readonly account: string
  readonly kind: 'send' | 'receive' | 'change' | 'epoch'
  /** Sent or received, raw. */
  readonly amountRaw: bigint
  /** A send's destination; '' of any other block. */
  readonly to: string
  /** The block that received a send; undefined if none has. */
  readonly receivedBy: string | undefined
  readonly isConfirmed: boolean
}

export type Chain = ReturnType<typeof openChain>

/** The chain of a stand-in node. Addresses are `nano_…`, amounts raw, hashes in lower case. */
export function openChain(coins: Coins) {
  const { node } = coins
  const { ledger } = node.state
  let refusals = 0
  /** Refuses a published block, and takes it back out of the ledger. */
  const refuse = ({ action, answerText }: RpcExchange): string | undefined => {
    const hash = action === 'process' ? (JSON.parse(answerText) as { hash?: string }).hash : undefined
    if (hash === undefined) return undefined
    // The stand-in has carried it out by now.
    if (ledger.blocks.get(hash)?.confirmed === false) node.rollback(hash)
    refusals++
    return JSON.stringify({ error: 'Too many requests' })
  }

  /** A list of the block as it stands in the ledger; empty if it is not there. */
  const view = (hash: string): Block[] => {
    const entry = ledger.blocks.get(hash)
    if (entry === undefined || entry.block.type !== 'state' || entry.kind === null) return []
    const { kind, amount: amountRaw, confirmed: isConfirmed, receivedBy } = entry
    const to = kind === 'send' ? encodeAddress(entry.block.link) : ''
    const received = receivedBy === zeroHash ? undefined : receivedBy.toLowerCase()
    return [
      {
        hash: hash.toLowerCase(),
        account: encodeAddress(entry.account),
        kind,
        amountRaw,
        to,
        receivedBy: received,
        isConfirmed,
      },
    ]
  }
  /** Returns the public key of an address. @throws Error if it is not an address */
  const keyOf = (address: string): string => {
    const key = decodeAddress(address)
    if (key === null) throw new Error(`${address} is not an address`)
    return key
  }
  /**
   * Adds to `found` a block and all that depends on it: its successor, the block that received it, and so on.
   */
  const addDependents = (hash: string, found = new Set<string>()): Set<string> => {
    const entry = ledger.blocks.get(hash)
    if (entry === undefined || found.has(hash)) return found
    found.add(hash)
    return addDependents(entry.successor, addDependents(entry.receivedBy, found))
  }
  /** Takes a block, confirmed or not, and all that depends on it out of the ledger. @returns these blocks */
  const removeWithDependents = (hash: string): StateBlock[] => {
    const entries = [...addDependents(hash)].flatMap((dependent) => ledger.blocks.get(dependent) ?? [])
    for (const entry of entries) {
      const account = ledger.accounts.get(entry.account)
      if (!entry.confirmed || account === undefined) continue
      entry.confirmed = false
      ledger.cementedCount -= 1
      account.confirmedHeight = Math.min(account.confirmedHeight, entry.height - 1)
    }
    node.rollback(hash)
    return entries.flatMap(({ block }) => (block.type === 'state' ? [block] : []))
  }
  /**
   * Puts a block into the ledger and confirms it; another block in its place goes, with its dependents.
   *
   * @returns false if the node doesn't take it yet, since a block that it needs is missing
   */
  const put = (block: StateBlock): boolean => {
    const hash = hashStateBlock(block)
    const rival = ledger.blocks.has(hash) ? null : ledger.competitorOf(block)
    if (rival !== null) removeWithDependents(rival.hash)
    if (!ledger.blocks.has(hash)) node.state.submit(block)
    if (!ledger.blocks.has(hash)) return false
    node.confirm(hash)
    return true
  }

  return {
    /** The account from which every agent pays. */
    payer: node.genesis.address,
    /** Every block but the network's first. */
    allBlocks: (): Block[] => [...ledger.blocks.keys()].flatMap(view),
    /** The blocks of one account, the oldest first. */
    blocksOf: (address: string): Block[] => (ledger.accounts.get(keyOf(address))?.chain ?? []).flatMap(view),
    balanceOf: (address: string): bigint => ledger.balance(keyOf(address)),
    /** How many blocks were refused by refuseBlocks(). */
    refusals: (): number => refusals,
    /** From now on the node refuses valid blocks, or takes them again. */
    refuseBlocks: (isRefusing: boolean): void => coins.lie(isRefusing ? refuse : null),
    hashesOf: (blocks: readonly StateBlock[]): string[] =>
      blocks.map((block) => hashStateBlock(block).toLowerCase()),
    /** Takes a confirmed block and all that depends on it out of the ledger, as if it had never been. */
    hide: (hash: string): StateBlock[] => removeWithDependents(hash.toUpperCase()),
    /** Puts hidden blocks back and confirms them; blocks that have taken their places go. */
    bringBack(hidden: readonly StateBlock[]): void {
      // A receive waits until the send that it takes is back.
      let left = [...hidden]
      for (let tries = 0; left.length > 0 && tries < hidden.length; tries++)
        left = left.filter((block) => !put(block))
    },
    /**
     * Waits for an unconfirmed send of the treasury, and confirms another block in its place.
     *
     * @returns the blocks that were removed for it; undefined if there was no such send within `waitMs`
     */
    async replaceUnconfirmed(
      seed: string,
      treasury: string,
      waitMs: number,
    ): Promise<StateBlock[] | undefined> {
      node.setAutoConfirm(null)
      try {
        for (const untilMs = performance.now() + waitMs; performance.now() < untilMs; await sleep(5)) {
          const entry = ledger.blocks.get(ledger.frontier(keyOf(treasury)))
          if (entry === undefined || entry.confirmed || entry.kind !== 'send' || entry.block.type !== 'state')
            continue
          const hidden = removeWithDependents(entry.hash)
          put(signTreasuryBlock(node, seed, entry.block.previous))
          return hidden
        }
        return undefined
      } finally {
        node.setAutoConfirm(CONFIRMED_AFTER_MS)
        for (const { hash, confirmed } of [...ledger.blocks.values()])
          if (!confirmed) node.state.scheduleConfirmation(hash)
      }
    },
  }
}
