import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { prepareOpenApiTools, type OpenApiTools } from '../support/openapi-tools.ts'
import { startMarket, type TestMarket } from '../support/market.ts'
import { succeed } from '../support/package.ts'
import { runProgram } from '../support/python.ts'
import { withSigning } from '../support/signing.ts'

/*
 * Clients that other people's generators make of the document as it is served, and of an older one in which
 * fields were not yet known, compiled and put to work.
 */

const ROOT = path.resolve(import.meta.dirname, '../..')
const SOURCES = path.join(ROOT, 'test/interop/generated')
const LIMIT = { limitMs: 600_000 }
const CALLS = 1_000
const OGEN = 'github.com/ogen-go/ogen/cmd/ogen@v1.24.0'

interface Call {
  operation: string
  route: string
  path: Record<string, string>
  body?: object
}

interface Document {
  paths: Record<string, Record<string, { operationId: string }>>
  components: { schemas: Record<string, { properties?: Record<string, unknown>; required?: string[] }> }
}

let folder: string
let market: TestMarket
let tools: OpenApiTools | undefined
let missing = ''
let document: Document
let calls: Call[]
let token: string

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'agent-network-generated-'))
  market = await startMarket()
  document = (await (await fetch(`${market.url}/api/v1/openapi.json`)).json()) as Document
  calls = await chooseCalls()
  writeFileSync(path.join(folder, 'calls.json'), JSON.stringify(calls))
  tools = await prepareOpenApiTools().catch((error: unknown) => {
    missing = String(error)
    return undefined
  })
}, 900_000)
afterAll(async () => {
  await market?.stop()
  rmSync(folder, { recursive: true, force: true })
})
beforeEach(({ skip }) => {
  if (tools === undefined) skip(`the generators cannot be had here: ${missing}`)
})

/** Twenty-five operations on records that are there. */
async function chooseCalls(): Promise<Call[]> {
  const agent = await market.registerWithPass()
  token = agent.token
  const make = async (route: string, body: object, by = token) =>
    (await market.call('POST', route, { token: by, body })).json as Record<string, unknown>
  const post = await make('/post', { body: 'Saluton', topic: 'generated' })
  const claim = await make('/claim', { statement: 'It rains.' })
  await make('/claim/resolve', { claim_id: claim['id'], outcome: 'true' }, market.seller.token)
  const order = await market.paidOrder()
  const offerId = await market.offer({}, agent)
  await make('/dm', { to: agent.id, box: 'to myself' })
  await seal()
  const given: [operation: string, path?: Record<string, string>, body?: object][] = [
    ...['listRoutes', 'getRules', 'getLimits', 'getContract', 'getStats', 'getChallenge', 'listAgents'].map(
      (name): [string] => [name],
    ),
    ...['listCurrencies', 'getStanding', 'listClaims', 'listProposals', 'listPosts', 'readMessages'].map(
      (name): [string] => [name],
    ),
    ...['listOffers', 'listOrders', 'listSeals', 'listEntries', 'getSolvency'].map((name): [string] => [
      name,
    ]),
    ['getAgent', { agent_id: agent.id }],
    ['getPost', { id: String(post['id']) }],
    ['getClaim', { id: String(claim['id']) }],
    ['getOffer', { offer_id: offerId }],
    ['getReceipt', { id: String(post['id']) }],
    ['createPost', {}, { body: 'made by a generated client', topic: 'generated' }],
    ['createClaim', {}, { statement: 'Made by a generated client.' }],
  ]
  expect([given.length, order.id]).toEqual([25, expect.stringContaining('mkt_')])
  const routes = new Map(
    Object.entries(document.paths).flatMap(([route, item]) =>
      Object.values(item).map(({ operationId }): [string, string] => [operationId, route]),
    ),
  )
  return given.map(([operation, place = {}, body]) => ({
    operation,
    route: routes.get(operation) ?? '',
    path: place,
    ...(body === undefined ? {} : { body }),
  }))
}

