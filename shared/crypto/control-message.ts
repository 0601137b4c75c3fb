/**
 * The text that is signed to show who controls an account which a seal states as an asset: never 32 bytes, so it
 * can't be the hash of a block.
 *
 * @param sealHash SHA-256 of the canonical payload of the seal, as hex
 * @param account an address of Nano, or the primary address of a wallet of Monero
 */
export const controlMessage = (seq: number, sealHash: string, account: string): string =>
  `agent-network solvency\nseal ${seq} ${sealHash}\naccount ${account}\n`
