import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { CommandError, usageError } from '../../client/command/command-error.ts'
import { flagOption, textOption } from '../../client/command/verb.ts'
import { HOST_USERS } from '../embedded/access.ts'
import { trackChildren } from '../embedded/children.ts'
import { lockDataDir } from '../embedded/data-dir.ts'
import { startMongod } from '../embedded/mongod.ts'
import { requireMongod } from '../embedded/programs.ts'
import type { Context } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { syncFolder } from '../../shared/platform/durable-file.ts'
import { readCopy } from '../../shared/platform/copy.ts'
import { isOutage } from '../../shared/platform/database.ts'
import { verifyBackup, restoreBackup, writeBackup, type Manifest } from '../../shared/operation/backup.ts'
import type { CoinDriver } from '../../shared/money/driver.ts'
import { moneroDriver } from '../../shared/money/coins/monero/monero-driver.ts'
import { openMoneroGateway } from '../../shared/money/coins/monero/monero-gateway.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { openNanoGateway } from '../../shared/money/coins/nano/nano-gateway.ts'
import { findObjections, promoteCopy } from '../../shared/operation/promote.ts'
import { SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'
import { showDone } from './output.ts'
import {
  defineLocalVerb,
  defineOperatorVerb,
  HALF_A_DAY_MS,
  wrongState,
  type OperatorVerb,
  type VerbOutput,
} from './verb.ts'

export const backupVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'backup',
    words: ['[DIR]'],
    options: {
      'with-keys': flagOption('copy keys, seeds and the seal memory too, into DIR/keys'),
      noted: flagOption('in place of DIR: a backup was made by other means, and status is to know'),
    },
    help: 'Write the database as it is at one moment into an empty folder, beside what runs',
    changes: true,
    limitMs: HALF_A_DAY_MS,
    async run({ ctx, env, words: [name], options, dryRun }) {
      const hasFolder = name !== undefined
      if (options.noted === hasFolder) throw usageError('"backup" takes either a folder or --noted.')
      if (!hasFolder) return noteBackup(ctx, dryRun)
      return backUp(ctx, env, path.resolve(name), options['with-keys'], dryRun)
    },
  }),
  defineLocalVerb({
    name: 'restore',
    words: ['DIR'],
    options: {
      to: textOption(
        'URL|DATA_DIR',
        'an empty database of a MongoDB, or a folder for npm start that holds no database',
      ),
    },
    help: 'Put a backup into an empty database; the copy signs, sends and gives out addresses only after "promote"',
    changes: true,
    runHere: ({ words: [name], options: { to }, dryRun, env }) => {
      if (to === undefined) throw usageError('"restore" needs --to URL or --to DATA_DIR.')
      return restore(path.resolve(name), to, env, dryRun)
    },
  }),
  defineOperatorVerb({
    name: 'promote',
    words: [],
    options: { anyway: flagOption('in spite of what others remember or the chain says') },
    help: 'Let a restored copy be the network: others and the chain are asked first',
    changes: true,
    run: ({ ctx, env, options: { anyway }, dryRun }) => promote(ctx, env, anyway, dryRun),
  }),
]

/** Records that a backup was made by other means, so that `status` knows. */
async function noteBackup(ctx: Context, dryRun: boolean): Promise<VerbOutput> {
  const at = unixSeconds(ctx.now())
  if (!dryRun) await ctx.operation.watch.noteBackup({ at, by: 'other means' })
  return showDone({ noted_at: at }, dryRun)
}

/**
 * Writes a backup into an empty folder, and records it for `status`.
 *
 * @param withKeys whether keys, seeds and the seal memory are copied too
 * @throws CommandError `exists` if the folder is not empty
 */
async function backUp(
  ctx: Context,
  env: NodeJS.ProcessEnv,
  folder: string,
  withKeys: boolean,
  dryRun: boolean,
): Promise<VerbOutput> {
  if (fs.existsSync(folder) && fs.readdirSync(folder).length > 0)
    throw new CommandError('exists', `${folder} is not empty; a backup goes into a folder of its own.`)
  const keys = findKeys(env).map((key) => ({ ...key, copied: withKeys }))
  if (dryRun) return showDone({ folder, keys: keys.map(({ file }) => file).join(', ') || null }, true)
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (withKeys) copyKeys(keys, path.join(folder, 'keys'))
  const { connection } = ctx.database
  const manifest = await writeBackup(connection.getClient().db(connection.name), folder, keys)
  return showBackup(folder, manifest, withKeys, await isNoted(ctx, manifest))
}

