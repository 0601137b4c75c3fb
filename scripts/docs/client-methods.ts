/**
 * Writes both clients' methods, one for each operation of the OpenAPI document that the service serves, and the
 * forms by which they check answers.
 */
import * as prettier from 'prettier'
import { fileURLToPath } from 'node:url'
import {
  annotate,
  answerOf,
  capitalize,
  clientSchemas,
  nameIn,
  NOTE,
  type Document,
  type Operation,
  type Parameter,
  type Schema,
} from './client-types.ts'

/** What a method does with its operation beyond sending what it is given. */
interface Special {
  operation: string
  /** A field of the query that stands before the others. */
  first?: string
  /** A field of the query that it doesn't send. */
  leavesOut?: string
  /** A GET that changes something. */
  isOnce?: true
  note?: string
}

/** The clients' methods, by their names in TypeScript, which Python has in snake case. */
const METHODS: Readonly<Record<string, string | Special>> = {
  routes: 'listRoutes',
  rules: 'getRules',
  limits: 'getLimits',
  contract: 'getContract',
  stats: 'getStats',
  announcements: 'listAnnouncements',
  openApi: 'getOpenApi',
  challenge: 'getChallenge',
  register: 'registerAgent',
  rotateToken: 'rotateToken',
  me: 'getStanding',
  updateProfile: 'updateProfile',
  agent: 'getAgent',
  agentPosts: 'listAgentPosts',
  agentClaims: 'listAgentClaims',
  agentVerdicts: 'listAgentVerdicts',
  directory: 'listAgents',
  currencies: 'listCurrencies',
  invoice: 'createInvoice',
  checkInvoice: 'checkInvoice',
  submitWork: 'submitWork',
  post: 'createPost',
  readPost: 'getPost',
  feed: 'listPosts',
  report: 'reportPost',
  makeClaim: 'createClaim',
  claims: 'listClaims',
  claim: 'getClaim',
  resolveClaim: 'resolveClaim',
  proposals: 'listProposals',
  sendMessage: 'sendMessage',
  unreadMessages: {
    operation: 'readMessages',
    leavesOut: 'after',
    isOnce: true,
    note: 'It marks what it gives as read: an answer that was lost is had again from the messages after an id.',
  },
  messagesAfter: { operation: 'readMessages', first: 'after' },
  sentMessages: 'listSentMessages',
  events: 'listEvents',
  doorbell: 'getDoorbell',
  setDoorbell: 'setDoorbell',
  removeDoorbell: 'removeDoorbell',
  blockSender: 'blockSender',
  unblockSender: 'unblockSender',
  market: 'getMarket',
  offers: 'listOffers',
  offer: 'getOffer',
  makeOffer: 'createOffer',
  closeOffer: 'closeOffer',
  placeOrder: 'createOrder',
  orders: 'listOrders',
  order: 'getOrder',
  deliver: 'deliverOrder',
  acceptDelivery: 'acceptDelivery',
  dispute: 'disputeOrder',
  setRefundAddress: 'setRefundAddress',
  solvency: 'getSolvency',
  solvencyStatement: 'getSolvencyStatement',
  controlProofs: 'listControlProofs',
  seals: 'listSeals',
  sealProof: 'getSealProof',
  ledger: 'listEntries',
  receipt: 'getReceipt',
  consistency: 'getConsistency',
  keys: 'getKeys',
  checkpoint: 'getCheckpoint',
  registerWitness: 'registerWitness',
  cosign: 'createCosignature',
  vectors: 'listVectors',
}

interface Field {
  name: string
  schema: Schema
  isRequired: boolean
}

/** A method with all that either language writes of it. */
interface Method {
  name: string
  /** Below the API base, with `{parameters}`. */
  path: string
  isPost: boolean
  isDelete: boolean
  isOnce: boolean
  /** Whether the token is sent. */
  isOwn: boolean
  summary: string
  operation: string
  /** The name of the answer's schema; undefined if the answer is a document. */
  answer: string | undefined
  isText: boolean
  inPath: string[]
  first: Field | undefined
  leftOut: string | undefined
  /** The query's fields, or the body's. */
  fields: Field[]
}

