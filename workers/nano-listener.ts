import type { QueueName } from '../shared/platform/queue-table.ts'
import { requireNano, type NanoContext } from '../shared/money/coins/nano/nano-gateway.ts'
import { scanHinted } from '../shared/money/coins/nano/nano-scan.ts'
import { watchNanoConfirmations, type NanoWatch } from '../shared/money/coins/nano/nano-websocket.ts'
import { isNodeTrouble } from '../shared/money/node-errors.ts'
import { recordScan } from '../shared/money/record-scan.ts'
import { createGroups } from '../shared/platform/group-commit.ts'
import { createTracker, type Tracker } from '../shared/platform/tracker.ts'
import { unixSeconds } from '../shared/platform/time.ts'
import type { CoinsContext } from './worker-context.ts'

/**
 * Listens to the node's confirmations if this process serves `watch-nano` and NANO_WS_URL is set; returns
 * undefined if not. They only make payments known sooner: polling finds every payment, too.
 *
 * @param aside tracks what it looks up and stores
 */
export function startNanoListener(
  ctx: CoinsContext,
  served: readonly QueueName[],
  aside: Tracker = createTracker(),
): NanoWatch | undefined {
  const { wsUrl: url } = ctx.config.nano
  if (url === undefined || ctx.nano === undefined || !served.includes('watch-nano')) return undefined
  const noteWebsocket = (websocket: 'listening' | 'silent'): Promise<void> =>
    ctx.coins
      .report('xno', { websocket }, unixSeconds(ctx.database.now()))
      .catch((error: unknown) => ctx.log.warn({ err: error }, 'the state of the websocket was not stored'))
  const lookSoon = createNanoHints(requireNano(ctx))
  return watchNanoConfirmations({
    url,
    log: ctx.log,
    onConfirmation: ({ destination }) => void aside.track(lookSoon(destination)),
    onSilence: (reason) => {
      ctx.log.warn({ reason }, 'nobody answers at NANO_WS_URL; payments in Nano are found by polling alone')
      void aside.track(noteWebsocket('silent'))
    },
    onState: (state) => {
      ctx.log.info({ state }, "the Nano node's websocket")
      if (state !== 'listening') return
      void aside.track(noteWebsocket(state))
      // What was confirmed while nobody listened is looked for at once.
      void ctx.queues.enqueue('watch-nano', {}, { debounceId: 'listening' })
    },
  })
}

const HINTS_AT_ONCE = 500

/**
 * Makes a function that takes the destination of each confirmed send, and scans it if it is an invoice's
 * address. Destinations that come during a scan share the next one; errors are logged.
 */
export function createNanoHints(ctx: NanoContext): (destination: string) => Promise<void> {
  return createGroups<string, void>(
    async (destinations) => {
      try {
        await recordScan(ctx, 'xno', scanHinted(ctx, [...new Set(destinations)]))
      } catch (error) {
        const level = isNodeTrouble(error) ? 'debug' : 'warn'
        ctx.log[level]({ err: error }, 'a confirmation in Nano could not be followed')
      }
      return destinations.map(() => ({ status: 'fulfilled', value: undefined }))
    },
    { maxItems: HINTS_AT_ONCE, atOnce: 2 },
  )
}
