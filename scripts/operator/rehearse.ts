import type { Context } from '../../shared/context.ts'
import type { Session } from '../../shared/platform/database.ts'

/** Aborts a rehearsed transaction, and carries its result out of it. */
class RehearsalEnd extends Error {
  readonly result: unknown

  constructor(result: unknown) {
    super('the rehearsal is over')
    this.result = result
  }
}

/**
 * The context to run a use case in: `ctx` itself, or for a dry run one in which nothing is changed. There
 * each transaction runs as it would, with every check of its own and of the database, and is aborted at its
 * end; no job is enqueued. A use case that writes outside of a transaction must not be given it: that write
 * would stay.
 */
export function rehearseIf(dryRun: boolean, ctx: Context): Context {
  if (!dryRun) return ctx
  return {
    ...ctx,
    database: {
      ...ctx.database,
      async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
        try {
          await ctx.database.transaction(async (session) => {
            throw new RehearsalEnd(await work(session))
          })
        } catch (error) {
          if (error instanceof RehearsalEnd) return error.result as T
          throw error
        }
        throw new Error('a rehearsed transaction was not ended')
      },
    },
    queues: { ...ctx.queues, enqueue: () => Promise.resolve(true) },
  }
}
