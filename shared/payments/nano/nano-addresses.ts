import { setImmediate } from 'node:timers/promises'
import type { AddressSource } from '../address-pool.ts'
import { dustThreshold } from '../coin.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount } from './nano-keys.ts'

/** A process that begins leaves out so many indexes: addresses that were given out and never paid leave no trace in the chain. */
const LEFT_OUT = 500
/** So many indexes in a row that the chain does not know end the search for the last one that it knows. */
const SEARCHED = 1_000
/** A key takes a millisecond: the worker's other jobs go on between so many of them. */
const DERIVED_AT_ONCE = 20

/** Where Nano's addresses come from: the seed's accounts, one an invoice. The treasury is none of them. */
export function nanoAddresses(ctx: NanoContext): AddressSource {
  const { keys, indexFile, treasury } = ctx.nano.wallet()
  const derive = async (from: number, count: number): Promise<NanoAccount[]> => {
    const accounts: NanoAccount[] = []
    while (accounts.length < count) {
      accounts.push(keys.deriveAccount(from + accounts.length))
      if (accounts.length % DERIVED_AT_ONCE === 0) await setImmediate()
    }
    return accounts
  }
  return {
    coin: 'xno',
    indexFile,
    treasury: () => Promise.resolve(treasury.address),
    firstIndex: TREASURY_INDEX + 1,
    session: keys,
    async skipUsed(from) {
      let first = from
      for (let isUsed = true; isUsed;) {
        const accounts = await derive(first, SEARCHED)
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
    derive,
  }
}
