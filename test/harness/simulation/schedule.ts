import { AsyncLocalStorage } from 'node:async_hooks'
import { createRandom, type Random } from './random.ts'

/*
 * A schedule is one order of everything that happens between a few simulated processes and the database.
 * Nothing waits for real time or for a real server: whoever waits has a *task* here, and as soon as all
 * JavaScript that can run has run, the seed's next random number picks the task that comes next. So the seed
 * alone says what happens.
 */

/** A simulated process of the service. */
export interface SimulatedProcess {
  readonly name: string
  /** False once it was killed: it gets no answer and its timers don't fire. What it sent may still arrive. */
  isAlive: boolean
  /** It still sends to the member that an election has deposed. */
  isOnOldPrimary: boolean
  /** How much likelier than others its tasks are picked. */
  readonly pace: number
}

interface Task {
  what: string
  /** Whose end ends the task; undefined if it goes on without its process. */
  owner: SimulatedProcess | undefined
  weight: number
  isReady?: () => boolean
  run(): void
}

interface Timer {
  atMs: number
  owner: SimulatedProcess | undefined
  run(): void
}

/** Something that can befall the database or a process at any step. */
export interface Event {
  what: string
  /** 0 if it can't happen now. */
  weight(): number
  run(): void
}

const processes = new AsyncLocalStorage<SimulatedProcess>()
/** Taken before virtual time replaces it. */
const realImmediate = setImmediate

export class Schedule {
  readonly random: Random
  readonly trace: string[] = []
  readonly failures: string[] = []
  readonly events: Event[] = []
  nowMs: number
  /** No more faults: what is under way comes to its end. */
  isCalm = false
  steps = 0
  #tasks: Task[] = []
  #timers: Timer[] = []
  /** How likely a task is late, and time runs ahead of work; of this schedule. */
  readonly #lateRate: number
  readonly #timerWeight: number

  constructor(seed: number, startMs: number) {
    this.random = createRandom(seed)
    this.nowMs = startMs
    this.#lateRate = this.random.pick([0, 0.05, 0.2])
    this.#timerWeight = this.random.pick([0.02, 0.2, 1])
  }

  /** The process on whose behalf the present code runs; undefined for the scenario itself. */
  get current(): SimulatedProcess | undefined {
    return processes.getStore()
  }

  createProcess(name: string): SimulatedProcess {
    return { name, isAlive: true, isOnOldPrimary: false, pace: this.random.pick([1, 1, 0.3, 0.05]) }
  }

  /** Runs `work` in a process. An error that it doesn't handle is a failure of the schedule. */
  run(process: SimulatedProcess, work: () => Promise<void>): Promise<void> {
    return processes.run(process, () =>
      work().catch((error: unknown) => {
        if (process.isAlive) this.failures.push(`${process.name}: ${describe(error)}`)
      }),
    )
  }

  /** Adds a task for the present process. `owned`: it ends with its process. */
  add(what: string, run: () => void, owned: boolean, isReady?: () => boolean): void {
    const { current } = this
    const late = this.random.chance(this.#lateRate) ? 0.02 : 1
    const owner = owned ? current : undefined
    if (owner?.isAlive === false) return
    const weight = late * (current?.pace ?? 1)
    const inContext = () => processes.run(current as SimulatedProcess, run)
    const task = { what: `${current?.name ?? ''} ${what}`, owner, weight, run: inContext }
    this.#tasks.push(isReady === undefined ? task : { ...task, isReady })
  }

  /** As setTimeout(), by the schedule's clock, in whole milliseconds. */
  addTimer(delayMs: number, run: () => void): Timer {
    const owner = this.current
    const atMs = this.nowMs + Math.max(Math.trunc(delayMs), 0)
    const timer = { atMs, owner, run: () => processes.run(owner as SimulatedProcess, run) }
    if (timer.owner?.isAlive !== false) this.#timers.push(timer)
    return timer
  }

  removeTimer(timer: Timer): void {
    this.#timers = this.#timers.filter((other) => other !== timer)
  }

  kill(process: SimulatedProcess): void {
    process.isAlive = false
    this.#tasks = this.#tasks.filter(({ owner }) => owner !== process)
    this.#timers = this.#timers.filter(({ owner }) => owner !== process)
  }

  /** Takes the next step. @returns false if nothing is left that could happen */
  async step(): Promise<boolean> {
    const ready = this.#tasks.filter((task) => task.isReady?.() ?? true)
    const choices: { weight: number; take(): void }[] = ready.map((task) => ({
      weight: this.isCalm ? 1 : task.weight,
      take: () => {
        this.#tasks.splice(this.#tasks.indexOf(task), 1)
        this.#note(task.what)
        task.run()
      },
    }))
    const timer = this.#nextTimer()
    if (timer !== undefined && (ready.length === 0 || !this.isCalm))
      choices.push({
        weight: ready.length === 0 ? 1 : this.#timerWeight,
        take: () => {
          this.removeTimer(timer)
          this.nowMs = Math.max(this.nowMs, timer.atMs)
          this.#note(`${timer.owner?.name ?? ''} timer`)
          timer.run()
        },
      })
    for (const { what, weight, run } of this.events) {
      const now = weight()
      if (now > 0)
        choices.push({
          weight: now,
          take: () => {
            this.#note(`-- ${what}`)
            run()
          },
        })
    }
    if (choices.length === 0) return false
    this.steps++
    this.random.weighted(choices).take()
    // All promises that are settled by now have run on before an immediate does.
    await new Promise((resolve) => realImmediate(resolve))
    return true
  }

  #nextTimer(): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers) if (next === undefined || timer.atMs < next.atMs) next = timer
    return next
  }

  #note(what: string): void {
    this.trace.push(what)
  }
}

export const describe = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : String(error)
