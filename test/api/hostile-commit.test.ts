import mongoose from 'mongoose'
import { afterEach, describe, expect, it } from 'vitest'
import { readConfig } from '../../shared/foundation/config.ts'
import { openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/foundation/log.ts'
import { isolate, leaveDatabase, PATIENT } from '../support/servers.ts'

let ctx: Context
const { commitTransaction } = mongoose.mongo.ClientSession.prototype

afterEach(async () => {
  mongoose.mongo.ClientSession.prototype.commitTransaction = commitTransaction
  await leaveDatabase(ctx.database.connection)
  await ctx.close()
})

describe('a connection that the server ends just as a transaction commits', () => {
  it.each([
    ['before the commit was sent', false],
    ['after it was done', true],
  ])('leaves it committed, once: %s', async (_, isDone) => {
    const { mongodbUrl, redisUrl } = isolate()
    ctx = openContext(
      readConfig({ ...PATIENT, MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl }, 'workers'),
      createLog('test', 'silent'),
    )
    await ctx.database.whenReady()
    let commits = 0
    // What Node gives for a socket that is gone, which the driver lets through as it is.
    mongoose.mongo.ClientSession.prototype.commitTransaction = async function (
      this: mongoose.mongo.ClientSession,
      options,
    ) {
      if (++commits > 1) return commitTransaction.call(this, options)
      if (isDone) await commitTransaction.call(this, options)
      throw Object.assign(new Error('This socket has been ended by the other party'), { code: 'EPIPE' })
    }
    const counters = ctx.database.connection.collection<{ _id: string; n: number }>('counters')
    let runs = 0
    await ctx.database.transaction(async (session) => {
      runs++
      await counters.updateOne({ _id: 'a' }, { $inc: { n: 1 } }, { upsert: true, session })
    })
    expect([await counters.findOne({ _id: 'a' }), runs, commits]).toEqual([{ _id: 'a', n: 1 }, 1, 2])
  })
})
