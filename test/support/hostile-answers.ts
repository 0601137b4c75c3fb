import { z } from 'zod'
import { agentCardView } from '../../shared/about/agent-card.ts'

/** What a schema of the service's accepts, with every field there and every list of one element. */
export function sampleOf(view: z.ZodType): unknown {
  return sample(z.toJSONSchema(view, { io: 'output', unrepresentable: 'any' }) as Schema, undefined)
}

interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  allOf?: Schema[]
  const?: unknown
  enum?: unknown[]
  minimum?: number
  pattern?: string
  format?: string
  description?: string
  $ref?: string
  $defs?: Record<string, Schema>
  additionalProperties?: Schema
}

const AGENT = 'agt_01j0000000000000000000000a'
/** Texts by their field's name, of those that must have a form; the first pattern that fits is taken. */
const TEXTS: readonly [name: RegExp, text: string][] = [
  [/^(agent_id|buyer_id|seller_id|from)$/, AGENT],
  [/^token$/, `sk_${'ab'.repeat(24)}`],
  [/^dm_key$/, '910d921cf8d8aa21299c0125b6429ec637011fe8bed37738656415dd8759a809'],
]

function sample(schema: Schema, root: Schema | undefined, name = ''): unknown {
  const top = root ?? schema
  if (schema.$ref !== undefined)
    return sample(top.$defs?.[schema.$ref.split('/').at(-1) ?? ''] ?? {}, top, name)
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.anyOf !== undefined)
    return sample(schema.anyOf.find(({ type }) => type !== 'null') ?? {}, top, name)
  if (schema.allOf !== undefined)
    return Object.assign({}, ...schema.allOf.map((part) => sample(part, top, name))) as object
  if (Array.isArray(schema.type)) return sample({ ...schema, type: schema.type[0] ?? '' }, top, name)
  if (schema.type === 'array') return [sample(schema.items ?? {}, top)]
  if (schema.type === 'object')
    return schema.properties === undefined
      ? { name: sample(schema.additionalProperties ?? {}, top) }
      : Object.fromEntries(
          Object.entries(schema.properties).map(([field, of]) => [field, sample(of, top, field)]),
        )
  if (schema.type === 'boolean') return true
  if (schema.type === 'integer' || schema.type === 'number') return Math.max(1, schema.minimum ?? 1)
  return TEXTS.find(([form]) => form.test(name))?.[1] ?? sampleText(schema)
}

/** The card of an agent, as a service answers with it. @param dmKey null: it shows none */
export function cardOf(agentId: string, dmKey: string | null): object {
  const card = sampleOf(agentCardView) as { profile: { author_key?: string; did?: string } }
  const { author_key: _key, did: _did, ...profile } = card.profile
  return { ok: true, ...card, agent_id: agentId, handle: null, profile: { ...profile, dm_key: dmKey } }
}

const WRONG: readonly unknown[] = [undefined, null, 'x\u001b[2J\u202e\n', 1e300, [null], {}]

/** A text of the form that its schema states. */
function sampleText({ description = '', format, pattern = '' }: Schema): string {
  if (format === 'date-time') return '2030-01-01T00:00:00+00:00'
  const [, prefix] = /^id that begins with (\w+_)/.exec(description) ?? []
  if (prefix !== undefined) return `${prefix}01j0000000000000000000000a`
  const [, length] = /\[0-9a-f\]\{(\d+)\}/.exec(pattern) ?? []
  return length === undefined ? 'text' : '0'.repeat(Number(length))
}

/** The value with each part of it, one at a time, replaced by each of the wrong ones. */
export function* mutationsOf(value: unknown, path = ''): Generator<{ path: string; value: unknown }> {
  for (const wrong of WRONG) yield { path: `${path} = ${JSON.stringify(wrong)}`, value: wrong }
  if (typeof value !== 'object' || value === null) return
  for (const [name, part] of Object.entries(value))
    for (const mutated of mutationsOf(part, `${path}.${name}`)) {
      const changed = Array.isArray(value) ? [...(value as unknown[])] : { ...value }
      yield { path: mutated.path, value: Object.assign(changed, { [name]: mutated.value }) }
    }
}
