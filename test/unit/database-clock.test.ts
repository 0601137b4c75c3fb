import { describe, expect, it, vi } from 'vitest'
import {
  createDatabaseClock,
  MAX_CLOCK_ROUND_TRIP_MS,
  MAX_CLOCK_SAMPLE_AGE_MS,
} from '../../shared/platform/database-clock.ts'

const PRESENT = Date.parse('2030-01-01T00:00:00Z')

/** A clock whose monotonic time the test moves; each question takes so long. */
function openClock() {
  let monotonicMs = 1_000
  const clock = createDatabaseClock(() => monotonicMs)
  const pass = (ms: number) => void (monotonicMs += ms)
  const ask = (timeMs: number, tookMs = 0) =>
    clock.sample(async () => {
      pass(tookMs)
      return timeMs
    })
  return { clock, pass, ask }
}
const refused = expect.objectContaining({ code: 'unavailable' }) as Error

describe("the database's clock", () => {
  it('refuses to tell the time before it was asked for', () => {
    expect(() => openClock().clock.now()).toThrow(refused)
  })

  it('goes on from the last sample by the monotonic clock, whatever the machine says the time is', async () => {
    const { clock, pass, ask } = openClock()
    await ask(PRESENT)
    vi.useFakeTimers({ toFake: ['Date'], now: PRESENT + 80 * 3_600_000 })
    pass(90_000)
    expect(clock.now()).toBe(PRESENT + 90_000)
    vi.useRealTimers()
  })

  it('takes the answer for that of the middle of its round trip', async () => {
    const { clock, ask } = openClock()
    await ask(PRESENT, 1_000)
    expect(clock.now()).toBe(PRESENT + 500)
  })

  it('goes as a new primary does from the next sample on, also back', async () => {
    const { clock, pass, ask } = openClock()
    await ask(PRESENT)
    pass(5_000)
    await ask(PRESENT - 60_000)
    expect(clock.now()).toBe(PRESENT - 60_000)
  })

  it('keeps what it had if an answer took too long', async () => {
    const { clock, ask } = openClock()
    await ask(PRESENT)
    expect(await ask(PRESENT + 999_999, MAX_CLOCK_ROUND_TRIP_MS + 1)).toBe(false)
    expect(clock.now()).toBe(PRESENT + MAX_CLOCK_ROUND_TRIP_MS + 1)
  })

  it('refuses once no sample is young enough, until there is another', async () => {
    const { clock, pass, ask } = openClock()
    await ask(PRESENT)
    pass(MAX_CLOCK_SAMPLE_AGE_MS)
    expect(clock.now()).toBe(PRESENT + MAX_CLOCK_SAMPLE_AGE_MS)
    pass(1)
    expect(() => clock.now()).toThrow(refused)
    await expect(clock.sample(() => Promise.reject(new Error('away')))).rejects.toThrow('away')
    expect(() => clock.now()).toThrow(refused)
    await ask(PRESENT)
    expect(clock.now()).toBe(PRESENT)
  })
})
