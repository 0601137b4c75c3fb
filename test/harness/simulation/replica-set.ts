import { duplicateKey, networkError, noSuchTransaction, writeConflict } from './errors.ts'
import { isEqual, matches, NotModelled, valuesAt, type Doc } from './query.ts'
import type { Schedule, SimulatedProcess } from './schedule.ts'

/*
 * A replica set, as its clients can tell it from another: what is written, what a majority has, and what an
 * election takes back. Documents and states are never changed, only replaced.
 *
 * - *States* are the primary's, one for each write, in order. `committed` is the last that a majority has;
 *   `known` the last of which the primary knows so, which a majority read shows and a write waits for.
 * - An *election* keeps the states up to one from `committed` on. The new primary may know less of the
 *   majority at first than the old one did. The *old primary* goes on answering reads for a while from what
 *   it had, to clients that haven't heard; it acknowledges no write.
 * - A *transaction* reads a snapshot and its own writes. A write to what has changed since, or is being
 *   changed by another transaction, ends it with a conflict. A write outside waits for the transaction.
 * - What was sent may be lost before it arrives, and its answer after it was done.
 */

export type Rows = ReadonlyMap<string, Doc>
type State = ReadonlyMap<string, Rows>
const NO_ROWS: Rows = new Map()
const ORPHAN_RATE = 0.05

interface Write {
  collection: string
  key: string
  doc: Doc | undefined
}

/** A unique index: its paths, and which documents are in it. */
export interface UniqueIndex {
  paths: readonly string[]
  filter: Doc
}

export interface Transaction {
  snapshot: State
  /** The number of the snapshot's state. */
  readAt: number
  writes: Map<string, Write>
  /** Every place that it has written, whatever is left of that. */
  places: Set<string>
  term: number
  process: SimulatedProcess
  isOnOldPrimary: boolean
  state: 'open' | 'committed' | 'aborted'
}

/**
 * A client session: in a transaction, or one whose reads see no less than those before. (A class, since
 * mongoose copies plain objects among its options.)
 */
export class ModelSession {
  transaction: Transaction | undefined
  isInTransaction = false
  readonly isCausal: boolean
  /** The latest state that a causal session has seen. */
  seen = 0

  constructor(isCausal: boolean) {
    this.isCausal = isCausal
  }
  inTransaction(): boolean {
    return this.isInTransaction
  }
}

/** What an operation reads from and writes to. */
export interface View {
  rows(collection: string): Rows
  /** Whether a write must wait for another's transaction. */
  isLocked(collection: string, key: string, doc: Doc | undefined): boolean
  /** Stores a document, or removes it if it is undefined. @throws a duplicate key or a conflict */
  write(collection: string, key: string, doc: Doc | undefined): void
}

export interface Operation<T> {
  what: string
  session?: ModelSession | undefined
  concern?: 'local' | 'majority' | 'linearizable'
  isWrite: boolean
  /** At each yield others may come between; `wait`: until a transaction ends. */
  work(view: View): Generator<'wait' | undefined, T, void>
}

/** How often what goes wrong; of one schedule. */
export interface FaultRates {
  lost: number
  election: number
  /** How many there are at most: with one after the other, nothing gets done between them. */
  elections: number
  rediscover: number
  /** How soon a majority has what is written. */
  replicate: number
}

export const keyOf = (id: unknown): string => `${typeof id}:${String(id)}`

export class ReplicaSet {
  readonly #schedule: Schedule
  readonly #indexes: (collection: string) => readonly UniqueIndex[]
  readonly rates: FaultRates
  #states: State[] = [new Map()]
  committed = 0
  #known = 0
  #term = 0
  #old: { local: State; majority: State; known: number } | undefined
  #open = new Set<Transaction>()
  /** The number of the state that last wrote a place, be it empty since. */
  #writtenAt = new Map<string, number>()
  #committedAt = new Map<Transaction, number>()
  /** Counts writes, elections and ends of transactions. */
  version = 0
  /** Counts the changes of what a majority has. */
  lastingVersion = 0
  #electionsLeft: number

