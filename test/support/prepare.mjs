// Makes a fresh clone ready to test: what scripts/prepare.mjs fetches, and the programs that tests run
// against. Without packages of its own, like that file, because it runs before anything is installed.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import {
  cacheDir,
  findProgram,
  isCommand,
  lastLine,
  makeWorkFolder,
  prepare,
  removeWorkFolder,
  run,
  runCommand,
} from '../../scripts/prepare.mjs'

const MISSING_MONERO =
  'There is no Monero: install monerod and monero-wallet-rpc 0.18 or newer so that they are on the PATH (apt-get install monero).'

/**
 * What tests run against beside the two servers: programs in Debian's packages, and where in the package they
 * lie.
 */
export const TEST_PROGRAMS = {
  monerod: {
    title: 'monerod',
    names: ['monerod'],
    cachedName: 'monerod',
    package: 'monero',
    member: 'usr/bin/monerod',
    missing: MISSING_MONERO,
  },
  walletRpc: {
    title: 'monero-wallet-rpc',
    names: ['monero-wallet-rpc'],
    cachedName: 'monero-wallet-rpc',
    package: 'monero',
    member: 'usr/bin/monero-wallet-rpc',
    missing: MISSING_MONERO,
  },
  chromium: {
    title: 'Chromium',
    names: ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'],
    cachedName: 'chromium',
    package: 'chromium',
    member: 'usr/lib/chromium/chromium',
    missing:
      'There is no Chromium: install Chromium or Google Chrome 100 or newer so that it is on the PATH (apt-get install chromium).',
  },
  haproxy: {
    title: 'HAProxy',
    names: ['haproxy'],
    cachedName: 'haproxy',
    package: 'haproxy',
    member: 'usr/sbin/haproxy',
    versionWord: '-v',
    missing:
      'There is no HAProxy: install HAProxy 2.6 or newer so that it is on the PATH (apt-get install haproxy).',
  },
  caddy: {
    title: 'Caddy',
    names: ['caddy'],
    cachedName: 'caddy',
    package: 'caddy',
    member: 'usr/bin/caddy',
    missing:
      'There is no Caddy: install Caddy 2.6 or newer so that it is on the PATH (apt-get install caddy).',
  },
  // With its library the torture sets the clocks of MongoDB and Redis; without it, it leaves that out.
  faketime: {
    title: 'faketime',
    names: ['faketime'],
    cachedName: 'faketime',
    package: 'faketime',
    member: 'usr/bin/faketime',
    missing:
      'There is no faketime: install it (apt-get install faketime), or the clocks of MongoDB and Redis are left as they are.',
  },
}

/** The ways to a Debian package, in the order they are tried. */
export const PACKAGE_SOURCES = [
  { name: 'apt-get', fetch: installPackages },
  { name: "Debian's packages unpacked in the cache", fetch: unpackPackages },
]

/**
 * Finds or fetches what tests run against beside the service's own servers. What cannot be had is said and is
 * no error here: the tests that need it fail with the same sentence, and all others run.
 */
export async function prepareTestPrograms(programs, env, screen, sources) {
  let missing = programs
  const lookAgain = () => {
    missing = programs.filter((program) => !findProgram(program, env))
  }
  lookAgain()
  const word = missing.length === 0 ? 'already' : 'now'
  for (const source of sources) {
    if (missing.length === 0) break
    screen.say(`${listTitles(missing)}: trying ${source.name}`)
    await source
      .fetch(missing, env, screen)
      .catch((error) => screen.say(`${listTitles(missing)}: not from ${source.name}: ${error.message}`))
    lookAgain()
  }
  const there = programs.filter((program) => !missing.includes(program))
  if (there.length > 0) screen.say(`for tests: ${listTitles(there)} ${word} there`)
  for (const sentence of new Set(missing.map((program) => program.missing))) screen.say(sentence)
}

const listTitles = (programs) => programs.map((program) => program.title).join(', ')
const listPackages = (programs) => [...new Set(programs.map((program) => program.package))]

/** For root: into the system, as every other package of it. */
export async function installPackages(programs, env, screen, isRoot = process.getuid?.() === 0) {
  if (!isRoot) throw new Error('only root may install packages')
  const isDone = () => programs.every((program) => findProgram(program, env))
  // A fresh machine has no lists of packages, and old ones name files that are gone.
  await runApt(['update'], env, screen, isDone).catch((error) =>
    screen.say(`apt-get update: ${error.message}`),
  )
  await runApt(['install', ...listPackages(programs)], env, screen, isDone)
}

/**
 * For everybody else: with the libraries that the system lacks, into the cache, each program behind a script
 * that leads to them.
 */
