import type { Tile } from '../crypto/merkle.ts'

/** Tiles stored by one write: 512 KiB. */
const TILE_GROUP = 64

/**
 * Creates a writer that collects tiles and stores them with `put`, a group at a time, while the next ones are
 * being computed. If a write fails, the call after it rejects.
 */
export function createTileWriter(put: (tiles: readonly Tile[]) => Promise<void>) {
  let waiting: Tile[] = []
  let writing: Promise<void> = Promise.resolve()
  const flush = async (): Promise<void> => {
    await writing
    writing = put(waiting)
    writing.catch(() => {})
    waiting = []
  }
  return {
    async add(tiles: readonly Tile[]): Promise<void> {
      waiting.push(...tiles)
      if (waiting.length >= TILE_GROUP) await flush()
    },
    /** Resolves once all are stored. */
    async finish(tiles: readonly Tile[]): Promise<void> {
      waiting.push(...tiles)
      await flush()
      await writing
    },
    /** Waits for the write under way; never rejects. */
    settle: (): Promise<void> => writing.catch(() => {}),
  }
}
