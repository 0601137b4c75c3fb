import type { Connection } from 'mongoose'
import { createProcessStore } from '../platform/process-store.ts'
import { createActStore } from './act-store.ts'
import { createNoteStore } from './note-store.ts'
import { createSampleStore } from './sample-store.ts'
import { createWatchStore } from './watch-store.ts'

/** Creates the stores of what an operator has to know, and of what an operator did. */
export const createOperationStore = (connection: Connection) => ({
  /** What the network's watch has noted: since when something is wrong, the last backup, the disk, Redis. */
  watch: createWatchStore(connection),
  /** The network's figures over the last hour and day. */
  samples: createSampleStore(connection),
  /** Which processes run. */
  processes: createProcessStore(connection),
  /** Buttons that were pressed on the board. */
  acts: createActStore(connection),
  /** The operator's notes about records. */
  notes: createNoteStore(connection),
})

export type OperationStore = ReturnType<typeof createOperationStore>
