import fs from 'node:fs'
import {
  deriveSecretKey,
  hashStateBlock,
  publicKeyOf,
  signHash,
  workRoot,
} from '../../devnet/nano-node/block.ts'
import { decodeAddress, encodeAddress, zeroHash } from '../../devnet/nano-node/encoding.ts'
import { findWork } from '../../devnet/nano-node/work.ts'
import { waitFor } from '../embedded/wait.ts'
import { queuesOf } from './process-mishaps.ts'
import { within, type Network } from './network.ts'
import type { Mishap } from './play.ts'

/** The node has another block on the treasury's chain than the database knows of. */
async function fork(network: Network): Promise<void> {
  const { coins, ctx } = network
  const { node, pay } = coins
  const { ledger } = node.state
  const seed = fs.readFileSync(within(network, 'nano-seed'), 'utf8').trim()
  const secretKey = deriveSecretKey(seed, 0)
  const account = publicKeyOf(secretKey)
  pay(encodeAddress(account), 10n ** 30n)
  const previous = await waitFor(
    'the treasury to have received it',
    async () => {
      const frontier = ledger.frontier(account)
      const transfer = await ctx.payouts.findTransferByTx('xno', frontier.toLowerCase())
      return transfer?.state === 'confirmed' ? frontier : undefined
    },
    { limitMs: 30_000 },
  )
  const balance = ledger.blocks.get(previous)?.balance ?? 0n
  const representative = decodeAddress(node.genesis.address) ?? account
  const fields = { account, previous, representative, balance, link: zeroHash }
  const [hash, work] = [hashStateBlock(fields), findWork(workRoot(fields), ledger.thresholds.epoch2)]
  node.state.submit({ type: 'state', ...fields, signature: signHash(hash, secretKey), work })
  node.confirm(hash)
}

/** A node of the live network whose peers have what it lacks. */
function fallBehind({ coins: { node } }: Network): void {
  node.lie(({ action, answerText }) => {
    if (action === 'version') return answerText.replace(/"network":\s*"dev"/, '"network":"live"')
    if (action === 'peers') return '{"peers":{"[::1]:7075":"21"}}'
    if (action === 'telemetry')
      return answerText.replace(/"cemented_count":\s*"\d+"/, '"cemented_count":"9000000"')
    return undefined
  })
}

const tellTheTruth = ({ coins: { node } }: Network): void => node.lie(null)

export const MONEY_MISHAPS: readonly Mishap[] = [
  {
    name: 'a second wallet has another seed',
    kinds: ['key_refused'],
    async happens(network) {
      const seed = within(network, 'other-seed')
      fs.writeFileSync(seed, `${'3c'.repeat(32)}\n`, { mode: 0o600 })
      await network.startWorkers('second', queuesOf('payments'), { NANO_SEED_FILE: seed })
    },
    hand: { does: (network) => network.kill('second') },
  },
  {
    name: 'no exchange gives a rate',
    kinds: ['rate_stale'],
    async happens({ ctx, rates }) {
      rates.isBroken = true
      // As if a quarter of an hour had gone by.
      await ctx.coins.models.rates.updateMany({}, { $set: { at: Math.floor(Date.now() / 1000) - 1_000 } })
    },
    hand: {
      async does(network) {
        await network.kill('payments')
        await network.startWorkers('payments', queuesOf('payments'), { XNO_USD: '1', RATE_SOURCES: '' })
      },
    },
    tidy: ({ rates }) => void (rates.isBroken = false),
  },
  {
    name: 'the node is gone',
    kinds: ['coin_away'],
    happens: ({ coins }) => coins.node.setDown(true),
    hand: { does: ({ coins }) => coins.node.setDown(false) },
  },
  {
    name: 'the node stands still',
    kinds: ['coin_away'],
    happens: fallBehind,
    hand: { does: tellTheTruth },
  },
  {
    name: 'the node is on a fork',
    kinds: ['coin_halted'],
    happens: fork,
  },
]
