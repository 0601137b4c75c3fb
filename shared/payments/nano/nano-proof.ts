import type { Log } from '../../foundation/log.ts'
import type { FoundPay } from '../driver.ts'
import { NodeUnreachable } from '../node-errors.ts'
import { encodeNanoAddress } from '../../crypto/nano-address.ts'
import { isSignedByAccount, ZERO_HASH } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import type { NanoBlockInfo, NanoRpc } from './nano-rpc.ts'

export interface ClaimedSend {
  readonly hash: string
  readonly amountRaw: bigint
  /** 64 upper-case hex characters. */
  readonly publicKey: string
}

/**
 * `unsigned`: the nodes have a rule of their own for signatures, so the node may tell the truth. `unproven`:
 * it no longer has the block that would prove it. `untrue`: no honest node lists such a send.
 */
export interface Doubt {
  readonly kind: 'unsigned' | 'unproven' | 'untrue'
  readonly reason: string
}

/**
 * The sends that the node's blocks prove: hash and signature are right, it is confirmed (with `unconfirmed`:
 * or not yet), for that account, and sends the difference of two balances that hashes cover. Only that it is
 * confirmed is taken on the node's word.
 */
export async function proveSends<Send extends ClaimedSend>(
  rpc: NanoRpc,
  sends: readonly Send[],
  { unconfirmed = false }: { unconfirmed?: boolean } = {},
): Promise<{ proven: Send[]; doubtful: { send: Send; doubt: Doubt }[] }> {
  const blocks = await rpc.blocksInfo(sends.map(({ hash }) => hash))
  const previous = [...blocks.values()].flatMap(({ block }) =>
    block === undefined || block.previous === ZERO_HASH ? [] : [block.previous],
  )
  const before = await rpc.blocksInfo(previous)
  const proven: Send[] = []
  const doubtful: { send: Send; doubt: Doubt }[] = []
  for (const send of sends) {
    const doubt = doubtAbout(send, blocks.get(send.hash), before, unconfirmed)
    if (doubt === undefined) proven.push(send)
    else doubtful.push({ send, doubt })
  }
  return { proven, doubtful }
}

function doubtAbout(
  send: ClaimedSend,
  info: NanoBlockInfo | undefined,
  before: ReadonlyMap<string, NanoBlockInfo>,
  unconfirmed: boolean,
): Doubt | undefined {
  if (info === undefined) return untrue('the node does not have the block that it listed')
  const { block } = info
  // Older kinds can't be sent any more since every account was raised to state blocks.
  if (block === undefined) return untrue('it is no state block')
  if (!info.confirmed && !unconfirmed) return untrue('it is not confirmed')
  if (info.subtype !== 'send' || block.link !== send.publicKey) return untrue('it is no send to this account')
  const sent = sentAmount(info, before)
  if (sent === undefined && info.amountRaw === undefined)
    return {
      kind: 'unproven',
      reason: 'the node no longer has the block before it, which says how much it sends',
    }
  if (sent !== send.amountRaw || info.amountRaw !== send.amountRaw)
    return untrue(`it sends ${sent ?? 'an unknown amount of'} raw, and was listed with ${send.amountRaw}`)
  // The last, so that nothing else is wrong with what is only unsigned.
  if (!isSignedByAccount(block)) return { kind: 'unsigned', reason: 'its sender did not sign it' }
  return undefined
}

const untrue = (reason: string): Doubt => ({ kind: 'untrue', reason })

function sentAmount(
  { block, amountRaw, balanceRaw }: NanoBlockInfo,
  before: ReadonlyMap<string, NanoBlockInfo>,
): bigint | undefined {
  const last = block === undefined ? undefined : before.get(block.previous)
  if (last === undefined) return undefined
  // The balance of a block older than state blocks is no field of it that could be checked.
  return last.block === undefined ? amountRaw : last.balanceRaw - balanceRaw
}

/** @throws NodeUnreachable if the send's blocks don't prove it: such a node isn't believed */
export async function requireProvenSend(rpc: NanoRpc, send: ClaimedSend): Promise<void> {
  const { doubtful } = await proveSends(rpc, [send])
  const [first] = doubtful
  if (first !== undefined)
    throw new NodeUnreachable(`the node lists the send ${send.hash}, but ${first.doubt.reason}`)
}

/** Nobody if it is not a send. @throws NodeUnreachable if its blocks do not bear it out */
export async function findSend({ nano: { rpc } }: NanoContext, tx: string): Promise<FoundPay[] | undefined> {
  const found = await rpc.blockInfo(tx.toUpperCase())
  if (found === undefined) return undefined
  const { block, hash, amountRaw, subtype, confirmed: isConfirmed } = found
  if (subtype !== 'send' || block === undefined || amountRaw === undefined) return []
  if (isConfirmed) await requireProvenSend(rpc, { hash, amountRaw, publicKey: block.link })
  return [{ to: encodeNanoAddress(block.link), amountRaw, isConfirmed }]
}

const doubted = new Set<string>()
const MOST_DOUBTED = 100_000

export const wasDoubted = ({ hash }: ClaimedSend): boolean => doubted.has(hash)

/** Once, however often the node lists it. */
export function noteDoubt(log: Log, send: ClaimedSend & { readonly address?: string }, { reason }: Doubt) {
  const { hash, amountRaw, address = 'the treasury' } = send
  if (doubted.has(hash)) return
  if (doubted.size >= MOST_DOUBTED) doubted.clear()
  doubted.add(hash)
  log.error(
    { block: hash, amount_raw: String(amountRaw), to: address, reason },
    'the Nano node lists a send that its own blocks do not bear out; it is not counted, and belongs to nobody before an operator looks at it',
  )
}
