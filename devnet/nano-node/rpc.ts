import { formatTree, parseTree, readTree, UnreadableRequest } from './json-tree.ts'
import type { NodeState } from './node-state.ts'
import { accountCommands } from './rpc-accounts.ts'
import type { Command } from './rpc-arguments.ts'
import { RpcError } from './rpc-arguments.ts'
import { blockCommands } from './rpc-blocks.ts'
import { nodeCommands } from './rpc-node.ts'
import { workCommands } from './rpc-work.ts'

const commands = new Map<string, Command>(
  Object.entries({
    ...accountCommands,
    ...blockCommands,
    ...nodeCommands,
    ...workCommands,
    stop: () => ({ success: '' }),
  }),
)

/** Refused unless control is enabled, like `process` with `force`. Not all of these are implemented here. */
const controlActions = new Set([
  'block_create',
  'receive',
  'send',
  'stop',
  'wallet_add',
  'wallet_create',
  'work_cancel',
  'work_generate',
])

/** The node's limit of opening brackets in a request, nested or not. */
const maxOpenBrackets = 20

export interface RpcAnswer {
  /** What the request asks for; empty if it can't be read. */
  readonly action: string
  /** The JSON as the node formats it. */
  readonly text: string
}

/** Carries out a request. A refusal and a request that can't be read are answers with `error`. */
export async function answerRpc(node: NodeState, body: string): Promise<RpcAnswer> {
  let action = ''
  try {
    if (body.replace(/[^[{]/g, '').length > maxOpenBrackets) throw new RpcError('Max JSON depth exceeded')
    const request = readTree(parseTree(body))
    action = request.text('action')
    const needsControl = controlActions.has(action) || (action === 'process' && request.flag('force', false))
    if (needsControl && !node.settings.enableControl) throw new RpcError('RPC control is disabled')
    const command = commands.get(action)
    if (command === undefined) throw new RpcError('Unknown command')
    return { action, text: formatTree(await command(node, request)) }
  } catch (error) {
    if (error instanceof RpcError) return { action, text: formatTree({ error: error.message }) }
    if (error instanceof UnreadableRequest)
      return { action, text: formatTree({ error: 'Unable to parse JSON' }) }
    throw error
  }
}
