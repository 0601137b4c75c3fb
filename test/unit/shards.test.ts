import fs from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { closeContext, openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'

/*
 * What a router enforces when a collection is sharded, held over all models: no router runs where tests do. A unique
 * index must begin with the shard key. That of `_id` alone may not: ids come from chance.
 */

/** As docs/run.md says it, under "More machines". */
const SHARD_KEYS: Readonly<Record<string, { key: string; isHashed?: true }>> = {
  posts: { key: '_id', isHashed: true },
  used_challenges: { key: '_id', isHashed: true },
  share_pages: { key: 'order_id', isHashed: true },
  messages: { key: 'to', isHashed: true },
  verdicts: { key: 'claim_id' },
  reports: { key: 'post_id' },
  work_batches: { key: 'order_id' },
  work_orders: { key: 'agent_id' },
}

it('the collections that docs/run.md calls shardable have no unique index that a router would refuse', async () => {
  const url = { MONGODB_URL: 'mongodb://127.0.0.1:9/x', REDIS_URL: 'redis://127.0.0.1:9' }
  const ctx = openContext(readConfig(url, 'operator'), createLog('test', 'silent'))
  const models = Object.values(ctx.database.connection.models)
  const refused = models.flatMap(({ collection, schema }) => {
    const shard = SHARD_KEYS[collection.name]
    if (shard === undefined) return []
    const uniques = schema.indexes().filter(([, options]) => options.unique === true)
    return (
      uniques
        .map(([fields]) => Object.keys(fields))
        // No unique index begins with a hashed key.
        .filter(([first]) => shard.isHashed === true || first !== shard.key)
        .map((fields) => `${collection.name}: ${fields.join()}`)
    )
  })
  await closeContext(ctx)
  expect(refused).toEqual([])
  const names = new Set(models.map(({ collection }) => collection.name))
  expect(Object.keys(SHARD_KEYS).filter((name) => !names.has(name))).toEqual([])
})

it('docs/run.md names these keys and no other', () => {
  const docs = fs.readFileSync(path.resolve(import.meta.dirname, '../../docs/run.md'), 'utf8')
  const [, paragraph = ''] = /\nShards, ([\s\S]*?)All else stays/.exec(docs) ?? []
  const named = [...paragraph.matchAll(/`(\w+)\.(\w+)`/g)].map(([, name, key]) => `${name}.${key}`)
  expect(named.toSorted()).toEqual(
    Object.entries(SHARD_KEYS)
      .map(([name, { key }]) => `${name}.${key}`)
      .toSorted(),
  )
})
