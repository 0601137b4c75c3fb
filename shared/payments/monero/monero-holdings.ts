import type { Holdings } from '../driver.ts'
import { isByHandAlone } from '../invoice.ts'
import { firstCompared, isByHand, readHeight, readSent, REORG_BLOCKS } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroIncoming } from './monero-wallet.ts'

/** Locked or not, less what is in blocks and not counted yet. @returns undefined if a block came meanwhile */
export async function moneroHoldings(ctx: MoneroContext): Promise<Holdings | undefined> {
  const { wallet } = ctx.monero
  const coin = await ctx.coins.findCoin('xmr')
  const height = await readHeight(ctx, coin)
  const sinceHeight = Math.max(0, Math.min(coin?.books_height ?? height, height) - REORG_BLOCKS)
  const listed = await wallet.listIncoming({ sinceHeight, withoutPool: true })
  const incoming = listed.filter(({ major }) => major === 0)
  let heldRaw = await wallet.heldInBlocks()
  const { outgoing, stored, unknown } = await readSent(ctx, firstCompared(coin, height))
  const states = new Map(stored.map(({ tx, state }) => [tx, state]))
  for (const one of unknown) if (await isByHand(ctx, one)) states.set(one.txHash, 'sent')
  for (const { txHash, state, amountPico, feePico } of outgoing) {
    const known = states.get(txHash)
    if (state === 'confirmed' && known !== undefined && known !== 'confirmed') heldRaw += amountPico + feePico
    if (state === 'pool' && known === 'confirmed') heldRaw -= amountPico + feePico
  }
  const txs = incoming.map(({ txHash }) => txHash)
  const payments = await ctx.invoices.listPaymentsByTx('xmr', txs)
  const onRecord = new Map(payments.map((payment) => [`${payment.tx}/${payment.address_index}`, payment]))
  const arrived = incoming.flatMap(({ txHash, minor }) => onRecord.get(`${txHash}/${minor}`) ?? [])
  const waiting = await ctx.invoices.listUncounted('xmr')
  const earlier = waiting.filter(({ height: block = height }) => block < sinceHeight)
  const uncounted = [...earlier, ...arrived.filter(({ state }) => state !== 'settled')]
  for (const { amount_raw: raw } of uncounted) heldRaw -= BigInt(raw)
  const recorded = payments.filter(isByHandAlone)
  const isRecorded = (one: MoneroIncoming): boolean =>
    recorded.some(({ tx, amount_raw: raw }) => tx === one.txHash && raw === String(one.amountPico))
  const others = incoming.filter((one) => !onRecord.has(`${one.txHash}/${one.minor}`) && !isRecorded(one))
  const isFinal = ({ confirmations }: { confirmations: number }): boolean =>
    confirmations >= ctx.config.monero.confirmations
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
