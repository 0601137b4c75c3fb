import { describe, expect, it } from 'vitest'
import { parseRedisUrl } from '../../shared/platform/redis-url.ts'

describe('parseRedisUrl', () => {
  it('reads one server with its login, its database and TLS', () => {
    expect(parseRedisUrl('rediss://u%40x:p%2Fw:d@cache.example:6380/3')).toEqual({
      kind: 'single',
      nodes: [{ host: 'cache.example', port: 6_380 }],
      username: 'u@x',
      password: 'p/w:d',
      tls: {},
      db: 3,
    })
    expect(parseRedisUrl('redis://[::1]')).toEqual({
      kind: 'single',
      nodes: [{ host: '::1', port: 6_379 }],
      db: 0,
    })
    expect(parseRedisUrl('redis://:word@127.0.0.1:1/')).toMatchObject({ password: 'word', db: 0 })
  })

  it('reads the nodes of a cluster, which has no databases', () => {
    expect(parseRedisUrl('redis+cluster://:word@a:7000,b:7001,c')).toEqual({
      kind: 'cluster',
      nodes: [
        { host: 'a', port: 7_000 },
        { host: 'b', port: 7_001 },
        { host: 'c', port: 6_379 },
      ],
      password: 'word',
      natMap: {},
    })
    expect(parseRedisUrl('redis+cluster://a/0')).toBeUndefined()
  })

  it("reads sentinels, with the name of what they watch and the sentinels' own port", () => {
    expect(parseRedisUrl('redis+sentinel://user:word@a,b:5000/primary/2')).toEqual({
      kind: 'sentinel',
      nodes: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 5_000 },
      ],
      username: 'user',
      password: 'word',
      name: 'primary',
      db: 2,
      natMap: {},
      sentinelLogin: {},
    })
    expect(parseRedisUrl('redis+sentinel://a')).toBeUndefined()
  })

  it('reads the parameters of TLS, of sentinels with a login of their own, and of servers behind other addresses', () => {
    const url = 'rediss+sentinel://u:p@a/primary?tlsCAFile=/ca%20of.pem&tlsCertificateKeyFile=/own.pem'
    const more =
      '&sentinelUser=w%40x&sentinelPassword=p%26w&natMap=10.0.0.1:6379%3Er.example:7001,[::1]:1>b:2'
    expect(parseRedisUrl(url + more)).toMatchObject({
      tls: { tlsCAFile: '/ca of.pem', tlsCertificateKeyFile: '/own.pem' },
      sentinelLogin: { username: 'w@x', password: 'p&w' },
      natMap: { '10.0.0.1:6379': { host: 'r.example', port: 7_001 }, '::1:1': { host: 'b', port: 2 } },
    })
  })

  it.each([
    'redis://a?tlsCAFile=/ca.pem',
    'redis://a?natMap=a:1>b:2',
    'redis+cluster://a?sentinelUser=x',
    'redis+cluster://a?natMap=a>b:2',
    'redis+cluster://a?natMap=a:1',
    'rediss://a?tlsCAFile=',
    'rediss://a?tlsCAFile=/a&tlsCAFile=/b',
    'rediss://a?tlsCaFile=/a',
  ])('refuses %s, whose parameter would do nothing', (url) => {
    expect(parseRedisUrl(url)).toBeUndefined()
  })
})
