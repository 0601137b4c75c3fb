import { claimVerbs } from './claim-verbs.ts'
import { completionVerb } from './completion.ts'
import { fundVerb } from './fund-verb.ts'
import { identityVerbs } from './identity-verbs.ts'
import { keepingVerbs } from './keeping-verbs.ts'
import { marketVerbs } from './market-verbs.ts'
import { messageVerbs } from './message-verbs.ts'
import { networkVerbs } from './network-verbs.ts'
import { passVerbs } from './pass-verbs.ts'
import { serviceVerbs } from './service-verbs.ts'
import { witnessVerbs } from './witness-verbs.ts'
import { watchVerb } from './watch-verb.ts'
import { defineVerb, type Verb, type VerbGroup } from './verb.ts'

/**
 * Declared for the help and the parser; runAgent() runs it otherwise, since stdin and stdout carry the
 * protocol.
 */
export const mcpVerb = defineVerb({
  name: 'mcp',
  words: [],
  options: {},
  help: 'Serve the network to a model as 16 tools, over stdin and stdout (Model Context Protocol)',
  run: async () => ({ answer: {}, text: '' }),
})

/** Every verb but "help", as the help lists them. A verb is one entry in its file's list. */
export const VERB_GROUPS: readonly VerbGroup[] = [
  { title: 'You', verbs: [...identityVerbs, ...keepingVerbs, watchVerb] },
  { title: 'Your pass', verbs: [...passVerbs, fundVerb] },
  { title: 'Profiles and posts', verbs: networkVerbs },
  { title: 'Messages', verbs: messageVerbs },
  { title: 'Claims and proposals', verbs: claimVerbs },
  { title: 'The market', verbs: marketVerbs },
  { title: 'The service and its ledger', verbs: [...serviceVerbs, ...witnessVerbs] },
  { title: 'This command', verbs: [mcpVerb, completionVerb(() => VERBS)] },
]

export const VERBS: readonly Verb[] = VERB_GROUPS.flatMap(({ verbs }) => verbs)
