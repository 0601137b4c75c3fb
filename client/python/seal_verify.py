#!/usr/bin/env python3
"""Check the ledger of an agent network without trusting it.

    python3 seal_verify.py BASE_URL       the whole chain: every seal, every entry, every signature
    python3 seal_verify.py DUMP.json      the same over a saved dump {entries, seals}
    python3 seal_verify.py RECEIPT.json   one receipt, offline
    python3 seal_verify.py --vector FILE  test vectors

Needs Python 3.9 or later and the package `cryptography`. It shares nothing with seal-verify.mjs but the published rules,
the words it reports, the state file and the form of a dump, so that each is a check on the other.

Exit status: 0 everything holds, 1 something does not, 2 nothing could be checked.
"""

import argparse
import base64
import binascii
import hashlib
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.stderr.write("seal_verify.py needs the package `cryptography`: pip install cryptography\n")
    sys.exit(2)

SEALS_A_PAGE = 1_000
ENTRIES_A_PAGE = 10_000
LARGEST_ANSWER = 256 * 2**20  # bytes
TIMEOUT_SECONDS = 60
RETRY_AFTER_SECONDS = (0.5, 1.5)
PROGRESS_SECONDS = 2
FINDINGS_KEPT = 1_000
DEEPEST_JSON = 500
LARGEST_WHOLE = 2**53 - 1  # what an IEEE 754 double counts to without a gap

DUMP_FIRST_LINE = '{"entries":['
DUMP_MIDDLE_LINE = '],"seals":['
DUMP_LAST_LINE = "]}"

sys.setrecursionlimit(5_000)  # room for JSON nested to the bound


class CannotCheck(Exception):
    """Nothing could be checked: exit status 2."""

    def __init__(self, word, message):
        super().__init__(message)
        self.word = word


class NotCanonical(Exception):
    """The value has no canonical JSON."""


@dataclass(frozen=True)
class Fault:
    reason: str
    message: str


@dataclass(frozen=True)
class Finding:
    reason: str
    where: str
    message: str


class Findings:
    """What does not hold; beyond the first thousand only the number is kept."""

    def __init__(self):
        self.kept = []
        self.total = 0

    def note(self, where, faults):
        """Takes in every fault of an iterable; True when there was none."""
        before = self.total
        for fault in faults:
            self.total += 1
            if len(self.kept) < FINDINGS_KEPT:
                self.kept.append(Finding(fault.reason, where, fault.message))
        return self.total == before


# --- JSON in, canonical JSON out -------------------------------------------------------------------------------------


def read_json(text):
    """Parses as ECMAScript does: every number is a double, so 1.0 is 1 and 2**53 + 1 is 2**53. ValueError if not JSON."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    return json.loads(text, parse_int=_read_int, parse_float=_read_float, parse_constant=_refuse_constant)


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
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append('"' + _ESCAPED.sub(_escape, value) + '"')
    elif isinstance(value, (int, float)):
        out.append(ecmascript_number(value))
    elif depth == DEEPEST_JSON:
        raise NotCanonical(f"nested deeper than {DEEPEST_JSON} levels")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            out.append(separator)
            _append_canonical(item, out, depth + 1)
            separator = ","
        out.append("]" if value else "[]")
    else:
        separator = "{"
        # Section 3.2.3 orders keys by UTF-16 code units: U+1F600 (D83D DE00) stands before U+FB33.
        for key in sorted(value, key=lambda name: name.encode("utf-16-be")):
            out.append(separator)
            _append_canonical(key, out, depth + 1)
            out.append(":")
            _append_canonical(value[key], out, depth + 1)
            separator = ","
        out.append("}" if value else "{}")


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
    point = len(whole) + int(exponent or 0)
    padded = whole + fraction
    digits = padded.lstrip("0")
    point -= len(padded) - len(digits)  # the value is 0.DIGITS times ten to the power `point`
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"


# --- forms -----------------------------------------------------------------------------------------------------------

_HEX_32_BYTES = re.compile(r"[0-9a-f]{64}\Z")


def is_whole(value):
    return type(value) is int and 0 <= value <= LARGEST_WHOLE


def is_hash(value):
    return isinstance(value, str) and _HEX_32_BYTES.match(value) is not None


def decode_signature(value):
    """The 64 bytes of a signature, or None for anything but their one base64 text."""
    if not isinstance(value, str) or len(value) != 88:
        return None
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == 64 and base64.b64encode(raw).decode("ascii") == value else None


def shown(value):
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)[:80]
    except (TypeError, ValueError, RecursionError):
        return "something unprintable"


# --- the tree --------------------------------------------------------------------------------------------------------


def leaf_of(entry):
    return hashlib.sha256(b"\x00" + canonical_json(entry)).digest()


def node_of(left, right):
    return hashlib.sha256(left + right).digest()


class Tree:
    """Root of leaves that come one by one: at most one finished subtree of each height is held."""

    def __init__(self):
        self.count = 0
        self._finished = {}  # height -> root of a complete subtree

    def append(self, leaf):
        height = 0
        while height in self._finished:
            leaf = node_of(self._finished.pop(height), leaf)
            height += 1
        self._finished[height] = leaf
        self.count += 1

    def root(self):
        running = None
        for height in sorted(self._finished):
            running = self._finished[height] if running is None else node_of(self._finished[height], running)
        return running


def path_sides(index, count):
    """Sides of the siblings from the leaf up, by RFC 6962's own definition: split at the largest power of two below count."""
    from_the_top = []
    while count > 1:
        split = 1 << ((count - 1).bit_length() - 1)
        if index < split:
            from_the_top.append("right")
            count = split
        else:
            from_the_top.append("left")
            index -= split
            count -= split
    return from_the_top[::-1]


