import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import path from 'node:path'
import type { StateBlock } from '../../devnet/nano-node/block.ts'
import type { NanoNode } from '../../devnet/nano-node/nano-node.ts'
import { replaceFile } from '../../shared/platform/durable-file.ts'
import { parseAmount } from '../../shared/money/coin.ts'
import { DataDirError } from './data-dir.ts'

/** A stand-in for the Nano network, whose coin is play money, and a faucet that gives it to whoever asks. */
export interface Sandbox {
  /** Settings of the processes that use it. */
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

const CONFIRMED_AFTER_MS = 200
/** The faucet gives at most this much at once, in XNO: more than any order costs. */
const MOST_GIVEN = '100000'
const MAX_BODY_BYTES = 10_000

/**
 * Marks a new data folder as a sandbox's, if it is to be one. A folder stays what it was at its first start:
 * what is owed in play money is not owed in Nano.
 *
 * @throws DataDirError for a folder of the other kind
 */
export function claimDataDir(dataDir: string, isSandbox: boolean): void {
  const mark = path.join(dataDir, 'sandbox')
  const wasSandbox = fs.existsSync(mark)
  if (wasSandbox && !isSandbox)
    throw new DataDirError(
      `${dataDir} is a sandbox's: start it with --sandbox, or set DATA_DIR to another folder.`,
    )
  if (!wasSandbox && isSandbox && fs.existsSync(path.join(dataDir, 'first-start')))
    throw new DataDirError(
      `${dataDir} is not a sandbox's: what is owed there is real. Set DATA_DIR to another folder.`,
    )
  if (isSandbox && !wasSandbox) replaceFile(mark, 'play money\n')
}

/** Starts the stand-in, with the blocks that it had before, and the faucet, both on the loopback address. */
export async function startSandbox(dataDir: string): Promise<Sandbox> {
  // Loaded here, since only a sandbox needs the node and its packages.
  const { startNanoNode } = await import('../../devnet/nano-node/nano-node.ts')
  const node = await startNanoNode({ autoConfirmMs: CONFIRMED_AFTER_MS })
  persistBlocks(node, path.join(dataDir, 'sandbox-blocks'))
  const seedFile = path.join(dataDir, 'sandbox-seed')
  if (!fs.existsSync(seedFile)) replaceFile(seedFile, `${randomBytes(32).toString('hex')}\n`)
  const faucet = createServer((request, response) => {
    void answerFaucet(node, request).then(({ status, answer }) => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
  const port = await listenOnLoopback(faucet)
  return {
    env: {
      NANO_RPC_URL: node.rpcUrl,
      NANO_WS_URL: node.wsUrl,
      NANO_SEED_FILE: seedFile,
      SANDBOX_FAUCET_URL: `http://127.0.0.1:${port}/`,
      XNO_USD: '1',
      PAYOUTS: 'automatic',
      PAYMENT_POLL_SECONDS: '1',
    },
    async close() {
      faucet.close()
      faucet.closeAllConnections()
      await node.close()
    },
  }
}

/**
 * Gives a node the blocks that a file holds, and from then on appends each block that it processes to the
 * file, before anybody is told of it. A block is one line of JSON.
 */
export function persistBlocks(node: NanoNode, file: string): void {
  const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : ''
  const lines = text.split('\n')
  // Empty, or cut off by the end of a process: then the next block must not be written behind it.
  const rest = lines.pop() ?? ''
  if (rest !== '') fs.truncateSync(file, Buffer.byteLength(text) - Buffer.byteLength(rest))
  for (const [place, line] of lines.entries()) {
    try {
      const { balance, work, ...block } = JSON.parse(line) as Record<keyof StateBlock, string>
      const { hash } = node.state.submit({
        ...block,
        balance: BigInt(balance),
        work: BigInt(work),
      } as StateBlock)
      node.confirm(hash)
    } catch (cause) {
      throw new DataDirError(
        `${file} does not hold the blocks of this sandbox from line ${place + 1} on: restore it, or begin a new sandbox in another folder.`,
        { cause },
      )
    }
  }
  const listener = node.state.events
  node.state.events = {
    blockProcessed(entry) {
      const { balance, work, ...block } = entry.block as StateBlock
      const line = JSON.stringify({ ...block, balance: String(balance), work: String(work) })
      fs.appendFileSync(file, `${line}\n`, { mode: 0o600 })
      listener?.blockProcessed(entry)
    },
    blockConfirmed: (entry, result) => listener?.blockConfirmed(entry, result),
  }
}

/**
 * Sends the amount that a request's body asks for to the address that it names: `{address, amount}`, the
 * amount in XNO.
 *
 * @returns status 200 with the block's hash, or 400 with the reason
 */
async function answerFaucet(
  node: NanoNode,
  request: IncomingMessage,
): Promise<{ status: number; answer: object }> {
  try {
    let text = ''
    for await (const chunk of request) {
      text += String(chunk)
      if (text.length > MAX_BODY_BYTES) throw new Error('The body is too long.')
    }
    const { address, amount } = JSON.parse(text) as { address?: unknown; amount?: unknown }
    const amountRaw = parseAmount(String(amount), 'xno')
    if (amountRaw > parseAmount(MOST_GIVEN, 'xno'))
      throw new Error(`The faucet gives at most ${MOST_GIVEN} XNO at once.`)
    const hash = node.fund(String(address), amountRaw, { confirmed: true })
    return { status: 200, answer: { ok: true, sandbox: true, address, amount, tx_hash: hash } }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { status: 400, answer: { ok: false, error: 'invalid_field', message } }
  }
}

/** Lets a server listen on a free port of the loopback address. @returns the port */
function listenOnLoopback(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
  })
}
