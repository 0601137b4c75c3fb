import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readCursor } from '../../client/command/watch-verb.ts'
import { readPins } from '../../client/messages.ts'
import { readMiningState, writeMiningState } from '../../client/mining-state.ts'
import { writePrivateFile } from '../../client/private-file.ts'
import { createTokenFile, readTokenFile } from '../../client/token-file.ts'
import { ensureState } from '../../client/witness.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'
import { ensureFirstStart } from '../../scripts/embedded/data-dir.ts'
import { readPasswords, writeAccessFiles } from '../../scripts/embedded/provision.ts'
import { noteRunning, readRunning } from '../../scripts/embedded/running.ts'
import { persistBlocks } from '../../scripts/embedded/sandbox.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { replaceFile, textWithSum } from '../../shared/platform/durable-file.ts'
import { adoptionFileOf, readAdoption } from '../../shared/ledger/adoption-file.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { memoryText, readMemory } from '../../shared/ledger/seal-memory.ts'
import { rememberSignedAnnouncement } from '../../shared/ledger/signed-announcements.ts'
import { verifyBackup } from '../../shared/operation/backup.ts'
import { readIndexFile } from '../../shared/money/address-index.ts'
import { openNanoSeed } from '../../shared/money/coins/nano/nano-keys.ts'
import { FULL } from '../support/full.ts'

interface Kept {
  /** What keeps it, in the words of the test's name. */
  name: string
  file: string
  /** Writes the file, and whatever lies beside it, as the program does. */
  write(): unknown
  /** What the program goes on with; it throws if it refuses to go on. */
  read(): unknown
  /** What it goes on with if there is no file: a value, or `refuses`. */
  missing: unknown
  /** As an earlier version wrote it. */
  older?: string
  /** Why a bit that makes another right value of it does no harm; without it none may be taken. */
  harmless?: string
  /** The operator may have chosen any text, so a part of it is one too. */
  isAnyText?: boolean
}

/** Every cut and bit with FAULTS=1; else one of 29, which falls on each bit of a byte in turn. */
const EVERY = FULL ? 1 : 29

let folder = ''
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'torn-files-'))
})
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))
const at = (name: string): string => path.join(folder, name)

const HEX = (byte: string): string => byte.repeat(32)
const MEMORY = {
  ...{ seq: 57, payload_hash: HEX('1a'), pubkey: HEX('2b'), origin: 'example.org/log' },
  ...{ log: { size: 1_234, root: HEX('3c') }, keys: { root: HEX('4d'), count: 12 } },
  given_up: { from: 3, to: 4 },
}
const ADOPTION = { id: '01arz3ndektsv4rrffq69g5fav', seq: 3, payload_hash: HEX('5e'), remembered: null }
const INDEX = { highest: 1_234, at: 1_700_000_000 }
const DIGEST = createHash('sha256').update('payload').digest('hex')
const ANNOUNCEMENT = 'ann_01arz3ndektsv4rrffq69g5fav'
const MANIFEST = {
  ...{
    format: 1,
    version: '1.0.0',
    commit: 'abc',
    schema: 4,
    at: 1,
    cluster_time: '1.2',
    database: 'agents',
  },
  collections: [] as unknown[],
  keys: [],
}
const ORDER = {
  order_id: 'wrk_1',
  currency: 'pow',
  days: 1,
  shares_required: 3,
  difficulty_bits: 6,
  prefix: 'a1'.repeat(16),
  preimage: 'prefix:nonce',
  status: 'open',
  shares_accepted: 0,
  credited_days: 0,
  expires_at: 1_700_000_000,
} as const

/**
 * The files of the service, of the operator's tools and of the agent's command, each as its program writes
 * and reads it.
 */
