import type { Log } from '../../../platform/log.ts'
import type { FoundPay } from '../../driver.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import { encodeNanoAddress, parseNanoAddress } from '../../../crypto/nano-address.ts'
import { isSignedByAccount, ZERO_HASH, type NanoReceivable } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import type { NanoBlockInfo, NanoRpc } from './nano-rpc.ts'

/** A send to an address of ours, as the node lists it. */
export interface ClaimedSend extends NanoReceivable {
  readonly address: string
}

/** What is said of a send in a confirmed block: that is final, so there are no further confirmations to count. */
export const CONFIRMED = { confirmations: 1, isConfirmed: true } as const

/**
 * `unsigned`: the nodes have a rule of their own for signatures, so the node may tell the truth. `unproven`:
 * it no longer has the block that would prove it. `untrue`: no honest node lists such a send.
 */
export interface Doubt {
  readonly kind: 'unsigned' | 'unproven' | 'untrue'
  readonly reason: string
}

/**
 * Asks for the blocks of sends, and separates the sends that they prove: hash and signature are right, it is
 * confirmed (with `unconfirmed`: or not yet), to that address, and its amount is the difference of two
 * balances that hashes cover. Only that it is confirmed is taken on the node's word.
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

type Blocks = ReadonlyMap<string, NanoBlockInfo>

/** Returns what speaks against a send, given its block and those before; undefined if it is proven. */
function doubtAbout(
  send: ClaimedSend,
  info: NanoBlockInfo | undefined,
  before: Blocks,
  unconfirmed: boolean,
): Doubt | undefined {
  if (info === undefined) return untrue('the node does not have the block that it listed')
  const { block } = info
  // Older kinds can't be sent any more since every account was raised to state blocks.
  if (block === undefined) return untrue('it is no state block')
  if (!info.confirmed && !unconfirmed) return untrue('it is not confirmed')
  const publicKey = parseNanoAddress(send.address)?.publicKey
  if (info.subtype !== 'send' || block.link !== publicKey) return untrue('it is no send to this account')
  const sent = sentAmount(info, before)
  if (sent === undefined && info.amountRaw === undefined)
    return { kind: 'unproven', reason: 'the node no longer has the block before it, which proves its amount' }
  if (sent !== send.amountRaw || info.amountRaw !== send.amountRaw)
    return untrue(`it sends ${sent ?? 'an unknown amount of'} raw, and was listed with ${send.amountRaw}`)
  // Checked last, so that nothing else is wrong with a send that is `unsigned`.
  if (!isSignedByAccount(block)) return { kind: 'unsigned', reason: 'its sender did not sign it' }
  return undefined
}

const untrue = (reason: string): Doubt => ({ kind: 'untrue', reason })

/** Returns the raw that a block sends; undefined if the block before it isn't in `before`. */
function sentAmount({ block, amountRaw, balanceRaw }: NanoBlockInfo, before: Blocks): bigint | undefined {
  const last = block === undefined ? undefined : before.get(block.previous)
  if (last === undefined) return undefined
  // A block older than state blocks has no balance field that could be checked.
  return last.block === undefined ? amountRaw : last.balanceRaw - balanceRaw
}

/** @throws NodeUnreachable if the send's blocks don't prove it: such a node isn't believed */
export async function requireProvenSend(rpc: NanoRpc, send: ClaimedSend): Promise<void> {
  const [doubtful] = (await proveSends(rpc, [send])).doubtful
  if (doubtful !== undefined)
    throw new NodeUnreachable(`the node lists the send ${send.hash}, but ${doubtful.doubt.reason}`)
}

/**
 * Reads whom the block `tx` (hex, either case) pays; the list is empty if it is not a send.
 *
 * @returns undefined if the node doesn't have it
 * @throws NodeUnreachable if it is confirmed, and its blocks don't prove it
 */
export async function findSend({ nano: { rpc } }: NanoContext, tx: string): Promise<FoundPay[] | undefined> {
  const found = await rpc.blockInfo(tx.toUpperCase())
  if (found === undefined) return undefined
  const { block, hash, amountRaw, subtype, confirmed: isConfirmed } = found
  if (subtype !== 'send' || block === undefined || amountRaw === undefined) return []
  const address = encodeNanoAddress(block.link)
  if (isConfirmed) await requireProvenSend(rpc, { hash, amountRaw, address })
  return [{ to: address, amountRaw, isConfirmed }]
}

const doubted = new Set<string>()
const MOST_DOUBTED = 100_000

/** Whether logDoubt() has logged a doubt about this send in this process. */
export const wasDoubted = ({ hash }: ClaimedSend): boolean => doubted.has(hash)

/** Logs what speaks against a send, once in this process, however often the node lists it. */
export function logDoubt(log: Log, { hash, amountRaw, address }: ClaimedSend, { reason }: Doubt) {
  if (doubted.has(hash)) return
  if (doubted.size >= MOST_DOUBTED) doubted.clear()
  doubted.add(hash)
  log.error(
    { block: hash, amount_raw: String(amountRaw), to: address, reason },
    'the Nano node lists a send that its blocks do not prove; it belongs to nobody before an operator looks at it',
  )
}
