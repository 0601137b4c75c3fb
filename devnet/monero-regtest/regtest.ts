import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MoneroRpcConnection } from 'monero-ts'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { readLastLines } from '../../scripts/embedded/log-file.ts'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { cacheDir } from '../../scripts/prepare.mjs'
import { withShortcuts } from './shortcuts.ts'

/** Paths of the two programs. */
export interface MoneroPrograms {
  monerod: string
  walletRpc: string
}

/** An amount for an address, in piconero (10^-12 XMR). */
export interface Destination {
  address: string
  amountPico: bigint
}

/** One monero-wallet-rpc with one wallet open, behind a name and a password as an operator's is. */
export interface RegtestWallet {
  /** With user and password, as MONERO_WALLET_RPC_URL holds it. */
  readonly url: string
  /** The wallet's own first address, (0, 0). */
  readonly address: string
  /** One call of monero-wallet-rpc, its `result` as it is; numbers of 16 digits and more come as strings. */
  call(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>
  /**
   * Ends it, or starts it again on the same port with the same wallet. SIGKILL leaves no time to save
   * anything.
   */
  setDown(isDown: boolean, signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

export interface RegtestPayer extends RegtestWallet {
  /**
   * One transaction to all of them, in the order given; the same address twice makes two outputs. It is in
   * the daemon's pool when this resolves, and not in a block.
   *
   * @param options.unlockTime the height below which the outputs cannot be spent
   * @returns its hash
   */
  pay(destinations: readonly Destination[], options?: { unlockTime?: number }): Promise<string>
}

/** A private Monero chain of real programs: difficulty 1, no peers, the address prefixes of mainnet. */
export interface MoneroRegtest {
  readonly daemonUrl: string
  /** Has MATURE_COINS block rewards that it can spend at once, each in a transaction of its own. */
  readonly payer: RegtestPayer
  /** One call of monerod's JSON-RPC, its `result` as it is. */
  call(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>
  /** Mines blocks and returns the new height; the rewards go to `address`, else to the payer. */
  generate(blocks: number, address?: string): Promise<number>
  /** Takes the newest blocks away and returns the new height; their transactions go back to the pool. */
  popBlocks(blocks: number): Promise<number>
  /** Forgets every transaction that is in no block. */
  flushTxpool(): Promise<void>
  /**
   * Puts a longer chain of empty blocks in the place of the newest blocks. Their transactions are in the pool
   * again afterwards if `keepsTransactions`, else forgotten; the rest of the pool stays.
   */
  reorganise(blocks: number, keepsTransactions: boolean): Promise<void>
  /** Which of these transactions are in a block, with its number, or in the pool. The others are nowhere. */
  findTransactions(txHashes: readonly string[]): Promise<Map<string, number | 'pool'>>
  /** Takes one transaction out of the pool; what it returns puts it back. The next block comes without it. */
  withhold(txHash: string): Promise<() => Promise<void>>
  /** How many blocks there are: one more than the newest block's number. */
  height(): Promise<number>
  /** Ends monerod, or starts it again on the same port with the same chain. */
  setDown(isDown: boolean): Promise<void>
  /** Starts a monero-wallet-rpc with an empty wallet, or with the wallet of a seed. */
  openWallet(name: string, seed?: string): Promise<RegtestWallet>
  /** Ends every program and removes the folder. */
  close(): Promise<void>
}

/**
 * Of the payer's. A transaction hides its input among 15 outputs of others, and a fresh chain has no others:
 * with 25 of these monero-wallet-rpc 0.18 looks for them for ever, with 40 never.
 */
const MATURE_COINS = 40
/** A block's reward can be spent 60 blocks later. */
const FIRST_HEIGHT = 60 + MATURE_COINS
/**
 * Empty wallets that are kept too, since a wallet takes seconds to be made: it computes 10,000 addresses
 * ahead.
 */
const EMPTY_WALLETS = ['venue', 'payee', 'next']
/** What is kept of a chain: its blocks, and the wallets as they were after them. */
const KEPT_PARTS = [
  'chain/fake/lmdb/data.mdb',
  ...['payer', ...EMPTY_WALLETS].flatMap((name) => [`wallets/${name}`, `wallets/${name}.keys`]),
]
const HOST = '127.0.0.1'
const READY_LIMIT_MS = 60_000
const RELAY_LIMIT_MS = 20_000
/**
 * Not for ever, since what has no place in any block (a coin spent twice) stays in the pool; and counted, since a
 * busy machine may need seconds for one.
 */
const MOST_TEMPLATES = 120
const STOP_LIMIT_MS = 20_000
const CALL_LIMIT_MS = 60_000
const PAYER = 'payer'
const TXS_A_CALL = 100

export interface RegtestOptions {
  programs: MoneroPrograms
  /** Where its folder is made. */
  home: string
  report?: (line: string) => void
}

/**
 * Starts monerod, and a payer with coins. Mining the first blocks takes some seconds, so they are mined once
 * and kept with the wallets in the cache folder of downloaded programs; every later start copies them.
 */
export async function startMoneroRegtest({
  programs,
  home,
  report = console.error,
}: RegtestOptions): Promise<MoneroRegtest> {
  const kept = path.join(
    cacheDir(process.env),
    `monero-regtest-${EMPTY_WALLETS.join('-')}-${FIRST_HEIGHT}-${fs.statSync(programs.monerod).size}`,
  )
  if (!fs.existsSync(kept)) await keepFirstBlocks({ programs, home, report }, kept)
  const stage = createStage({ programs, home, report })
  fs.cpSync(kept, stage.folder, { recursive: true })
  return startOn(stage)
}

async function keepFirstBlocks(options: Required<RegtestOptions>, kept: string): Promise<void> {
  const stage = createStage(options)
  const regtest = await startOn(stage)
  const fresh = `${kept}.${randomBytes(6).toString('hex')}`
  try {
    await regtest.generate(FIRST_HEIGHT)
    await regtest.payer.call('refresh')
    for (const name of EMPTY_WALLETS) await (await regtest.openWallet(name)).setDown(true)
    // All write their files when they end.
    await regtest.payer.setDown(true)
    await regtest.setDown(true)
    for (const part of KEPT_PARTS) fs.cpSync(path.join(stage.folder, part), path.join(fresh, part))
    // By rename, so that nobody copies half of it. Where two came at once, either will do.
    fs.renameSync(fresh, kept)
  } catch (error) {
    if (!fs.existsSync(kept)) throw error
  } finally {
    fs.rmSync(fresh, { recursive: true, force: true })
    await regtest.close()
  }
}

/** What monerod tells of a transaction that is in no block, as far as it is asked for here. */
interface PooledTransaction {
  readonly id_hash: string
  /** The transaction as hex. */
  readonly tx_blob: string
  readonly do_not_relay: boolean
  /** It was in a block that was taken back. */
  readonly kept_by_block: boolean
  /** In unix seconds, 0 before the first time. */
  readonly last_relayed_time: number
}

/** A folder, and the programs started in it. */
interface Stage {
  readonly programs: MoneroPrograms
  readonly folder: string
  start(name: string, command: string, args: readonly string[]): Promise<Program>
  close(): Promise<void>
}

type RpcParams = Record<string, unknown> | readonly unknown[]

interface Program {
  isRunning(): boolean
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

function createStage({ programs, home, report }: Required<RegtestOptions>): Stage {
  const folder = fs.mkdtempSync(path.join(home, 'monero-regtest-'))
  // It ends the programs and removes the folder when this process is killed.
  const children = trackChildren(folder, report, true)
  const running: Program[] = []
  return {
    programs,
    folder,
    async start(name, command, args) {
      // In a group of its own: Ctrl-C at a terminal is for the tests, which end their programs in order.
      const child = spawn(command, args, {
        cwd: folder,
        env: { PATH: process.env.PATH, HOME: folder, ...withShortcuts() },
        stdio: 'ignore',
        detached: true,
      })
      const ended = once(child, 'exit')
      await once(child, 'spawn')
      children.add(name, child.pid as number)
      void ended.then(() => children.remove(child.pid as number))
      const program: Program = {
        isRunning: () => child.exitCode === null && child.signalCode === null,
        async end(signal) {
          child.kill(signal)
          const limit = setTimeout(() => {
            report(`${name} did not end within ${STOP_LIMIT_MS / 1000} s and is killed`)
            child.kill('SIGKILL')
          }, STOP_LIMIT_MS)
          await ended
          clearTimeout(limit)
        },
      }
      running.push(program)
      return program
    },
    async close() {
      // Nothing of theirs is kept, so nothing needs to be saved.
      await Promise.all(
        running.splice(0).map(async (program) => {
          if (program.isRunning()) await program.end('SIGKILL')
        }),
      )
      children.close()
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function startOn(stage: Stage): Promise<MoneroRegtest> {
  try {
    const daemonPort = await reservePort()
    const isPayerThere = fs.existsSync(path.join(stage.folder, 'wallets', `${PAYER}.keys`))
    const startDaemonHere = startDaemon(stage, daemonPort)
    // Each takes a second to come up. A wallet that is to be made asks the daemon for its height.
    if (!isPayerThere) await startDaemonHere
    const [daemon, payer] = await Promise.all([startDaemonHere, startWallet(stage, daemonPort, PAYER)])
    const wallets = [payer]
    const generate = async (blocks: number, address = payer.address): Promise<number> => {
      const ready = await waitFor('the relaying of what is in the pool', daemon.findPooled, {
        limitMs: RELAY_LIMIT_MS,
        everyMs: 5,
      })
      const makeBlock = async () =>
        (await daemon.call('get_block_template', { wallet_address: address, reserve_size: 0 }))[
          'blocktemplate_blob'
        ] as string
      // At difficulty 1 any nonce will do. monerod's own generateblocks tries it first, which costs as much
      // again as the block.
      for (let count = 0; count < blocks; count++) {
        let block = await makeBlock()
        // A block ends with the hashes of its transactions. One that was made a moment ago may lack the latest.
        const isComplete = () => count > 0 || ready.every((hash) => block.includes(hash))
        for (let made = 1; made < MOST_TEMPLATES && !isComplete(); made++) {
          await delay(20)
          block = await makeBlock()
        }
        await daemon.call('submit_block', [block])
      }
      return daemon.height()
    }
    return {
      daemonUrl: `http://${HOST}:${daemon.port}`,
      payer: { ...payer, pay: (destinations, options) => pay(payer, destinations, options?.unlockTime ?? 0) },
      call: daemon.call,
      generate,
      height: daemon.height,
      async popBlocks(blocks) {
        await daemon.callPath('pop_blocks', { nblocks: blocks })
        return daemon.height()
      },
      async reorganise(blocks, keepsTransactions) {
        // Not left in the pool: what monerod finds too young for the shorter chain, it takes into no block
        // ever after.
        const takePool = async (): Promise<string[]> => {
          const pool = await daemon.listPool()
          await daemon.call('flush_txpool')
          return pool.map((tx) => tx.tx_blob)
        }
        const waiting = await takePool()
        await daemon.callPath('pop_blocks', { nblocks: blocks })
        const popped = await takePool()
        await generate(blocks + 1)
        // What spends money that is gone now is refused.
        for (const blob of [...(keepsTransactions ? popped : []), ...waiting])
          await daemon.callPath('send_raw_transaction', { tx_as_hex: blob })
      },
      async findTransactions(txHashes) {
        const found = new Map<string, number | 'pool'>()
        for (let start = 0; start < txHashes.length; start += TXS_A_CALL) {
          const { txs = [] } = (await daemon.callPath('get_transactions', {
            txs_hashes: txHashes.slice(start, start + TXS_A_CALL),
          })) as { txs?: { tx_hash: string; in_pool: boolean; block_height: number }[] }
          for (const tx of txs) found.set(tx.tx_hash, tx.in_pool ? 'pool' : tx.block_height)
        }
        return found
      },
      flushTxpool: async () => void (await daemon.call('flush_txpool')),
      async withhold(txHash) {
        const { txs } = (await daemon.callPath('get_transactions', { txs_hashes: [txHash] })) as {
          txs: { as_hex: string }[]
        }
        await daemon.call('flush_txpool', { txids: [txHash] })
        return async () => {
          const { status } = await daemon.callPath('send_raw_transaction', { tx_as_hex: txs[0]?.as_hex })
          if (status !== 'OK') throw new Error(`monerod did not take ${txHash} back: ${String(status)}`)
        }
      },
      async setDown(isDown) {
        await daemon.setDown(isDown)
        if (!isDown) await Promise.all(wallets.map((wallet) => wallet.reconnect()))
      },
      async openWallet(name, seed) {
        const wallet = await startWallet(stage, daemon.port, name, seed)
        wallets.push(wallet)
        return wallet
      },
      close: stage.close,
    }
  } catch (error) {
    await stage.close()
    throw error
  }
}

async function startDaemon(stage: Stage, port: number) {
  const peerPort = await reservePort()
  const connection = new MoneroRpcConnection({ uri: `http://${HOST}:${port}`, timeoutMs: CALL_LIMIT_MS })
  const call = (method: string, params?: RpcParams) => callRpc(connection, method, params)
  const callPath = async (
    method: string,
    params: Record<string, unknown>,
  ): Promise<Record<string, unknown>> =>
    (await connection.sendPathRequest(method, params)) as Record<string, unknown>
  const height = async () => (await call('get_block_count'))['count'] as number
  // Not by monero-ts: it takes the JSON apart before it parses it, and stumbles over the JSON inside this
  // one's texts.
  const listPool = async (): Promise<PooledTransaction[]> => {
    const answer = await fetch(`http://${HOST}:${port}/get_transaction_pool`)
    return ((await answer.json()) as { transactions?: PooledTransaction[] }).transactions ?? []
  }
  // A transaction that was just taken is passed on by another thread, and no block of this daemon takes it in
  // before that.
  const findPooled = async (): Promise<string[] | undefined> => {
    const ready = (await listPool()).filter((tx) => !tx.do_not_relay && !tx.kept_by_block)
    return ready.every((tx) => tx.last_relayed_time > 0) ? ready.map((tx) => tx.id_hash) : undefined
  }
  const args = [
    ...[
      '--regtest',
      '--keep-fakechain',
      '--offline',
      '--fixed-difficulty',
      '1',
      '--data-dir',
      path.join(stage.folder, 'chain'),
    ],
    ...[
      '--rpc-bind-port',
      String(port),
      '--p2p-bind-port',
      String(peerPort),
      '--no-zmq',
      '--disable-dns-checkpoints',
      '--no-igd',
    ],
    ...[
      '--disable-rpc-ban',
      '--rpc-ssl',
      'disabled',
      '--non-interactive',
      '--log-level',
      '0',
      '--check-updates',
      'disabled',
    ],
  ]
  const start = async (): Promise<Program> => {
    const program = await stage.start('monerod', stage.programs.monerod, args)
    await waitForAnswer('monerod', program, path.join(stage.folder, 'chain', 'bitmonero.log'), height)
    return program
  }
  let program = await start()
  return {
    port,
    call,
    callPath,
    height,
    findPooled,
    listPool,
    async setDown(isDown: boolean) {
      if (isDown) await program.end('SIGTERM')
      else if (!program.isRunning()) program = await start()
    },
  }
}

async function startWallet(
  stage: Stage,
  daemonPort: number,
  name: string,
  seed?: string,
): Promise<RegtestWallet & { reconnect(): Promise<void> }> {
  const folder = path.join(stage.folder, 'wallets')
  fs.mkdirSync(folder, { recursive: true })
  const file = path.join(folder, name)
  const [username, password] = ['operator', randomBytes(12).toString('hex')]
  const port = await reservePort()
  const connection = new MoneroRpcConnection({
    uri: `http://${HOST}:${port}`,
    username,
    password,
    timeoutMs: CALL_LIMIT_MS,
  })
  const call = (method: string, params?: Record<string, unknown>) => callRpc(connection, method, params)
  const logFile = path.join(stage.folder, `${name}.log`)
  const start = async (): Promise<Program> => {
    const isThere = fs.existsSync(`${file}.keys`)
    const program = await stage.start(`monero-wallet-rpc ${name}`, stage.programs.walletRpc, [
      ...(isThere ? ['--wallet-file', file, '--password', ''] : ['--wallet-dir', folder]),
      ...[
        '--daemon-address',
        `${HOST}:${daemonPort}`,
        '--trusted-daemon',
        '--daemon-ssl',
        'disabled',
        '--rpc-ssl',
        'disabled',
      ],
      ...[
        '--rpc-bind-port',
        String(port),
        '--rpc-login',
        `${username}:${password}`,
        '--shared-ringdb-dir',
        `${file}-rings`,
      ],
      ...['--non-interactive', '--no-dns', '--log-level', '0', '--log-file', logFile],
    ])
    await waitForAnswer(`monero-wallet-rpc ${name}`, program, logFile, () => call('get_version'))
    if (isThere) return program
    if (seed === undefined) await call('create_wallet', { filename: name, password: '', language: 'English' })
    else await call('restore_deterministic_wallet', { filename: name, password: '', seed, restore_height: 0 })
    return program
  }
  let program = await start()
  const { address } = await call('get_address', { account_index: 0 })
  return {
    url: `http://${username}:${password}@${HOST}:${port}`,
    address: address as string,
    call,
    async setDown(isDown, signal = 'SIGTERM') {
      if (isDown) await program.end(signal)
      else if (!program.isRunning()) program = await start()
    },
    async reconnect() {
      // Its first question to a daemon that was started again goes into the old connection and fails.
      if (program.isRunning())
        await waitForAnswer(`monero-wallet-rpc ${name}`, program, logFile, () => call('refresh'))
    },
  }
}

async function pay(
  payer: RegtestWallet,
  destinations: readonly Destination[],
  unlockTime: number,
): Promise<string> {
  await payer.call('refresh')
  const { tx_hash: txHash } = await payer.call('transfer', {
    destinations: destinations.map(({ address, amountPico }) => ({ address, amount: Number(amountPico) })),
    unlock_time: unlockTime,
  })
  return txHash as string
}

async function callRpc(
  connection: MoneroRpcConnection,
  method: string,
  params: RpcParams = {},
): Promise<Record<string, unknown>> {
  const answer = (await connection.sendJsonRequest(method, params)) as { result?: Record<string, unknown> }
  return answer.result ?? {}
}

/** Waits until `ask` is answered. @throws Error with the last lines of the program's log if it ends first */
async function waitForAnswer(
  name: string,
  program: Program,
  logFile: string,
  ask: () => Promise<unknown>,
): Promise<void> {
  const check = async (): Promise<true | undefined> => {
    if (!program.isRunning())
      throw new Error(`${name} ended before it answered:\n${readLastLines(logFile).join('\n')}`)
    return ask().then(
      () => true,
      () => undefined,
    )
  }
  await waitFor(`an answer of ${name}`, check, { limitMs: READY_LIMIT_MS, everyMs: 100 })
}
