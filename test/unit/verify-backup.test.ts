import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import mongoose from 'mongoose'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { StartError } from '../../shared/platform/process.ts'
import { verifyBackup, writeBackup } from '../../shared/operation/backup.ts'

let folder: string
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'verify-backup-'))
})
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

const writeManifest = (text: string): void => fs.writeFileSync(path.join(folder, 'manifest.json'), text)

it('names a manifest that is not JSON, or not one of ours', async () => {
  for (const text of ['{"format": 1', '{"format": 2}']) {
    writeManifest(text)
    const refusal = verifyBackup(folder)
    await expect(refusal).rejects.toBeInstanceOf(StartError)
    await expect(refusal).rejects.toThrow('is not what "operator backup" wrote')
  }
})

it('names a file that is missing', async () => {
  const posts = { name: 'posts', documents: 1, bytes: 5, sha256: '00', indexes: [] }
  const build = { version: '1', commit: '', schema: 1, database: 'network' }
  writeManifest(
    JSON.stringify({ format: 1, ...build, at: 1, cluster_time: '1.1', collections: [posts], keys: [] }),
  )
  await expect(verifyBackup(folder)).rejects.toThrow('posts.bson is missing')
})

/** An empty database that fails with these codes first, one after the other. */
function failingDatabase(...codes: number[]): mongoose.mongo.Db {
  const operationTime = new mongoose.mongo.Timestamp({ t: 7, i: 1 })
  const findOne = async () => {
    const code = codes.shift()
    if (code !== undefined) throw new mongoose.mongo.MongoServerError({ code, message: `code ${code}` })
  }
  return {
    databaseName: 'network',
    client: { startSession: () => ({ advanceClusterTime: () => undefined, endSession: async () => {} }) },
    command: async () => ({ operationTime }),
    collection: () => ({ findOne }),
    listCollections: () => ({ toArray: async () => [] }),
  } as unknown as mongoose.mongo.Db
}

it('is written once MongoDB knows a state to read, which after an election takes a while', async () => {
  const notYet = [246, 246, 246]
  expect(await writeBackup(failingDatabase(...notYet), folder, [])).toMatchObject({ cluster_time: '7.1' })
  expect((await verifyBackup(folder)).at).toBe(7)
})

it('begins again twice if MongoDB has forgotten the state that was read, and then says what to set', async () => {
  expect(await writeBackup(failingDatabase(239, 239), folder, [])).toMatchObject({ at: 7 })
  await expect(writeBackup(failingDatabase(239, 239, 239), folder, [])).rejects.toThrow(
    'minSnapshotHistoryWindowInSeconds',
  )
})
