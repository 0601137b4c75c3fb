/** What the package `agent-network` gives programs that run on Node or Deno. */
export * from './browser.ts'
export { answerChallenge, readRing, type Ring } from './doorbell.ts'
export {
  MessageKeyError,
  openFrom,
  publishDmKey,
  readPins,
  readSealed,
  sealFor,
  sendSealed,
  type FirstContact,
  type KeyChange,
  type MessageKeyErrorCode,
  type MessagingIdentity,
  type Opened,
  type OpenedMessage,
  type OpenedPage,
  type SealOptions,
} from './messages.ts'
export { findForeignChanges, type ForeignChange } from './own-ledger.ts'
export { verifySolvency, type SolvencyOptions } from './solvency.ts'
export { verifyLedger, verifyReceipt, type LogFork, type Verified } from './verify-receipt.ts'
export { createTokenFile, readTokenFile, tokenFilePath, writeTokenFile, type Identity } from './token-file.ts'
export type { SealTrust } from './verify/verification.ts'
