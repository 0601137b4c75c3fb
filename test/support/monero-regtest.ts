import { startMoneroRegtest, type MoneroRegtest } from '../../devnet/monero-regtest/regtest.ts'
import { findMonero } from './prepare.mjs'
import { serverFolder } from './server-folder.ts'

/** A chain of its own for tests. @throws Error saying what to install where the programs are not there */
export const openRegtest = (): Promise<MoneroRegtest> =>
  startMoneroRegtest({ programs: findMonero(process.env), home: serverFolder() })
