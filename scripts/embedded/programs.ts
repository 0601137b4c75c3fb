import { StartError } from '../../shared/platform/process.ts'
import { findMongod, findRedis } from '../prepare.mjs'

/** The mongod of this machine. @throws StartError that says how to get one */
export const requireMongod = (env: NodeJS.ProcessEnv = process.env): string =>
  requireProgram('mongod', () => findMongod(env))
/** The redis-server of this machine. @throws StartError that says how to get one */
export const requireRedis = (env: NodeJS.ProcessEnv = process.env): string =>
  requireProgram('redis-server', () => findRedis(env))

/** What `find` gives. @throws StartError if it gives nothing or throws */
function requireProgram(name: string, find: () => string | undefined): string {
  let program: string | undefined
  try {
    program = find()
  } catch (error) {
    throw new StartError(error instanceof Error ? error.message : String(error))
  }
  if (program === undefined)
    throw new StartError(
      `There is no ${name} here: run "npm start", which fetches it first, or "node scripts/prepare.mjs".`,
    )
  return program
}
