import fs from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { provisionMongo, writeAccessFiles } from './embedded/provision.ts'

/*
 * Makes users for a MongoDB and a Redis that run separately, as under docker-compose.yml.
 *
 *   node scripts/provision.ts --make FOLDER       passwords, and the URL of each process, as files of mode 600; keeps the URLs that exist
 *   node scripts/provision.ts --apply FOLDER      at each start: makes the replica set, the roles and the users
 */
const { values } = parseArgs({
  options: { make: { type: 'string' }, apply: { type: 'string' }, prefix: { type: 'string' } },
})
if (values.make !== undefined) {
  fs.mkdirSync(values.make, { recursive: true, mode: 0o700 })
  writeAccessFiles(path.resolve(values.make), values.prefix ?? 'agent-network')
} else if (values.apply !== undefined) {
  await provisionMongo(path.resolve(values.apply))
} else {
  process.stderr.write('provision.ts takes --make FOLDER or --apply FOLDER\n')
  process.exitCode = 2
}
