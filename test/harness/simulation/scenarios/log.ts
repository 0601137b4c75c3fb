import type { Connection } from 'mongoose'
import { createLogTree, edgeTiles, type LogTree } from '../../../../shared/crypto/log-tree.ts'
import { HASH_BYTES } from '../../../../shared/crypto/merkle.ts'
import { computeLeaves, type EntryRecord } from '../../../../shared/ledger/entry.ts'
import { createEntryTree } from '../../../../shared/ledger/entry-tree.ts'
import { createEntryStore } from '../../../../shared/ledger/entry-store.ts'
import type { PendingEntry } from '../../../../shared/ledger/pending.ts'
import { makeSeal } from '../../../../shared/ledger/sealer.ts'
import type { SealRecord } from '../../../../shared/ledger/seal.ts'
import { createCoinStore } from '../../../../shared/money/coin-store.ts'
import { createSealStore } from '../../../../shared/ledger/seal-store.ts'
import { sequencePending } from '../../../../shared/ledger/sequencer.ts'
import { closesSeal } from '../../../../shared/ledger/solvency.ts'
import { createPostStore } from '../../../../shared/posts/post-store.ts'
import { unixSeconds } from '../../../../shared/platform/time.ts'
import { requireThat, stubs } from '../stubs.ts'
import type { Scenario, World } from '../world.ts'

const PATIENCE_MS = 10_000

/** Posts are written, numbered by two sequencers and sealed by two sealers; any of them may die anywhere. */
export const logScenario: Scenario = {
  name: 'log',
  defineModels: openStores,
  play(world) {
    const { random } = world.schedule
    const openWorker = () => ({
      ...openStores(world.connection),
      ...stubs(world),
      database: world.openDatabase(),
    })
    let posts = 0
    for (let writer = 0; writer < 2; writer++)
      world.spawn(`writer${writer}`, async () => {
        const worker = openWorker()
        // One to four attempts, each a new post or a change to posts of either writer.
        for (let count = random.below(4); count >= 0; count--)
          await world.attempt(() =>
            random.chance(0.6) ? writePost(worker, `pst_${++posts}`) : editPosts(world, worker, posts),
          )
      })
    for (let count = 0; count < 2; count++) {
      world.spawn(
        `sequencer${count}`,
        async () => {
          const worker = openWorker()
          for (let run = 0; run < 3; run++) {
            await world.pause()
            await world.attempt(() =>
              sequencePending(worker, { batchSize: 1 + random.below(3), useLease: random.chance(0.5) }),
            )
          }
        },
        2,
      )
      world.spawn(
        `sealer${count}`,
        async () => {
          const worker = openWorker()
          for (let run = 0; run < 2; run++) {
            await world.pause()
            await world.attempt(() => makeSeal(worker, { useLease: random.chance(0.5) }))
          }
        },
        2,
      )
    }
    const watch = watchLog(world)
    return {
      check: watch.check,
      async finish() {
        const worker = openWorker()
        await sequencePending(worker, { useLease: false })
        while ((await makeSeal(worker, { useLease: false })) !== undefined);
      },
      checkEnd: watch.checkEnd,
    }
  },
}

function openStores(connection: Connection) {
  return {
    entries: createEntryStore(connection),
    seals: createSealStore(connection),
    coins: createCoinStore(connection),
    posts: createPostStore(connection, PATIENCE_MS),
  }
}

type Worker = ReturnType<typeof openStores> &
  Pick<World, never> & { database: ReturnType<World['openDatabase']> }

const entryOf = (postId: string, step: string): PendingEntry => ({
  source: `${postId}/${step}`,
  at: unixSeconds(Date.now()),
  kind: 'post',
  data: { post_id: postId, step },
})

function writePost({ posts }: Worker, _id: string): Promise<unknown> {
  const at = unixSeconds(Date.now())
  return posts.insert({
    _id,
    agent_id: 'agt_1',
    at,
    body: 'b',
    salt: 's',
    pending: [entryOf(_id, 'post')],
  })
}

/**
 * Changes one or two posts, of which one may not exist yet, in one transaction, which may commit long after
 * it began.
 */
function editPosts(world: World, { posts, database }: Worker, known: number): Promise<unknown> {
  const { random } = world.schedule
  const step = `edit${random.below(1_000_000)}`
  const ids = new Set([1 + random.below(known + 1), 1 + random.below(known + 1)])
  return database.transaction(async (session) => {
    for (const id of ids)
      await posts.models.posts.updateOne(
        { _id: `pst_${id}` },
        { $push: { pending: entryOf(`pst_${id}`, step) } },
        { session },
      )
  })
}

interface PostDoc {
  _id: string
  pending?: PendingEntry[]
}

