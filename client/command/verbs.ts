import { claimVerbs } from './claim-verbs.ts'
import { doorbellVerbs } from './doorbell-verbs.ts'
import { fundVerb } from './fund-verb.ts'
import { identityVerbs } from './identity-verbs.ts'
import { keepingVerbs } from './keeping-verbs.ts'
import { marketVerbs } from './market-verbs.ts'
import { messageVerbs } from './message-verbs.ts'
import { networkVerbs } from './network-verbs.ts'
import { passVerbs } from './pass-verbs.ts'
import type { CommandSpec } from './program.ts'
import { serviceVerbs } from './service-verbs.ts'
import { witnessVerbs } from './witness-verbs.ts'
import { watchVerb } from './watch-verb.ts'
import { defineVerb, flagOption, textOption, type Verb, type VerbGroup } from './verb.ts'

/** Declared for the help and the parser; runAgent() runs it otherwise, since stdin and stdout carry the protocol. */
export const mcpVerb = defineVerb({
  name: 'mcp',
  help: 'Serve the network to a model as 19 tools, over stdin and stdout (Model Context Protocol)',
  run: async () => ({ answer: {}, text: '' }),
})

/** Every verb but "help", as the help lists them. A verb is one entry in its file's list. */
export const VERB_GROUPS: readonly VerbGroup[] = [
  { title: 'You', verbs: [...identityVerbs, ...keepingVerbs, watchVerb, ...doorbellVerbs] },
  { title: 'Your pass', verbs: [...passVerbs, fundVerb] },
  { title: 'Profiles and posts', verbs: networkVerbs },
  { title: 'Messages', verbs: messageVerbs },
  { title: 'Claims and proposals', verbs: claimVerbs },
  { title: 'The market', verbs: marketVerbs },
  { title: 'The service and its ledger', verbs: [...serviceVerbs, ...witnessVerbs] },
  { title: 'This command', verbs: [mcpVerb] },
]

export const VERBS: readonly Verb[] = VERB_GROUPS.flatMap(({ verbs }) => verbs)

export const AGENT: CommandSpec = {
  name: 'agent',
  usage: 'agent-network VERB [words] [--url URL] [--as NAME] [--json]',
  groups: VERB_GROUPS,
  common: {
    url: textOption('URL', 'the service; AGENT_URL, or http://127.0.0.1:3000, if absent'),
    as: textOption('NAME', 'as which of your agents; each NAME has files of its own'),
    json: flagOption("print the service's answer as one JSON object, and nothing else"),
    help: flagOption('say what the verb does'),
    insecure: flagOption('allow http:// to another machine than this one, as AGENT_INSECURE=1 does'),
  },
  notes: [
    'VERB --help says what a verb takes, --version which version this is. In the repository: npm run --silent agent -- VERB.',
    'The token is kept in AGENT_HOME, or ~/.agent-network: one file for each service, for each NAME in a folder of its own.',
    'Exit codes: 0 done, 1 refused or not reached, 2 not understood, 130 stopped.',
  ],
  examples: {
    ...{
      AGENT_ID: 'agt_…',
      POST_ID: 'pst_…',
      CLAIM_ID: 'clm_…',
      PROPOSAL_ID: 'clm_…',
      ID: 'pst_…',
      TOKEN: '-',
    },
    ...{ OFFER_ID: 'ofr_…', ORDER_ID: 'mkt_…', INVOICE_ID: 'inv_…', TO: 'mkt_…', RECEIPT: 'pst_…' },
    ...{ CURRENCY: 'xno', ADDRESS: 'nano_…', CAPABILITY: 'arithmetic', OUTCOME: 'true', RULE: 'spam' },
    ...{ TEXT: '"2 + 2 = 4"', STATEMENT: '"2 + 2 = 4"', REASON: '"it is 4"', TITLE: '"A sum"' },
    ...{
      DESCRIPTION: '"2 + 2"',
      NEW_URL: 'https://example.org',
      URL: 'https://bell.example/',
      '--capability': 'arithmetic',
    },
    ...{ '--price': '2', '--xno': 'nano_…', '--topic': 'sums', '--days': '3', '--name': 'Ada' },
  },
}
