import fs from 'node:fs'
import path from 'node:path'
import { CommandError, usageError } from '../../client/command/command-error.ts'
import { flagOption } from '../../client/command/verb.ts'
import { readConfig } from '../../shared/platform/config.ts'
import type { Context } from '../../shared/context.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { adoptionFileOf, writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { exportLog } from '../../shared/ledger/log-export.ts'
import { ensureSealKey, defaultMemoryFile, readSealKey } from '../../shared/ledger/seal-key.ts'
import { memoryFileOf } from '../../shared/ledger/seal-memory.ts'
import { readNextSeal } from '../../shared/ledger/seal-service.ts'
import { headOf, SealError } from '../../shared/ledger/seal.ts'
import { enqueueJob } from './job.ts'
import { showDone } from './output.ts'
import {
  defineLocalVerb,
  defineOperatorVerb,
  wrongState,
  type OperatorVerb,
  type VerbOutput,
} from './verb.ts'

export const ledgerVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'seal',
    words: ['[SEQ]', '[HASH]'],
    options: {
      adopt: flagOption(
        'on the signing host: go on from the last signed seal of a restored database, its SEQ and the SHA-256 of its payload',
      ),
    },
    help: 'Seal what is new, now',
    changes: true,
    async run({ ctx, words: [seq, hash], options: { adopt }, dryRun }) {
      if (adopt) return adoptLastSeal(ctx, seq, hash, dryRun)
      if (seq !== undefined) throw usageError('"seal" takes no words, or --adopt SEQ HASH.')
      const { isNeeded } = await readNextSeal(ctx)
      const pending = await Promise.all(
        ctx.entries.pendingCollections().map((collection) => collection.list('', 1)),
      )
      const isNew = isNeeded || pending.flat().length > 0
      if (!dryRun) await enqueueJob(ctx, 'make-seal', {})
      const entry = isNew ? 'solvency' : null
      return showDone({ enqueued: 'make-seal', new_entries: isNew, ledger_entry: entry }, dryRun)
    },
  }),
  defineOperatorVerb({
    name: 'export-log',
    words: ['DIR'],
    options: {},
    help: 'Write the log to a folder that any web server can serve: what is new since the last time',
    changes: true,
    async run({ ctx, words: [name], dryRun }) {
      const folder = path.resolve(name)
      if (dryRun) return showDone({ folder }, true)
      return showDone({ folder, ...(await exportLog(ctx, folder)) }, false)
    },
  }),
  defineLocalVerb({
    name: 'keygen',
    words: ['FILE'],
    options: {},
    help: 'Make a seal key for SEAL_KEY_FILE and its memory for SEAL_MEMORY_FILE, mode 600; an existing key is never replaced',
    changes: true,
    runHere({ words: [name], dryRun, env }) {
      const file = path.resolve(name)
      const memoryFile = path.resolve(
        readConfig(env, 'start').secrets.sealMemoryFile ?? defaultMemoryFile(file),
      )
      if (fs.existsSync(file))
        throw new CommandError(
          'exists',
          `There is a file ${file} already, and a key is never replaced; choose another name.`,
        )
      const folder = path.dirname(file)
      if (!fs.existsSync(folder))
        throw new CommandError('no_folder', `There is no folder ${folder}; make it first, mode 700.`)
      if (dryRun) return showDone({ seal_key_file: file, mode: '600' }, true)
      ensureSealKey(file, memoryFile)
      const key = readSealKey(file)
      if (key === undefined)
        throw new CommandError('not_made', `The key in ${file} was removed while it was being made.`)
      return showDone(
        { seal_key_file: file, mode: '600', pubkey: keyToHex(ed25519PublicKey(key)) },
        false,
        `Keep a copy where only you can read it. The key is used from the start of the worker that has it in SEAL_KEY_FILE. What it signs is remembered in ${memoryFile}: SEAL_MEMORY_FILE, which must never be an older copy.`,
      )
    },
  }),
]

/**
 * Asks the signer to go on from the last signed seal of a restored database, by a file beside its memory. The
 * signer checks `seq` and `hash` again.
 *
 * @throws CommandError or Refusal, before anything is written, if they aren't the last signed seal's
 */
async function adoptLastSeal(
  ctx: Context,
  seq: string | undefined,
  hash: string | undefined,
  dryRun: boolean,
): Promise<VerbOutput> {
  if (seq === undefined || hash === undefined || !/^\d{1,9}$/.test(seq) || !/^[0-9a-f]{64}$/.test(hash))
    throw usageError(
      '"seal --adopt" needs the SEQ of the last signed seal and the HASH of its payload, 64 lower-case hex characters.',
    )
  const head = headOf(await ctx.seals.lastSigned())
  if (head.seq !== Number(seq) || head.payloadHash !== hash)
    throw wrongState(
      `The last signed seal of the database is ${head.seq}, and the SHA-256 of its payload ${head.payloadHash}.`,
    )
  const shown = { seq: Number(seq), payload_hash: hash, ledger_entry: 'seal_adoption' }
  if (dryRun) return showDone({ adoption_file: adoptionFileOf(memoryFileOf(ctx.config)), ...shown }, true)
  const { file, remembered } = await writeAdoption(ctx, Number(seq), hash).catch((error: unknown) => {
    throw error instanceof SealError ? new CommandError('not_adopted', error.message) : error
  })
  // So that a signer that refuses, and pauses between its tries, looks at once.
  await ctx.queues.enqueue('sign-seals', {})
  return showDone({ adoption_file: file, remembered_seq: remembered?.seq ?? null, ...shown }, false)
}
