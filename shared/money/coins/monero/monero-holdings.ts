import type { Holdings } from '../../driver.ts'
import { firstCompared, isByHand, isDeep, readHeight, readSent, REORG_BLOCKS } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroIncoming } from './monero-wallet.ts'

/**
 * Reads what the wallet holds as the books count it: its balance in blocks, in which our own transactions are
 * moved as far as they are on record, without payments that are not settled, and without other money that a
 * reorganisation may still take back. Lists the other money once it is deep enough.
 *
 * @returns undefined if a block came meanwhile
 */
export async function moneroHoldings(ctx: MoneroContext): Promise<Holdings | undefined> {
  const { wallet } = ctx.monero
  const coin = await ctx.coins.findCoin('xmr')
  const height = await readHeight(ctx, coin)
  const sinceHeight = Math.max(0, Math.min(coin?.books_height ?? height, height) - REORG_BLOCKS)
  const incoming = await wallet.listIncoming({ sinceHeight, withoutPool: true })
  const balanceRaw = await wallet.heldInBlocks()
  let heldRaw = balanceRaw
  heldRaw += await sumSentAhead(ctx, firstCompared(coin, height))
  // Payments count once they are settled.
  const txs = incoming.map(({ txHash }) => txHash)
  const recorded = await ctx.invoices.arrivals.listByTx('xmr', txs)
  const onRecord = new Map(recorded.map((payment) => [`${payment.tx}/${payment.address_index}`, payment]))
  const keyOf = ({ txHash, minor }: MoneroIncoming): string => `${txHash}/${minor}`
  const arrived = incoming.flatMap((arrival) => onRecord.get(keyOf(arrival)) ?? [])
  const waiting = await ctx.invoices.arrivals.listUncounted('xmr')
  const earlier = waiting.filter(({ height: block = height }) => block < sinceHeight)
  const uncounted = [...earlier, ...arrived.filter(({ state }) => state !== 'settled')]
  for (const { amount_raw: raw } of uncounted) heldRaw -= BigInt(raw)
  // Other money counts once it is deep.
  const others = incoming.filter((arrival) => !onRecord.has(keyOf(arrival)))
  for (const arrival of others) if (!isDeep(ctx, arrival)) heldRaw -= arrival.amountPico
  const deep = others.filter((arrival) => isDeep(ctx, arrival))
  if ((await wallet.getHeight()) !== height) return undefined
  return {
    address: await wallet.primaryAddress(),
    heldRaw,
    height,
    assets: { height, balance: String(balanceRaw) },
    unrecorded: deep.map(({ txHash, minor, amountPico }) => {
      return { coin: 'xmr', tx: txHash, addressIndex: minor, amountRaw: amountPico }
    }),
  }
}

/**
 * Sums what our own transactions have moved in the chain and not yet on record, less what they have moved on record
 * alone: the books count a transaction by its state on record.
 */
async function sumSentAhead(ctx: MoneroContext, sinceHeight: number): Promise<bigint> {
  const { outgoing, stored, unknown } = await readSent(ctx, sinceHeight)
  const states = new Map(stored.map(({ tx, state }) => [tx, state]))
  for (const sent of unknown) if (await isByHand(ctx, sent)) states.set(sent.txHash, 'sent')
  let sumRaw = 0n
  for (const { txHash, state, amountPico, feePico } of outgoing) {
    const known = states.get(txHash)
    if (state === 'confirmed' && known !== undefined && known !== 'confirmed') sumRaw += amountPico + feePico
    if (state === 'pool' && known === 'confirmed') sumRaw -= amountPico + feePico
  }
  return sumRaw
}
