import { readFileSync } from 'node:fs'

import { hashStateBlock, parseStateBlock, signHash, workRoot } from '../../devnet/nano-node/block.ts'
import type { StateBlock } from '../../devnet/nano-node/block.ts'
import { parseTree, readTree } from '../../devnet/nano-node/json-tree.ts'
import { epochLinks } from '../../devnet/nano-node/ledger.ts'
import type { NanoNode } from '../../devnet/nano-node/nano-node.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'
import { genesisPublicKey, genesisSecretKey } from '../../devnet/nano-node/node-state.ts'
import { devThresholds, findWork } from '../../devnet/nano-node/work.ts'

export interface RecordedExchange {
  /** Line of the transcript, from 1. */
  readonly line: number
  readonly title: string
  readonly request: unknown
  /** Null when there was no answer. */
  readonly status: number | null
  readonly response: string
}

export function readTranscript(): RecordedExchange[] {
  const text = readFileSync(new URL('../vectors/nano/rpc-transcript.jsonl', import.meta.url), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line, index) => ({ line: index + 1, ...(JSON.parse(line) as Omit<RecordedExchange, 'line'>) }))
}

const noWallets = 'the stand-in keeps no wallets: whoever uses the node signs'

/**
 * Lines that are not replayed, with their titles, and why. What they did to the ledger is done all the same,
 * between the lines.
 */
export const notReplayed: readonly {
  readonly line: number
  readonly title: string
  readonly reason: string
}[] = [
  { line: 114, title: 'wallet_create', reason: noWallets },
  { line: 115, title: 'wallet_add genesis key', reason: noWallets },
  { line: 116, title: 'account_list', reason: noWallets },
  { line: 148, title: 'wallet send RPC', reason: noWallets },
  { line: 149, title: 'wallet send RPC, same id', reason: noWallets },
  { line: 150, title: 'wallet send too much', reason: noWallets },
  { line: 151, title: 'wallet send bad destination', reason: noWallets },
]

/**
 * Fields whose values no two runs share, by action: clocks, durations, random keys and signatures, work
 * searched for. Their form is compared.
 */
export const volatileFields: { readonly [action: string]: readonly string[] } = {
  account_history: ['local_timestamp'],
  account_info: ['modified_timestamp'],
  block_create: ['difficulty', 'signature', 'work'],
  block_info: ['local_timestamp'],
  blocks_info: ['local_timestamp'],
  confirmation_history: ['average', 'duration', 'time'],
  key_create: ['account', 'private', 'public'],
  telemetry: ['node_id', 'signature', 'timestamp', 'uptime'],
  uptime: ['seconds'],
  version: ['build_info'],
  work_generate: ['difficulty', 'multiplier', 'work'],
}

const shapes: { readonly [field: string]: RegExp } = {
  account: /^nano_[13][13456789a-km-uw-z]{59}$/,
  average: /^\d+$/,
  build_info: /^.+$/,
  difficulty: /^[0-9a-f]{16}$/,
  duration: /^\d+$/,
  local_timestamp: /^\d{10}$/,
  modified_timestamp: /^\d{10}$/,
  multiplier: /^\d+\.\d{15}$/,
  node_id: /^node_[13][13456789a-km-uw-z]{59}$/,
  private: /^[0-9A-F]{64}$/,
  public: /^[0-9A-F]{64}$/,
  seconds: /^\d+$/,
  signature: /^[0-9A-F]{128}$/,
  time: /^\d{13}$/,
  timestamp: /^\d{13}$/,
  uptime: /^\d+$/,
  work: /^[0-9a-f]{16}$/,
}

/** The answer, byte for byte, with "*" in the place of each volatile value of the right form. */
export function maskVolatile(action: string, answer: string): string {
  let masked = answer
  for (const field of volatileFields[action] ?? []) {
    masked = masked.replace(
      new RegExp(`("${field}": ")((?:[^"\\\\]|\\\\.)*)"`, 'g'),
      (whole, start: string, value: string) => (shapes[field]?.test(value) === true ? `${start}*"` : whole),
    )
  }
  return masked
}

export function actionOf(exchange: RecordedExchange): string {
  try {
    const text = typeof exchange.request === 'string' ? exchange.request : JSON.stringify(exchange.request)
    return readTree(parseTree(text)).optionalText('action') ?? ''
  } catch {
    return '' // The recorded request is one that can't be read.
  }
}

const rawPerNano = 10n ** 30n
const accountA = 'D93B69AB3F5E0C0B912573F61E877DFE5A9A0D3127F4575F89DA402BAF5C89F7'
const accountD = 'A44133CBEEF132793B77A302B9A0530665E339539956D15378C50640C9B06981'

/**
 * A block the recorder made out of sight of the transcript. Throws unless its hash begins as the transcript's
 * does.
 */
function submitUnseen(node: NanoNode, hashStart: string, link: string, amountRaw: bigint): string {
  const ledger = node.state.ledger
  const fields = {
    type: 'state' as const,
    account: genesisPublicKey,
    previous: ledger.frontier(genesisPublicKey),
    representative: genesisPublicKey,
    balance: ledger.balance(genesisPublicKey) - amountRaw,
    link,
  }
  const signature = signHash(hashStateBlock(fields), genesisSecretKey)
  return submit(
    node,
    { ...fields, signature, work: findWork(workRoot(fields), devThresholds.epoch2) },
    hashStart,
  )
}

function submit(node: NanoNode, block: StateBlock, hashStart: string): string {
  const { status, hash } = node.state.submit(block)
  if (status !== 'progress' || !hash.startsWith(hashStart))
    throw new Error(`block ${hashStart}: ${status}, ${hash}`)
  return hash
}

