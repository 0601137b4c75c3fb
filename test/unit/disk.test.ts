import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createDiskGuard } from '../../shared/platform/disk-guard.ts'
import { freeBytesOf } from '../../shared/platform/disk-space.ts'
import { createLog } from '../../shared/platform/log.ts'

describe('the free space of the database', () => {
  it('is what a server says of its disk', () => {
    expect(freeBytesOf({ fsTotalSize: 10, fsUsedSize: 4 })).toBe(6)
  })

  it('is that of the fullest shard if a router answers, and not known unless each shard tells it', () => {
    const raw = { 'a/h:1': { fsTotalSize: 10, fsUsedSize: 4 }, 'b/h:2': { fsTotalSize: 10, fsUsedSize: 9 } }
    expect(freeBytesOf({ raw })).toBe(1)
    expect(freeBytesOf({ raw: { ...raw, 'c/h:3': {} } })).toBeUndefined()
    expect(freeBytesOf({ raw: {} })).toBeUndefined()
    expect(freeBytesOf({})).toBeUndefined()
  })
})

describe('the guard of the disk', () => {
  it('says once that it is blind, and refuses nothing then', async () => {
    const logged: string[] = []
    const guard = createDiskGuard({
      database: { freeDiskBytes: () => Promise.resolve(undefined) },
      config: { minFreeDiskBytes: 1 },
      log: createLog('test', 'warn', { write: (line: string) => void logged.push(line) }),
    })
    guard()
    await nextTurn()
    guard()
    expect(logged.filter((line) => line.includes('does not tell how much of its disk is free'))).toHaveLength(
      1,
    )
  })

  it('refuses writes once the space is below the mark', async () => {
    const guard = createDiskGuard({
      database: { freeDiskBytes: () => Promise.resolve(5) },
      config: { minFreeDiskBytes: 10 },
      log: createLog('test', 'silent'),
    })
    guard()
    await nextTurn()
    expect(guard).toThrow('disk is nearly full')
  })
})
