/*
 * The coin's network as an outsider sees it: every block that stands in its ledger, and payments into it; and
 * how its node is made to fail and to lie. This is the only file here that knows the stand-in.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { hashStateBlock, type StateBlock } from '../../devnet/nano-node/block.ts'
import { decodeAddress, encodeAddress, zeroHash } from '../../devnet/nano-node/encoding.ts'
import type { Lie, RpcExchange } from '../../devnet/nano-node/nano-node.ts'
import { signTreasuryBlock, startCoins } from '../torture/coins.ts'

/** A block as it stands in the ledger; hashes in lower case, as the service shows them. */
export interface Block {
  readonly hash: string
  readonly account: string
  readonly kind: 'send' | 'receive' | 'change' | 'epoch'
  /** Sent or received, raw. */
  readonly amountRaw: bigint
  /** Present on a send: its destination, and the block that received it. */
  readonly to: string
  readonly receivedBy: string | undefined
  readonly isConfirmed: boolean
}

export type Chain = Awaited<ReturnType<typeof startChain>>

const CONFIRMED_AFTER_MS = 100

export async function startChain() {
  const coins = await startCoins()
  const { node } = coins
  const { ledger } = node.state
  let [forks, refusals, isDown] = [0, 0, false]
  let answerInstead: ((exchange: RpcExchange) => string | Lie | undefined) | undefined
  node.lie((exchange) => {
    if (exchange.action === 'process' && exchange.answerText.includes('"Fork"')) forks++
    return answerInstead?.(exchange)
  })
  const loseAnswer = ({ action }: RpcExchange): Lie | undefined =>
    action === 'process' ? { cutAfterBytes: 0 } : undefined
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
  const keyOf = (address: string): string => {
    const key = decodeAddress(address)
    if (key === null) throw new Error(`${address} is not an address`)
    return key
  }
  /** A block, its successors, whoever received one of them, and so on. */
  const restingOn = (hash: string, found = new Set<string>()): Set<string> => {
    const entry = ledger.blocks.get(hash)
    if (entry === undefined || found.has(hash)) return found
    found.add(hash)
    return restingOn(entry.successor, restingOn(entry.receivedBy, found))
  }
  const takeOut = (hash: string): StateBlock[] => {
    const entries = [...restingOn(hash)].flatMap((one) => ledger.blocks.get(one) ?? [])
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
  const put = (block: StateBlock): boolean => {
    const hash = hashStateBlock(block)
    const rival = ledger.blocks.has(hash) ? null : ledger.competitorOf(block)
    if (rival !== null) takeOut(rival.hash)
    if (!ledger.blocks.has(hash)) node.state.submit(block)
    if (!ledger.blocks.has(hash)) return false
    node.confirm(hash)
    return true
  }

  return {
    env: coins.env,
    addressOf: (name: string): string => coins.addressOf(name),
    /** The account from which every agent pays. */
    payer: node.genesis.address,
    /** A confirmed send. @returns its hash */
    pay: (address: string, amountRaw: bigint): string => coins.pay(address, amountRaw),
    /** Every block but the network's first. */
    dump: (): Block[] => [...ledger.blocks.keys()].flatMap(view),
    /** The blocks of one account, the oldest first. */
    chainOf: (address: string): Block[] => (ledger.accounts.get(keyOf(address))?.chain ?? []).flatMap(view),
    balanceOf: (address: string): bigint => ledger.balance(keyOf(address)),
    /** How many blocks were offered in a place where another stands. */
    forks: (): number => forks,
    refusals: (): number => refusals,
    hang: (): void => node.setHanging(true),
    /** Blocks are taken and nobody is told so, or refused for no reason of theirs. */
    misbehave(how: 'loses-answers' | 'refuses'): void {
      answerInstead = how === 'refuses' ? refuse : loseAnswer
    },
    async goDown(): Promise<void> {
      isDown = true
      await node.setDown(true)
    },
    async heal(): Promise<void> {
      answerInstead = undefined
      node.setHanging(false)
      if (isDown) await node.setDown(false)
      isDown = false
    },
    hashesOf: (hidden: readonly StateBlock[]): string[] =>
      hidden.map((block) => hashStateBlock(block).toLowerCase()),
    /** Takes a confirmed block and all that rests on it out of the ledger, as if it had never been. */
    hide: (hash: string): StateBlock[] => takeOut(hash.toUpperCase()),
    /** Puts blocks back and confirms them; what has taken their places goes. */
    bringBack(hidden: readonly StateBlock[]): void {
      // A receive waits until the send that it takes is back.
      let left = [...hidden]
      for (let tries = 0; left.length > 0 && tries < hidden.length; tries++)
        left = left.filter((block) => !put(block))
    },
    /**
     * Confirms another block in the place of the treasury's newest send, before that one is.
     *
     * @returns what it was put in the place of
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
          const hidden = takeOut(entry.hash)
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
    close: (): Promise<void> => coins.close(),
  }
}
