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
    async skipUsed(from, isNew) {
      let first = from
      for (let last: string | undefined = ''; last !== undefined;) {
        const accounts = await derive(first, SEARCHED)
        last = await findLastUsed(ctx, accounts)
        first = (accounts.find(({ address }) => address === last)?.index ?? first - 1) + 1
      }
      // A seed that the network has never seen has given nothing away.
      const isUnseen = isNew && first === from && (await findLastUsed(ctx, [treasury])) === undefined
      return isUnseen ? from : first + LEFT_OUT
    },
    derive,
  }
}

/** The last of these addresses that has a block, or money that waits for it. */
async function findLastUsed({ nano: { rpc } }: NanoContext, accounts: readonly NanoAccount[]): Promise<string | undefined> {
  const addresses = accounts.map(({ address }) => address)
  const [frontiers, receivable] = [await rpc.frontiers(addresses), await rpc.receivable(addresses, dustThreshold('xno'))]
  return addresses.findLast((address) => frontiers.has(address) || receivable.has(address))
}
