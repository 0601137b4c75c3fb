import { randomUUID } from 'node:crypto'
import type { Connection } from 'mongoose'
import type { Session } from '../platform/database.ts'
import { maybe, number, only, schemaOf, some, text, textOf, type RecordOf } from '../platform/fields.ts'
import { recordsOf, type Records } from '../platform/records.ts'
import type { Coin } from './coin.ts'

/** An address of the pool (address-pool.ts), or one that money came to without an invoice. */
const addressFields = {
  _id: text,
  coin: textOf<Coin>(),
  index: number,
  /** The first index of the run that it is of (address-pool.ts); absent on older records. */
  run: maybe.number,
  address: text,
  /** `retired`: may have been given out by a database that was replaced; never given out again. */
  state: textOf<'free' | 'taken' | 'retired'>(),
  /** The AddressGiver that alone may give it out. */
  holder: maybe.text,
  /** Money that belongs to no invoice was found there. */
  unassigned: maybe.flag,
  /** Of an invoice that the database may have forgotten: when to scan it next, and until when; Unix seconds. */
  forgotten: maybe.nested({ look_after: number, until: number }),
}
export type AddressRecord = RecordOf<typeof addressFields>

/** An AddressGiver's id, and the highest index that it has given out, -1 before the first. */
export interface AddressStock {
  holder: string
  given: number
}

const addressSchema = schemaOf<AddressRecord>('addresses', addressFields)
addressSchema.index({ address: 1 }, { unique: true })
addressSchema.index({ coin: 1, state: 1, index: 1 })
addressSchema.index({ coin: 1, holder: 1, index: 1 }, only({ state: 'free' }, 'stock'))
addressSchema.index({ coin: 1, index: 1 }, only({ unassigned: true }, 'unassigned'))
addressSchema.index({ coin: 1, 'forgotten.look_after': 1 }, only({ forgotten: some }, 'forgotten'))

/** A process remembers the last 10,000 indexes given out of a run, and gives out none that lies further back. */
const REMEMBERED = 10_000

/** A process that gives out addresses, and what it has given out, by database, coin and run. */
export interface AddressGiver {
  readonly id: string
  readonly given: Map<string, { indexes: Set<number>; highest: number }>
}

/** Makes a giver that has given out nothing. */
export const newAddressGiver = (): AddressGiver => ({ id: randomUUID(), given: new Map() })

/** It outlives every store: a process must not forget what it gave out when it connects anew. */
export const thisProcess = newAddressGiver()

/** Creates the store of addresses, out of which `giver` gives out its own. */
export function createAddressStore(connection: Connection, giver: AddressGiver = thisProcess) {
  const addresses = recordsOf(connection.model<AddressRecord>('Address', addressSchema))
  return {
    models: { addresses: addresses.model },
    /** The addresses with these indexes. */
    listAt: (coin: Coin, indexes: readonly number[]) =>
      addresses.all({ _id: { $in: indexes.map((index) => `${coin}:${index}`) } }),
    listByAddress: (coin: Coin, texts: readonly string[]) =>
      addresses.all({ address: { $in: [...texts] }, coin }),
    ...stockOf(addresses, connection, giver),
    ...poolOf(addresses),
    ...addressesToScan(addresses),
  }
}

/** What one process gives out. */
function stockOf(addresses: Records<AddressRecord>, connection: Connection, giver: AddressGiver) {
  const holder = giver.id
  // A connection has no name before it is opened.
  const placesOf = (coin: Coin) => `${connection.name} ${coin} `
  const givenOf = (coin: Coin, run = 0) => {
    const place = `${placesOf(coin)}${run}`
    const given = giver.given.get(place) ?? { indexes: new Set<number>(), highest: -1 }
    giver.given.set(place, given)
    return given
  }
  return {
    /** Takes an address of this process's stock, for good; undefined if there is none left. */
    async take(coin: Coin): Promise<AddressRecord | undefined> {
      for (;;) {
        const free = { coin, holder, state: 'free' as const }
        const options = { sort: { index: 1 }, returnDocument: 'after' } as const
        const taken = addresses.model.findOneAndUpdate(free, { $set: { state: 'taken' } }, options)
        const address = await taken.lean<AddressRecord>()
        if (address === null) return undefined
        const given = givenOf(coin, address.run)
        // A database that was restored beneath this process may call an address free that was given out.
        if (given.indexes.has(address.index) || address.index <= given.highest - REMEMBERED) continue
        given.indexes.add(address.index)
        given.highest = Math.max(given.highest, address.index)
        if (given.indexes.size > 2 * REMEMBERED)
          for (const index of given.indexes)
            if (index <= given.highest - REMEMBERED) given.indexes.delete(index)
        return address
      }
    },
    /** This process's holder id, and the highest index that it has given out. */
    stock(coin: Coin): AddressStock {
      const places = [...giver.given].filter(([place]) => place.startsWith(placesOf(coin)))
      return { holder, given: Math.max(-1, ...places.map(([, { highest }]) => highest)) }
    },
  }
}