def inclusion_faults(leaf, path, root, index, count):
    """At most one fault: whether leaf is number `index` of `count` under root, by the only shape that position allows."""
    if not is_hash(leaf) or not is_hash(root):
        yield Fault("malformed_proof", "leaf and root must be 64 lower-case hex characters")
        return
    if not is_whole(index) or not is_whole(count) or index >= count:
        yield Fault("malformed_proof", f"there is no index {shown(index)} among {shown(count)}")
        return
    if not isinstance(path, list) or not all(_is_step(step) for step in path):
        yield Fault("malformed_proof", "path must be a list of {hash, side}")
        return
    sides = path_sides(index, count)
    if len(path) != len(sides):
        yield Fault("path_shape", f"index {index} of {count} takes {len(sides)} steps, the path has {len(path)}")
        return
    running = bytes.fromhex(leaf)
    for number, (step, side) in enumerate(zip(path, sides)):
        if step["side"] != side:
            yield Fault("wrong_side", f"index {index} of {count} has its sibling on the {side} at step {number}")
            return
        sibling = bytes.fromhex(step["hash"])
        running = node_of(sibling, running) if side == "left" else node_of(running, sibling)
    if running.hex() != root:
        yield Fault("wrong_root", f"the path leads to {running.hex()}, not to {root}")


def _is_step(step):
    return isinstance(step, dict) and is_hash(step.get("hash")) and step.get("side") in ("left", "right")


# --- entries and seals -----------------------------------------------------------------------------------------------


def entry_faults(entry):
    good = (
        isinstance(entry, dict)
        and is_whole(entry.get("id"))
        and is_whole(entry.get("at"))
        and isinstance(entry.get("kind"), str)
        and isinstance(entry.get("data"), dict)
    )
    if not good:
        yield Fault("malformed_entry", "an entry is not {id, at, kind, data}")


def leaf_faults(entry, leaf):
    try:
        own = leaf_of(entry).hex()
    except NotCanonical as error:
        yield Fault("malformed_entry", str(error))
        return
    if leaf != own:
        yield Fault("wrong_leaf", f"the entry's leaf is {own}, not {shown(leaf)}")


PAYLOAD_FIELDS = ("at", "count", "from_id", "prev_root", "root", "seq", "to_id")


def payload_of(seal):
    """The bytes that a seal's signature covers, always rebuilt from its fields."""
    return canonical_json({name: seal[name] for name in PAYLOAD_FIELDS})


def seal_form_faults(seal):
    """The first part of a seal that has the wrong form."""
    if not isinstance(seal, dict):
        yield Fault("malformed_seal", "a seal is not an object")
        return
    wrong = [name for name in ("seq", "at", "count", "from_id", "to_id") if not is_whole(seal.get(name))]
    if not is_hash(seal.get("root")):
        wrong.append("root")
    if "prev_root" not in seal or not (seal["prev_root"] is None or is_hash(seal["prev_root"])):
        wrong.append("prev_root")
    if seal.get("signed") is True:
        if decode_signature(seal.get("signature")) is None:
            wrong.append("signature")
        if not is_hash(seal.get("pubkey")):
            wrong.append("pubkey")
        if seal.get("algo") != "ed25519":
            wrong.append("algo")
        if not is_whole(seal.get("signed_at")):
            wrong.append("signed_at")
    elif seal.get("signed") is not False or seal.get("signature") is not None:
        wrong.append("signed")
    if wrong:
        yield Fault("malformed_seal", "missing or of the wrong form: " + ", ".join(wrong))


def seal_faults(seal):
    """What a well-formed seal gets wrong by itself."""
    if seal["count"] < 1 or seal["count"] != seal["to_id"] - seal["from_id"] + 1:
        yield Fault("wrong_count", f"count is {seal['count']} for the entries {seal['from_id']} to {seal['to_id']}")
    if seal["seq"] == 1 and seal["from_id"] != 1:
        yield Fault("range_gap", f"the first seal begins at entry {seal['from_id']}, not 1")
    if (seal["seq"] == 1) != (seal["prev_root"] is None) and seal["seq"] >= 1:
        yield Fault("wrong_prev_root", "the first seal, and no other, has no previous root")


def link_faults(before, seal):
    """What a well-formed seal gets wrong about one that stands before it."""
    if seal["at"] < before["at"]:
        yield Fault("at_goes_back", f"at {seal['at']} is before the {before['at']} of seal {before['seq']}")
    if seal["seq"] == before["seq"] + 1:
        if seal["from_id"] != before["to_id"] + 1:
            yield Fault("range_gap", f"begins at entry {seal['from_id']}, {before['to_id'] + 1} was due")
        if seal["prev_root"] is not None and seal["prev_root"] != before["root"]:
            yield Fault("wrong_prev_root", f"names {seal['prev_root']}, the root of seal {before['seq']} is {before['root']}")


