import type { WatchStep } from '../../ledger/step.ts'
import { fillCoinPool } from '../address-pool.ts'
import { nanoDriver } from './nano-driver.ts'
import type { NanoContext } from './nano-gateway.ts'

export const fillNanoPool = (ctx: NanoContext, watch?: WatchStep): Promise<void> => fillCoinPool(ctx, nanoDriver(ctx), watch)
