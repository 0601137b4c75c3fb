import net, { type AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { HOUR_MS } from '../../shared/platform/time.ts'
import { isolate } from '../support/servers.ts'

/* A router answers `hello` itself, with its own clock. No router runs here: a relay changes that answer alone. */

let ctx: Context | undefined
let relay: net.Server | undefined
afterEach(async () => {
  if (ctx !== undefined) await closeContext(ctx)
  relay?.close()
})

/** A BSON date of this name: its type, the name, and 8 bytes. */
const LOCAL_TIME = Buffer.from('\u0009localTime\0')

/** Puts the clock in each answer to `hello` an hour ahead. */
function setAhead(answer: Buffer): Buffer {
  const at = answer.indexOf(LOCAL_TIME)
  if (at >= 0 && answer.includes('isWritablePrimary')) {
    const place = at + LOCAL_TIME.length
    answer.writeBigInt64LE(answer.readBigInt64LE(place) + BigInt(HOUR_MS), place)
  }
  return answer
}

/** Starts the relay. @returns the URL by which it leads to the database */
async function startRelay(mongodbUrl: string): Promise<string> {
  const { hostname, port, pathname } = new URL(mongodbUrl)
  relay = net.createServer((client) => {
    const server = net.connect(Number(port), hostname)
    client.pipe(server)
    server.on('data', (answer) => client.write(setAhead(answer)))
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
  })
  await new Promise<void>((resolve) => relay?.listen(0, '127.0.0.1', resolve))
  const { port: relayPort } = relay.address() as AddressInfo
  return `mongodb://127.0.0.1:${relayPort}${pathname}?directConnection=true`
}

it('what goes by the clock goes by that of the primary, whatever a router in between says', async () => {
  const { mongodbUrl, redisUrl } = isolate()
  const url = await startRelay(mongodbUrl)
  const config = readConfig({ MONGODB_URL: url, REDIS_URL: redisUrl }, 'operator')
  ctx = openContext(config, createLog('test', 'silent'))
  await ctx.database.whenReady()
  const { localTime } = await ctx.database.connection.getClient().db().admin().command({ hello: 1 })
  expect((localTime as Date).getTime() - Date.now()).toBeGreaterThan(HOUR_MS / 2)
  expect(Math.abs(ctx.database.now() - Date.now())).toBeLessThan(HOUR_MS / 2)
})
