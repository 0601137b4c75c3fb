import type { Connection } from 'mongoose'
import type { Database } from '../../../shared/platform/database.ts'
import { isOutage } from '../../../shared/platform/database.ts'
import { Refusal } from '../../../shared/platform/errors.ts'
import type { Server } from './collection.ts'
import { createModelDatabase, openModelConnection, uniqueIndexesOf } from './database.ts'
import { ReplicaSet } from './replica-set.ts'
import { describe, Schedule } from './schedule.ts'
import { useSchedule } from './virtual-time.ts'

/** What a scenario is played with: one schedule's processes and replica set. */
export interface World {
  readonly schedule: Schedule
  readonly set: ReplicaSet
  readonly connection: Connection
  /** The database as the present process opens it. */
  openDatabase(): Database
  /** Starts a process. With `restarts`, it may be killed that often, and begins again. */
  spawn(name: string, work: () => Promise<void>, restarts?: number): void
  /** Tries `work`; what an outage, or a refusal because of one, ends is left as it is. */
  attempt(work: () => Promise<unknown>): Promise<void>
  /** Waits for up to so long; 200 ms if absent. */
  pause(maxMs?: number): Promise<void>
  fail(what: string): void
}

/** A few processes that do what the service does, and what must hold whatever happens. */
export interface Scenario {
  name: string
  /** Makes every model on the connection; called once. */
  defineModels(connection: Connection): void
  /** Starts the processes of one schedule. */
  play(world: World): Play
}

export interface Play {
  /** Looks at what is stored after each step that changed it. @throws if something doesn't hold */
  check(): void
  /** What the service would do in the end, without any fault. */
  finish(): Promise<void>
  /** What must hold after that. @throws if something doesn't */
  checkEnd(): void
}

export interface Outcome {
  steps: number
  /** What went wrong; undefined if nothing did. */
  failure: string | undefined
  trace: readonly string[]
}

const MAX_STEPS = 20_000
const MAX_FAULTY_STEPS = 4_000

/** Opens a scenario, so that many schedules of it can be run one after the other. */
export function openScenario(scenario: Scenario): (seed: number) => Promise<Outcome> {
  let server: Server | undefined
  const current = (): Server => server as Server
  const connection = openModelConnection(current)
  scenario.defineModels(connection)
  const indexes = uniqueIndexesOf(connection)
  // The service's ids go up from one schedule to the next, so time does too.
  let startMs = Date.UTC(2026, 0, 1)
  return async (seed) => {
    startMs += 24 * 60 * 60 * 1000
    const schedule = new Schedule(seed, startMs)
    useSchedule(schedule)
    const { random } = schedule
    const rates = {
      lost: random.pick([0, 0.01, 0.05]),
      election: random.pick([0, 0.01, 0.05, 0.2]),
      elections: random.pick([2, 10, 50]),
      rediscover: random.pick([0.1, 0.5]),
      replicate: random.pick([1, 0.2, 0.05]),
    }
    const set = new ReplicaSet(schedule, rates, indexes)
    server = { schedule, set }
    const world = createWorld(schedule, set, connection, current)
    const play = scenario.play(world)
    try {
      await runToEnd(schedule, set, play, world)
    } catch (error) {
      schedule.failures.push(describe(error))
    }
    return { steps: schedule.steps, failure: schedule.failures[0], trace: schedule.trace }
  }
}

interface PlayedWorld extends World {
  /** Whether every process has done its work. */
  isOver(): boolean
}

async function runToEnd(schedule: Schedule, set: ReplicaSet, play: Play, world: PlayedWorld): Promise<void> {
  let checked = -1
  const go = async (isOver: () => boolean): Promise<void> => {
    while (!isOver() && schedule.failures.length === 0) {
      if (schedule.steps > MAX_FAULTY_STEPS) beCalm()
      if (schedule.steps > MAX_STEPS) throw new Error(`not at its end after ${MAX_STEPS} steps`)
      if (!(await schedule.step())) throw new Error('nothing goes on: a process waits for ever')
      if (set.version !== checked) play.check()
      checked = set.version
    }
  }
  const beCalm = (): void => {
    if (schedule.isCalm) return
    schedule.isCalm = true
    set.abortAll()
  }
  await go(() => world.isOver())
  if (schedule.failures.length > 0) return
  beCalm()
  // What is still under way, sent by processes that have ended, arrives.
  while (schedule.failures.length === 0 && (await schedule.step())) play.check()
  world.spawn('finish', () => play.finish())
  await go(() => world.isOver())
  if (schedule.failures.length === 0) play.checkEnd()
}

function createWorld(
  schedule: Schedule,
  set: ReplicaSet,
  connection: Connection,
  server: () => Server,
): PlayedWorld {
  let atWork = 0
  const killable: { kill(): void }[] = []
  const killRate = schedule.random.pick([0, 0.005, 0.02])
  schedule.events.push({
    what: 'kill',
    weight: () => (schedule.isCalm || killable.length === 0 ? 0 : killRate),
    run: () => schedule.random.pick(killable).kill(),
  })
  const spawn = (name: string, work: () => Promise<void>, restarts = 0): void => {
    const process = schedule.createProcess(name)
    set.processes.push(process)
    atWork++
    const life = {
      kill() {
        leave()
        schedule.kill(process)
        spawn(`${name}'`, work, restarts - 1)
      },
    }
    let hasLeft = false
    const leave = (): void => {
      if (hasLeft) return
      hasLeft = true
      atWork--
      const place = killable.indexOf(life)
      if (place !== -1) killable.splice(place, 1)
    }
    if (restarts > 0) killable.push(life)
    void schedule.run(process, work).then(leave)
  }
  return {
    schedule,
    set,
    connection,
    isOver: () => atWork === 0,
    spawn,
    openDatabase: () => createModelDatabase(connection, server, () => schedule.nowMs),
    async attempt(work) {
      try {
        await work()
      } catch (error) {
        if (!isOutage(error) && !(error instanceof Refusal && error.code === 'unavailable')) throw error
      }
    },
    pause: (maxMs = 200) => new Promise((resolve) => void setTimeout(resolve, schedule.random.below(maxMs))),
    fail: (what) => void schedule.failures.push(what),
  }
}
