#!/usr/bin/env python3
"""Check the ledger of an agent network without trusting it.

    python3 seal_verify.py BASE_URL         the chain of a service: what is new since the last check; --full: all of it
    python3 seal_verify.py DUMP.json        a saved dump {entries, seals}, offline
    python3 seal_verify.py RECEIPT.json     one receipt, offline
    python3 seal_verify.py --evidence FILE  a proof that one key signed two histories, offline
    python3 seal_verify.py --note FILE      a checkpoint that another reader was shown

Needs Python 3.9 or later and nothing else. It shares nothing with seal-verify.mjs but the published rules, the words it
reports, the state file and the form of a dump, so that each is a check on the other.

Exit status: 0 all that was asked about holds and stands under a signature of a key that is pinned or remembered;
1 something does not hold; 2 it could not be checked; 3 nothing is wrong, but nothing binding was found either.
"""

import argparse
import base64
import binascii
import calendar
import contextlib
import hashlib
import http.client
import json
import os
import re
import sys
import threading
import time
import urllib.parse
import zlib
from dataclasses import dataclass, field
from itertools import accumulate

SEALS_A_PAGE = 1_000
ENTRIES_A_PAGE = 10_000
LARGEST_ANSWER = 16 * 2**20  # bytes
LARGEST_HEADERS = 16 * 2**10
LARGEST_FILE = LARGEST_ANSWER
MOST_CONTAINERS = 500_000  # lists and objects of one answer or file
FEWEST_A_PAGE = 100
LONGEST_RETRY_AFTER = 60  # seconds
KEEP_SECONDS = 10
MOST_REDIRECTS = 3
RETRY_AFTER_SECONDS = (0.5, 1.5)
PROGRESS_SECONDS = 2
MOST_FINDINGS = 1_000  # then the check ends: it is broken
MOST_LISTED = 1_000
LONGEST_MESSAGE = 1_000
DEEPEST_HASHED = 500
DEEPEST_READ = 1_000
CLOCK_SKEW_SECONDS = 300
STALE_LOCK_SECONDS = 10
DEFAULT_MAX_AGE = 1_800  # seconds: three intervals of ten minutes
LARGEST_WHOLE = 2**53 - 1  # what an IEEE 754 double counts to without a gap
MOST_TURNS = 5


sys.setrecursionlimit(10_000)  # room for JSON nested to the bound


# Everything that is said of what is checked: the fixed word, and behind a dot which of its sentences, if it has several. `{}`
# stands for what is shown, in this order. seal-verify.mjs has the same table.
SENTENCES = {
    # What does not hold.
    "at_goes_back": "at {} is before the {} of seal {}",
    "bad_signature": "the signature is not that of {} over this payload",
    "chain_shortened": "ends at seal {}, but seal {} was seen before",
    "conflicting_seals": "brings another seal {} than an entry before it",
    "entry_gap.missing": "entry {} is missing from the ledger",
    "entry_gap.other": "the ledger gives entry {} in its place",
    "from_the_future.here": "is dated {}{}; this machine's clock says {}: it is of the future, or this machine's clock is behind",
    "from_the_future.there": "is dated {}{}; this machine's clock says {}: the service's own Date is {}",
    "from_the_future.many": ", the latest of {} seals that are dated after now",
    "history_rewritten.entry": "is as it was, but an entry before it is another than when it was seen",
    "history_rewritten.in_chain": "has another payload than when it was seen in the chain",
    "history_rewritten.payload": "has another payload than when it was seen before",
    "key_changed": "signed with {}, not with {}; if you know this key to be the service's, accept it: --pubkey for each key",
    "log_rewritten.entry": "entry {} is not the one in the log that was seen before, of size {}",
    "log_rewritten.log": "the log of size {} with the root {} does not agree with the one seen before, of size {} with the root {}",
    "log_rewritten.two": "two checkpoints of size {} differ",
    "malformed_entry.form": "an entry is not {id, at, kind, data}",
    "malformed_entry.json": "{}",
    "malformed_proof": "it is not leaf, root, an index below the count, and a path of {hash, side}",
    "malformed_receipt.entries": "it has no entries",
    "malformed_receipt.id": "it names no record",
    "malformed_receipt.openings": "openings is not a list",
    "malformed_receipt.order": "the entries are not in ascending order",
    "malformed_receipt.seal": "stands under seal {} and brings seal {}",
    "malformed_receipt.sealed": "an entry does not say whether it is sealed",
    "malformed_receipt.whole": "sealed does not say whether all its entries are",
    "malformed_seal.form": "a seal is not an object",
    "malformed_seal.fields": "missing or of the wrong form: {}",
    "malformed_seal.signature": "it lacks an Ed25519 signature, its key or its time",
    "malformed_seal.signed": "it does not say whether it is signed",
    "no_contradiction.logs": "it is not two checkpoints of one log that contradict each other",
    "no_contradiction.seals": "it is not two different seals of one number",
    "order_overdrawn": "order {} has paid out more than was paid for it",
    "path_shape": "the path has another number of steps than index {} of {} takes",
    "range_gap.first": "the first seal begins at entry {}, not 1",
    "range_gap.next": "begins at entry {}, {} was due",
    "range_gap.within": "begins at entry {}, seal {} ends at {}",
    "seq_gap": "seal {} was due",
    "signature_withdrawn": "was signed when it was seen before",
    "signed_before_made": "signed at {}, before it was made at {}",
    "weak_key": "anyone can sign for the key {}",
    "wrong_author.agent": "the entry names no agent",
    "wrong_author.form": "its author is not {author_key, seen: {size, root}, signature}",
    "wrong_author.json": "{}",
    "wrong_author.not_carried": "the entry carries no signature",
    "wrong_author.not_shown": "the entry carries a signature, and none is shown",
    "wrong_author.other": "the entry carries another signature",
    "wrong_author.signature": "the signature is not that of {} over what the entry says",
    "wrong_author.standing": "changes a key without the signature of the author key that stood, {}",
    "wrong_author.weak": "anyone can sign for the key {}",
    "wrong_checkpoint.form": "it is no checkpoint: {}",
    "wrong_checkpoint.key": "it names no key",
    "wrong_checkpoint.signer": "no known key has signed the checkpoint, or not this one",
    "wrong_checkpoint.text": "it is no text in UTF-8",
    "wrong_closing": "does not end with its own closing entry of the time {}",
    "wrong_count": "count is {} for the entries {} to {}",
    "wrong_fee.stated": "the order states the fee {}, and {} are due",
    "wrong_fee.taken": "the fees of {} come to {}, and {} are due at most",
    "wrong_index": "index {} of seal {} is entry {}",
    "wrong_key": "signed with {}, which is not a pinned key",
    "wrong_keys.form": "its closing entry states the keys in form 1, in which revoked keys stay, after one that stated form 2",
    "wrong_keys.state": "its closing entry states the keys {}, the entries give {}",
    "wrong_leaf": "the entry's leaf is {}, not {}",
    "wrong_liabilities": "its closing entry states the liabilities {}, the entries give {}",
    "wrong_log": "its closing entry states the log {}, the entries give {}",
    "wrong_log_proof.path": "the path does not lead from entry {} to the log's root",
    "wrong_log_proof.text": "it is not the text of a tlog-proof",
    "wrong_opening.commitment": "salt and content do not give the commitment in {}",
    "wrong_opening.entry": "there is no such entry in the receipt",
    "wrong_opening.field": "the entry has no commitment in {}",
    "wrong_opening.form": "it is not {entry_id, field, salt, content}",
    "wrong_opening.json": "{}",
    "wrong_opening.record": "its content is of another record, {}",
    "wrong_owed": "its closing entry states {}, the entries give {}",
    "wrong_prev_root.first": "the first seal names a previous root",
    "wrong_prev_root.none": "only the first seal has no previous root",
    "wrong_prev_root.other": "names {}, the root of seal {} is {}",
    "wrong_prev_seal": "its closing entry names {} as the seal before it, not {}",
    "wrong_record.making": "has no entry of kind {}, without which there is no {}",
    "wrong_record.other": "is no entry of {}",
    "wrong_root.entries": "its entries {} to {} have the root {}, not {}",
    "wrong_root.path": "the path of index {} of {} leads to another root",
    "wrong_side": "the path has a sibling on another side than index {} of {} has it",
    # Why what holds binds nobody.
    "behind": "a log of {} entries was seen before, and the one that is shown ends at entry {}",
    "key_unknown.chain": "nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey",
    "key_unknown.file": "nobody says that this key is the service's; compare it with a source that you trust and pin it: --pubkey, or check the service first, so that its key is remembered",
    "no_signed_seal": "there is no signed seal",
    "not_compared.checks": "other checks of this service went on meanwhile, and could not be compared with this one",
    "not_compared.dump": "it ends at seal {}, and what was seen here at seal {}: nothing tells whether that goes on from it",
    "not_compared.note": "nothing that was seen of this log could be compared with it",
    "not_compared.receipt": "seal {} lies in the ledger that was seen here, and nothing shows that it is the same: --consistency, with a receipt in the log",
    "not_cosigned_yet.cosigned": "cosigned up to entry {} of {}: no witness has vouched for the rest",
    "not_cosigned_yet.shown": "under the checkpoint that is shown up to entry {} of {}: no witness has vouched for the rest",
    "other_log": "the log {} is none of the policy's",
    "quorum_not_met.ahead": "; the time of {} is after now, so its clock is ahead or this machine's is behind",
    "quorum_not_met.no_checkpoint": "there is no checkpoint of it to be cosigned, and the quorum is {}{}",
    "quorum_not_met.none": "none of the policy's witnesses has cosigned the checkpoint, and the quorum is {}{}",
    "quorum_not_met.some": "of the policy's witnesses only {} cosigned the checkpoint, and the quorum is {}{}",
    "stale.cosignature": "the newest cosignature is {} s old, and {} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead",
    "stale.seal": "the newest signed seal is {} s old, and {} s are allowed (--max-age): nothing was written since, newer ones are withheld, or this machine's clock is ahead",
    "unsigned.many": "{} seals have no signature",
    "unsigned.named": "seal {} has no signature",
    "unsigned.one": "a seal has no signature",
    "waiting.many": "{} entries wait for a seal",
    "waiting.one": "an entry waits for a seal",
    # What could not be checked, besides mistakes of the caller.
    "deadline": "the service had not answered everything within {} s (--deadline); the next check goes on from the last signed seal that was checked",
    "too_long.entries": "the ledger has more than {} entries (--max-entries)",
    "too_long.seals": "there are more than {} seals to check (--max-seals)",
    "too_long.seals_kept": "there are more than {} seals to check (--max-seals); the next check goes on from the last signed seal that was checked",
    "unreachable.again": "{}: {}",
    "unreachable.encoding": "{} answers in an encoding that was not asked for",
    "unreachable.gzip": "{} answers with gzip that is broken, or of more than {} bytes",
    "unreachable.json": "{} does not answer in JSON: {}",
    "unreachable.large": "{} answers with more than {} bytes",
    "unreachable.list": "{} does not answer with a list of {}",
    "unreachable.more": "{} answers with more {} than it was asked for",
    "unreachable.origin": "{} redirects to another origin",
    "unreachable.redirects": "{} redirects without end",
    "unreachable.slow": "{} gave no whole answer within {} s",
    "unreachable.status": "{} answered {}",
    "wrong_clock": "the newest seal is dated {} by the service and this machine's clock says {}; this machine's clock is {} behind, or the service's Date and its seals are wrong together",
}


def say(sentence, *shown):
    """The fixed word and the text of a sentence. A word that is not in the table has the one text that is shown."""
    first, *others = SENTENCES.get(sentence, "{}").split("{}")
    return sentence.partition(".")[0], first + "".join(f"{part}{text}" for part, text in zip(shown, others))


class Said(Exception):
    """What ends a check, in a sentence; `reason` is its fixed word."""

    def __init__(self, sentence, *shown):
        self.reason, message = say(sentence, *shown)
        super().__init__(message)


class CannotCheck(Said):
    """Something could not be checked, so the exit status is 2."""


class NotHeld(Said):
    """Something does not hold."""


class NotCanonical(Exception):
    """A value has no canonical JSON."""


class Findings:
    """The list of what does not hold, and the proof of a contradiction, if there is one."""

    def __init__(self):
        self._kept = []
        self.future = None  # of the seals that are dated after now the latest: {where, at, now, count}
        self.fork = None  # what is written as evidence

    @property
    def kept(self):
        """All of them: {reason, where, message} each."""
        return self._kept if self.future is None else [*self._kept, self._of_the_future()]

    @property
    def full(self):
        """Whether there are so many that the check ends."""
        return len(self._kept) >= MOST_FINDINGS

    def add(self, where, sentence, *shown):
        self._keep(where, *say(sentence, *shown))

    def _keep(self, where, reason, message):
        if not self.full:
            self._kept.append({"reason": reason, "where": where, "message": message[:LONGEST_MESSAGE]})

    def run(self, where, check, *arguments):
        """Runs a check; if it raises NotHeld, adds that. Returns whether it held, and what it returned."""
        try:
            return True, check(*arguments)
        except NotHeld as refused:
            self._keep(where, refused.reason, str(refused))
            return False, None

    def add_time(self, where, seal, now):
        """Compares a seal's time with now. However many are later, it is one finding: the clock here may be wrong."""
        at = max(seal["at"], seal["signed_at"]) if seal["signed"] else seal["at"]
        if at > now + CLOCK_SKEW_SECONDS:
            known = self.future or {"at": -1, "count": 0}
            latest = {"where": where, "at": at, "now": now} if at > known["at"] else {}
            self.future = {**known, **latest, "count": known["count"] + 1}

    def _of_the_future(self):
        """The one finding for all seals that are dated after now."""
        future = self.future
        many = "" if future["count"] == 1 else say("from_the_future.many", future["count"])[1]
        sentence = "from_the_future.there" if "service_now" in future else "from_the_future.here"
        reason, message = say(sentence, future["at"], many, future["now"], future.get("service_now"))
        return {"reason": reason, "where": future["where"], "message": message}


# --- JSON in, canonical JSON out -------------------------------------------------------------------------------------


class TooDeep(ValueError):
    """JSON that is nested deeper than the bound, or has more lists and objects."""


def read_json(text):
    """Parses as ECMAScript does: every number is a double, so 1.0 is 1 and 2**53 + 1 is 2**53. No key may stand twice in an
    object, since another reader might take the other one. ValueError if not JSON, TooDeep if nested beyond the bound."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    # Before it is parsed, which would cost fifty times its size.
    depth, containers = _nesting(text)
    if depth > DEEPEST_READ:
        raise TooDeep(f"it is nested deeper than {DEEPEST_READ} levels")
    if containers > MOST_CONTAINERS:
        raise TooDeep(f"it has more than {MOST_CONTAINERS} lists and objects")
    return json.loads(text, parse_int=_read_int, parse_float=_read_float, parse_constant=_refuse_constant, object_pairs_hook=_object_of)


def _object_of(pairs):
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has a key twice in one object")
    return value


_ESCAPE_PAIR = re.compile(r"\\.", re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b'"[]{}'))


def _nesting(text):
    """The deepest nesting of a text that is to be JSON, and how many lists and objects it has, outside strings."""
    if "\\" in text:
        text = _ESCAPE_PAIR.sub("", text)
    outside = b"".join(text.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKET).split(b'"')[::2])
    levels = accumulate(1 if byte in b"[{" else -1 for byte in outside)
    return max(levels, default=0), outside.count(b"[") + outside.count(b"{")


def _read_int(digits):
    return int(digits) if len(digits) < 16 else _read_float(digits)


def _read_float(digits):
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) <= LARGEST_WHOLE else number


def _refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


_ESCAPED = re.compile('["\\\\\x00-\x1f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(match):
    character = match.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04x}"


def canonical_json(value):
    """RFC 8785 as UTF-8 bytes. Raises NotCanonical."""
    out = []
    try:
        _append_canonical(value, out, 0)
        return "".join(out).encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("a lone surrogate has no UTF-8 form") from None


def _append_canonical(value, out, depth):
    """Appends the canonical JSON of a value to `out`, a list of texts. Raises NotCanonical."""
    if value is None or value is True or value is False:
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        out.append('"' + _ESCAPED.sub(_escape, value) + '"')
    elif isinstance(value, (int, float)):
        out.append(ecmascript_number(value))
    elif depth == DEEPEST_HASHED:
        raise NotCanonical(f"nested deeper than {DEEPEST_HASHED} levels")
    elif isinstance(value, list):
        out.append("[")
        for place, item in enumerate(value):
            out.append("," if place else "")
            _append_canonical(item, out, depth + 1)
        out.append("]")
    else:
        out.append("{")
        # Section 3.2.3 orders keys by UTF-16 code units: U+1F600 (D83D DE00) stands before U+FB33.
        for place, key in enumerate(sorted(value, key=lambda name: name.encode("utf-16-be"))):
            out.append("," if place else "")
            _append_canonical(key, out, depth + 1)
            out.append(":")
            _append_canonical(value[key], out, depth + 1)
        out.append("}")


def ecmascript_number(number):
    """Number::toString of ECMAScript (section 3.2.2.3 of RFC 8785): the shortest digits are Python's too, the form is not."""
    if isinstance(number, int):
        if abs(number) <= LARGEST_WHOLE:
            return str(number)
        number = float(number)
    if number != number or number in (float("inf"), float("-inf")):
        raise NotCanonical("a number is too large")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    padded = whole + fraction
    digits = padded.lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(padded) - len(digits))  # the value is 0.DIGITS times ten to this power
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 1 else '-'}{abs(point - 1)}"


