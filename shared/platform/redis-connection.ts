import fs from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { withDeadline } from './deadline.ts'
import { omitUndefined } from './omit-undefined.ts'
import type { Log } from './log.ts'
import { QUEUE_TIMEOUT_MS } from './limits.ts'
import { StartError } from './process.ts'
import { parseRedisUrl, REDIS_URL_FORM, type RedisTarget } from './redis-url.ts'

/** One server, or the way to many; both take the same commands. */
export type RedisClient = Redis | Cluster

/**
 * Connects to Redis in the background, and reconnects for ever. A command that cannot be sent fails at once,
 * so that no request waits for Redis.
 */
export function connectFailingFast(redisUrl: string, log: Log): RedisClient {
  const options = { maxRetriesPerRequest: 1, connectTimeout: 2_000, commandTimeout: QUEUE_TIMEOUT_MS * 4 }
  return reportState(open(redisUrl, options, false), log)
}

/**
 * Connects to Redis in the background, and reconnects for ever; commands wait meanwhile, as a worker needs
 * it.
 */
export function connectWaiting(redisUrl: string, log: Log): RedisClient {
  return reportState(open(redisUrl, { maxRetriesPerRequest: null, connectTimeout: 2_000 }, true), log)
}

/** Connects to Redis once, over a connection of its own. @throws the client's error if that fails */
export async function tryRedis(redisUrl: string, limitMs: number): Promise<void> {
  const client = open(redisUrl, { maxRetriesPerRequest: 0, connectTimeout: limitMs }, false, () => null)
  try {
    await withDeadline(
      new Promise<void>((resolve, reject) => {
        client.once('ready', resolve)
        client.once('error', reject)
        client.once('end', () => reject(new Error('the connection was closed')))
      }),
      limitMs,
      () => new Error('ETIMEDOUT: it takes the connection and says nothing'),
    )
  } finally {
    client.disconnect()
  }
}

type Options = Pick<
  RedisOptions,
  'maxRetriesPerRequest' | 'connectTimeout' | 'commandTimeout' | 'username' | 'password' | 'tls'
>

/**
 * Makes the client of a server, a cluster or sentinels, as the URL says.
 *
 * @param retryStrategy the pause before a try to reconnect, in ms; null if there is to be none
 * @throws TypeError for another URL
 */
function open(
  redisUrl: string,
  options: Options,
  enableOfflineQueue: boolean,
  retryStrategy: (times: number) => number | null = pauseBefore,
): RedisClient {
  const target = parseRedisUrl(redisUrl)
  if (target === undefined) throw new TypeError(`"redisUrl" ${REDIS_URL_FORM}`)
  const { nodes, username, password, tls } = target
  const secured = tls === undefined ? undefined : readTlsFiles(tls)
  const shared: Options = {
    ...options,
    ...omitUndefined({ username, password }),
    ...(secured === undefined ? {} : { tls: secured }),
  }
  switch (target.kind) {
    case 'single':
      return new Redis({ ...shared, ...nodes[0], db: target.db, enableOfflineQueue, retryStrategy })
    case 'sentinel':
      return new Redis({
        ...shared,
        sentinels: [...nodes],
        ...omitUndefined({
          sentinelUsername: target.sentinelLogin.username,
          sentinelPassword: target.sentinelLogin.password,
        }),
        natMap: target.natMap,
        name: target.name,
        db: target.db,
        enableOfflineQueue,
        retryStrategy,
        sentinelRetryStrategy: retryStrategy,
        ...(secured === undefined ? {} : { sentinelTLS: secured, enableTLSForSentinelMode: true }),
      })
    case 'cluster':
      return new Cluster([...nodes], {
        redisOptions: shared,
        natMap: target.natMap,
        enableOfflineQueue,
        clusterRetryStrategy: retryStrategy,
        // A node's certificate carries its name, so names are not replaced by the addresses they lead to.
        dnsLookup: (address, callback) => callback(null, address),
        slotsRefreshInterval: 5_000,
      })
  }
}

/**
 * Reads the PEM files that the URL names.
 *
 * @throws StartError for a file that can't be read
 */
function readTlsFiles({
  tlsCAFile,
  tlsCertificateKeyFile,
}: NonNullable<RedisTarget['tls']>): ConnectionOptions {
  const read = (file: string): string => {
    try {
      return fs.readFileSync(file, 'utf8')
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw new StartError(`REDIS_URL: the file ${file} cannot be read (${code})`, { cause: error })
    }
  }
  const own = tlsCertificateKeyFile === undefined ? undefined : read(tlsCertificateKeyFile)
  const ca = tlsCAFile === undefined ? undefined : read(tlsCAFile)
  return omitUndefined({ ca, cert: own, key: own })
}

/**
 * The pause before a try to reconnect, in ms: 200 to 2,000, doubling.
 *
 * @param times the tries before, from 1
 */
function pauseBefore(times: number): number {
  return Math.min(100 * 2 ** Math.min(times, 5), 2_000)
}

/** Logs once that Redis is out of reach and once that it is back, not at each try. @returns the connection */
function reportState(connection: RedisClient, log: Log): RedisClient {
  let isAway = false
  connection.on('error', (error: Error) => {
    if (!isAway) log.warn({ err: error }, 'Redis is out of reach; work waits in MongoDB for the sweep')
    isAway = true
  })
  connection.on('ready', () => {
    if (isAway) log.info('Redis is back')
    isAway = false
  })
  return connection
}
