import mongoose from 'mongoose'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import { newId } from '../../shared/foundation/ids.ts'
import { openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/foundation/config.ts'
import { createLog } from '../../shared/foundation/log.ts'
import { numberEntry } from '../../shared/ledger/entry.ts'
import { postEntry } from '../../shared/posts/post-service.ts'
import { startServers } from '../embedded/temporary.ts'
import { compareWith, type Figure } from './figure.ts'
import { makeAgent, makeClaim, makeMessage, makePost } from './records.ts'

const RECORDS = 20_000
const BATCH = 5_000
const POST_BODY = 'A post of a usual length. '.repeat(12)

/**
 * Measures how many bytes on disk a record of each kind takes, with its indexes, beside its document's BSON.
 */
export async function benchDisk(): Promise<Figure[]> {
  const servers = await startServers(() => undefined)
  const env = { MONGODB_URL: servers.mongod.url, REDIS_URL: servers.redis.url }
  const ctx = openContext(
    readConfig({ ...env, CHALLENGE_SECRET: 'c0'.repeat(32) }, 'api'),
    createLog('bench', 'silent'),
  )
  try {
    await ctx.database.whenReady()
    const db = ctx.database.connection.getClient().db(ctx.database.connection.name)
    const stored = toStoredToken(newToken())
    const agentId = newId('agent')
    const makers: Record<string, (index: number) => { _id: unknown }> = {
      agents: (index) => makeAgent(index, { ...stored, token_key: index.toString(16).padStart(16, '0') }),
      posts: () => makePost(agentId, POST_BODY),
      claims: () => makeClaim(agentId),
      messages: () => makeMessage(agentId, newId('agent'), 'b'.repeat(540)),
      entries: (index) => numberEntry(postEntry(makePost(agentId, POST_BODY)), index + 1),
      // A page of a thousand nonces.
      share_pages: (index) => ({
        _id: `${newId('work_order')}/${String(index).padStart(9, '0')}`,
        order_id: newId('work_order'),
        batch_ids: [newId('work_batch')],
        nonces: Array.from({ length: 1_000 }, () => Math.floor(Math.random() * 2 ** 40)).join(' '),
      }),
      work_batches: () => ({
        _id: newId('work_batch'),
        order_id: newId('work_order'),
        agent_id: agentId,
        at_ms: Date.now(),
        state: 'judged',
        accepted: 500,
        outcomes: '',
        count: 500,
        forget_at: new Date(Date.now() + 86_400_000),
      }),
      used_challenges: (index) => ({
        _id: `challenge-${index}-${newId('agent')}`,
        expires: new Date(Date.now() + 4_200_000),
      }),
    }
    const figures: Figure[] = []
    for (const [name, make] of Object.entries(makers)) {
      const count = name === 'share_pages' ? RECORDS / 20 : RECORDS
      const collection = db.collection<{ _id: unknown }>(name)
      let bytes = 0
      for (let from = 0; from < count; from += BATCH) {
        const documents = Array.from({ length: Math.min(BATCH, count - from) }, (_, place) =>
          make(from + place),
        )
        for (const document of documents) bytes += mongoose.mongo.BSON.calculateObjectSize(document)
        await collection.insertMany(documents, { ordered: false })
      }
      // A checkpoint, after which the sizes on disk are of now.
      await db.admin().command({ fsync: 1 })
      const { storageSize, totalIndexSize } = (await db.command({ collStats: name })) as Record<
        string,
        number
      >
      const value = ((storageSize ?? 0) + (totalIndexSize ?? 0)) / count
      figures.push(
        compareWith(
          { name: 'its document, not compressed', value: bytes / count },
          { name: `disk: one of ${name}, with its indexes`, value, unit: 'bytes', better: 'lower' },
        ),
      )
    }
    return figures
  } finally {
    await ctx.close()
    await servers.stop()
  }
}
