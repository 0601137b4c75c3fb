import { NodeUnreachable } from '../node-errors.ts'
import { isSignedByAccount, ZERO_HASH } from './nano-blocks.ts'
import type { NanoBlockInfo, NanoRpc } from './nano-rpc.ts'

/** A send as a list of receivables names it, and the account that it should be for. */
export interface ClaimedSend {
  readonly hash: string
  readonly amountRaw: bigint
  /** 64 upper-case hex characters. */
  readonly publicKey: string
}

/**
 * Of the sends that a node lists as receivable, those that its blocks bear out: the block's hash and its sender's signature
 * hold, it is confirmed, it is for that account, and what it sends is the difference between its balance and the balance of
 * the block before it, which its hash covers. That it is confirmed is the node's word; nothing else of it is.
 *
 * @returns the others with a sentence each
 */
export async function proveSends<Send extends ClaimedSend>(
  rpc: NanoRpc,
  sends: readonly Send[],
): Promise<{ proven: Send[]; doubtful: { send: Send; reason: string }[] }> {
  const blocks = await rpc.blocksInfo(sends.map(({ hash }) => hash))
  const previous = [...blocks.values()].flatMap(({ block }) => (block === undefined || block.previous === ZERO_HASH ? [] : [block.previous]))
  const before = await rpc.blocksInfo(previous)
  const proven: Send[] = []
  const doubtful: { send: Send; reason: string }[] = []
  for (const send of sends) {
    const reason = doubtAbout(send, blocks.get(send.hash), before)
    if (reason === undefined) proven.push(send)
    else doubtful.push({ send, reason })
  }
  return { proven, doubtful }
}

function doubtAbout(send: ClaimedSend, info: NanoBlockInfo | undefined, before: ReadonlyMap<string, NanoBlockInfo>): string | undefined {
  if (info === undefined) return 'the node does not have the block that it listed'
  const { block } = info
  // Older kinds can't be sent any more since every account was raised to state blocks.
  if (block === undefined) return 'it is no state block'
  if (!info.confirmed) return 'it is not confirmed'
  if (info.subtype !== 'send' || block.link !== send.publicKey) return 'it is no send to this account'
  if (!isSignedByAccount(block)) return 'its sender did not sign it'
  const sent = sentAmount(info, before)
  if (sent !== send.amountRaw || info.amountRaw !== send.amountRaw) return `it sends ${sent ?? 'an unknown amount of'} raw, and was listed with ${send.amountRaw}`
  return undefined
}

/** What a send takes out of its account, by the two blocks' own balances. */
function sentAmount({ block, amountRaw, balanceRaw }: NanoBlockInfo, before: ReadonlyMap<string, NanoBlockInfo>): bigint | undefined {
  const last = block === undefined ? undefined : before.get(block.previous)
  if (last === undefined) return undefined
  // The balance of a block older than state blocks is no field of it that could be checked.
  return last.block === undefined ? amountRaw : last.balanceRaw - balanceRaw
}

/** The amount of a send that is not in doubt. @throws NodeUnreachable where it is: such a node's word is no news */
export async function requireProvenSend(rpc: NanoRpc, send: ClaimedSend): Promise<void> {
  const { doubtful } = await proveSends(rpc, [send])
  const [doubt] = doubtful
  if (doubt !== undefined) throw new NodeUnreachable(`the node lists the send ${send.hash}, but ${doubt.reason}`)
}
