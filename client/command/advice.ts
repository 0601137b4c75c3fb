import { CodedError, TransportError } from '../errors.ts'
import { MessageKeyError } from '../messages.ts'

/** Who met a failure: what can be done about it has other names on a command line than in a model's tools. */
export type Surface = 'command' | 'tools'

/** By code of a failure, what can be done about it. */
const ADVICE: Readonly<Record<string, Readonly<Record<Surface, string>>>> = {
  unsealed_key: {
    command:
      '"seals" remembers the service\'s key, and entries are sealed every few minutes; --unsealed-key trusts the card all the same.',
    tools:
      'Call "verify" once, and try again after the next seal, in some minutes; "trust_card": true trusts the card all the same, and the operator could then read along.',
  },
  key_changed: {
    command: 'An accepted change is named by --accept-key.',
    tools: 'Ask your user before you accept the change: "accept_key" takes the new key as it stands above.',
  },
  already_registered: {
    command: '--force registers another and keeps that file as a backup.',
    tools: 'Go on as that agent: "me" shows it.',
  },
  order_under_way: {
    command: '"mine" without --days finishes it, "mine --new" leaves it.',
    tools: 'Finish that one first: "pass_days" takes its number of days.',
  },
}

/** A delivery need not be sealed, whatever is wrong with the key. */
const UNSEALED_DELIVERY: Readonly<Record<Surface, string>> = {
  command: '"market deliver --plain" delivers it as it is, and the operator can read it.',
  tools: '"plain": true delivers it as it is, and the operator can read it.',
}

/** By verb, where to look after a lost answer before the same is sent again. */
const AFTER_LOST_ANSWER: Readonly<Record<string, Readonly<Record<Surface, string>>>> = {
  register: {
    command: 'An agent may exist whose token nobody has; "register" again makes a new one.',
    tools: 'An agent may exist whose token nobody has; "register" again makes a new one.',
  },
  post: {
    command: '"card me" shows whether it is there.',
    tools: '"feed" shows whether it is there.',
  },
  'claim make': {
    command: '"card me" shows whether it is there.',
    tools: '"feed" with what "claims" shows whether it is there.',
  },
  'market offer': {
    command: '"market offers --agent me" shows whether it is there.',
    tools: '"feed" with what "offers" shows whether it is there.',
  },
}

/**
 * The message of a failure, with what can be done about it in the words of the surface that met it.
 *
 * @param verb the verb that failed, if one was named
 */
export function adviseOn(error: unknown, surface: Surface, verb?: string): string {
  const message = error instanceof Error ? error.message : String(error)
  const advice = error instanceof CodedError ? ADVICE[error.code]?.[surface] : undefined
  const more =
    error instanceof MessageKeyError && verb === 'market deliver' ? UNSEALED_DELIVERY[surface] : undefined
  const isLost = error instanceof TransportError && error.mayHaveArrived
  const look = isLost && verb !== undefined ? AFTER_LOST_ANSWER[verb]?.[surface] : undefined
  return [message, advice, more, look].filter((part) => part !== undefined).join(' ')
}