/** What is asked and noted of the addresses that were made, for whichever process. */
function poolOf(addresses: Records<AddressRecord>) {
  return {
    /** How many free addresses each holder has. */
    async countFree(coin: Coin): Promise<Map<string, number>> {
      const found = await addresses.model.aggregate<{ _id: string | null; count: number }>([
        { $match: { coin, state: 'free' } },
        { $group: { _id: '$holder', count: { $sum: 1 } } },
      ])
      return new Map(found.map(({ _id, count }) => [_id ?? '', count]))
    },
    /** The highest index on record; -1 if there is none. */
    async highestIndex(coin: Coin): Promise<number> {
      const states = ['free', 'taken', 'retired'] as const
      const reading = { fields: { index: 1 }, sort: { index: -1 } } as const
      const tops = await Promise.all(states.map((state) => addresses.one({ coin, state }, reading)))
      return Math.max(-1, ...tops.map((top) => top?.index ?? -1))
    },
    /** Whether there is an address on record with an index from `from` to `to`. */
    async hasAnyIn(coin: Coin, from: number, to: number): Promise<boolean> {
      const states = ['free', 'taken', 'retired'] as const
      const filter = { coin, state: { $in: [...states] }, index: { $gte: from, $lte: to } }
      return (await addresses.model.exists(filter)) !== null
    },
    /** Indexes on record in a state above `after`, in their order. */
    async listIndexes(coin: Coin, state: AddressRecord['state'], after: number, limit: number) {
      const filter = { coin, state, index: { $gt: after } }
      const found = await addresses.all(filter, { fields: { index: 1 }, sort: { index: 1 }, limit })
      return found.map(({ index }) => index)
    },
    /** @throws a duplicate-key error if an index or address is on record */
    add: (records: readonly AddressRecord[], session?: Session) => addresses.insert(records, session),
    /** Retires all free addresses, so that none of them is ever given out. */
    retireFree: (coin: Coin, session?: Session) =>
      addresses.changeAll({ coin, state: 'free' }, { $set: { state: 'retired' } }, session),
  }
}

/** What is asked and noted of addresses that no invoice on record has, and where money may be. */
function addressesToScan(addresses: Records<AddressRecord>) {
  return {
    /** Marks an address as one where money that belongs to no invoice was found. */
    noteUnassigned: (coin: Coin, { index, address }: Pick<AddressRecord, 'index' | 'address'>) =>
      addresses.put(
        { _id: `${coin}:${index}` },
        { $set: { unassigned: true }, $setOnInsert: { coin, index, address, state: 'retired' } },
      ),
    listUnassigned: (coin: Coin) => addresses.all({ coin, unassigned: true }, { sort: { index: 1 } }),
    /** Marks addresses of invoices that may be forgotten, so that they are scanned until then. */
    async noteForgotten(
      coin: Coin,
      found: readonly Pick<AddressRecord, 'index' | 'address'>[],
      until: number,
    ) {
      const writes = found.map(({ index, address }) => ({
        updateOne: {
          filter: { _id: `${coin}:${index}` },
          update: {
            $set: { forgotten: { look_after: 0, until } },
            $setOnInsert: { coin, index, address, state: 'retired' as const },
          },
          upsert: true,
        },
      }))
      if (writes.length > 0) await addresses.model.bulkWrite(writes)
    },
    /** Those of them that are to be scanned now. */
    listForgottenDue: (coin: Coin, now: number, limit: number) =>
      addresses.all(
        { coin, 'forgotten.look_after': { $lte: now } },
        { sort: { 'forgotten.look_after': 1 }, limit },
      ),
    /** Puts their next scan off; those whose time is over are scanned no more. */
    async postponeForgotten(found: readonly AddressRecord[], now: number, scanAfter: number): Promise<void> {
      const among = { _id: { $in: found.map(({ _id }) => _id) } }
      await addresses.changeAll(
        { ...among, 'forgotten.until': { $gt: now } },
        { $set: { 'forgotten.look_after': scanAfter } },
      )
      await addresses.changeAll({ ...among, 'forgotten.until': { $lte: now } }, { $unset: { forgotten: 1 } })
    },
  }
}
