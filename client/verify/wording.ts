/*
 * Everything that the verifier says of what it checks: the fixed word, and behind a dot which of its sentences, if it
 * has several. `{}` stands for what is shown, in this order. seal_verify.py has the same table, which a test compares.
 */
export const WORDING = {
  // ——— what does not hold
  at_goes_back: 'at {} is before the {} of seal {}',
  bad_signature: 'the signature is not that of {} over this payload',
  chain_shortened: 'ends at seal {}, but seal {} was seen before',
  conflicting_seals: 'brings another seal {} than an entry before it',
  'entry_gap.missing': 'entry {} is missing from the ledger',
  'entry_gap.other': 'the ledger gives entry {} in its place',
  'from_the_future.here':
    "is dated {}{}; this machine's clock says {}: it is of the future, or this machine's clock is behind",
  'from_the_future.there': "is dated {}{}; this machine's clock says {}: the service's own Date is {}",
  'from_the_future.many': ', the latest of {} seals that are dated after now',
  'history_rewritten.entry': 'is as it was, but an entry before it is another than when it was seen',
  'history_rewritten.in_chain': 'has another payload than when it was seen in the chain',
  'history_rewritten.payload': 'has another payload than when it was seen before',
  key_changed:
    "signed with {}, not with {}; if you know this key to be the service's, accept it: --pubkey for each key",
  'log_rewritten.entry': 'entry {} is not the one in the log that was seen before, of size {}',
  'log_rewritten.log':
    'the log of size {} with the root {} does not agree with the one seen before, of size {} with the root {}',
  'log_rewritten.two': 'two checkpoints of size {} differ',
  'malformed_entry.form': 'an entry is not {id, at, kind, data}',
  'malformed_entry.json': '{}',
  malformed_proof: 'it is not leaf, root, an index below the count, and a path of {hash, side}',
  'malformed_receipt.entries': 'it has no entries',
  'malformed_receipt.id': 'it names no record',
  'malformed_receipt.openings': 'openings is not a list',
  'malformed_receipt.order': 'the entries are not in ascending order',
  'malformed_receipt.seal': 'stands under seal {} and brings seal {}',
  'malformed_receipt.sealed': 'an entry does not say whether it is sealed',
  'malformed_receipt.whole': 'sealed does not say whether all its entries are',
  'malformed_seal.form': 'a seal is not an object',
  'malformed_seal.fields': 'missing or of the wrong form: {}',
  'malformed_seal.signature': 'it lacks an Ed25519 signature, its key or its time',
  'malformed_seal.signed': 'it does not say whether it is signed',
  'no_contradiction.logs': 'it is not two checkpoints of one log that contradict each other',
  'no_contradiction.seals': 'it is not two different seals of one number',
  order_overdrawn: 'order {} has paid out more than was paid for it',
  path_shape: 'the path has another number of steps than index {} of {} takes',
  'range_gap.first': 'the first seal begins at entry {}, not 1',
  'range_gap.next': 'begins at entry {}, {} was due',
  'range_gap.within': 'begins at entry {}, seal {} ends at {}',
  seq_gap: 'seal {} was due',
  signature_withdrawn: 'was signed when it was seen before',
  signed_before_made: 'signed at {}, before it was made at {}',
  weak_key: 'anyone can sign for the key {}',
  'wrong_author.agent': 'the entry names no agent',
  'wrong_author.form': 'its author is not {author_key, seen: {size, root}, signature}',
  'wrong_author.json': '{}',
  'wrong_author.not_carried': 'the entry carries no signature',
  'wrong_author.not_shown': 'the entry carries a signature, and none is shown',
  'wrong_author.other': 'the entry carries another signature',
  'wrong_author.signature': 'the signature is not that of {} over what the entry says',
  'wrong_author.standing': 'changes a key without the signature of the author key that stood, {}',
  'wrong_author.weak': 'anyone can sign for the key {}',
  'wrong_checkpoint.form': 'it is no checkpoint: {}',
  'wrong_checkpoint.key': 'it names no key',
  'wrong_checkpoint.signer': 'no known key has signed the checkpoint, or not this one',
  'wrong_checkpoint.text': 'it is no text in UTF-8',
  wrong_closing: 'does not end with its own closing entry of the time {}',
  wrong_count: 'count is {} for the entries {} to {}',
  'wrong_fee.stated': 'the order states the fee {}, and {} are due',
  'wrong_fee.taken': 'the fees of {} come to {}, and {} are due at most',
  wrong_index: 'index {} of seal {} is entry {}',
  wrong_key: 'signed with {}, which is not a pinned key',
  'wrong_keys.form':
    'its closing entry states the keys in form 1, in which revoked keys stay, after one that stated form 2',
  'wrong_keys.state': 'its closing entry states the keys {}, the entries give {}',
  wrong_leaf: "the entry's leaf is {}, not {}",
  wrong_liabilities: 'its closing entry states the liabilities {}, the entries give {}',
  wrong_log: 'its closing entry states the log {}, the entries give {}',
  'wrong_log_proof.path': "the path does not lead from entry {} to the log's root",
  'wrong_log_proof.text': 'it is not the text of a tlog-proof',
  'wrong_opening.commitment': 'salt and content do not give the commitment in {}',
  'wrong_opening.entry': 'there is no such entry in the receipt',
  'wrong_opening.field': 'the entry has no commitment in {}',
  'wrong_opening.form': 'it is not {entry_id, field, salt, content}',
  'wrong_opening.json': '{}',
  'wrong_opening.record': 'its content is of another record, {}',
  wrong_owed: 'its closing entry states {}, the entries give {}',
  'wrong_prev_root.first': 'the first seal names a previous root',
  'wrong_prev_root.none': 'only the first seal has no previous root',
  'wrong_prev_root.other': 'names {}, the root of seal {} is {}',
  wrong_prev_seal: 'its closing entry names {} as the seal before it, not {}',
  'wrong_record.making': 'has no entry of kind {}, without which there is no {}',
  'wrong_record.other': 'is no entry of {}',
  'wrong_root.entries': 'its entries {} to {} have the root {}, not {}',
  'wrong_root.path': 'the path of index {} of {} leads to another root',
  wrong_side: 'the path has a sibling on another side than index {} of {} has it',

  // ——— why what holds binds nobody
  behind: 'a log of {} entries was seen before, and the one that is shown ends at entry {}',
  'key_unknown.chain':
    "nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey",
  'key_unknown.file':
    "nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey, or check the service first, so that its key is remembered",
  no_signed_seal: 'there is no signed seal',
  'not_compared.checks':
    'other checks of this service went on meanwhile, and could not be compared with this one',
  'not_compared.dump':
    'it ends at seal {}, and what was seen here at seal {}: nothing tells whether that goes on from it',
  'not_compared.note': 'nothing that was seen of this log could be compared with it',
  'not_compared.receipt':
    'seal {} lies in the ledger that was seen here, and nothing shows that it is the same: --consistency, with a receipt in the log',
  'not_cosigned_yet.cosigned': 'cosigned up to entry {} of {}: no witness has vouched for the rest',
  'not_cosigned_yet.shown':
    'under the checkpoint that is shown up to entry {} of {}: no witness has vouched for the rest',
  other_log: "the log {} is none of the policy's",
  'quorum_not_met.ahead': "; the time of {} is after now, so its clock is ahead or this machine's is behind",
  'quorum_not_met.no_checkpoint': 'there is no checkpoint of it to be cosigned, and the quorum is {}{}',
  'quorum_not_met.none': "none of the policy's witnesses has cosigned the checkpoint, and the quorum is {}{}",
  'quorum_not_met.some': "of the policy's witnesses only {} cosigned the checkpoint, and the quorum is {}{}",
  'stale.cosignature':
    "the newest cosignature is {} s old, and {} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead",
  'stale.seal':
    "the newest signed seal is {} s old, and {} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead",
  'unsigned.many': '{} seals have no signature',
  'unsigned.named': 'seal {} has no signature',
  'unsigned.one': 'a seal has no signature',
  'waiting.many': '{} entries wait for a seal',
  'waiting.one': 'an entry waits for a seal',

  // ——— what could not be checked, besides mistakes of the caller
  deadline:
    'the service had not answered everything within {} s (--deadline); the next check goes on from the last signed seal that was checked',
  'too_long.entries': 'the ledger has more than {} entries (--max-entries)',
  'too_long.seals': 'there are more than {} seals to check (--max-seals)',
  'too_long.seals_kept':
    'there are more than {} seals to check (--max-seals); the next check goes on from the last signed seal that was checked',
  'unreachable.again': '{}: {}',
  'unreachable.encoding': '{} answers in an encoding that was not asked for',
  'unreachable.gzip': '{} answers with gzip that is broken, or of more than {} bytes',
  'unreachable.json': '{} does not answer in JSON: {}',
  'unreachable.large': '{} answers with more than {} bytes',
  'unreachable.list': '{} does not answer with a list of {}',
  'unreachable.more': '{} answers with more {} than it was asked for',
  'unreachable.origin': '{} redirects to another origin',
  'unreachable.redirects': '{} redirects without end',
  'unreachable.slow': '{} gave no whole answer within {} s',
  'unreachable.status': '{} answered {}',
  wrong_clock:
    "the newest seal is dated {} by the service and this machine's clock says {}; this machine's clock is {} behind, or the service's Date and its seals are wrong together",
} as const

export type Sentence = keyof typeof WORDING

/** A sentence with its fixed word. @param shown what stands in its places */
export function say(
  sentence: Sentence,
  ...shown: readonly unknown[]
): { readonly reason: string; readonly message: string } {
  const [reason = ''] = sentence.split('.')
  const rest = shown.map(String)
  return { reason, message: WORDING[sentence].replaceAll('{}', () => rest.shift() ?? '') }
}
