import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { RefusalError, TransportError, type Event, type EventPage } from '../../client/client.ts'
import { readPrivateFile, writePrivateFile } from '../../client/private-file.ts'
import { CommandError } from './command-error.ts'
import { formatJson } from './format.ts'
import type { Session } from './session.ts'
import { defineVerb, type Verb } from './verb.ts'

/** Less than the client waits for an answer. */
const WAIT_SECONDS = 25
const RETRY_MS = { first: 1_000, longest: 30_000 } as const

export const watchVerb: Verb = defineVerb({
  name: 'watch',
  words: [],
  options: {
    exec: { kind: 'text', value: 'CMD', help: 'run CMD for each event, which it gets on stdin' },
    once: { kind: 'flag', help: 'end when there are no more, instead of waiting for the next' },
    'from-start': { kind: 'flag', help: 'begin with the oldest event that is kept' },
  },
  help: 'Print what concerns you as JSON lines, from where the last run ended',
  async run({ options, session }) {
    const cursorFile = session.tokenFile.replace(/\.json$/, '.events.json')
    const known = readPrivateFile(cursorFile, (text) => JSON.parse(text) as { after?: unknown })
    let after = options['from-start'] ? '0' : typeof known?.after === 'string' ? known.after : undefined
    // A first run that only looks has something to show.
    if (options.once && after === undefined) after = '0'
    let count = 0
    for (;;) {
      const page = await readPage(session, after, options.once ? 0 : WAIT_SECONDS)
      if (page.truncated) session.progress.say('watch: some events are no longer kept; what follows is newer')
      for (const event of page.events) {
        await tell(session, event, options.exec)
        // Not before: a run that is stopped here tells of this event again.
        writePrivateFile(cursorFile, formatJson({ after: event.cursor }))
        count++
      }
      if (page.next !== after) writePrivateFile(cursorFile, formatJson({ after: page.next }))
      after = page.next
      if (options.once && !page.more) break
    }
    const answer = { ok: true, count, next: after }
    return { answer, text: JSON.stringify(answer) }
  },
})

/** A service that is away is asked again, for as long as it takes. */
async function readPage(session: Session, after: string | undefined, wait: number): Promise<EventPage> {
  const { client } = await session.own()
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

async function tell(session: Session, event: Event, command: string | undefined): Promise<void> {
  if (command === undefined) return session.print(JSON.stringify(event))
  const code = await new Promise<number | null>((resolve, reject) => {
    const child = spawn(command, {
      shell: true,
      stdio: ['pipe', 'inherit', 'inherit'],
      signal: session.signal,
    })
    child.once('error', reject)
    child.once('close', resolve)
    // A command that reads nothing may have ended already.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(`${JSON.stringify(event)}\n`)
  })
  if (code !== 0)
    throw new CommandError(
      'command_failed',
      `The command ended with ${code ?? 'a signal'} on the event ${event.cursor}; the next run begins with it.`,
    )
}
