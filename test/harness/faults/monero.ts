import type { Injected } from './faults.ts'
import type { Monero } from '../testbed/monero.ts'
import type { FaultKind } from './plan.ts'

/** A reorganisation takes at most so many blocks away: less than what money is locked for after its own. */
const DEEPEST = 6
/** One payment in four is locked for longer than any run. */
const LOCKS_BLOCKS = [3, 8, 15, 1_000_000]
const isDown = new WeakSet<Monero>()

/** Causes a fault of Monero's; undefined if that is under way already. */
export async function injectMonero(
  monero: Monero,
  kind: FaultKind,
  dice: number,
): Promise<Injected | undefined> {
  const { gate } = monero
  switch (kind) {
    case 'monero-down':
      return dice % 2 === 0 ? endDaemon(monero) : killWallet(monero)
    case 'monero-hang':
      gate.setHanging(true)
      return { target: 'the wallet', heal: () => gate.setHanging(false) }
    case 'monero-lost-answers':
      gate.lie(({ method }) => (LOSES[dice % LOSES.length]?.(method) === true ? null : undefined))
      return { target: 'the wallet', heal: () => gate.lie(null) }
    case 'monero-lies-once':
      return lieOnce(monero, dice)
    case 'monero-lock': {
      const blocks = LOCKS_BLOCKS[dice % LOCKS_BLOCKS.length] ?? 0
      monero.lockNext(blocks)
      return { target: `the next payment, for ${blocks} blocks`, heal: () => undefined }
    }
    case 'monero-reorganise': {
      const depth = 1 + ((dice >> 1) % DEEPEST)
      const keeps = dice % 2 === 0
      const done = monero.reorganise(depth, keeps)
      done.catch(() => undefined) // told when it is healed
      return {
        target: `${depth} blocks, ${keeps ? 'their payments kept' : 'without their payments'}`,
        heal: () => done,
      }
    }
    default:
      return undefined
  }
}

const LOSES: readonly ((method: string) => boolean)[] = [
  (method) => method === 'relay_tx',
  (method) => ['relay_tx', 'create_address', 'transfer', 'store'].includes(method),
  () => true,
]

/** Ends monerod in order; nothing is mined or paid before it is back. */
async function endDaemon(monero: Monero): Promise<Injected | undefined> {
  if (isDown.has(monero)) return undefined
  isDown.add(monero)
  const healed = Promise.withResolvers<void>()
  const began = Promise.withResolvers<void>()
  const over = monero.alone(async () => {
    await monero.regtest.setDown(true)
    began.resolve()
    await healed.promise
    await monero.regtest.setDown(false)
  })
  await Promise.race([began.promise, over])
  return {
    target: 'monerod',
    async heal() {
      healed.resolve()
      await over
      isDown.delete(monero)
    },
  }
}

/** Kills the service's wallet, which has no time to write its file. */
async function killWallet(monero: Monero): Promise<Injected | undefined> {
  if (isDown.has(monero)) return undefined
  isDown.add(monero)
  await monero.wallet.setDown(true, 'SIGKILL')
  return {
    target: 'monero-wallet-rpc',
    async heal() {
      await monero.wallet.setDown(false)
      isDown.delete(monero)
    },
  }
}

const STALE = ['get_transfers', 'get_transfer_by_txid', 'get_balance', 'incoming_transfers', 'get_height']

/** Has the wallet answer once what it answered before, or that it has fewer blocks than it has. */
function lieOnce({ gate }: Monero, dice: number): Injected {
  const isHeight = dice % 3 === 0
  const behind = 1 + ((dice >> 2) % 80)
  let hasLied = false
  gate.lie(({ method, answerText, earlier }) => {
    if (hasLied || !STALE.includes(method)) return undefined
    const lie = isHeight
      ? answerText.replace(
          /("height":\s*)(\d+)/,
          (_, name: string, height: string) => `${name}${Number(height) - behind}`,
        )
      : earlier[0]
    if (lie === undefined || lie === answerText || (isHeight && method !== 'get_height')) return undefined
    hasLied = true
    return lie
  })
  return {
    target: isHeight ? `the wallet, ${behind} blocks behind` : 'the wallet, with an old answer',
    heal: () => gate.lie(null),
  }
}