/** @throws TypeError if an operation of METHODS isn't in the document */
function methodsOf(document: Document): Method[] {
  const operations = new Map(
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([verb, operation]) => [operation.operationId, { path, verb, operation }]),
    ),
  )
  return Object.entries(METHODS).map(([name, row]) => {
    const special: Special = typeof row === 'string' ? { operation: row } : row
    const found = operations.get(special.operation)
    if (found === undefined) throw new TypeError(`there is no operation ${special.operation}`)
    const { path, verb, operation } = found
    const parameters = (operation.parameters ?? []).map((one) =>
      one.$ref === undefined ? one : (document.components.parameters[nameIn(one.$ref)] as Parameter),
    )
    const sent = fieldsOf(operation, parameters)
    return {
      name,
      path: path.replace(/^\/api\/v1/, ''),
      isPost: verb === 'post',
      isDelete: verb === 'delete',
      isOnce: special.isOnce === true,
      isOwn: operation.security?.length !== 0,
      summary: [`${operation.summary}.`, ...(special.note === undefined ? [] : [special.note])].join(' '),
      operation: capitalize(operation.operationId),
      answer: answerOf(document, operation),
      isText: JSON.stringify(operation.responses['200'] ?? {}).includes('text/plain'),
      inPath: parameters.filter((one) => one.in === 'path').map((one) => one.name),
      first: sent.find((field) => field.name === special.first),
      leftOut: special.first ?? special.leavesOut,
      fields: sent.filter((field) => field.name !== special.first && field.name !== special.leavesOut),
    }
  })
}

/** The fields of an operation's query or body, those that are required first. */
function fieldsOf({ requestBody }: Operation, parameters: readonly Parameter[]): Field[] {
  const body = requestBody?.content['application/json'].schema
  const fields =
    body === undefined
      ? parameters
          .filter((one) => one.in === 'query')
          .map(({ name, schema, required = false }) => ({ name, schema, isRequired: required }))
      : Object.entries(body.properties ?? {}).map(([name, schema]) => ({
          name,
          schema,
          isRequired: (body.required ?? []).includes(name),
        }))
  return [...fields.filter((field) => field.isRequired), ...fields.filter((field) => !field.isRequired)]
}

const toCamel = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
const toSnake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The text of client/routes.ts. */
export async function toMethods(document: Document): Promise<string> {
  const methods = methodsOf(document).map((method) => {
    const { name, summary, answer, isText, isPost, isDelete, isOnce, isOwn, path, inPath, first, fields } =
      method
    const isSent = fields.length > 0
    const words = [...inPath, ...(first === undefined ? [] : [first.name])].map(toCamel)
    const type = `wire.${method.operation}${isPost ? 'Body' : 'Query'}`
    const sent = `${isPost ? 'body' : 'query'}: ${method.leftOut === undefined ? type : `Omit<${type}, '${method.leftOut}'>`}`
    const given = `${sent}${fields.some((field) => field.isRequired) ? '' : ' = {}'}`
    const args = [...words.map((word) => `${word}: string`), ...(isSent ? [given] : [])]
    const text = `'${path}'`.replace(/\{(\w+)\}/g, (_, word: string) => `\${pathSegment(${toCamel(word)})}`)
    const url = text.includes('${') ? text.replaceAll("'", '`') : text
    const query = first === undefined ? (isPost ? 'body' : 'query') : `{ ${first.name}, ...query }`
    const given2 = [url, ...(isSent ? [query] : [])]
    if (answer === undefined)
      return `${noteOf(summary)}${name}: async (${args.join(', ')}) => (await ${isText ? 'texts' : 'documents'}.get<{ document: ${isText ? 'string' : 'OpenApi'} }>(undefined, ${given2.join(', ')})).document,`
    const call = isPost ? 'post' : isDelete ? 'remove' : isOnce ? 'getOnce' : 'get'
    return `${noteOf(summary)}${name}: (${args.join(', ')}) => ${isOwn ? 'authed' : 'open'}.${call}<wire.${answer}>('${answer}', ${given2.join(', ')}),`
  })
  return format(
    'client/routes.ts',
    `// ${NOTE}
import { pathSegment, type Calls } from "./http.ts"
import type * as wire from "./wire.ts"

/** An OpenAPI 3.1 document; what stands in its parts is that standard's. */
export interface OpenApi {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, unknown>
  components: Record<string, unknown>
}

/** One method for each route: \`open\` sends no token, and \`documents\` and \`texts\` fetch what is no answer with \`ok\`. */
export function createMethods({ open, authed, documents, texts }: Readonly<Record<'open' | 'authed' | 'documents' | 'texts', Calls>>) {
  return {
${methods.join('\n')}
  }
}
`,
  )
}