_PRIME = 2**255 - 19
_ORDER_8_Y = int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")
_WEAK_Y = frozenset({0, 1, _PRIME - 1, _ORDER_8_Y, _PRIME - _ORDER_8_Y})


def signature_faults(seal, payload):
    if seal["signed_at"] < seal["at"]:
        yield Fault("signed_before_made", f"signed at {seal['signed_at']}, before it was made at {seal['at']}")
    key = bytes.fromhex(seal["pubkey"])
    y = int.from_bytes(key, "little") & (2**255 - 1)
    if y % _PRIME in _WEAK_Y:  # a point of small order needs no secret to "sign"
        yield Fault("weak_key", f"anyone can sign for the key {seal['pubkey']}")
        return
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(decode_signature(seal["signature"]), payload)
    except (InvalidSignature, ValueError):
        yield Fault("bad_signature", f"the signature is not that of {seal['pubkey']} over this payload")


class Keyring:
    """Accepts the pinned keys, else the remembered ones, else the first one seen."""

    def __init__(self, pinned=(), remembered=()):
        self.trust = "pinned" if pinned else "remembered" if remembered else "first_seen"
        self.accepted = list(pinned or remembered)
        self.seen = []
        self._latest = None

    def faults(self, key):
        if not self.accepted:
            self.accepted.append(key)
        if key not in self.seen:
            self.seen.append(key)
        repeated, self._latest = key == self._latest, key
        if key in self.accepted or repeated:  # a foreign key is told once, not with every seal
            return
        if self.trust == "pinned":
            yield Fault("wrong_key", f"signed with {key}, which is not a pinned key")
        else:
            yield Fault(
                "key_changed",
                f"signed with {key}, not with {' or '.join(self.accepted)}; if you know this key to be the service's, accept it: --pubkey for each key",
            )


END = object()  # no entry of any ledger, not even null


# --- the chain -------------------------------------------------------------------------------------------------------


@dataclass
class ChainAudit:
    """One walk over a source of seals() and entries(from_id), in order, in memory that the entries don't fill."""

    source: object
    keyring: Keyring
    remembered: dict = None
    progress: object = None
    findings: Findings = field(default_factory=Findings)
    seals: int = 0
    signed: int = 0
    unsigned_seqs: list = field(default_factory=list)
    entries_sealed: int = 0
    entries_waiting: int = 0
    head: dict = None
    _history: str = ""
    _stream: object = None
    _stream_at: int = -1

    def run(self):
        before = None
        last_seq = 0
        for seal in self.source.seals():
            self.seals += 1
            due = last_seq + 1
            last_seq = seal["seq"] if isinstance(seal, dict) and is_whole(seal.get("seq")) else due
            where = f"seal {last_seq}"
            if not self.findings.note(where, seal_form_faults(seal)):
                before = None
                continue
            if seal["seq"] != due:
                self.findings.note(where, [Fault("seq_gap", f"seal {due} was due")])
            self.findings.note(where, seal_faults(seal))
            if before is not None:
                self.findings.note(where, link_faults(before, seal))
            self._take_signature(seal, where)
            self._check_root(seal, where)
            before = seal
            self._tell(f"seal {seal['seq']}, entry {seal['to_id']}")
        if self.remembered and last_seq < self.remembered["seq"]:
            self.findings.note("chain", [Fault("chain_shortened", f"ends at seal {last_seq}, but seal {self.remembered['seq']} was seen before")])
        self._count_waiting(before["to_id"] + 1 if before else 1)
        return self

    def _take_signature(self, seal, where):
        payload = payload_of(seal)
        payload_hash = hashlib.sha256(payload).hexdigest()
        self._history = hashlib.sha256((self._history + payload_hash).encode("ascii")).hexdigest()
        if seal["signed"]:
            self.signed += 1
            self.head = {"seq": seal["seq"], "payload_hash": payload_hash, "history": self._history}
            self.findings.note(where, self.keyring.faults(seal["pubkey"]))
            self.findings.note(where, signature_faults(seal, payload))
        else:
            self.unsigned_seqs.append(seal["seq"])
        if self.remembered and self.remembered["seq"] == seal["seq"]:
            self.findings.note(where, self._memory_faults(seal, payload_hash))

    def _memory_faults(self, seal, payload_hash):
        if self.remembered["payload_hash"] != payload_hash:
            yield Fault("history_rewritten", "has another payload than when it was seen before")
        elif self.remembered["history"] != self._history:
            yield Fault("history_rewritten", "is as it was, but a seal before it has another payload than when it was seen")
        if not seal["signed"]:
            yield Fault("signature_withdrawn", "was signed when it was seen before")

    def _check_root(self, seal, where):
        tree = Tree()
        for due in range(seal["from_id"], seal["to_id"] + 1):
            entry = self._entry(due)
            if entry is END:
                self.findings.note(where, [Fault("entry_gap", f"entry {due} is missing from the ledger")])
                break
            if not self.findings.note(f"entry {due}", self._place_faults(entry, due, tree)):
                self._stream = None
                break
            if tree.count % 10_000 == 0:
                self._tell(f"{where}, entry {due}")
        else:
            if tree.count and tree.root().hex() != seal["root"]:
                message = f"its entries {seal['from_id']} to {seal['to_id']} have the root {tree.root().hex()}, not {seal['root']}"
                self.findings.note(where, [Fault("wrong_root", message)])
        self.entries_sealed += tree.count

    def _place_faults(self, entry, due, tree=None):
        """Whether an entry is the one that is due; if so it grows the tree."""
        malformed = list(entry_faults(entry))
        yield from malformed
        if malformed:
            return
        if entry["id"] != due:
            yield Fault("entry_gap", f"the ledger gives entry {entry['id']} in its place")
        elif tree is not None:
            try:
                tree.append(leaf_of(entry))
            except NotCanonical as error:
                yield Fault("malformed_entry", str(error))

    def _entry(self, due):
        """The entry that the source gives in the place of `due`, END after its last."""
        if self._stream is None or self._stream_at != due:
            self._stream = self.source.entries(due)
        self._stream_at = due + 1
        for (entry,) in self._stream:
            return entry
        self._stream = None
        return END

    def _count_waiting(self, due):
        while True:
            entry = self._entry(due)
            if entry is END or not self.findings.note(f"entry {due}", self._place_faults(entry, due)):
                return
            self.entries_waiting += 1
            due += 1
            if self.entries_waiting % 10_000 == 0:
                self._tell(f"unsealed entry {due}")

    def _tell(self, text):
        if self.progress:
            self.progress(text)

    def report(self, target):
        return {
            "kind": "chain",
            "target": target,
            "seals": self.seals,
            "signed": self.signed,
            "unsigned_seqs": self.unsigned_seqs,
            "entries_sealed": self.entries_sealed,
            "entries_waiting": self.entries_waiting,
            "head": self.head,
            "pubkeys": self.keyring.seen,
            "remembered_seq": self.remembered["seq"] if self.remembered else None,
            "key_trust": self.keyring.trust,
        }