/** Records a backup for `status`. @returns false in an outage, which doesn't undo the backup */
const isNoted = (ctx: Context, { at }: Manifest): Promise<boolean> =>
  ctx.operation.watch.noteBackup({ at, by: 'operator backup' }).then(
    () => true,
    (error: unknown) => {
      if (!isOutage(error)) throw error
      return false
    },
  )

/** What was written, which keys are not in it, and whether `status` knows. */
function showBackup(folder: string, manifest: Manifest, withKeys: boolean, noted: boolean): VerbOutput {
  const { collections, cluster_time, keys } = manifest
  return showDone(
    {
      folder,
      cluster_time,
      collections: collections.length,
      documents: total(manifest, 'documents'),
      bytes: total(manifest, 'bytes'),
      keys: keys.length,
      keys_copied: withKeys,
      noted,
    },
    false,
    `${noted ? '' : NOT_NOTED}${describeKeys(folder, keys, withKeys)}`,
  )
}

const NOT_NOTED =
  'The backup is whole, but MongoDB did not answer when it was to be noted for "status": run "backup --noted".\n'

/** Which keys lie in a backup's folder, or have to be kept apart from it. */
const describeKeys = (folder: string, keys: Manifest['keys'], withKeys: boolean): string =>
  withKeys
    ? `Keys, seeds and the seal memory lie in ${folder}/keys: whoever has that folder can sign and pay in your name. An older seal memory must never replace a newer one.`
    : [
        ...(keys.length === 0
          ? ['No key of the network lies on this host.']
          : [
              'Not in it, keep them apart (--with-keys copies them):',
              ...keys.map(({ name, file }) => `  ${name}: ${file}`),
            ]),
        'Keys that lie on other hosts are to be backed up there.',
      ].join('\n')

/** How many documents or bytes all collections of a backup have. */
const total = ({ collections }: Manifest, field: 'documents' | 'bytes'): number =>
  collections.reduce((sum, collection) => sum + collection[field], 0)

/** The secrets and memories of the network that exist as files on this host. */
function findKeys(env: NodeJS.ProcessEnv): { name: string; file: string }[] {
  const { dataDir, secrets, nano } = readConfig(env, 'start')
  const inDataDir = (name: string): string => path.join(dataDir, name)
  const memory = secrets.sealMemoryFile ?? inDataDir('seal-memory')
  const wanted: [string, string | undefined][] = [
    ['seal key', secrets.sealKeyFile ?? inDataDir('seal-key')],
    ['seal memory', memory],
    ['announcements that were signed', `${memory}.announcements`],
    ['nano seed', nano.seedFile],
    ['index of the nano seed', nano.seedFile === undefined ? undefined : `${nano.seedFile}.index`],
    ['challenge secret', inDataDir('challenge-secret')],
    ['operator token', inDataDir('operator-token')],
    ['metrics token', inDataDir('metrics-token')],
    ['time of the first start', inDataDir('first-start')],
  ]
  return wanted.flatMap(([name, file]) => (file !== undefined && fs.existsSync(file) ? [{ name, file }] : []))
}

/** Copies files into a new folder, mode 600, and syncs them. */
function copyKeys(keys: readonly { file: string }[], folder: string): void {
  fs.mkdirSync(folder, { mode: 0o700 })
  for (const { file } of keys) {
    const to = path.join(folder, path.basename(file))
    fs.writeFileSync(to, fs.readFileSync(file), { flag: 'wx', mode: 0o600, flush: true })
  }
  syncFolder(folder)
}

