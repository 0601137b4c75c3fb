/** Builds client/seal-verify.mjs, the verifier as one file, and writes the hashes of both verifiers. */
import { hash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { format, resolveConfig } from 'prettier'
import { rolldown } from 'rolldown'

const CLIENT = path.resolve(import.meta.dirname, '..')

const HEAD = `#!/usr/bin/env node
/*!
 * Checks the ledger of an agent network without trusting it. One file, no dependency, Node 20.12 or later.
 *
 *   node seal-verify.mjs BASE_URL         the chain of a service: what is new since the last check; --full: all of it
 *   node seal-verify.mjs DUMP.json        a saved dump {entries, seals}, offline
 *   node seal-verify.mjs RECEIPT.json     one receipt, offline
 *   node seal-verify.mjs --evidence FILE  a proof that one key signed two histories, offline
 *   node seal-verify.mjs --note FILE      a checkpoint that another reader was shown
 *
 * A leaf is SHA-256 of the byte 00 and the entry's canonical JSON (RFC 8785); a node of a seal's tree is SHA-256
 * of left and right bytes, and of the log's tree of 01, left and right (RFC 6962). A seal signs, with Ed25519,
 * the canonical JSON of its at, count, from_id, prev_root, root, seq and to_id, which is rebuilt here and never
 * taken from the server. Sealing prevents rewriting, not withholding: nobody can miss an entry that was never
 * made.
 *
 * Exit: 0 all that was asked about holds and stands under a signature of a key that is pinned or remembered;
 * 1 something doesn't hold (one line each, with a fixed word); 2 it could not be checked; 3 nothing is wrong,
 * but nothing binding was found either.
 *
 * Bundled from client/verify/main.ts and what that imports; all comments stand there. MIT OR Apache-2.0.
 */`

/** The text of the bundle. */
export async function buildBundle(): Promise<string> {
  const build = await rolldown({
    input: path.join(import.meta.dirname, 'main.ts'),
    platform: 'node',
    tsconfig: false,
    optimization: { inlineConst: false },
    treeshake: { moduleSideEffects: false, propertyWriteSideEffects: false },
  })
  const { output } = await build.generate({
    format: 'esm',
    minify: false,
    comments: { legal: true, annotation: false, jsdoc: true },
    codeSplitting: false,
  })
  await build.close()
  const [{ code }, ...others] = output
  if (others.length > 0) throw new Error(`the verifier is ${output.length} files`)
  const file = path.join(CLIENT, 'seal-verify.mjs')
  return format(`${HEAD}\n${code}`, { ...(await resolveConfig(file)), filepath: file })
}

const VERIFIERS = ['seal-verify.mjs', 'python/seal_verify.py']

/** The lines of client/seal-verify.sha256. */
export const hashVerifiers = (): string =>
  VERIFIERS.map((file) => `${hash('sha256', readFileSync(path.join(CLIENT, file)), 'hex')}  ${file}\n`).join(
    '',
  )

if (import.meta.main) {
  writeFileSync(path.join(CLIENT, 'seal-verify.mjs'), await buildBundle())
  writeFileSync(path.join(CLIENT, 'seal-verify.sha256'), hashVerifiers())
}