# --- where a chain is read from (entries come wrapped in a tuple, since an entry itself may be null) ------------------


class ListSource:
    def __init__(self, seals, entries):
        self._seals, self._entries = seals, entries

    def seals(self):
        return iter(self._seals())

    def entries(self, from_id):
        reached = False
        for entry in self._entries():
            number = entry.get("id") if isinstance(entry, dict) else None
            reached = reached or not is_whole(number) or number >= from_id
            if reached:
                yield (entry,)


def dump_by_lines(path):
    """A dump as --save writes it, read without holding it; None for any other file."""
    with open(path, "rb") as file:
        if file.read(len(DUMP_FIRST_LINE) + 1) != DUMP_FIRST_LINE.encode("ascii") + b"\n":
            return None

    def part(wanted):
        current = None
        with open(path, "rb") as file:  # binary: lines end in LF alone
            for raw in file:
                line = raw.rstrip(b"\n")
                if line == DUMP_FIRST_LINE.encode("ascii"):
                    current = "entries"
                elif line == DUMP_MIDDLE_LINE.encode("ascii"):
                    if wanted == "entries":
                        return
                    current = "seals"
                elif line == DUMP_LAST_LINE.encode("ascii"):
                    return
                elif current == wanted:
                    yield parse_file(path, line[:-1] if line.endswith(b",") else line)
        raise CannotCheck("usage", f"{path} ends in the middle")

    return ListSource(lambda: part("seals"), lambda: part("entries"))


class Service:
    def __init__(self, base, recorder=None):
        self._base, self._recorder = base, recorder

    def seals(self):
        after = 0
        while True:
            page = self._list(f"/seal?after_seq={after}&limit={SEALS_A_PAGE}", "seals")
            if not page:
                return
            for seal in page:
                if self._recorder:
                    self._recorder.add_seal(seal)
                yield seal
            last = page[-1].get("seq") if isinstance(page[-1], dict) else None
            if not is_whole(last) or last <= after:
                return  # asking on would go in a circle; the audit has said what is wrong with this page
            after = last

    def entries(self, from_id):
        while True:
            page = self._list(f"/api/v1/ledger?from_id={from_id}&limit={ENTRIES_A_PAGE}", "entries")
            if not page:
                return
            for entry in page:
                if self._recorder:
                    self._recorder.add_entry(entry)
                yield (entry,)
            from_id += len(page)

    def _list(self, path, name):
        url = self._base + path
        answer = fetch_json(url)
        if not isinstance(answer, dict) or not isinstance(answer.get(name), list):
            raise CannotCheck("unreachable", f"{url} does not answer with a list of {name}")
        return answer[name]


