import type mongoose from 'mongoose'
import { mongoPrivileges } from './access.ts'
import type { UserPassword } from './server.ts'

/** The administrator, who makes the other users and configures the replica set. */
export const ADMIN = 'start'
/** The database that URLs name. */
export const DATABASE = 'agent_network'
/** The code of the error that a server without a replica set gives (error_codes.yml). */
export const NOT_YET_INITIALIZED = 94
/** The code of the error that replSetInitiate gives while a member is not up. */
export const NODE_NOT_FOUND = 74

/** Makes a replica set. @param hosts its members' addresses, `HOST:PORT` */
export async function initiateReplicaSet(
  client: mongoose.mongo.MongoClient,
  name: string,
  hosts: readonly string[],
): Promise<void> {
  const members = hosts.map((host, index) => ({ _id: index, host }))
  await client.db('admin').command({ replSetInitiate: { _id: name, members } })
}

/** Creates the administrator, or sets the password of the one that exists. */
export async function ensureAdmin(client: mongoose.mongo.MongoClient, password: string): Promise<void> {
  await ensureUser(client, ADMIN, password, ['root'])
}

/** The role of a user. */
export const roleOf = (name: string): string => `agent_network_${name}`

/**
 * Creates each user with a role of its own for one database, or updates both: the password as given, the
 * privileges as this version of the code has them.
 */
export async function ensureUsers(
  client: mongoose.mongo.MongoClient,
  database: string,
  users: readonly UserPassword[],
): Promise<void> {
  const admin = client.db('admin')
  for (const { name, password } of users) {
    const role = roleOf(name)
    const { roles } = (await admin.command({ rolesInfo: role })) as { roles: unknown[] }
    const fields = { privileges: mongoPrivileges(database, name), roles: [] }
    await admin.command(
      roles.length === 0 ? { createRole: role, ...fields } : { updateRole: role, ...fields },
    )
    await ensureUser(client, name, password, [role])
  }
}

/**
 * Drops every user but the administrator's database's of these names: whoever reached the server before it
 * had users may have made some, with every right.
 */
export async function dropOtherUsers(
  client: mongoose.mongo.MongoClient,
  names: readonly string[],
): Promise<void> {
  const { users } = (await client.db('admin').command({ usersInfo: { forAllDBs: true } })) as {
    users: { user: string; db: string }[]
  }
  for (const { user, db } of users)
    if (db !== 'admin' || !names.includes(user)) await client.db(db).command({ dropUser: user })
}

/**
 * Drops every database but the server's own. For a server that was never in use: whoever reached it before it
 * had users may have written to it.
 */
export async function dropDatabases(client: mongoose.mongo.MongoClient): Promise<void> {
  const { databases } = await client.db('admin').admin().listDatabases({ nameOnly: true })
  for (const { name } of databases)
    if (!['admin', 'config', 'local'].includes(name)) await client.db(name).dropDatabase()
}

/** Creates a user with these roles, or sets the password and the roles of the one that exists. */
export async function ensureUser(
  client: mongoose.mongo.MongoClient,
  name: string,
  pwd: string,
  roles: readonly string[],
): Promise<void> {
  const admin = client.db('admin')
  const { users } = (await admin.command({ usersInfo: name })) as { users: unknown[] }
  await admin.command(
    users.length === 0 ? { createUser: name, pwd, roles } : { updateUser: name, pwd, roles },
  )
}
