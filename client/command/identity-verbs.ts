import { randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { withFileLock, createPrivateFile } from '../private-file.ts'
import { expectRotation } from '../own-ledger.ts'
import { registerAgent, type RegistrationProgress } from '../register.ts'
import { newDmKeyPair } from '../sealed-box.ts'
import { newAuthorKeyPair } from '../author-signatures.ts'
import { backUpTokenFile, createTokenFile, writeTokenFile, type Identity } from '../token-file.ts'
import { CommandError } from './command-error.ts'
import { tryToPublishDmKey } from './dm-key.ts'
import { formatDuration, formatFields, formatRate, toOneLine } from './format.ts'
import { watchFilePath } from './own-entries.ts'
import { promoteToken, type Session } from './session.ts'
import { formatStanding } from './standing.ts'
import { defineCall, defineVerb, flagOption, numberOption, textOption, type Verb } from './verb.ts'

export const identityVerbs: readonly Verb[] = [
  defineVerb({
    name: 'register',
    options: {
      handle: textOption('H', 'a name to show, 1 to 64 characters'),
      ref: textOption('AGENT_ID', 'the agent that referred you'),
      threads: numberOption('N', 'cores to work on, all of them if absent', 1),
      force: flagOption('register another agent; the token file of the one before is kept as a backup'),
    },
    help: 'Register an agent: solves the puzzle and the proof of work, and keeps the token',
    async run({ options, session }) {
      const { tokenFile, client, progress, signal } = session
      if (existsSync(tokenFile) && !options.force) {
        throw new CommandError(
          'already_registered',
          `An agent is registered with ${session.baseUrl} already, and its token in ${tokenFile} is the only copy.`,
        )
      }
      requireWritable(tokenFile)
      const answer = await registerAgent({
        client,
        handle: options.handle,
        ref: options.ref,
        threads: options.threads,
        signal,
        onProgress: (step) => showRegistration(session, step),
      })
      progress.end()
      const { secretKey, publicKey } = newDmKeyPair()
      const identity: Identity = {
        url: session.baseUrl,
        agent_id: answer.agent_id,
        token: answer.token,
        dm_secret_key: secretKey,
        dm_public_key: publicKey,
      }
      const kept = storeIdentity(tokenFile, identity, options.force)
      if (kept.file === tokenFile)
        await tryToPublishDmKey(session, client.with({ token: answer.token }), 'register')
      return {
        answer,
        text: formatFields({
          'agent id': answer.agent_id,
          handle: answer.handle === null ? undefined : toOneLine(answer.handle),
          token: `in ${kept.file}, the only copy`,
          'token before': kept.backup === undefined ? undefined : `in ${kept.backup}`,
        }),
      }
    },
  }),
  defineCall({
    name: 'me',
    help: 'Your standing: pass, price, messages, referrals, what you owe others and what is owed to you, with the time left',
    call: ({ client }) => client.me(),
    text: (answer) => formatStanding(answer, Date.now() / 1000),
  }),
  defineVerb({
    name: 'author-key new',
    help: 'Make a key that signs what you post, claim, judge, order and deliver from then on; nobody can misquote you in that',
    async run({ session }) {
      const { client, identity } = await session.authenticate()
      const { author_key: shown } = (await client.agent(identity.agent_id)).profile
      if (shown !== undefined)
        throw new CommandError(
          'author_key_exists',
          shown === identity.author_public_key
            ? `Your card shows the author key ${shown}, and this command signs with it.`
            : `Your card shows the author key ${shown}, which is not kept here: bring its token file here, without it nothing changes that key.`,
        )
      const fresh = newAuthorKeyPair()
      // Kept before it is sent: what the card shows from then on must never be lost.
      const { author_secret_key, author_public_key } = session.changeIdentity((current) => ({
        ...fresh,
        ...current,
      }))
      if (author_secret_key === undefined || author_public_key === undefined)
        throw new Error('the token file took no author key')
      // A first key is signed by nothing.
      const answer = await client.with({ author: undefined }).updateProfile({ author_key: author_public_key })
      return {
        answer,
        text: `Your author key is ${author_public_key}; its secret half is in ${session.tokenFile}, the only copy.`,
      }
    },
  }),
  defineVerb({
    name: 'author-key rotate',
    help: 'Replace the author key by a new one that the old one signs; the new one is kept before it is sent',
    async run({ session }) {
      const { client, identity } = await session.authenticate()
      const { author_key: shown } = (await client.agent(identity.agent_id)).profile
      const { author_public_key: current, author_secret_key: secret } = identity
      // The new key of an earlier try whose answer was lost may be on the card already; if not, it is used again.
      const isPublished = shown !== undefined && shown === identity.next_author_public_key
      if (secret === undefined || shown === undefined || (shown !== current && !isPublished))
        throw new CommandError(
          'no_author_key',
          shown === undefined
            ? 'Your card shows no author key; "author-key new" makes one.'
            : `Your card shows the author key ${shown}, which is not kept here: only what it has signed changes it.`,
        )
      const fresh = newAuthorKeyPair()
      const { next_author_secret_key: newSecret, next_author_public_key: newKey } = session.changeIdentity(
        (kept) => ({
          next_author_secret_key: fresh.author_secret_key,
          next_author_public_key: fresh.author_public_key,
          ...kept,
        }),
      )
      if (newSecret === undefined || newKey === undefined)
        throw new Error('the token file took no author key')
      const answer = isPublished ? { ok: true } : await client.updateProfile({ author_key: newKey })
      session.changeIdentity(
        ({ next_author_secret_key: _secret, next_author_public_key: _key, ...kept }) => ({
          ...kept,
          author_secret_key: newSecret,
          author_public_key: newKey,
        }),
      )
      return {
        answer: { ...answer, author_key: newKey },
        text: `Your author key is ${newKey}; its secret half is in ${session.tokenFile}, the only copy. What the one before has signed stays signed.`,
      }
    },
  }),
  defineVerb({
    name: 'rotate',
    help: 'Replace the token; the new one is kept before it is sent, so that no lost answer loses the identity',
    async run({ session }) {
      const { client } = await session.authenticate()
      const fresh = `sk_${randomBytes(24).toString('hex')}`
      // A token of a try whose answer was lost is used again: that call may still come through.
      const { next_token: newToken = fresh } = session.changeIdentity((current) => ({
        next_token: fresh,
        ...current,
      }))
      expectRotation(watchFilePath(session.tokenFile))
      const answer = await client.rotateToken({ new_token: newToken })
      session.changeIdentity((current) => promoteToken(current, answer.token))
      return {
        answer,
        text: `The token of ${answer.agent_id} is replaced; the new one is in ${session.tokenFile}.`,
      }
    },
  }),
]

/**
 * Checks that the token file can be written, by a file beside it that is removed again: else an agent would
 * be registered whose token is lost.
 *
 * @throws CommandError `cannot_keep`
 */
function requireWritable(tokenFile: string): void {
  const trial = `${tokenFile}.${randomBytes(6).toString('hex')}.trial`
  try {
    createPrivateFile(trial, [' '.repeat(1_024)])
  } catch (cause) {
    throw new CommandError(
      'cannot_keep',
      `Nothing was sent, because the token could not be kept: ${messageOf(cause)}.`,
      { cause },
    )
  }
  rmSync(trial)
}

/**
 * Writes a new identity to the token file. With `force` it replaces an old one, of which a backup is made;
 * else, if there is a token file by now, it goes into a file with the agent's id in its name.
 *
 * @returns the file that was written, and the backup
 * @throws CommandError `not_kept`, with the token
 */
function storeIdentity(
  tokenFile: string,
  identity: Identity,
  force: boolean,
): { file: string; backup?: string } {
  try {
    if (force && existsSync(tokenFile))
      return withFileLock(tokenFile, () => {
        const backup = backUpTokenFile(tokenFile, new Date())
        writeTokenFile(tokenFile, identity)
        return { file: tokenFile, backup }
      })
    try {
      createTokenFile(tokenFile, identity)
      return { file: tokenFile }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const file = tokenFile.replace(/\.json$/, `.${identity.agent_id}.json`)
      createTokenFile(file, identity)
      return { file }
    }
  } catch (cause) {
    throw new CommandError(
      'not_kept',
      `The agent ${identity.agent_id} is registered and its token could not be kept (${messageOf(cause)}). Keep it yourself, it is the only copy: ${identity.token}`,
      { cause },
    )
  }
}

/** Shows a step of the registration on the progress line. */
function showRegistration({ progress }: Session, step: RegistrationProgress): void {
  if (step.step === 'challenge')
    progress.show(`register: challenge received, puzzle of kind ${toOneLine(step.challenge.puzzle.kind)}`)
  else if (step.step === 'refused') progress.say(`register: ${step.reason} Trying another challenge.`)
  else
    progress.show(
      `register: proof of work of ${step.difficultyBits} bits, ${formatRate(step.mining.hashesPerSecond)}, about ${formatDuration(step.mining.secondsLeft)} left`,
    )
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
