import type { Socket } from 'node:net'
import { ACCEPT_BUDGET_MS, LINE_SHARES, PASS_BUDGET_MS } from '../../shared/platform/limits.ts'

/*
 * Turns at the thread of an API process. What begins with a turn runs until it waits for something, and the
 * next turn is given then. In one pass of the event loop, turns are given until PASS_BUDGET_MS are spent.
 *
 * Who is next is decided by start-time fair queueing (Goyal, Vin, Cheng: IEEE/ACM Transactions on Networking
 * 5(5), 1997). A turn has a start tag: the finish tag of the caller's last turn, or the line's virtual time if
 * that is later. Its finish tag is its start tag and the time that it took; the line's virtual time is the
 * start tag of its last turn; and the turn with the lowest start tag is next. So callers who want more than
 * there is get the same time each, and whoever wants less is next as soon as he asks. When nobody waits, the
 * tags are forgotten.
 */

/** Who takes turns: an agent by its id, or a connection that has sent no known token. */
export type Caller = string | Socket

/** The lines share the time of a pass. */
export type LineName = keyof typeof LINE_SHARES

/** Makes something for each line. */
export const perLine = <T>(make: (line: LineName) => T): Record<LineName, T> => ({
  agents: make('agents'),
  proofs: make('proofs'),
  open: make('open'),
})

/** For whom something takes its turn. */
export interface Visitor {
  line: LineName
  caller: Caller
  /** What waits is given no turn once it is aborted. */
  signal?: AbortSignal | undefined
}

/**
 * Returns for whom a request takes its turn.
 *
 * @param agentId undefined for a caller that is not known
 */
export const visitorOf = (agentId: string | undefined, socket: Socket, signal: AbortSignal): Visitor =>
  agentId === undefined
    ? { line: 'open', caller: socket, signal }
    : { line: 'agents', caller: agentId, signal }

/** Whether a turn begins a request, or goes on with one. */
export type TurnKind = 'beginning' | 'part'

export interface Turns {
  /**
   * Resolves when the visitor's turn has come. Of what a caller has waiting, parts come before beginnings.
   *
   * @throws the reason of the visitor's signal, when the turn would have come, if that is aborted by then
   */
  wait(visitor: Visitor, kind: TurnKind): Promise<void>
  /** Whether the visitor's turn has begun and lasts still. */
  isRunning(visitor: Visitor): boolean
  /** Notes that the server has accepted a connection. */
  noteConnection(): void
}

/** Creates the turns of one process. */
export function createTurns(): Turns {
  const lines = perLine((line) => createLine(LINE_SHARES[line]))
  const all = Object.values(lines)
  let spentMs = 0
  let running: Visitor | undefined
  let isGiving = false
  let isPassDue = false
  let isAccepted = false
  /** Set while connections are accepted before turns are given. */
  let acceptUntilMs: number | undefined

  /** Gives the next turn, unless nobody waits or the time of this pass is spent. */
  function give(): void {
    isGiving = false
    if (spentMs >= PASS_BUDGET_MS) return
    let next: Line | undefined
    for (const line of all)
      if (line.isWaiting() && (next === undefined || line.spent() < next.spent())) next = line
    if (next === undefined) return
    isGiving = true
    const startedAt = performance.now()
    const end = next.begin()
    // Node empties the queue of microtasks, so all that begins now, before it comes to the next tick.
    queueMicrotask(() =>
      process.nextTick(() => {
        const tookMs = performance.now() - startedAt
        end?.(tookMs)
        running = undefined
        spentMs += tookMs
        give()
      }),
    )
    if (isPassDue) return
    isPassDue = true
    setImmediate(beginPass)
  }

  /**
   * Begins the next pass. The event loop accepts one connection in each of its passes: so after one in which
   * it did, turns are given only when no more come, or after ACCEPT_BUDGET_MS of that. Otherwise a caller who
   * connects behind a crowd would wait for the crowd's requests.
   */
  function beginPass(): void {
    const hasAccepted = isAccepted
    isAccepted = false
    if (hasAccepted) acceptUntilMs ??= performance.now() + ACCEPT_BUDGET_MS
    if (hasAccepted && performance.now() < (acceptUntilMs ?? 0)) return void setImmediate(beginPass)
    acceptUntilMs = undefined
    isPassDue = false
    spentMs = 0
    for (const line of all) line.beginPass()
    give()
  }

  return {
    wait(visitor, kind) {
      const { line, caller, signal } = visitor
      return new Promise((resolve, reject) => {
        lines[line].add(caller, kind, () => {
          if (signal?.aborted === true) {
            reject(signal.reason as Error)
            return false
          }
          running = visitor
          resolve()
          return true
        })
        if (!isGiving) give()
      })
    },
    isRunning: (visitor) => visitor === running,
    noteConnection() {
      isAccepted = true
    },
  }
}

