import type { Context } from '../../shared/context.ts'
import type { Session } from '../../shared/servers/database.ts'

/** Carries what a rehearsed transaction came to out of the transaction, which it ends. */
class Rehearsed extends Error {
  readonly result: unknown

  constructor(result: unknown) {
    super('the rehearsal is over')
    this.result = result
  }
}

/**
 * A context for a dry run of a use case that makes its changes in transactions: each runs as it would, with
 * every check of its own and of the database, and is aborted at its end. No job is enqueued. A use case that
 * writes outside of a transaction must not be rehearsed: that write would stay.
 */
export function rehearse(ctx: Context): Context {
  return {
    ...ctx,
    database: {
      ...ctx.database,
      async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
        try {
          await ctx.database.transaction(async (session) => {
            throw new Rehearsed(await work(session))
          })
        } catch (error) {
          if (error instanceof Rehearsed) return error.result as T
          throw error
        }
        throw new Error('a rehearsed transaction was not ended')
      },
    },
    queues: { ...ctx.queues, enqueue: () => Promise.resolve(true) },
  }
}
