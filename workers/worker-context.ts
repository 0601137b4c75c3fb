import type { Config } from '../shared/platform/config.ts'
import { openContext, type Context, type ContextOptions } from '../shared/context.ts'
import { createSigningState, type WithSigning } from '../shared/ledger/signing-state.ts'
import { openRinger, type Ringer } from '../shared/doorbells/ring.ts'
import type { Log } from '../shared/platform/log.ts'
import { openMoneroGateway, type MoneroGateway } from '../shared/money/coins/monero/monero-gateway.ts'
import { openNanoGateway, type NanoGateway } from '../shared/money/coins/nano/nano-gateway.ts'
import { queueRow, type Need, type QueueName } from '../shared/platform/queue-table.ts'

/** What a coin's jobs work with: the context that the API has as well, and the coins' nodes and wallets. */
export interface CoinsContext extends Context {
  /** Present if NANO_RPC_URL is set. */
  readonly nano?: NanoGateway
  /** Present if MONERO_WALLET_RPC_URL is set. */
  readonly monero?: MoneroGateway
}

/** What any job works with. */
export interface WorkerContext extends CoinsContext, WithSigning {
  /** Present in the process that rings doorbells, and in no other. */
  readonly ringer?: Ringer
}

/** Opens the context and, for each coin that is set up, its node or wallet. */
export function openWorkerContext(config: Config, log: Log, options: ContextOptions = {}): WorkerContext {
  const nano = openNanoGateway(config.nano, log)
  const monero = openMoneroGateway(config, log)
  return {
    ...openContext(config, log, options),
    signing: createSigningState(config),
    ...(nano === undefined ? {} : { nano }),
    ...(monero === undefined ? {} : { monero }),
    ...(hasDoorbellKey(config) ? { ringer: openRinger(config) } : {}),
  }
}

const hasDoorbellKey = ({ doorbells, secrets }: Config): boolean =>
  doorbells.isOn && secrets.doorbellKeyFile !== undefined

/** @throws Error in a process that has no doorbells' key, which serves none of the queues that need it */
export function requireRinger({ ringer }: WorkerContext): Ringer {
  if (ringer === undefined) throw new Error('this process rings no doorbells')
  return ringer
}

/** Of the named queues, those that a process with these settings can serve. */
export function servedQueues(config: Config, names: readonly QueueName[]): QueueName[] {
  const { nano, monero, secrets } = config
  const has: Record<Need, boolean> = {
    'seal key': secrets.sealKeyFile !== undefined,
    'nano node': nano.rpcUrl !== undefined,
    'nano node and seed': nano.rpcUrl !== undefined && nano.seedFile !== undefined,
    'monero wallet': monero.walletRpcUrl !== undefined,
    doorbells: config.doorbells.isOn,
    'doorbell key': hasDoorbellKey(config),
  }
  return names.filter((name) => {
    const { needs } = queueRow(name)
    return needs === undefined || has[needs]
  })
}
