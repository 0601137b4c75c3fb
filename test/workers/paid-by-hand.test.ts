import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { hashNanoBlock } from '../../shared/money/coins/nano/nano-blocks.ts'
import { startPool } from '../../workers/pool.ts'
import { newTx } from '../support/coins.ts'
import { signAndPublish, strangerAddress, useNanoVenue, XNO } from '../support/nano-venue.ts'
import type { NanoVenue } from '../support/nano-venue.ts'
import { fillNanoPool, reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { runVerb } from '../support/run-verb.ts'
import { FULL, sampled } from '../support/full.ts'
import { withSigning } from '../support/signing.ts'

let venue: NanoVenue
let pool: ReturnType<typeof startPool>

useNanoVenue((opened) => (venue = opened))
beforeEach(async () => {
  pool = startPool(withSigning(venue.ctx), ['check-nano'])
  venue.pay(venue.wallet.treasury, 10n * XNO)
  await sweepNano(venue.ctx)
})
afterEach(() => pool.close())

const operator = async (...argv: string[]) => {
  const { exitCode, json } = await runVerb(venue.env, argv)
  return { exitCode, ...json }
}
const halted = async () => (await venue.ctx.coins.findCoin('xno'))?.halted
const state = async ({ _id }: PayoutRecord) => (await venue.payout(_id)).state
const arrived = (address: string) => venue.holds(address).receivableRaw
const work = async () => {
  for (let round = 0; round < 2; round++) {
    await watchNano(venue.ctx)
    await fillNanoPool(venue.ctx)
    await sweepNano(venue.ctx)
    await sendNano(venue.ctx)
  }
}
/** Recorded first, and then sent out of the treasury with this seed by somebody else than the workers. */
const payByHand = async (payout: PayoutRecord, sendTo: string, tell: boolean) => {
  const amountRaw = BigInt(payout.amount_raw)
  const tx = await signAndPublish(venue, 0, { sendTo, amountRaw })
  if (tell) expect(await operator('payout-paid', payout._id, tx)).toMatchObject({ exitCode: 0 })
  return tx
}

describe('payout-paid --undo', () => {
  it.each(
    sampled([
      ['that the workers have put on record', true],
      ['that only the node knows yet', false],
    ]),
  )('is refused if the chain shows the payment, %s, and the payee is paid once', async (_, isOnRecord) => {
    const payee = strangerAddress()
    const payout = await venue.owe(4n * XNO, payee)
    await payByHand(payout, payee, true)
    if (isOnRecord) await work()
    for (const flags of [['--dry-run'], [], ['--unseen']])
      expect(await operator('payout-paid', '--undo', payout._id, ...flags)).toMatchObject({
        exitCode: 1,
        error: 'wrong_state',
        message: expect.stringContaining('The chain shows that') as string,
      })
    await work()
    expect([await state(payout), arrived(payee), await halted()]).toEqual(['manual', 4n * XNO, undefined])
  })

  it('makes owed what was recorded with a hash that no block has, and it is sent', async () => {
    const payee = strangerAddress()
    const payout = await venue.owe(XNO, payee)
    await operator('payout-paid', payout._id, newTx())
    expect(await operator('payout-paid', '--undo', payout._id)).toMatchObject({ exitCode: 0, state: 'owed' })
    await work()
    expect([await state(payout), arrived(payee)]).toEqual(['confirmed', XNO])
  })

  it.runIf(FULL)(
    'holds it while nobody can say whether it was paid, and what was paid after all can only be recorded',
    async () => {
      const payee = strangerAddress()
      const payout = await venue.owe(XNO, payee)
      await pool.close()
      const tx = newTx()
      await operator('payout-paid', payout._id, tx)
      const undone = await operator('payout-paid', '--undo', payout._id)
      expect(undone).toMatchObject({ exitCode: 0, state: 'held' })
      await work()
      expect([await state(payout), arrived(payee)]).toEqual(['held', 0n])
      pool = startPool(withSigning(venue.ctx), ['check-nano'])
      expect(await operator('reconcile', 'xno', '--owed', payout._id)).toMatchObject({ state: 'owed' })
      await work()
      expect(arrived(payee)).toBe(XNO)

      // The same of one that was paid.
      const next = await venue.owe(2n * XNO, payee)
      const paidBy = await payByHand(next, payee, true)
      await pool.close()
      // The record of the transaction is enough once there is one.
      expect(await operator('payout-paid', '--undo', next._id)).toMatchObject({ state: 'held' })
      pool = startPool(withSigning(venue.ctx), ['check-nano'])
      expect(await operator('reconcile', 'xno', '--owed', next._id)).toMatchObject({
        error: 'wrong_state',
        message: expect.stringContaining(`payout-paid ${next._id} ${paidBy}`) as string,
      })
      expect(await operator('payout-paid', next._id, paidBy)).toMatchObject({ state: 'manual' })
      await work()
      expect([arrived(payee), await halted()]).toEqual([3n * XNO, undefined])
    },
  )

  it('makes it owed on the operator’s word that it was not paid, with --unseen', async () => {
    const payout = await venue.owe(XNO, strangerAddress())
    await pool.close()
    await operator('payout-paid', payout._id, newTx())
    expect(await operator('payout-paid', '--undo', payout._id, '--unseen')).toMatchObject({ state: 'owed' })
  })

  it.runIf(FULL)(
    'is refused for no more of the payouts recorded with one transaction than that has paid',
    async () => {
      const payee = strangerAddress()
      const [one, other] = [await venue.owe(XNO, payee), await venue.owe(XNO, payee)]
      const tx = await payByHand(one, payee, true)
      await pool.close()
      // Nobody could ask the chain, so both were taken.
      expect(await operator('payout-paid', other._id, tx)).toMatchObject({ state: 'manual' })
      pool = startPool(withSigning(venue.ctx), ['check-nano'])
      expect(await operator('payout-paid', '--undo', other._id)).toMatchObject({ state: 'owed' })
      expect(await operator('payout-paid', '--undo', one._id)).toMatchObject({ error: 'wrong_state' })
      await work()
      expect([arrived(payee), await halted()]).toEqual([2n * XNO, undefined])
    },
  )
})

describe('payout-paid', () => {
  it.runIf(FULL)(
    'takes a transaction for no more than it paid, though two are recorded with it at once',
    async () => {
      const payee = strangerAddress()
      for (let round = 0; round < 3; round++) {
        const payouts = [await venue.owe(XNO, payee), await venue.owe(XNO, payee)]
        const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO })
        const record = ({ _id }: PayoutRecord) => operator('payout-paid', _id, tx)
        const ended = await Promise.all(payouts.map(record))
        expect(ended.map(({ exitCode }) => exitCode).sort()).toEqual([0, 1])
        const states = await Promise.all(payouts.map(state))
        expect(states.toSorted()).toEqual(['manual', 'owed'])
        await work()
      }
    },
  )

  it('with a hash beforehand counts only if that block pays the payee: for any other the coin is halted', async () => {
    const [payee, stranger] = [strangerAddress(), strangerAddress()]
    const payout = await venue.owe(XNO, payee)
    const [block, publish] = await signOnly(stranger, XNO)
    await operator('payout-paid', payout._id, block)
    await publish()
    await work()
    expect((await halted())?.reason).toContain(block.toUpperCase())
    await reconcileNano(venue.ctx)
    expect(await venue.ctx.payouts.transfers.listUnexplained('xno')).toMatchObject([
      { tx: block, unexplained_to: [stranger] },
    ])
    expect(await operator('payout-paid', '--undo', payout._id)).toMatchObject({ state: 'owed' })
    await work()
    expect([await state(payout), arrived(payee)]).toEqual(['confirmed', XNO])
  })
})

/** A block of the treasury whose hash is known before it is published. */
async function signOnly(sendTo: string, amountRaw: bigint) {
  let publish = (): Promise<unknown> => Promise.resolve()
  let hash = ''
  const rpc = {
    ...venue.ctx.nano.rpc,
    process: (...block: Parameters<typeof venue.ctx.nano.rpc.process>) => {
      publish = async () => venue.node.confirm(await venue.ctx.nano.rpc.process(...block))
      return Promise.resolve((hash = hashNanoBlock(block[0])))
    },
  }
  const node = { ...venue.node, confirm: () => undefined }
  await signAndPublish({ ...venue, node, ctx: { ...venue.ctx, nano: { ...venue.ctx.nano, rpc } } }, 0, {
    sendTo,
    amountRaw,
  })
  return [hash.toLowerCase(), publish] as const
}
