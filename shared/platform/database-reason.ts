import mongoose from 'mongoose'

type Topology = mongoose.mongo.TopologyDescription

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
    if (serverError !== null) return [`${address}: ${serverError.message}`]
    return type === 'RSSecondary' ? [`${address} is a secondary`] : []
  })
  if (servers.every(({ type, error: serverError }) => type === 'Unknown' && serverError === null))
    return undefined
  const hasSecondary = servers.some(({ type }) => type === 'RSSecondary')
  const reasons = hasSecondary
    ? ['no member is primary: an election is under way, or most members are away', ...parts]
    : parts
  return reasons.length === 0 ? undefined : reasons.join('; ')
}

/** The errors of a set's members, if each has one and that is why the driver found no primary; else none. */
export function listMemberErrors(error: unknown): readonly Error[] {
  const { reason } = (error ?? {}) as { reason?: Topology }
  if (!(reason?.servers instanceof Map)) return []
  const errors = [...reason.servers.values()].flatMap((server) => server.error ?? [])
  return errors.length === reason.servers.size ? errors : []
}

/** Connects to the primary once, over a connection of its own. @throws the driver's error if that fails */
export async function tryPrimary(url: string, limitMs: number): Promise<void> {
  const client = new mongoose.mongo.MongoClient(url, {
    serverSelectionTimeoutMS: limitMs,
    connectTimeoutMS: limitMs,
    appName: 'agent-network',
  })
  try {
    await client.connect()
  } finally {
    await client.close().catch(() => undefined)
  }
}
