import { hashStateBlock, signHash } from '../../devnet/nano-node/block.ts'
import { decodeAddress, encodeAddress, formatHex64 } from '../../devnet/nano-node/encoding.ts'
import type { NanoNode, NanoNodeOptions } from '../../devnet/nano-node/nano-node.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'
import { genesisPublicKey, genesisSecretKey } from '../../devnet/nano-node/node-state.ts'
import { devThresholds, findWork } from '../../devnet/nano-node/work.ts'

/** What a test needs of a network that may be a real node's: money, confirmation, and where to ask. */
export interface TestNetwork {
  readonly rpcUrl: string
  /** Undefined for a real node whose websocket is not named. */
  readonly wsUrl: string | undefined
  /** Undefined where a real node is used: faults are for the stand-in alone. */
  readonly standIn: NanoNode | undefined
  /**
   * Sends from the dev network's genesis account, whose key is public; confirmed when it resolves. Returns
   * the hash.
   */
  fund(address: string, amountRaw: bigint): Promise<string>
  /** Resolves once the network has confirmed the block; the stand-in confirms it here. */
  confirmed(hash: string): Promise<void>
  close(): Promise<void>
}

/**
 * The stand-in, or the real node that `NANO_TEST_RPC_URL` names (and `NANO_TEST_WS_URL`, for its websocket):
 * of a dev network, with the genesis account's key in a wallet of its own, so that it votes and blocks become
 * confirmed, and with `enable_control`, by which the genesis account is raised to epoch 2.
 */
export async function openTestNetwork(options: NanoNodeOptions = {}): Promise<TestNetwork> {
  const rpcUrl = process.env['NANO_TEST_RPC_URL']
  if (rpcUrl !== undefined && rpcUrl !== '') return realNetwork(rpcUrl, process.env['NANO_TEST_WS_URL'])
  const node = await startNanoNode(options)
  return {
    rpcUrl: node.rpcUrl,
    wsUrl: node.wsUrl,
    standIn: node,
    fund: (address, amountRaw) => Promise.resolve(node.fund(address, amountRaw, { confirmed: true })),
    confirmed: (hash) => Promise.resolve(node.confirm(hash)),
    close: () => node.close(),
  }
}

type Fields = Record<string, unknown>

function realNetwork(rpcUrl: string, wsUrl: string | undefined): TestNetwork {
  async function ask(request: Fields): Promise<Fields> {
    const response = await fetch(rpcUrl, { method: 'POST', body: JSON.stringify(request) })
    return (await response.json()) as Fields
  }

  async function confirmed(hash: string): Promise<void> {
    await ask({ action: 'block_confirm', hash })
    await repeat(
      async () => (await ask({ action: 'block_info', hash }))['confirmed'] === 'true',
      `block ${hash} was not confirmed`,
    )
  }

  /**
   * A dev network begins at epoch 0, whose sends ask for more work to be received than the live network's do.
   */
  async function raiseGenesis(): Promise<void> {
    const version = async (): Promise<number> =>
      Number(
        (await ask({ action: 'account_info', account: encodeAddress(genesisPublicKey) }))['account_version'],
      )
    for (let epoch = (await version()) + 1; epoch <= 2; epoch++) {
      await ask({ action: 'epoch_upgrade', epoch: String(epoch), key: genesisSecretKey })
      await repeat(
        async () => (await version()) >= epoch,
        `the genesis account was not raised to epoch ${epoch}`,
      )
      await confirmed(
        String((await ask({ action: 'account_info', account: encodeAddress(genesisPublicKey) }))['frontier']),
      )
    }
  }
  let raised: Promise<void> | undefined

  async function send(link: string, amountRaw: bigint): Promise<string | undefined> {
    const account = encodeAddress(genesisPublicKey)
    const { frontier, balance } = await ask({ action: 'account_info', account })
    const fields = {
      account: genesisPublicKey,
      previous: String(frontier),
      representative: genesisPublicKey,
      balance: BigInt(String(balance)) - amountRaw,
      link,
    }
    const block = {
      type: 'state',
      ...fields,
      account,
      representative: account,
      balance: fields.balance.toString(),
      signature: signHash(hashStateBlock(fields), genesisSecretKey),
      work: formatHex64(findWork(fields.previous, devThresholds.epoch2)),
    }
    const answer = await ask({ action: 'process', json_block: 'true', subtype: 'send', block })
    if (typeof answer['hash'] === 'string') return answer['hash']
    if (answer['error'] === 'Fork') return undefined // another test file sent meanwhile
    throw new Error(`the node refused to fund: ${String(answer['error'])}`)
  }

  return {
    rpcUrl,
    wsUrl: wsUrl === '' ? undefined : wsUrl,
    standIn: undefined,
    fund: async (address, amountRaw) => {
      const link = decodeAddress(address)
      if (link === null) throw new Error(`"address" expected a Nano address, got ${address}`)
      await (raised ??= raiseGenesis())
      let hash: string | undefined
      await repeat(
        async () => (hash = await send(link, amountRaw)) !== undefined,
        `${address} was not funded`,
      )
      await confirmed(String(hash))
      return String(hash)
    },
    confirmed,
    close: () => Promise.resolve(),
  }
}

async function repeat(attempt: () => Promise<boolean>, complaint: string): Promise<void> {
  const endMs = Date.now() + 20_000
  while (!(await attempt())) {
    if (Date.now() > endMs) throw new Error(complaint)
    await new Promise((resume) => setTimeout(resume, 100))
  }
}
