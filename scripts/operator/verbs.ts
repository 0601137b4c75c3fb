import type { CommandSpec } from '../../client/command/program.ts'
import { flagOption } from '../../client/command/verb.ts'
import { backupVerbs } from './backup-verbs.ts'
import { booksVerbs } from './books-verbs.ts'
import { capacityVerbs } from './capacity-verbs.ts'
import { checkVerbs } from './check-verbs.ts'
import { ledgerVerbs } from './ledger-verbs.ts'
import { marketVerbs } from './market-verbs.ts'
import { moderationVerbs } from './moderation-verbs.ts'
import { networkVerbs } from './network-verbs.ts'
import { paymentVerbs } from './payment-verbs.ts'
import { reconcileVerbs } from './reconcile-verbs.ts'
import { showVerbs } from './show-verbs.ts'
import { solvencyVerbs } from './solvency-verbs.ts'
import { statusVerbs } from './status-verbs.ts'
import { unassignedVerbs } from './unassigned-verbs.ts'
import type { OperatorVerb, OperatorVerbGroup } from './verb.ts'

/** Every verb but "help", as the help lists them. A verb is one entry in its file's list. */
export const OPERATOR_VERB_GROUPS: readonly OperatorVerbGroup[] = [
  { title: 'At a glance', verbs: [...statusVerbs, ...capacityVerbs, ...showVerbs, ...checkVerbs] },
  { title: 'Back up and restore', verbs: backupVerbs },
  { title: 'Agents and posts', verbs: moderationVerbs },
  { title: 'Proposals and announcements', verbs: networkVerbs },
  { title: 'Payments', verbs: [...paymentVerbs, ...unassignedVerbs, ...booksVerbs, ...reconcileVerbs] },
  { title: 'The market', verbs: marketVerbs },
  { title: 'Ledger and keys', verbs: [...ledgerVerbs, ...solvencyVerbs] },
]

export const OPERATOR_VERBS: readonly OperatorVerb[] = OPERATOR_VERB_GROUPS.flatMap(({ verbs }) => verbs)

export const OPERATOR: CommandSpec<OperatorVerb> = {
  name: 'operator',
  usage: 'npm run --silent operator -- VERB [words] [--json] [--dry-run]',
  groups: OPERATOR_VERB_GROUPS,
  common: {
    json: flagOption('print what was done as one JSON object, and nothing else'),
    help: flagOption('say what the verb does'),
  },
  notes: [
    'VERB --help says what a verb takes. It works on the network that runs from DATA_DIR, or on MONGODB_URL and REDIS_URL.',
    'Whatever changes a record takes --dry-run, and leaves an entry in the ledger. What needs a key is done by the worker that has it.',
    'Exit codes: 0 done, 1 refused or not reached, 2 not understood; of status: 0 fine, 1 look, 2 act.',
  ],
}
