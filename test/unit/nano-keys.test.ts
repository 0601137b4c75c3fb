import fc from 'fast-check'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { inspect } from 'node:util'
import { block as signer, wallet } from 'nanocurrency-web'
import { afterAll, describe, expect, it } from 'vitest'
import {
  buildReceive,
  buildSend,
  hashNanoBlock,
  isSignedByAccount,
  MAX_RAW,
} from '../../shared/money/coins/nano/nano-blocks.ts'
import { createNanoKeys, openNanoSeed, TREASURY_INDEX } from '../../shared/money/coins/nano/nano-keys.ts'
import { StartError } from '../../shared/platform/process.ts'
import { deriveSecretKey, signHash, verifyHash } from '../../devnet/nano-node/block.ts'
import { buildChange } from '../support/nano-change.ts'
import { FULL } from '../support/full.ts'

const seed = `${'0'.repeat(62)}2A`
const keys = createNanoKeys(seed)
const folder = mkdtempSync(path.join(tmpdir(), 'nano-keys-'))
afterAll(() => rmSync(folder, { recursive: true }))

function seedFile(text: string, mode = 0o600): string {
  const file = path.join(folder, `seed-${Math.random()}`)
  writeFileSync(file, text)
  chmodSync(file, mode)
  return file
}

/** The account as the library finds it that signs. */
function deriveByLibrary(fromSeed: string, index: number) {
  const [found] = wallet.legacyAccounts(fromSeed, index, index)
  return { index, address: found?.address, publicKey: found?.publicKey.toUpperCase() }
}

function messageOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    expect(error).toBeInstanceOf(StartError)
    return (error as Error).message
  }
  throw new Error('nothing was thrown')
}

describe('derivation', () => {
  it("finds the account that a real node's deterministic_key gave for this seed", () => {
    expect(keys.deriveAccount(TREASURY_INDEX)).toEqual({
      index: 0,
      address: 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3',
      publicKey: 'D93B69AB3F5E0C0B912573F61E877DFE5A9A0D3127F4575F89DA402BAF5C89F7',
    })
  })

  it.each([1, 2, 255, 256, 65_536, 2 ** 31, 2 ** 32 - 1])(
    'agrees with a second library at index %i',
    (index) => {
      expect(keys.deriveAccount(index)).toEqual(deriveByLibrary(seed, index))
    },
  )

  it('agrees with a second library for any seed', () => {
    const anySeed = fc
      .uint8Array({ minLength: 32, maxLength: 32 })
      .map((bytes) => Buffer.from(bytes).toString('hex'))
    fc.assert(
      fc.property(anySeed, fc.nat(2 ** 31), (one, index) => {
        expect(createNanoKeys(one).deriveAccount(index)).toEqual(deriveByLibrary(one, index))
      }),
      { numRuns: 30, examples: [['f'.repeat(64), 1]] },
    )
  })

  it('takes a seed in either case for the same seed', () => {
    expect(createNanoKeys(seed.toLowerCase()).deriveAccount(3)).toEqual(keys.deriveAccount(3))
  })

  it.each([-1, 0.5, 2 ** 32, Number.NaN])('refuses %d as an index', (index) => {
    expect(() => keys.deriveAccount(index)).toThrow('"index" expected a whole number')
  })
})

