import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  backUpTokenFile,
  createTokenFile,
  readTokenFile,
  tokenFilePath,
  writeTokenFile,
  type Identity,
} from '../../client/token-file.ts'
import { parseCommandLine } from '../../client/command/arguments.ts'
import { CommandError } from '../../client/command/command-error.ts'
import { escapeControls, formatCoins, indent } from '../../client/command/format.ts'
import { runAgent } from '../../client/command/run.ts'
import { promoteToken } from '../../client/command/session.ts'
import { AGENT, VERB_GROUPS, VERBS } from '../../client/command/verbs.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { ed25519PublicKey, ed25519Sign, keyToHex, signatureToBase64 } from '../../shared/crypto/ed25519.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { refuse, sendJson, startBrokenPeer, type Behaviour } from '../support/broken-peer.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

const OLD = `sk_${'01'.repeat(24)}`
const NEXT = `sk_${'23'.repeat(24)}`
const URL_OF_NOBODY = 'http://127.0.0.1:9'
const identity = (changes: Partial<Identity> = {}): Identity => ({
  url: URL_OF_NOBODY,
  agent_id: 'agt_01j0000000000000000000000a',
  token: OLD,
  ...changes,
})

let home: string
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), 'agent-home-'))
})
afterEach(() => rmSync(home, { recursive: true }))

describe('the command line', () => {
  const parse = (...argv: string[]) => parseCommandLine(argv, AGENT)

  it('gives the words and flags of a verb, common flags before or after it', () => {
    expect(parse('post', 'hello', '--topic', 't', '--json')).toMatchObject({
      verb: { name: 'post' },
      words: ['hello'],
      options: { topic: 't' },
      json: true,
      url: undefined,
    })
    expect(parse('--url', 'http://a.example', '--json', 'me')).toMatchObject({
      verb: { name: 'me' },
      words: [],
      url: 'http://a.example',
      json: true,
    })
    expect(parse('mine', '--days=3')).toMatchObject({ options: { days: 3, new: false }, json: false })
    expect(parse('profile', '--capability', 'a', '--capability', 'b', '--name', '')).toMatchObject({
      options: { capability: ['a', 'b'], name: '', 'dm-key': false },
    })
  })

  it('knows verbs of two words, with flags before, between and after them', () => {
    expect(parse('dm', 'send', 'agt_1', 'send')).toMatchObject({
      verb: { name: 'dm send' },
      words: ['agt_1', 'send'],
    })
    expect(parse('--json', 'dm', '--url', 'http://a.example', 'read', '--after', 'read')).toMatchObject({
      verb: { name: 'dm read' },
      words: [],
      options: { after: 'read' },
      json: true,
      url: 'http://a.example',
    })
    expect(parse('dm', 'send', '--help')).toMatchObject({ verb: { name: 'dm send' }, help: true })
  })

  it('takes - as a word, and after -- whatever begins with it', () => {
    expect(parse('post', '-').words).toEqual(['-'])
    expect(parse('post', '--', '--json')).toMatchObject({ words: ['--json'], json: false })
    expect(parse('post', 'x', '--topic=-t').options).toMatchObject({ topic: '-t' })
  })

  it('asks for help in place of words', () => {
    for (const flag of ['--help', '-h']) {
      expect(parse('card', flag)).toMatchObject({ verb: { name: 'card' }, help: true })
      expect(parse(flag)).toMatchObject({ verb: undefined, help: true })
    }
  })

  const misunderstood: [string[], RegExp][] = [
    [[], /No verb/],
    [['--json'], /No verb/],
    [['fly'], /no verb "fly"; "help" lists them all/],
    [['regsiter'], /no verb "regsiter"; did you mean "register"\?/],
    [['feed', '--topc', 'x'], /takes no --topc; did you mean "--topic"\?/],
    [['--days', '3', 'mine'], /"agent" takes no --days before the verb/],
    [['dm'], /"dm" is followed by "send" or "read"/],
    [['dm', 'fly'], /"dm" is followed by "send" or "read"/],
    [['send', 'dm'], /no verb "send"/],
    [['dm', 'send', 'agt_1'], /"dm send" needs TEXT/],
    [['me', '--days', '3'], /"me" takes no --days;.* it takes --url, --as, --json, --help/],
    [['me', '-x'], /"me" takes no -x/],
    [['me', '--constructor'], /takes no --constructor/],
    [['me', 'now'], /takes no words, and "now" is one too many/],
    [['post'], /"post" needs TEXT/],
    [['post', 'two', 'words'], /"words" is one too many/],
    [['mine', '--days'], /--days needs a value/],
    [['mine', '--days', '--json'], /--days needs a value/],
    [['mine', '--days', '1.5'], /whole number from 1/],
    [['mine', '--days', '0'], /whole number from 1/],
    [['mine', '--days', '1', '--days', '2'], /twice/],
    [['me', '--json=yes'], /--json takes no value/],
    [['post', 'x', '--topic', '-t'], /write --topic=-t/],
  ]
  for (const [argv, sentence] of misunderstood) {
    it(`is not understood: ${argv.join(' ') || '(nothing)'}`, () => {
      const error = (() => {
        try {
          return parse(...argv)
        } catch (thrown) {
          return thrown
        }
      })()
      expect(error).toBeInstanceOf(CommandError)
      expect(error).toMatchObject({
        code: 'usage',
        exitCode: 2,
        message: expect.stringMatching(sentence) as string,
      })
    })
  }
})

