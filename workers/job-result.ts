/**
 * What a job did, for the board: counts and names, no ids of agents and no text of theirs. It is shown on the job's
 * card, and nothing reads it.
 */
export type JobResult = Readonly<Record<string, number | string | boolean>>

/** Whether a job found nothing to do: all that it counts is 0. */
export const hasDoneNothing = (result: JobResult): boolean =>
  Object.values(result).every((value) => value === 0)
