import { startMoneroRegtest, type MoneroRegtest } from '../../devnet/monero-regtest/regtest.ts'
import { findMonero } from './prepare.mjs'
import { serverFolder } from './server-folder.ts'

/** Starts a chain for one test file. @throws Error that says what to install if Monero's programs are missing */
export const openRegtest = (): Promise<MoneroRegtest> =>
  startMoneroRegtest({ programs: findMonero(process.env), home: serverFolder() })
