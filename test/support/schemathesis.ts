import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ADDRESSES } from './market.ts'
import { preparePythonProgram, runProgram, type Finished } from './python.ts'
import type { TestAgent, TestService } from './service.ts'

const HOOKS = fileURLToPath(new URL('schemathesis_hooks.py', import.meta.url))
const VERSION = '4.32.5'

/** Makes the environment of Schemathesis, once for this user. */
export function prepareSchemathesis(): Promise<string> {
  return preparePythonProgram('schemathesis', VERSION, 'schemathesis')
}

/**
 * What is checked beyond the defaults, and the places where a check cannot hold. Every check is on; each
 * exception stands here with its reason.
 */
const SETTINGS = `
[output.sanitization]
# The tokens are of this run alone, and a failure cannot be read without its data.
enabled = false
[checks]
# An agent without a pass, and a body beyond the limit, are refused as the document says.
negative_data_rejection.expected-statuses = ["400", "401", "402", "403", "404", "405", "406", "409", "410", "413", "415", "422", "428", "429", "5xx"]
positive_data_acceptance.expected-statuses = ["2xx", "401", "402", "403", "404", "409"]

# A challenge_id that the service made, the right answer and valid work cannot be made up.
[[operations]]
include-name = "POST /api/v1/register"
checks.positive_data_acceptance.enabled = false

# A currency that is not set up is a documented 503.
[[operations]]
include-name = "POST /api/v1/invoice"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "503"]
`

export interface FuzzOptions {
  agent?: TestAgent | undefined
  maxExamples: number
  /** Of `examples`, `coverage`, `fuzzing` and `stateful`; all where absent. */
  phases?: readonly string[]
  /** Longest run; the program ends itself by then. */
  maxSeconds?: number
  limitMs: number
  seed: number
  onOutput?: (text: string) => void
}

/** Runs Schemathesis over the service's own OpenAPI document, with a token of an agent or without one. */
export async function fuzz(
  program: string,
  service: Pick<TestService, 'url' | 'call'>,
  options: FuzzOptions,
): Promise<Finished> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-fuzz-'))
  try {
    fs.writeFileSync(path.join(folder, 'schemathesis.toml'), SETTINGS)
    const args = [
      '--config-file',
      'schemathesis.toml',
      'run',
      `${service.url}/api/v1/openapi.json`,
      '--url',
      service.url,
      '--continue-on-failure',
      '--max-examples',
      String(options.maxExamples),
      '--seed',
      String(options.seed),
      '--request-timeout',
      '20',
      ...(options.phases === undefined ? [] : ['--phases', options.phases.join(',')]),
    ]
    return await runProgram(
      program,
      [...args, ...(options.maxSeconds === undefined ? [] : ['--max-time', String(options.maxSeconds)])],
      {
        cwd: folder,
        limitMs: options.limitMs,
        env: {
          ...process.env,
          SCHEMATHESIS_HOOKS: path.basename(HOOKS, '.py'),
          PYTHONPATH: path.dirname(HOOKS),
          PYTHONDONTWRITEBYTECODE: '1',
          NO_COLOR: '1',
          FUZZ_KNOWN: JSON.stringify(await makeRecords(service, options.agent)),
        },
        ...(options.onOutput === undefined ? {} : { onOutput: options.onOutput }),
      },
    )
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** Records that requests can name, made over the API by the agent that fuzzes. */
async function makeRecords(
  service: Pick<TestService, 'call'>,
  agent: TestAgent | undefined,
): Promise<object> {
  if (agent === undefined) return { bodies: {}, addresses: ADDRESSES }
  const post = async (route: string, body: object, field = 'id') =>
    String((await service.call('POST', route, { token: agent.token, body })).json[field])
  const message = await post('/dm', { to: agent.id, box: 'to myself' })
  const records = {
    post_id: await post('/post', { body: 'a post to report' }),
    claim_id: await post('/claim', { statement: 'a claim to judge' }),
    order_id: await post('/invoice', { currency: 'pow' }, 'order_id'),
  }
  return {
    token: agent.token,
    message,
    addresses: ADDRESSES,
    bodies: {
      'POST /api/v1/dm': { to: agent.id },
      'POST /api/v1/report': { post_id: records.post_id },
      'POST /api/v1/claim/resolve': { claim_id: records.claim_id },
      'POST /api/v1/work/submit': { order_id: records.order_id },
    },
  }
}
