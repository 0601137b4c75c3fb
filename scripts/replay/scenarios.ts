import { logScenario } from './scenarios/log.ts'
import type { Scenario } from './world.ts'

export const SCENARIOS: readonly Scenario[] = [logScenario]
