/*
 * The stand-in Nano node in a process of its own, so that what it costs is not measured as ours. It tells its
 * URLs, and confirms a send for each address and amount that it is sent.
 */
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'

const node = await startNanoNode()
process.on('message', (payments: { address: string; amountRaw: string }[]) => {
  for (const { address, amountRaw } of payments) node.fund(address, BigInt(amountRaw), { confirmed: true })
  process.send?.({ atMs: Date.now() })
})
process.on('disconnect', () => process.exit(0))
process.send?.({ rpcUrl: node.rpcUrl, wsUrl: node.wsUrl })