describe('signing', () => {
  const { address: account } = keys.deriveAccount(7)
  const state = { account, frontier: 'AB'.repeat(32), balanceRaw: 10n, representative: account }

  it('is what a second library signs and verifies, for every balance', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: MAX_RAW }), (balanceRaw) => {
        const block = buildChange({ ...state, balanceRaw }, account)
        const { hash, signature } = keys.signBlock(7, block)
        expect(hash).toBe(hashNanoBlock(block))
        expect(signature).toBe(signHash(hash, deriveSecretKey(seed, 7)))
        expect(verifyHash(hash, signature, keys.deriveAccount(7).publicKey)).toBe(true)
        expect(isSignedByAccount({ ...block, signature })).toBe(true)
      }),
      {
        numRuns: FULL ? 30 : 6,
        examples: [[0n], [1n], [10n ** 30n], [10n ** 30n - 1n], [MAX_RAW - 1n], [MAX_RAW]],
      },
    )
  })

  it('is byte for byte what nanocurrency-web makes of a receive, a send and a change', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 32 - 1 }),
        fc.bigInt({ min: 1n, max: MAX_RAW }),
        (index, balanceRaw) => {
          const own = keys.deriveAccount(index).address
          const amountRaw = balanceRaw / 2n + 1n
          const from = { ...state, account: own, balanceRaw }
          const secretKey = deriveSecretKey(seed, index)
          const common = {
            frontier: from.frontier,
            representativeAddress: account,
            walletBalanceRaw: String(balanceRaw),
          }
          const link = 'CD'.repeat(32)
          const sent = buildSend(from, { destination: account, amountRaw })
          const changed = buildChange(from, account)
          const theirs = [
            signer.send(
              { ...common, fromAddress: own, toAddress: account, amountRaw: String(amountRaw) },
              secretKey,
            ),
            signer.representative({ ...common, address: own }, secretKey),
          ]
          const ours = [sent, changed].map((block) => keys.signBlock(index, block).signature)
          const before = { ...from, balanceRaw: balanceRaw - amountRaw }
          const received = buildReceive(before, { hash: link, amountRaw })
          const taking = {
            ...common,
            walletBalanceRaw: String(before.balanceRaw),
            toAddress: own,
            amountRaw: String(amountRaw),
          }
          theirs.push(signer.receive({ ...taking, transactionHash: link }, secretKey))
          ours.push(keys.signBlock(index, received).signature)
          expect(ours).toEqual(theirs.map(({ signature }) => signature.toUpperCase()))
        },
      ),
      {
        numRuns: FULL ? 20 : 4,
        examples: [
          [0, 1n],
          [2 ** 32 - 1, MAX_RAW],
        ],
      },
    )
  })

  it('is done without the packages of nanocurrency-web, crypto-js among them', () => {
    const script = `await import(${JSON.stringify(new URL('../../workers/handlers.ts', import.meta.url).href)})
      const { createRequire } = await import('node:module')
      console.log(Object.keys(createRequire(import.meta.url).cache).filter((file) => /crypto-js|nanocurrency-web/.test(file)).join())`
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    })
    expect([status, stdout.trim(), stderr]).toEqual([0, '', ''])
  })

  it('is the same each time', () => {
    const block = buildSend(state, { destination: keys.deriveAccount(0).address, amountRaw: 3n })
    expect(keys.signBlock(7, block)).toEqual(keys.signBlock(7, block))
  })

  it("refuses another account's block", () => {
    const block = buildSend(state, { destination: account, amountRaw: 3n })
    expect(() => keys.signBlock(8, block)).toThrow('belongs to another account than index 8')
  })
})

describe('the seed file', () => {
  it('is opened where its owner alone may read it', () => {
    expect(openNanoSeed(seedFile(`${seed}\n`)).deriveAccount(0)).toEqual(keys.deriveAccount(0))
    expect(openNanoSeed(seedFile(seed, 0o400)).deriveAccount(0)).toEqual(keys.deriveAccount(0))
  })

  it.each([0o640, 0o604, 0o620, 0o644, 0o601])(
    'is refused at mode %o, with a sentence for the operator',
    (mode) => {
      const message = messageOf(() => openNanoSeed(seedFile(seed, mode)))
      expect(message).toContain(`(mode ${mode.toString(8)}); set its mode to 600`)
      expect(message).not.toContain(seed)
    },
  )

  it.each([
    ['empty', ''],
    ['one character short', seed.slice(1)],
    ['one character long', `${seed}0`],
    ['not hex', `${seed.slice(1)}g`],
    ['two seeds', `${seed}\n${seed}`],
    ['a mnemonic', 'edge defense waste choose enrich upon flee junk siren film clown finish'],
    ['large', '0'.repeat(100_000)],
  ])('is refused when it is %s, without a word of what it holds', (_case, text) => {
    const message = messageOf(() => openNanoSeed(seedFile(text)))
    expect(message).toContain('does not hold a seed: expected 64 hex characters')
    for (const word of text.split(/\s/).filter((one) => one.length > 3)) expect(message).not.toContain(word)
  })

  it('is refused when it is missing or a folder', () => {
    expect(messageOf(() => openNanoSeed(path.join(folder, 'none')))).toContain(
      'cannot be read (ENOENT); NANO_SEED_FILE has to name it',
    )
    expect(messageOf(() => openNanoSeed(mkdtempSync(path.join(folder, 'mode-700-'))))).toContain(
      'does not hold a seed',
    )
  })
})

it('shows neither seed nor secret key, however it is printed', () => {
  const secretKey = deriveSecretKey(seed, 0)
  const shown = [
    inspect(keys, { depth: 9, showHidden: true }),
    JSON.stringify(keys),
    String(keys),
    JSON.stringify(keys.deriveAccount(0)),
  ]
  for (const text of shown) {
    expect(text.toUpperCase()).not.toContain(seed)
    expect(text.toUpperCase()).not.toContain(secretKey)
  }
})
