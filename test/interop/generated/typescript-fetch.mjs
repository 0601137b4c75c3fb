// Calls a service with what openapi-generator made for TypeScript, compiled: BASE_URL TOKEN CALLS.json TOTAL INDEX.js.
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [, , basePath, accessToken, callsFile, total, index] = process.argv
const api = await import(pathToFileURL(index).href)
const calls = JSON.parse(readFileSync(callsFile, 'utf8'))
const configuration = new api.Configuration({ basePath, accessToken })
const groups = Object.entries(api)
  .filter(([name]) => name.endsWith('Api'))
  .map(([, Group]) => new Group(configuration))
const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase())

const errors = []
for (let i = 0; i < Number(total); i++) {
  const { operation, path, body } = calls[i % calls.length]
  try {
    const group = groups.find((one) => operation in one)
    const named = Object.fromEntries(Object.entries(path).map(([name, value]) => [camel(name), value]))
    if (body !== undefined) named[`${operation}Request`] = body
    const answer = await group[operation](named)
    if (answer.ok !== true) throw new Error('ok is not true')
  } catch (error) {
    errors.push(`${operation}: ${String(error.stack).slice(0, 500)}`)
  }
}
console.log(JSON.stringify({ calls: Number(total), errors: errors.slice(0, 5) }))