/** So that no receipt waits for it. */
async function seal(): Promise<void> {
  const files = {
    sealKeyFile: path.join(folder, 'seal-key'),
    sealMemoryFile: path.join(folder, 'seal-memory'),
  }
  ensureSealKey(files.sealKeyFile)
  const { ctx } = market
  await sequencePending(ctx, { useLease: false })
  await makeSeal(ctx, { useLease: false })
  const config = { ...ctx.config, secrets: { ...ctx.config.secrets, ...files } }
  await signSeals(withSigning({ ...ctx, config }))
}

/** The document of a time at which the first required field of every answer with several was not there yet. */
function olderDocument(): Document {
  const older = structuredClone(document)
  for (const [name, schema] of Object.entries(older.components.schemas)) {
    const { properties = {}, required = [] } = schema
    const added = required.findLast((field) => field !== 'ok')
    if (!name.endsWith('Answer') && name !== 'Post' && name !== 'Claim') continue
    if (added === undefined || Object.keys(properties).length < 3) continue
    delete properties[added]
    schema.required = required.filter((field) => field !== added)
  }
  return older
}

describe('the served document', () => {
  it('is without a warning of redocly and of spectral', async () => {
    if (tools === undefined) throw new Error(missing)
    const file = path.join(folder, 'openapi.json')
    writeFileSync(file, JSON.stringify(document))
    writeFileSync(path.join(folder, 'spectral.yaml'), 'extends: ["spectral:oas"]\n')
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    const run = (name: string, ...args: string[]) =>
      succeed(runProgram(tools?.npm(name) ?? '', args, { cwd: folder, env, ...LIMIT }))
    const redocly = JSON.parse(
      /\{[^]*\}/.exec(await run('redocly', 'lint', 'openapi.json', '--format=json'))?.[0] ?? '{}',
    ) as { totals: { errors: number; warnings: number } }
    expect(redocly.totals).toMatchObject({ errors: 0, warnings: 0 })
    const spectral = ['lint', 'openapi.json', '--ruleset', 'spectral.yaml', '--fail-severity=hint']
    expect(await run('spectral', ...spectral)).toContain('No results')
  }, 600_000)
})