  constructor(
    schedule: Schedule,
    rates: FaultRates,
    indexes: (collection: string) => readonly UniqueIndex[],
  ) {
    this.#schedule = schedule
    this.#indexes = indexes
    this.rates = rates
    this.#electionsLeft = rates.elections
    schedule.events.push(
      {
        what: 'replicate',
        weight: () => (this.#known < this.#last ? rates.replicate : 0),
        run: () => this.#replicate(),
      },
      {
        what: 'election',
        weight: () => (schedule.isCalm || this.#electionsLeft === 0 ? 0 : rates.election),
        run: () => this.#elect(),
      },
      {
        what: 'what the dead left open is aborted',
        weight: () => (this.#orphan() === undefined ? 0 : ORPHAN_RATE),
        run: () => this.#abort(this.#orphan() as Transaction),
      },
    )
  }

  get #last(): number {
    return this.#states.length - 1
  }
  /** A collection as the primary has it, and as no election can take it back. */
  latest = (collection: string): Doc[] => [...(this.#states.at(-1)?.get(collection) ?? NO_ROWS).values()]
  lasting = (collection: string): Doc[] => [
    ...(this.#states[this.committed]?.get(collection) ?? NO_ROWS).values(),
  ]

  /** Stores what is there from the beginning. */
  begin(collection: string, doc: Doc): void {
    const write = { key: keyOf(doc['_id']), doc }
    this.#states[0] = new Map(this.#states[0]).set(
      collection,
      withWrites(this.#states[0]?.get(collection), [write]),
    )
  }

  /** Sends an operation of the present process. @returns what it answers */
  perform<T>(operation: Operation<T>): Promise<T> {
    const { what, session } = operation
    const process = this.#schedule.current
    if (process === undefined) throw new Error(`${what} is sent by no process`)
    return new Promise<T>((resolve, reject) => {
      const label =
        session?.isInTransaction === true ? ['TransientTransactionError'] : ['RetryableWriteError']
      const fail = (error: Error) => this.#schedule.add(`${what} fails`, () => reject(error), true)
      const answer = (value: T, index: number) => {
        const isLasting = this.#lastingOf(index)
        const term = this.#term
        this.#schedule.add(
          `${what} is answered`,
          () => {
            if (isLasting() && !this.#isLost()) return resolve(value)
            process.isOnOldPrimary = false
            reject(networkError(`the answer to ${what} is lost`, ...label))
          },
          true,
          () => isLasting() || term !== this.#term,
        )
      }
      let run: Generator<'wait' | undefined, T, void> | undefined
      let term = this.#term
      let view: View | undefined
      const step = (): void => {
        if (run === undefined && this.#isLost()) {
          process.isOnOldPrimary = false
          return fail(networkError(`${what} does not arrive`, ...label))
        }
        try {
          if (run === undefined || view === undefined) {
            term = this.#term
            const begun = this.#viewFor(operation, process)
            if (begun === undefined) return add()
            view = begun
            run = operation.work(view)
          } else if (term !== this.#term && session?.isInTransaction !== true && operation.isWrite)
            throw networkError(`the primary stepped down under ${what}`, ...label)
          const { done, value } = run.next()
          if (done !== true) return add(value === 'wait')
          const mustLast = operation.isWrite || operation.concern === 'linearizable'
          answer(value, mustLast && session?.isInTransaction !== true ? this.#last : 0)
        } catch (error) {
          if (session?.transaction !== undefined && session.isInTransaction) this.#abort(session.transaction)
          // A refused write may have come after others of the same command, which are waited for.
          fail(error as Error)
        }
      }
      const add = (mustWait = false): void => {
        const { version } = this
        this.#schedule.add(what, step, false, mustWait ? () => this.version !== version : undefined)
      }
      add()
    })
  }

  /** Where an operation reads and writes; undefined if it has to wait. @throws if no member answers it */
  #viewFor(
    { what, session, concern = 'local', isWrite }: Operation<unknown>,
    process: SimulatedProcess,
  ): View | undefined {
    if (
      process.isOnOldPrimary &&
      (this.#old === undefined || this.#schedule.random.chance(this.rates.rediscover))
    )
      process.isOnOldPrimary = false
    const old = process.isOnOldPrimary ? this.#old : undefined
    if (session?.isInTransaction === true) return this.#transactionView(session, process, old?.local)
    if (old !== undefined && (isWrite || concern === 'linearizable')) {
      process.isOnOldPrimary = false
      throw networkError(`${what} reached a primary that is none`, 'RetryableWriteError')
    }
    if (isWrite) return this.#directView()
    const known = old?.known ?? this.#known
    if (session?.isCausal === true) {
      if (known < session.seen) {
        process.isOnOldPrimary = false
        return undefined
      }
      session.seen = known
    }
    const last = this.#states.at(-1) as State
    const lasting = this.#states[this.#known] as State
    return readView(concern === 'majority' ? (old?.majority ?? lasting) : (old?.local ?? last))
  }

  /** A write outside of transactions. */
  #directView(): View {
    const placesOf = (write: Write) => this.#placesOf(write, this.#rows(write.collection))
    return {
      rows: (collection) => this.#rows(collection),
      isLocked: (collection, key, doc) => this.#isTaken(placesOf({ collection, key, doc }), undefined),
      write: (collection, key, doc) => {
        const write = { collection, key, doc }
        this.#requireUnique(write, this.#rows(collection))
        this.#store([write], placesOf(write))
      },
    }
  }

  #transactionView(session: ModelSession, process: SimulatedProcess, old: State | undefined): View {
    const transaction = (session.transaction ??= this.#begin(process, old))
    const { snapshot, writes } = transaction
    const isCutOff = transaction.isOnOldPrimary ? old === undefined : transaction.term !== this.#term
    if (transaction.state === 'aborted' || isCutOff) throw noSuchTransaction()
    const rows = (collection: string): Rows => {
      const own = [...writes.values()].filter((write) => write.collection === collection)
      return own.length === 0
        ? (snapshot.get(collection) ?? NO_ROWS)
        : withWrites(snapshot.get(collection), own)
    }
    return {
      rows,
      isLocked: () => false,
      write: (collection, key, doc) => {
        const write = { collection, key, doc }
        this.#requireUnique(write, rows(collection))
        const places = this.#placesOf(write, rows(collection))
        const isNewer = places.some((place) => (this.#writtenAt.get(place) ?? 0) > transaction.readAt)
        if (!transaction.isOnOldPrimary && (isNewer || this.#isTaken(places, transaction)))
          throw writeConflict()
        for (const place of places) transaction.places.add(place)
        writes.set(`${collection} ${key}`, write)
      },
    }
  }

  #begin(process: SimulatedProcess, old: State | undefined): Transaction {
    const snapshot = old ?? this.#states.at(-1) ?? (new Map() as State)
    const isOnOldPrimary = old !== undefined
    const begun: Transaction = {
      snapshot,
      readAt: this.#last,
      writes: new Map(),
      places: new Set(),
      term: this.#term,
      process,
      isOnOldPrimary,
      state: 'open',
    }
    if (!isOnOldPrimary) this.#open.add(begun)
    return begun
  }

  /** Commits a session's transaction. Asked again, it answers again. */
  commit(session: ModelSession): Promise<void> {
    const { transaction } = session
    if (transaction === undefined) return Promise.resolve()
    const process = this.#schedule.current as SimulatedProcess
    return new Promise((resolve, reject) => {
      const unknown = () => networkError('the commit is open', 'UnknownTransactionCommitResult')
      const fail = (error: Error) => {
        process.isOnOldPrimary = false
        this.#schedule.add('commit fails', () => reject(error), true)
      }
      this.#schedule.add(
        'commit',
        () => {
          if (this.#isLost()) return fail(unknown())
          const { writes, isOnOldPrimary } = transaction
          if (isOnOldPrimary) {
            const old = this.#old
            const isAnswered =
              writes.size === 0 && process.isOnOldPrimary && old !== undefined && old.local === old.majority
            return isAnswered
              ? this.#schedule.add('commit is answered', resolve, true)
              : fail(noSuchTransaction())
          }
          const isOver = transaction.state === 'aborted' || transaction.term !== this.#term
          if (isOver && !this.#committedAt.has(transaction)) return fail(noSuchTransaction())
          if (transaction.state === 'open') {
            this.#end(transaction, 'committed')
            if (writes.size > 0) this.#store([...writes.values()], transaction.places)
            this.#committedAt.set(transaction, this.#last)
          }
          const index = this.#committedAt.get(transaction) ?? 0
          const isLasting = this.#lastingOf(index)
          const term = this.#term
          this.#schedule.add(
            'commit is answered',
            () => (isLasting() && !this.#isLost() ? resolve() : reject(unknown())),
            true,
            () => isLasting() || term !== this.#term,
          )
        },
        false,
      )
    })
  }

  /** Ends a session's transaction without its writes, at some time from now. */
  abort({ transaction }: ModelSession): void {
    if (transaction?.state === 'open') this.#schedule.add('abort', () => this.#abort(transaction), false)
  }

  /** An open transaction whose process is dead: the server ends it after a minute. */
  #orphan(): Transaction | undefined {
    for (const transaction of this.#open) if (!transaction.process.isAlive) return transaction
    return undefined
  }

  /** Aborts what dead processes have left open. */
  abortAll(): void {
    for (const transaction of this.#open) this.#abort(transaction)
  }

  #abort(transaction: Transaction): void {
    if (transaction.state === 'open') this.#end(transaction, 'aborted')
  }

  #end(transaction: Transaction, state: 'committed' | 'aborted'): void {
    transaction.state = state
    this.#open.delete(transaction)
    this.version++
  }

  /** Whether the primary knows that a majority has this state, and no other that came in its place. */
  #lastingOf(index: number): () => boolean {
    const state = this.#states[index]
    return () => index <= this.#known && this.#states[index] === state
  }

  #isLost(): boolean {
    return this.#schedule.random.chance(this.#schedule.isCalm ? 0 : this.rates.lost)
  }

  #rows(collection: string): Rows {
    return this.#states.at(-1)?.get(collection) ?? NO_ROWS
  }

  #store(writes: readonly Write[], places: Iterable<string>): void {
    const state = new Map(this.#states.at(-1))
    for (const { collection, key, doc } of writes)
      state.set(collection, withWrites(state.get(collection), [{ key, doc }]))
    this.#states.push(state)
    for (const place of places) this.#writtenAt.set(place, this.#last)
    this.version++
  }

  /**
   * Whether an open transaction of the present primary, other than `own`, has written one of these places.
   */
  #isTaken(places: readonly string[], own: Transaction | undefined): boolean {
    return [...this.#open].some((one) => one !== own && places.some((place) => one.places.has(place)))
  }

  /** What a write occupies: the document, and the keys that it adds to unique indexes. */
  #placesOf({ collection, key, doc }: Write, rows: Rows): string[] {
    const before = rows.get(key)
    const keysOf = (one: Doc | undefined): string[] =>
      this.#indexes(collection)
        .filter(({ filter }) => one !== undefined && matches(one, filter))
        .map(({ paths }) => `${collection} ${paths.join()} ${JSON.stringify(keyValues(one as Doc, paths))}`)
    const known = new Set(keysOf(before))
    return [`${collection} ${key}`, ...keysOf(doc).filter((place) => !known.has(place))]
  }

  /** @throws a duplicate key if another document has the same key in a unique index */
  #requireUnique({ collection, key, doc }: Write, rows: Rows): void {
    if (doc === undefined) return
    for (const { paths, filter } of this.#indexes(collection)) {
      if (!matches(doc, filter)) continue
      const values = keyValues(doc, paths)
      for (const [otherKey, other] of rows)
        if (otherKey !== key && matches(other, filter) && isEqual(keyValues(other, paths), values))
          throw duplicateKey(
            collection,
            Object.fromEntries(paths.map((path, place) => [path, values[place]])),
          )
    }
  }

  #replicate(): void {
    const { random } = this.#schedule
    this.lastingVersion++
    this.committed = Math.max(this.committed, this.#known)
    if (this.committed < this.#last) this.committed += 1 + random.below(this.#last - this.committed)
    this.#known += 1 + random.below(this.committed - this.#known)
    if (this.#schedule.isCalm) this.#known = this.committed = this.#last
    this.version++
  }

  #elect(): void {
    const { random } = this.#schedule
    this.#electionsLeft--
    const majority = this.#states[this.#known] as State
    this.#old = { local: this.#states.at(-1) as State, majority, known: this.#known }
    this.#states.length = this.committed + random.below(this.#last - this.committed + 1) + 1
    this.#known = Math.max(0, this.committed - random.below(3))
    this.#term++
    for (const transaction of this.#open) this.#abort(transaction)
    for (const [place, index] of this.#writtenAt) this.#writtenAt.set(place, Math.min(index, this.#last))
    for (const [transaction, index] of this.#committedAt)
      if (index > this.#last) this.#committedAt.delete(transaction)
    this.version++
    for (const process of this.processes) process.isOnOldPrimary = random.chance(0.5)
  }

  /** Whom an election concerns. */
  readonly processes: SimulatedProcess[] = []
}

function readView(state: State): View {
  const refuse = () => {
    throw new Error('a read writes')
  }
  return { rows: (collection) => state.get(collection) ?? NO_ROWS, isLocked: () => false, write: refuse }
}

function withWrites(rows: Rows | undefined, writes: readonly { key: string; doc: Doc | undefined }[]): Rows {
  const after = new Map(rows)
  for (const { key, doc } of writes)
    if (doc === undefined) after.delete(key)
    else after.set(key, doc)
  return after
}

/** A document's key in an index. */
function keyValues(doc: Doc, paths: readonly string[]): unknown[] {
  return paths.map((path) => {
    const values = valuesAt(doc, path)
    if (values.length > 1) throw new NotModelled(`a unique index of arrays: ${path}`)
    return values[0] ?? null
  })
}
