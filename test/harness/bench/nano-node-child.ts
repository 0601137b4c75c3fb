/*
 * The stand-in Nano node in a process of its own, so that its work isn't measured with the service's. It
 * sends its URLs to its parent, and makes a confirmed payment for each address and amount that it receives.
 * With `--confirm` it also confirms what others send, as a network does.
 */
import { startNanoNode } from '../../../devnet/nano-node/nano-node.ts'

const CONFIRMED_AFTER_MS = 200
const isConfirming = process.argv.includes('--confirm')
const node = await startNanoNode(isConfirming ? { autoConfirmMs: CONFIRMED_AFTER_MS } : {})
process.on('message', (payments: { address: string; amountRaw: string }[]) => {
  for (const { address, amountRaw } of payments) node.fund(address, BigInt(amountRaw), { confirmed: true })
  process.send?.({ atMs: Date.now() })
})
process.on('disconnect', () => process.exit(0))
process.send?.({ rpcUrl: node.rpcUrl, wsUrl: node.wsUrl })
