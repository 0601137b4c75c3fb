/** What `dbStats` says of a disk, in bytes; a router says it of each shard, under `raw`. */
interface DiskStats {
  fsTotalSize?: unknown
  fsUsedSize?: unknown
  raw?: Readonly<Record<string, DiskStats>>
}

/**
 * How much is free on the disk of the database; of several shards, where least is.
 *
 * @param stats the answer of `dbStats`
 * @returns undefined if it doesn't say so, or not of each shard
 */
export function freeBytesOf({ fsTotalSize: total, fsUsedSize: used, raw }: DiskStats): number | undefined {
  if (typeof total === 'number' && typeof used === 'number' && total > 0) return total - used
  const shards = Object.values(raw ?? {}).map(freeBytesOf)
  const known = shards.filter((free) => free !== undefined)
  return known.length === 0 || known.length < shards.length ? undefined : Math.min(...known)
}
