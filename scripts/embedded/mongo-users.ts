import type mongoose from 'mongoose'
import { mongoPrivileges, type AccessName } from './access.ts'

/** Who makes the other users, and configures the set. */
export const ADMIN = 'start'

export interface UserPassword {
  name: AccessName
  password: string
}

/** Makes the administrator if there is none, over a connection that is allowed to. */
export async function ensureAdmin(client: mongoose.mongo.MongoClient, password: string): Promise<void> {
  await ensureUser(client, ADMIN, password, ['root'])
}

/** Makes or renews each user with a role of its name for one database, as this version means them. */
export async function ensureUsers(
  client: mongoose.mongo.MongoClient,
  database: string,
  users: readonly UserPassword[],
): Promise<void> {
  const admin = client.db('admin')
  for (const { name, password } of users) {
    const role = `agent_network_${name}`
    const { roles } = (await admin.command({ rolesInfo: role })) as unknown as { roles: unknown[] }
    const fields = { privileges: mongoPrivileges(database, name), roles: [] }
    await admin.command(
      roles.length === 0 ? { createRole: role, ...fields } : { updateRole: role, ...fields },
    )
    await ensureUser(client, name, password, [role])
  }
}

/** Whoever reached the server before it had users may have made some, with every right. */
export async function dropOtherUsers(
  client: mongoose.mongo.MongoClient,
  names: readonly string[],
): Promise<void> {
  const { users } = (await client.db('admin').command({ usersInfo: { forAllDBs: true } })) as unknown as {
    users: { user: string; db: string }[]
  }
  for (const { user, db } of users)
    if (db !== 'admin' || !names.includes(user)) await client.db(db).command({ dropUser: user })
}

/** And may have written what nobody is to find in a database that was never in use. */
export async function dropDatabases(client: mongoose.mongo.MongoClient): Promise<void> {
  const { databases } = await client.db('admin').admin().listDatabases({ nameOnly: true })
  for (const { name } of databases)
    if (!['admin', 'config', 'local'].includes(name)) await client.db(name).dropDatabase()
}

async function ensureUser(
  client: mongoose.mongo.MongoClient,
  name: string,
  pwd: string,
  roles: readonly string[],
): Promise<void> {
  const admin = client.db('admin')
  const { users } = (await admin.command({ usersInfo: name })) as unknown as { users: unknown[] }
  await admin.command(
    users.length === 0 ? { createUser: name, pwd, roles } : { updateUser: name, pwd, roles },
  )
}
