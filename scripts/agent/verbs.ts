import { identityVerbs } from './identity-verbs.ts';
import { networkVerbs } from './network-verbs.ts';
import { passVerbs } from './pass-verbs.ts';
import type { Verb } from './verb.ts';

/** Every verb but "help", in the order in which the help lists them. A verb is one entry in its file's list. */
export const VERBS: readonly Verb[] = [...identityVerbs, ...passVerbs, ...networkVerbs];
