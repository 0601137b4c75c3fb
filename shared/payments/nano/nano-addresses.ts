import type { AddressSource } from '../address-pool.ts'
import { dustThreshold } from '../coin.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX } from './nano-keys.ts'

/** A process that begins leaves out so many indexes: addresses that were given out and never paid leave no trace in the chain. */
const LEFT_OUT = 500
/** So many indexes in a row that the chain does not know end the search for the last one that it knows. */
const SEARCHED = 2_000

/** Where Nano's addresses come from: the seed's accounts, one an invoice. The treasury is none of them. */
export function nanoAddresses(ctx: NanoContext): AddressSource {
  const { keys, indexFile, treasury } = ctx.nano.wallet()
  const derive = (from: number, count: number) => Array.from({ length: count }, (_, step) => keys.deriveAccount(from + step))
  return {
    coin: 'xno',
    indexFile,
    treasury: () => Promise.resolve(treasury.address),
    firstIndex: TREASURY_INDEX + 1,
    session: keys,
    async skipUsed(from) {
      let first = from
      for (let isUsed = true; isUsed;) {
        const accounts = derive(first, SEARCHED)
        const addresses = accounts.map(({ address }) => address)
        const [frontiers, receivable] = [
          await ctx.nano.rpc.frontiers(addresses),
          await ctx.nano.rpc.receivable(addresses, dustThreshold('xno')),
        ]
        const last = accounts.findLast(({ address }) => frontiers.has(address) || receivable.has(address))
        isUsed = last !== undefined
        if (last !== undefined) first = last.index + 1
      }
      return first + LEFT_OUT
    },
    derive: (from, count) => Promise.resolve(derive(from, count).map(({ index, address }) => ({ index, address }))),
  }
}
