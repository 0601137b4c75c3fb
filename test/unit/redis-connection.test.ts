import { expect, it } from 'vitest'
import { tryRedis } from '../../shared/platform/redis-connection.ts'

const LIMIT_MS = 5_000

it.each([
  ['a server', 'redis://127.0.0.1:1'],
  ['sentinels', 'redis+sentinel://127.0.0.1:1/mymaster'],
  ['a cluster', 'redis+cluster://127.0.0.1:1'],
])('%s at whose address nobody listens is said to be away, not waited for', async (_, url) => {
  await expect(tryRedis(url, LIMIT_MS)).rejects.toThrow(/ECONNREFUSED|unreachable|refresh/)
})
