import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import path from 'node:path'

/*
 * What a disk may hold after a power cut in the middle of a program's writes. The program's calls are
 * recorded; then each state is made that a file system may be in at any moment in between: of what was not
 * synced, a part or nothing is there, and of the names that were not synced, any.
 */

/** Files by their names; a file that isn't there has no name. */
export type DiskState = ReadonlyMap<string, string>

type Call =
  | { kind: 'open'; file: string; handle: number; isEmptied: boolean }
  | { kind: 'write'; handle: number; bytes: Buffer }
  | { kind: 'sync'; handle: number }
  | { kind: 'rename' | 'link'; from: string; to: string }
  | { kind: 'remove'; file: string }

const WATCHED = [
  'openSync',
  'writeFileSync',
  'writeSync',
  'fsyncSync',
  'renameSync',
  'linkSync',
  'rmSync',
] as const

/** Runs a synchronous program, and records its calls that change files by their handles and names. */
export function recordCalls(run: () => void): Call[] {
  const calls: Call[] = []
  const real = Object.fromEntries(WATCHED.map((name) => [name, fs[name]]))
  // Each gets the arguments of the real function, which is called first and may throw.
  const notes: Record<(typeof WATCHED)[number], (args: unknown[], result: unknown) => Call | undefined> = {
    openSync: ([file, flags], handle) => ({
      ...{ kind: 'open', file: String(file), handle: handle as number },
      isEmptied: String(flags).startsWith('w'),
    }),
    writeFileSync([target, data]) {
      if (typeof target !== 'number') throw new Error('a file is written without a handle: it is not synced')
      return { kind: 'write', handle: target, bytes: Buffer.from(data as Uint8Array) }
    },
    writeSync: ([handle, data, from = 0], count) => ({
      ...{ kind: 'write', handle: handle as number },
      bytes: Buffer.from(data as Uint8Array).subarray(from as number, (from as number) + (count as number)),
    }),
    fsyncSync: ([handle]) => ({ kind: 'sync', handle: handle as number }),
    renameSync: ([from, to]) => ({ kind: 'rename', from: String(from), to: String(to) }),
    linkSync: ([from, to]) => ({ kind: 'link', from: String(from), to: String(to) }),
    rmSync: ([file]) => ({ kind: 'remove', file: String(file) }),
  }
  let depth = 0
  for (const name of WATCHED)
    Object.assign(fs, {
      [name](...args: unknown[]): unknown {
        depth++
        try {
          const result = (real[name] as (...given: unknown[]) => unknown).apply(fs, args)
          const call = depth === 1 ? notes[name](args, result) : undefined
          if (call !== undefined) calls.push(call)
          return result
        } finally {
          depth--
        }
      },
    })
  syncBuiltinESMExports()
  try {
    run()
  } finally {
    Object.assign(fs, real)
    syncBuiltinESMExports()
  }
  return calls
}

/** A file's data, whatever its names. `synced` is undefined until it was synced once. */
interface Data {
  synced: Buffer | undefined
  current: Buffer
}
/** A change of names in a folder; undefined removes the name. */
type NameChange = { folder: string; names: [string, Data | undefined][] }

/**
 * The states that may be found after a power cut after the first `count` calls.
 *
 * @param before the files before the first call, synced
 */
export function statesAfter(before: DiskState, calls: readonly Call[], count: number): DiskState[] {
  const now = new Map([...before].map(([name, text]): [string, Data] => [name, dataOf(text)]))
  const durable = new Map(now)
  const handles = new Map<number, Data | { folder: string }>()
  let pending: NameChange[] = []
  const all = new Set(now.values())
  const change = (file: string, names: NameChange['names']): void => {
    for (const [name, data] of names)
      if (data === undefined) now.delete(name)
      else now.set(name, data)
    pending.push({ folder: path.dirname(file), names })
  }
  for (const call of calls.slice(0, count))
    switch (call.kind) {
      case 'open': {
        const found = now.get(call.file)
        if (!call.isEmptied) {
          handles.set(call.handle, found ?? { folder: call.file })
          break
        }
        const data = found ?? { synced: undefined, current: Buffer.alloc(0) }
        data.current = Buffer.alloc(0)
        all.add(data)
        if (found === undefined) change(call.file, [[call.file, data]])
        handles.set(call.handle, data)
        break
      }
      case 'write': {
        const data = handles.get(call.handle) as Data
        data.current = Buffer.concat([data.current, call.bytes])
        break
      }
      case 'sync': {
        const target = handles.get(call.handle)
        if (target !== undefined && 'folder' in target) {
          for (const { names } of pending.filter(({ folder }) => folder === target.folder))
            applyNames(durable, names)
          pending = pending.filter(({ folder }) => folder !== target.folder)
        } else if (target !== undefined) target.synced = target.current
        break
      }
      case 'rename':
        change(call.to, [
          [call.from, undefined],
          [call.to, now.get(call.from)],
        ])
        break
      case 'link':
        change(call.to, [[call.to, now.get(call.from)]])
        break
      case 'remove':
        if (now.has(call.file)) change(call.file, [[call.file, undefined]])
    }
  const states: DiskState[] = []
  for (let chosen = 0; chosen < 2 ** pending.length; chosen++) {
    const names = new Map(durable)
    for (const [place, { names: changed }] of pending.entries())
      if ((chosen >> place) & 1) applyNames(names, changed)
    for (const contents of choices([...all]))
      states.push(
        new Map([...names].map(([name, data]) => [name, contents.get(data)?.toString('latin1') ?? ''])),
      )
  }
  return states
}

const dataOf = (text: string): Data => ({ synced: Buffer.from(text), current: Buffer.from(text) })

function applyNames(names: Map<string, Data>, changed: NameChange['names']): void {
  for (const [name, data] of changed)
    if (data === undefined) names.delete(name)
    else names.set(name, data)
}

/** What each file's data may be after the power cut, in every combination. */
function* choices(files: readonly Data[]): Generator<Map<Data, Buffer>> {
  const [first, ...rest] = files
  if (first === undefined) return yield new Map()
  const { synced, current } = first
  const half = current.subarray(0, current.length >> 1)
  const variants =
    synced?.equals(current) === true
      ? [current]
      : [synced ?? Buffer.alloc(0), Buffer.alloc(0), half, Buffer.alloc(current.length), current]
  for (const others of choices(rest))
    for (const variant of variants) yield new Map([...others, [first, variant]])
}