/** The hosts of a connection string, without user and password. (`URL` can't parse several hosts.) */
const hostsOf = (url: string): string =>
  url
    .replace(/^mongodb(\+srv)?:\/\//, '')
    .replace(/[/?].*$/, '')
    .replace(/^.*@/, '')

/**
 * Restores a backup into an empty database.
 *
 * @param to a MongoDB URL, or a data folder that holds no database
 */
async function restore(
  folder: string,
  to: string,
  env: NodeJS.ProcessEnv,
  dryRun: boolean,
): Promise<VerbOutput> {
  const manifest = await verifyBackup(folder)
  const isUrl = /^mongodb(\+srv)?:\/\//.test(to)
  const target = isUrl ? hostsOf(to) : path.resolve(to)
  const fields = {
    target,
    backup_at: manifest.at,
    cluster_time: manifest.cluster_time,
    schema: manifest.schema,
    documents: total(manifest, 'documents'),
  }
  if (dryRun) return showDone(fields, true)
  if (isUrl) await withDatabase(to, (db) => restoreBackup(db, folder, manifest))
  else await restoreEmbedded(target, folder, manifest, env)
  return showDone(
    fields,
    false,
    [
      'The database knows that it is a copy. Keys and seeds belong beside it again: the seal memory and the index of the',
      'seed in their newest form, never an older one. Start the network on it, run "operator check", then "operator promote".',
    ].join('\n'),
  )
}

/** Does some work on the database that a URL names, over a connection of its own. @throws CommandError */
async function withDatabase(url: string, work: (db: mongoose.mongo.Db) => Promise<void>): Promise<void> {
  const client = new mongoose.mongo.MongoClient(url, {
    serverSelectionTimeoutMS: 10 * SECOND_MS,
    writeConcern: { w: 'majority', journal: true },
  })
  try {
    const db = client.db()
    if (db.databaseName === 'test')
      throw usageError('--to needs a URL that names the database, as MONGODB_URL does: …/agent_network?…')
    await work(db)
  } finally {
    await client.close()
  }
}

/**
 * Starts a MongoDB in a data folder, restores the backup into it, and stops it.
 *
 * @throws CommandError `exists`
 */
async function restoreEmbedded(
  dataDir: string,
  folder: string,
  manifest: Manifest,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const lock = lockDataDir(dataDir)
  const report = (): void => undefined
  try {
    if (fs.existsSync(path.join(dataDir, 'mongo')))
      throw new CommandError('exists', `${dataDir} holds a database already; choose a folder that has none.`)
    const children = trackChildren(dataDir, report)
    const servers = { dataDir, users: HOST_USERS, children, report }
    const mongod = await startMongod({ ...servers, binary: requireMongod(env) })
    try {
      await withDatabase(mongod.url, (db) => restoreBackup(db, folder, manifest))
    } finally {
      await mongod.child.stop()
      children.close()
    }
  } finally {
    lock.release()
  }
}

/** Opens the drivers of the coins whose node or wallet is in this command's settings. They sign nothing. */
function openDrivers(ctx: Context, env: NodeJS.ProcessEnv): CoinDriver[] {
  const config = readConfig(env, 'start')
  const nano = openNanoGateway(config.nano, ctx.log)
  const monero = openMoneroGateway(config, ctx.log)
  return [
    ...(nano === undefined ? [] : [nanoDriver({ ...ctx, nano })]),
    ...(monero === undefined ? [] : [moneroDriver({ ...ctx, monero })]),
  ]
}

/**
 * Turns a restored copy into the network, unless others or the chain remember more than it does.
 *
 * @param isAnyway whether that is no obstacle
 * @throws Refusal `wrong_state` with the objections
 */
async function promote(
  ctx: Context,
  env: NodeJS.ProcessEnv,
  isAnyway: boolean,
  dryRun: boolean,
): Promise<VerbOutput> {
  const copy = await readCopy(ctx.database.connection)
  if (copy === undefined)
    return showDone({ promoted: false, changed: false }, dryRun, 'This database is no copy.')
  const objections = await findObjections(ctx, copy, openDrivers(ctx, env))
  const list = objections.map((objection) => `  - ${objection}`).join('\n')
  if (list !== '' && !isAnyway && !dryRun)
    throw wrongState(`Not promoted:\n${list}\nMend that, or say --anyway.`)
  const changed = dryRun || (await promoteCopy(ctx))
  return showDone(
    { promoted: changed, changed, restored_at: copy.restored_at, backup_at: copy.backup_at },
    dryRun,
    list === '' ? undefined : `In spite of:\n${list}`,
  )
}