/** What waits for its turn; called when that has come. Returns false, without a turn, if it is over by then. */
type Waiting = () => boolean

/** What a caller has waiting, in the order in which it came. */
interface CallersTurns {
  caller: Caller
  startTag: number
  part: Waiting[]
  beginning: Waiting[]
}

/** Callers that take turns with each other. */
interface Line {
  add(caller: Caller, kind: TurnKind, waiting: Waiting): void
  isWaiting(): boolean
  /** Gives the turn that is next. @returns what has to be called with the time that it took; undefined if all is over */
  begin(): ((tookMs: number) => void) | undefined
  /** The time that its turns took in this pass, in terms of its share. */
  spent(): number
  beginPass(): void
}

/** Finish tags beyond this number are looked through for those that mean nothing any more. */
const MANY_TAGS = 10_000

function createLine(share: number): Line {
  const callers = new Map<Caller, CallersTurns>()
  /** The callers, but for the one whose turn it is, by their start tags; equal tags in the order in which they came. */
  const inOrder: CallersTurns[] = []
  const finishTags = new Map<Caller, number>()
  let virtualTime = 0
  let spentMs = 0

  /** Puts a caller behind all whose start tags are not greater. */
  function queue(one: CallersTurns): void {
    const before = inOrder.findLastIndex(({ startTag }) => startTag <= one.startTag)
    inOrder.splice(before + 1, 0, one)
  }

  /** Notes the end of a turn. */
  function endTurn(own: CallersTurns, finishTag: number): void {
    const { caller } = own
    finishTags.set(caller, finishTag)
    if (finishTags.size > MANY_TAGS)
      for (const [one, tag] of finishTags) if (tag <= virtualTime) finishTags.delete(one)
    own.startTag = finishTag
    if (own.part.length + own.beginning.length > 0) queue(own)
    else callers.delete(caller)
    // What somebody had while nobody else wanted it is not held against him.
    if (callers.size === 0) finishTags.clear()
  }

  return {
    add(caller, kind, waiting) {
      const own = callers.get(caller)
      if (own !== undefined) return void own[kind].push(waiting)
      const startTag = Math.max(virtualTime, finishTags.get(caller) ?? 0)
      const added: CallersTurns = { caller, startTag, part: [], beginning: [] }
      added[kind].push(waiting)
      callers.set(caller, added)
      queue(added)
    },
    isWaiting: () => inOrder.length > 0,
    begin() {
      for (;;) {
        const own = inOrder.shift()
        if (own === undefined) return undefined
        for (let next = takeNext(own); next !== undefined; next = takeNext(own)) {
          if (!next()) continue
          virtualTime = own.startTag
          return (tookMs) => {
            spentMs += tookMs
            endTurn(own, own.startTag + tookMs)
          }
        }
        callers.delete(own.caller)
      }
    },
    spent: () => spentMs / share,
    beginPass() {
      spentMs = 0
    },
  }
}

/** Takes what is next of what a caller has waiting: parts come before beginnings. */
const takeNext = ({ part, beginning }: CallersTurns): Waiting | undefined => part.shift() ?? beginning.shift()
