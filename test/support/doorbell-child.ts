import path from 'node:path'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { startPool } from '../../workers/pool.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'
import { watched } from './crash-point.ts'

/** Rings doorbells as workers/main.ts does, and dies where its environment says. */

const read = readConfig(process.env, 'doorbells')
const doorbellKeyFile = read.secrets.doorbellKeyFile ?? path.join(read.dataDir, 'doorbell-key')
const config = { ...read, secrets: { ...read.secrets, doorbellKeyFile } }
const ctx = openWorkerContext(config, createLog('doorbells', 'warn'), { databaseTimeoutMs: 30_000 })
await ctx.database.whenReady()
await ctx.doorbells.noteKey(ctx.ringer?.key.publicKey ?? '')
startPool({ ...ctx, doorbells: watched(ctx.doorbells, 'take') }, ['doorbells', 'slow-doorbells'])
