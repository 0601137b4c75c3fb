import mongoose from 'mongoose'

type Topology = mongoose.mongo.TopologyDescription

/** Time limit of tryPrimary(). */
const LOOK_MS = 1_000

/**
 * Says why the driver found no primary, which its error's message doesn't.
 *
 * @returns undefined if the error is of another kind, or the driver has heard nothing of any server yet
 */
export function describeAway(error: unknown): string | undefined {
  const { reason } = (error ?? {}) as { reason?: Topology }
  if (!(reason?.servers instanceof Map)) return undefined
  const servers = [...reason.servers.values()]
  // The driver drops a member that names another set, and one that is of no set.
  if (servers.length === 0)
    return `no server of MONGODB_URL is a member of the set "${reason.setName ?? ''}" that it names: rs.status() on a member says which set it is of`
  const parts = servers.flatMap(({ address, type, error: serverError }) => {
    if (type === 'RSGhost')
      return [`${address} waits to be made a member of a set: run rs.initiate() on it, once`]
    return serverError === null ? [] : [`${address}: ${serverError.message}`]
  })
  if (parts.length > 0) return parts.join('; ')
  return servers.every(({ type }) => type === 'Unknown')
    ? undefined
    : 'no member is primary: an election is under way, or most members are away'
}

/** Connects to the primary once, over a connection of its own. @throws the driver's error if that fails */
export async function tryPrimary(url: string): Promise<void> {
  const client = new mongoose.mongo.MongoClient(url, {
    serverSelectionTimeoutMS: LOOK_MS,
    connectTimeoutMS: LOOK_MS,
    appName: 'agent-network',
  })
  try {
    await client.connect()
  } finally {
    await client.close().catch(() => undefined)
  }
}
