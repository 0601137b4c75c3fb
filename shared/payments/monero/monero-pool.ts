import fs from 'node:fs'
import path from 'node:path'
import type { WatchStep } from '../../ledger/step.ts'
import { fillPool, readIndexFile, type AddressSource } from '../address-pool.ts'
import { haltCoin, untilNodeFails } from '../coin-round.ts'
import { compareOutgoing, readHeight } from './monero-chain.ts'
import type { MoneroContext } from './monero-gateway.ts'

/** (0, 0) is the wallet's primary address, where the operator fills it up. */
const FIRST_MINOR = 1

/** Where Monero's addresses come from: the wallet's first account, one minor index an invoice. */
export function moneroAddresses({ monero: { wallet, indexFile } }: MoneroContext): AddressSource {
  return {
    coin: 'xmr',
    indexFile,
    firstIndex: FIRST_MINOR,
    session: wallet,
    skipUsed: async (from) => Math.max(from, await wallet.subaddressCount()),
    async derive(from, count) {
      // It gives out the next ones alone, so those below `from` are made and left.
      const behind = from - (await wallet.subaddressCount())
      if (behind > 0) await wallet.createSubaddresses(behind)
      return (await wallet.createSubaddresses(count)).map(({ minor, address }) => ({ index: minor, address }))
    },
  }
}

/**
 * Fills the pool. The wallet's transactions are compared with what is stored before: a database that is not the one that
 * was in use gives out no address. While the wallet is away the pool stays as it is.
 */
export async function fillMoneroPool(ctx: MoneroContext, watch?: WatchStep): Promise<void> {
  await untilNodeFails(ctx, 'xmr', async () => {
    const coin = await ctx.coins.findCoin('xmr')
    if (!(await compareOutgoing(ctx, coin, await readHeight(ctx, coin)))) return
    if (await lacksAddresses(ctx)) return
    fs.mkdirSync(path.dirname(ctx.monero.indexFile), { recursive: true })
    await fillPool(ctx, moneroAddresses(ctx), watch)
  })
}

/**
 * A wallet that was restored from its seed sees the addresses that it had made no more: it has to make them again, and
 * then to look through the chain again for what came to them before that.
 */
async function lacksAddresses(ctx: MoneroContext): Promise<boolean> {
  const highest = await ctx.coins.highestIndex('xmr')
  if (highest < 0) return false
  const { wallet, indexFile } = ctx.monero
  if (await wallet.hasAddress(highest)) return false
  const count = await wallet.subaddressCount()
  const wanted = Math.max(highest, readIndexFile(indexFile).highest) + 1
  await haltCoin(
    ctx,
    'xmr',
    `the wallet had ${count} addresses of ${wanted} that were made, as after it was restored from its seed; let it rescan the chain (rescan_blockchain)`,
  )
  await wallet.createSubaddresses(wanted - count)
  return true
}
