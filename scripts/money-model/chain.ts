/*
 * The coin's network as an outsider sees it: every block that stands in its ledger, and payments into it. Beside that, how
 * its node is made to lie. This is the only file here that knows the stand-in.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { deriveSecretKey, hashStateBlock, publicKeyOf, signHash, workRoot, type StateBlock } from '../../test/support/nano-node/block.ts'
import { decodeAddress, encodeAddress, zeroHash } from '../../test/support/nano-node/encoding.ts'
import type { Lie, RpcExchange } from '../../test/support/nano-node/nano-node.ts'
import { findWork } from '../../test/support/nano-node/work.ts'
import { startCoins, type Coins } from '../torture/coins.ts'

/** A block as it stands in the ledger; hashes in lower case, as the service shows them. */
export interface Block {
  readonly hash: string
  readonly account: string
  readonly kind: 'send' | 'receive' | 'change' | 'epoch'
  /** Sent or received, raw. */
  readonly amountRaw: bigint
  /** Of a send: where it went. */
  readonly to: string
  /** Of a send: the block that received it. */
  readonly receivedBy: string | undefined
  readonly isConfirmed: boolean
}

/** Blocks that were taken out of the ledger, in their order. */
export type Hidden = readonly StateBlock[]

export interface Chain {
  readonly coins: Coins
  /** The account from which every agent pays. */
  readonly payer: string
  /** All blocks but the network's first. */
  dump(): Block[]
  /** The blocks of one account, the oldest first. */
  chainOf(address: string): Block[]
  balanceOf(address: string): bigint
  /** @returns the hash of a confirmed send */
  pay(address: string, amountRaw: bigint): string
  /** Blocks that were offered in a place where another stands. */
  forks(): number
  /** Blocks are taken and nobody is told so, or refused for no reason of their own, until `heal`. */
  misbehave(how: 'lost-answers' | 'refuses'): void
  /** Whether anything was refused since. */
  refusals(): number
  hang(): void
  goDown(): Promise<void>
  heal(): Promise<void>
  hashOf(hidden: Hidden): string[]
  /** Takes a confirmed block and what stands on it out of the ledger, as if it had never been. */
  hide(hash: string): Hidden
  /** Puts blocks back and confirms them; what took their places meanwhile goes. */
  bringBack(hidden: Hidden): void
  /** A block of the treasury's own key in the place of its newest unconfirmed send, confirmed. */
  replaceUnconfirmed(seed: string, treasury: string, waitMs: number): Promise<Hidden | undefined>
  close(): Promise<void>
}

const CONFIRMED_AFTER_MS = 100

