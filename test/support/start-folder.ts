import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'

/** Where the modules of `npm start` lie, for programs that a test writes. */
export const SCRIPTS_URL = new URL('../../scripts/', import.meta.url).href

/** A fresh folder for this test, and in it the place of a data folder, which does not exist yet. */
export function makeStartFolder(): { folder: string; dataDir: string } {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'start-test-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  return { folder, dataDir: path.join(folder, 'data') }
}
