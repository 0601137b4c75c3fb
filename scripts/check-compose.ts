import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { findComposeProblems } from './compose/rules.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (name: string): string => fs.readFileSync(path.join(ROOT, name), 'utf8')

const problems = findComposeProblems({
  root: ROOT,
  compose: read('docker-compose.yml'),
  dockerfile: read('Dockerfile'),
  ignore: read('.dockerignore'),
})
for (const problem of problems) process.stderr.write(`${problem}\n`)
process.stdout.write(
  problems.length === 0
    ? 'docker-compose.yml and Dockerfile hold what they promise.\n'
    : `${problems.length === 1 ? '1 problem' : `${problems.length} problems`}.\n`,
)
process.exitCode = problems.length === 0 ? 0 : 1