# --- forms -----------------------------------------------------------------------------------------------------------

_HEX_32_BYTES = re.compile(r"[0-9a-f]{64}\Z")


def is_whole(value):
    return type(value) is int and 0 <= value <= LARGEST_WHOLE


def is_hash(value):
    return isinstance(value, str) and _HEX_32_BYTES.match(value) is not None


def is_key_form(value):
    return is_whole(value) and value in (1, 2)


def fits(value, form):
    """Whether a value has a form: an object with these members, of which those named with ? may be absent; a list of items of
    one form; a value of a type; or what a function says."""
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(item, form[0]) for item in value)
    if not isinstance(form, dict):
        return isinstance(value, form) if isinstance(form, type) else form(value)
    if not isinstance(value, dict):
        return False
    return all(fits(value[name.rstrip("?")], of) if name.rstrip("?") in value else name.endswith("?") for name, of in form.items())


HEAD_OF_LOG = {"size": is_whole, "root": is_hash}
KEY_STATE = {"root": is_hash, "count": is_whole, "v?": is_key_form}
ENTRY = {"id": is_whole, "at": is_whole, "kind": str, "data": dict}
AUTHOR = {"author_key": is_hash, "seen": HEAD_OF_LOG, "signature": lambda text: decode_signature(text) is not None}
OPENING = {"field": str, "salt": is_hash, "content": lambda content: True}
SEAL = {
    **dict.fromkeys(("seq", "at", "count", "from_id", "to_id"), is_whole),
    **{"root": is_hash, "prev_root": lambda root: root is None or is_hash(root)},
}
SIGNED_SEAL = {"signature": lambda text: decode_signature(text) is not None, "pubkey": is_hash, "algo": lambda algo: algo == "ed25519", "signed_at": is_whole}


def bytes_of_base64(text):
    """The bytes of a text in base64; None unless it is their canonical form."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode("ascii") == text else None


def decode_signature(value):
    """The 64 bytes of a signature in base64; None unless the text is their canonical form."""
    raw = bytes_of_base64(value)
    return raw if raw is not None and len(raw) == 64 else None


def shown(value):
    """A value as JSON for a message, at most 80 UTF-16 units."""
    try:
        text = json.dumps(_whole_numbers(value), separators=(",", ":"), ensure_ascii=False)
        return first_units(re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text), 80)
    except (TypeError, ValueError, RecursionError):
        return "something unprintable"


def _whole_numbers(value):
    """The value with each whole number as an int, so that it is written as ECMAScript writes it, without a fraction."""
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _whole_numbers(item) for name, item in value.items()}
    if isinstance(value, float) and abs(value) == float("inf"):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value


def first_units(text, count):
    """The first `count` UTF-16 units of a text."""
    return text.encode("utf-16-le", "surrogatepass")[: 2 * count].decode("utf-16-le", "surrogatepass")


def number_in(value, name):
    """A whole number of an object as text; ? if there is none."""
    number = value.get(name) if isinstance(value, dict) else None
    return str(number) if is_whole(number) else "?"


_UNSAFE = re.compile("[^ -~]")


def escape_text(text):
    """Escapes everything but printable ASCII, so that nothing that a server wrote reaches a terminal as a command."""

    def escape_units(match):
        units = match.group().encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at] * 256 + units[at + 1]:04x}" for at in range(0, len(units), 2))

    return _UNSAFE.sub(escape_units, text)


# --- the trees -------------------------------------------------------------------------------------------------------


def leaf_of(entry):
    return hashlib.sha256(b"\x00" + canonical_json(entry)).digest()


def node_of(left, right):
    return hashlib.sha256(left + right).digest()


def log_node_of(left, right):
    """The hash of a node in the log over all entries and in the tree of keys (RFC 6962 section 2.1)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


EMPTY_LOG_ROOT = hashlib.sha256(b"").digest()
EMPTY_KEY_ROOT = bytes(32)


class Tree:
    """A Merkle tree whose leaves are added one by one. It keeps at most one finished subtree of each height."""

    def __init__(self, node=node_of, count=0, frontier=()):
        self.count = count
        self._node = node
        heights = [height for height in range(count.bit_length()) if count >> height & 1]
        self._finished = dict(zip(reversed(heights), frontier))  # height -> root of a complete subtree

    def append(self, leaf):
        height = 0
        while height in self._finished:
            leaf = self._node(self._finished.pop(height), leaf)
            height += 1
        self._finished[height] = leaf
        self.count += 1

    def root(self):
        running = None
        for height in sorted(self._finished):
            running = self._finished[height] if running is None else self._node(self._finished[height], running)
        return running

    def head(self):
        """The size of a log and its root in hex."""
        return {"size": self.count, "root": (self.root() if self.count else EMPTY_LOG_ROOT).hex()}

    def state(self):
        """As a log is remembered: roots of the complete subtrees, the largest first."""
        return {"size": self.count, "frontier": [self._finished[height].hex() for height in sorted(self._finished, reverse=True)]}


def log_of(memory):
    """The log over all entries that were verified, to which more can be added."""
    return Tree(log_node_of, memory["log"]["size"], list(map(bytes.fromhex, memory["log"]["frontier"])))


class KeyTree:
    """The keys of all agents under one root: a prefix tree over SHA-256 of the agent's id, the highest bit first.

    A part with one leaf is that leaf, one without any is 32 zero bytes. A leaf is a tuple (place, hash), an inner part
    a list [left, right, hash], whose hash is None until it is asked for. In form 1 a revocation (a change of a key to
    null) does nothing; in form 2 the key is gone from the leaf.
    """

    def __init__(self, form):
        self._form = form
        self._keys = {}  # agent id -> keys
        self._root = None

    def get(self, agent_id):
        return self._keys.get(agent_id)

    def apply(self, entry):
        """Does what an entry says that sets or revokes a key."""
        agent, name = entry["data"]["agent_id"], KEY_MEMBERS[entry["kind"]]
        key = entry["data"][name]
        keys = dict(self.get(agent) or {"agent_id": agent, "version": 0})
        if key is None and (self._form == 1 or name not in keys):
            return
        keys = {**keys, name: key, "version": keys["version"] + 1, "entry_id": entry["id"]}
        self._keys[agent] = {member: value for member, value in keys.items() if value is not None}
        place = int.from_bytes(hashlib.sha256(agent.encode("utf-8")).digest(), "big")
        self._root = _insert_key(self._root, (place, leaf_of(self._keys[agent])), 0)

    def state(self):
        """What a closing entry states of it, besides its form."""
        return {"root": _hash_of_part(self._root).hex(), "count": len(self._keys)}


def _insert_key(part, leaf, depth):
    """Puts a leaf into the part of the tree that begins at `depth`. Returns the part that takes its place."""
    if part is None or (isinstance(part, tuple) and part[0] == leaf[0]):
        return leaf
    inner = part
    if isinstance(part, tuple):
        inner = [None, None, None]
        inner[part[0] >> 255 - depth & 1] = part
    side = leaf[0] >> 255 - depth & 1
    inner[side] = _insert_key(inner[side], leaf, depth + 1)
    inner[2] = None
    return inner


def _hash_of_part(part):
    if part is None:
        return EMPTY_KEY_ROOT
    if isinstance(part, tuple):
        return part[1]
    if part[2] is None:
        part[2] = log_node_of(_hash_of_part(part[0]), _hash_of_part(part[1]))
    return part[2]


def path_sides(index, count):
    """The sides of the siblings from the leaf up, by RFC 6962's own definition: split at the largest power of two below count."""
    from_the_top = []
    while count > 1:
        split = 1 << ((count - 1).bit_length() - 1)
        is_left = index < split
        from_the_top.append("right" if is_left else "left")
        index, count = (index, split) if is_left else (index - split, count - split)
    return from_the_top[::-1]


def check_inclusion(leaf, path, root, index, count):
    """Raises NotHeld unless `leaf` is number `index` of `count` under root, by the only shape that position allows."""
    good = is_hash(leaf) and is_hash(root) and is_whole(index) and is_whole(count) and index < count
    if not good or not fits(path, [{"hash": is_hash, "side": lambda side: side in ("left", "right")}]):
        raise NotHeld("malformed_proof")
    sides = path_sides(index, count)
    if len(path) != len(sides):
        raise NotHeld("path_shape", index, count)
    if [step["side"] for step in path] != sides:
        raise NotHeld("wrong_side", index, count)
    running = bytes.fromhex(leaf)
    for step in path:
        sibling = bytes.fromhex(step["hash"])
        running = node_of(sibling, running) if step["side"] == "left" else node_of(running, sibling)
    if running.hex() != root:
        raise NotHeld("wrong_root.path", index, count)


# --- entries and seals -----------------------------------------------------------------------------------------------


def check_entry(entry):
    """Raises NotHeld unless a value has the form of an entry."""
    if not fits(entry, ENTRY):
        raise NotHeld("malformed_entry.form")


def canonical_or(sentence, make, *arguments):
    """What a function makes of a value in canonical JSON. Raises NotHeld with this sentence if it has none."""
    try:
        return make(*arguments)
    except NotCanonical as error:
        raise NotHeld(sentence, error) from None


def check_leaf(entry, leaf):
    """Raises NotHeld unless `leaf` is the entry's hash."""
    own = canonical_or("malformed_entry.json", leaf_of, entry).hex()
    if leaf != own:
        raise NotHeld("wrong_leaf", own, shown(leaf))


PAYLOAD_FIELDS = ("at", "count", "from_id", "prev_root", "root", "seq", "to_id")


def payload_of(seal):
    """The bytes that a seal's signature covers, always rebuilt from its fields."""
    return canonical_json({name: seal[name] for name in PAYLOAD_FIELDS})


def payload_hash_of(seal):
    return hashlib.sha256(payload_of(seal)).hexdigest()


def check_seal_form(seal):
    """Raises NotHeld unless a value has the form of a seal."""
    if not isinstance(seal, dict):
        raise NotHeld("malformed_seal.form")
    wrong = [name for name in SEAL if not fits(seal, {name: SEAL[name]})]
    if wrong:
        raise NotHeld("malformed_seal.fields", ", ".join(wrong))
    if seal.get("signed") is True:
        if not fits(seal, SIGNED_SEAL):
            raise NotHeld("malformed_seal.signature")
    elif seal.get("signed") is not False or seal.get("signature") is not None:
        raise NotHeld("malformed_seal.signed")


def check_seal_alone(seal, now, findings, where):
    """Checks what a well-formed seal says by itself."""
    if seal["count"] < 1 or seal["count"] != seal["to_id"] - seal["from_id"] + 1:
        findings.add(where, "wrong_count", seal["count"], seal["from_id"], seal["to_id"])
    if seal["seq"] == 1 and seal["from_id"] != 1:
        findings.add(where, "range_gap.first", seal["from_id"])
    if (seal["seq"] == 1) != (seal["prev_root"] is None) and seal["seq"] >= 1:
        findings.add(where, "wrong_prev_root.first" if seal["seq"] == 1 else "wrong_prev_root.none")
    findings.add_time(where, seal, now)


def check_seal_link(before, seal, findings, where):
    """Checks what a well-formed seal says about one that stands before it."""
    if seal["at"] < before["at"]:
        findings.add(where, "at_goes_back", seal["at"], before["at"], before["seq"])
    if seal["seq"] != before["seq"] + 1:
        return
    if seal["from_id"] != before["to_id"] + 1:
        findings.add(where, "range_gap.next", seal["from_id"], before["to_id"] + 1)
    if seal["prev_root"] is not None and seal["prev_root"] != before["root"]:
        findings.add(where, "wrong_prev_root.other", seal["prev_root"], before["seq"], before["root"])


# --- Ed25519 (RFC 8032, section 5.1), verification alone -------------------------------------------------------------
#
# Points are (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z. As in OpenSSL the equation is checked without the cofactor, by
# the bytes of R, and S must be below the order; keys of small order are refused before.

