import { runOperator } from '../../../scripts/operator/run.ts'
import type { History } from './history.ts'

/** What the operator's command answered. */
export interface Operated {
  exitCode: number
  json: Record<string, unknown>
}

/** Runs the operator's command in this process with `--json`, and returns what it answered. */
export async function runOperatorJson(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Operated> {
  let written = ''
  const exitCode = await runOperator({
    argv: [...words, '--json'],
    env: { ...env },
    stdout: { write: (text) => void (written += text) },
    stderr: { write: () => undefined },
  })
  return { exitCode, json: JSON.parse(written) as Record<string, unknown> }
}

/**
 * Runs the operator's command, and records it like an agent's call, with the status that the API would
 * answer: 200, 503 if it was refused as unavailable, else 400.
 */
export async function operate(
  history: History,
  env: Readonly<Record<string, string>>,
  words: readonly string[],
): Promise<Operated> {
  const atMs = history.nowMs()
  const { exitCode, json } = await runOperatorJson(words, env)
  const refusal = { status: json['error'] === 'unavailable' ? 503 : 400, error: String(json['error']) }
  history.record({
    atMs,
    tookMs: history.nowMs() - atMs,
    who: 'operator',
    did: words[0] ?? '',
    method: 'operator',
    path: words.join(' '),
    answer: json,
    ...(exitCode === 0 ? { status: 200 } : refusal),
  })
  return { exitCode, json }
}
