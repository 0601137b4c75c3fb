import fs from 'node:fs'
import path from 'node:path'
import type { Context } from '../context.ts'
import { listLogTiles, tilePath } from '../crypto/log-tree.ts'
import { replaceFile } from '../platform/durable-file.ts'
import { bundleEntries, readCheckpoint, formatCosignedNote } from './log-service.ts'
import { requireTileUnderRoot } from './log.ts'

/** Tiles read at once. */
const GROUP = 64
/** A web server of another user reads the files. */
const READABLE = 0o644

/**
 * Writes the log of the last checkpoint into a folder, as files that any web server can serve (C2SP
 * tlog-tiles): tiles, entries, and last the checkpoint, so that all it covers is there. Tiles that are there
 * already stay.
 *
 * @returns the log's size, and how many files were written
 * @throws Refusal `no_such_seal`
 */
export async function exportLog(
  ctx: Pick<Context, 'entries' | 'seals'>,
  folder: string,
): Promise<{ size: number; files: number }> {
  const { checkpoint } = await readCheckpoint(ctx)
  const missing = [...listLogTiles(checkpoint.size)].filter(
    (tile) => !fs.existsSync(path.join(folder, tilePath(tile))),
  )
  let files = 0
  const writeFile = (relativePath: string, bytes: Buffer): void => {
    const file = path.join(folder, relativePath)
    fs.mkdirSync(path.dirname(file), { recursive: true })
    // Synced before it has its name: what is there is whole, also after a power cut, and is not written again.
    replaceFile(file, bytes, READABLE)
    files++
  }
  for (let start = 0; start < missing.length; start += GROUP) {
    const group = missing.slice(start, start + GROUP)
    // What is written is never written again, so a damaged tile must not be.
    const stored = await Promise.all(
      group.map((tile) => requireTileUnderRoot(ctx.entries.tiles, tile, checkpoint)),
    )
    for (const [place, tile] of group.entries()) {
      const hashes = stored[place] as Buffer
      // The entries first: if a tile is there, its entries are not written again.
      if (tile.level === 0)
        writeFile(
          tilePath({ ...tile, level: 'entries' }),
          await bundleEntries(ctx.entries, tile.index, hashes),
        )
      writeFile(tilePath(tile), hashes)
    }
  }
  fs.mkdirSync(folder, { recursive: true })
  replaceFile(path.join(folder, 'checkpoint'), await formatCosignedNote(ctx.seals, checkpoint), READABLE)
  return { size: checkpoint.size, files: files + 1 }
}
