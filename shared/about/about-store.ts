import type { Connection } from 'mongoose'
import { createCardStore } from './card-store.ts'
import { createStandingStore } from './standing-store.ts'

/**
 * Creates the stores that read what all features have about an agent.
 *
 * @param nowSeconds gives the present, in Unix seconds
 */
export const createAboutStore = (connection: Connection, nowSeconds: () => number) => ({
  cards: createCardStore(connection, nowSeconds),
  standings: createStandingStore(connection),
})

export type AboutStore = ReturnType<typeof createAboutStore>
