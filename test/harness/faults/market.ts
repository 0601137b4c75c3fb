import { setTimeout as sleep } from 'node:timers/promises'
import { runOperator } from '../money/operator.ts'
import { treasurySends } from '../money/watch.ts'
import type { Market } from '../money/world.ts'
import { TREASURY_SEED } from '../testbed/coins.ts'
import type { Drawn, Injected } from './fault.ts'

/** How long to wait for a block of the service that is not confirmed yet. */
const UNCONFIRMED_WAIT_MS = 15_000
/** How long to wait until the service offers a block. */
const OFFERED_WITHIN_MS = 10_000
/**
 * How far a worker's clock jumps: longer than the service goes on with a refused block before it tells the
 * operator.
 */
const CLOCK_JUMP_MS = 11 * 60_000
const COIN_SETTINGS = ['NANO_RPC_URL', 'NANO_WS_URL', 'NANO_SEED_FILE']

/**
 * Takes the treasury's newest send, and what stands on it, out of the ledger; it is back at the end if
 * `comesBack`.
 */
export function hideNewestSend(market: Market, comesBack: boolean): Injected | undefined {
  const { chain, doubtedSends } = market
  const block = treasurySends(market).at(-1)
  if (block === undefined) return undefined
  const hidden = chain.hide(block.hash)
  for (const hash of chain.hashesOf(hidden)) doubtedSends.add(hash)
  return {
    target: `${block.hash} and what stands on it: ${hidden.length} blocks`,
    heal: () => (comesBack ? chain.bringBack(hidden) : undefined),
  }
}

/**
 * Confirms another block in the place of the treasury's next unconfirmed send; the send is back at the end.
 * In between the operator reconciles, and so accepts what the node shows, which is wrong.
 */
export async function replaceNewestSend(market: Market, { lastsMs }: Drawn): Promise<Injected | undefined> {
  const { chain, treasury, doubtedSends } = market
  const hidden =
    treasury === undefined
      ? undefined
      : await chain.replaceUnconfirmed(TREASURY_SEED, treasury, UNCONFIRMED_WAIT_MS)
  if (hidden === undefined) return undefined
  for (const hash of chain.hashesOf(hidden)) doubtedSends.add(hash)
  const reconciled = sleep(lastsMs / 2).then(() => runOperator(market, 'reconcile', 'xno'))
  reconciled.catch(() => undefined) // told when it is healed
  return {
    target: chain.hashesOf(hidden).join(', '),
    async heal() {
      await reconciled
      chain.bringBack(hidden)
    },
  }
}

/** Runs the workers without the coin. */
export async function switchCoinOff({ testbed: { workers, env } }: Market): Promise<Injected> {
  const restartWith = async (settings: Record<string, string | undefined>): Promise<void> => {
    for (const part of workers) {
      part.useSettings(settings)
      await part.restart()
    }
  }
  await restartWith(Object.fromEntries(COIN_SETTINGS.map((name) => [name, undefined])))
  return {
    target: 'the workers',
    heal: () => restartWith(Object.fromEntries(COIN_SETTINGS.map((name) => [name, env[name]]))),
  }
}

/** Makes the node refuse all blocks, and after the first one shifts the workers' clock by CLOCK_JUMP_MS. */
export async function refuseBlocks({ chain, testbed }: Market): Promise<Injected | undefined> {
  const before = chain.refusals()
  chain.refuseBlocks(true)
  const untilMs = performance.now() + OFFERED_WITHIN_MS
  while (chain.refusals() === before && performance.now() < untilMs) await sleep(50)
  if (chain.refusals() === before) {
    chain.refuseBlocks(false)
    return undefined
  }
  for (const part of testbed.workers) part.shiftClock(CLOCK_JUMP_MS)
  return {
    target: "the treasury's blocks",
    heal() {
      chain.refuseBlocks(false)
      for (const part of testbed.workers) part.shiftClock(0)
    },
  }
}

/** Copies the database, and at the end puts the copy in its place; agents wait meanwhile. */
export async function restore(market: Market, { lastsMs }: Drawn): Promise<Injected> {
  const { testbed } = market
  await testbed.backUp()
  return {
    target: `as of ${Math.round(lastsMs / 1_000)} s before`,
    async heal() {
      const served = Promise.withResolvers<void>()
      market.whenServed = served.promise
      try {
        await testbed.restore(() => {
          for (const { hash } of treasurySends(market)) market.orphanedSends.add(hash)
        })
      } finally {
        served.resolve()
      }
    },
  }
}
