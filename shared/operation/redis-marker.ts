import type { Context } from '../context.ts'
import { newStepId } from '../platform/ids.ts'
import type { RedisNote } from './watch-store.ts'

type RedisMarkerContext = Pick<Context, 'queues' | 'operation'>

/**
 * Puts a new marker into MongoDB and then into Redis, unless another process did since `noted` was read.
 *
 * @param noted the marker in MongoDB as it was read; undefined if there was none
 * @param found what was found out about Redis and is to be kept with the new marker
 */
export async function replaceRedisMarker(
  ctx: RedisMarkerContext,
  noted: RedisNote | undefined,
  found: Omit<RedisNote, 'mark'>,
): Promise<void> {
  const mark = newStepId()
  if (await ctx.operation.watch.noteRedis({ mark, ...found }, noted)) await ctx.queues.setMark(mark)
}