/** What must hold of the ledger, its seals and its log, whatever happens. */
function watchLog({ set }: World) {
  const numbered = new Map<number, string>()
  const everPending = new Set<string>()
  const roots = new Map<number, string>()
  const sealed: SealRecord[] = []
  const log: LogTree = createLogTree()
  const byId = <T extends { _id: number }>(docs: unknown[]): T[] =>
    (docs as T[]).sort((a, b) => a._id - b._id)

  function checkEntries(): EntryRecord[] {
    const latest = byId<EntryRecord>(set.latest('entries'))
    requireThat(
      new Set(latest.map(({ source }) => source)).size === latest.length,
      'an entry has two numbers',
    )
    latest.forEach(({ _id }, place) => requireThat(_id === place + 1, `number ${place + 1} is skipped`))
    const entries = byId<EntryRecord>(set.lasting('entries'))
    requireThat(entries.length >= numbered.size, 'entries are gone')
    for (const entry of entries) {
      const known = numbered.get(entry._id)
      if (known === undefined) numbered.set(entry._id, entry.source)
      else requireThat(known === entry.source, `number ${entry._id} is another entry's`)
    }
    const posts = new Map((set.lasting('posts') as unknown as PostDoc[]).map((post) => [post._id, post]))
    for (const { pending = [] } of posts.values()) for (const { source } of pending) everPending.add(source)
    const sources = new Set(entries.map(({ source }) => source))
    for (const source of everPending) {
      const isPending =
        posts.get(source.split('/')[0] ?? '')?.pending?.some((one) => one.source === source) ?? false
      requireThat(isPending || sources.has(source), `the entry ${source} is lost`)
    }
    for (const source of sources)
      requireThat(
        source.startsWith('seal_') || everPending.has(source),
        `the entry ${source} tells of what was taken back`,
      )
    return entries
  }

  function checkSeal(seal: SealRecord, entries: readonly EntryRecord[]): void {
    const { _id, from_id: fromId, to_id: toId, count, root } = seal
    const previous = sealed.at(-1)
    requireThat(_id === (previous?._id ?? 0) + 1, `seal ${_id} follows seal ${previous?._id ?? 0}`)
    requireThat(fromId === (previous?.to_id ?? 0) + 1 && toId >= fromId, `seal ${_id} begins at ${fromId}`)
    requireThat(toId <= entries.length, `seal ${_id} covers what is not numbered for good`)
    const covered = entries.slice(fromId - 1, toId)
    const closing = covered.at(-1) as EntryRecord
    requireThat(
      count === covered.length && closesSeal(closing, _id),
      `seal ${_id} is not closed by entry ${toId}`,
    )
    const stated = closing.data['log'] as { size: number; root: string }
    requireThat(
      stated.size === log.size && stated.root === log.root().toString('hex'),
      `seal ${_id} states another log`,
    )
    const { leaves } = computeLeaves(covered)
    const tree = createEntryTree()
    tree.add(leaves)
    requireThat(tree.finish().root === root, `the root of seal ${_id} is not that of its entries`)
    log.append(leaves)
    checkTiles(seal)
    sealed.push(seal)
  }

  /** A seal that can be seen has the tiles of its log. */
  function checkTiles({ _id, to_id: size }: SealRecord): void {
    const tiles = new Map(
      (set.lasting('log_tiles') as unknown as { _id: string; hashes: Buffer }[]).map((tile) => [
        tile._id,
        tile.hashes,
      ]),
    )
    const hashes = edgeTiles(size).map(({ level, index, width }) =>
      tiles.get(`${level}/${index}`)?.subarray(0, width * HASH_BYTES),
    )
    requireThat(
      hashes.every((tile) => tile !== undefined),
      `seal ${_id} lacks tiles`,
    )
    const root = createLogTree(size, hashes).root().toString('hex')
    requireThat(root === log.root().toString('hex'), `the tiles of seal ${_id} are of another log`)
    requireThat((roots.get(size) ?? root) === root, `two heads of the size ${size}`)
    roots.set(size, root)
  }

  const check = (): void => {
    const entries = checkEntries()
    const seals = byId<SealRecord>(set.lasting('seals'))
    requireThat(seals.length >= sealed.length, 'seals are gone')
    sealed.forEach((seal, place) =>
      requireThat(seals[place]?.root === seal.root, `seal ${seal._id} has changed`),
    )
    for (const seal of seals.slice(sealed.length)) checkSeal(seal, entries)
    for (const { intact, fault } of set.lasting('ledger_status'))
      requireThat(intact as boolean, `the chain is found broken: ${String(fault)}`)
  }
  return {
    check,
    checkEnd(): void {
      check()
      const posts = set.lasting('posts') as unknown as PostDoc[]
      requireThat(
        posts.every(({ pending = [] }) => pending.length === 0),
        'an entry stays pending',
      )
      requireThat((sealed.at(-1)?.to_id ?? 0) === numbered.size, 'an entry stays without a seal')
    },
  }
}
