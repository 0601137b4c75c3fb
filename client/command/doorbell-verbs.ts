import { createServer, type IncomingMessage } from 'node:http'
import { answerChallenge, readRing, type Ring } from '../doorbell.ts'
import { readPrivateFile, writePrivateFile } from '../private-file.ts'
import { CommandError, usageError } from './command-error.ts'
import { formatFields, formatJson } from './format.ts'
import type { Session } from './session.ts'
import { runShell } from './shell.ts'
import { defineCall, defineVerb, listOption, numberOption, textOption, type Verb } from './verb.ts'

/** What listen needs of a doorbell that was set. */
interface Kept {
  url: string
  secret: string
}
const fileOf = ({ tokenFile }: Session): string => tokenFile.replace(/\.json$/, '.doorbell.json')
const MAX_BODY_BYTES = 4_096
const PORT = 8_787
const KEYS_FOR_MS = 60_000

export const doorbellVerbs: readonly Verb[] = [
  defineVerb({
    name: 'doorbell set',
    words: ['URL'],
    options: {
      kind: listOption('KIND', 'a kind of event that rings; all if absent'),
      quiet: textOption('HH:MM-HH:MM', 'when it does not ring, in UTC'),
    },
    help: 'Have an https URL of yours told when you have events; "doorbell listen" behind it answers',
    async run({ words: [url], options: { kind, quiet }, session }) {
      const [from, to] = quiet?.split('-') ?? []
      if (quiet !== undefined && to === undefined) throw usageError('--quiet expected HH:MM-HH:MM.')
      const { client } = await session.authenticate()
      const answer = await client.setDoorbell({
        url,
        ...(kind === undefined ? {} : { kinds: kind as never }),
        ...(from === undefined || to === undefined ? {} : { quiet_hours: { from, to } }),
      })
      const kept: Kept = { url: answer.doorbell?.url ?? url, secret: answer.secret }
      writePrivateFile(fileOf(session), kept)
      return { answer, text: 'Set. It rings once its URL has answered a challenge; "doorbell show" says so.' }
    },
  }),
  defineCall({
    name: 'doorbell show',
    help: 'Your doorbell, and how its last ring went',
    call: ({ client }) => client.doorbell(),
    text({ doorbell }) {
      const { url = 'none', state, failure } = doorbell ?? {}
      return formatFields({ url, state, failure: failure ?? undefined })
    },
  }),
  defineCall({
    name: 'doorbell off',
    help: 'Take your doorbell away',
    call: ({ client }) => client.removeDoorbell(),
    text: () => 'Off.',
  }),
  defineVerb({
    name: 'doorbell listen',
    options: {
      port: numberOption('PORT', `on this machine alone, for your tunnel or proxy; ${PORT} if absent`, 1),
      exec: textOption('CMD', 'run CMD at each ring; without it, a line is printed'),
    },
    help: 'Answer challenges and rings, which come through your own tunnel or proxy, until it is stopped',
    async run({ options: { port = PORT, exec }, session }) {
      const { agent_id: agentId } = session.requireIdentity()
      const readKeys = keyReader(session)
      const run = once(() => (exec === undefined ? undefined : runCommand(session, exec)))
      const server = createServer((req, res) => {
        answer(session, agentId, readKeys, req)
          .then(([status, text, ring]) => {
            res.writeHead(status).end(text)
            if (ring?.kind === 'wake' && exec === undefined) session.print(formatJson(ring))
            else if (ring?.kind === 'wake') run()
          })
          .catch((error: unknown) => {
            session.progress.say(`doorbell: ${error instanceof Error ? error.message : String(error)}`)
            res.writeHead(503).end()
          })
      })
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, '127.0.0.1', () => session.progress.say(`doorbell: listens on 127.0.0.1:${port}`))
        session.signal.addEventListener('abort', () => {
          server.close(() => resolve())
          server.closeAllConnections()
        })
      })
      session.signal.throwIfAborted()
      return { answer: { ok: true }, text: '' }
    },
  }),
]

/** @returns the status and the text to answer with, and the ring if it is one of this agent's */
async function answer(
  session: Session,
  agentId: string,
  readKeys: () => Promise<readonly string[]>,
  req: IncomingMessage,
): Promise<[number, string, Ring?]> {
  const kept = readPrivateFile(fileOf(session), (value) => value as Kept | undefined)
  if (kept === undefined)
    throw new CommandError('wrong_state', 'No doorbell is set; "doorbell set URL" first.')
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    if ((bytes += chunk.length) > MAX_BODY_BYTES) return [413, '']
  }
  const post = { url: kept.url, body: Buffer.concat(chunks).toString(), headers: req.headers }
  const ring = readRing(post, await readKeys())
  if (ring?.agent_id !== agentId) return [401, '']
  return ring.challenge === undefined
    ? [204, '', ring]
    : [200, answerChallenge(ring.challenge, kept.secret), ring]
}

/** The keys that sign rings, asked for at most once a minute, whoever posts here. */
function keyReader({ client }: Session): () => Promise<readonly string[]> {
  let keys: readonly string[] = []
  let askedAtMs = -Infinity
  return async () => {
    if (performance.now() - askedAtMs > KEYS_FOR_MS) {
      keys = (await client.rules()).doorbells.keys
      askedAtMs = performance.now()
    }
    return keys
  }
}

/** Returns a function that runs the work, and once more after it if it is called meanwhile. */
function once(work: () => Promise<void> | undefined): () => void {
  let running = false
  let again = false
  const run = (): void => {
    again = running
    if (running) return
    running = true
    void Promise.resolve(work()).finally(() => {
      running = false
      if (again) run()
    })
  }
  return run
}

/** Runs a command; how it ended is said if that wasn't well. */
async function runCommand({ progress }: Session, command: string): Promise<void> {
  try {
    const code = await runShell(command)
    if (code !== 0) progress.say(`doorbell: the command ended with ${code ?? 'a signal'}`)
  } catch (error) {
    progress.say(`doorbell: the command could not be run: ${(error as Error).message}`)
  }
}
