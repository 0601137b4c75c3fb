import { compareBooks } from '../../shared/payments/books.ts'
import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { nanoHoldings } from '../../shared/payments/nano/nano-holdings.ts'
import { watchNano as watch } from '../../shared/payments/nano/nano-watch.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function watchNano(ctx: WorkerContext): Promise<void> {
  const own = requireNano(ctx)
  await watch(own)
  await compareBooks(ctx, 'xno', () => nanoHoldings(own))
}
