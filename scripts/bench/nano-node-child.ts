/*
 * The stand-in Nano node in a process of its own, so that its work isn't measured with the service's. It
 * sends its URLs to its parent, and makes a confirmed payment for each address and amount that it receives.
 */
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'

const node = await startNanoNode()
process.on('message', (payments: { address: string; amountRaw: string }[]) => {
  for (const { address, amountRaw } of payments) node.fund(address, BigInt(amountRaw), { confirmed: true })
  process.send?.({ atMs: Date.now() })
})
process.on('disconnect', () => process.exit(0))
process.send?.({ rpcUrl: node.rpcUrl, wsUrl: node.wsUrl })
