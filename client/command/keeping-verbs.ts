import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { createClient } from '../client.ts'
import { readPrivateFile, writePrivateFile } from '../private-file.ts'
import { newDmKeyPair } from '../sealed-box.ts'
import { createTokenFile, type Identity } from '../token-file.ts'
import { CommandError, usageError } from './command-error.ts'
import { tryToPublishDmKey } from './dm-key.ts'
import { formatFields } from './format.ts'
import { findTokenFile, isSameService, parseUrl } from './session.ts'
import { defineVerb, type Verb } from './verb.ts'

/** Verbs about the files that identities are kept in. */
export const keepingVerbs: readonly Verb[] = [
  defineVerb({
    name: 'whoami',
    help: 'Which agent this command is, where, and in which file; asks nobody',
    async run({ session }) {
      const { agent_id, url, dm_public_key: dmKey, author_public_key: authorKey } = session.requireIdentity()
      return {
        answer: { ok: true, agent_id, url, token_file: session.tokenFile },
        text: formatFields({
          'agent id': agent_id,
          service: url,
          'token in': session.tokenFile,
          'message key': dmKey,
          'author key': authorKey,
        }),
      }
    },
  }),
  defineVerb({
    name: 'import',
    words: ['TOKEN'],
    help: 'Keep an agent that was registered elsewhere; TOKEN should be - for stdin, since others see the words of a command',
    async run({ words: [word], session }) {
      const token = (await session.readText(word)).trim()
      if (!/^sk_[0-9a-f]{48}$/.test(token))
        throw usageError('import expected a token: sk_ and 48 hex characters.')
      if (existsSync(session.tokenFile))
        throw new CommandError(
          'already_registered',
          `An agent of ${session.baseUrl} is kept in ${session.tokenFile} already; --as NAME keeps another beside it.`,
        )
      const client = session.client.with({ token })
      const answer = await client.me()
      // A key on the card is of a pair that lies elsewhere; only an agent without one gets a new pair.
      const { dm_key: shown } = (await client.agent(answer.agent_id)).profile
      const { secretKey, publicKey } = newDmKeyPair()
      const identity: Identity = {
        url: session.baseUrl,
        agent_id: answer.agent_id,
        token,
        ...(shown === null ? { dm_secret_key: secretKey, dm_public_key: publicKey } : {}),
      }
      createTokenFile(session.tokenFile, identity)
      if (shown === null) await tryToPublishDmKey(session, client, 'import')
      const note =
        shown === null
          ? ''
          : `\nIts message key ${shown} is not here: bring the pair, or nothing that is sealed to it opens.`
      return { answer, text: `Kept ${answer.agent_id} in ${session.tokenFile}.${note}` }
    },
  }),
  defineVerb({
    name: 'move-to',
    words: ['NEW_URL'],
    help: 'The service has moved: use this agent, its keys and what it remembers at NEW_URL, once that knows it',
    async run({ words: [text], session }) {
      const to = parseUrl(text)
      const identity = session.requireIdentity()
      if (isSameService(to, identity.url)) throw usageError(`${to} is where this agent is.`)
      const file = findTokenFile(session.home, to)
      if (existsSync(file))
        throw new CommandError('already_registered', `${file} keeps an agent of ${to} already.`)
      const client = createClient({
        baseUrl: to,
        token: identity.token,
        signal: session.signal,
        insecure: session.insecure,
      })
      const answer = await client.me()
      if (answer.agent_id !== identity.agent_id)
        throw new CommandError(
          'other_agent',
          `${to} knows this token as ${answer.agent_id}: nothing was moved.`,
        )
      moveIdentity(session.tokenFile, file, { ...identity, url: to })
      return { answer, text: `${identity.agent_id} is at ${to} now; its token is in ${file}.` }
    },
  }),
]

/**
 * Moves an identity from one token file to another, with the files beside it that belong to it. The new token
 * file is written before the old one is removed.
 */
function moveIdentity(from: string, to: string, identity: Identity): void {
  const [stem, newStem] = [from, to].map((file) => file.replace(/\.json$/, '')) as [string, string]
  createTokenFile(to, identity)
  for (const name of readdirSync(path.dirname(stem)))
    if (
      name.startsWith(`${path.basename(stem)}.`) &&
      name !== path.basename(from) &&
      !/\.lock(\.\d+)?$/.test(name)
    )
      renameSync(path.join(path.dirname(stem), name), newStem + name.slice(path.basename(stem).length))
  rmSync(from)
  renameService(`${newStem}.seals.json`, identity.url)
}

/** Changes the address under which the file keeps what seal-verify.mjs remembers of its one service. */
function renameService(stateFile: string, url: string): void {
  const remembered = readPrivateFile(stateFile, (value) => value)
  if (typeof remembered !== 'object' || remembered === null) return
  const [state] = Object.values(remembered)
  writePrivateFile(stateFile, { [url]: state })
}
