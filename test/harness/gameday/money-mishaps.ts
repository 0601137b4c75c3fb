import fs from 'node:fs'
import { deriveSecretKey, hashStateBlock, publicKeyOf } from '../../../devnet/nano-node/block.ts'
import { encodeAddress } from '../../../devnet/nano-node/encoding.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { signTreasuryBlock } from '../testbed/coins.ts'
import { queuesOf } from './process-mishaps.ts'
import { fileIn, type Gameday } from './network.ts'
import type { Mishap } from './play.ts'
import { fault } from './server-mishaps.ts'

/**
 * Publishes a block of the treasury that the database doesn't know, as another wallet with its seed would.
 */
async function forkTreasury(network: Gameday): Promise<void> {
  const { coins, ctx } = network
  const { node } = coins
  const seed = fs.readFileSync(fileIn(network, 'nano-seed'), 'utf8').trim()
  const account = publicKeyOf(deriveSecretKey(seed, 0))
  // Less than the smallest payout: more would be a finding of its own, since it belongs to nobody.
  coins.pay(encodeAddress(account), 10n ** 27n)
  const previous = await waitFor(
    'the treasury to have received it',
    async () => {
      const frontier = node.state.ledger.frontier(account)
      const transfer = await ctx.payouts.transfers.findByTx('xno', frontier.toLowerCase())
      return transfer?.state === 'confirmed' ? frontier : undefined
    },
    { limitMs: 30_000 },
  )
  const block = signTreasuryBlock(node, seed, previous)
  node.state.submit(block)
  node.confirm(hashStateBlock(block))
}

/** Makes the node answer as one of the live network that lacks blocks which its peers have. */
function fallBehind({ coins }: Gameday): void {
  coins.lie(({ action, answerText }) => {
    if (action === 'version') return answerText.replace(/"network":\s*"dev"/, '"network":"live"')
    if (action === 'peers') return '{"peers":{"[::1]:7075":"21"}}'
    if (action === 'telemetry')
      return answerText.replace(/"cemented_count":\s*"\d+"/, '"cemented_count":"9000000"')
    return undefined
  })
}

/** Ends the false answers of fallBehind(). */
const tellTheTruth = ({ coins }: Gameday): void => coins.lie(null)

export const MONEY_MISHAPS: readonly Mishap[] = [
  {
    name: 'a second wallet has another seed',
    kinds: ['key_refused'],
    async cause(network) {
      const seed = fileIn(network, 'other-seed')
      fs.writeFileSync(seed, `${'3c'.repeat(32)}\n`, { mode: 0o600 })
      await network.startWorkers('second', queuesOf('payments'), { NANO_SEED_FILE: seed })
    },
    remedy: { act: (network) => network.kill('second') },
  },
  {
    name: 'no exchange gives a rate',
    kinds: ['rate_stale'],
    async cause({ ctx, rates }) {
      rates.isBroken = true
      // As if a quarter of an hour had gone by.
      await ctx.coins.models.rates.updateMany({}, { $set: { at: Math.floor(Date.now() / 1000) - 1_000 } })
    },
    remedy: {
      async act(network) {
        await network.kill('payments')
        await network.startWorkers('payments', queuesOf('payments'), { XNO_USD: '1', RATE_SOURCES: '' })
      },
    },
    cleanUp: ({ rates }) => void (rates.isBroken = false),
  },
  {
    name: 'the node is gone',
    kinds: ['coin_away'],
    cause: fault('coin-down'),
    remedy: { act: ({ coins }) => coins.node.setDown(false) },
  },
  {
    name: 'the node stands still',
    kinds: ['coin_away'],
    cause: fallBehind,
    remedy: { act: tellTheTruth },
  },
  {
    name: 'the node is on a fork',
    kinds: ['coin_halted'],
    cause: forkTreasury,
  },
]