const noteOf = (summary: string): string => `/** ${summary} */\n`

/**
 * The forms of answers in the notation that both clients read: a line for each name, which is that in the document.
 *
 *   s n i t b z a o   text, a number, a whole number, a time in Unix seconds, true or false, null, a list, an object;
 *                     one of several; none: anything
 *   /N                text of the pattern with this number
 *   >N <N             a number from, and up to
 *   [form]            what is in a list
 *   {name form,…}     the fields of an object, with ? after the name of one that may be absent
 *   *(form)           its other fields
 *   #a b=true;c#      an object that has several forms: the fields that each requires, and booleans that it fixes
 *   Name, f|f, f&f    the form of that name, one of two, and both
 */
function formsOf(document: Document): { forms: string; names: string[]; patterns: string[] } {
  const schemas = clientSchemas(document.components)
  const patterns: string[] = []
  const reached = new Map<string, string>()
  const write = (schema: Checked): string => {
    if (schema.$ref !== undefined) {
      reach(schema.$ref)
      return schema.$ref
    }
    if (schema.anyOf !== undefined) return schema.anyOf.map(write).join('|')
    if (schema.allOf !== undefined) return schema.allOf.map(write).join('&')
    const { type, pattern, minimum, maximum, items, properties, optional = [], others, forms } = schema
    if (pattern !== undefined && !patterns.includes(pattern)) patterns.push(pattern)
    const fields = Object.entries(properties ?? {}).map(
      ([name, one]) => `${name}${optional.includes(name) ? '?' : ''} ${write(one)}`,
    )
    return [
      [type ?? []]
        .flat()
        .map((one) => (maximum === LAST_SECOND && one === 'integer' ? 't' : LETTERS[one]))
        .join(''),
      pattern === undefined ? '' : `/${patterns.indexOf(pattern)}`,
      minimum === undefined ? '' : `>${minimum}`,
      maximum === undefined || maximum === LAST_SECOND ? '' : `<${maximum}`,
      items === undefined ? '' : `[${write(items)}]`,
      properties === undefined ? '' : `{${fields.join(',')}}`,
      others === undefined ? '' : `*(${write(others)})`,
      forms === undefined ? '' : `#${forms.map(writeForm).join(';')}#`,
    ].join('')
  }
  const reach = (name: string): void => {
    const schema = schemas[name]
    if (reached.has(name) || schema === undefined) return
    reached.set(name, '') // a form that names itself ends here
    reached.set(name, write(checked(schema, name)))
  }
  for (const { answer } of methodsOf(document)) if (answer !== undefined) reach(answer)
  const lines = [...reached].map(([name, form]) => `${name} ${form}`)
  return { forms: lines.join('\n'), names: [...reached.keys()], patterns }
}

const LETTERS: Readonly<Record<string, string>> = {
  ...{ string: 's', number: 'n', integer: 'i', boolean: 'b', null: 'z', array: 'a', object: 'o' },
}

const writeForm = ({ required, const: fixed = {} }: NonNullable<Checked['forms']>[number]): string =>
  [...required, ...Object.entries(fixed).map(([name, value]) => `${name}=${value}`)].join(' ')

