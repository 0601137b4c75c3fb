import { describe, expect, it } from 'vitest'
import { TRANSFER_STATES, type TransferRecord } from '../../shared/money/transfer.ts'
import { TRANSFER_STEPS, decideTransfer, type TransferStep } from '../../shared/money/transfer-steps.ts'
import { TRANSFER_CASES, describeTransfer, transferIn } from '../support/transfer-cases.ts'

const STEPS = Object.keys(TRANSFER_STEPS) as TransferStep[]
const PLACE = { account_index: 7, previous: 'ef' }

/** The transfer as its store would have it after a step; undefined if it stays. */
function after(transfer: TransferRecord, step: TransferStep): TransferRecord | undefined {
  const details = step === 'reinstated' ? { reason: 'why', place: PLACE } : { reason: 'why' }
  const decision = decideTransfer(transfer, step, 200, details)
  if (decision.kind === 'stays') return undefined
  expect(decision.from).toBe(transfer.state)
  const changed = { ...transfer, ...decision.set }
  for (const field of decision.unset) delete changed[field]
  return changed
}

describe('a transfer', () => {
  it.each(STEPS)('comes to where the table says when it is %s, and stays in all other states', (step) => {
    const found = TRANSFER_STATES.flatMap((state) => {
      const changed = after(transferIn(state), step)
      if (changed === undefined) return []
      expect(changed).toMatchObject({ changed_at: 200, reason: 'why' })
      return [[state, describeTransfer(changed)]]
    })
    expect(Object.fromEntries(found)).toEqual(TRANSFER_CASES[step])
  })

  it('that is reinstated has the place that it is told, and else keeps its own', () => {
    expect(after(transferIn('replaced'), 'reinstated')).toMatchObject(PLACE)
    expect(after(transferIn('sent'), 'confirmed')).toMatchObject({ account_index: 7, previous: 'cd' })
  })

  it('keeps an earlier reason if a step has none', () => {
    const decision = decideTransfer(transferIn('sent'), 'confirmed', 200)
    expect(decision).toMatchObject({ kind: 'moves' })
    expect(decision).not.toHaveProperty('set.reason')
  })
})
