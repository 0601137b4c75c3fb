import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { change } from '../../shared/platform/change.ts'
import { openDatabase, orOvertaken, Overtaken, type Database } from '../../shared/platform/database.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { createLog } from '../../shared/platform/log.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { isolate } from '../support/servers.ts'

/** An account, whose sum is that of its moves: each change writes both. */
interface Account {
  _id: string
  sum: number
}

let database: Database
const accounts = () => database.connection.collection<Account>('accounts')
const moves = () => database.connection.collection<Account>('moves')

beforeAll(async () => {
  database = openDatabase({
    now: Date.now,
    url: isolate().mongodbUrl,
    log: createLog('test', 'silent'),
    timeoutMs: PATIENCE_MS,
    prepare: async (connection) => {
      await connection.createCollection('accounts')
      await connection.createCollection('moves')
    },
  })
  await database.whenReady()
})
beforeEach(async () => {
  await moves().deleteMany({})
  await accounts().deleteMany({})
  await accounts().insertOne({ _id: 'a', sum: 0 })
})
afterAll(async () => {
  await database.connection.dropDatabase()
  await database.close()
})

const read = async () => (await accounts().findOne({ _id: 'a' }))?.sum ?? 0

/** Adds 1 to the account; `between` happens between the two writes of the transaction. */
const addOne = (decide = (sum: number) => sum + 1, between = async () => {}) =>
  change({
    now: () => 0,
    read,
    decide,
    store: (sum, before) =>
      database.transaction(async (session) => {
        await orOvertaken(moves().insertOne({ _id: `move ${sum}`, sum: 1 }, { session }))
        await between()
        const asRead = { _id: 'a', sum: before }
        const { matchedCount } = await accounts().updateOne(asRead, { $set: { sum } }, { session })
        if (matchedCount === 0) throw new Overtaken('the account has changed since it was read')
      }),
  })
const stored = async () => [await read(), await moves().countDocuments()]

describe('a change on the database', () => {
  it('counts once each, of many at the same time', async () => {
    await Promise.all(Array.from({ length: 12 }, () => addOne()))
    expect(await stored()).toEqual([12, 12])
  })

  it('that another overtakes between its two writes stores neither of them, and then both', async () => {
    let isFirst = true
    await addOne(undefined, async () => {
      if (isFirst) await accounts().updateOne({ _id: 'a' }, { $inc: { sum: 100 } })
      isFirst = false
    })
    expect(await stored()).toEqual([101, 1])
    expect(await moves().findOne()).toMatchObject({ _id: 'move 101' })
  })

  it('that fails between its two writes leaves nothing behind, and may be made again', async () => {
    const failed = addOne(undefined, async () => {
      throw new Error('the process is dying')
    })
    await expect(failed).rejects.toThrow('dying')
    expect(await stored()).toEqual([0, 0])
    await addOne()
    expect(await stored()).toEqual([1, 1])
  })

  it('that is refused by the decision stores nothing', async () => {
    const refused = addOne(() => {
      throw new Refusal('wrong_state', 'No.')
    })
    await expect(refused).rejects.toMatchObject({ code: 'wrong_state' })
    expect(await stored()).toEqual([0, 0])
  })
})
