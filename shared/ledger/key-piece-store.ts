import type { Connection } from 'mongoose'
import type { KeyForm } from '../crypto/key-tree.ts'
import { MAJORITY } from '../platform/database.ts'
import { bytes, maybe, number, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import { rawOf } from '../platform/records.ts'
import type { KeyPieces, Piece, PieceAt } from './key-pieces.ts'

/** A piece of the tree of agents' keys, kept so that a process which starts need not read all changes of keys. */
const pieceFields = {
  /** `/` and the bits that lead to it from the root; `tree` for the tree itself. */
  _id: text,
  /** Of its hash, 64 hex characters. */
  hash: text,
  form: number,
  /** Its leaves as doubles of 8 bytes, lowest first; without any it is no part of the tree any more. */
  leaves: bytes,
  /** Of the tree: the number of the entry after which it was so. */
  to_id: maybe.number,
}
type PieceRecord = RecordOf<typeof pieceFields>

const pieceSchema = schemaOf<PieceRecord>('key_pieces', pieceFields)
const TREE = 'tree'

/** A tree and the number of the entry after which it was so. */
export interface TreeAt {
  toId: number
  tree: KeyPieces
}

/**
 * Creates the store of the last tree. Losing the tree costs time alone. All pieces are written before the root. If a write
 * stopped half-way, or two processes wrote at once, the pieces give another root than the stored one: then the tree
 * counts as missing.
 */
export function createKeyPieceStore(connection: Connection) {
  const model = connection.model<PieceRecord>('KeyPiece', pieceSchema)
  const raw = () => rawOf<PieceRecord>(model)
  /** The tree that is stored, if it is known: what it shares with the next is not written again. */
  let stored: KeyPieces | undefined

  return {
    models: { keyPieces: model },
    /**
     * Reads the stored tree.
     *
     * @param assemble makes a tree of its pieces
     * @returns undefined if there is none
     */
    async read(assemble: (pieces: readonly PieceAt[]) => KeyPieces): Promise<TreeAt | undefined> {
      const records = await raw()
        .find({}, { ...MAJORITY, promoteBuffers: true })
        .toArray()
      const head = records.find(({ _id }) => _id === TREE)
      if (head?.to_id === undefined) return undefined
      const pieces = records.filter(({ _id, leaves }) => _id !== TREE && leaves.length > 0).map(pieceOf)
      const tree = assemble(pieces)
      if (tree.root.toString('hex') !== head.hash) return undefined
      stored = tree
      return { toId: head.to_id, tree }
    },
    /** Stores a tree in place of the last one. */
    async put({ toId, tree }: TreeAt): Promise<void> {
      const hash = tree.root.toString('hex')
      if (stored?.root.equals(tree.root) === true) return
      const head = await raw().findOne({ _id: TREE }, { ...MAJORITY, projection: { hash: 1 } })
      if (head?.hash === hash) return
      const base = head !== null && head.hash === stored?.root.toString('hex') ? stored : undefined
      stored = undefined
      const before = new Map<string, Piece | undefined>(
        base?.list().map(({ path, piece }) => [`/${path}`, piece]),
      )
      if (base === undefined)
        for await (const { _id } of raw().find({}, { ...MAJORITY, projection: { _id: 1 } }))
          if (_id !== TREE) before.set(_id, undefined)
      const now = tree.list().map(recordOf)
      const changed = now.filter(({ piece, record }) => before.get(record._id) !== piece)
      for (const { record } of now) before.delete(record._id)
      const gone = [...before.keys()].map((_id) => ({ _id, hash: '', form: 1, leaves: Buffer.alloc(0) }))
      const writes = [...changed.map(({ record }) => record), ...gone].map((replacement) => ({
        replaceOne: { filter: { _id: replacement._id }, replacement, upsert: true },
      }))
      if (writes.length > 0) await raw().bulkWrite(writes, { ordered: false })
      const root = { _id: TREE, hash, form: tree.form, leaves: Buffer.alloc(0), to_id: toId }
      await raw().replaceOne({ _id: TREE }, root, { upsert: true })
      stored = tree
    },
  }
}
export type KeyPieceStore = ReturnType<typeof createKeyPieceStore>

function recordOf({ path, piece }: PieceAt) {
  const leaves = Buffer.from(new Float64Array(piece.leaves).buffer)
  const record: PieceRecord = { _id: `/${path}`, hash: piece.hash, form: piece.form, leaves }
  return { piece, record }
}

function pieceOf({ _id, hash, form, leaves }: PieceRecord): PieceAt {
  const numbers = new Float64Array(new Uint8Array(leaves).buffer)
  const piece = { hash, count: numbers.length / 3, form: form as KeyForm, leaves: Array.from(numbers) }
  return { path: _id.slice(1), piece }
}
