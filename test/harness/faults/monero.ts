import type { Monero } from '../testbed/monero.ts'
import { pick, type Injected } from './fault.ts'

/** A reorganisation takes at most so many blocks away: less than what money is locked for after its own. */
const DEEPEST = 6
/** One payment in four is locked for longer than any run. */
const LOCKS_BLOCKS = [3, 8, 15, 1_000_000]
const isDown = new WeakSet<Monero>()

/** Ends monerod, or kills the service's wallet; undefined if one of them is down already. */
export const endOrKill = (monero: Monero, dice: number): Promise<Injected | undefined> =>
  dice % 2 === 0 ? endDaemon(monero) : killWallet(monero)

export function hangWallet({ gate }: Monero): Injected {
  gate.setHanging(true)
  return { target: 'the wallet', heal: () => gate.setHanging(false) }
}

/** Loses the wallet's answers to some methods, or to all. */
export function loseAnswers({ gate }: Monero, dice: number): Injected {
  gate.lie(({ method }) => (pick(LOSES, dice)?.(method) === true ? null : undefined))
  return { target: 'the wallet', heal: () => gate.lie(null) }
}

/** Locks the money of the next payment. */
export function lockNextPayment(monero: Monero, dice: number): Injected {
  const blocks = pick(LOCKS_BLOCKS, dice) ?? 0
  monero.lockNext(blocks)
  return { target: `the next payment, for ${blocks} blocks` }
}

/** Mines other blocks in the place of the last ones. */
export function reorganise(monero: Monero, dice: number): Injected {
  const depth = 1 + ((dice >> 1) % DEEPEST)
  const keeps = dice % 2 === 0
  const done = monero.reorganise(depth, keeps)
  done.catch(() => undefined) // told when it is healed
  return {
    target: `${depth} blocks, ${keeps ? 'their payments kept' : 'without their payments'}`,
    heal: () => done,
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
export function repeatAnswerOnce({ gate }: Monero, dice: number): Injected {
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