const kept = (): Kept[] => [
  {
    name: 'the seal memory',
    file: at('seal-memory'),
    write: () => replaceFile(at('seal-memory'), memoryText(MEMORY)),
    read: () => readMemory(at('seal-memory')),
    missing: undefined, // and then nothing is signed
    older: `${JSON.stringify(MEMORY)}\n`,
  },
  {
    name: 'the seal key',
    file: at('key'),
    write: () => ensureSealKey(at('key'), at('memory-of-key')),
    read() {
      const key = readSealKey(at('key'))
      if (key === undefined) return undefined
      const pubkey = keyToHex(ed25519PublicKey(key))
      if (readMemory(at('memory-of-key'))?.pubkey !== pubkey)
        throw new Error(`${at('key')}: the memory belongs to another key; restore it`)
      return pubkey
    },
    missing: undefined,
  },
  {
    name: 'an adoption',
    file: adoptionFileOf(at('m')),
    write: () => replaceFile(adoptionFileOf(at('m')), textWithSum(ADOPTION)),
    read: () => readAdoption(at('m')),
    missing: undefined,
    older: `${JSON.stringify(ADOPTION)}\n`,
  },
  {
    name: 'the announcements that were signed',
    file: at('n.announcements'),
    write: () => replaceFile(at('n.announcements'), textWithSum({ [ANNOUNCEMENT]: DIGEST })),
    // Another text for it must not be signed.
    read: () =>
      rememberSignedAnnouncement(at('n'), ANNOUNCEMENT, Buffer.from('another payload')).then(
        () => 'another was signed',
        (error: Error) => {
          if (error.message.includes('another text was signed')) return 'kept'
          throw error
        },
      ),
    missing: 'another was signed', // the key can't know better
    older: `${JSON.stringify({ [ANNOUNCEMENT]: DIGEST })}\n`,
  },
  {
    name: "the index of a seed's addresses",
    file: at('seed.index'),
    write: () => replaceFile(at('seed.index'), textWithSum(INDEX)),
    read: () => readIndexFile(at('seed.index')),
    missing: { highest: -1 }, // then database and chain say
    older: `${JSON.stringify(INDEX)}\n`,
  },
  {
    name: 'the Nano seed',
    file: at('seed'),
    write: () => replaceFile(at('seed'), `${HEX('7a')}\n`),
    read: () => openNanoSeed(at('seed')).deriveAccount(0).address,
    missing: 'refuses',
    harmless: 'another seed has another treasury than the database knows, and stops its coin',
  },
  {
    name: "a backup's manifest",
    file: at('backup/manifest.json'),
    write() {
      fs.mkdirSync(at('backup/database'), { recursive: true })
      fs.writeFileSync(at('backup/database/posts.bson'), 'posts')
      const sha256 = createHash('sha256').update('posts').digest('hex')
      MANIFEST.collections = [{ name: 'posts', documents: 1, bytes: 5, sha256, indexes: [{ key: { a: 1 } }] }]
      replaceFile(at('backup/manifest.json'), textWithSum(MANIFEST, 2))
    },
    read: () => verifyBackup(at('backup')),
    missing: 'refuses',
    older: `${JSON.stringify(MANIFEST, null, 2)}\n`,
  },
  {
    name: 'the passwords of MongoDB’s users',
    file: at('mongo_passwords'),
    write: () => writeAccessFiles(folder, 'p'),
    read: () => readPasswords(folder),
    missing: 'refuses',
    harmless: 'the users are given the passwords that stand in it, and who has another is refused',
  },
  {
    name: 'where the servers listen',
    file: at('running.json'),
    write: () =>
      noteRunning(folder, { mongodbUrl: 'mongodb://h:1/x', redisUrl: 'redis://h:2' }, { XNO_USD: '1.5' }),
    read: () => readRunning(folder),
    missing: undefined,
    older: `${JSON.stringify({ mongodbUrl: 'mongodb://h:1/x', redisUrl: 'redis://h:2', settings: { XNO_USD: '1.5' } })}\n`,
  },
  ...['operator-token', 'metrics-token', 'challenge-secret', 'first-start'].map((name): Kept => ({
    name: `the data folder's ${name}`,
    file: at(name),
    write: () => ensureFirstStart(folder, 1_700_000_000_000),
    read: () => ensureFirstStart(folder, 1_700_000_000_000),
    missing: 'anew',
    isAnyText: name.endsWith('-token'),
    harmless: 'whoever has another secret is refused; and the time only says how long signing up is free',
  })),
  {
    name: "a token's file",
    file: at('token.json'),
    write: () =>
      createTokenFile(at('token.json'), {
        url: 'https://example.org',
        agent_id: 'agt_1',
        token: `sk_${'01'.repeat(24)}`,
      }),
    read: () => readTokenFile(at('token.json')),
    missing: undefined,
    harmless: 'a service refuses a token that it did not give',
  },
  {
    name: "a witness's file",
    file: at('witness.json'),
    write: () => writePrivateFile(at('witness.json'), { ...ensureState(at('w')), ...ROOTED }, 2),
    read: () => ensureState(at('witness.json')),
    missing: 'anew', // with another key: nothing that the old one signed can be contradicted
    harmless: 'another size or root is refused by the next proof of consistency',
  },
  {
    name: 'the state of a miner',
    file: at('work.json'),
    write: () =>
      writeMiningState(at('work.json'), {
        order: ORDER,
        unsent: ['ab1'],
      }),
    read: () => readMiningState(at('work.json')),
    missing: undefined,
    harmless: 'the service checks each share again',
  },
  {
    name: 'keys seen of others',
    file: at('keys/agt_1.json'),
    write: () => writePrivateFile(at('keys/agt_1.json'), [HEX('12')]),
    read: () => readPins(at('keys'), 'agt_1'),
    missing: [],
    harmless: 'a card that shows another key than the pin is refused',
  },
  {
    name: 'where watching ended',
    file: at('token.events.json'),
    write: () => writePrivateFile(at('token.events.json'), { after: '1234' }),
    read: () => readCursor(at('token.events.json')),
    missing: undefined,
    harmless: 'the events are kept by the service',
  },
]
const ROOTED = { origin: 'example.org/log', size: 1_234, root: HEX('9f') }
const NAMES = kept().map(({ name }) => name)

/**
 * What the program does on a file with this content: `refuses` with a good reason, or a value to go on with.
 */
