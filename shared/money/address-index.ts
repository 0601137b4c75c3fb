import { z } from 'zod'
import { readJsonFile } from '../platform/durable-file.ts'

/**
 * The *index file* lies beside the seed, so restoring the database doesn't reset it. It names the runs
 * (address-pool.ts), in the order in which they began, so that a reconciliation finds money at addresses that
 * the database has forgotten. `highest` is the highest index in any of them; `at` is when it was written, in
 * Unix seconds.
 */
const run = z.tuple([z.int().min(0), z.int().min(0)])
const indexFile = z.object({
  highest: z.int().min(-1),
  at: z.int().min(0).optional(),
  runs: z.array(run).optional(),
})
export type IndexFile = z.output<typeof indexFile>
/** The first and the last index of a run. */
export type Run = z.output<typeof run>

/** The runs that the index file names, the oldest first; of an older version's file, one with all. */
export const runsOf = ({ highest, runs }: IndexFile): Run[] => runs ?? (highest < 0 ? [] : [[0, highest]])

/** Reads the index file; without a file, `highest` is -1. @throws Error if it isn't as it was written */
export function readIndexFile(file: string): IndexFile {
  const broken = `The address index ${file} does not hold what was written there; restore it from where it was kept.`
  return readJsonFile(file, indexFile, (cause) => new Error(broken, { cause })) ?? { highest: -1 }
}