/** The text of client/schemas.ts. */
export async function toSchemas(document: Document): Promise<string> {
  const { forms, names, patterns } = formsOf(document)
  return format(
    'client/schemas.ts',
    `// ${NOTE}

/** The forms of answers, without \`ok\`, and of what stands in them; answer-check.ts reads them. */
export const FORMS = ${JSON.stringify(forms.split('\n'))}

/** What texts look like, by their numbers in FORMS. */
export const PATTERNS: readonly string[] = ${JSON.stringify(patterns)}

export type AnswerName = ${names.map((name) => `'${name}'`).join(' | ')}
`,
  )
}

/** The text of client/python/agent_network/forms.py. */
export function toPythonForms(document: Document): string {
  const { forms, patterns } = formsOf(document)
  const list = (texts: readonly string[]) => texts.map((text) => `    ${JSON.stringify(text)},\n`).join('')
  return `# ${NOTE}

# The forms of answers, without \`ok\`, and of what stands in them; answer_check.py reads them.
FORMS = (
${list(forms.split('\n'))})

# What texts look like, by their numbers in FORMS.
PATTERNS = (
${list(patterns)})
`
}

/** One of a set of words that may grow: it has to be a word, so that it can stand in a line. */
const WORD = String.raw`^\S{1,256}$`
/** The end of the year 9999 in Unix seconds. */
const LAST_SECOND = 253_402_300_799

/** What of a schema the check of an answer needs. */
interface Checked {
  $ref?: string
  type?: string | readonly string[]
  pattern?: string
  minimum?: number
  maximum?: number
  items?: Checked
  properties?: Readonly<Record<string, Checked>>
  /** The fields that may be absent. */
  optional?: readonly string[]
  others?: Checked
  forms?: NonNullable<Schema['x-forms']>
  anyOf?: readonly Checked[]
  allOf?: readonly Checked[]
}

/** @param name of the field */
function checked(schema: Schema, name: string): Checked {
  const { $ref, type, description = '', format: form, pattern, anyOf, allOf, items } = schema
  if ($ref !== undefined) return nameIn($ref) === 'JsonValue' ? {} : { $ref: nameIn($ref) }
  if (anyOf !== undefined && schema.properties === undefined)
    return { anyOf: anyOf.map((one) => checked(one, name)) }
  if (allOf !== undefined) return { allOf: allOf.map((one) => checked(one, name)) }
  if (type === undefined) return {}
  const types = [type].flat()
  if (types.includes('integer'))
    return {
      type,
      ...((schema.minimum ?? 0) === 0 ? {} : { minimum: schema.minimum as number }),
      ...(/(^|_)(at|by)$/.test(name) ? { maximum: LAST_SECOND } : {}),
      ...(schema.maximum === undefined ? {} : { maximum: schema.maximum }),
    }
  if (types.includes('string')) {
    const [, prefix] = /^id that begins with (\w+_)/.exec(description) ?? []
    const isWord = schema.enum !== undefined || schema.const !== undefined || form === 'date-time'
    const own = pattern ?? (prefix === undefined ? undefined : `^${prefix}[0-9A-Za-z]{1,60}$`)
    const shown = own ?? (isWord ? WORD : undefined)
    return { type, ...(shown === undefined ? {} : { pattern: shown }) }
  }
  if (type === 'array') return { type, items: checked(items ?? {}, name) }
  if (type !== 'object') return { type }
  const { properties = {}, required = [], additionalProperties: others, 'x-forms': forms } = schema
  return {
    type,
    properties: Object.fromEntries(
      Object.entries(properties).map(([field, one]) => [field, checked(one, field)]),
    ),
    optional: Object.keys(properties).filter((field) => !required.includes(field)),
    ...(forms === undefined ? {} : { forms }),
    ...(typeof others === 'object' ? { others: checked(others, '') } : {}),
  }
}

