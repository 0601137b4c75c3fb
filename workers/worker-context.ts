import type { Config } from '../shared/config.ts'
import { openContext, type Context, type ContextOptions } from '../shared/context.ts'
import type { Log } from '../shared/log.ts'
import { openMoneroGateway, type MoneroGateway } from '../shared/payments/monero/monero-gateway.ts'
import { openNanoGateway, type NanoGateway } from '../shared/payments/nano/nano-gateway.ts'
import type { QueueName } from '../shared/queues.ts'

/** What a job works with: the context that it shares with the API, and the nodes and wallets that only workers know. */
export interface WorkerContext extends Context {
  /** Present where NANO_RPC_URL is set. */
  readonly nano?: NanoGateway
  /** Present where MONERO_WALLET_RPC_URL is set. */
  readonly monero?: MoneroGateway
}

export function openWorkerContext(config: Config, log: Log, options: ContextOptions = {}): WorkerContext {
  const nano = openNanoGateway(config.nano, log)
  const monero = openMoneroGateway(config, log)
  return { ...openContext(config, log, options), ...(nano === undefined ? {} : { nano }), ...(monero === undefined ? {} : { monero }) }
}

type Need = 'seal key' | 'nano node' | 'nano seed' | 'monero wallet'

/** What a queue's jobs cannot do without: such a queue is served only where it is configured, and waits for the process that has it. */
const NEEDS: Partial<Record<QueueName, Need>> = {
  'sign-seals': 'seal key',
  'sign-announcement': 'seal key',
  'watch-nano': 'nano node',
  'check-nano': 'nano node',
  'fill-nano': 'nano seed',
  'sweep-nano': 'nano seed',
  'send-nano': 'nano seed',
  'reconcile-nano': 'nano seed',
  'watch-monero': 'monero wallet',
  'check-monero': 'monero wallet',
  'fill-monero': 'monero wallet',
  'send-monero': 'monero wallet',
  'reconcile-monero': 'monero wallet',
}

/** Of the named queues, those that a process with these settings can serve. */
export function servedQueues(config: Config, names: readonly QueueName[]): QueueName[] {
  const { nano, monero, secrets } = config
  const has: Record<Need, boolean> = {
    'seal key': secrets.sealKeyFile !== undefined,
    'nano node': nano.rpcUrl !== undefined,
    'nano seed': nano.rpcUrl !== undefined && nano.seedFile !== undefined,
    'monero wallet': monero.walletRpcUrl !== undefined,
  }
  return names.filter((name) => {
    const need = NEEDS[name]
    return need === undefined || has[need]
  })
}
