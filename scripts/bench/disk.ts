import mongoose from 'mongoose'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import { newId } from '../../shared/foundation/ids.ts'
import { openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/foundation/config.ts'
import { createLog } from '../../shared/foundation/log.ts'
import { numberEntry, viewEntry } from '../../shared/ledger/entry.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import { postEntry } from '../../shared/posts/post-service.ts'
import { viewPostWithoutHandle } from '../../shared/posts/post.ts'
import { startServers } from '../embedded/temporary.ts'
import { compareWith, type Figure } from './figure.ts'
import { makeAgent, makeClaim, makeMessage, makePost } from './records.ts'

const POSTS = 1_000_000
const AUTHORS = 10_000
const RECORDS = 20_000
const BATCH = 5_000
const POST_BODY = 'A post of a usual length. '.repeat(12)

type Db = mongoose.mongo.Db

/**
 * Measures how many bytes on disk posts and their entries take beside their lines of JSON, and a record of
 * each kind beside its document's BSON, all with their indexes. `DISK_POSTS` makes it fewer posts.
 */
export async function benchDisk(): Promise<Figure[]> {
  const posts = Number(process.env['DISK_POSTS'] ?? POSTS)
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
      const value = (await bytesOnDisk(db, [name])) / count
      figures.push(
        compareWith(
          { name: 'its document, not compressed', value: bytes / count },
          { name: `disk: one of ${name}, with its indexes`, value, unit: 'bytes', better: 'lower' },
        ),
      )
    }
    // Their place in the files is used again.
    for (const name of ['posts', 'entries']) await db.collection(name).deleteMany({})
    return [await benchPosts(db, posts), ...figures]
  } finally {
    await ctx.close()
    await servers.stop()
  }
}

/**
 * Stores posts as the service does: each with its pending entry, which is then numbered and taken out. Their
 * reference is the lines of JSON in which the API gives posts and entries.
 */
async function benchPosts(db: Db, count: number): Promise<Figure> {
  const authors = Array.from({ length: AUTHORS }, () => newId('agent'))
  const posts = db.collection<{ _id: string }>('posts')
  const entries = db.collection<{ _id: number }>('entries')
  let jsonBytes = 0
  for (let from = 0; from < count; from += BATCH) {
    const made = Array.from({ length: Math.min(BATCH, count - from) }, (_, place) => ({
      ...makePost(authors[Math.floor(Math.random() * AUTHORS)] ?? '', makeText(from + place)),
      salt: newSalt(),
    }))
    const pending = made.map(postEntry)
    const numbered = pending.map((entry, place) => numberEntry(entry, from + place + 1))
    await posts.insertMany(
      made.map((post, place) => ({ ...post, pending: [pending[place]] })),
      { ordered: false },
    )
    await entries.insertMany(numbered, { ordered: false })
    await posts.updateMany({ _id: { $in: made.map(({ _id }) => _id) } }, { $unset: { pending: 1 } })
    for (const line of [...made.map(viewPostWithoutHandle), ...numbered.map(viewEntry)])
      jsonBytes += Buffer.byteLength(JSON.stringify(line)) + 1
  }
  return compareWith(
    { name: 'their lines of JSON, as the API gives them', value: jsonBytes / 2 ** 20 },
    {
      name: `disk: ${count} posts and their entries, with their indexes`,
      value: (await bytesOnDisk(db, ['posts', 'entries'])) / 2 ** 20,
      unit: 'MiB',
      better: 'lower',
      goal: 2.5,
    },
  )
}

/** The files of these collections and of their indexes, as of now. */
async function bytesOnDisk(db: Db, names: readonly string[]): Promise<number> {
  await db.admin().command({ fsync: 1 }) // a checkpoint
  let bytes = 0
  for (const name of names) {
    const { storageSize, totalIndexSize } = (await db.command({ collStats: name })) as Record<string, number>
    bytes += (storageSize ?? 0) + (totalIndexSize ?? 0)
  }
  return bytes
}

const WORDS =
  'agent answer ask block bond buy chain claim coin day deliver find fee feed give hash hour key leaf ledger list market message mine month name node number offer open order page pass pay post price proof proposal puzzle read root seal sell send share sign sum text time token translate trust verdict vote wait week work write year'.split(
    ' ',
  )

/** A text of 50 to 400 characters of words and numbers, another one for each index. */
function makeText(index: number): string {
  const length = 50 + ((index * 7_919) % 350)
  let text = `${index}`
  while (text.length < length) {
    const word = WORDS[Math.floor(Math.random() * WORDS.length)]
    text += Math.random() < 0.1 ? ` ${Math.floor(Math.random() * 1e6)}` : ` ${word}`
  }
  return text
}
