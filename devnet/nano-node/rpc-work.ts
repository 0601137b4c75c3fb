import { formatHex64, parseHex64 } from './encoding.ts'
import type { TreeReader } from './json-tree.ts'
import type { NodeState } from './node-state.ts'
import type { Command } from './rpc-arguments.ts'
import { readHash, readOptionalWork, RpcError } from './rpc-arguments.ts'
import {
  difficultyFromMultiplier,
  entryThreshold,
  searchWork,
  workDifficulty,
  workMultiplier,
} from './work.ts'

/** Work is never generated above this multiple of the base difficulty. */
const maxMultiplier = 64

/** Hashes between two looks at the event loop, about 5 ms. */
const hashesPerTurn = 2048

/** The searches that `work_cancel` can stop, by root. */
const runningSearches = new WeakMap<NodeState, Map<string, Set<AbortController>>>()

/** Returns the node's running searches by root; the map is made and remembered at the first call. */
function searchesFor(node: NodeState): Map<string, Set<AbortController>> {
  const searches = runningSearches.get(node) ?? new Map<string, Set<AbortController>>()
  runningSearches.set(node, searches)
  return searches
}

/** Searches work for a root, and yields to the event loop between turns. @returns null if it is cancelled */
export async function generateWork(
  node: NodeState,
  rootHex: string,
  difficulty: bigint,
): Promise<bigint | null> {
  const searches = searchesFor(node)
  const controller = new AbortController()
  const ofRoot = searches.get(rootHex) ?? new Set<AbortController>()
  searches.set(rootHex, ofRoot.add(controller))
  try {
    for (let start = 0n; !controller.signal.aborted; start += BigInt(hashesPerTurn)) {
      const work = searchWork(rootHex, difficulty, start, hashesPerTurn)
      if (work !== null) return work
      await new Promise((resume) => setImmediate(resume))
    }
    return null
  } finally {
    ofRoot.delete(controller)
    if (ofRoot.size === 0) searches.delete(rootHex)
  }
}

/** Ends every search for work that is under way at the node. */
export function cancelAllWork(node: NodeState): void {
  for (const ofRoot of searchesFor(node).values()) for (const controller of ofRoot) controller.abort()
}

/**
 * The difficulty that a request asks for: by a multiple of the base difficulty, or as it is; else the base.
 *
 * @throws RpcError if either is invalid
 */
export function readDifficulty(node: NodeState, request: TreeReader): bigint {
  const base = node.settings.thresholds.epoch2
  const text = request.optionalText('difficulty')
  const difficulty = text === undefined ? base : parseHex64(text)
  if (difficulty === null) throw new RpcError('Bad difficulty')
  const multiplierText = request.optionalText('multiplier')
  if (multiplierText === undefined) return difficulty
  const multiplier = Number(multiplierText)
  if (!(multiplier > 0)) throw new RpcError('Bad multiplier')
  return difficultyFromMultiplier(multiplier, base)
}

/** The difficulty that a work value reaches, and its multiple of the base difficulty. */
function describeWork(
  node: NodeState,
  rootHex: string,
  work: bigint,
): { difficulty: string; multiplier: string } {
  const difficulty = workDifficulty(rootHex, work)
  return {
    difficulty: formatHex64(difficulty),
    multiplier: workMultiplier(difficulty, node.settings.thresholds.epoch2).toFixed(15),
  }
}

const workGenerate: Command = async (node, request) => {
  const hash = readHash(request)
  const difficulty = readDifficulty(node, request)
  const { thresholds, localWork } = node.settings
  if (
    difficulty > difficultyFromMultiplier(maxMultiplier, thresholds.epoch2) ||
    difficulty < entryThreshold(thresholds)
  ) {
    throw new RpcError('Difficulty above config limit or below publish threshold')
  }
  const usePeers = request.flag('use_peers', false)
  if (!localWork)
    throw new RpcError(usePeers ? 'Work generation is disabled' : 'Local work generation is disabled')
  const work = await generateWork(node, hash, difficulty)
  if (work === null) throw new RpcError('Cancelled')
  return { hash, work: formatHex64(work), ...describeWork(node, hash, work) }
}

const workValidate: Command = (node, request) => {
  const hash = readHash(request)
  const work = readOptionalWork(request)
  const askedDifficulty = readDifficulty(node, request)
  const difficulty = workDifficulty(hash, work)
  const { epoch2, epoch2Receive } = node.settings.thresholds
  const reaches = (threshold: bigint): string => (difficulty >= threshold ? '1' : '0')
  return {
    ...(request.has('difficulty') ? { valid: reaches(askedDifficulty) } : {}),
    valid_all: reaches(epoch2),
    valid_receive: reaches(epoch2Receive),
    ...describeWork(node, hash, work),
  }
}

const workCancel: Command = (node, request) => {
  for (const controller of searchesFor(node).get(readHash(request)) ?? []) controller.abort()
  return { success: '' }
}

export const workCommands: { readonly [action: string]: Command } = {
  work_cancel: workCancel,
  work_generate: workGenerate,
  work_validate: workValidate,
}
