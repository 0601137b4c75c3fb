import path from 'node:path'
import type { Config } from '../../config.ts'
import type { Context } from '../../context.ts'
import { createSharedReads } from '../../group-commit.ts'
import type { Log } from '../../log.ts'
import { StartError } from '../../process.ts'
import { SECOND_MS } from '../../time.ts'
import type { Look } from '../driver.ts'
import { createMoneroWallet, type MoneroWallet } from './monero-wallet.ts'

/** The venue's wallet. Its keys are in monero-wallet-rpc alone. */
export interface MoneroGateway {
  readonly wallet: MoneroWallet
  /** Holds the highest minor index that may have been given out. */
  readonly indexFile: string
  /** One look at the wallet answers everybody who asked before it began. */
  readonly shareLook: ReturnType<typeof createSharedReads<Look>>
  /** Payments that the last looks of this process did not find, by id, and the chain's height at the first of them. */
  missing: ReadonlyMap<string, number>
  /** Of what can be spent, what this process gives to nobody: it was all that there was, without a fee. */
  keptForFees: bigint
}

export interface MoneroContext extends Context {
  readonly monero: MoneroGateway
}

/** Signing takes seconds with many inputs; a wallet that has many blocks to catch up with is out of reach meanwhile. */
const RPC_TIMEOUT_MS = 30 * SECOND_MS

/**
 * @param timeoutMs for each call of monero-wallet-rpc
 * @returns undefined where none is configured
 */
export function openMoneroGateway(config: Config, log: Log, timeoutMs = RPC_TIMEOUT_MS): MoneroGateway | undefined {
  const { walletRpcUrl: url } = config.monero
  if (url === undefined) return undefined
  return {
    wallet: createMoneroWallet({ url, log, timeoutMs }),
    indexFile: path.join(config.dataDir, 'monero-address-index'),
    shareLook: createSharedReads<Look>(),
    missing: new Map(),
    keptForFees: 0n,
  }
}

/** @throws StartError where this process has no wallet: its queue should not have been served */
export function requireMonero<T extends Context & { readonly monero?: MoneroGateway }>(ctx: T): T & MoneroContext {
  if (ctx.monero === undefined) throw new StartError('MONERO_WALLET_RPC_URL is not set, and this job needs a Monero wallet.')
  return ctx as T & MoneroContext
}
