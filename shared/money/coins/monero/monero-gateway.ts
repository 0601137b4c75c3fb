import path from 'node:path'
import type { Config } from '../../../platform/config.ts'
import type { Context } from '../../../context.ts'
import { createSharedReads } from '../../../platform/group-commit.ts'
import type { Log } from '../../../platform/log.ts'
import { StartError } from '../../../platform/process.ts'
import { SECOND_MS } from '../../../platform/time.ts'
import type { RecordedScan } from '../../driver.ts'
import { createMoneroWallet, type MoneroWallet } from './monero-wallet.ts'

/** The venue's wallet. Its keys are in monero-wallet-rpc alone. */
export interface MoneroGateway {
  readonly wallet: MoneroWallet
  readonly indexFile: string
  /** Answers everybody who asked before it began. */
  readonly shareScan: ReturnType<typeof createSharedReads<RecordedScan>>
  /** What this process gives to nobody: it was all that there was, without a fee. */
  keptForFees: bigint
  /** What this process has sent last, and how many blocks there were then. */
  lastRelayed?: { readonly tx: string; readonly height: number }
}

export interface MoneroContext extends Context {
  readonly monero: MoneroGateway
}

/** Signing takes seconds with many inputs; a wallet far behind its daemon is out of reach meanwhile. */
const LIMIT_MS = 30 * SECOND_MS

/**
 * Opens what reaches the wallet, and what this process remembers of it.
 *
 * @returns undefined without a wallet's URL
 */
export function openMoneroGateway(config: Config, log: Log, timeoutMs = LIMIT_MS): MoneroGateway | undefined {
  const { walletRpcUrl: url } = config.monero
  if (url === undefined) return undefined
  return {
    wallet: createMoneroWallet({ url, log, timeoutMs }),
    indexFile: path.join(config.dataDir, 'monero-address-index'),
    shareScan: createSharedReads<RecordedScan>(),
    keptForFees: 0n,
  }
}

/** Narrows the context to one with a Monero wallet. @throws StartError if this process has none */
export function requireMonero<T extends Context & { monero?: MoneroGateway }>(ctx: T): T & MoneroContext {
  if (ctx.monero === undefined)
    throw new StartError('MONERO_WALLET_RPC_URL is not set, and this job needs a Monero wallet.')
  return ctx as T & MoneroContext
}