def fetch_json(url):
    for pause in (*RETRY_AFTER_SECONDS, None):
        try:
            request = urllib.request.Request(url, headers={"accept": "application/json"})
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                body = response.read(LARGEST_ANSWER + 1)
            break
        except urllib.error.HTTPError as error:
            error.close()
            if pause is None or not (error.code >= 500 or error.code == 429):
                raise CannotCheck("unreachable", f"{url} answered {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            if pause is None:
                raise CannotCheck("unreachable", f"{url}: {getattr(error, 'reason', None) or error}") from None
        time.sleep(pause)
    if len(body) > LARGEST_ANSWER:
        raise CannotCheck("unreachable", f"{url} answers with more than {LARGEST_ANSWER} bytes")
    try:
        return read_json(body)
    except (ValueError, RecursionError) as error:
        raise CannotCheck("unreachable", f"{url} does not answer in JSON: {error}") from None


class Recorder:
    """Writes what passes by as a dump, one entry or seal a line, entries first."""

    def __init__(self, path):
        self._file = open(path, "wb")
        self._file.write(DUMP_FIRST_LINE.encode("ascii"))
        self._separator = b"\n"
        self._seals = []

    def add_entry(self, entry):
        self._file.write(self._separator + self._line(entry))
        self._separator = b",\n"

    def add_seal(self, seal):
        self._seals.append(self._line(seal))

    def close(self):
        self._file.write(b"\n" + DUMP_MIDDLE_LINE.encode("ascii") + b"\n" + b",\n".join(self._seals))
        self._file.write((b"\n" if self._seals else b"") + DUMP_LAST_LINE.encode("ascii") + b"\n")
        self._file.close()

    @staticmethod
    def _line(value):
        try:
            return canonical_json(value)
        except NotCanonical:  # refused where it is checked, and kept as evidence
            try:
                return json.dumps(value, separators=(",", ":")).encode("ascii")
            except RecursionError:  # as deep as it could just be read, and too deep to be written
                return b"null"


# --- a receipt -------------------------------------------------------------------------------------------------------


@dataclass
class ReceiptAudit:
    receipt: object
    keyring: Keyring
    findings: Findings = field(default_factory=Findings)
    record: str = None
    entries_sealed: int = 0
    entries_waiting: int = 0
    unsigned_seqs: list = field(default_factory=list)
    openings: int = 0
    _seals: dict = field(default_factory=dict)  # seq -> seal
    _entries: dict = field(default_factory=dict)  # id -> entry

    def run(self):
        if not self.findings.note("receipt", self._form_faults()):
            return self
        self.record = self.receipt["id"]
        last_id = 0
        for item in self.receipt["entries"]:
            entry = item.get("entry")
            where = f"entry {shown(entry.get('id') if isinstance(entry, dict) else None)}"
            if not self.findings.note(where, self._entry_faults(entry, last_id)):
                continue
            last_id = entry["id"]
            self._entries[last_id] = entry
            if not item["sealed"]:
                self.entries_waiting += 1
            else:
                self._check_sealed(where, item)
        if len(self._entries) == len(self.receipt["entries"]):
            self.findings.note("receipt", self._making_faults())
        self._check_seals()
        for opening in self.receipt.get("openings", []):
            where = f"opening of entry {shown(opening.get('entry_id') if isinstance(opening, dict) else None)}"
            if self.findings.note(where, self._opening_faults(opening)):
                self.openings += 1
        return self

    def _form_faults(self):
        receipt = self.receipt
        if not isinstance(receipt, dict) or not isinstance(receipt.get("id"), str) or not receipt["id"]:
            yield Fault("malformed_receipt", "it names no record")
            return
        items = receipt.get("entries")
        if not isinstance(items, list) or not items:
            yield Fault("malformed_receipt", "it has no entries")
        elif not all(isinstance(item, dict) and isinstance(item.get("sealed"), bool) for item in items):
            yield Fault("malformed_receipt", "an entry does not say whether it is sealed")
        elif receipt.get("sealed") is not all(item["sealed"] for item in items):
            yield Fault("malformed_receipt", "sealed does not say whether all its entries are")
        elif not isinstance(receipt.get("openings", []), list):
            yield Fault("malformed_receipt", "openings is not a list")

    def _entry_faults(self, entry, last_id):
        malformed = list(entry_faults(entry))
        yield from malformed
        if malformed:
            return
        if entry["id"] <= last_id:
            yield Fault("malformed_receipt", "the entries are not in ascending order")
        elif not is_of_record(entry, self.record):
            yield Fault("wrong_record", f"is no entry of {shown(self.record)}")

    def _making_faults(self):
        """A record that was never made must not be proven by what others say of it."""
        making = MADE_BY.get(prefix_of(self.record))
        if making is not None and all(entry["kind"] != making for entry in self._entries.values()):
            yield Fault("wrong_record", f"has no entry of kind {making}, without which there is no {shown(self.record)}")

    def _check_sealed(self, where, item):
        """What an entry gets wrong is found at the entry, and what its seal gets wrong by itself at the seal, once."""
        seal = item.get("seal")
        if not self.findings.note(where, seal_form_faults(seal)):
            return
        if self.findings.note(where, self._inclusion_faults(item)):
            self.entries_sealed += 1
        seq = seal["seq"]
        known = self._seals.get(seq)
        if known is not None:
            if payload_of(known) != payload_of(seal):
                self.findings.note(where, [Fault("conflicting_seals", f"brings another seal {seq} than an entry before it")])
            elif known.get("signature") == seal.get("signature") and known.get("pubkey") == seal.get("pubkey"):
                return
        self._seals[seq] = seal
        self.findings.note(f"seal {seq}", self._seal_faults(seal))

    def _inclusion_faults(self, item):
        """The first thing that keeps an entry from standing under its well-formed seal."""
        seal, entry, index = item["seal"], item["entry"], item.get("index")
        wrong_leaf = list(leaf_faults(entry, item.get("leaf")))
        if item.get("seq") != seal["seq"]:
            yield Fault("malformed_receipt", f"stands under seal {shown(item.get('seq'))} and brings seal {seal['seq']}")
        elif wrong_leaf:
            yield from wrong_leaf
        elif is_whole(index) and seal["from_id"] + index != entry["id"]:
            yield Fault("wrong_index", f"index {index} of seal {seal['seq']} is entry {seal['from_id'] + index}")
        else:
            yield from inclusion_faults(item["leaf"], item.get("path"), seal["root"], index, seal["count"])

    def _seal_faults(self, seal):
        yield from seal_faults(seal)
        if seal["signed"]:
            yield from self.keyring.faults(seal["pubkey"])
            yield from signature_faults(seal, payload_of(seal))
        else:
            self.unsigned_seqs.append(seal["seq"])

    def _check_seals(self):
        ordered = [self._seals[seq] for seq in sorted(self._seals)]
        for before, seal in zip(ordered, ordered[1:]):
            where = f"seal {seal['seq']}"
            self.findings.note(where, link_faults(before, seal))
            if seal["seq"] > before["seq"] + 1 and seal["from_id"] <= before["to_id"]:
                self.findings.note(where, [Fault("range_gap", f"begins at entry {seal['from_id']}, seal {before['seq']} ends at {before['to_id']}")])

    def _opening_faults(self, opening):
        good = isinstance(opening, dict) and isinstance(opening.get("field"), str) and is_hash(opening.get("salt")) and "content" in opening
        if not good:
            yield Fault("wrong_opening", "it is not {entry_id, field, salt, content}")
            return
        number = opening.get("entry_id")
        entry = self._entries.get(number) if is_whole(number) else None
        commitment = entry["data"].get(opening["field"]) if entry else None
        if not is_hash(commitment):
            yield Fault("wrong_opening", f"the receipt has no such entry with a commitment in {shown(opening['field'])}")
            return
        try:
            content = canonical_json(opening["content"])
        except NotCanonical as error:
            yield Fault("wrong_opening", str(error))
            return
        if hashlib.sha256(bytes.fromhex(opening["salt"]) + content).hexdigest() != commitment:
            yield Fault("wrong_opening", f"salt and content do not give the commitment in {shown(opening['field'])}")

    def report(self, target):
        return {
            "kind": "receipt",
            "target": target,
            "id": self.record,
            "entries_sealed": self.entries_sealed,
            "entries_waiting": self.entries_waiting,
            "unsigned_seqs": self.unsigned_seqs,
            "openings": self.openings,
            "pubkeys": self.keyring.seen,
            "key_trust": self.keyring.trust,
        }


# The kind of entry that makes a record, by the prefix of its id.
MADE_BY = {
    "agt": "registration",
    "pst": "post",
    "clm": "claim",
    "vrd": "verdict",
    "ann": "announcement",
    "ofr": "offer",
    "mkt": "order",
    "wrk": "pass_credit",
    "inv": "pass_credit",
    "pay": "payment",
    "out": "payout",
    "rcn": "reconcile",
}

# Which member of an entry's data has the id of the record that the entry is of: the first of these that is there. The ids
# of other records may stand beside it: a credit for a claim names the agent too, and is the claim's.
ID_MEMBERS = {
    ("agt", "registration"): ("agent_id",),
    ("agt", "token_rotation"): ("agent_id",),
    ("agt", "dm_key_change"): ("agent_id",),
    ("agt", "pass_credit"): ("claim_id", "payment_id", "invoice_id", "order_id", "agent_id"),
    ("agt", "ban"): ("agent_id",),
    ("agt", "unban"): ("agent_id",),
    ("pst", "post"): ("post_id",),
    ("pst", "hide"): ("post_id",),
    ("pst", "unhide"): ("post_id",),
    ("clm", "claim"): ("claim_id",),
    ("clm", "proposal_accepted"): ("claim_id",),
    ("clm", "pass_credit"): ("claim_id",),
    ("vrd", "verdict"): ("verdict_id",),
    ("ann", "announcement"): ("announcement_id",),
    ("ofr", "offer"): ("offer_id",),
    ("ofr", "offer_closed"): ("offer_id",),
    ("mkt", "order"): ("order_id",),
    ("mkt", "fee"): ("order_id",),
    ("mkt", "payment"): ("order_id",),
    ("mkt", "dispute"): ("order_id",),
    ("mkt", "dispute_outcome"): ("order_id",),
    ("wrk", "pass_credit"): ("order_id",),
    ("inv", "pass_credit"): ("payment_id", "invoice_id"),
    ("pay", "payment"): ("step", "payment_id"),  # one with a step is of an order, and a step is no id
    ("pay", "pass_credit"): ("payment_id",),
    ("out", "payout"): ("payout_id",),
    ("rcn", "reconcile"): ("reconciliation_id",),
    ("seal", "solvency"): ("seal",),
    ("seal", "seal_adoption"): ("seal",),
}


def prefix_of(record):
    return record.partition("_")[0]


def is_of_record(entry, record):
    """A prefix or a kind that the table lacks is newer than it: then any string in the data may be the id."""
    members = ID_MEMBERS.get((prefix_of(record), entry["kind"]))
    if members is None:
        return names(entry["data"], record)
    return next((entry["data"][member] for member in members if member in entry["data"]), None) == record


def names(value, record):
    """Whether some string in value is the record's id."""
    unread = [value]
    while unread:
        part = unread.pop()
        if isinstance(part, dict):
            unread.extend(part.values())
        elif isinstance(part, list):
            unread.extend(part)
        elif isinstance(part, str) and part == record:
            return True
    return False


# --- vectors ---------------------------------------------------------------------------------------------------------


def vector_findings(vector):
    """Runs one vector by its `kind`; its `reason` is not looked at."""
    if not isinstance(vector, dict):
        raise CannotCheck("usage", "a vector is not an object")
    kind = vector.get("kind")
    pinned = vector.get("pubkeys", [])
    if kind == "seal":
        if not isinstance(vector.get("seals"), list) or not isinstance(vector.get("entries"), list):
            raise CannotCheck("usage", "a vector of seals has seals and entries")
        remembered = vector.get("remembered")
        keyring = Keyring(pinned, remembered["pubkeys"] if remembered else [])
        source = ListSource(lambda: vector["seals"], lambda: vector["entries"])
        return ChainAudit(source, keyring, remembered).run().findings
    if kind == "receipt":
        return ReceiptAudit(vector.get("receipt"), Keyring(pinned)).run().findings
    checks = {"canonical-json": _canonical_vector, "leaf": _leaf_vector, "tree": _tree_vector, "proof": _proof_vector}
    if kind not in checks:
        raise CannotCheck("usage", f"there is no kind of vector called {shown(kind)}")
    findings = Findings()
    findings.note(kind, checks[kind](vector))
    return findings


def _canonical_vector(vector):
    for case in vector["cases"]:
        try:
            own = canonical_json(read_json(case["json"]))
        except NotCanonical as error:
            yield Fault("no_canonical_form", str(error))
            return
        except RecursionError:
            yield Fault("no_canonical_form", f"nested deeper than {DEEPEST_JSON} levels")
            return
        except ValueError as error:
            yield Fault("malformed_json", str(error))
            return
        expected_hash = case.get("sha256", hashlib.sha256(own).hexdigest())
        if own != case["canonical"].encode("utf-8", "surrogatepass") or hashlib.sha256(own).hexdigest() != expected_hash:
            yield Fault("wrong_canonical_form", f"it is {own.decode('utf-8')}, not {case['canonical']!r}")
            return


def _leaf_vector(vector):
    malformed = list(entry_faults(vector["entry"]))
    yield from malformed or leaf_faults(vector["entry"], vector["leaf"])


def _tree_vector(vector):
    tree = Tree()
    for leaf in vector["leaves"]:
        tree.append(bytes.fromhex(leaf))
        root = vector["roots"].get(str(tree.count))
        if root is not None and root != tree.root().hex():
            yield Fault("wrong_root", f"{tree.count} leaves have the root {tree.root().hex()}, not {root}")
            return


def _proof_vector(vector):
    wrong_leaf = list(leaf_faults(vector["entry"], vector["leaf"])) if "entry" in vector else []
    yield from wrong_leaf or inclusion_faults(vector["leaf"], vector["path"], vector["root"], vector["index"], vector["count"])


# --- the state file: {BASE_URL: {seq, payload_hash, history, pubkeys, checked_at}} -------------------------------------


def read_state(path):
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CannotCheck("usage", f"the state file {path} cannot be read: {error}") from None
    state = parse_file(f"the state file {path}", content)
    if not isinstance(state, dict) or not all(_is_head(head) for head in state.values()):
        raise CannotCheck("usage", f"the state file {path} is not one of this program's: move it away to begin anew")
    return state


def _is_head(head):
    return (
        isinstance(head, dict)
        and is_whole(head.get("seq"))
        and is_hash(head.get("payload_hash"))
        and is_hash(head.get("history"))
        and isinstance(head.get("pubkeys"), list)
        and all(is_hash(key) for key in head["pubkeys"])
    )


def write_state(path, state):
    """Written beside the old one and renamed, so that a crash leaves one of the two whole."""
    fresh = f"{path}.{os.getpid()}.new"
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(json.dumps(state, indent=2) + "\n")
        os.replace(fresh, path)
    except OSError as error:
        raise CannotCheck("usage", f"the state file {path} cannot be written: {error}") from None


def parse_file(path, content):
    try:
        return read_json(content)
    except (ValueError, RecursionError) as error:
        raise CannotCheck("usage", f"{path} is not JSON: {error}") from None


# --- the command -----------------------------------------------------------------------------------------------------


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        raise CannotCheck("usage", f"{self.format_usage()}{message}")


def read_arguments(argv):
    parser = Arguments(prog="seal_verify.py", description="Check the ledger of an agent network without trusting it.", allow_abbrev=False)
    parser.add_argument("target", nargs="?", metavar="BASE_URL|DUMP.json|RECEIPT.json")
    parser.add_argument("--pubkey", action="append", default=[], metavar="HEX", help="accept this key and no other; again for each further key")
    parser.add_argument("--state", default=".seal-verify.json", metavar="FILE", help="where the last head of each BASE_URL is remembered")
    parser.add_argument("--save", metavar="FILE", help="write what was read from BASE_URL as a dump")
    parser.add_argument("--vector", action="append", metavar="FILE", help="check a test vector")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    arguments = parser.parse_args(argv)
    if (arguments.target is None) == (arguments.vector is None):
        parser.error("either one thing to check or --vector")
    for key in arguments.pubkey:
        if not is_hash(key):
            parser.error(f"--pubkey takes 64 lower-case hex characters, not {shown(key)}")
    return arguments


def service_name(target):
    """One name for each service, whatever way its address is written."""
    try:
        parts = urllib.parse.urlsplit(target)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise CannotCheck("usage", f"{target} is not an address")
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        host = f"{host}:{port}"
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{host}{path[:-7] if path.endswith('/api/v1') else path}"


def check_service(arguments):
    base = service_name(arguments.target)
    state = read_state(arguments.state)
    remembered = state.get(base)
    recorder = from_file(lambda: Recorder(arguments.save)) if arguments.save else None
    audit = ChainAudit(Service(base, recorder), Keyring(arguments.pubkey, remembered["pubkeys"] if remembered else []), remembered, Progress())
    try:
        audit.run()
    finally:
        if recorder:
            recorder.close()
    if audit.findings.total == 0 and audit.head:
        state[base] = {**audit.head, "pubkeys": audit.keyring.seen, "checked_at": int(time.time())}
        write_state(arguments.state, state)
    return outcome(audit.report(base), audit.findings)


def check_file(arguments):
    path = arguments.target
    source = from_file(lambda: dump_by_lines(path))
    keyring = Keyring(arguments.pubkey)
    if source is None:
        content = parse_file(path, from_file(lambda: read_bytes(path)))
        if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
            raise CannotCheck("usage", f"{path} is neither a dump {{entries, seals}} nor a receipt")
        if not isinstance(content.get("seals"), list):
            audit = ReceiptAudit(content, keyring).run()
            return outcome(audit.report(path), audit.findings)
        source = ListSource(lambda: content["seals"], lambda: content["entries"])
    audit = ChainAudit(source, keyring, None, Progress()).run()
    return outcome(audit.report(path), audit.findings)


def check_vectors(arguments):
    results = []
    for path in arguments.vector:
        findings = vector_findings(parse_file(path, from_file(lambda: read_bytes(path))))
        results.append({"file": path, "ok": findings.total == 0, "findings": [vars(finding) for finding in findings.kept]})
    return {"ok": all(result["ok"] for result in results), "kind": "vectors", "results": results}


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def from_file(read):
    try:
        return read()
    except OSError as error:
        raise CannotCheck("usage", str(error)) from None


def outcome(report, findings):
    kept = [vars(finding) for finding in findings.kept]
    return {"ok": findings.total == 0, **report, "findings": kept, "findings_total": findings.total}


class Progress:
    """A line on stderr every two seconds."""

    def __init__(self):
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, text):
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            sys.stderr.write(f"... {text}\n")