describe('the token file', () => {
  const modeOf = (file: string) => statSync(file).mode & 0o777

  it('is one for each service, under a name that shows which', () => {
    const file = tokenFilePath(home, 'http://127.0.0.1:3000')
    expect(path.basename(file)).toMatch(/^127\.0\.0\.1_3000-[0-9a-f]{8}\.json$/)
    expect(tokenFilePath(home, 'http://127.0.0.1:3000/api/v1/')).toBe(file)
    const others = [
      'https://127.0.0.1:3000',
      'http://127.0.0.1_3000',
      'http://127.0.0.1:3001',
      'http://127.0.0.1:3000/x',
    ]
    expect(new Set([file, ...others.map((url) => tokenFilePath(home, url))]).size).toBe(5)
    expect(path.dirname(tokenFilePath(home, 'http://a.example/../../etc/%2e%2e'))).toBe(home)
  })

  it('can be read by its owner alone, and so can the directory made for it', () => {
    const file = path.join(home, 'made', 'for-it', 'x.json')
    createTokenFile(file, identity())
    expect(modeOf(file)).toBe(0o600)
    expect(modeOf(path.dirname(file))).toBe(0o700)
    writeTokenFile(file, identity({ token: NEXT }))
    expect(modeOf(file)).toBe(0o600)
  })

  it('gives back what was written, and leaves nothing else behind', () => {
    const file = path.join(home, 'x.json')
    const kept = identity({ next_token: NEXT, dm_secret_key: 'a'.repeat(64), dm_public_key: 'b'.repeat(64) })
    createTokenFile(file, identity())
    writeTokenFile(file, kept)
    expect(readTokenFile(file)).toEqual(kept)
    expect(readdirSync(home)).toEqual(['x.json'])
    expect(readTokenFile(path.join(home, 'none.json'))).toBeUndefined()
  })

  it('is replaced by another file and never written into, so that no reader finds half of it', () => {
    const file = path.join(home, 'x.json')
    createTokenFile(file, identity())
    const before = statSync(file).ino
    const backup = backUpTokenFile(file, new Date())
    writeTokenFile(file, identity({ token: NEXT }))
    expect(statSync(file).ino).not.toBe(before)
    expect(statSync(backup).ino).toBe(before)
  })

  it('that is there is not made anew', () => {
    const file = path.join(home, 'x.json')
    createTokenFile(file, identity())
    expect(() => createTokenFile(file, identity({ token: NEXT }))).toThrow(/EEXIST/)
    expect(readTokenFile(file)?.token).toBe(OLD)
    expect(readdirSync(home)).toEqual(['x.json'])
  })

  it('is backed up as often as need be in one millisecond', () => {
    const file = path.join(home, 'x.json')
    const now = new Date()
    createTokenFile(file, identity())
    const backups = [backUpTokenFile(file, now), backUpTokenFile(file, now), backUpTokenFile(file, now)]
    expect(new Set(backups).size).toBe(3)
    for (const backup of backups) {
      expect(readTokenFile(backup)).toEqual(identity())
      expect(modeOf(backup)).toBe(0o600)
    }
  })

  it('with something else in it is named and not told', () => {
    const file = path.join(home, 'x.json')
    const wrong = [
      '',
      'sk_secret',
      '[]',
      '{}',
      JSON.stringify({ ...identity(), token: 'sk_secret' }),
      JSON.stringify({ ...identity(), next_token: 'sk_secret' }),
      JSON.stringify({ ...identity(), dm_secret_key: 'secret' }),
    ]
    for (const text of wrong) {
      writeFileSync(file, text)
      expect(() => readTokenFile(file), text).toThrow(
        new RegExp(`^(?!.*secret(?!_key)).*x\\.json is no token file`),
      )
    }
  })

  it('is not written with a token that is none', () => {
    const file = path.join(home, 'x.json')
    expect(() => createTokenFile(file, identity({ token: '' }))).toThrow(/"token" is not a token/)
    expect(readdirSync(home)).toEqual([])
  })
})

describe('text for the terminal', () => {
  it('shows money in coins, with digits that are read', () => {
    const shown = [`25${'0'.repeat(28)}`, '1', '0', `1234567891${'0'.repeat(21)}`].map((raw) =>
      formatCoins(raw, 'xno'),
    )
    expect(shown).toEqual(['0.25 xno', 'less than 0.00000001 xno', '0 xno', '1.23456789 xno'])
    expect(formatCoins('1500000000000', 'xmr')).toBe('1.5 xmr')
    expect(formatCoins('7', 'other')).toBe('7 of the smallest unit of other')
  })

  it('holds no command of others', () => {
    expect(escapeControls('a\u001b[2J\rb\u0007\u009b\u202ec\td\n')).toBe(
      'a\\u{1b}[2J\\u{d}b\\u{7}\\u{9b}\\u{202e}c\td\n',
    )
    expect(indent('one\ntwo\u2028three\rfour')).toBe('  one\n  two\n  three\n  four')
  })
})

