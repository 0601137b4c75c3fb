import { compareBooks } from '../../shared/payments/books.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { moneroHoldings } from '../../shared/payments/monero/monero-holdings.ts'
import { watchMonero as watch } from '../../shared/payments/monero/monero-watch.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function watchMonero(ctx: WorkerContext): Promise<void> {
  const own = requireMonero(ctx)
  await watch(own)
  await compareBooks(ctx, 'xmr', () => moneroHoldings(own))
}