/** Submits a block whose contents a later answer of the transcript shows. */
function submitShown(node: NanoNode, transcript: readonly RecordedExchange[], hashStart: string): string {
  for (const { response } of transcript) {
    for (const match of response.matchAll(/"contents": (\{[^}]*\})/g)) {
      const block = parseStateBlock(parseTree(match[1] ?? ''))
      if (block !== null && hashStateBlock(block).startsWith(hashStart)) return submit(node, block, hashStart)
    }
  }
  throw new Error(`the transcript shows no block ${hashStart}`)
}

function confirmStarting(node: NanoNode, ...hashStarts: string[]): void {
  for (const start of hashStarts) {
    const hash = [...node.state.ledger.blocks.keys()].find((candidate) => candidate.startsWith(start))
    if (hash === undefined) throw new Error(`no block ${start} to confirm`)
    node.confirm(hash)
  }
}

type UnseenStep = (node: NanoNode, transcript: readonly RecordedExchange[]) => void

/** What happened before a line without a line of its own: confirmations, restarts, blocks. */
const unseenSteps = new Map<number, UnseenStep>([
  [117, (node) => confirmStarting(node, '3B35B1')],
  [
    138,
    (node, transcript) => {
      submitUnseen(node, '970CC0', accountA, 1n)
      submitUnseen(node, '9B40DC', accountA, 3n * rawPerNano)
      submitUnseen(node, '098F2A', accountA, rawPerNano / 2n)
      submitUnseen(node, 'B533C9', accountA, 7n * rawPerNano)
      submitShown(node, transcript, '93A949')
      confirmStarting(node, '970CC0', '9B40DC', '098F2A', 'B533C9', '93A949')
    },
  ],
  [152, (node) => void submitUnseen(node, '9FD2E6', accountA, 5n * rawPerNano)],
  [153, (node) => confirmStarting(node, '9FD2E6')],
  [159, (node) => confirmStarting(node, '5EDE74')],
  [164, (node) => confirmStarting(node, '23541B')],
  [165, (node) => confirmStarting(node, '78AE8F')],
  [166, (node) => confirmStarting(node, '90445B')],
  [
    189,
    (node) => {
      confirmStarting(node, '9F789E')
      node.confirm(submitUnseen(node, '1B994E', accountD, 2n * rawPerNano))
    },
  ],
  [
    192,
    (node, transcript) => {
      confirmStarting(node, '34827D')
      node.confirm(submitShown(node, transcript, 'F640F2'))
    },
  ],
  [203, (node, transcript) => void submitShown(node, transcript, '9E2E04')],
  [214, (node) => node.restart()],
  [
    219,
    (node, transcript) => {
      confirmStarting(node, 'E4821B')
      submitShown(node, transcript, '86E47C')
      submitShown(node, transcript, 'F83B47')
      confirmStarting(node, '86E47C', 'F83B47')
    },
  ],
  [226, (node) => confirmStarting(node, '29F634')],
  [229, (node) => confirmStarting(node, '767F0B')],
  [
    241,
    (node) => {
      confirmStarting(node, '687D11')
      for (const [index, hashStart] of ['3D8DFF', 'D3BBB5'].entries()) {
        node.confirm(submitUnseen(node, hashStart, epochLinks[index] ?? '', 0n))
      }
      node.confirm(submitUnseen(node, 'DB3802', accountD, 2n * rawPerNano))
    },
  ],
  [242, (node) => confirmStarting(node, '7C94B0')],
  [247, (node) => confirmStarting(node, '937FA5')],
  [249, (node) => node.restart()],
  [
    253,
    (node) => {
      node.restart()
      node.state.settings.enableControl = false
    },
  ],
  [
    263,
    (node) => {
      node.state.settings.enableControl = true
    },
  ],
])

/** The recording was made on three networks, each from its genesis block. */
const networks: readonly { readonly firstLine: number; readonly localWork: boolean }[] = [
  { firstLine: 1, localWork: true },
  { firstLine: 203, localWork: true },
  { firstLine: 265, localWork: false },
]

/** How the recorder wrote ECONNREFUSED down. */
const noResponse = '<<no response: ConnectionRefusedError: [Errno 111] Connection refused>>'

async function ask(
  node: NanoNode,
  exchange: RecordedExchange,
): Promise<{ status: number | null; text: string }> {
  const method = /^(GET|PUT|OPTIONS)$/.exec(exchange.title)?.[1] ?? 'POST'
  const body =
    exchange.request === null
      ? {}
      : { body: typeof exchange.request === 'string' ? exchange.request : JSON.stringify(exchange.request) }
  const path = exchange.title === 'POST to another path' ? '/some/other/path' : '/'
  try {
    const response = await fetch(node.rpcUrl + path, { method, ...body })
    return { status: response.status, text: await response.text() }
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ECONNREFUSED')) throw error
    return { status: null, text: noResponse }
  }
}

export interface ReplayedExchange {
  readonly exchange: RecordedExchange
  readonly status: number | null
  readonly text: string
}

/** Makes all recorded exchanges that apply, in order, and gives what the stand-in answered. */
export async function replayTranscript(transcript: readonly RecordedExchange[]): Promise<ReplayedExchange[]> {
  const skipped = new Set(notReplayed.map(({ line }) => line))
  const replayed: ReplayedExchange[] = []
  for (const [index, { firstLine, localWork }] of networks.entries()) {
    const end = networks[index + 1]?.firstLine ?? transcript.length + 1
    const node = await startNanoNode({ genesisEpoch: 0, localWork })
    try {
      for (const exchange of transcript.slice(firstLine - 1, end - 1)) {
        unseenSteps.get(exchange.line)?.(node, transcript)
        if (skipped.has(exchange.line)) continue
        replayed.push({ exchange, ...(await ask(node, exchange)) })
      }
    } finally {
      await node.close()
    }
  }
  return replayed
}
