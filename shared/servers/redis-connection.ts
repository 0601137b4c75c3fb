import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { Log } from '../foundation/log.ts'
import { QUEUE_TIMEOUT_MS } from '../foundation/limits.ts'
import { parseRedisUrl, REDIS_URL_FORM } from '../foundation/redis-url.ts'

/** One server, or the way to many; both take the same commands. */
export type RedisClient = Redis | Cluster

/**
 * Retries for ever; a command that cannot be sent now fails now, so that nothing waits on a Redis that is
 * away.
 */
export function connectFailingFast(redisUrl: string, log: Log): RedisClient {
  const options = { maxRetriesPerRequest: 1, connectTimeout: 2_000, commandTimeout: QUEUE_TIMEOUT_MS * 4 }
  return reportState(open(redisUrl, options, false), log)
}

/** Retries for ever and lets commands wait: what a worker wants. */
export function connectWaiting(redisUrl: string, log: Log): RedisClient {
  return reportState(open(redisUrl, { maxRetriesPerRequest: null, connectTimeout: 2_000 }, true), log)
}

type Options = Pick<
  RedisOptions,
  'maxRetriesPerRequest' | 'connectTimeout' | 'commandTimeout' | 'username' | 'password' | 'tls'
>

function open(redisUrl: string, options: Options, enableOfflineQueue: boolean): RedisClient {
  const target = parseRedisUrl(redisUrl)
  if (target === undefined) throw new TypeError(`"redisUrl" ${REDIS_URL_FORM}`)
  const { nodes, username, password, tls } = target
  const shared: Options = {
    ...options,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
  }
  switch (target.kind) {
    case 'single':
      return new Redis({ ...shared, ...nodes[0], db: target.db, enableOfflineQueue, retryStrategy })
    case 'sentinel':
      return new Redis({
        ...shared,
        sentinels: [...nodes],
        name: target.name,
        db: target.db,
        enableOfflineQueue,
        retryStrategy,
        sentinelRetryStrategy: retryStrategy,
        ...(tls ? { enableTLSForSentinelMode: true } : {}),
      })
    case 'cluster':
      return new Cluster([...nodes], {
        redisOptions: shared,
        enableOfflineQueue,
        clusterRetryStrategy: retryStrategy,
        // A node's certificate carries its name, so names are not replaced by the addresses they lead to.
        dnsLookup: (address, callback) => callback(null, address),
        slotsRefreshInterval: 5_000,
      })
  }
}

function retryStrategy(times: number): number {
  return Math.min(100 * 2 ** Math.min(times, 5), 2_000)
}

/** Says once that Redis went away and once that it is back, not at each try. */
function reportState(connection: RedisClient, log: Log): RedisClient {
  let away = false
  connection.on('error', (error: Error) => {
    if (!away) log.warn({ err: error }, 'Redis is out of reach; work waits in MongoDB for the sweep')
    away = true
  })
  connection.on('ready', () => {
    if (away) log.info('Redis is back')
    away = false
  })
  return connection
}