async function run(
  argv: string[],
  options: { stdin?: string | Buffer; signal?: AbortSignal; tty?: boolean; columns?: number } = {},
) {
  let stdout = ''
  let stderr = ''
  const exitCode = await runAgent({
    argv,
    env: { AGENT_HOME: home },
    stdin: Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]),
    stdout: {
      write: (text) => (stdout += text),
      ...(options.columns === undefined ? {} : { columns: options.columns }),
    },
    stderr: { isTTY: options.tty ?? false, write: (text) => (stderr += text) },
    signal: options.signal ?? new AbortController().signal,
  })
  return { exitCode, stdout, stderr }
}

describe('the agent command', () => {
  async function withPeer<T>(
    behave: Behaviour,
    use: (peer: Awaited<ReturnType<typeof startBrokenPeer>>, file: string) => Promise<T>,
  ): Promise<T> {
    const peer = await startBrokenPeer(behave)
    try {
      return await use(peer, tokenFilePath(home, peer.url))
    } finally {
      await peer.close()
    }
  }

  it('lists every verb, and says what each takes', async () => {
    const { stdout, exitCode } = await run(['help'])
    expect(exitCode).toBe(0)
    for (const verb of VERBS) {
      expect(stdout).toContain(`  ${verb.name} `)
      const own = await run([...verb.name.split(' '), '--help'])
      expect(own).toMatchObject({ exitCode: 0, stderr: '' })
      for (const name of [...Object.keys(verb.options), 'url', 'json'])
        expect(own.stdout).toContain(`--${name}`)
      // Each example is a command line that this command takes.
      const [, example = ''] = /\nExample:\n {2}agent-network (.+)\n$/.exec(own.stdout) ?? []
      const argv = [...example.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '')
      expect(parseCommandLine(argv, AGENT)).toMatchObject({ verb: { name: verb.name } })
      expect((await run(['help', ...verb.name.split(' ')])).stdout).toBe(own.stdout)
    }
    for (const { name, formerly } of VERBS.filter(({ formerly }) => formerly !== undefined)) {
      expect((await run(['help', formerly ?? ''])).stdout).toBe(
        (await run(['help', ...name.split(' ')])).stdout,
      )
    }
    for (const { title } of VERB_GROUPS) expect(stdout).toContain(`\n${title}:\n`)
    const listed = JSON.parse((await run(['--help', '--json'])).stdout) as {
      verbs: { group: string; name: string }[]
    }
    expect(listed).toMatchObject({ ok: true, count: VERBS.length + 1 })
    expect(listed.verbs.slice(0, -1)).toMatchObject(
      VERB_GROUPS.flatMap(({ title, verbs }) => verbs.map(({ name }) => ({ group: title, name }))),
    )
  })

  it('breaks what the help says at the width of the terminal, and no line where there is none', async () => {
    const longest = (text: string) => Math.max(...text.split('\n').map((line) => line.length))
    expect(longest((await run(['mine', '--help'], { columns: 72 })).stdout)).toBeLessThanOrEqual(72)
    expect((await run(['me', '--help'])).stdout).toMatch(/^Your standing: .* with the time left\.$/m)
  })

  it('has each verb once', () => {
    const names = VERBS.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    for (const { options } of VERBS)
      for (const common of ['url', 'json', 'help']) expect(Object.keys(options)).not.toContain(common)
  })

  it('answers what it cannot understand with one sentence and exit code 2', async () => {
    expect(await run(['fly'])).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: 'There is no verb "fly"; "help" lists them all.\n',
    })
    for (const words of [['fly'], ['post', 'fly'], ['dm'], ['dm', 'fly']])
      expect(await run(['help', ...words])).toMatchObject({ exitCode: 2, stdout: '' })
    expect(await run(['me', '--url', 'nowhere'])).toMatchObject({ exitCode: 2, stdout: '' })
    const { stdout, stderr, exitCode } = await run(['fly', '--json'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({
      ok: false,
      error: 'usage',
      message: 'There is no verb "fly"; "help" lists them all.',
    })
  })

  it('prints a refusal as the one object that the service sent, and exits with 1', async () => {
    const body = { ok: false, error: 'invalid_field', message: 'No.', field: 'limit', more: { kept: true } }
    await withPeer(
      (res) => sendJson(res, 400, body),
      async ({ url }) => {
        const { stdout, stderr, exitCode } = await run(['feed', '--json', '--url', url])
        expect({ exitCode, stderr, lines: stdout.split('\n').length }).toEqual({
          exitCode: 1,
          stderr: '',
          lines: 2,
        })
        expect(JSON.parse(stdout)).toEqual(body)
        expect(await run(['feed', '--url', url])).toEqual({
          exitCode: 1,
          stdout: '',
          stderr: 'Refused (invalid_field): No.\n',
        })
      },
    )
  })

  it('prints an object too where no answer of the service came', async () => {
    await withPeer(
      (res) => res.end('<html>'),
      async ({ url }) => {
        const { stdout, exitCode } = await run(['feed', '--json', '--url', url])
        expect(exitCode).toBe(1)
        expect(JSON.parse(stdout)).toMatchObject({ ok: false, error: 'bad_answer' })
      },
    )
  })

  it('says that an agent must be registered first, and asks the service nothing', async () => {
    await withPeer(
      (res) => refuse(res, 500, 'internal'),
      async ({ url, received }, file) => {
        const verbs = [
          ['me'],
          ['rotate'],
          ['post', 'x'],
          ['mine'],
          ['invoice', 'pow'],
          ['check', 'inv_1'],
          ['profile'],
          ['report', 'pst_1', 'spam'],
          ['dm', 'send', 'agt_1', 'x'],
          ['dm', 'read'],
          ['claim', 'x'],
          ['resolve', 'clm_1', 'true'],
          ['endorse', 'clm_1'],
        ]
        for (const argv of verbs) {
          const { stdout, exitCode } = await run([...argv, '--json', '--url', url])
          expect(exitCode).toBe(1)
          expect(JSON.parse(stdout)).toMatchObject({
            error: 'not_registered',
            message: expect.stringContaining(file) as string,
          })
        }
        expect(received).toEqual([])
      },
    )
  })

  it('registers no second agent unless it is forced to, and touches nothing when that fails', async () => {
    await withPeer(
      (res) => refuse(res, 403, 'signups_closed'),
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url }))
        const { exitCode, stdout } = await run(['register', '--json', '--url', url])
        expect(exitCode).toBe(1)
        expect(JSON.parse(stdout)).toMatchObject({
          error: 'already_registered',
          message: expect.stringContaining(file) as string,
        })
        expect(received).toEqual([])
        expect(JSON.parse((await run(['register', '--force', '--json', '--url', url])).stdout)).toMatchObject(
          { error: 'signups_closed' },
        )
        expect(readdirSync(home)).toEqual([path.basename(file)])
        expect(readTokenFile(file)?.token).toBe(OLD)
      },
    )
  })

  it('registers nobody where the token could not be kept', async () => {
    writeFileSync(path.join(home, 'a-file'), '')
    await withPeer(
      (res) => refuse(res, 500, 'internal'),
      async ({ url, received }) => {
        let stdout = ''
        const exitCode = await runAgent({
          argv: ['register', '--json', '--url', url],
          env: { AGENT_HOME: path.join(home, 'a-file', 'below') },
          stdin: Readable.from([]),
          stdout: { write: (text) => (stdout += text) },
          stderr: { write: () => true },
          signal: new AbortController().signal,
        })
        expect(exitCode).toBe(1)
        expect(JSON.parse(stdout)).toMatchObject({ error: 'cannot_keep' })
        expect(received).toEqual([])
      },
    )
  })

  it('never sends a token to another service than the one that gave it', async () => {
    await withPeer(
      (res) => refuse(res, 401, 'invalid_token'),
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url: 'http://other.example' }))
        expect(JSON.parse((await run(['me', '--json', '--url', url])).stdout)).toMatchObject({
          error: 'wrong_token_file',
        })
        expect(received).toEqual([])
      },
    )
  })

  it('keeps the new token before it is sent, and both where the answer is lost', async () => {
    let keptWhenSent: Identity | undefined
    await withPeer(
      (res, { path: requested }) => {
        if (requested.endsWith('/me')) return refuse(res, 401, 'invalid_token')
        keptWhenSent = readTokenFile(tokenFilePath(home, `http://${res.req.headers.host}`))
        res.destroy()
      },
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url }))
        expect(JSON.parse((await run(['rotate', '--json', '--url', url])).stdout)).toMatchObject({
          ok: false,
          error: 'unreachable',
        })
        const { new_token: sent } = received[0]?.body as { new_token: string }
        expect(sent).toMatch(/^sk_[0-9a-f]{48}$/)
        expect(keptWhenSent).toEqual(identity({ url, next_token: sent }))
        expect(readTokenFile(file)).toEqual(identity({ url, next_token: sent }))

        // Another try asks first whether the new token is the good one, and else sends the same.
        await run(['rotate', '--url', url])
        expect(received.slice(1).map((request) => [request.path, request.token, request.body])).toEqual([
          ['/api/v1/me', `Bearer ${sent}`, undefined],
          ['/api/v1/token/rotate', `Bearer ${OLD}`, { new_token: sent }],
        ])
        expect(readTokenFile(file)).toEqual(identity({ url, next_token: sent }))
      },
    )
  })

  it('keeps both tokens while it cannot tell which is good', async () => {
    await withPeer(
      (res) => refuse(res, 503, 'unavailable'),
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url, next_token: NEXT }))
        expect(JSON.parse((await run(['post', 'x', '--json', '--url', url])).stdout)).toMatchObject({
          error: 'unavailable',
        })
        expect(received.map((request) => request.path)).toEqual(['/api/v1/me'])
        expect(readTokenFile(file)).toEqual(identity({ url, next_token: NEXT }))
      },
    )
  })

  it('drops a token only for one that is known to be good', () => {
    expect(promoteToken(identity({ next_token: NEXT }), NEXT)).toEqual(identity({ token: NEXT }))
    const later = `sk_${'45'.repeat(24)}`
    expect(promoteToken(identity({ next_token: later }), NEXT)).toEqual(
      identity({ token: NEXT, next_token: later }),
    )
  })

  it('keeps a key pair before it publishes the public half, and publishes the same one again', async () => {
    await withPeer(
      (res) => refuse(res, 503, 'unavailable'),
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url }))
        await run(['profile', '--dm-key', '--url', url])
        const kept = readTokenFile(file)
        expect(kept?.dm_secret_key).toMatch(/^[0-9a-f]{64}$/)
        await run(['profile', '--dm-key', '--name', 'n', '--url', url])
        expect(received.map((request) => request.body)).toEqual([
          { dm_key: kept?.dm_public_key },
          { dm_key: kept?.dm_public_key, name: 'n' },
        ])
        expect(readTokenFile(file)).toEqual(kept)
      },
    )
  })

  it('makes a pair anew where one half is missing', async () => {
    await withPeer(
      (res) => refuse(res, 503, 'unavailable'),
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url, dm_public_key: 'b'.repeat(64) }))
        await run(['profile', '--dm-key', '--url', url])
        const kept = readTokenFile(file)
        expect(kept?.dm_secret_key).toMatch(/^[0-9a-f]{64}$/)
        expect(kept?.dm_public_key).not.toBe('b'.repeat(64))
        expect(received.map((request) => request.body)).toEqual([{ dm_key: kept?.dm_public_key }])
      },
    )
  })

  it('says which announcements are signed by the key that they name', async () => {
    const secretKey = Buffer.alloc(32, 7)
    const sign = (fields: { at: number; id: string; kind: string; text: string }) => ({
      ...fields,
      signature: signatureToBase64(ed25519Sign(Buffer.from(canonicalJson(fields)), secretKey)),
      pubkey: keyToHex(ed25519PublicKey(secretKey)),
      algo: 'ed25519',
    })
    const good = sign({ at: 1, id: 'ann_1', kind: 'protocol', text: 'as signed' })
    const announcements = [
      good,
      { ...good, id: 'ann_2' },
      { ...good, id: 'ann_3', signature: 'none' },
      { ...good, id: 'ann_4', pubkey: 'ab'.repeat(32) },
    ]
    await withPeer(
      (res) => sendJson(res, 200, { ok: true, announcements, count: 4, how_to_verify: [] }),
      async ({ url }) => {
        const { stdout } = await run(['verify', '--url', url])
        const heads = stdout.split('\n').filter((line) => line.startsWith('ann_'))
        expect(heads.map((line) => line.includes('THE SIGNATURE DOES NOT HOLD'))).toEqual([
          false,
          true,
          true,
          true,
        ])
        expect(heads[0]).toContain(`signed with ${good.pubkey}`)
      },
    )
  })

  it('posts what stands on stdin, without the line feed at its end', async () => {
    await withPeer(
      (res) => refuse(res, 402, 'pass_required'),
      async ({ url, received }, file) => {
        createTokenFile(file, identity({ url }))
        await run(['post', '-', '--url', url], { stdin: 'grün\n\n' })
        expect(received[0]?.body).toEqual({ body: 'grün\n' })
        expect(
          JSON.parse(
            (await run(['post', '-', '--json', '--url', url], { stdin: Buffer.from([0xff]) })).stdout,
          ),
        ).toMatchObject({
          error: 'not_text',
        })
        expect(received).toHaveLength(1)
      },
    )
  })

  it('stops when it is told to, with exit code 130', async () => {
    const stop = new AbortController()
    await withPeer(
      () => stop.abort(new CommandError('stopped', 'Stopped.', { exitCode: 130 })),
      async ({ url }) => {
        const { exitCode, stdout } = await run(['feed', '--json', '--url', url], { signal: stop.signal })
        expect(exitCode).toBe(130)
        expect(JSON.parse(stdout)).toEqual({ ok: false, error: 'stopped', message: 'Stopped.' })
      },
    )
  })

  it('shows how a registration goes on stderr, and with --json on a terminal only', async () => {
    const challenge = {
      ok: true,
      challenge_id: 'c',
      puzzle: { kind: 'decode-hex', question: 'Decode: 61', answer_format: 'a word' },
      pow: { algorithm: 'sha256', prefix: '0'.repeat(32), difficulty_bits: 1, preimage: 'prefix:nonce' },
      expires_at: 1,
    }
    const behave: Behaviour = (res, { method }) =>
      method === 'GET' ? sendJson(res, 200, challenge) : refuse(res, 403, 'signups_closed')
    await withPeer(behave, async ({ url }) => {
      expect((await run(['register', '--url', url])).stderr).toContain('challenge received')
      expect((await run(['register', '--json', '--url', url])).stderr).toBe('')
      const onTerminal = await run(['register', '--json', '--url', url], { tty: true })
      expect(onTerminal.stderr).toContain('challenge received')
      expect(JSON.parse(onTerminal.stdout)).toMatchObject({ error: 'signups_closed' })
    })
  })

  it('tells nothing of a secret in the text for whoever reads', async () => {
    await withPeer(
      (res) => refuse(res, 401, 'invalid_token'),
      async ({ url }, file) => {
        createTokenFile(
          file,
          identity({ url, next_token: NEXT, dm_secret_key: 'a'.repeat(64), dm_public_key: 'b'.repeat(64) }),
        )
        for (const argv of [['me'], ['rotate'], ['register'], ['post', 'x']]) {
          const { stdout, stderr } = await run([...argv, '--url', url])
          for (const secret of [OLD, NEXT, 'a'.repeat(64)]) expect(stdout + stderr).not.toContain(secret)
        }
        expect(readFileSync(file, 'utf8')).toContain(OLD)
      },
    )
  })
})

