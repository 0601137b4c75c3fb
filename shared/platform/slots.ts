import { change } from './change.ts'
import { orOvertaken, type Database } from './database.ts'

/**
 * Stores a record in a free slot of its owner, who may have `slots` such records at once, and returns what
 * `insert` returns. One owner's records are serialized within this process; across processes the unique index
 * on owner and slot decides, and another slot is tried.
 *
 * @param listUsed the slots that the owner's records have
 * @param insert stores the record in a slot; fails with a duplicate-key error on `ownerField` if it is taken
 * @param refuse makes the error for an owner without a free slot
 * @throws that error
 */
export function insertInSlot<Stored>(
  ctx: { readonly database: Pick<Database, 'serialize' | 'now'> },
  of: { owner: string; ownerField: string; slots: number },
  listUsed: () => Promise<readonly number[]>,
  insert: (slot: number) => Promise<Stored>,
  refuse: () => Error,
): Promise<Stored> {
  return ctx.database.serialize(`slot ${of.ownerField} ${of.owner}`, () =>
    change({
      now: () => ctx.database.now(),
      read: listUsed,
      decide(used) {
        const free = Array.from({ length: of.slots }, (_, slot) => slot).filter(
          (slot) => !used.includes(slot),
        )
        // Any of them, so that two processes seldom want the same one.
        const slot = free[Math.floor(Math.random() * free.length)]
        if (slot === undefined) throw refuse()
        return slot
      },
      store: (slot) => orOvertaken(insert(slot), of.ownerField),
    }),
  )
}
