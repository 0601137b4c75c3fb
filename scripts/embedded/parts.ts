import path from 'node:path'
import { z } from 'zod'
import { mayRead, VARIABLE_NAMES } from '../../shared/platform/config.ts'
import { STOP_LIMIT_MS } from '../../shared/platform/limits.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import type { ChildTracker } from './children.ts'
import { openLogFile } from './log-file.ts'
import { supervise, type SupervisedChild } from './supervise.ts'

/** The processes of ours that the start script runs. */
export type ChildPart = 'api' | 'workers' | 'doorbells'

/**
 * By default V8 takes 64 MB for young objects while a part starts, and keeps them. Under load this costs a tenth more
 * of the processor: set-up for production leaves the default.
 */
export const YOUNG = ['--max-semi-space-size=4']
/** Longer than a part gives itself, so that it is not killed while it finishes. */
const KILL_AFTER_MS = STOP_LIMIT_MS + 10_000
/** pino's number for a warning; less stays in the log file. */
const WARN_LEVEL = 40

/** What any program needs to find its way, and how Node itself is set. No secret is among them. */
const BASICS = [
  'PATH',
  'HOME',
  'TZ',
  'LANG',
  'LC_ALL',
  'TMPDIR',
  'NODE_ENV',
  'NODE_OPTIONS',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
]
/** For the part that talks to the outside; a proxy's URL may hold a password. */
const PROXIES = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_USE_ENV_PROXY',
]

/**
 * The environment of one part: of what we were given, the settings and secrets that this part reads, and what
 * any program needs.
 */
export function selectEnvironment(env: NodeJS.ProcessEnv, part: ChildPart): NodeJS.ProcessEnv {
  const names: string[] = [
    ...BASICS,
    ...(part === 'workers' ? PROXIES : []),
    ...VARIABLE_NAMES.filter((name) => mayRead(name, part)),
    // OpenTelemetry's library reads its own.
    ...Object.keys(env).filter((name) => name.startsWith('OTEL_')),
  ]
  const selected: NodeJS.ProcessEnv = {}
  for (const name of names) {
    const value = env[name]
    if (value !== undefined && value !== '') selected[name] = value
  }
  return selected
}

/**
 * Runs one part under supervision: its log goes to `logs/PART.log`, and the messages of warnings and errors
 * also to `report`.
 */
export function startPart(options: {
  part: ChildPart
  script: string
  args?: readonly string[]
  env: NodeJS.ProcessEnv
  dataDir: string
  children: ChildTracker
  report: (line: string) => void
}): SupervisedChild {
  const { part, report } = options
  const log = openLogFile(path.join(options.dataDir, 'logs', `${part}.log`), report)
  return supervise(
    {
      name: part,
      // A core dump would put the part's secrets into a file. By exec the part keeps the shell's process id.
      command: '/bin/sh',
      args: [
        '-c',
        'ulimit -c 0 && exec "$@"',
        part,
        process.execPath,
        ...YOUNG,
        options.script,
        ...(options.args ?? []),
      ],
      env: selectEnvironment(options.env, part),
      onLine(line) {
        log.write(line)
        const shown = formatForScreen(line)
        if (shown !== undefined) report(`${part}: ${shown}`)
      },
      onErrorLine: (line) => log.write(line),
      stopLimitMs: KILL_AFTER_MS + Number(options.env['DRAIN_SECONDS'] ?? 0) * SECOND_MS,
    },
    report,
    options.children,
  )
}

const entrySchema = z.object({
  level: z.number(),
  msg: z.string().default(''),
  err: z.object({ message: z.string() }).optional(),
})

/**
 * What the screen shows of a line that a part wrote: the message of a warning or worse; a line that is not a
 * log entry as it is; undefined, that is nothing, for other entries and empty lines.
 */
export function formatForScreen(line: string): string | undefined {
  if (!line.startsWith('{')) return line.trim() === '' ? undefined : line
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    // Half a line of a process that was killed while writing it.
    return line
  }
  const entry = entrySchema.safeParse(json)
  if (!entry.success) return line
  const { level, msg, err } = entry.data
  if (level < WARN_LEVEL) return undefined
  return [msg, ...(err === undefined ? [] : [err.message])].filter((text) => text !== '').join(': ')
}
