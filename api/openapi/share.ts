import type { oas32 } from 'zod-openapi'
import { ERRORS, type ErrorCode } from '../../shared/platform/errors.ts'

/**
 * Shortens a document in place: parameters and responses that stand in it more than once become components,
 * and the description of a parameter isn't repeated in its schema.
 */
export function shareParts(document: oas32.OpenAPIObject): void {
  const operations = Object.values(document.paths ?? {}).flatMap(({ get, post, delete: remove }) =>
    [get, post, remove].filter((operation) => operation !== undefined),
  )
  const parameters = operations.map((operation) => (operation.parameters ?? []) as oas32.ParameterObject[])
  for (const parameter of parameters.flat()) {
    const { description, ...schema } = parameter.schema as Exclude<oas32.SchemaObject, boolean>
    Object.assign(parameter, { schema }, description === undefined ? {} : { description })
  }
  const responses = operations.map((operation) => operation.responses ?? {})
  document.components = {
    ...document.components,
    parameters: share<oas32.ParameterObject>('parameters', parameters, nameOfParameter),
    responses: share<oas32.ResponseObject>('responses', responses, nameOfResponse),
  }
}

const nameOfParameter = ({ in: place, name }: oas32.ParameterObject): string => `${place}-${name}`

/** Returns the kind of a refusal; of an answer, the name of its schema. */
function nameOfResponse(response: oas32.ResponseObject): string {
  const [code] = (response['x-codes'] as ErrorCode[] | undefined) ?? []
  if (code !== undefined) return ERRORS[code].kind
  const { schema } = (response.content?.['application/json'] ?? {}) as oas32.MediaTypeObject
  return (schema as oas32.ReferenceObject | undefined)?.$ref.split('/').at(-1) ?? 'unchanged'
}

/**
 * Replaces each part that the lists or records have more than once by a reference.
 *
 * @param nameOf proposes a part's name; a number is added if another part has it
 * @returns these parts, by name
 */
function share<Part extends object>(
  kind: 'parameters' | 'responses',
  holders: readonly object[],
  nameOf: (part: Part) => string,
): Record<string, Part> {
  const places = holders.flatMap((holder) =>
    Object.entries(holder).map(([key, part]) => ({ holder, key, part: part as Part })),
  )
  const shared: Record<string, Part> = {}
  for (const alike of Map.groupBy(places, ({ part }) => JSON.stringify(part)).values()) {
    const [first, ...others] = alike
    if (first === undefined || others.length === 0) continue
    let name = nameOf(first.part)
    for (let number = 2; Object.hasOwn(shared, name); number++) name = `${nameOf(first.part)}_${number}`
    shared[name] = first.part
    for (const { holder, key } of alike)
      Object.assign(holder, { [key]: { $ref: `#/components/${kind}/${name}` } })
  }
  return shared
}
