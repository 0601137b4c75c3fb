import { hash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ACCESS_NAMES } from '../../scripts/embedded/access.ts'
import { parseRedisUrl } from '../../shared/platform/redis-url.ts'
import { writeAccessFiles } from '../../scripts/embedded/provision.ts'

let folder: string
const read = (name: string): string => fs.readFileSync(path.join(folder, name), 'utf8').trim()
const passwordIn = (name: string): string => new URL(read(name)).password
const readAll = () => Object.fromEntries(fs.readdirSync(folder).map((name) => [name, read(name)]))

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'access-files-'))
  writeAccessFiles(folder, 'agent-network')
})
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

const expectListsToMatch = () => {
  for (const user of ACCESS_NAMES) {
    expect(JSON.parse(read('mongo_passwords')).users[user]).toBe(passwordIn(`mongodb_url_${user}`))
    const hashed = hash('sha256', passwordIn(`redis_url_${user}`), 'hex')
    expect(read('redis_acl').split('\n')).toContainEqual(
      expect.stringContaining(`user ${user} on #${hashed} `),
    )
  }
}

it('writes the same files when nothing is missing', () => {
  const before = readAll()
  writeAccessFiles(folder, 'agent-network')
  expect(readAll()).toEqual(before)
})

it('gives a user whose URL was removed a new password that the servers know, and keeps all others', () => {
  const before = readAll()
  fs.rmSync(path.join(folder, 'mongodb_url_api'))
  fs.rmSync(path.join(folder, 'redis_url_sweep'))
  writeAccessFiles(folder, 'agent-network')
  expectListsToMatch()
  const changed = Object.entries(readAll()).filter(([name, text]) => before[name] !== text)
  expect(changed.map(([name]) => name).toSorted()).toEqual([
    'mongo_passwords',
    'mongodb_url_api',
    'redis_acl',
    'redis_url_sweep',
  ])
})

it('lets a user of a newer version in, and leaves host and other users as the operator wrote them', () => {
  const { host: _host, users } = JSON.parse(read('mongo_passwords')) as { host: string; users: object }
  const { sweep: _sweep, ...older } = users as Record<string, string>
  fs.writeFileSync(path.join(folder, 'mongo_passwords'), JSON.stringify({ host: 'db:1', users: older }))
  const acl = read('redis_acl').split('\n')
  const olderAcl = [...acl.filter((line) => !line.startsWith('user sweep ')), 'user mine on nopass ~* +@all']
  fs.writeFileSync(path.join(folder, 'redis_acl'), olderAcl.join('\n'))
  for (const name of ['mongodb_url_sweep', 'redis_url_sweep']) fs.rmSync(path.join(folder, name))
  writeAccessFiles(folder, 'agent-network')
  expectListsToMatch()
  expect(JSON.parse(read('mongo_passwords'))).toMatchObject({ host: 'db:1' })
  expect(read('redis_acl')).toContain('user mine on nopass ~* +@all')
})

it('names the authority of TLS in the URLs of both servers', () => {
  const redis = 'rediss+sentinel://a:26379,b:26379/agents'
  const other = fs.mkdtempSync(path.join(os.tmpdir(), 'access-files-'))
  writeAccessFiles(other, 'agent-network', { mongo: 'a:27017', redis, tlsCaFile: '/etc/ca.pem' })
  const urls = ['mongodb_url_api', 'redis_url_api'].map((name) =>
    fs.readFileSync(path.join(other, name), 'utf8').trim(),
  )
  for (const url of urls) expect(url).toMatch(/[?&]tlsCAFile=%2Fetc%2Fca\.pem$/)
  expect(parseRedisUrl(urls[1] ?? '')).toMatchObject({ kind: 'sentinel', tls: { tlsCAFile: '/etc/ca.pem' } })
  fs.rmSync(other, { recursive: true })
})

it('makes a login for replicas and sentinels once, which the list of users knows', () => {
  const places = { redis: 'redis+sentinel://a:26379/agents' }
  writeAccessFiles(folder, 'agent-network', places)
  const before = readAll()
  writeAccessFiles(folder, 'agent-network', places)
  expect(readAll()).toEqual(before)
  const password = /^masterauth (\S+)$/m.exec(read('redis_conf'))?.[1] ?? ''
  expect(read('sentinel_conf')).toContain(`sentinel auth-pass agents ${password}`)
  expect(read('redis_acl')).toContain(`user servers on #${hash('sha256', password, 'hex')} `)
})
