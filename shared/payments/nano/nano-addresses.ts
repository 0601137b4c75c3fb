import { setImmediate } from 'node:timers/promises'
import { ADDRESS_POOL } from '../../foundation/limits.ts'
import type { AddressSource } from '../address-pool.ts'
import { dustThreshold } from '../coin.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount } from './nano-keys.ts'

/** So many in a row that the chain does not know end the search. */
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
      // What was paid is in the treasury within seconds: a seed whose treasury nobody has seen has next to
      // nothing to find.
      const isSeen = (await findLastUsed(ctx, [treasury])) !== undefined
      let first = from
      for (let last: string | undefined = ''; last !== undefined;) {
        const accounts = await derive(first, isSeen ? SEARCHED : ADDRESS_POOL)
        last = await findLastUsed(ctx, accounts)
        first = (accounts.find(({ address }) => address === last)?.index ?? first - 1) + 1
      }
      return { from: first, isUsed: isSeen || first > from }
    },
    derive,
  }
}

async function findLastUsed({ nano: { rpc } }: NanoContext, accounts: readonly NanoAccount[]) {
  const addresses = accounts.map(({ address }) => address)
  const [frontiers, receivable] = [
    await rpc.frontiers(addresses),
    await rpc.receivable(addresses, dustThreshold('xno')),
  ]
  return addresses.findLast((address) => frontiers.has(address) || receivable.has(address))
}
