import { describe, expect, it } from 'vitest'
import { createAdmission } from '../../api/http/admission.ts'
import { Refusal } from '../../shared/foundation/errors.ts'

describe('the room of an API process', () => {
  // holds: limits.overload
  it('is refused to a request once as many of its kind are under way, and given again', async () => {
    const admission = createAdmission({ reads: 2, writes: 1 })
    let finish = (): void => undefined
    const lasting = () => new Promise<void>((resolve) => (finish = resolve))
    const first = admission.run('writes', lasting)
    await expect(admission.run('writes', () => Promise.resolve())).rejects.toThrow(Refusal)
    // A flood of writes leaves reads served.
    await expect(admission.run('reads', () => Promise.resolve('read'))).resolves.toBe('read')
    finish()
    await first
    await expect(admission.run('writes', () => Promise.resolve('written'))).resolves.toBe('written')
    await expect(admission.run('writes', () => Promise.reject(new Error('a defect')))).rejects.toThrow(
      'a defect',
    )
    await expect(admission.run('writes', () => Promise.resolve('written'))).resolves.toBe('written')
  })

  it('is not kept by a request that waits for a worker; where too many wait, the next does not', async () => {
    const admission = createAdmission({ reads: 1, writes: 1 }, 1)
    let finish = (verdict: string): void => void verdict
    const first = admission.run('writes', () =>
      admission.releaseRoomWhile('writes', () => new Promise<string>((resolve) => (finish = resolve))),
    )
    await expect(admission.run('writes', () => Promise.resolve('written'))).resolves.toBe('written')
    await expect(
      admission.run('writes', () => admission.releaseRoomWhile('writes', () => Promise.resolve('waited'))),
    ).resolves.toBe(undefined)
    finish('waited')
    await expect(first).resolves.toBe('waited')
    await expect(
      admission.run('writes', () => admission.releaseRoomWhile('writes', () => Promise.resolve('waited'))),
    ).resolves.toBe('waited')
  })
})
