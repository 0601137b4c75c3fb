import { setTimeout as sleep } from 'node:timers/promises'
import { isFailedCall } from '../errors.ts'
import { witnessCheckpoint, type Witnessed } from '../witness.ts'
import { formatFields } from './format.ts'
import type { Session } from './session.ts'
import { defineVerb, flagOption, type Verb } from './verb.ts'
import { VERIFY_OPTIONS } from './verification.ts'

const WATCH_EVERY_SECONDS = 60

export const witnessVerbs: readonly Verb[] = [
  defineVerb({
    name: 'witness',
    options: {
      watch: flagOption('look again every minute until it is stopped'),
      pubkey: VERIFY_OPTIONS.pubkey,
    },
    help: 'Cosign the newest checkpoint of the ledger, if it goes on from what you cosigned before',
    async run({ options: { watch, pubkey }, session }) {
      let answer = await witness(session, pubkey)
      while (watch) {
        session.progress.show(`witness: size ${answer.size} is cosigned`)
        await sleep(WATCH_EVERY_SECONDS * 1_000, undefined, { signal: session.signal })
        try {
          answer = await witness(session, pubkey)
        } catch (error) {
          // A service that is away is asked again; one that contradicts itself is not.
          if (!isFailedCall(error)) throw error
          session.progress.say(`witness: ${error.message}`)
        }
      }
      return {
        answer: { ok: true, ...answer },
        text: formatFields({
          log: answer.origin,
          size: answer.size,
          root: answer.root,
          'your key': answer.vkey,
          cosigned: answer.counted ? 'and handed in' : 'before',
        }),
      }
    },
  }),
]

/** Cosigns the newest checkpoint. @throws WitnessError if it must not be cosigned */
async function witness(session: Session, pubkeys: readonly string[] | undefined): Promise<Witnessed> {
  const { client, identity } = await session.authenticate()
  return witnessCheckpoint({
    client,
    agentId: identity.agent_id,
    witnessFile: session.tokenFile.replace(/\.json$/, '.witness.json'),
    trust: { stateFile: session.trust.stateFile, pubkeys },
    now: Math.floor(Date.now() / 1000),
  })
}
