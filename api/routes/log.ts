import { z } from 'zod'
import { parseTilePlace } from '../../shared/crypto/log-tree.ts'
import { TILE_WIDTH } from '../../shared/crypto/merkle.ts'
import { text, wholeNumber } from '../../shared/platform/schema.ts'
import {
  cosignBody,
  addCosignature,
  cosignView,
  registerWitness,
  witnessBody,
  witnessView,
} from '../../shared/agents/witness-service.ts'
import {
  consistencyView,
  keysView,
  readCheckpoint,
  readConsistency,
  readEntryBundle,
  readKeys,
  readTile,
  formatCosignedNote,
  witnessField,
} from '../../shared/ledger/log-service.ts'
import {
  cacheAndRevalidate,
  cacheForEver,
  defineRoute,
  noView,
  ok,
  documentAnswer,
  type Route,
} from '../http/route.ts'

const NOTE_TYPE = 'text/plain; charset=utf-8'
const TILE_TYPE = 'application/octet-stream'
/** C2SP tlog-tiles: at most 9 digits, the first group not of zeros alone, and a width of 1 to 255. */
const FIRST_GROUP = 'x([1-9][0-9]{2}|0[1-9][0-9]|00[1-9])/'
const WIDTH = '([1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])'
const TILE_PLACE = new RegExp(`^(${FIRST_GROUP}(x[0-9]{3}/)?)?[0-9]{3}(\\.p/${WIDTH})?$`)

/**
 * The routes of the log of all entries, in the forms of C2SP, which other people's programs read; and of its
 * witnesses.
 */
export function logRoutes(): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/checkpoint',
      operation: 'getCheckpoint',
      access: 'open',
      summary: 'The last checkpoint of the log as a signed note with cosignatures (C2SP tlog-checkpoint)',
      query: z.object({ witness: witnessField }),
      view: noView,
      documents: { 'text/plain': { type: 'string' } },
      errors: ['no_such_seal'],
      async handle({ ctx, query }) {
        const { checkpoint } = await readCheckpoint(ctx)
        return documentAnswer(NOTE_TYPE, await formatCosignedNote(ctx.seals, checkpoint, query.witness ?? []))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/tile/{height}/{place}',
      operation: 'getTile',
      endsOpen: true,
      access: 'open',
      summary: 'A tile of the log, or the entries below one of level 0 (C2SP tlog-tiles)',
      params: z.object({
        height: z
          .string()
          .regex(/^(entries|[0-9]|[1-5][0-9]|6[0-3])$/, 'expected a level from 0 to 63, or entries'),
        place: z
          .string()
          .regex(
            TILE_PLACE,
            'expected a place as C2SP tlog-tiles writes it, such as 000, x001/234 or 000.p/5',
          )
          .describe(
            'index in groups of three digits, and for a part of a tile `.p/` and its width: `x001/234.p/5`',
          ),
      }),
      view: noView,
      documents: {
        'application/octet-stream': { type: 'string', contentMediaType: 'application/octet-stream' },
      },
      errors: ['no_such_seal', 'no_such_index'],
      // Entries are read and put together, tiles are stored as they are.
      weight: () => TILE_WIDTH,
      async handle({ ctx, params }) {
        const { height: level } = params
        const place = parseTilePlace(params.place)
        // The schema lets no other place through.
        if (place === undefined)
          throw new TypeError(`"place" expected what TILE_PLACE matches, got ${params.place}`)
        const { index, width } = place
        const tag = `${level}-${index}-${width}`
        const bytes =
          level === 'entries'
            ? await readEntryBundle(ctx, index, width)
            : await readTile(ctx, Number(level), index, width)
        return { ...documentAnswer(TILE_TYPE, bytes), cache: cacheForEver(tag) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/ledger/consistency',
      operation: 'getConsistency',
      access: 'open',
      summary: 'The proof that the log of one size begins with the log of a smaller one',
      query: z.object({
        from: wholeNumber(0).describe('the smaller size'),
        to: wholeNumber(0).optional().describe("the larger size; the last checkpoint's if absent"),
      }),
      view: consistencyView,
      errors: ['no_such_seal'],
      async handle({ ctx, query }) {
        const proof = await readConsistency(ctx, query.from, query.to)
        const cache = query.to === undefined ? cacheAndRevalidate : cacheForEver
        return { ...ok(proof), cache: cache(`${proof.from}-${proof.to}`) }
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/keys/{agent_id}',
      operation: 'getKeys',
      access: 'open',
      summary: "An agent's keys, or that it has none, with the proof up to a signed checkpoint",
      params: z.object({ agent_id: text({ min: 1, max: 100 }) }),
      view: keysView,
      errors: ['no_such_seal'],
      handle: async ({ ctx, params }) => ok(await readKeys(ctx, params.agent_id)),
    }),
    defineRoute({
      method: 'POST',
      path: '/witness',
      operation: 'registerWitness',
      access: 'token',
      summary: 'Names the key that the agent cosigns checkpoints of the log with',
      body: witnessBody,
      view: witnessView,
      errors: ['no_such_seal', 'wrong_state'],
      async handle({ ctx, caller, body }) {
        await registerWitness(ctx, caller._id, body.vkey)
        return ok({ agent_id: caller._id, vkey: body.vkey })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/witness/cosign',
      operation: 'createCosignature',
      access: 'token',
      summary: "Hands in the agent's cosignature of a recent checkpoint",
      body: cosignBody,
      view: cosignView,
      errors: ['no_such_seal', 'wrong_state'],
      handle: async ({ ctx, caller, body }) => ok(await addCosignature(ctx, caller._id, body.line)),
    }),
  ]
}
