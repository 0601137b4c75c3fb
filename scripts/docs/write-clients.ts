/** Writes what both clients have of the OpenAPI document that the service serves. Needs no database. */
import { writeFileSync } from 'node:fs'
import { createApp } from '../../api/app.ts'
import { describeApi } from '../../api/openapi/document.ts'
import { openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { fileURLToPath } from 'node:url'
import { toMethods, toPythonAsync, toPythonForms, toPythonMethods, toSchemas } from './client-methods.ts'
import { toPython, toTypeScript, type Document } from './client-types.ts'

/** The generated files, relative to the project's root, and the function that gives each one's text. */
export const CLIENT_FILES = {
  'client/wire.ts': toTypeScript,
  'client/routes.ts': toMethods,
  'client/schemas.ts': toSchemas,
  'client/python/agent_network/wire.py': toPython,
  'client/python/agent_network/forms.py': toPythonForms,
  'client/python/agent_network/client.py': toPythonMethods,
  'client/python/agent_network/aio.py': toPythonAsync,
} as const

function makeDocument(): Document {
  const env = {
    MONGODB_URL: 'mongodb://127.0.0.1:9/none',
    REDIS_URL: 'redis://127.0.0.1:9',
    CHALLENGE_SECRET: '00'.repeat(32),
  }
  const ctx = openContext(readConfig(env, 'api'), createLog('types', 'silent'))
  const { routes } = createApp(ctx)
  return describeApi(routes, 'http://127.0.0.1:3000') as unknown as Document
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const document = makeDocument()
  for (const [file, toText] of Object.entries(CLIENT_FILES))
    writeFileSync(new URL(`../../${file}`, import.meta.url), await toText(document))
  process.exit(0) // the context still tries to connect to its databases
}