async function goOn({ file, read }: Kept, content: Buffer): Promise<unknown> {
  fs.writeFileSync(file, content)
  fs.chmodSync(file, 0o600)
  try {
    return await read()
  } catch (error) {
    const { message } = error as Error
    expect(message, `a refusal names the file: ${message}`).toContain(path.basename(file))
    expect(message, `a refusal says what to do: ${message}`).toMatch(ADVICE)
    return 'refuses'
  }
}
const ADVICE =
  /restore|give it back|move it away|take another|begins? anew|made anew|remove|run that again|put it right|put right/i

describe('a damaged file', () => {
  it.each(NAMES)(
    'of %s is refused with what to do, or read as it was, wherever it is cut off',
    async (name) => {
      const one = find(name)
      const [whole, value] = await writeWhole(one)
      for (let length = 0; length < whole.length; length += EVERY) {
        const zeros = Buffer.alloc(whole.length)
        whole.copy(zeros, 0, 0, length)
        for (const content of [whole.subarray(0, length), zeros]) {
          const found = await goOn(one, content)
          if (found !== 'refuses' && !one.isAnyText) expect(found, `cut off at ${length}`).toEqual(value)
        }
      }
    },
  )

  it.each(NAMES)('of %s is refused, or read as it was, whichever bit of it is wrong', async (name) => {
    const one = find(name)
    const [whole, value] = await writeWhole(one)
    const step = EVERY * (one.harmless === undefined ? 1 : 5)
    for (let bit = 0; bit < whole.length * 8; bit += step) {
      const content = Buffer.from(whole)
      content[bit >> 3] = (content[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const found = await goOn(one, content)
      if (found !== 'refuses' && one.harmless === undefined)
        expect(found, `bit ${bit}: ${content.toString('latin1')}`).toEqual(value)
    }
  })

  it.each(NAMES)('of %s is refused if it is another one', async (name) => {
    const one = find(name)
    await writeWhole(one)
    for (const other of kept().filter(({ file }) => path.basename(file) !== path.basename(one.file))) {
      fs.rmSync(one.file, { force: true })
      const [content] = await writeWhole(other)
      await writeWhole(one)
      if (one.isAnyText || isAlike(one.name, other.name)) continue
      expect(await goOn(one, content), `that of ${other.name}`).toBe('refuses')
    }
  })

  it.each(NAMES)(
    'of %s is what its program says if it is missing, and a leftover beside it changes nothing',
    async (name) => {
      const one = find(name)
      const [whole, value] = await writeWhole(one)
      fs.writeFileSync(`${one.file}.new`, whole.subarray(0, whole.length >> 1))
      expect(await goOn(one, whole)).toEqual(value)
      if (one.older !== undefined)
        expect(await goOn(one, Buffer.from(one.older)), 'without a sum').toEqual(value)
      fs.rmSync(one.file)
      const found = await Promise.resolve()
        .then(one.read)
        .catch(() => 'refuses')
      if (one.missing === 'anew') expect(found).toBeDefined()
      else expect(found).toEqual(one.missing)
    },
  )
})

/** Whether two files have the same form, so that one may stand for the other: a secret is a secret. */
const isAlike = (...names: string[]): boolean =>
  names.every((name) => ALIKE.some((alike) => name.includes(alike)))
const ALIKE = ['seal key', 'Nano seed', 'operator-token', 'metrics-token', 'challenge-secret']

function find(name: string): Kept {
  const found = kept().find((one) => one.name === name)
  if (found === undefined) throw new Error(name)
  return found
}

/** Writes a file as its program does. @returns its bytes, and what is read then */
async function writeWhole(one: Kept): Promise<[Buffer, unknown]> {
  fs.rmSync(one.file, { force: true })
  await one.write()
  return [fs.readFileSync(one.file), await one.read()]
}

describe('the blocks of a sandbox', () => {
  it('go on after one that was cut off, and are refused if one in the middle is wrong', async () => {
    const file = at('sandbox-blocks')
    const open = async (use: (node: Awaited<ReturnType<typeof startNanoNode>>) => void) => {
      const node = await startNanoNode()
      try {
        persistBlocks(node, file)
        use(node)
        return node.state.ledger.blocks.size
      } finally {
        await node.close()
      }
    }
    const pay = (node: Awaited<ReturnType<typeof startNanoNode>>) => void node.fund(node.genesis.address, 1n)
    const empty = await open(() => undefined)
    await open((node) => [1, 2, 3].forEach(() => pay(node)))
    const whole = fs.readFileSync(file, 'utf8')
    const lines = whole.trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    for (const length of [whole.length - 1, whole.length - 2, whole.length - 40]) {
      fs.writeFileSync(file, whole.slice(0, length))
      await open(pay)
      // The block that was written behind the torn one is there at the next start too.
      expect(await open(() => undefined)).toBe(empty + 3)
    }
    fs.writeFileSync(file, [lines[0], lines[1]?.slice(0, 50), lines[2], ''].join('\n'))
    await expect(open(() => undefined)).rejects.toThrow(/sandbox-blocks .* line 2 on: restore it/)
  })
})
