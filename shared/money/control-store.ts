import type { Connection } from 'mongoose'
import { maybe, number, schemaOf, text, textOf, type RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import type { Session } from '../platform/database.ts'
import type { Coin } from './coin.ts'

/** A signature by the key of an account, or a proof by a wallet, which shows that the venue controls it. Kept for ever. */
const controlFields = {
  _id: text,
  coin: textOf<Coin>(),
  /** Unix seconds. */
  at: number,
  seal_seq: number,
  /** SHA-256 of the canonical payload of that seal, as hex. */
  seal_hash: text,
  /** An account of Nano, or the primary address of a wallet of Monero. */
  account: text,
  message: text,
  /** Of Nano 128 hex characters; of Monero the text of a reserve proof. */
  signature: text,
  /** Monero: what the proof shows, less what of it is spent; piconero. */
  total_raw: maybe.text,
}
export type ControlProof = RecordOf<typeof controlFields>

const controlSchema = schemaOf<ControlProof>('control_proofs', controlFields)
controlSchema.index({ coin: 1, seal_seq: 1, account: 1 }, { unique: true })
controlSchema.index({ coin: 1, _id: 1 })

/** Creates the store of proofs that the venue controls what it states as its assets. */
export function createControlStore(connection: Connection) {
  const proofs = recordsOf(connection.model<ControlProof>('ControlProof', controlSchema))
  return {
    models: { proofs: proofs.model },
    /** @throws a duplicate-key error if one of them is of a seal and an account that has one */
    add: (made: readonly ControlProof[], session: Session) => proofs.insert(made, session),
    /** The newest of a coin. */
    last: (coin: Coin) => proofs.one({ coin }, { sort: { _id: -1 } }),
    listOfSeal: (coin: Coin, seq: number, limit: number) =>
      proofs.all({ coin, seal_seq: seq }, { sort: { _id: 1 }, limit }),
    /** Proofs after an id, ascending. */
    list: (coin: Coin | undefined, after: string, limit: number) =>
      proofs.all(
        { ...(coin === undefined ? {} : { coin }), _id: { $gt: after } },
        { sort: { _id: 1 }, limit },
      ),
  }
}