/** The text of client/python/agent_network/client.py. */
export function toPythonMethods(document: Document): string {
  const methods = methodsOf(document).map((method) => {
    const { isPost, isDelete, isOnce, isOwn, answer, isText, fields, first, path } = method
    const result = isText ? 'str' : answer === undefined ? 'Dict[str, Any]' : `wire.${answer}`
    const url = path.includes('{') ? `f"${path.replace(/\{(\w+)\}/g, '{segment($1)}')}"` : `"${path}"`
    const sent = [...(first === undefined ? [] : [first]), ...fields]
    const dict = `{${sent.map(({ name }) => `"${name}": ${argument(name)}`).join(', ')}}`
    const options = [
      ...((isPost || isDelete) !== isOwn ? [`own=${isOwn ? 'True' : 'False'}`] : []),
      ...(isOnce ? ['once=True'] : []),
    ]
    const call = isText ? 'text' : isPost ? 'post' : isDelete ? 'delete' : 'get'
    const named = answer === undefined ? [] : [`form="${answer}"`]
    const given = [url, ...(sent.length > 0 ? [dict] : []), ...options, ...named].join(', ')
    return `
    def ${toSnake(method.name)}(${signature(method)}) -> ${result}:
        """${method.summary}"""
        return self._transport.${call}(${given})${isText ? '' : '  # type: ignore[no-any-return]'}
`
  })
  return `# ${NOTE}
from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Union

from . import wire
from .transport import Transport, segment


class Client:
    """One method for each route, by the names of the TypeScript client in snake case; each answers as the service does.

    Refusal: the service said no. TransportError: no answer came. A POST is sent once and never again by itself."""

    def __init__(self, base_url: str, token: Optional[str] = None, *, timeout: float = 30.0, insecure: bool = False) -> None:
        self._transport = Transport(base_url, token, timeout, insecure)
        self._options = {"timeout": timeout, "insecure": insecure}

    @property
    def base_url(self) -> str:
        return self._transport.base_url

    def with_token(self, token: str) -> Client:
        """The same client as an agent, such as the one that a registration gave."""
        return Client(self.base_url, token, **self._options)  # type: ignore[arg-type]
${methods.join('')}`
}

/** The text of client/python/agent_network/aio.py. */
export function toPythonAsync(document: Document): string {
  const methods = methodsOf(document).map((method) => {
    const { name, answer, isText, fields, first, inPath } = method
    const result = isText ? 'str' : answer === undefined ? 'Dict[str, Any]' : `wire.${answer}`
    const call = [
      `self.sync.${toSnake(name)}`,
      ...inPath,
      ...(first === undefined ? [] : [first.name]),
      ...fields.map((field) => `${argument(field.name)}=${argument(field.name)}`),
    ]
    return `
    async def ${toSnake(name)}(${signature(method)}) -> ${result}:
        return await asyncio.to_thread(${call.join(', ')})
`
  })
  return `# ${NOTE}
from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Literal, Optional, Union

from . import wire
from .client import Client


class AsyncClient:
    """The client, each call in a thread of its own, so that none holds up the event loop."""

    def __init__(self, base_url: str, token: Optional[str] = None, *, timeout: float = 30.0, insecure: bool = False) -> None:
        #: The same calls without asyncio, for the functions that take a Client: asyncio.to_thread(mine_days, client.sync)
        self.sync = Client(base_url, token, timeout=timeout, insecure=insecure)

    @property
    def base_url(self) -> str:
        return self.sync.base_url
${methods.join('')}`
}

/** The name of a Python argument: that of a keyword of the language gets a `_`. */
const argument = (name: string): string => (name === 'from' ? 'from_' : name)

/** The arguments of a Python method. */
function signature({ inPath, first, fields, operation, isPost }: Method): string {
  const named = fields.map(({ name, schema, isRequired }) => {
    // As wire.py names the class of an object in a body.
    const field = name.split('_').map(capitalize).join('')
    const type = annotate(`${operation}${isPost ? 'Body' : 'Query'}${field}`, schema, [], 'wire.')
    return `${argument(name)}: ${isRequired ? type : `Optional[${type}] = None`}`
  })
  return [
    'self',
    ...inPath.map((name) => `${name}: str`),
    ...(first === undefined ? [] : [`${first.name}: str`]),
    ...(named.length === 0 ? [] : ['*', ...named]),
  ].join(', ')
}

async function format(file: string, text: string): Promise<string> {
  const filepath = fileURLToPath(new URL(`../../${file}`, import.meta.url))
  return prettier.format(text, { ...(await prettier.resolveConfig(filepath)), filepath })
}