KEY_TRUST = {
    "pinned": "pinned",
    "remembered": "the one remembered",
    "first_seen": "taken from what was checked: compare it with a source you trust and pin it with --pubkey",
}


def lines_of(result):
    if result["kind"] == "vectors":
        for one in result["results"]:
            refusals = "; ".join(f"{finding['reason']}: {finding['message']}" for finding in one["findings"])
            yield f"{one['file']}: {'accepted' if one['ok'] else 'refused ' + refusals}"
        return
    for finding in result["findings"]:
        yield f"{finding['reason']} at {finding['where']}: {finding['message']}"
    if result["findings_total"] > len(result["findings"]):
        yield f"and {result['findings_total'] - len(result['findings'])} more findings"
    if result["kind"] == "chain":
        yield f"seals: {result['seals']}, of which signed: {result['signed']}"
    else:
        yield f"record: {shown(result['id'])}"
        yield f"openings checked: {result['openings']}"
    if result["unsigned_seqs"]:
        yield "not signed yet, so not binding: seal " + " ".join(map(str, result["unsigned_seqs"]))
    yield f"entries under a seal: {result['entries_sealed']}, waiting for one: {result['entries_waiting']}"
    for key in result["pubkeys"]:
        yield f"key: {key} ({KEY_TRUST[result['key_trust']]})"
    if result.get("head"):
        yield f"head: seal {result['head']['seq']}, payload hash {result['head']['payload_hash']}"
    if result["ok"] and result.get("remembered_seq") is not None:
        yield f"nothing up to seal {result['remembered_seq']} has changed since the last check"
    yield verdict_of(result)


def verdict_of(result):
    if not result["ok"]:
        return f"BAD: {result['findings_total']} finding{'' if result['findings_total'] == 1 else 's'}"
    if result["kind"] == "receipt":
        return "GOOD so far: not every entry is under a seal yet" if result["entries_waiting"] else "GOOD: every entry is under its seal"
    return "GOOD: the whole chain holds" if result["seals"] else "GOOD: there are no seals yet"


def main(argv):
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        arguments = read_arguments(argv)
        if arguments.vector is not None:
            result = check_vectors(arguments)
        elif re.match(r"https?:", arguments.target, re.IGNORECASE):
            result = check_service(arguments)
        else:
            result = check_file(arguments)
    except CannotCheck as error:
        if "--json" in argv:
            print(json.dumps({"ok": False, "error": error.word, "message": str(error)}))
        else:
            sys.stderr.write(f"{error}\n")
        return 2
    print(json.dumps(result) if arguments.json else "\n".join(lines_of(result)))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