describe('the agent command on a service', () => {
  let service: TestService
  let ada: TestAgent

  beforeAll(async () => {
    const keys = mkdtempSync(path.join(tmpdir(), 'agent-command-keys-'))
    const seal = {
      SEAL_KEY_FILE: path.join(keys, 'seal-key'),
      SEAL_MEMORY_FILE: path.join(keys, 'seal-memory'),
    }
    ensureSealKey(seal.SEAL_KEY_FILE)
    service = await startService({ env: seal })
    ada = await service.registerWithPass()
  })
  afterAll(() => service.stop())
  beforeEach(() =>
    createTokenFile(
      tokenFilePath(home, service.url),
      identity({ url: service.url, agent_id: ada.id, token: ada.token }),
    ),
  )

  const tell = async (...argv: string[]) => {
    const { exitCode, stdout, stderr } = await run([...argv, '--url', service.url])
    expect([argv, exitCode, stderr]).toEqual([argv, 0, ''])
    return stdout
  }
  const ask = async (...argv: string[]) =>
    JSON.parse(await tell(...argv, '--json')) as Record<string, unknown>
  const answerOf = async (code: number, ...argv: string[]) => {
    const { exitCode, stdout } = await run([...argv, '--json', '--url', service.url])
    expect([argv, exitCode]).toEqual([argv, code])
    return JSON.parse(stdout) as Record<string, unknown>
  }
  const refusalOf = async (...argv: string[]) =>
    JSON.parse((await run([...argv, '--json', '--url', service.url])).stdout) as Record<string, unknown>

  it('puts a claim on record, shows it, and records verdicts on it', async () => {
    const made = await ask('claim', 'It rains\ntomorrow.', '--kind', 'weather', '--resolve-by', '4102444800')
    const id = String(made['id'])
    expect(made).toMatchObject({
      ok: true,
      claim: {
        id,
        agent_id: ada.id,
        statement: 'It rains\ntomorrow.',
        kind: 'weather',
        resolve_by: 4_102_444_800,
        status: 'open',
      },
    })
    expect(await ask('claim', 'Another.', '--resolve-by', '2100-01-01T00:00:00+00:00')).toMatchObject({
      claim: { kind: 'claim', resolve_by: 4_102_444_800 },
    })
    expect(await refusalOf('claim', 'x', '--resolve-by', 'soon')).toMatchObject({
      error: 'invalid_field',
      field: 'resolve_by',
    })

    expect(await ask('resolve', id, 'false', '--evidence', 'It did not.')).toMatchObject({
      verdict: { outcome: 'false', evidence: 'It did not.', by_author: true },
      claim: { id, status: 'open' },
    })
    expect(await tell('resolve', id, 'void')).toContain('does not count for its status')
    expect(await refusalOf('resolve', id, 'perhaps')).toMatchObject({
      error: 'invalid_field',
      field: 'outcome',
    })

    expect(await ask('claim-show', id)).toMatchObject({
      claim: {
        id,
        verdicts: [
          { outcome: 'void', superseded: false },
          { outcome: 'false', superseded: true },
        ],
      },
    })
    const shown = await tell('claim-show', id)
    expect(shown).toContain(
      'weather, open, to be settled by 2100-01-01 00:00:00 UTC\n  It rains\n  tomorrow.\n',
    )
    expect(shown).toMatch(/ {2}false \(by the author, superseded\)\n {2}It did not\.\n$/)
  })

  it('lists claims by agent and status', async () => {
    const bob = await service.register()
    const { json } = await service.call('POST', '/claim', { token: bob.token, body: { statement: "Bob's." } })
    const id = String(json['id'])
    const idsOf = async (...argv: string[]) =>
      ((await ask('claims', ...argv))['claims'] as { id: string }[]).map((claim) => claim.id)
    expect(await idsOf('--limit', '1')).toEqual([id])
    expect(await idsOf('--agent', bob.id, '--status', 'open')).toEqual([id])
    expect(await idsOf('--agent', bob.id, '--status', 'judged')).toEqual([])
    expect(await tell('claims', '--agent', bob.id, '--status', 'judged')).toBe('No claims.\n')
    expect(await tell('claims', '--agent', bob.id)).toContain(`${id}  ${bob.id}  `)
    expect(await refusalOf('claims', '--status', 'true')).toMatchObject({
      error: 'invalid_field',
      field: 'status',
    })
  })

  it('takes me for the own id wherever an agent is named, and nothing for no id', async () => {
    const { id } = await ask('claim', 'By me.')
    const listed = await ask('claims', '--agent', 'me', '--limit', '1')
    expect(listed).toMatchObject({ claims: [{ id, agent_id: ada.id }] })
    expect(await ask('card', 'me')).toMatchObject({ agent_id: ada.id })
    expect(await ask('offers', '--agent', 'me')).toMatchObject({ ok: true })
    expect(await refusalOf('claims', '--agent', 'agt_none')).toMatchObject({ error: 'no_such_agent' })
    for (const argv of [
      ['card', ''],
      ['claims', '--agent', ''],
      ['dm', 'send', '', 'x'],
    ])
      expect(await run([...argv, '--url', service.url])).toEqual({
        exitCode: 2,
        stdout: '',
        stderr: 'AGENT_ID expected an id, got nothing.\n',
      })
  })

  it('sends no empty message for a stdin on which nothing came', async () => {
    for (const argv of [
      ['dm', 'send', ada.id, '-', '--unsealed-key'],
      ['post', '-'],
    ])
      expect(await run([...argv, '--url', service.url], { stdin: '' })).toEqual({
        exitCode: 2,
        stdout: '',
        stderr: 'Nothing came on stdin, which - stands for.\n',
      })
    expect((await service.call('GET', '/dm/sent', { token: ada.token })).json['count']).toBe(0)
  })

  it('endorses proposals, and nothing else', async () => {
    const bob = await service.register()
    const make = async (kind: string) =>
      String(
        (await service.call('POST', '/claim', { token: bob.token, body: { statement: 'More tests.', kind } }))
          .json['id'],
      )
    const [proposal, claim] = [await make('proposal'), await make('claim')]
    expect(await ask('endorse', proposal, '--evidence', 'Yes.')).toMatchObject({
      verdict: { claim_id: proposal, outcome: 'true', evidence: 'Yes.' },
      claim: { status: 'judged' },
    })
    expect(await ask('proposals', '--limit', '1')).toMatchObject({
      count: 1,
      proposals: [{ id: proposal, endorsements: 1 }],
    })
    expect(await tell('proposals')).toContain(`1 endorsed  ${proposal}`)
    expect(await refusalOf('endorse', claim)).toMatchObject({ ok: false, error: 'not_a_proposal' })
    expect(await ask('claim-show', claim)).toMatchObject({ claim: { verdicts: [] } })
    expect(await refusalOf('endorse', 'clm_none')).toMatchObject({ error: 'no_such_claim' })
  })

  it('publishes the key of a new agent, so that others can write to it at once', async () => {
    const { agent_id: id } = JSON.parse(await tell('register', '--as', 'fresh', '--json')) as {
      agent_id: string
    }
    const card = JSON.parse(await tell('card', id, '--json')) as { profile: { dm_key: string | null } }
    const [file = ''] = readdirSync(path.join(home, 'fresh')).filter((name) =>
      /-[0-9a-f]{8}\.json$/.test(name),
    )
    expect(card.profile.dm_key).toBe(readTokenFile(path.join(home, 'fresh', file))?.dm_public_key)
  })

  it('keeps several agents of one machine apart', async () => {
    await tell('register', '--as', 'one', '--json')
    const who = async (...argv: string[]) =>
      (JSON.parse(await tell('whoami', '--json', ...argv)) as { agent_id: string }).agent_id
    expect(await who()).toBe(ada.id)
    expect(await who('--as', 'one')).not.toBe(ada.id)
    expect((await run(['whoami', '--as', '../up', '--url', service.url])).exitCode).toBe(2)
    expect((await run(['whoami', '--as', 'two', '--url', service.url])).stderr).toContain(
      'No agent is registered',
    )
  })

  it('has one identity for a service, however its address is spelled', async () => {
    for (const host of ['localhost', '127.0.0.1', '[::1]']) {
      const { stdout } = await run(['whoami', '--json', '--url', service.url.replace('127.0.0.1', host)])
      expect(JSON.parse(stdout)).toMatchObject({ agent_id: ada.id, url: service.url })
    }
  })

  it('takes an agent that was registered elsewhere, by its token on stdin, and no other token', async () => {
    const bob = await service.register()
    const { exitCode } = await run(['import', '-', '--as', 'bob', '--url', service.url], { stdin: bob.token })
    expect([exitCode, JSON.parse(await tell('me', '--as', 'bob', '--json'))]).toMatchObject([
      0,
      { agent_id: bob.id },
    ])
    const card = JSON.parse(await tell('card', bob.id, '--json')) as { profile: { dm_key: string | null } }
    expect(card.profile.dm_key).toMatch(/^[0-9a-f]{64}$/)
    const again = await run(['import', '-', '--as', 'bob', '--url', service.url], { stdin: bob.token })
    expect(again.stderr).toContain('--as NAME keeps another beside it')
    const wrong = await run(['import', OLD, '--as', 'none', '--url', service.url, '--json'])
    expect(JSON.parse(wrong.stdout)).toMatchObject({ error: 'invalid_token' })
    expect(existsSync(path.join(home, 'none'))).toBe(false)
  })

  it('follows a service that has moved, with all that it remembers, once that knows the token', async () => {
    const { url } = await service.addApi()
    await tell('register', '--as', 'moving', '--json')
    await tell('me', '--as', 'moving')
    const before = readdirSync(path.join(home, 'moving')).length
    await withElsewhere(async (elsewhere) => {
      const { stdout } = await run(['move-to', elsewhere, '--as', 'moving', '--url', service.url, '--json'])
      expect(JSON.parse(stdout)).toMatchObject({ error: 'invalid_token' })
    })
    expect(await tell('move-to', url, '--as', 'moving')).toContain(`is at ${url} now`)
    const { stdout } = await run(['me', '--as', 'moving', '--url', url, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ ok: true })
    expect(readdirSync(path.join(home, 'moving'))).toHaveLength(before)
    expect((await run(['me', '--as', 'moving', '--url', service.url])).stderr).toContain(
      'No agent is registered',
    )
  })

  it('lists the ledger, and says its version', async () => {
    expect(await tell('ledger', '--limit', '1')).toMatch(/^entry 1, .*\n"ledger --from 2" goes on\.\n$/)
    expect((await run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  async function withElsewhere(use: (url: string) => Promise<void>): Promise<void> {
    const peer = await startBrokenPeer((res) => refuse(res, 401, 'invalid_token'))
    await use(peer.url)
    await peer.close()
  }

  it('reports a post once', async () => {
    const { id } = await ask('post', 'Buy.')
    expect(await ask('report', String(id), 'spam')).toMatchObject({
      ok: true,
      post_id: id,
      rule: 'spam',
      counted: true,
    })
    expect(await tell('report', String(id), 'spam')).toContain('before, at ')
    expect(await refusalOf('report', String(id), 'rude')).toMatchObject({
      error: 'invalid_field',
      field: 'rule',
    })
  })

  it('shows what the service says about itself, unchanged with --json', async () => {
    for (const [verb, route] of [
      ['rules', '/rules'],
      ['limits', '/limits'],
      ['verify', '/verify'],
    ] as const)
      expect([verb, await ask(verb)]).toEqual([verb, (await service.call('GET', route)).json])
    // Entries of what was done before are still being numbered, and counted.
    await sequencePending(service.ctx, { useLease: false })
    const { counters } = (await service.call('GET', '/stats')).json as { counters?: { agents: number } }
    expect(await ask('stats')).toMatchObject({ ok: true, counters })
    expect(await tell('stats')).toMatch(new RegExp(`^agents: +${counters?.agents}$`, 'm'))
    expect(await tell('rules')).toContain('  spam: ')
    expect(await tell('limits')).toContain('Request rate: no rate limit is enforced')
    expect(await tell('verify')).toBe('No announcements.\n')
  })

  it('gives the receipt of a record before and after it is sealed', async () => {
    const id = String((await ask('claim', 'To be sealed.'))['id'])
    const waiting = {
      ok: false,
      binding: false,
      id,
      entries: [{ entry: { kind: 'claim', data: { claim_id: id } } }],
    }
    expect(await answerOf(3, 'receipt', id)).toMatchObject(waiting)
    await vi.waitFor(
      async () => {
        await service.ctx.queues.enqueue('make-seal', {}, { debounceId: 'make-seal' })
        expect(await answerOf(3, 'receipt', id)).toMatchObject({
          sealed: true,
          verification: { not_binding: [{ reason: 'key_unknown' }] },
        })
      },
      { timeout: 60_000, interval: 300 },
    )
    // Only once the service was asked for its chain is its key known.
    expect(await answerOf(3, 'seals')).toMatchObject({
      ok: false,
      binding: false,
      verification: { not_binding: [{ reason: 'key_unknown' }] },
    })
    expect(await ask('receipt', id)).toMatchObject({
      ok: true,
      binding: true,
      verification: { verdict: 'good' },
    })
    const { entries } = (await ask('receipt', id)) as { entries: [{ seq: number; entry: { id: number } }] }
    expect(await tell('receipt', id)).toContain(
      `${id}: 1 entry, all under a seal.\n  entry ${entries[0].entry.id}, claim, `,
    )
    const chain = await ask('seals', '--after-seq', String(entries[0].seq - 1), '--limit', '1')
    expect(chain).toMatchObject({ ok: true, binding: true, count: 1, seals: [{ seq: entries[0].seq }] })
    expect(await tell('seals')).toMatch(/^1 {2}.* UTC {2}entries 1 to \d+ {2}root [0-9a-f]{64}/)
    expect(await refusalOf('receipt', 'clm_none')).toMatchObject({ error: 'no_such_record' })
  })

  it('blocks a sender, takes its messages again, and reads one sender alone', async () => {
    const [sender, other] = [await service.registerWithPass(), await service.registerWithPass()]
    const { agent_id: to } = await ask('me')
    const write = async (from: TestAgent) =>
      (await service.call('POST', '/dm', { token: from.token, body: { to, box: 'x' } })).status
    expect(await ask('dm', 'block', sender.id)).toEqual({
      ok: true,
      agent_id: sender.id,
      blocked: true,
      changed: true,
    })
    expect(await tell('dm', 'block', sender.id)).toBe(`${sender.id} was blocked before.\n`)
    expect([await write(sender), await write(other)]).toEqual([409, 201])
    expect(await tell('dm', 'unblock', sender.id)).toBe(`${sender.id} can write to you again.\n`)
    expect(await write(sender)).toBe(201)
    expect(await ask('dm', 'read', '--from', sender.id)).toMatchObject({
      messages: [{ from: sender.id }],
      count: 1,
      more: false,
    })
    expect(await ask('dm', 'read')).toMatchObject({ messages: [{ from: other.id }], count: 1 })
    expect(await refusalOf('dm', 'block', 'agt_none')).toMatchObject({
      error: 'no_such_agent',
      field: 'agent_id',
    })
  })
})
