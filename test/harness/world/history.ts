import fs from 'node:fs'
import type { Observation } from './observe.ts'

/** One request and what came of it. Times are milliseconds from the beginning of the run. */
export interface Call {
  n: number
  atMs: number
  tookMs: number
  /** The agent's name, or `operator`. */
  who: string
  /** What kind of request it was, such as `post`. */
  did: string
  /** The index of the API process; absent for the operator's command. */
  api?: number
  method: string
  path: string
  body?: unknown
  /** A text in what the request writes, by which it is found in the database. */
  marker?: string
  /** The answer's status; absent if none came. */
  status?: number
  error?: string
  answer?: Record<string, unknown>
  /** The token that was used, shortened and hashed; absent if none was needed. */
  token?: string
  /** What a good answer says about objects. */
  seen?: Observation[]
  /** Why no answer came. */
  lost?: string
}

/** A fault as it happened. */
export interface FaultRecord {
  kind: string
  target: string
  fromMs: number
  toMs: number
}

/** Whether a write was acknowledged (`yes`) or refused (`no`). If `unknown`, it may be stored or not. */
export type Fate = 'yes' | 'no' | 'unknown'

export interface History {
  readonly calls: Call[]
  readonly faults: FaultRecord[]
  /** A phrase for each fault that could not be caused: its kind, and why. */
  readonly notCaused: string[]
  /** How many faults are under way. */
  faultsUnderWay: number
  /** When the last fault ended. */
  lastFaultEndMs: number
  /** Milliseconds since the beginning of the run. */
  nowMs(): number
  /** Adds a call, and numbers it. */
  record(call: Omit<Call, 'n'>): Call
  /**
   * Formats, in order of time, the calls that have one of these words in their body, path or answer, and the
   * faults at that time; of many calls the first and the last ones.
   */
  describeCallsWith(words: readonly string[]): string
  /** Writes all calls and faults to a file, a line of JSON each. */
  write(file: string): void
}

/** What a call's answer says about its write; without an answer, or with a 5xx, that is unknown. */
export function fateOf({ status }: Pick<Call, 'status'>): Fate {
  if (status === undefined || status >= 500) return 'unknown'
  return status < 300 ? 'yes' : 'no'
}

/** How many calls are shown from the beginning, and as many from the end. */
const SHOWN_CALLS = 20
const SHOWN_LENGTH = 400

const withoutMiddle = <T>(items: readonly T[]): readonly T[] =>
  items.length <= 2 * SHOWN_CALLS ? items : [...items.slice(0, SHOWN_CALLS), ...items.slice(-SHOWN_CALLS)]

/** An empty history; its time begins now. */
export function startHistory(): History {
  const startedAt = performance.now()
  const calls: Call[] = []
  const faults: FaultRecord[] = []
  return {
    calls,
    faults,
    notCaused: [],
    faultsUnderWay: 0,
    lastFaultEndMs: 0,
    nowMs: () => performance.now() - startedAt,
    record(call) {
      const recorded = { n: calls.length, ...call }
      calls.push(recorded)
      return recorded
    },
    describeCallsWith(words) {
      const concerned = calls
        .map((call) => ({ call, line: formatCall(call) }))
        .filter(({ call, line }) =>
          words.some(
            (word) => line.includes(word) || JSON.stringify([call.body, call.answer]).includes(word),
          ),
        )
      const first = concerned[0]?.call.atMs ?? 0
      const last = Math.max(...concerned.map(({ call }) => call.atMs + call.tookMs))
      const meanwhile = faults.filter(({ fromMs, toMs }) => toMs >= first - 2_000 && fromMs <= last + 2_000)
      const lines = [
        ...withoutMiddle(concerned).map(({ call, line }) => ({
          atMs: call.atMs,
          line: line.slice(0, SHOWN_LENGTH),
        })),
        ...meanwhile.map((fault) => ({ atMs: fault.fromMs, line: formatFault(fault) })),
      ]
      return lines
        .sort((one, other) => one.atMs - other.atMs)
        .map(({ line }) => `    ${line}`)
        .join('\n')
    },
    write(file) {
      const lines = [...calls.map((call) => ({ call })), ...faults.map((fault) => ({ fault }))]
      fs.writeFileSync(file, `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`, { mode: 0o600 })
    },
  }
}

const toSeconds = (ms: number): string => (ms / 1_000).toFixed(3).padStart(8)

function formatCall(call: Call): string {
  const { atMs, tookMs, who, did, api, method, path, body, status, error, lost, answer } = call
  const outcome = lost === undefined ? `${status}${error === undefined ? '' : ` ${error}`}` : `lost: ${lost}`
  const answerText =
    answer === undefined || status === undefined || status >= 300 ? '' : ` ${JSON.stringify(answer)}`
  const process = api === undefined ? '' : ` api-${api}`
  return `${toSeconds(atMs)} +${Math.round(tookMs)} ms  ${who}${process} ${did}: ${method} ${path} ${body === undefined ? '' : JSON.stringify(body)} → ${outcome}${answerText}`
}

const formatFault = ({ kind, target, fromMs, toMs }: FaultRecord): string =>
  `${toSeconds(fromMs)} … ${toSeconds(toMs).trim()}  FAULT ${kind} (${target})`
