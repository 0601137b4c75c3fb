import { setTimeout as sleep } from 'node:timers/promises'
import { RefusalError, TransportError, type Event, type ListEventsAnswer } from '../client.ts'
import { readPrivateFile, writePrivateFile } from '../private-file.ts'
import { CommandError } from './command-error.ts'
import { formatCount, formatJson } from './format.ts'
import { isObject } from '../verify/values.ts'
import type { Session } from './session.ts'
import { runShell } from './shell.ts'
import { defineVerb, flagOption, textOption, type Verb } from './verb.ts'

/** Less than the client waits for an answer. */
const WAIT_SECONDS = 25
const RETRY_MS = { first: 1_000, longest: 30_000 } as const

export const watchVerb: Verb = defineVerb({
  name: 'watch',
  options: {
    exec: textOption('CMD', 'run CMD for each event, which it gets on stdin'),
    once: flagOption('end when there are no more, instead of waiting for the next'),
    'from-start': flagOption('begin with the oldest event that is kept'),
  },
  help: 'Print what concerns you as JSON lines, from where the last run ended',
  async run({ options, session }) {
    const cursorFile = session.tokenFile.replace(/\.json$/, '.events.json')
    let after = options['from-start'] ? undefined : readCursor(cursorFile)
    // A first run with --once begins with the oldest too, so that it has something to show.
    if (options['from-start'] || (options.once && after === undefined)) after = '0'
    const keep = (cursor: string): void => writePrivateFile(cursorFile, { after: cursor })
    const seen: Event[] = []
    for (;;) {
      const page = await readPage(session, after, options.once ? 0 : WAIT_SECONDS)
      if (page.truncated) session.progress.say('watch: some events are no longer kept; what follows is newer')
      for (const event of page.events) {
        if (options.exec !== undefined) await runCommand(session, event, options.exec)
        else if (!options.once) session.print(formatJson(event))
        seen.push(event)
        // Kept only now: if this run is stopped before, the next one gives the event again.
        if (options.exec !== undefined || !options.once) keep(event.cursor)
      }
      after = page.next
      if (!options.once) {
        seen.length = 0
        keep(page.next)
      } else if (!page.more) {
        const answer = { ok: true, events: seen, count: seen.length, next: page.next }
        const text =
          options.exec === undefined
            ? seen.map(formatJson).join('\n')
            : `${formatCount(seen.length, 'event')}.`
        return { answer, text, afterPrinting: () => keep(page.next) }
      }
    }
  },
})

/**
 * The cursor of the last event that a run has handed on; undefined before the first.
 *
 * @throws Error that names the file if it holds something else: events would be passed over unseen
 */
export const readCursor = (file: string): string | undefined =>
  readPrivateFile(
    file,
    (value) => {
      const { after } = isObject(value) ? value : {}
      return typeof after === 'string' && /^[0-9]{1,16}$/.test(after) ? after : undefined
    },
    'does not hold where the last run ended; "watch --from-start" begins anew.',
  )

/**
 * Fetches the next events. A service that doesn't answer is asked again until it does, unless `wait` is 0.
 *
 * @param after the cursor of the last event that is known
 * @param wait seconds that the service waits for an event if there is none
 */
async function readPage(
  session: Session,
  after: string | undefined,
  wait: number,
): Promise<ListEventsAnswer> {
  const { client } = await session.authenticate()
  for (let pauseMs: number = RETRY_MS.first; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS.longest)) {
    try {
      return await client.events({ after, wait })
    } catch (error) {
      const isAway =
        error instanceof TransportError || (error instanceof RefusalError && error.error === 'unavailable')
      if (!isAway || wait === 0) throw error
      session.progress.say(`watch: ${error.message}`)
      await sleep(pauseMs, undefined, { signal: session.signal })
    }
  }
}

/** Runs a command with the event on its stdin. @throws CommandError unless it ends with 0 */
async function runCommand(session: Session, event: Event, command: string): Promise<void> {
  const code = await runShell(command, { input: `${formatJson(event)}\n`, signal: session.signal })
  if (code !== 0)
    throw new CommandError(
      'command_failed',
      `The command ended with ${code ?? 'a signal'} on the event ${event.cursor}; the next run begins with it.`,
    )
}
