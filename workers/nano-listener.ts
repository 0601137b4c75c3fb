import type { QueueName } from '../shared/platform/queues.ts'
import { requireNano } from '../shared/money/coins/nano/nano-gateway.ts'
import { createNanoHints } from '../shared/money/coins/nano/nano-watch.ts'
import { watchNanoConfirmations, type NanoWatch } from '../shared/money/coins/nano/nano-websocket.ts'
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