export async function unpackPackages(programs, env, screen) {
  const folder = cacheDir(env)
  fs.mkdirSync(folder, { recursive: true })
  const workFolder = makeWorkFolder(folder)
  try {
    const archives = path.join(workFolder, 'cache', 'archives')
    for (const name of [path.join(workFolder, 'state', 'lists', 'partial'), path.join(archives, 'partial')]) {
      fs.mkdirSync(name, { recursive: true })
    }
    // Lists and archives of our own: the system's may be old or locked, and only root may write them.
    const ownPlaces = [
      `Dir::State=${path.join(workFolder, 'state')}`,
      'Dir::State::status=/var/lib/dpkg/status',
      `Dir::Cache=${path.join(workFolder, 'cache')}`,
      'Debug::NoLocking=true',
    ].flatMap((place) => ['-o', place])
    await runApt([...ownPlaces, 'update'], env, screen).catch((error) =>
      screen.say(`apt-get update: ${error.message}`),
    )
    for (const name of listPackages(programs)) {
      await runApt([...ownPlaces, '--download-only', 'install', name], env, screen)
      const unpacked = path.join(workFolder, name)
      for (const archive of fs.readdirSync(archives).filter((file) => file.endsWith('.deb'))) {
        const { code, lines } = await run('dpkg-deb', ['-x', path.join(archives, archive), unpacked], { env })
        if (code !== 0) throw new Error(`${archive} could not be unpacked: ${lastLine(lines.join('\n'))}`)
        fs.rmSync(path.join(archives, archive))
      }
      const place = path.join(folder, `debian-${name}`)
      moveInto(unpacked, place, workFolder)
      for (const program of programs.filter((one) => one.package === name))
        writeLauncher(program, place, workFolder, folder)
    }
  } finally {
    removeWorkFolder(workFolder)
  }
}

/** A folder cannot be renamed onto one that holds something, so what is there goes first. */
function moveInto(from, place, workFolder) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return fs.renameSync(from, place)
    } catch (error) {
      if (!['ENOTEMPTY', 'EEXIST'].includes(error.code) || attempt === 10) throw error
      try {
        fs.renameSync(place, path.join(workFolder, `replaced-${attempt}`))
      } catch (other) {
        // Another of us was quicker.
        if (other.code !== 'ENOENT') throw other
      }
    }
  }
}

function writeLauncher(program, place, workFolder, folder) {
  const libraries = fs
    .readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => /\.so(\.\d+)*$/.test(entry.name))
    .map((entry) => entry.parentPath ?? entry.path)
  const launcher = path.join(workFolder, program.cachedName)
  const searched = [...new Set(libraries)].join(':')
  const line = `LD_LIBRARY_PATH=${shellQuote(searched)} exec ${shellQuote(path.join(place, program.member))} "$@"`
  fs.writeFileSync(launcher, `#!/bin/sh\n${line}\n`, { mode: 0o755 })
  const judged = spawnSync(launcher, [program.versionWord ?? '--version'], {
    encoding: 'utf8',
    timeout: 30_000,
  })
  if (judged.status !== 0)
    throw new Error(
      `${program.title} does not run (${lastLine(judged.stderr) || `exit code ${judged.status}`})`,
    )
  fs.renameSync(launcher, path.join(folder, program.cachedName))
}

const shellQuote = (text) => `'${text.replaceAll("'", "'\\''")}'`

const APT_OPTIONS = [
  '-q',
  '-y',
  '--no-install-recommends',
  '-o',
  'DPkg::Lock::Timeout=600',
  '-o',
  'Acquire::Retries=2',
]
const LOCK_LIMIT_MS = 600_000

/**
 * apt-get to its end. While another program holds its locks, which may be another of us, it is tried again
 * until `isDone`.
 */
async function runApt(words, env, screen, isDone = () => false) {
  const started = Date.now()
  for (;;) {
    const { code, lines, problem } = await run('apt-get', [...APT_OPTIONS, ...words], {
      env: { ...env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' },
      onLine: (line) =>
        screen.progress(`apt-get ${words[0] === '-o' ? 'into the cache' : words[0]}: ${line}`.slice(0, 120)),
    })
    if (code === 0) return
    if (problem) throw new Error(`apt-get does not run (${problem})`)
    const isLocked = lines.some((line) => /Could not get lock|Unable to lock|Unable to acquire/.test(line))
    if (!isLocked || Date.now() - started > LOCK_LIMIT_MS) {
      throw new Error(
        lines.filter((line) => line.startsWith('E:')).pop() ||
          lastLine(lines.join('\n')) ||
          `exit code ${code}`,
      )
    }
    screen.progress('apt-get: waiting for another program that holds its lock')
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    if (isDone()) return
  }
}

function requireProgram(program, env) {
  const found = findProgram(program, env)
  if (!found) throw new Error(program.missing)
  return found
}

export function findMonero(env) {
  return {
    monerod: requireProgram(TEST_PROGRAMS.monerod, env),
    walletRpc: requireProgram(TEST_PROGRAMS.walletRpc, env),
  }
}

export function findHaproxy(env) {
  return requireProgram(TEST_PROGRAMS.haproxy, env)
}

export function findCaddy(env) {
  return requireProgram(TEST_PROGRAMS.caddy, env)
}

export function findChromium(env) {
  return requireProgram(TEST_PROGRAMS.chromium, env)
}

if (isCommand(import.meta.url)) {
  await runCommand(async (screen) => {
    const programs = prepareTestPrograms(Object.values(TEST_PROGRAMS), process.env, screen, PACKAGE_SOURCES)
    await prepare(process.env, screen, true, [programs])
  })
}