export async function startChain(): Promise<Chain> {
  const coins = await startCoins()
  const { node } = coins
  const { ledger } = node.state
  let forks = 0
  let distort: ((exchange: RpcExchange) => string | Lie | undefined) | null = null
  node.lie((exchange) => {
    if (exchange.action === 'process' && exchange.answerText.includes('"Fork"')) forks++
    return distort?.(exchange)
  })

  let isDown = false
  let refusals = 0
  const loseAnswer = ({ action }: RpcExchange): Lie | undefined => (action === 'process' ? { cutAfterBytes: 0 } : undefined)
  const refuse = ({ action, answerText }: RpcExchange): string | undefined => {
    const hash = action === 'process' ? (JSON.parse(answerText) as { hash?: string }).hash : undefined
    if (hash === undefined) return undefined
    // The stand-in has carried it out by now.
    if (ledger.blocks.get(hash)?.confirmed === false) node.rollback(hash)
    refusals++
    return JSON.stringify({ error: 'Too many requests' })
  }

  const view = (hash: string): Block[] => {
    const entry = ledger.blocks.get(hash)
    if (entry === undefined || entry.block.type !== 'state' || entry.kind === null) return []
    return [
      {
        hash: hash.toLowerCase(),
        account: encodeAddress(entry.account),
        kind: entry.kind,
        amountRaw: entry.amount,
        to: entry.kind === 'send' ? encodeAddress(entry.block.link) : '',
        receivedBy: entry.receivedBy === zeroHash ? undefined : entry.receivedBy.toLowerCase(),
        isConfirmed: entry.confirmed,
      },
    ]
  }
  const keyOf = (address: string): string => {
    const key = decodeAddress(address)
    if (key === null) throw new Error(`${address} is not an address`)
    return key
  }
  /** Everything that rests on a block: its successors and whoever received one of them. */
  const restingOn = (hash: string, found = new Set<string>()): Set<string> => {
    const entry = ledger.blocks.get(hash)
    if (entry === undefined || found.has(hash)) return found
    found.add(hash)
    return restingOn(entry.successor, restingOn(entry.receivedBy, found))
  }
  const takeOut = (hash: string): Hidden => {
    const entries = [...restingOn(hash)].flatMap((one) => ledger.blocks.get(one) ?? [])
    for (const entry of entries) {
      if (!entry.confirmed) continue
      entry.confirmed = false
      ledger.cementedCount -= 1
      const account = ledger.accounts.get(entry.account)
      if (account !== undefined) account.confirmedHeight = Math.min(account.confirmedHeight, entry.height - 1)
    }
    node.rollback(hash)
    return entries.flatMap(({ block }) => (block.type === 'state' ? [block] : []))
  }
  const put = (block: StateBlock): boolean => {
    const hash = hashStateBlock(block)
    if (!ledger.blocks.has(hash)) {
      const rival = ledger.competitorOf(block)
      if (rival !== null) takeOut(rival.hash)
      node.state.submit(block)
    }
    if (!ledger.blocks.has(hash)) return false
    node.confirm(hash)
    return true
  }

  return {
    coins,
    payer: node.genesis.address,
    dump: () => [...ledger.blocks.keys()].flatMap(view),
    chainOf: (address) => (ledger.accounts.get(keyOf(address))?.chain ?? []).flatMap(view),
    balanceOf: (address) => ledger.balance(keyOf(address)),
    pay: (address, amountRaw) => coins.pay(address, amountRaw),
    forks: () => forks,
    misbehave(how) {
      distort = how === 'lost-answers' ? loseAnswer : refuse
    },
    refusals: () => refusals,
    hang: () => node.setHanging(true),
    async goDown() {
      isDown = true
      await node.setDown(true)
    },
    async heal() {
      distort = null
      node.setHanging(false)
      if (isDown) await node.setDown(false)
      isDown = false
    },
    hashOf: (hidden) => hidden.map((block) => hashStateBlock(block).toLowerCase()),
    hide: (hash) => takeOut(hash.toUpperCase()),
    bringBack(hidden) {
      // A receive waits until the send that it takes is back.
      let left = [...hidden]
      for (let tries = 0; left.length > 0 && tries < hidden.length; tries++) left = left.filter((block) => !put(block))
    },
    async replaceUnconfirmed(seed, treasury, waitMs) {
      node.setAutoConfirm(null)
      try {
        const untilMs = performance.now() + waitMs
        while (performance.now() < untilMs) {
          const hash = ledger.frontier(keyOf(treasury))
          const entry = ledger.blocks.get(hash)
          if (entry !== undefined && !entry.confirmed && entry.kind === 'send' && entry.block.type === 'state') {
            const { previous, representative } = entry.block
            const before = ledger.blocks.get(previous)
            const hidden = takeOut(hash)
            const secretKey = deriveSecretKey(seed, 0)
            const fields = {
              ...{ account: publicKeyOf(secretKey), previous, representative: keyOf(node.genesis.address), link: zeroHash },
              balance: before?.balance ?? 0n,
            }
            if (fields.representative === representative) fields.representative = fields.account
            const rival: StateBlock = {
              ...{ type: 'state', ...fields, signature: signHash(hashStateBlock(fields), secretKey) },
              work: findWork(workRoot(fields), ledger.thresholds.epoch2),
            }
            put(rival)
            return hidden
          }
          await sleep(5)
        }
        return undefined
      } finally {
        node.setAutoConfirm(CONFIRMED_AFTER_MS)
        for (const { hash, confirmed } of [...ledger.blocks.values()]) if (!confirmed) node.state.scheduleConfirmation(hash)
      }
    },
    close: () => coins.close(),
  }
}
