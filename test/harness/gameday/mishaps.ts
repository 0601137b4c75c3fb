import { LEDGER_MISHAPS } from './ledger-mishaps.ts'
import { MONEY_MISHAPS } from './money-mishaps.ts'
import { PROCESS_MISHAPS } from './process-mishaps.ts'
import type { Mishap } from './play.ts'
import { SERVER_MISHAPS } from './server-mishaps.ts'

export const MISHAPS: readonly Mishap[] = [
  ...SERVER_MISHAPS,
  ...PROCESS_MISHAPS,
  ...LEDGER_MISHAPS,
  ...MONEY_MISHAPS,
]