_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _PRIME - 2, _PRIME) % _PRIME
_ROOT_OF_MINUS_1 = pow(2, (_PRIME - 1) // 4, _PRIME)
_NEUTRAL = (0, 1, 1, 0)


def _add(p, q):
    """The sum of two points of edwards25519, in extended coordinates (RFC 8032 section 5.1.4)."""
    a = (p[1] - p[0]) * (q[1] - q[0]) % _PRIME
    b = (p[1] + p[0]) * (q[1] + q[0]) % _PRIME
    c = 2 * p[3] * q[3] * _D % _PRIME
    d = 2 * p[2] * q[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME)


def _decode_point(raw):
    """The point that 32 bytes encode (RFC 8032 section 5.1.3); None if none."""
    number = int.from_bytes(raw, "little")
    y = (number & (2**255 - 1)) % _PRIME
    u, v = (y * y - 1) % _PRIME, (_D * y * y + 1) % _PRIME
    x = u * pow(v, 3, _PRIME) * pow(u * pow(v, 7, _PRIME), (_PRIME - 5) // 8, _PRIME) % _PRIME
    if v * x * x % _PRIME != u:
        x = x * _ROOT_OF_MINUS_1 % _PRIME
    if v * x * x % _PRIME != u:
        return None
    if x & 1 != number >> 255:
        x = -x % _PRIME
    return (x, y, 1, x * y % _PRIME)


def _encode_point(point):
    """The 32 bytes of a point (RFC 8032 section 5.1.2)."""
    inverse = pow(point[2], _PRIME - 2, _PRIME)
    x, y = point[0] * inverse % _PRIME, point[1] * inverse % _PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _table_of(point):
    """The multiples of a point by each hexadecimal digit at each place, so that a product is a sum of 64."""
    places = []
    for _ in range(64):
        row = [_NEUTRAL]
        for _ in range(16):
            row.append(_add(row[-1], point))
        point = row.pop()
        places.append(row)
    return places


def _times(table, number):
    total = _NEUTRAL
    for row in table:
        if number & 15:
            total = _add(total, row[number & 15])
        number >>= 4
    return total


def _times_once(point, number):
    """The same of a point of which nothing is kept."""
    total = _NEUTRAL
    while number:
        if number & 1:
            total = _add(total, point)
        number >>= 1
        point = _add(point, point)
    return total


_BASE_POINT = (4 * pow(5, _PRIME - 2, _PRIME) % _PRIME).to_bytes(32, "little")
MOST_TABLES = 8
_tables = {}  # by key, of those that sign often; the one that was made first goes first
_used_once = set()  # keys without a table, of which a file may name any number


def _multiply(key, number):
    """A multiple of a key's point, of which a table is made when the key is used again; None if it is no point."""
    if key not in _tables:
        point = _decode_point(key)
        if point is None:
            return None
        if key not in _used_once and key != _BASE_POINT:
            if len(_used_once) >= 1_000:
                _used_once.clear()
            _used_once.add(key)
            return _times_once(point, number)
        if len(_tables) >= MOST_TABLES:
            del _tables[next(iter(_tables))]
        _tables[key] = _table_of(point)
    return _times(_tables[key], number)


_ORDER_8_Y = int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")
_WEAK_Y = frozenset({0, 1, _PRIME - 1, _ORDER_8_Y, _PRIME - _ORDER_8_Y})


def is_weak_key(key):
    """Whether a key is a point of small order, for which anyone can make a "signature"."""
    return (int.from_bytes(key, "little") & (2**255 - 1)) % _PRIME in _WEAK_Y


def is_signed_by(key, payload, signature, digest=hashlib.sha512):
    """Whether 64 bytes are the signature of a 32-byte key over the payload (RFC 8032 section 5.1.7; Nano has another digest)."""
    scalar = int.from_bytes(signature[32:], "little")
    if is_weak_key(key) or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(digest(signature[:32] + key + payload).digest(), "little") % _ORDER
    of_key = _multiply(key, _ORDER - challenge)
    return of_key is not None and _encode_point(_add(_multiply(_BASE_POINT, scalar), of_key)) == signature[:32]


def is_signed_seal(seal):
    return is_signed_by(bytes.fromhex(seal["pubkey"]), payload_of(seal), decode_signature(seal["signature"]))


class Keyring:
    """Which keys are accepted: the pinned ones, else the remembered ones, else the first one seen."""

    def __init__(self, pinned=(), remembered=()):
        self.trust = "pinned" if pinned else "remembered" if remembered else "first_seen"
        self.accepted = list(pinned or remembered)
        self.seen = []
        self._latest = None

    def check(self, key):
        """Raises NotHeld for a key that is not accepted, once if it comes several times in a row. Remembers the key as seen."""
        if not self.accepted:
            self.accepted.append(key)
        if key not in self.seen:
            self.seen.append(key)
        repeated, self._latest = key == self._latest, key
        if key in self.accepted or repeated:  # a foreign key is told once, not with every seal
            return
        if self.trust == "pinned":
            raise NotHeld("wrong_key", key)
        raise NotHeld("key_changed", key, " or ".join(self.accepted))


def check_signature(seal, keyring, findings, where):
    """Checks whose key signed a seal, and the signature."""
    if seal["signed_at"] < seal["at"]:
        findings.add(where, "signed_before_made", seal["signed_at"], seal["at"])
    findings.run(where, keyring.check, seal["pubkey"])
    if is_weak_key(bytes.fromhex(seal["pubkey"])):
        findings.add(where, "weak_key", seal["pubkey"])
    elif not is_signed_seal(seal):
        findings.add(where, "bad_signature", seal["pubkey"])


SIDE_FIELDS = ("seq", "at", "count", "from_id", "to_id", "root", "prev_root", "signature", "pubkey")


def seal_fork_of(seen, given, keyring):
    """Evidence of two different seals of one number; None unless accepted keys signed both."""
    if all(seal["signed"] and seal["pubkey"] in keyring.accepted and is_signed_seal(seal) for seal in (seen, given)):
        return {"kind": "fork", "sides": [{name: seal[name] for name in SIDE_FIELDS} for seal in (seen, given)]}
    return None


def compare_with_head(judged, where, seal, memory, sentence):
    """Adds what is wrong if a seal of the remembered head's number is another one, with evidence."""
    if payload_hash_of(seal) != memory["payload_hash"]:
        judged.findings.add(where, sentence)
        if "head" in memory:
            judged.findings.fork = judged.findings.fork or seal_fork_of(memory["head"], seal, judged.keyring)


# --- the log over all entries: signed notes, checkpoints and proofs, as in C2SP and RFC 6962 ---------------------------

LONGEST_NOTE = 65_536  # UTF-16 units
MOST_NOTE_LINES = 64
LONGEST_LOG_PATH = 128
_LOG_SIZE = re.compile(r"(0|[1-9][0-9]{0,15})\Z")
_NOT_IN_NAMES = re.compile(r"[\s+\ufeff\x00-\x1f\x7f-\x9f]")  # white space, plus signs and control characters
PROOF_HEADER = "c2sp.org/tlog-proof@v1"


def _is_note_name(name):
    return 0 < len(name) <= 255 and not _NOT_IN_NAMES.search(name)


def read_checkpoint(note):
    """Parses a signed checkpoint, without its signatures: {text, origin, size, root, lines, note}. Raises NotHeld."""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or not note.endswith("\n") or re.search("[\ud800-\udfff]", note):
        raise NotHeld("wrong_checkpoint.form", "no signed note")
    text, found, signatures = note.rpartition("\n\n")  # C2SP signed-note: the text may have empty lines, the signatures none
    parts, lines = text.split("\n"), signatures[:-1].split("\n")
    root = bytes_of_base64(parts[2]) if len(parts) == 3 else None
    good = found and len(lines) <= MOST_NOTE_LINES and root is not None and len(root) == 32
    if not good or not _is_note_name(parts[0]) or not _LOG_SIZE.match(parts[1]) or not is_whole(int(parts[1])):
        raise NotHeld("wrong_checkpoint.form", "not three lines: origin, size and root")
    return {"text": text + "\n", "origin": parts[0], "size": int(parts[1]), "root": root.hex(), "lines": lines, "note": note}


def note_key_id(name, kind, raw_key):
    """The key id of a name and a key (C2SP signed-note), 4 bytes."""
    return hashlib.sha256(f"{name}\n".encode("utf-8") + bytes([kind]) + raw_key).digest()[:4]


def signatures_by(checkpoint, name, kind, key):
    """What the lines of a key below a checkpoint have behind its id. key: its hex."""
    key_id = note_key_id(name, kind, bytes.fromhex(key))
    for line in checkpoint["lines"]:
        parts = line.split(" ")
        raw = bytes_of_base64(parts[2]) if len(parts) == 3 and parts[:2] == ["\u2014", name] else None
        if raw is not None and len(raw) > 4 and raw[:4] == key_id:
            yield raw[4:]


def is_note_by(checkpoint, keys):
    """Whether one of the keys has signed a checkpoint, under the name of its log, in all lines of that key."""
    text = checkpoint["text"].encode("utf-8")
    for key in keys:
        of_key = list(signatures_by(checkpoint, checkpoint["origin"], 1, key))
        if of_key and all(len(raw) == 64 and is_signed_by(bytes.fromhex(key), text, raw) for raw in of_key):
            return True
    return False


def verify_checkpoint(note, keys):
    """Parses a checkpoint that one of the keys must have signed. Raises NotHeld."""
    checkpoint = read_checkpoint(note)
    if not is_note_by(checkpoint, keys):
        raise NotHeld("wrong_checkpoint.signer")
    return checkpoint


def read_log_proof(proof):
    """Parses the text of a tlog-proof: (index, path, signed checkpoint). Raises NotHeld."""
    head, found, note = proof.partition("\n\n") if isinstance(proof, str) and len(proof) <= LONGEST_NOTE else ("", "", "")
    header, *lines = head.split("\n")
    if lines and lines[0].startswith("extra "):
        lines.pop(0)
    index = lines.pop(0) if lines else ""
    path = [bytes_of_base64(line) for line in lines]
    good = found and header == PROOF_HEADER and index.startswith("index ") and _LOG_SIZE.match(index[6:]) and len(path) <= LONGEST_LOG_PATH
    if not good or any(step is None or len(step) != 32 for step in path):
        raise NotHeld("wrong_log_proof.text")
    return int(index[6:]), path, note


def _climb(place, last, sibling, newer, older=None):
    """One step of a path from the leaf up (RFC 9162 section 2.1.3.2, whose fn and sn are place and last)."""
    if place & 1 or place == last:
        newer, older = log_node_of(sibling, newer), older and log_node_of(sibling, older)
        while not place & 1 and place:
            place, last = place >> 1, last >> 1
    else:
        newer = log_node_of(newer, sibling)
    return place >> 1, last >> 1, newer, older


def root_by_path(leaf, index, size, path):
    """The root that a path leads to from a leaf, in hex; None for one of another shape."""
    if index >= size:
        return None
    place, last, running = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        place, last, running, _ = _climb(place, last, sibling, running)
    return running.hex() if last == 0 else None


def is_in_seen_log(leaf, index, path, memory):
    """Whether an entry that is in a log at least as large as the one that was seen is in that too.

    The subtree of the seen log that has the entry is a part of the larger log, so the proof leads through its root."""
    first, place, height = 0, 0, 52
    while height >= 0:
        if memory["log"]["size"] >> height & 1:
            if index < first + (1 << height):
                break
            first, place = first + (1 << height), place + 1
        height -= 1
    running = leaf
    for level, sibling in enumerate(path[:height]):
        running = log_node_of(sibling, running) if index >> level & 1 else log_node_of(running, sibling)
    return running.hex() == memory["log"]["frontier"][place]


def is_consistent(older, newer, path):
    """Whether the log `newer` begins with the log `older` (RFC 9162 section 2.1.4.2); both are {size, root}."""
    if not isinstance(path, list) or len(path) > LONGEST_LOG_PATH or not all(map(is_hash, path)) or older["size"] > newer["size"]:
        return False
    if older["size"] == newer["size"]:
        return not path and older["root"] == newer["root"]
    if older["size"] == 0:
        return not path and older["root"] == EMPTY_LOG_ROOT.hex()
    place, last = older["size"] - 1, newer["size"] - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    # A power of two of leaves is a complete subtree: then its root is the first hash, which the reader has.
    hashes = [bytes.fromhex(step) for step in ([older["root"], *path] if place == 0 else path)]
    if not hashes:
        return False
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        place, last, new, old = _climb(place, last, sibling, new, old)
    return last == 0 and (old.hex(), new.hex()) == (older["root"], newer["root"])


def seen_log(memory):
    """The newest log that was verified before, by entries or by proofs; None if there is none."""
    if not memory or "log" not in memory:
        return None
    walked = log_of(memory).head()
    checkpoint = read_checkpoint(memory["checkpoint"]) if "checkpoint" in memory else None
    return checkpoint if checkpoint and checkpoint["size"] >= walked["size"] else walked


def connect_logs(seen, given, proof):
    """How a signed log stands to the one that was seen: same, consistent or not_checked. Raises NotHeld if they contradict each other.

    proof: that the larger goes on from the smaller, as consistency_in() gives it; None if the caller has none.
    """
    older, newer = sorted((seen, given), key=lambda log: log["size"])
    if older["size"] == newer["size"]:
        good, word = older["root"] == newer["root"], "same"
    elif proof is None:
        good, word = True, "not_checked" if older["size"] else "consistent"
    else:
        good, word = is_consistent(older, newer, proof.get("path")), "consistent"
    if good:
        return word
    raise NotHeld("log_rewritten.log", given["size"], given["root"], seen["size"], seen["root"])


def consistency_in(answer):
    """{root, path} of an answer to GET /ledger/consistency: the older root as that log has it, and the proof."""
    return {"root": answer.get("from_root"), "path": answer.get("hashes")} if isinstance(answer, dict) else {}


def contradict(older, newer, consistency):
    """Whether two logs contradict each other: one size and two roots, or the proof gives the older's size another root."""
    if older["size"] == newer["size"]:
        return older["root"] != newer["root"]
    root = consistency.get("root") if isinstance(consistency, dict) else None
    if not is_hash(root) or root == older["root"] or older["size"] == 0:
        return False
    return is_consistent({"size": older["size"], "root": root}, newer, consistency.get("path"))


def log_fork_of(seen, given, proof, keyring):
    """Evidence of two checkpoints that contradict each other; None unless one accepted key signed both."""
    sides = sorted((seen, given), key=lambda log: log["size"])
    if not all("note" in side for side in sides) or not contradict(*sides, proof):
        return None
    key = next((key for key in keyring.accepted if all(is_note_by(side, [key]) for side in sides)), None)
    found = {"kind": "log_fork", "pubkey": key, "notes": [side["note"] for side in sides]}
    if sides[0]["size"] != sides[1]["size"]:
        found["consistency"] = proof or {}
    return found if key else None


def compare_logs(judged, where, seen, given, proof):
    """Compares a signed log with the one that was seen. Returns how it stands to that; None, with evidence, if they contradict."""
    held, connected = judged.findings.run(where, connect_logs, seen, given, proof)
    if not held:
        judged.findings.fork = judged.findings.fork or log_fork_of(seen, given, proof, judged.keyring)
    return connected


# --- whose word is enough: the reader's policy (C2SP tlog-policy) ------------------------------------------------------

MOST_POLICY_ROWS = 256
MOST_WITNESSES_ASKED = 30


class Policy:
    """A policy of witnesses. A witness counts because the reader named it. Keys are (name, hex); of a type that is not known here,
    as newer policies may have, (name, None): nothing is ever signed by it."""

    def __init__(self, text):
        self.logs, self.witnesses, self.groups, self.quorum = [], {}, {}, None
        self.vkeys = []  # of the witnesses
        self._members = set()
        for number, line in enumerate(text.split("\n"), 1):
            word, *items = [item for item in re.split(r"[ \t]+", line) if item] or ["#"]
            if word.startswith("#"):
                continue
            try:
                if max(len(self.logs), len(self.witnesses), len(self.groups)) > MOST_POLICY_ROWS:
                    raise ValueError(f"expected at most {MOST_POLICY_ROWS} of each")
                read = {"log": self._log, "witness": self._witness, "group": self._group, "quorum": self._quorum}.get(word)
                if read is None:
                    raise ValueError(f"expected log, witness, group or quorum, got {shown(word)}")
                read(items)
            except ValueError as error:
                raise CannotCheck("usage", f"line {number} of the policy: {error}") from None
        if self.quorum is None:
            raise CannotCheck("usage", "the policy has no line quorum <name>")

    def _log(self, items):
        if len(items) not in (1, 2):
            raise ValueError("expected log <vkey> [<url>]")
        self.logs.append(self._key(items[0], 1, self.logs))

    def _witness(self, items):
        if len(items) not in (2, 3):
            raise ValueError("expected witness <name> <vkey> [<url>]")
        self._expect_fresh(items)
        self.witnesses[items[0]] = self._key(items[1], 4, self.witnesses.values())
        if self.witnesses[items[0]][1] is not None:
            self.vkeys.append(items[1])

    def _group(self, items):
        self._expect_fresh(items)
        many, named = items[1] if len(items) > 1 else "", items[2:]
        fixed = {"all": len(named), "any": 1}
        threshold = fixed[many] if many in fixed else int(many) if re.match(r"[1-9][0-9]{0,3}\Z", many) else 0
        if not 1 <= threshold <= len(named):
            raise ValueError("expected group <name> all|any|<k> <name>..., k of them at most")
        for member in named:
            if not self._defined(member):
                raise ValueError(f"{shown(member)} is defined on no line before")
            if member in self._members:
                raise ValueError(f"{shown(member)} is a member twice")
            self._members.add(member)
        self.groups[items[0]] = (threshold, named)

    def _quorum(self, items):
        if len(items) != 1 or self.quorum is not None:
            raise ValueError("expected one line quorum <name>")
        if items[0] != "none" and not self._defined(items[0]):
            raise ValueError(f"{shown(items[0])} is defined on no line before")
        self.quorum = items[0]

    def _defined(self, name):
        return name in self.witnesses or name in self.groups

    def _expect_fresh(self, items):
        """Raises ValueError unless the first item is a name that nothing has yet."""
        name = items[0] if items else ""
        if name in ("", "none") or self._defined(name):
            raise ValueError(f"expected a name that nothing else has, got {shown(name)}")

    @staticmethod
    def _key(vkey, kind, others):
        """(name, hex) of a vkey's key, which none of the others may have. Raises ValueError."""
        name, _, rest = vkey.partition("+")
        key_id, _, encoded = rest.partition("+")
        raw = bytes_of_base64(encoded)
        good = raw is not None and len(raw) >= 2 and _is_note_name(name) and not re.search("[\ud800-\udfff]", name)
        known = good and raw[0] in (1, 4)
        if not good or (known and (raw[0] != kind or len(raw) != 33)) or note_key_id(name, raw[0], raw[1:]).hex() != key_id:
            raise ValueError("expected the vkey of such an Ed25519 key")
        if any(key == raw[1:].hex() for _, key in others):
            raise ValueError(f"the key of {shown(name)} is there twice")
        return name, raw[1:].hex() if known else None

    def is_met_by(self, cosigners):
        """Whether the witnesses of these names are enough."""

        def met(name):
            if name not in self.groups:
                return name in cosigners
            threshold, members = self.groups[name]
            return sum(map(met, members)) >= threshold

        return self.quorum == "none" or met(self.quorum)

    def cosigners(self, checkpoint, now):
        """When witnesses have cosigned a checkpoint (C2SP tlog-cosignature, cosignature/v1): by their names, the newest time in Unix
        seconds that a line of theirs states. A line from the future does not count."""
        newest = {}
        for witness, (name, key) in self.witnesses.items():
            for raw in signatures_by(checkpoint, name, 4, key) if key else ():
                at = int.from_bytes(raw[:8], "big")
                text = f"cosignature/v1\ntime {at}\n{checkpoint['text']}".encode("utf-8")
                if len(raw) == 72 and at <= min(now + CLOCK_SKEW_SECONDS, LARGEST_WHOLE) and is_signed_by(bytes.fromhex(key), text, raw[8:]):
                    newest[witness] = max(at, newest.get(witness, 0))
        return newest


def read_policy(path):
    """Reads a policy of witnesses from a file. Raises CannotCheck."""
    try:
        return Policy(read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise CannotCheck("usage", f"{path} is not text in UTF-8") from None


@dataclass
class Support:
    """What a verdict rests on besides the key: checkpoints, how far they reach, and the log as it was seen before.

    The entries up to `covered` stand under checkpoints, and those up to `up_to` should.
    """

    checkpoints: list = field(default_factory=list)
    covered: int = 0
    up_to: int = 0
    made_at: int = None  # the time of the newest seal; None: no matter
    seen_size: int = None

    def judge(self, policy, trust, now, max_age):
        """What the report says of it, and (word, sentence) of why that is not enough. max_age: in seconds, None is any age."""
        newest = max(self.checkpoints, key=lambda checkpoint: checkpoint["size"], default=None)
        times = policy.cosigners(newest, now) if policy and newest else {}  # of those who cosigned all of them
        for checkpoint in self.checkpoints if times else ():
            own = policy.cosigners(checkpoint, now)
            times = {name: at for name, at in times.items() if name in own}
        rests = {
            "key": trust,
            "cosigned_by": list(times),
            **({"cosigned_size": newest["size"], "cosigned_at": max(times.values())} if times else {}),
            "quorum": policy and policy.quorum,
            "seen_size": self.seen_size,
        }
        doubts = [] if policy is None else list(self._policy_doubts(policy, list(times), newest, now))
        # A checkpoint says nothing of the entries behind it: an old one must not vouch for a fork.
        if self.checkpoints and self.covered < self.up_to:
            doubts.append(say("not_cosigned_yet.cosigned" if times else "not_cosigned_yet.shown", self.covered, self.up_to))
        # What witnesses cosigned is as old as the newest cosignature; anything else, as the newest seal says.
        at = rests.get("cosigned_at", self.made_at)
        if at is not None and max_age is not None and now - at > max_age:
            doubts.append(say("stale.cosignature" if times else "stale.seal", now - at, max_age))
        return rests, doubts

    def _policy_doubts(self, policy, names, newest, now):
        """Yields why checkpoints that these witnesses cosigned are not enough for a policy."""
        for checkpoint in self.checkpoints:
            if policy.logs and all(checkpoint["origin"] != name for name, _ in policy.logs):
                yield say("other_log", shown(checkpoint["origin"]))
                return
        if policy.is_met_by(names):
            return
        if not newest:
            yield say("quorum_not_met.no_checkpoint", policy.quorum, "")
            return
        in_time = policy.cosigners(newest, now)
        early = [name for name in policy.cosigners(newest, LARGEST_WHOLE) if name not in in_time]
        clocks = say("quorum_not_met.ahead", ", ".join(early))[1] if early else ""
        if names:
            yield say("quorum_not_met.some", ", ".join(names), policy.quorum, clocks)
        else:
            yield say("quorum_not_met.none", policy.quorum, clocks)


# --- the sums owed ---------------------------------------------------------------------------------------------------

_AMOUNT = re.compile(r"[0-9]{1,60}\Z")
_SUM = re.compile(r"(0|-?[1-9][0-9]{0,77})\Z")
_COINS = ("xno", "xmr")
UNREADABLE = object()


def owed_change(entry):
    """What an entry adds to the sum owed of its coin; UNREADABLE for an unreadable amount or coin, which adds nothing."""
    kind, data = entry["kind"], entry["data"]
    step, member = data.get("step"), "written_off_raw" if kind == "dispute_outcome" else "amount_raw"
    if kind == "payment" and "order_id" in data:
        sign = -1 if step == "undone" else 1
    elif kind == "fee":
        sign = 1 if step == "returned" else -1
    elif kind == "dispute_outcome" or (kind == "payout" and ("undoes" in data or step in ("confirmed", "manual"))):
        sign = 1 if kind == "payout" and "undoes" in data else -1
    else:
        return 0
    amount = amount_in(data, member)
    return UNREADABLE if amount is None or (amount and data.get("coin") not in _COINS) else sign * amount


def amount_in(data, member="amount_raw"):
    """An amount as a number; None if it cannot be read."""
    amount = data.get(member)
    return int(amount) if isinstance(amount, str) and _AMOUNT.match(amount) else None


def is_sum(text):
    return isinstance(text, str) and _SUM.match(text) is not None


def stated_sums(owed, names=_COINS):
    """The sums of a closing entry's `owed`, or of other names; None if they have not the right form."""
    texts = [owed.get(name) for name in names] if isinstance(owed, dict) else [None]
    return dict(zip(names, map(int, texts))) if all(map(is_sum, texts)) else None


# Whose money a venue holds; `orders` and `owed` together are the sum owed that closing entries state.
PARTS = ("orders", "owed", "invoices", "remainders", "unassigned")
_MOVED = PARTS[2:]  # no other entries give these


def stated_liabilities(stated):
    """{coin: {part: sum}} of a closing entry; None if they have not the right form."""
    parts = {coin: stated_sums(stated.get(coin), PARTS) for coin in _COINS} if isinstance(stated, dict) else {"": None}
    return parts if all(parts.values()) else None


def as_texts(liabilities):
    return {coin: {part: str(total) for part, total in parts.items()} for coin, parts in liabilities.items()}


def part_changes(entry, met):
    """What an entry adds to the liabilities: (coin, {part: change}); None if nothing; UNREADABLE for what cannot be read.

    `met`: the payouts that were owed before, to which this one is added; None: of a ledger that says so in the entry instead."""
    kind, data = entry["kind"], entry["data"]
    step, raw, coin = data.get("step"), amount_in(data), data.get("coin")
    if kind == "money_move":
        if raw is None:
            return UNREADABLE
        changes = {part: raw * ((data.get("to") == part) - (data.get("from") == part)) for part in _MOVED}
    else:
        whole, named = owed_change(entry), 0
        owing = kind == "payout" and step == "owed" and "again" not in data
        payout = data.get("payout_id") if owing and isinstance(data.get("payout_id"), str) else None
        if kind == "payout":
            if "undoes" in data or (owing and not (met and payout in met)):
                named = 1
            elif step in ("confirmed", "manual", "withdrawn"):
                named = -1
        if whole is UNREADABLE or (named and raw is None):
            return UNREADABLE
        owed = named * (raw or 0)
        changes = {"owed": owed, "orders": whole - owed}
        if met is not None and payout is not None and (coin in _COINS or not any(changes.values())):
            met[payout] = True
    if not any(changes.values()):
        return None
    return (coin, changes) if coin in _COINS else UNREADABLE


FEE_PERCENT = 20
OPEN_ORDER = ("awaiting_payment", "paid", "delivered", "disputed")


_ORDER_TEXT = re.compile(r"(-?[0-9]{1,78} ){4}[01]\Z")


class Order:
    """What is known of an order's money, in the smallest unit, until it is at its end. Remembered as text: all in this order."""

    def __init__(self, held=0, fee=-1, taken=0, percent=100, is_open=0):
        self.held = held  # paid for it, less fees, payouts that arrived and what was written off
        self.fee = fee  # the whole of it; below 0 if the order's terms are not known
        self.taken = taken
        self.percent = percent  # that a dispute's outcome leaves of the fee
        self.is_open = is_open


class LedgerMoney:
    """The sums that the entries so far give, and the orders of the market that are not at their end."""

    def __init__(self, stored=None):
        stored = stored or {"stated": False, "liabilities": {coin: dict.fromkeys(PARTS, "0") for coin in _COINS}, "met": [], "orders": {}}
        self.sums = stated_liabilities(stored["liabilities"])  # None after a seal whose entries are not there, as are the orders
        self.stated = stored["stated"]  # whether closing entries state the liabilities by now
        self.met = dict.fromkeys(stored["met"], True)  # payouts that were owed once, until they do
        self.orders = {key: Order(*map(int, text.split(" "))) for key, text in stored["orders"].items()}  # by order and coin
        # Orders that hold less than nothing: whether they did at the end of a seal before.
        self.below = {key: True for key, order in self.orders.items() if order.held < 0}

    def lose(self):
        """Forgets what follows from all entries, once some of them are not there."""
        self.sums = self.orders = None
        self.below = {}

    def owed(self):
        return self.sums and {coin: parts["orders"] + parts["owed"] for coin, parts in self.sums.items()}

    def state(self):
        """What is remembered of it; None if some entries were not there."""
        if self.sums is None or self.orders is None:
            return None
        orders = {key: " ".join(str(number) for number in vars(order).values()) for key, order in self.orders.items()}
        money = {"stated": self.stated, "liabilities": as_texts(self.sums), "met": list(self.met), "orders": orders}
        return {"owed": {coin: str(total) for coin, total in self.owed().items()}, "money": money}

    def add(self, entry, findings):
        """Adds an entry to the sums and to its order. Returns whether what it says can be read."""
        parts = part_changes(entry, None if self.stated else self.met)
        if isinstance(parts, tuple) and self.sums:
            for part, change in parts[1].items():
                self.sums[parts[0]][part] += change
        findings.run(f"entry {entry['id']}", self._add_to_order, entry)
        return parts is not UNREADABLE

    def _add_to_order(self, entry):
        """Raises NotHeld for a fee that is not as the terms of all orders say."""
        kind, data = entry["kind"], entry["data"]
        name, coin, price, change = data.get("order_id"), data.get("coin"), amount_in(data), owed_change(entry)
        if self.orders is None or not isinstance(name, str):
            return
        if isinstance(data.get("status"), str):
            for key in (f"{name} {one}" for one in _COINS):
                if key in self.orders:
                    self.orders[key].is_open = int(data["status"] in OPEN_ORDER)
                    self._settle(key)
        if coin not in _COINS:
            return
        key = f"{name} {coin}"
        order = self.orders.setdefault(key, Order())
        change = 0 if change is UNREADABLE else change
        order.held += change
        placed = kind == "order" and data.get("step") == "ordered" and price is not None
        due = price * FEE_PERCENT // 100 if placed else 0
        if placed and order.fee < 0:
            order.fee, order.is_open = due, 1
        if kind == "dispute_outcome" and data.get("outcome") in ("release", "refund", "split"):
            share = data.get("split_percent") if data["outcome"] == "split" else 0 if data["outcome"] == "refund" else 100
            order.percent = share if is_whole(share) and share <= 100 else 100
        if kind == "fee":
            order.taken -= change
        self._settle(key)
        if not self.stated:
            return  # older ledgers were never held to this
        if placed and data.get("fee_raw") != str(due):
            raise NotHeld("wrong_fee.stated", shown(data.get("fee_raw")), due)
        most = order.fee * order.percent // 100
        if kind == "fee" and order.fee >= 0 and not 0 <= order.taken <= most:
            raise NotHeld("wrong_fee.taken", shown(name), order.taken, most)

    def _settle(self, key):
        """Drops an order that is at its end; lists one that holds less than nothing."""
        order = self.orders[key]
        if order.held < 0:
            self.below.setdefault(key, False)
        else:
            self.below.pop(key, None)
            if order.held == 0 and not order.is_open:
                del self.orders[key]

    def check_closing(self, data, findings, where):
        """Checks the sums of a closing entry. What it states counts from then on, so that one false sum is one finding."""
        stated, own = stated_sums(data.get("owed")), self.owed()
        if stated is None or (own and stated != own):
            sums = f"xno {own['xno']} and xmr {own['xmr']}" if own else "two sums"
            findings.add(where, "wrong_owed", shown(data.get("owed")), sums)
        self.stated = self.stated or "liabilities" in data
        if self.stated:
            whole, own = stated_liabilities(data.get("liabilities")), self.sums
            self.sums, self.met = whole, {}
            if whole is None or (own and whole != own):
                due = json.dumps(as_texts(own)) if own else "ten sums"
                findings.add(where, "wrong_liabilities", shown(data.get("liabilities")), due)
        elif stated is None:
            self.sums = None
        else:
            before = self.sums or {coin: dict.fromkeys(PARTS, 0) for coin in _COINS}
            self.sums = {coin: {**parts, "orders": stated[coin] - parts["owed"]} for coin, parts in before.items()}
        # Entries of one moment may be numbered in any order, and a seal may end between them.
        for key, was_below in list(self.below.items()):
            self.below[key] = True
            if was_below and self.stated:
                findings.add(where, "order_overdrawn", shown(key))
                del self.below[key]


# What LedgerMoney remembers.
MONEY = {
    "stated": bool,
    "liabilities": lambda stated: stated_liabilities(stated) is not None,
    "met": [str],
    "orders": lambda orders: fits(orders, dict) and all(fits(text, str) and _ORDER_TEXT.match(text) for text in orders.values()),
}


# --- the chain -------------------------------------------------------------------------------------------------------
#
# What is remembered of a service: {seq, payload_hash, pubkeys} of the last signed seal, and from a check that read
# everything also what the next one goes on from: that seal (`head`), what follows from all entries up to it, and the log by
# one hash for each bit of its size. So it stays small however long the ledger grows, and whatever was rewritten before has
# another root.

END = object()  # no entry of any ledger, not even null


@dataclass
class Question:
    """What a chain is checked against. `clock` gives Unix seconds."""

    pinned: list = field(default_factory=list)
    remembered: dict = None
    clock: object = lambda: float("inf")  # a check may take an hour, and seals are made meanwhile
    most_seals: float = float("inf")
    most_entries: float = float("inf")
    full: bool = True
    may_be_older: bool = False  # of a dump: it may end before what is remembered
    progress: object = None
    keep: object = None  # is given the audit now and then, to remember what it has verified


def audit_chain(source, question):
    """Checks a chain: from the remembered head on if the source still gives that very seal, else all of it, to say what changed."""
    memory = question.remembered
    may_go_on = (
        not question.full
        and memory
        and memory.get("unsigned") == 0  # an older version did not count them
        and "money" in memory  # nor did it know the liabilities
        and memory["chained"]  # so that the head stands for all seals before it
        and all(key in question.pinned for key in memory["pubkeys"] if question.pinned)
    )
    if may_go_on:
        seals = source.seals(memory["seq"] - 1)
        audit = ChainAudit(source, question)
        if audit.go_on_from(next(seals, None)):
            return audit.run(seals)
    return ChainAudit(source, question).run(source.seals(0))


class ChainAudit:
    """Reads a chain seal by seal, in order, and checks each with its entries; memory does not grow with the entries."""

    def __init__(self, source, question):
        self.source, self.question, self.remembered = source, question, question.remembered
        memory = self.remembered or {}
        self.keyring = Keyring(question.pinned, memory.get("pubkeys", []))
        self.findings = Findings()
        self.resumed_at = self.seals_read = self.last_seq = self.signed = self.unsigned = 0
        self.entries_sealed = self.entries_waiting = self.entries_read = self.unreadable = 0
        self.unsigned_seqs, self.adoptions = [], []
        self.head = None  # the last signed seal
        self.checked = None  # the last signed seal whose entries were all checked, and what follows from them
        self._before = None
        self._money = LedgerMoney()
        self._chained = False  # whether closing entries name the seal before by now
        self._logged = False  # whether they state the log and the keys by now
        self.log = Tree(log_node_of)  # over all entries so far; None after a seal whose entries are not there
        self.key_tree = KeyTree(2)  # the agents' keys, by the entries alone; None if not all of them were read
        self._older_key_tree = KeyTree(1)  # the same in form 1, until a closing entry states form 2
        self._key_form = 1  # of the tree that closing entries state by now
        self._keys_stated = None  # of keys that are not in key_tree; None: unknown
        self._keys_changed = False
        self._stream, self._stream_at = None, -1
        self.checkpoint, self.heard = memory.get("checkpoint"), memory.get("heard", [])
        self.given = []  # the checkpoint that the service showed
        self._keep_at = time.monotonic() + KEEP_SECONDS

    def go_on_from(self, seal):
        """Begins at the remembered head, if this is it. Returns whether it is."""
        memory = self.remembered
        good, _ = Findings().run("", check_seal_form, seal)
        if not good or not seal["signed"] or seal["seq"] != memory["seq"] or payload_hash_of(seal) != memory["payload_hash"]:
            return False
        where = f"seal {seal['seq']}"
        self.keyring.seen = list(memory["pubkeys"])
        check_seal_alone(seal, self.question.clock(), self.findings, where)
        check_signature(seal, self.keyring, self.findings, where)
        self.resumed_at = self.last_seq = self.signed = seal["seq"]
        self.head = self._before = seal
        self._money, self._chained = LedgerMoney(memory["money"]), memory["chained"]
        self.unreadable, self.adoptions = memory["unreadable"], list(memory["adoptions"])
        self._logged, self._keys_stated, self._key_form = memory["logged"], memory["keys"], memory.get("key_form", 1)
        self.key_tree = self._older_key_tree = None
        self.log, self.entries_sealed = log_of(memory), seal["to_id"]
        self._set_checked(seal)
        return True

    def run(self, seals):
        """Checks all seals that come, and then what is missing or waiting. Returns itself.

        If the source breaks off, what was checked up to the last signed seal is kept all the same."""
        try:
            for seal in seals:
                if self.seals_read >= self.question.most_seals:  # of this check: one that was checked before may be of any length
                    raise CannotCheck("too_long.seals_kept" if self.question.keep else "too_long.seals", self.question.most_seals)
                self._take_seal(seal)
                if self.findings.full:
                    return self
        except CannotCheck:
            if self.question.keep:
                self.question.keep(self)
            raise
        if self.remembered and self.last_seq < self.remembered["seq"] and not self.question.may_be_older:
            self.findings.add("chain", "chain_shortened", self.last_seq, self.remembered["seq"])
        if not self.findings.full:
            self._count_waiting(self._before["to_id"] + 1 if self._before else 1)
        return self

    def _take_seal(self, seal):
        """Checks the next seal of the chain, with its entries."""
        findings, due = self.findings, self.last_seq + 1
        self.seals_read += 1
        self.last_seq = seal["seq"] if isinstance(seal, dict) and is_whole(seal.get("seq")) else due
        where = f"seal {self.last_seq}"
        if not findings.run(where, check_seal_form, seal)[0]:
            self._before = None
            self._lose_count()
            return
        if seal["seq"] != due:
            findings.add(where, "seq_gap", due)
        check_seal_alone(seal, self.question.clock(), findings, where)
        if self._before is not None:
            check_seal_link(self._before, seal, findings, where)
        if seal["signed"]:
            self.signed += 1
            self.head = seal
            check_signature(seal, self.keyring, findings, where)
        else:
            self.unsigned += 1
            if len(self.unsigned_seqs) < MOST_LISTED:
                self.unsigned_seqs.append(seal["seq"])
        self._compare_with_head(seal, where)
        self._check_entries(seal, where)
        self._compare_with_log(seal, where)
        if seal["signed"]:
            self._set_checked(seal)
        self._before = seal
        self._tell(f"seal {seal['seq']}, entry {seal['to_id']}")
        if seal["signed"] and self.question.keep and time.monotonic() > self._keep_at:
            self.question.keep(self)
            self._keep_at = time.monotonic() + KEEP_SECONDS

    def _set_checked(self, seal):
        """Keeps what follows from all entries up to a signed seal, unless some of them are not there."""
        sums = self._money.state()
        if sums is None or self.log is None:
            return
        state = {
            **sums,
            "chained": self._chained,
            "unreadable": self.unreadable,
            "adoptions": list(self.adoptions),
            "unsigned": self.unsigned,
            "logged": self._logged,
            "log": self.log.state(),
            "keys": self._key_states()[self._key_form],
            **({} if self._key_form == 1 else {"key_form": self._key_form}),
        }
        self.checked = (seal, state)

    def _compare_with_head(self, seal, where):
        """Compares the seal of the remembered head's number with that."""
        memory = self.remembered
        if not memory or seal["seq"] != memory["seq"]:
            return
        if not seal["signed"]:
            self.findings.add(where, "signature_withdrawn")
        compare_with_head(self, where, seal, memory, "history_rewritten.payload")

    def _compare_with_log(self, seal, where):
        """Compares the log up to a seal with the one that was seen, up to the remembered head or to a checkpoint."""
        memory = self.remembered
        if not memory or "log" not in memory or not self.log:
            return
        is_head = seal["seq"] == memory["seq"] and payload_hash_of(seal) == memory["payload_hash"]
        if is_head and log_of(memory).root() != self.log.root():
            self.findings.add(where, "history_rewritten.entry")
        if "checkpoint" in memory:
            seen = read_checkpoint(memory["checkpoint"])
            if seen["size"] == seal["to_id"]:
                self.findings.run(where, connect_logs, seen, self.log.head(), None)

    def _check_entries(self, seal, where):
        """Checks the entries of a seal: their numbers, their root, what they do to the sums, and the closing entry."""
        tree, last = Tree(), None
        before = (self.log and self.log.head(), self._key_states())
        self._keys_changed = False
        for due in range(seal["from_id"], seal["to_id"] + 1):
            entry = self._entry(due)
            if entry is END:
                self.findings.add(where, "entry_gap.missing", due)
            if entry is END or not self.findings.run(f"entry {due}", self._place, entry, due, tree)[0]:
                self._stream = None
                self.entries_sealed += tree.count
                self._lose_count()
                return
            if due < seal["to_id"]:
                self._take_entry(entry)
            last = entry
            if tree.count % 10_000 == 0:
                self._tell(f"{where}, entry {due}")
        self.entries_sealed += tree.count
        if last is None:
            return
        root = tree.root().hex()
        if root == seal["root"]:
            self._check_closing(last, seal, before, where)
            return
        self.findings.add(where, "wrong_root.entries", seal["from_id"], seal["to_id"], root, seal["root"])
        self._lose_count()

    def _place(self, entry, due, tree=None):
        """Adds an entry to its seal's tree and to the log. Raises NotHeld if it is malformed, or has another number."""
        check_entry(entry)
        if entry["id"] != due:
            raise NotHeld("entry_gap.other", entry["id"])
        if tree is None:
            if entry["kind"] == "seal_adoption":
                canonical_or("malformed_entry.json", canonical_json, entry["data"])
            return
        leaf = canonical_or("malformed_entry.json", leaf_of, entry)
        tree.append(leaf)
        if self.log:
            self.log.append(leaf)

    def _lose_count(self):
        """Forgets what follows from all entries, once some of them are not there."""
        self._money.lose()
        self.log = self.key_tree = self._older_key_tree = self._keys_stated = None

    def _key_states(self):
        """Root and count of the agents' keys, by the form of the tree; None if unknown."""
        trees = {1: self._older_key_tree, 2: self.key_tree}
        stated = {self._key_form: self._keys_stated} if self.key_tree is None else {}
        return {form: tree.state() if tree is not None else stated.get(form) for form, tree in trees.items()}

    def _take_entry(self, entry):
        """Adds to the sums, the adoptions and the keys what an entry says."""
        if not self._money.add(entry, self.findings):
            self.unreadable += 1
        self._take_adoption(entry)
        if entry["kind"] not in KEY_MEMBERS:
            return
        data, name = entry["data"], KEY_MEMBERS[entry["kind"]]
        self.findings.run(f"entry {entry['id']}", self._check_key, entry)
        if isinstance(data.get("agent_id"), str) and name in data and (data[name] is None or is_hash(data[name])):
            self._keys_changed, self._keys_stated = True, None
            for tree in (self.key_tree, self._older_key_tree):
                if tree is not None:
                    tree.apply(entry)

    def _check_key(self, entry):
        """Raises NotHeld for a change of a key that lacks the signature of the author key that stood."""
        agent, author = entry["data"].get("agent_id"), entry["data"].get("author")
        standing = self.key_tree.get(agent) if self.key_tree is not None and isinstance(agent, str) else None
        key = (standing or {}).get("author_key")
        if is_signed_change(entry):
            check_author(entry, author, {})
        if key is not None and (not isinstance(author, dict) or author.get("author_key") != key):
            raise NotHeld("wrong_author.standing", key)

    def _take_adoption(self, entry):
        """Lists an entry by which the operator adopted a seal."""
        if entry["kind"] == "seal_adoption" and len(self.adoptions) < MOST_LISTED:
            data = canonical_json(entry["data"]).decode("utf-8")
            self.adoptions.append({"entry_id": entry["id"], "at": entry["at"], "data": first_units(data, 300)})

    def _check_closing(self, entry, seal, before, where):
        """Checks the closing entry of a seal, which must state what the entries give."""
        data, add = entry["data"], self.findings.add
        if entry["kind"] != "solvency" or data.get("seal") != f"seal_{seal['seq']}" or entry["at"] != seal["at"]:
            self._lose_count()
            add(where, "wrong_closing", seal["at"])
            return
        self._money.check_closing(data, self.findings, where)
        # A closing entry names the payload of the seal before, so that a head commits to all history. Older ones do not.
        self._chained = self._chained or "prev_seal" in data
        if self._chained:
            self._check_chaining(data.get("prev_seal"), seal, where)
        # It states the log up to the seal before it, and the keys after that seal. Older ones do not.
        self._logged = self._logged or "log" in data
        if self._logged:
            self._check_stated_log(data.get("log"), seal["from_id"] - 1, before[0], where)
            self._check_stated_keys(data.get("keys"), before[1], where)

    def _check_chaining(self, named, seal, where):
        if seal["seq"] == 1:
            right, due = named is None, "null"
        elif self._before and self._before["seq"] == seal["seq"] - 1:
            due = payload_hash_of(self._before)
            right = named == due
        else:
            right, due = is_hash(named), "the payload hash of a seal"
        if not right:
            self.findings.add(where, "wrong_prev_seal", shown(named), due)

    def _check_stated_log(self, stated, size, own, where):
        if not fits(stated, HEAD_OF_LOG) or stated["size"] != size or (own and stated["root"] != own["root"]):
            due = shown(own) if own else f"one of size {size}"
            self.findings.add(where, "wrong_log", shown(stated), due)

    def _check_stated_keys(self, stated, own_by_form, where):
        good = fits(stated, KEY_STATE)
        form = stated.get("v", 1) if isinstance(stated, dict) else None
        own = own_by_form[form] if is_key_form(form) else None
        if not good or (own and (stated["root"], stated["count"]) != (own["root"], own["count"])):
            due = shown(own) if own else "a root and a count"
            self.findings.add(where, "wrong_keys.state", shown(stated), due)
        elif form < self._key_form:
            self.findings.add(where, "wrong_keys.form")
        else:
            self._key_form = form
            if form == 2:
                self._older_key_tree = None
            if not self._keys_changed:
                self._keys_stated = {"root": stated["root"], "count": stated["count"]}

    def _entry(self, due):
        """The entry that the source gives in the place of `due`; END after its last."""
        if self._stream is None or self._stream_at != due:
            self._stream = self.source.entries(due)
        self._stream_at = due + 1
        for (entry,) in self._stream:
            self.entries_read += 1
            if self.entries_read > self.question.most_entries:
                raise CannotCheck("too_long.entries", self.question.most_entries)
            return entry
        self._stream = None
        return END

    def _count_waiting(self, due):
        """Counts the entries behind the last seal, and checks their numbers and their form."""
        for entry in iter(lambda: self._entry(due), END):
            if not self.findings.run(f"entry {due}", self._place, entry, due)[0]:
                return
            self._take_adoption(entry)
            self.entries_waiting += 1
            due += 1
            if self.entries_waiting % 10_000 == 0:
                self._tell(f"unsealed entry {due}")

    def _tell(self, text):
        """Shows how far the check is."""
        if self.question.progress:
            self.question.progress(text)

    def not_binding(self):
        """Words for why a chain without a finding binds nobody, each with a sentence."""
        if self.head is None:
            yield say("no_signed_seal")
        elif self.keyring.trust == "first_seen":
            yield say("key_unknown.chain")
        if self.head and self.unsigned:
            yield say("unsigned.one") if self.unsigned == 1 else say("unsigned.many", self.unsigned)
        seen = seen_log(self.remembered)
        longest = max([self.head["to_id"] if self.head else 0, *(checkpoint["size"] for checkpoint in self.given)])
        if self.question.may_be_older:
            if self.remembered and self.last_seq < self.remembered["seq"]:
                yield say("not_compared.dump", self.last_seq, self.remembered["seq"])
        elif seen and seen["size"] > longest:
            yield say("behind", seen["size"], longest)

    def memory(self):
        """What is to be remembered of a chain without findings: everything up to the last signed seal that was checked."""
        seal, state = self.checked
        return {
            "seq": seal["seq"],
            "payload_hash": payload_hash_of(seal),
            "pubkeys": self.keyring.seen,
            "checked_at": self.question.clock(),
            "head": {name: seal[name] for name in (*SIDE_FIELDS, "algo", "signed_at", "signed")},
            **state,
            **({} if self.checkpoint is None else {"checkpoint": self.checkpoint}),
            **({"heard": self.heard} if self.heard else {}),
        }

    def support(self):
        """What the verdict rests on besides the key: the checkpoint, and what was seen before, if the chain reaches that."""
        memory, head = self.remembered or {}, self.head or {}
        covered = self.given[0]["size"] if self.given else 0
        seen_size = memory["head"]["to_id"] if "head" in memory and memory["seq"] <= self.last_seq else None
        return Support(self.given, covered, head.get("to_id", 0), head.get("at"), seen_size)

    def report(self, target):
        """What the result says of the chain."""
        head, keys = self.head, self._key_states()[self._key_form] if self._logged else None
        return {
            "kind": "chain",
            "target": target,
            "seals": self.resumed_at + self.seals_read,
            "signed": self.signed,
            "unsigned_seqs": self.unsigned_seqs,
            "entries_sealed": self.entries_sealed,
            "entries_waiting": self.entries_waiting,
            "resumed_at": self.resumed_at or None,
            "entries_read": self.entries_read,
            "head": head and {"seq": head["seq"], "payload_hash": payload_hash_of(head), "at": head["at"]},
            "head_age_seconds": self.question.clock() - head["at"] if head else None,
            "log": self.log.head() if self.log and self._logged else None,
            "keys": keys and {**keys, "recomputed": self.key_tree is not None},
            "adoptions": self.adoptions,
            "unreadable_amounts": self.unreadable,
        }


# --- where a chain is read from (entries come wrapped in a tuple, since an entry itself may be null) ------------------


class ListSource:
    """Seals and entries from lists."""

    def __init__(self, seals, entries):
        self._seals, self._entries = seals, entries

    def seals(self, after):
        return iter(self._seals)

    def entries(self, from_id):
        reached = False
        for entry in self._entries:
            number = entry.get("id") if isinstance(entry, dict) else None
            reached = reached or not is_whole(number) or number >= from_id
            if reached:
                yield (entry,)


class Service:
    """Seals and entries as a service gives them, page by page."""

    def __init__(self, base, patience):
        self._base, self._patience = base, patience
        self._limits = {"seals": SEALS_A_PAGE, "entries": ENTRIES_A_PAGE}

    def seals(self, after):
        while True:
            page = self._list(f"/seal?after_seq={after}", "seals")
            yield from page
            last = page[-1].get("seq") if page and isinstance(page[-1], dict) else None
            if not is_whole(last) or last <= after:
                return  # asking on would go in a circle; the audit has said what is wrong with this page
            after = last

    def entries(self, from_id):
        while True:
            page = self._list(f"/api/v1/ledger?from_id={from_id}", "entries")
            if not page:
                return
            for entry in page:
                yield (entry,)
            from_id += len(page)

    def _list(self, path, name):
        def url():
            return f"{self._base}{path}&limit={self._limits[name]}"

        def ease():
            """Asks a service that is overloaded for half as much from now on."""
            if self._limits[name] <= FEWEST_A_PAGE:
                return None
            self._limits[name] //= 2
            return url()

        answer = fetch_json(url(), self._patience, ease)
        if not isinstance(answer, dict) or not isinstance(answer.get(name), list):
            raise CannotCheck("unreachable.list", url(), name)
        if len(answer[name]) > self._limits[name]:
            raise CannotCheck("unreachable.more", url(), name)
        return answer[name]


class Passing(Exception):
    """A failure of the connection, or one that the service calls passing: worth asking again.

    `busy` if the service says that it is overloaded, and `retry_after` if it says when to come again, in seconds."""

    def __init__(self, message, busy=False, retry_after=None):
        super().__init__(message)
        self.busy, self.retry_after = busy, retry_after


_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([1-9][0-9]{3}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT\Z")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_http_date(text):
    """The Unix seconds of a Date as RFC 9110 has it; None for any other text."""
    match = _HTTP_DATE.match(text)
    day, month, year, *rest = match.groups() if match else ("", "", "")
    return calendar.timegm((int(year), _MONTHS.index(month) + 1, int(day), *map(int, rest))) if month in _MONTHS else None


class Patience:
    """How long a service is waited for, in seconds: for an answer, and for all of them together.

    `ahead`: by how many seconds its clock was ahead of this machine's, at the most; None while no answer had a Date."""

    def __init__(self, timeout, deadline):
        self.timeout, self._deadline = timeout, deadline
        self._ends_at = time.monotonic() + deadline
        self.ahead = None

    def compare_clocks(self, date):
        at = read_http_date(date)
        if at is not None:
            ahead = at - int(time.time())
            self.ahead = ahead if self.ahead is None else max(ahead, self.ahead)

    def left(self):
        """Seconds that are left. Raises CannotCheck if there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            self.give_up()
        return left

    def rest(self, seconds):
        """Waits, unless that takes too long. Raises CannotCheck."""
        if seconds > self.left():
            self.give_up()
        time.sleep(seconds)

    def give_up(self):
        raise CannotCheck("deadline", self._deadline)


def fetch_json(url, patience, ease=lambda: None):
    """Fetches JSON, as ask_again() asks. Raises CannotCheck."""

    def ask(asked):
        try:
            return read_json(fetch(asked, patience))
        except ValueError as error:
            raise CannotCheck("unreachable.json", asked, str(error)[:200]) from None

    return ask_again(url, patience, ask, ease)


def ask_again(url, patience, ask, ease=lambda: None):
    """Asks, and again after a failure that may pass: twice, and each time that `ease` gives the URL of a smaller question
    to a service that is overloaded. Raises CannotCheck."""
    repeats = 0
    while True:
        try:
            return ask(url)
        except Passing as error:
            smaller = ease() if error.busy else None
            if smaller is None and repeats == len(RETRY_AFTER_SECONDS):
                raise CannotCheck("unreachable.again", url, error) from None
            pause = RETRY_AFTER_SECONDS[repeats if smaller is None else 0]
            repeats += smaller is None
            url = smaller or url
            patience.rest(pause if error.retry_after is None else error.retry_after)


def fetch(url, patience, absent=()):
    """Fetches the bytes of a good answer; None for one of the statuses that say that there is none.

    A redirection is followed within the origin alone. Raises Passing or CannotCheck."""
    parts = urllib.parse.urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    route = url[len(origin) :]
    for _ in range(MOST_REDIRECTS + 1):
        status, headers, body = fetch_once(parts, route, url, patience)
        patience.compare_clocks(headers.get("date", ""))
        if status == 200:
            return decompress(url, headers.get("content-encoding", "identity"), body)
        if status in absent:
            return None
        if status >= 500 or status == 429:
            wait = headers.get("retry-after", "")
            seconds = min(int(wait), LONGEST_RETRY_AFTER) if re.match(r"[0-9]{1,9}\Z", wait) else None
            raise Passing(f"answered {status}", status in (429, 503), seconds)
        if status not in (301, 302, 303, 307, 308):
            raise CannotCheck("unreachable.status", url, status)
        location = headers.get("location", "")
        route = location[len(origin) :] if location.startswith(f"{origin}/") else location
        if not re.match(r"/(?!/)[!-~]*\Z", route):
            raise CannotCheck("unreachable.origin", url)
    raise CannotCheck("unreachable.redirects", url)


def fetch_once(parts, route, url, patience):
    """One request and its whole answer. A thread of its own asks, since a socket's timeout is for each read, not for all."""
    outcome = []
    left = patience.left()
    timeout = min(patience.timeout, left)

    def ask():
        try:
            outcome.append(_ask(parts, route, url, timeout))
        except Exception as error:  # raised again below, in the thread that waits
            outcome.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(timeout)
    if not outcome:
        if left < patience.timeout:
            patience.give_up()
        raise CannotCheck("unreachable.slow", url, timeout)
    if isinstance(outcome[0], (OSError, http.client.HTTPException)):
        raise Passing(str(outcome[0]) or type(outcome[0]).__name__)
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _ask(parts, route, url, timeout):
    """Makes one request and reads its answer, up to a size: (status, headers, body)."""
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname, parts.port, timeout=timeout)
    try:
        connection.request("GET", route, headers={"accept": "application/json", "accept-encoding": "gzip"})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in reversed(response.getheaders())}  # the first counts
        if sum(len(name) + len(value) for name, value in response.getheaders()) > LARGEST_HEADERS:
            raise http.client.HTTPException("the headers are too long")
        body = bytearray()
        while len(body) <= LARGEST_ANSWER:
            part = response.read(2**16)
            if not part:
                if response.length:  # what was announced and did not come
                    raise http.client.HTTPException("the answer broke off")
                return response.status, headers, bytes(body)
            body += part
        raise CannotCheck("unreachable.large", url, LARGEST_ANSWER)
    finally:
        connection.close()


def decompress(url, encoding, body):
    """The body of an answer in an encoding that was asked for. Raises CannotCheck."""
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise CannotCheck("unreachable.encoding", url)
    # One member of RFC 1952 without optional fields, and nothing after it: what servers send.
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = inflating.decompress(body[10:], LARGEST_ANSWER + 1)
    except zlib.error:
        plain = b""
    trailer = inflating.unused_data
    whole = inflating.eof and len(trailer) == 8 and int.from_bytes(trailer[4:], "little") == len(plain)
    if body[:4] != b"\x1f\x8b\x08\x00" or not whole or len(plain) > LARGEST_ANSWER:
        raise CannotCheck("unreachable.gzip", url, LARGEST_ANSWER)
    return plain


# --- a receipt -------------------------------------------------------------------------------------------------------


class ReceiptAudit:
    """The check of one receipt. Of the question it needs the keys, the memory and the time."""

    def __init__(self, receipt, question, consistency=None):
        self.receipt, self.question = receipt, question
        self.consistency = consistency  # the proof between the log that was seen and the receipt's
        self.memory = question.remembered or {}
        self.findings = Findings()
        self.keyring = Keyring(question.pinned, self.memory.get("pubkeys", []))
        self.record = None
        self.entries_sealed = self.entries_waiting = self.openings = 0
        self.unsigned_seqs, self.authors = [], []
        self.log = None  # its newest checkpoint, and how it stands to what was seen
        self.checkpoints = {}  # by size
        self.up_to = 0  # the last entry under a signed seal
        self.covered = 0  # up to which of those all are in the log of a checkpoint
        self._last_id = 0
        self._notes = {}  # verified checkpoints by their text: many entries stand under one
        self._placed = []  # for each entry whose path holds, its seal, the size of its log if it is in one, and whether that was seen
        self._uncompared = []  # seals that lie in what was seen, and could not be compared with that
        self._seals = {}  # seq -> seal
        self._entries = {}  # id -> entry

    def run(self):
        """Checks all of it. Returns itself."""
        findings, receipt = self.findings, self.receipt
        if not findings.run("receipt", self._check_form)[0]:
            return self
        self.record = receipt["id"]
        for item in receipt["entries"]:
            self._check_item(item)
        self._connect()
        if len(self._entries) == len(receipt["entries"]):
            findings.run("receipt", self._check_making)
        ordered = [self._seals[seq] for seq in sorted(self._seals)]
        for before, seal in zip(ordered, ordered[1:]):
            where = f"seal {seal['seq']}"
            check_seal_link(before, seal, findings, where)
            if seal["seq"] > before["seq"] + 1 and seal["from_id"] <= before["to_id"]:
                findings.add(where, "range_gap.within", seal["from_id"], before["seq"], before["to_id"])
        for opening in receipt.get("openings", []):
            held, authors = findings.run(f"opening of entry {number_in(opening, 'entry_id')}", self._check_opening, opening)
            self.openings += held
            self.authors += authors or []
        return self

    def _check_form(self):
        """Raises NotHeld unless the receipt has the form of one."""
        receipt = self.receipt
        if not isinstance(receipt, dict) or not isinstance(receipt.get("id"), str) or not receipt["id"]:
            raise NotHeld("malformed_receipt.id")
        items = receipt.get("entries")
        if not isinstance(items, list) or not items:
            raise NotHeld("malformed_receipt.entries")
        if not all(isinstance(item, dict) and isinstance(item.get("sealed"), bool) for item in items):
            raise NotHeld("malformed_receipt.sealed")
        if receipt.get("sealed") is not all(item["sealed"] for item in items):
            raise NotHeld("malformed_receipt.whole")
        if not isinstance(receipt.get("openings", []), list):
            raise NotHeld("malformed_receipt.openings")

    def _check_item(self, item):
        """Checks an entry, and its proof if it is sealed."""
        entry = item.get("entry")
        where = f"entry {number_in(entry, 'id')}"
        if not self.findings.run(where, self._check_entry, entry)[0]:
            return
        self._last_id = entry["id"]
        self._entries[entry["id"]] = entry
        if is_signed_change(entry) and self.findings.run(where, check_author, entry, entry["data"]["author"], {})[0]:
            self.authors.append(author_at(entry))
        if item["sealed"]:
            self._check_sealed(where, item)
        else:
            self.entries_waiting += 1

    def _check_entry(self, entry):
        """Raises NotHeld for an entry that is malformed, out of order, or not of the record."""
        check_entry(entry)
        if entry["id"] <= self._last_id:
            raise NotHeld("malformed_receipt.order")
        if not is_of_record(entry, self.record):
            raise NotHeld("wrong_record.other", shown(self.record))

    def _check_making(self):
        """Raises NotHeld unless the entry that makes the record is there: what others say of a record must not prove it."""
        making = MADE_BY.get(prefix_of(self.record))
        if making is not None and all(entry["kind"] != making for entry in self._entries.values()):
            raise NotHeld("wrong_record.making", making, shown(self.record))

    def _check_sealed(self, where, item):
        """Checks the seal of an entry, its path to it, and its place in the log."""
        seal, entry, findings = item.get("seal"), item["entry"], self.findings
        if not findings.run(where, check_seal_form, seal)[0]:
            return
        held, _ = findings.run(where, self._check_path, item)
        self.entries_sealed += held
        self._check_seal(where, seal)
        if not held:
            return
        placed, place = findings.run(where, self._check_log_proof, item) if "tlog_proof" in item else (False, None)
        self._placed.append((seal, *(place or (None, False))))
        if seal["signed"]:
            self.covered = entry["id"] if placed and self.covered == self.up_to else self.covered
            self.up_to = entry["id"]

    def _check_path(self, item):
        """Raises NotHeld unless an entry is in its well-formed seal, where its index says."""
        seal, entry, index = item["seal"], item["entry"], item.get("index")
        if not is_whole(item.get("seq")) or item["seq"] != seal["seq"]:
            raise NotHeld("malformed_receipt.seal", shown(item.get("seq")), seal["seq"])
        check_leaf(entry, item.get("leaf"))
        if is_whole(index) and seal["from_id"] + index != entry["id"]:
            raise NotHeld("wrong_index", index, seal["seq"], seal["from_id"] + index)
        check_inclusion(item["leaf"], item.get("path"), seal["root"], index, seal["count"])

    def _check_seal(self, where, seal):
        """Checks a seal once, and that the receipt doesn't bring two of one number."""
        findings, seq, known = self.findings, seal["seq"], self._seals.get(seal["seq"])
        if known is not None and payload_of(known) != payload_of(seal):
            findings.add(where, "conflicting_seals", seq)
            findings.fork = findings.fork or seal_fork_of(known, seal, self.keyring)
        elif known is not None and known.get("signature") == seal.get("signature") and known.get("pubkey") == seal.get("pubkey"):
            return
        self._seals[seq] = seal
        check_seal_alone(seal, self.question.clock(), findings, f"seal {seq}")
        if seal["signed"]:
            check_signature(seal, self.keyring, findings, f"seal {seq}")
        else:
            self.unsigned_seqs.append(seq)
        of_service = seal["pubkey"] in self.memory.get("pubkeys", []) if seal["signed"] else not self.question.pinned
        if of_service and seq == self.memory.get("seq"):
            compare_with_head(self, f"seal {seq}", seal, self.memory, "history_rewritten.in_chain")

    def _check_log_proof(self, item):
        """Checks an entry's place in the log, under a checkpoint that a known key has signed: (its size, whether the entry is in the
        log that was seen). Raises NotHeld."""
        entry, seal, leaf, memory = item["entry"], item["seal"], bytes.fromhex(item["leaf"]), self.memory
        index, path, note = read_log_proof(item["tlog_proof"])
        checkpoint = self._notes.get(note) or read_checkpoint(note)
        if index != entry["id"] - 1 or root_by_path(leaf, index, checkpoint["size"], path) != checkpoint["root"]:
            raise NotHeld("wrong_log_proof.path", entry["id"])
        if note not in self._notes:  # the key of its seal is judged there
            verify_checkpoint(note, [*self.keyring.accepted, *([seal["pubkey"]] if seal["signed"] else [])])
        self._notes[note] = checkpoint
        if self.checkpoints.setdefault(checkpoint["size"], checkpoint)["root"] != checkpoint["root"]:
            raise NotHeld("log_rewritten.two", checkpoint["size"])
        may_be_seen = "log" in memory and entry["id"] <= memory["log"]["size"] <= checkpoint["size"]
        if may_be_seen and not is_in_seen_log(leaf, index, path, memory):
            raise NotHeld("log_rewritten.entry", entry["id"], memory["log"]["size"])
        return checkpoint["size"], may_be_seen

    def _connect(self):
        """Compares the newest checkpoint with the log that was seen."""
        seen, newest = seen_log(self.memory), max(self.checkpoints, default=None)
        if newest is not None:
            given = self.checkpoints[newest]
            connected = compare_logs(self, "log", seen, given, self.consistency) if seen else None
            self.log = {"origin": given["origin"], "size": given["size"], "root": given["root"], "connected": connected}
        # What lies in the part of the ledger that was seen here must be what was seen.
        for seal, size, is_seen in self._placed:
            compared = is_seen or seal["seq"] == self.memory.get("seq") or (self.is_connected() and size == newest)
            if seen and seal["to_id"] <= seen["size"] and not compared and seal["seq"] not in self._uncompared:
                self._uncompared.append(seal["seq"])

    def is_connected(self):
        """Whether its log is known to agree with what was seen."""
        return self.log is not None and self.log["connected"] in ("same", "consistent")

    def support(self):
        """What the verdict rests on besides the key."""
        seen_size = seen_log(self.memory)["size"] if self.is_connected() else None
        return Support(list(self.checkpoints.values()), self.covered, self.up_to, seen_size=seen_size)

    def not_binding(self):
        """Words for why a receipt without a finding binds nobody, each with a sentence."""
        if self.entries_waiting:
            yield say("waiting.one") if self.entries_waiting == 1 else say("waiting.many", self.entries_waiting)
        if self.unsigned_seqs:
            yield say("unsigned.named", " ".join(map(str, self.unsigned_seqs)))
        if self.keyring.trust == "first_seen" and self.keyring.seen:
            yield say("key_unknown.file")
        if self._uncompared:
            yield say("not_compared.receipt", " ".join(map(str, self._uncompared)))

    def _check_opening(self, opening):
        """Checks that an opening gives the commitment in its entry, and its author's signature. Returns whose it is. Raises NotHeld."""
        if not fits(opening, OPENING):
            raise NotHeld("wrong_opening.form")
        number, content = opening.get("entry_id"), opening["content"]
        entry = self._entries.get(number) if is_whole(number) else None
        if entry is None:
            raise NotHeld("wrong_opening.entry")
        commitment = entry["data"].get(opening["field"])
        if not is_hash(commitment):
            raise NotHeld("wrong_opening.field", shown(opening["field"]))
        text = canonical_or("wrong_opening.json", canonical_json, content)
        if hashlib.sha256(bytes.fromhex(opening["salt"]) + text).hexdigest() != commitment:
            raise NotHeld("wrong_opening.commitment", shown(opening["field"]))
        # Commitments of earlier versions are to the content alone.
        if isinstance(content, dict) and content.get("id", self.record) != self.record:
            raise NotHeld("wrong_opening.record", shown(content["id"]))
        return check_opened_author(opening, entry)

    def report(self, target):
        """What the result says of the receipt."""
        return {
            "kind": "receipt",
            "target": target,
            "id": self.record,
            "entries_sealed": self.entries_sealed,
            "entries_waiting": self.entries_waiting,
            "unsigned_seqs": self.unsigned_seqs,
            "openings": self.openings,
            "authors": self.authors,
            "log": self.log,
            "proves": "presence",
        }


# --- signatures of agents over what they put on record -----------------------------------------------------------------

# By the entry's kind: the opening that the signature comes with, and the members of what is signed.
AUTHORED = {
    "post": ("content_hash", ("body", "topic")),
    "claim": ("content_hash", ("kind", "resolve_by", "statement")),
    "verdict": ("evidence_hash", ("claim_id", "evidence", "outcome")),
    "dm_key_change": (None, ("dm_key",)),
    "author_key_change": (None, ("author_key",)),
}

# The member of an entry's data that has the key, by the kind of entry that changes one.
KEY_MEMBERS = {"dm_key_change": "dm_key", "author_key_change": "author_key"}


def author_at(entry):
    """Which entry an author key has signed."""
    return {"entry_id": entry["id"], "author_key": entry["data"]["author"]["author_key"]}


def is_signed_change(entry):
    """Whether an entry changes a key, and carries the whole signature of the author key that stood before it."""
    return entry["kind"] in KEY_MEMBERS and "author" in entry["data"]


def check_opened_author(opening, entry):
    """Checks the author's signature that comes with an opening. Returns whose it is, in a list that may be empty. Raises NotHeld."""
    if AUTHORED.get(entry["kind"], (None,))[0] != opening["field"]:
        return []
    states, shows = "author" in entry["data"], "author" in opening
    if states != shows:
        raise NotHeld("wrong_author.not_shown" if states else "wrong_author.not_carried")
    if not states:
        return []
    stated, author = entry["data"]["author"], opening["author"]
    check_author(entry, author, opening["content"] if isinstance(opening["content"], dict) else {})
    digest = hashlib.sha256(decode_signature(author["signature"])).hexdigest()
    if not isinstance(stated, dict) or stated.get("author_key") != author["author_key"] or stated.get("signature_hash") != digest:
        raise NotHeld("wrong_author.other")
    return [author_at(entry)]


def check_author(entry, author, opened):
    """Checks an author's signature over what an entry says. opened: the content that it has a commitment to. Raises NotHeld."""
    data, kind = entry["data"], entry["kind"]
    if not fits(author, AUTHOR):
        raise NotHeld("wrong_author.form")
    seen, signature = author["seen"], decode_signature(author["signature"])
    if not isinstance(data.get("agent_id"), str):
        raise NotHeld("wrong_author.agent")
    content = {name: opened[name] if name in opened else data.get(name) for name in AUTHORED[kind][1]}
    statement = {"agent_id": data["agent_id"], "kind": kind, "content": content, "seen": {"size": seen["size"], "root": seen["root"]}}
    text = canonical_or("wrong_author.json", canonical_json, statement)
    key = author["author_key"]
    if is_weak_key(bytes.fromhex(key)):
        raise NotHeld("wrong_author.weak", key)
    if not is_signed_by(bytes.fromhex(key), text, signature):
        raise NotHeld("wrong_author.signature", key)


# By the prefix of a record's id: the kind of entry that makes such a record.
MADE_BY = {
    **{"agt": "registration", "pst": "post", "clm": "claim", "vrd": "verdict", "ann": "announcement", "ofr": "offer", "mkt": "order"},
    **{"wrk": "pass_credit", "inv": "pass_credit", "pay": "payment", "out": "payout", "opr": "operator_act", "rcn": "reconcile"},
}

# By the prefix, the members of an entry's data of which the first that is there has the record's id, and the kinds that have
# it so. The ids of other records may stand beside it: a credit for a claim names the agent too, and is the claim's.
_RECORD_ROWS = (
    ("agt", "agent_id", "registration token_rotation dm_key_change author_key_change witness_key ban unban hide unhide"),
    ("agt", "claim_id payment_id invoice_id order_id agent_id", "pass_credit"),
    ("pst", "post_id", "post hide unhide"),
    ("clm", "claim_id", "claim proposal_accepted pass_credit hide unhide"),
    ("vrd", "verdict_id", "verdict"),
    ("ann", "announcement_id", "announcement"),
    ("ofr", "offer_id", "offer offer_closed hide unhide"),
    ("mkt", "order_id", "order fee payment dispute dispute_outcome"),
    ("wrk", "order_id", "pass_credit"),
    ("inv", "payment_id invoice_id", "pass_credit"),
    ("pay", "step payment_id", "payment"),  # one with a step is of an order, and a step is no id
    ("pay", "payment_id", "pass_credit"),
    ("out", "payout_id", "payout"),
    ("opr", "act_id", "operator_act"),
    ("rcn", "reconciliation_id", "reconcile"),
    ("seal", "seal", "solvency seal_adoption"),
)
ID_MEMBERS = {(prefix, kind): members.split() for prefix, members, kinds in _RECORD_ROWS for kind in kinds.split()}
KNOWN_KINDS = frozenset(kind for _, kind in ID_MEMBERS)


def prefix_of(record):
    return record.partition("_")[0]


def is_of_record(entry, record):
    """Whether an entry belongs to a record. For a kind newer than the table, any string in the data may be the id."""
    members = ID_MEMBERS.get((prefix_of(record), entry["kind"]))
    if members is None:
        return entry["kind"] not in KNOWN_KINDS and names(entry["data"], record)
    return next((entry["data"][member] for member in members if member in entry["data"]), None) == record


def names(value, record):
    """Whether some string in value is the record's id."""
    unread = [value]
    while unread:
        part = unread.pop()
        if isinstance(part, (dict, list)):
            unread.extend(part.values() if isinstance(part, dict) else part)
        elif isinstance(part, str) and part == record:
            return True
    return False


# --- evidence: two signed histories ----------------------------------------------------------------------------------


def write_evidence(folder, found):
    """Writes a proof of a contradiction into a new file, which anybody can check. Returns its path."""
    text = json.dumps(found, indent=2) + "\n"
    now, count = found["found_at"], 1
    while True:
        path = os.path.join(folder, f"fork-{now}{'' if count == 1 else f'-{count}'}.json")
        try:
            with open(path, "x", encoding="ascii") as file:
                file.write(text)
            return path
        except FileExistsError:
            count += 1
        except OSError as error:
            raise CannotCheck("usage", f"the evidence cannot be written: {error}") from None


def audit_seal_fork(sides, keyring, findings):
    """Checks that two seals prove a fork: no finding means that they do. Returns what the result says."""
    read = []
    for number, side in enumerate(sides, 1):
        seal = {**side, "signed": True, "algo": "ed25519", "signed_at": side.get("at")} if isinstance(side, dict) else side
        if findings.run(f"side {number}", check_seal_form, seal)[0]:
            read.append(seal)
            check_signature(seal, keyring, findings, f"side {number}")
    hashes = [payload_hash_of(seal) for seal in read]
    if len(read) == 2 and (hashes[0] == hashes[1] or read[0]["seq"] != read[1]["seq"]):
        findings.add("evidence", "no_contradiction.seals")
    return {"seq": read[0]["seq"] if read else None, "payload_hashes": hashes}


def audit_log_fork(evidence, keyring, findings):
    """The same of two signed checkpoints."""
    key, sides = evidence.get("pubkey"), []

    def read(note):
        if not is_hash(key):
            raise NotHeld("wrong_checkpoint.key")
        keyring.check(key)
        sides.append(verify_checkpoint(note, [key]))

    for number, note in enumerate(evidence["notes"], 1):
        findings.run(f"note {number}", read, note)
    if len(sides) == 2 and not (sides[0]["origin"] == sides[1]["origin"] and contradict(*sides, evidence.get("consistency"))):
        findings.add("evidence", "no_contradiction.logs")
    return {"sizes": [side["size"] for side in sides], "roots": [side["root"] for side in sides]}


# --- the state file: {BASE_URL: what is remembered of that service} ----------------------------------------------------


def read_state(path):
    """Reads the state file, or gives an empty state if there is no file. Raises CannotCheck for anything else."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CannotCheck("usage", f"the state file {path} cannot be read: {error}") from None
    state = parse_file(f"the state file {path}", content)
    if not isinstance(state, dict) or not all(fits(memory, HEAD_MEMORY) and ("log" not in memory or fits(memory, MEMORY)) for memory in state.values()):
        raise CannotCheck("usage", f"the state file {path} is not one of this program's: move it away to begin anew")
    return state


# What versions of long ago remembered of a service, and what this one does.
HEAD_MEMORY = {"seq": is_whole, "payload_hash": is_hash, "pubkeys": [is_hash]}
MEMORY = {
    **HEAD_MEMORY,
    "head": {"signed": lambda signed: signed is True},
    "log": lambda log: fits(log, {"size": is_whole, "frontier": [is_hash]}) and len(log["frontier"]) == bin(log["size"]).count("1"),
    "keys": lambda keys: keys is None or fits(keys, {"count": is_whole, "root": is_hash}),
    "key_form?": is_key_form,
    "owed": lambda owed: stated_sums(owed) is not None,
    "money?": MONEY,
    "chained": bool,
    "logged": bool,
    "unreadable": is_whole,
    "unsigned?": is_whole,  # an older version did not count them
    "adoptions": list,
    "heard?": [lambda note: Findings().run("", read_checkpoint, note)[0]],
    "checkpoint?": lambda note: Findings().run("", read_checkpoint, note)[0],
}


def change_state(path, change):
    """Changes the state file under a lock, as it stands now; a crash leaves the old file or the new one whole."""
    lock, holder = f"{path}.lock", f"{os.getpid()}.{os.urandom(8).hex()}"
    fresh = f"{path}.{holder}.new"
    _take_lock(lock, holder)
    try:
        state = read_state(path)
        change(state)
        with open(fresh, "w", encoding="ascii") as file:
            file.write(json.dumps(state, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        raise CannotCheck("usage", f"the state file {path} cannot be written: {error}") from None
    finally:
        _remove(fresh)
        if _content(lock) == f"{holder}\n".encode("ascii"):  # it is another's if this one was taken for dead
            _remove(lock)


def _take_lock(lock, holder):
    """Waits for the lock and takes it. One that is much older than milliseconds is of a process that was killed."""
    while not _create(lock, holder):
        # Only one may break a stale lock, and looks again: the lock may be a new one by now.
        breaking = f"{lock}.breaking"
        if _is_stale(lock) and _create(breaking, holder):
            if _is_stale(lock):
                _remove(lock)
            _remove(breaking)
        else:
            if _is_stale(breaking):
                _remove(breaking)
            time.sleep(0.02)


def _create(path, holder):
    """Makes a file that says who holds it. Returns whether there was none. Raises CannotCheck."""
    try:
        with open(path, "x", encoding="ascii") as file:
            file.write(f"{holder}\n")
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise CannotCheck("usage", f"the state file cannot be locked: {error}") from None


def _is_stale(path):
    try:
        return time.time() - os.stat(path).st_mtime > STALE_LOCK_SECONDS
    except OSError:
        return False


def _content(path):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def _remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


class ServiceMemory:
    """What is remembered of one service while it is checked."""

    def __init__(self, path, base, known):
        self._path, self._base, self._known = path, base, known

    def keep(self, audit):
        """Remembers what an audit without findings has verified; never less than was known.

        Returns whether another check has put something else there meanwhile; then nothing is changed."""
        known = self._known
        if audit.checked is None or audit.checked[0]["seq"] < (known["seq"] if known else 0):
            return False
        memory, overtaken = audit.memory(), []

        def put(state):
            current = state.get(self._base)
            if current and current["payload_hash"] not in (memory["payload_hash"], known["payload_hash"] if known else None):
                overtaken.append(current)
            else:
                state[self._base] = self._known = memory

        change_state(self._path, put)
        return bool(overtaken)


MOST_HEARD = 16


def remember_heard(state, base, checkpoint):
    """Remembers another reader's checkpoint beyond what was seen, to be compared as soon as the log is that long."""
    memory = state.get(base)
    if memory and "log" in memory and checkpoint["note"] not in memory.get("heard", []):
        memory["heard"] = [*memory.get("heard", []), checkpoint["note"]][-MOST_HEARD:]


def remember_checkpoint(state, base, checkpoint):
    """Remembers a checkpoint that was verified by proofs, if it is newer than what was seen."""
    seen = seen_log(state.get(base))
    if seen and checkpoint["size"] > seen["size"]:
        state[base]["checkpoint"] = checkpoint["note"]


def find_service(arguments, keys):
    """What is remembered of the service that a file is from: of the named one, else the only one, else that whose key signed it."""
    state = read_state(arguments.state)
    if arguments.service is not None:
        return state.get(arguments.service)
    if len(state) == 1:
        return next(iter(state.values()))
    return next((memory for memory in state.values() if any(key in memory["pubkeys"] for key in keys)), None)


# --- files -----------------------------------------------------------------------------------------------------------


def read_bytes(path):
    """The bytes of a file, up to a size. Raises CannotCheck."""
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CannotCheck("usage", str(error)) from None
    if len(content) > LARGEST_FILE:
        raise CannotCheck("usage", f"{path} has more than {LARGEST_FILE} bytes")
    return content


def parse_file(path, content):
    """Parses JSON from a file. Raises CannotCheck."""
    try:
        return read_json(content)
    except ValueError as error:
        raise CannotCheck("usage", f"{path} is not JSON: {str(error)[:200]}") from None


def read_json_file(path):
    return parse_file(path, read_bytes(path))


# --- the command -----------------------------------------------------------------------------------------------------


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        raise CannotCheck("usage", f"{message}\n{self.format_help()}")


EXIT_TEXT = "exit status 0: it holds, under a known key; 1: something does not hold; 2: it could not be checked; 3: nothing binding"


def read_arguments(argv):
    """Parses the command line. Raises CannotCheck."""
    parser = Arguments(prog="seal_verify.py", add_help=False, allow_abbrev=False, epilog=EXIT_TEXT)
    add = parser.add_argument
    add("target", nargs="?", metavar="BASE_URL|DUMP.json|RECEIPT.json")
    add("--pubkey", action="append", default=[], metavar="HEX", help="accept this key and no other; again for each further key")
    add("--policy", metavar="FILE", help="whose cosignatures a checkpoint must have (C2SP tlog-policy); its logs' keys are pinned")
    add("--state", default=".seal-verify.json", metavar="FILE", help="where keys and logs that were seen are remembered")
    add("--service", type=_service, metavar="URL", help="the remembered service that a receipt is of, if there are several")
    add("--consistency", metavar="FILE", help="the answer of GET /ledger/consistency, between the log seen and the receipt's")
    add("--full", action="store_true", help="read the whole ledger again, not only what is new")
    add("--max-age", type=_whole, metavar="SECONDS", help="how old the newest cosignature that counts may be, or without any the newest signed seal (1800 for a service)")
    add("--max-seals", type=_whole, default=1_000_000, metavar="N", help="give up if there are more to check at once")
    add("--max-entries", type=_whole, default=100_000_000, metavar="N", help="the same of entries")
    add("--timeout", type=_whole, default=30, metavar="SECONDS", help="for each answer as a whole")
    add("--deadline", type=_whole, default=3_600, metavar="SECONDS", help="for all answers of a service together; the next check goes on from there")
    add("--evidence", metavar="FILE", help="check a proof that one key signed two histories")
    add("--note", metavar="FILE", help="compare a signed checkpoint that another reader was shown with what is remembered")
    add("--json", action="store_true", help="print one JSON object instead of lines")
    arguments = parser.parse_args(argv)
    if sum(part is not None for part in (arguments.target, arguments.evidence, arguments.note)) != 1:
        parser.error("one thing to check is needed")
    for key in arguments.pubkey:
        if not is_hash(key):
            parser.error(f"--pubkey takes 64 lower-case hex characters, not {shown(key)}")
    if arguments.policy is not None:
        arguments.policy = read_policy(arguments.policy)
        arguments.pubkey += [key for _, key in arguments.policy.logs if key is not None]
    if arguments.consistency is not None:
        arguments.consistency = consistency_in(read_json_file(arguments.consistency))
    return arguments


def _whole(text):
    if not re.match(r"[0-9]{1,15}\Z", text):
        raise argparse.ArgumentTypeError(f"it takes a whole number, not {shown(text)}")
    return int(text)


_BASE_URL = re.compile(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:/[A-Za-z0-9._~-]+)*)/*\Z")


def _service(target):
    """The one form of a service's URL: https://Host:443/ and https://host/api/v1 become https://host."""
    end = target.find("/", target.find("//") + 2)
    end = len(target) if end < 0 else end
    match = _BASE_URL.match(target[:end].lower() + target[end:])
    if not match or re.search(r"/\.\.?(/|\Z)", match.group(4)):
        raise CannotCheck("usage", f"{target} is not the address of a service")
    scheme, host, port, route = match.groups()
    if port and int(port) != {"http": 80, "https": 443}[scheme]:
        host = f"{host}:{int(port)}"
    return f"{scheme}://{host}{route[:-7] if route.endswith('/api/v1') else route}"


def chain_question(arguments, remembered, **more):
    """The question that the arguments ask about a chain."""
    limits = {"most_seals": arguments.max_seals, "most_entries": arguments.max_entries}
    return Question(arguments.pubkey, remembered, lambda: int(time.time()), progress=Progress(), **limits, **more)


def check_service(arguments):
    """Checks the chain of a service, and remembers what was found. Returns the result."""
    base = _service(arguments.target)
    patience = Patience(arguments.timeout, arguments.deadline)
    if arguments.max_age is None:
        arguments.max_age = DEFAULT_MAX_AGE
    # Whatever another check has seen meanwhile is compared too: this one goes on from there.
    for _ in range(MOST_TURNS):
        remembered = read_state(arguments.state).get(base)
        memory = ServiceMemory(arguments.state, base, remembered)
        audit = audit_service(base, remembered, memory, arguments, patience)
        judge_clock(audit.findings, patience.ahead)
        checkpoint = None
        if not audit.findings.kept and audit.checked and audit.checked[1]["logged"]:
            checkpoint = check_checkpoint(base, audit, patience, arguments.policy)
        overtaken = not audit.findings.kept and memory.keep(audit)
        if not overtaken:
            break
    doubts = list(audit.not_binding())
    if overtaken:
        doubts.append(say("not_compared.checks"))
    seen = remembered["seq"] if remembered else None
    report = {**audit.report(base), "checkpoint": checkpoint, "remembered_seq": seen, "state": arguments.state}
    return conclude(report, audit, doubts, arguments, base, audit.support())


def audit_service(base, remembered, memory, arguments, patience):
    """Reads a service as far as is asked for, and remembers now and then how far it has come."""
    question = chain_question(arguments, remembered, full=arguments.full)
    question.keep = lambda audit: None if audit.findings.kept else memory.keep(audit)
    return audit_chain(Service(base, patience), question)


def judge_clock(findings, ahead):
    """If seals are dated after now, says whether the service's own clock, so many seconds ahead, agrees with them.

    Raises CannotCheck if it does and nothing else is wrong."""
    future = findings.future
    if future is None or ahead is None:
        return
    if future["at"] > future["now"] + ahead + CLOCK_SKEW_SECONDS:
        future["service_now"] = future["now"] + ahead
    elif len(findings.kept) == 1:
        behind = f"{ahead} s" if ahead < 120 else f"{ahead // 60} min"
        raise CannotCheck("wrong_clock", future["at"], future["now"], behind)


def check_checkpoint(base, audit, patience, policy):
    """Checks that a known key signed the newest checkpoint, and that it agrees with the log. Returns it for the report, or None."""
    url = f"{base}/api/v1/checkpoint"
    vkeys = policy.vkeys[:MOST_WITNESSES_ASKED] if policy else []
    query = "&".join(f"witness={urllib.parse.quote(vkey, safe='')}" for vkey in vkeys)
    # A service of an older version knows no such question, and one that is older still no checkpoint.
    body = ask_again(f"{url}?{query}", patience, lambda asked: fetch(asked, patience, absent=(400, 404))) if query else None
    if body is None:
        body = ask_again(url, patience, lambda asked: fetch(asked, patience, absent=(404,)))
    if body is None:
        return None

    def read():
        try:
            return verify_checkpoint(body.decode("utf-8"), audit.keyring.accepted)
        except UnicodeDecodeError:
            raise NotHeld("wrong_checkpoint.text") from None

    def proof_to(one, other):
        older, newer = sorted((one["size"], other["size"]))
        if older == newer:
            return None
        return consistency_in(fetch_json(f"{base}/api/v1/ledger/consistency?from={older}&to={newer}", patience))

    findings = audit.findings
    held, given = findings.run("checkpoint", read)
    if not held:
        return None
    own = log_of(audit.checked[1]).head()
    agreed, _ = findings.run("checkpoint", connect_logs, own, given, proof_to(own, given))
    if agreed and (audit.checkpoint is None or given["size"] >= read_checkpoint(audit.checkpoint)["size"]):
        audit.checkpoint = given["note"]
    audit.given = [given]
    # What other readers were shown is compared as soon as the log is long enough.
    heard, audit.heard = audit.heard, []
    for note in heard:
        other = read_checkpoint(note)
        if other["size"] > given["size"]:
            audit.heard.append(note)
            continue
        compare_logs(audit, "note", given, other, proof_to(other, given))
    return {name: given[name] for name in ("origin", "size", "root")}


@dataclass
class Judged:
    """What a check found, and by which keys."""

    keyring: Keyring
    findings: Findings = field(default_factory=Findings)


def check_note(arguments):
    """Compares a checkpoint that another reader was shown with what is remembered of the service."""
    raw, memory = read_bytes(arguments.note), find_service(arguments, [])
    judged = Judged(Keyring(arguments.pubkey, memory["pubkeys"] if memory else []))
    findings, keyring, seen, connected = judged.findings, judged.keyring, seen_log(memory), None
    try:
        note = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise CannotCheck("usage", f"{arguments.note} is not text in UTF-8") from None
    _, given = findings.run("note", verify_checkpoint, note, keyring.accepted)
    if given and seen:
        connected = compare_logs(judged, "note", seen, given, arguments.consistency)
    compared = connected in ("same", "consistent")
    reasons = []
    if seen is None or connected == "not_checked":
        reasons.append(say("not_compared.note"))
    if arguments.service and connected in ("not_checked", "consistent"):
        keep = remember_checkpoint if compared else remember_heard
        change_state(arguments.state, lambda state: keep(state, arguments.service, given))
    log = given and {"origin": given["origin"], "size": given["size"], "root": given["root"], "connected": connected}
    report = {"kind": "note", "target": arguments.note, "log": log, "pubkeys": keyring.accepted}
    support = Support([given] if given else [], seen_size=seen["size"] if compared else None)
    return conclude(report, judged, reasons, arguments, arguments.service, support)


def check_file(arguments):
    """Checks a dump or a receipt in a file. Returns the result."""
    path = arguments.target
    content = read_json_file(path)
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise CannotCheck("usage", f"{path} is neither a dump {{entries, seals}} nor a receipt")
    if not isinstance(content.get("seals"), list):
        return check_receipt(content, arguments)
    source = ListSource(content["seals"], content["entries"])
    signed = (seal for seal in source.seals(0) if isinstance(seal, dict) and seal.get("signed") is True)
    keys = [seal.get("pubkey") for seal in [next(signed, None)] if seal]
    audit = audit_chain(source, chain_question(arguments, find_service(arguments, keys), may_be_older=True))
    report = {**audit.report(path), "remembered_seq": None}
    return conclude(report, audit, audit.not_binding(), arguments, arguments.service, audit.support())


def check_receipt(content, arguments):
    """Checks a receipt; remembers its checkpoint if that goes on from what was seen."""
    seals = [item.get("seal") for item in content["entries"] if isinstance(item, dict)]
    keys = [seal.get("pubkey") for seal in seals if isinstance(seal, dict)]
    question = Question(arguments.pubkey, find_service(arguments, keys), lambda: int(time.time()))
    audit = ReceiptAudit(content, question, arguments.consistency).run()
    result = conclude(audit.report(arguments.target), audit, audit.not_binding(), arguments, arguments.service, audit.support())
    if result["verdict"] == "good" and audit.log and audit.log["connected"] == "consistent" and arguments.service:
        change_state(arguments.state, lambda state: remember_checkpoint(state, arguments.service, audit.checkpoints[audit.log["size"]]))
    return result


def check_evidence(arguments):
    """Checks a file that is to prove that one key signed two histories. Returns the result."""
    path = arguments.evidence
    evidence = read_json_file(path)
    kind = evidence.get("kind") if isinstance(evidence, dict) else None
    sides = evidence.get("sides" if kind == "fork" else "notes") if kind in ("fork", "log_fork") else None
    if not isinstance(sides, list) or len(sides) != 2:
        raise CannotCheck("usage", f"{path} is not evidence of a fork")
    named = [side.get("pubkey") for side in sides if isinstance(side, dict)] if kind == "fork" else [evidence.get("pubkey")]
    known = [memory["pubkeys"] for memory in read_state(arguments.state).values()]
    judged = Judged(Keyring(arguments.pubkey, next((keys for keys in known if any(key in keys for key in named)), [])))
    audit = audit_seal_fork(sides, judged.keyring, judged.findings) if kind == "fork" else audit_log_fork(evidence, judged.keyring, judged.findings)
    reasons = [say("key_unknown.file")] if judged.keyring.trust == "first_seen" else []
    return conclude({"kind": "evidence", "target": path, **audit}, judged, reasons, arguments)


def conclude(report, judged, reasons, arguments, base=None, support=None):
    """Makes the result. Writes the two sides of a contradiction, if one was found, beside the state file."""
    findings, now = judged.findings, int(time.time())
    reasons = list(reasons)
    rests, unmet = support.judge(arguments.policy, judged.keyring.trust, now, arguments.max_age) if support else (None, [])
    not_binding = [] if findings.kept else [{"reason": word, "message": message} for word, message in [*reasons, *unmet]]
    verdict = "broken" if findings.kept else "not_binding" if not_binding else "good"
    result = {
        "ok": verdict == "good",
        "binding": verdict == "good",
        "verdict": verdict,
        "pubkeys": judged.keyring.seen,
        "key_trust": judged.keyring.trust,
        **report,
        **({"rests_on": None if findings.kept else rests} if support else {}),
        "not_binding": not_binding,
        "findings": findings.kept,
        "findings_total": len(findings.kept),
    }
    if findings.fork:
        found = {**findings.fork, "service": base, "found_at": now}
        result["evidence"] = write_evidence(os.path.dirname(arguments.state), found)
    return result


class Progress:
    """Shows at most one line every two seconds, on stderr."""

    def __init__(self):
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, text):
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            sys.stderr.write(f"... {text}\n")


KEY_TRUST = {"pinned": "pinned", "remembered": "the one remembered", "first_seen": "not known"}
RESTS_ON_KEY = {"pinned": "the pinned key", "remembered": "the remembered key", "first_seen": "a key that is not known"}
CONNECTED = {
    "same": "the one seen before",
    "consistent": "consistent with the one seen before",
    "not_checked": "not compared with the one seen before (--consistency)",
    None: "and none was seen before",
}
GOOD = {
    "chain": "GOOD: the whole chain holds",
    "resumed": "GOOD: the chain holds, and goes on from what was checked before",
    "receipt": "GOOD: every entry is under its seal",
    "note": "GOOD: the other reader was shown the same log",
    "evidence": "GOOD evidence: this key has signed two histories",
}
PRESENCE = "this shows that these entries are on record, not that there are no others: a later hide, ban or key may be left out"


def lines_of(result):
    """A result as lines for people."""
    for finding in result["findings"]:
        yield f"{finding['reason']} at {finding['where']}: {finding['message']}"
    if result["findings_total"] >= MOST_FINDINGS:
        yield f"the check ended after {MOST_FINDINGS} findings"
    yield from {"chain": chain_lines, "receipt": receipt_lines, "evidence": evidence_lines, "note": note_lines}[result["kind"]](result)
    for key in result["pubkeys"]:
        yield f"key: {key} ({KEY_TRUST[result['key_trust']]})"
    if "evidence" in result:
        yield f"two signed histories, for anybody to check with --evidence: {result['evidence']}"
    if result.get("rests_on"):
        yield from rests_lines(result["rests_on"])
    for reason in result["not_binding"]:
        yield f"{reason['reason']}: {reason['message']}"
    total = result["findings_total"]
    yield {
        "good": GOOD["resumed" if result.get("resumed_at") else result["kind"]],
        "broken": f"BAD: {total} finding{'' if total == 1 else 's'}",
        "not_binding": "NOT BINDING: nothing is wrong, and nothing proves it",
    }[result["verdict"]]


def rests_lines(rests):
    """What a verdict rests on, how far witnesses have vouched, and when they last did."""
    parts, names = [RESTS_ON_KEY[rests["key"]]], rests["cosigned_by"]
    if names:
        how = "the cosignature" if len(names) == 1 else f"{len(names)} cosignatures"
        parts.append(f"{how} of {', '.join(names)} (quorum {rests['quorum']})")
    if rests["seen_size"] is not None:
        parts.append(f"what was seen here of the log of {rests['seen_size']} entries")
    *others, last = parts
    yield f"rests on: {', '.join(others)} and {last}" if others else f"rests on: {last} alone"
    if names:
        yield f"cosigned: the log up to entry {rests['cosigned_size']}, last at {rests['cosigned_at']}"


def chain_lines(result):
    head, seen, unsigned = result["head"], result["remembered_seq"], result["unsigned_seqs"]
    yield f"seals: {result['seals']}, of which signed: {result['signed']}"
    if unsigned:
        yield f"not signed, so not binding: seal {' '.join(map(str, unsigned[:20]))}{' ...' if len(unsigned) > 20 else ''}"
    sealed, waiting = result["entries_sealed"], result["entries_waiting"]
    yield f"entries under a seal: {sealed}, waiting for one: {waiting}, read now: {result['entries_read']}"
    for adoption in result["adoptions"]:
        yield f"adoption: entry {adoption['entry_id']} of the time {adoption['at']}: {adoption['data']}"
    if result["unreadable_amounts"]:
        yield f"entries whose amount cannot be read, which count as nothing: {result['unreadable_amounts']}"
    if head:
        yield f"head: seal {head['seq']}, payload hash {head['payload_hash']}, made {result['head_age_seconds']} s ago"
    if result["log"]:
        yield f"log: size {result['log']['size']}, root {result['log']['root']} (other readers compare it with --note)"
    if result["keys"]:
        how = "" if result["keys"]["recomputed"] else " (changes as stated: --full recomputes them)"
        yield f"keys: of {result['keys']['count']} agents, root {result['keys']['root']}{how}"
    if seen is not None and result["verdict"] != "broken":
        yield f"nothing up to seal {seen} has changed since the last check"
    if "state" not in result:
        return
    if result["verdict"] == "broken":
        yield f"nothing was remembered in {result['state']}"
    elif seen is None and head:
        yield f"the first check of this service with {result['state']}: key and log are remembered from now on"
    else:
        yield f"remembered in {result['state']}"


def receipt_lines(result):
    yield f"record: {shown(result['id'])}"
    yield f"openings checked: {result['openings']}"
    for author in result["authors"]:
        yield f"entry {author['entry_id']} is signed by the author key {author['author_key']}"
    if result["unsigned_seqs"]:
        yield "not signed, so not binding: seal " + " ".join(map(str, result["unsigned_seqs"]))
    yield f"entries under a seal: {result['entries_sealed']}, waiting for one: {result['entries_waiting']}"
    yield from note_lines(result)
    yield PRESENCE


def note_lines(result):
    if result["log"]:
        yield f"log: size {result['log']['size']}, root {result['log']['root']}, {CONNECTED[result['log']['connected']]}"


def evidence_lines(result):
    if "sizes" in result:
        yield f"checkpoints: sizes {' and '.join(map(str, result['sizes']))}, roots {' and '.join(result['roots'])}"
    else:
        yield f"seal: {result['seq']}, payload hashes: {' and '.join(result['payload_hashes'])}"


EXIT_STATUS = {"good": 0, "broken": 1, "unchecked": 2, "not_binding": 3}


def check(argv):
    """Runs the command: (exit status, result, the text to print). Raises nothing: whatever goes wrong is `unchecked`."""
    try:
        arguments = read_arguments(argv)
        run = check_evidence if arguments.evidence is not None else check_note if arguments.note is not None else check_file
        if arguments.target is not None and re.match(r"https?:", arguments.target, re.IGNORECASE):
            run = check_service
        result = run(arguments)
        lines = list(lines_of(result))
    except BaseException as error:  # of memory, of the keyboard, a defect: then nothing was checked
        word = error.reason if isinstance(error, CannotCheck) else "failed"
        message, *rest = (str(error) or type(error).__name__).split("\n")
        message = message[:1_000]
        result = {"ok": False, "binding": False, "verdict": "unchecked", "error": word, "message": message}
        lines = [message, *rest]
    output = [json.dumps(result)] if "--json" in argv else lines
    text = "\n".join(escape_text(line) for line in output).rstrip()
    if result["verdict"] != "good":  # a server's own "GOOD" must not look like this program's
        text = text.replace("GOOD", "G\\u004fOD")
    return EXIT_STATUS[result["verdict"]], result, text


def main(argv):
    status, result, text = check(argv)
    stream = sys.stderr if result["verdict"] == "unchecked" and "--json" not in argv else sys.stdout
    stream.write(text + "\n")
    stream.flush()
    return status


if __name__ == "__main__":
    STATUS = 2
    try:
        STATUS = main(sys.argv[1:])
    finally:
        os._exit(STATUS)  # a thread that still waits for an answer must not hold the program up