describe.each([
  ['the served document', () => document],
  ['an older document, before fields were added', olderDocument],
])('a client made of %s', (title, choose) => {
  let home: string
  let source: string
  beforeAll(() => {
    home = path.join(folder, title.split(' ')[1] ?? '')
    mkdirSync(home)
    source = path.join(home, 'openapi.json')
    writeFileSync(source, JSON.stringify(choose()))
  })

  const work = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    succeed(runProgram(program, args, { cwd: home, env: { ...process.env, ...env }, ...LIMIT }))
  const callsBy = async (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
    const given = [market.url, token, path.join(folder, 'calls.json'), String(CALLS)]
    return JSON.parse(
      (await work(program, [...args.slice(0, 1), ...given, ...args.slice(1)], env)) || '{}',
    ) as object
  }
  const allWell = { calls: CALLS, errors: [] }
  const generate = (language: string, properties: string) => {
    const options = ['-i', source, '-g', language, '-o', path.join(home, language)]
    const ids = ['--git-user-id=agent', '--git-repo-id=network', `--additional-properties=${properties}`]
    return work(tools?.generator ?? '', ['generate', ...options, ...ids])
  }

  it('by openapi-generator for Python makes 1,000 calls', async () => {
    await generate('python', 'packageName=generated_client')
    const env = { PYTHONPATH: path.join(home, 'python') }
    expect(await callsBy(tools?.python ?? '', [path.join(SOURCES, 'openapi_generator.py')], env)).toEqual(
      allWell,
    )
  }, 900_000)

  it('by openapi-generator for Go compiles and makes 1,000 calls', async ({ skip }) => {
    if ((await runProgram('go', ['version'], LIMIT)).code !== 0) skip('there is no Go here')
    // Without it the generator's Go takes a field that it does not know for an error, against the document.
    await generate('go', 'packageName=api,disallowAdditionalPropertiesIfNotPresent=false')
    const main = path.join(home, 'go/cmd/calls')
    mkdirSync(main, { recursive: true })
    cpSync(path.join(SOURCES, 'openapi-generator.go.txt'), path.join(main, 'main.go'))
    const go = (...args: string[]) =>
      succeed(runProgram('go', args, { cwd: path.join(home, 'go'), ...LIMIT }))
    await go('mod', 'tidy')
    await go('build', '-o', path.join(home, 'calls'), './cmd/calls')
    const given = [market.url, token, path.join(folder, 'calls.json'), String(CALLS)]
    expect(JSON.parse(await work(path.join(home, 'calls'), given))).toEqual(allWell)
  }, 900_000)

  it('by ogen for Go compiles and makes 1,000 calls', async ({ skip }) => {
    if ((await runProgram('go', ['version'], LIMIT)).code !== 0) skip('there is no Go here')
    const module = path.join(home, 'ogen')
    mkdirSync(module)
    writeFileSync(path.join(module, 'go.mod'), 'module example.test/generated\n\ngo 1.24\n')
    cpSync(path.join(SOURCES, 'ogen.go.txt'), path.join(module, 'main.go'))
    const go = (...args: string[]) => succeed(runProgram('go', args, { cwd: module, ...LIMIT }))
    await go('run', OGEN, '--target', 'api', '--package', 'api', '--clean', source)
    await go('mod', 'tidy')
    await go('build', '-o', path.join(home, 'ogen-calls'), '.')
    const given = [market.url, token, path.join(folder, 'calls.json'), String(CALLS)]
    expect(JSON.parse(await work(path.join(home, 'ogen-calls'), given))).toEqual(allWell)
  }, 1_800_000)

  it('by openapi-generator for TypeScript compiles and makes 1,000 calls', async () => {
    await generate('typescript-fetch', 'importFileExtension=.js,modelPropertyNaming=original')
    const made = path.join(home, 'typescript-fetch')
    writeFileSync(path.join(made, 'package.json'), '{"type":"module"}')
    const options = ['--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022,dom']
    const out = ['--types', '', '--outDir', path.join(made, 'js'), path.join(made, 'index.ts')]
    await work(path.join(ROOT, 'node_modules/.bin/tsc'), [...options, ...out])
    const driver = [path.join(SOURCES, 'typescript-fetch.mjs'), path.join(made, 'js/index.js')]
    expect(await callsBy(process.execPath, driver)).toEqual(allWell)
  }, 900_000)

  it('by openapi-python-client makes 1,000 calls', async () => {
    await work(tools?.pythonClient ?? '', [
      'generate',
      '--path',
      source,
      '--output-path',
      path.join(home, 'opc'),
    ])
    const python = path.join(path.dirname(tools?.pythonClient ?? ''), 'python')
    const env = { PYTHONPATH: path.join(home, 'opc') }
    expect(await callsBy(python, [path.join(SOURCES, 'openapi_python_client.py')], env)).toEqual(allWell)
  }, 900_000)

  it('by openapi-typescript compiles and makes 1,000 calls', async () => {
    const made = path.join(home, 'typed')
    mkdirSync(made)
    writeFileSync(path.join(made, 'package.json'), '{"type":"module"}')
    symlinkSync(tools?.modules ?? '', path.join(made, 'node_modules'))
    cpSync(path.join(SOURCES, 'openapi-typescript.txt'), path.join(made, 'calls.ts'))
    await work(tools?.npm('openapi-typescript') ?? '', [source, '-o', path.join(made, 'types.d.ts')])
    const options = ['--strict', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022']
    const inputs = [path.join(made, 'calls.ts')]
    if (title.startsWith('an older')) options.push('--noCheck')
    await work(path.join(ROOT, 'node_modules/.bin/tsc'), [
      ...options,
      '--types',
      'node',
      '--typeRoots',
      path.join(ROOT, 'node_modules/@types'),
      ...inputs,
    ])
    expect(await callsBy(process.execPath, [path.join(made, 'calls.js')])).toEqual(allWell)
  }, 900_000)
})
