import { reconcileCoin } from '../reconcile.ts'
import { nanoDriver } from './nano-driver.ts'
import type { NanoContext } from './nano-gateway.ts'

export const reconcileNano = (ctx: NanoContext): Promise<void> => reconcileCoin(ctx, nanoDriver(ctx))
