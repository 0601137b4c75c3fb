import type { Client } from '../client.ts'
import { isFailedCall } from '../errors.ts'
import { findForeignChanges, type ForeignChange } from '../own-ledger.ts'
import type { Identity } from '../token-file.ts'
import { formatTime } from './format.ts'

/** How long a verb waits at most for this look at the ledger. */
const LOOK_MS = 2_000

/** The file beside the token file that says how far this agent has read its own entries. */
export const watchFilePath = (tokenFile: string): string => tokenFile.replace(/\.json$/, '.watch.json')

/**
 * Looks for new entries of the ledger about this agent that it did not make itself.
 *
 * @returns a warning for each; none if the service doesn't answer within 2 s, so that the next run looks
 *   again
 */
export async function describeForeignChanges(
  client: Client,
  identity: Identity,
  tokenFile: string,
): Promise<string[]> {
  const {
    agent_id: agentId,
    dm_public_key: ownKey,
    author_public_key: authorKey,
    old_dm_keys: oldKeys = [],
  } = identity
  const looking = client.with({ signal: AbortSignal.timeout(LOOK_MS) })
  try {
    const ownKeys = [ownKey, authorKey]
      .filter((key) => key !== undefined)
      .concat(oldKeys.map(({ dm_public_key: key }) => key))
    const changes = await findForeignChanges({
      client: looking,
      agentId,
      ownKeys,
      watchFile: watchFilePath(tokenFile),
    })
    return changes.map(describe)
  } catch (error) {
    if (!isFailedCall(error) && !(error instanceof DOMException && error.name === 'TimeoutError')) throw error
    return []
  }
}

function describe({ entry_id: id, at, kind, key }: ForeignChange): string {
  const what =
    kind === 'token_rotation'
      ? 'your token was replaced'
      : `your ${kind === 'dm_key_change' ? 'message' : 'author'} key ${key === null ? 'was taken off your card' : `was changed to ${key}`}`
  return `!!! THE LEDGER SAYS OF YOU WHAT THIS COMMAND DID NOT DO: ${what} (entry ${id}, ${formatTime(at)}). Unless you did it elsewhere, somebody acts as you, or the service does. Keep "receipt" of your id, and warn those you write with.`
}
