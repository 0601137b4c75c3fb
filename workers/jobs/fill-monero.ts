import fs from 'node:fs'
import path from 'node:path'
import { fillPool } from '../../shared/payments/address-pool.ts'
import { untilNodeFails } from '../../shared/payments/coin-round.ts'
import { moneroDriver } from '../../shared/payments/monero/monero-driver.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import type { WorkerContext } from '../worker-context.ts'

export async function fillMonero(ctx: WorkerContext): Promise<void> {
  const driver = moneroDriver(requireMonero(ctx))
  await untilNodeFails(ctx, 'xmr', async () => {
    if (!(await driver.agrees())) return
    fs.mkdirSync(path.dirname(driver.addresses.indexFile), { recursive: true })
    await fillPool(ctx, driver.addresses)
  })
}
