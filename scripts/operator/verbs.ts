import { backupVerbs } from './backup-verbs.ts'
import { booksVerbs } from './books-verbs.ts'
import { checkVerbs } from './check-verbs.ts'
import { ledgerVerbs } from './ledger-verbs.ts'
import { marketVerbs } from './market-verbs.ts'
import { moderationVerbs } from './moderation-verbs.ts'
import { networkVerbs } from './network-verbs.ts'
import { paymentVerbs } from './payment-verbs.ts'
import { reconcileVerbs } from './reconcile-verbs.ts'
import { showVerbs } from './show-verbs.ts'
import { statusVerbs } from './status-verbs.ts'
import type { OperatorVerb, OperatorVerbGroup } from './verb.ts'

/** Every verb but "help", as the help lists them. A verb is one entry in its file's list. */
export const OPERATOR_VERB_GROUPS: readonly OperatorVerbGroup[] = [
  { title: 'At a glance', verbs: [...statusVerbs, ...showVerbs, ...checkVerbs] },
  { title: 'Back up and restore', verbs: backupVerbs },
  { title: 'Agents and posts', verbs: moderationVerbs },
  { title: 'Proposals and announcements', verbs: networkVerbs },
  { title: 'Payments', verbs: [...paymentVerbs, ...booksVerbs, ...reconcileVerbs] },
  { title: 'The market', verbs: marketVerbs },
  { title: 'Ledger and keys', verbs: ledgerVerbs },
]

export const OPERATOR_VERBS: readonly OperatorVerb[] = OPERATOR_VERB_GROUPS.flatMap(({ verbs }) => verbs)
