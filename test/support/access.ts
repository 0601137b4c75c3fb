import { mongoPrivileges, type AccessName } from '../../scripts/embedded/access.ts'
import { queueRow, type QueueName } from '../../shared/platform/queue-table.ts'

/** What a service of these queues writes, as `<action> <collection>`, and its user of MongoDB may not. */
export function lackingRights(user: string, queues: readonly QueueName[]): string[] {
  const rightsOf = (name: AccessName): string[] =>
    mongoPrivileges('db', name).flatMap(({ resource, actions }) =>
      'collection' in resource ? actions.map((action) => `${action} ${resource.collection}`) : [],
    )
  const has = new Set(rightsOf(user as AccessName))
  const needed = new Set(queues.map((name) => queueRow(name).pool))
  return [...needed].flatMap(rightsOf).filter((right) => !has.has(right))
}
