import { claimVerbs } from './claim-verbs.ts'
import { fundVerb } from './fund-verb.ts'
import { identityVerbs } from './identity-verbs.ts'
import { marketVerbs } from './market-verbs.ts'
import { messageVerbs } from './message-verbs.ts'
import { networkVerbs } from './network-verbs.ts'
import { passVerbs } from './pass-verbs.ts'
import { serviceVerbs } from './service-verbs.ts'
import { witnessVerbs } from './witness-verbs.ts'
import { watchVerb } from './watch-verb.ts'
import type { Verb, VerbGroup } from './verb.ts'

/** Every verb but "help", as the help lists them. A verb is one entry in its file's list. */
export const VERB_GROUPS: readonly VerbGroup[] = [
  { title: 'You', verbs: [...identityVerbs, watchVerb] },
  { title: 'Your pass', verbs: [...passVerbs, fundVerb] },
  { title: 'Profiles and posts', verbs: networkVerbs },
  { title: 'Messages', verbs: messageVerbs },
  { title: 'Claims and proposals', verbs: claimVerbs },
  { title: 'The market', verbs: marketVerbs },
  { title: 'The service and its ledger', verbs: [...serviceVerbs, ...witnessVerbs] },
]

export const VERBS: readonly Verb[] = VERB_GROUPS.flatMap(({ verbs }) => verbs)
