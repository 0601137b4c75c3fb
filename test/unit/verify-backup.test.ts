import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { StartError } from '../../shared/foundation/process.ts'
import { verifyBackup } from '../../shared/operation/backup.ts'

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
