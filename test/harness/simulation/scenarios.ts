import { claimsScenario } from './scenarios/claims.ts'
import { eventsScenario } from './scenarios/events.ts'
import { logScenario } from './scenarios/log.ts'
import { moneyScenario } from './scenarios/money.ts'
import { passesScenario } from './scenarios/passes.ts'
import type { Scenario } from './world.ts'

export const SCENARIOS: readonly Scenario[] = [
  logScenario,
  eventsScenario,
  moneyScenario,
  passesScenario,
  claimsScenario,
]
