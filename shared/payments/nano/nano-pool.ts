import { fillPool, type AddressSource } from '../address-pool.ts'
import { untilNodeFails } from '../coin-round.ts'
import type { WatchStep } from '../../ledger/step.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import { compareChain, isSeedKnown } from './nano-lane.ts'
import { TREASURY_INDEX } from './nano-keys.ts'

/** Where Nano's addresses come from: the seed's accounts, one an invoice. The treasury is none of them. */
export function nanoAddresses({ keys, indexFile }: Pick<NanoWallet, 'keys' | 'indexFile'>): AddressSource {
  return {
    coin: 'xno',
    indexFile,
    firstIndex: TREASURY_INDEX + 1,
    session: keys,
    skipUsed: (from) => Promise.resolve(from),
    derive: (from, count) =>
      Promise.resolve(
        Array.from({ length: count }, (_, step) => {
          const { index, address } = keys.deriveAccount(from + step)
          return { index, address }
        }),
      ),
  }
}

/**
 * Fills the pool. The seed and the treasury's chain are compared with what is stored before: a database that is not the one
 * that was in use gives out no address. While the node is away the pool stays as it is.
 */
export async function fillNanoPool(ctx: NanoContext, watch?: WatchStep): Promise<void> {
  const wallet = ctx.nano.wallet()
  await untilNodeFails(ctx, 'xno', async () => {
    if (!(await isSeedKnown(ctx)) || (await compareChain(ctx, wallet.treasury)) === 'halted') return
    await fillPool(ctx, nanoAddresses(wallet), watch)
    // From its first address on a seed is known.
    await ctx.coins.noteTreasury('xno', { treasury_address: wallet.treasury.address })
  })
}
