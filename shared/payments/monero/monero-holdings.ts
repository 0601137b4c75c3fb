import type { Holdings } from '../driver.ts'
import { firstCompared, isByHand, readHeight, readSent, REORG_BLOCKS } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'

/**
 * What the wallet holds, locked or not, less what lies in blocks and is not counted yet.
 *
 * @returns undefined if a block came meanwhile
 * @throws NodeUnreachable
 */
export async function moneroHoldings(ctx: MoneroContext): Promise<Holdings | undefined> {
  const { wallet } = ctx.monero
  const coin = await ctx.coins.findCoin('xmr')
  const height = await readHeight(ctx, coin)
  const sinceHeight = Math.max(0, Math.min(coin?.books_height ?? height, height) - REORG_BLOCKS)
  const incoming = (await wallet.listIncoming({ sinceHeight, withoutPool: true })).filter(({ major }) => major === 0)
  let { totalPico: heldRaw } = await wallet.balance()
  // What the wallet has sent, and the books do not know to be in the chain.
  const { outgoing, stored, unknown } = await readSent(ctx, firstCompared(coin, height))
  const states = new Map(stored.map(({ tx, state }) => [tx, state]))
  for (const one of unknown) if (await isByHand(ctx, one)) states.set(one.txHash, 'sent')
  for (const { txHash, state, amountPico, feePico } of outgoing) {
    const known = states.get(txHash) ?? 'confirmed'
    if (known !== 'confirmed' && !(known === 'replaced' && state === 'pool')) heldRaw += amountPico + feePico
  }
  const payments = await ctx.invoices.listPaymentsByTx(
    'xmr',
    incoming.map(({ txHash }) => txHash),
  )
  const onRecord = new Map(payments.map((payment) => [`${payment.tx}/${payment.address_index}`, payment]))
  // One that was seen in the pool may be in a block that no look has come to yet.
  const arrived = incoming.flatMap(({ txHash, minor }) => onRecord.get(`${txHash}/${minor}`) ?? [])
  const uncounted = [...(await ctx.invoices.listUncounted('xmr')), ...arrived.filter(({ state }) => state !== 'settled')]
  for (const { amount_raw: raw } of new Map(uncounted.map((payment) => [payment._id, payment])).values()) heldRaw -= BigInt(raw)
  const others = incoming.filter(({ txHash, minor }) => !onRecord.has(`${txHash}/${minor}`))
  const isFinal = ({ confirmations }: { confirmations: number }): boolean => confirmations >= ctx.config.monero.confirmations
  for (const { amountPico } of others.filter((one) => !isFinal(one))) heldRaw -= amountPico
  if ((await wallet.getHeight()) !== height) return undefined
  return {
    address: await wallet.primaryAddress(),
    heldRaw,
    height,
    deposits: others.filter(isFinal).map(({ txHash, minor, amountPico }) => ({
      source: `xmr/${txHash}/${minor}`,
      account: minor === 0 ? 'operator' : 'unassigned',
      amountRaw: amountPico,
    })),
  }
}
