import { randomBytes } from 'node:crypto'

import { deriveSecretKey, publicKeyOf } from './block.ts'
import { decodeAddress, encodeAddress, formatHex64, maxRaw, parseHash, parseRaw } from './encoding.ts'
import type { Tree } from './json-tree.ts'
import { genesisPublicKey } from './node-state.ts'
import type { Command } from './rpc-arguments.ts'
import { parseAccount, RpcError } from './rpc-arguments.ts'

const rawPerNano = 10n ** 30n
/** Online voting weight that the node assumes at least, in raw. */
const minimumWeight = 60_000_000n * rawPerNano
const quorumPercent = 67n

const version: Command = (node) => ({
  rpc_version: '1',
  store_version: '24',
  protocol_version: '21',
  node_vendor: 'Nano V28.0',
  store_vendor: 'LMDB 0.9.70',
  network: 'dev',
  network_identifier: node.ledger.genesisHash,
  build_info: 'stand-in for tests',
})

const blockCount: Command = (node) => ({
  count: String(node.ledger.blocks.size),
  unchecked: String(node.uncheckedCount),
  cemented: String(node.ledger.cementedCount),
})

const uptime: Command = (node) => ({ seconds: String(Math.floor((Date.now() - node.startedMs) / 1000)) })

/** A secret key with its public key and address. */
function describeKey(secretKey: string): Tree {
  const publicKey = publicKeyOf(secretKey)
  return { private: secretKey, public: publicKey, account: encodeAddress(publicKey) }
}

const keyExpand: Command = (_node, request) => {
  const key = parseHash(request.text('key'))
  if (key === null) throw new RpcError('Bad private key')
  return describeKey(key)
}

const keyCreate: Command = () => describeKey(randomBytes(32).toString('hex').toUpperCase())

const deterministicKey: Command = (_node, request) => {
  const seed = parseHash(request.text('seed'))
  const index = Number(request.text('index'))
  if (seed === null) throw new RpcError('Bad seed')
  if (!Number.isInteger(index) || index < 0 || index > 0xffffffff) throw new RpcError('Invalid index')
  return describeKey(deriveSecretKey(seed, index))
}

const accountGet: Command = (_node, request) => {
  const key = parseHash(request.text('key'))
  if (key === null) throw new RpcError('Bad public key')
  return { account: encodeAddress(key) }
}

const accountKey: Command = (_node, request) => ({ key: parseAccount(request.text('account')) })

const validateAccountNumber: Command = (_node, request) => ({
  valid: decodeAddress(request.text('account')) === null ? '0' : '1',
})

const confirmationQuorum: Command = (node) => {
  const online = node.elections.onlineStake
  const base = online > minimumWeight ? online : minimumWeight
  return {
    quorum_delta: ((base * quorumPercent) / 100n).toString(),
    online_weight_quorum_percent: quorumPercent.toString(),
    online_weight_minimum: minimumWeight.toString(),
    online_stake_total: online.toString(),
    trended_stake_total: minimumWeight.toString(),
    peers_stake_total: '0',
  }
}

const representativesOnline: Command = (node) => ({
  representatives: node.elections.onlineStake > 0n ? [encodeAddress(genesisPublicKey)] : [],
})

const activeDifficulty: Command = (node) => {
  const { epoch2, epoch2Receive } = node.settings.thresholds
  return {
    deprecated: '1',
    network_minimum: formatHex64(epoch2),
    network_receive_minimum: formatHex64(epoch2Receive),
    network_current: formatHex64(epoch2),
    network_receive_current: formatHex64(epoch2Receive),
    multiplier: '1',
  }
}

const peers: Command = () => ({ peers: '' })

const telemetry: Command = (node) => ({
  block_count: String(node.ledger.blocks.size),
  cemented_count: String(node.ledger.cementedCount),
  unchecked_count: String(node.uncheckedCount),
  account_count: String(node.ledger.accounts.size),
  bandwidth_cap: '10485760',
  peer_count: '0',
  protocol_version: '21',
  uptime: String(Math.floor((Date.now() - node.startedMs) / 1000)),
  genesis_block: node.ledger.genesisHash,
  major_version: '28',
  minor_version: '0',
  patch_version: '0',
  pre_release_version: '99',
  maker: '0',
  timestamp: String(Date.now()),
  active_difficulty: formatHex64(node.settings.thresholds.epoch2),
  node_id: encodeAddress(genesisPublicKey).replace('nano_', 'node_'),
  signature: '0'.repeat(128),
})

const nanoToRaw: Command = (_node, request) => {
  const amount = parseRaw(request.text('amount'))
  if (amount === null) throw new RpcError('Invalid amount number')
  if (amount * rawPerNano > maxRaw) throw new RpcError('Amount too big')
  return { amount: (amount * rawPerNano).toString() }
}

const rawToNano: Command = (_node, request) => {
  const amount = parseRaw(request.text('amount'))
  if (amount === null) throw new RpcError('Invalid amount number')
  return { amount: (amount / rawPerNano).toString() }
}

export const nodeCommands: { readonly [action: string]: Command } = {
  account_get: accountGet,
  account_key: accountKey,
  active_difficulty: activeDifficulty,
  block_count: blockCount,
  confirmation_quorum: confirmationQuorum,
  deterministic_key: deterministicKey,
  key_create: keyCreate,
  key_expand: keyExpand,
  nano_to_raw: nanoToRaw,
  peers,
  raw_to_nano: rawToNano,
  representatives_online: representativesOnline,
  telemetry,
  uptime,
  validate_account_number: validateAccountNumber,
  version,
}
