import type { Connection } from 'mongoose'
import { StartError } from './process.ts'

/*
 * A database that was restored from a backup knows that it is a copy, until an operator promotes it. Two
 * networks that go on from the same records would sign two chains with one key, pay twice from one wallet and
 * give one address to two buyers; so a copy answers reads and takes writes, but does none of these three.
 */

export interface CopyRecord {
  _id: 'copy'
  /** Unix seconds. */
  restored_at: number
  /** When the backup was made, and at which time of the cluster. */
  backup_at: number
  cluster_time: string
  promoted_at?: number
}

/** The collection that has a copy's record, beside the one of the schema. */
export const copiesOf = (connection: Connection) => connection.collection<CopyRecord>('schema')

/** The record of a database that is a copy; undefined if it was never restored, or was promoted since. */
export async function readCopy(connection: Connection): Promise<CopyRecord | undefined> {
  return (await copiesOf(connection).findOne({ _id: 'copy', promoted_at: { $exists: false } })) ?? undefined
}

/** Whether the database is a restored copy. Asked before every signature, payout, sweep and new address. */
export const isCopy = async (connection: Connection): Promise<boolean> =>
  (await readCopy(connection)) !== undefined

/** Throws if the database is a restored copy. @param what says what isn't done then @throws StartError */
export async function refuseCopy(connection: Connection, what: string): Promise<void> {
  if (await isCopy(connection))
    throw new StartError(
      `This database is a restored copy, so ${what}: run "operator promote" once it is to be the network.`,
    )
}
