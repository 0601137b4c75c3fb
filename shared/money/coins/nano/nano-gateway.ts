import type { Config } from '../../../platform/config.ts'
import type { Context } from '../../../context.ts'
import type { Log } from '../../../platform/log.ts'
import { StartError } from '../../../platform/process.ts'
import { SECOND_MS } from '../../../platform/time.ts'
import { openNanoSeed, TREASURY_INDEX, type NanoAccount, type NanoKeys } from './nano-keys.ts'
import { createNanoRpc, type NanoRpc } from './nano-rpc.ts'

export interface NanoGateway {
  readonly rpc: NanoRpc
  /** Opens the seed at its first use. @throws StartError if NANO_SEED_FILE is not set, or is no seed */
  wallet(): NanoWallet
}

export interface NanoWallet {
  readonly keys: NanoKeys
  readonly treasury: NanoAccount
  readonly representative: string | undefined
  /** Holds the highest index that may have been given out; beside the seed. */
  readonly indexFile: string
}

export interface NanoContext extends Context {
  readonly nano: NanoGateway
}

/** A node answers a batch of 1,000 accounts in well under a second; this is for one that is busy. */
const RPC_TIMEOUT_MS = 10 * SECOND_MS

/**
 * Opens what reaches the node, and the wallet when it is first asked for.
 *
 * @returns undefined without a node's URL
 */
export function openNanoGateway(settings: Config['nano'], log: Log, timeoutMs = RPC_TIMEOUT_MS) {
  const { rpcUrl, workUrl, seedFile, representative } = settings
  if (rpcUrl === undefined) return undefined
  let wallet: NanoWallet | undefined
  return {
    rpc: createNanoRpc({ url: rpcUrl, workUrl, log, timeoutMs }),
    // A process that serves none of the queues that sign never reads the seed.
    wallet(): NanoWallet {
      if (seedFile === undefined)
        throw new StartError('NANO_SEED_FILE is not set, and Nano cannot be received or sent without it.')
      if (wallet === undefined) {
        const keys = openNanoSeed(seedFile)
        const treasury = keys.deriveAccount(TREASURY_INDEX)
        wallet = { keys, treasury, representative, indexFile: `${seedFile}.index` }
      }
      return wallet
    },
  }
}

/** Narrows the context to one with a Nano node. @throws StartError if this process has none */
export function requireNano<T extends Context & { readonly nano?: NanoGateway }>(ctx: T): T & NanoContext {
  if (ctx.nano === undefined) throw new StartError('NANO_RPC_URL is not set, and this job needs a Nano node.')
  return ctx as T & NanoContext
}
