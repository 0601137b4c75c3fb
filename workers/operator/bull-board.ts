import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { ExpressAdapter } from '@bull-board/express'
import type { Queue } from 'bullmq'
import type { RequestHandler } from 'express'
import { isInUse } from '../../shared/platform/queue-state.ts'
import { queueRow, type QueueName } from '../../shared/platform/queue-table.ts'

/**
 * A queue on the board, which warns of one that nobody serves only if it is in use: those of a coin that this
 * network doesn't have need no worker.
 */
class QueueOnBoard extends BullMQAdapter {
  readonly #queue: Queue

  constructor(queue: Queue, options: ConstructorParameters<typeof BullMQAdapter>[1]) {
    super(queue, options)
    this.#queue = queue
  }

  /** @returns null if it doesn't matter whether there are any */
  override async getWorkers() {
    const workers = await super.getWorkers()
    return workers?.length === 0 && !(await isInUse(this.#queue)) ? null : workers
  }
}

/**
 * Makes Bull Board over these queues, as an Express router below /queues.
 *
 * @param subjectOf gives the id of the record that a job's data is about
 */
export function createBoard(
  queues: readonly Queue[],
  readOnlyMode: boolean,
  subjectOf: (data: unknown) => string | undefined,
): RequestHandler {
  const adapter = new ExpressAdapter()
  adapter.setBasePath('/queues')
  const externalJobUrl = ({ id, data }: { id?: unknown; data: unknown }) => ({
    href: `/show/${encodeURIComponent(subjectOf(data) ?? String(id))}`,
    displayText: 'operator show',
  })
  createBullBoard({
    queues: queues.map(
      (queue) =>
        new QueueOnBoard(queue, { readOnlyMode, externalJobUrl, description: describeQueue(queue.name) }),
    ),
    serverAdapter: adapter,
    options: {
      uiConfig: {
        boardTitle: 'Agent network',
        hideDocsLink: true,
        miscLinks: [{ text: 'Failed jobs by kind', url: '/failed' }],
      },
    },
  })
  return adapter.getRouter() as RequestHandler
}

/**
 * What a queue does, and what its workers need, so that nobody looks for the workers of a coin that this
 * network doesn't have.
 */
function describeQueue(name: string): string {
  const { does, needs } = queueRow(name as QueueName)
  return `${does[0]?.toUpperCase()}${does.slice(1)}${needs === undefined ? '' : `; served by workers with a ${needs}`}`
}
