"""Whether a venue has what it owes: its own statement, compared with the ledger, a Nano node and a Monero wallet."""
from __future__ import annotations

import hashlib
import json
import re
import urllib.request
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote

import seal_verify  # type: ignore[import-untyped]

from .client import Client
from .errors import Refusal, TransportError
from .verifying import Trust, Verified, check_receipt

COINS = ("xno", "xmr")
NODE_SECONDS = 30
SEEN_SECONDS = 60  # a block may be seen that much before a node's answer is
PROOF_SECONDS = 2 * 86_400  # a control proof is made daily
IN_FLIGHT_SECONDS = 3_600
MAX_PAGES = 100
ZERO = "0" * 64
_HASH = re.compile(r"[0-9A-Fa-f]{64}\Z")
_DIGITS = "13456789abcdefghijkmnopqrstuwxyz"
Outcome = Tuple[str, str, str]  # verdict, word, sentence
Json = Dict[str, Any]


class _Wrong(Exception):
    """Something does not hold, or could not be checked: (verdict, word, sentence)."""


def _require(holds: bool, word: str, sentence: str, verdict: str = "broken") -> None:
    if not holds:
        raise _Wrong(verdict, word, sentence)


def verify_solvency(client: Client, trust: Trust, nano_rpc: Optional[str] = None, monero_rpc: Optional[str] = None, agent_id: Optional[str] = None) -> Verified:
    """Verifies the ledger, and that what the newest signed seal states as assets is there, is controlled by the venue and
    covers what it states to owe. Without the RPC of a Nano node, or of a monero-wallet-rpc, that coin stays unchecked. With
    `agent_id`, whose token the client has, also that what the ledger owes that agent is in those sums. `text` is one line."""
    keys = [word for key in trust.pubkeys for word in ("--pubkey", key)]
    policy = ["--policy", trust.policy_file] if trust.policy_file else []
    age = ["--max-age", str(trust.max_age)] if trust.max_age is not None else []
    _, ledger, _ = seal_verify.check([client.base_url, "--state", trust.state_file, *keys, *policy, *age])
    verdict = ledger["verdict"]
    found = [*(ledger.get("findings") or []), *(ledger.get("not_binding") or [])]
    outcomes: List[Outcome] = [(verdict, one["reason"], one["message"]) for one in found]
    if verdict == "unchecked":
        outcomes.append((verdict, ledger["error"], ledger["message"]))
    elif verdict != "broken":
        outcomes += _judge(client, trust, ledger, {"xno": nano_rpc, "xmr": monero_rpc}, agent_id)
    verdicts = [outcome[0] for outcome in outcomes]
    worst = next((one for one in ("broken", "unchecked", "not_binding") if one in verdicts), "good")
    text = "; ".join(sentence if word == "covered" else f"{word}: {sentence}" for _, word, sentence in outcomes)
    reasons = [word for _, word, _ in outcomes if word != "covered"]
    return Verified(worst == "good", worst, reasons, re.sub("[^ -~]", "?", text))


def _part(name: str, check: Callable[[], List[Outcome]]) -> List[Outcome]:
    try:
        return check()
    except _Wrong as wrong:
        verdict, word, sentence = wrong.args
        return [(verdict, word, f"{name}{sentence}")]


class _Statement:
    """What the newest signed seal states."""

    def __init__(self, client: Client, trust: Trust, ledger: Json) -> None:
        self.client, self.trust, self.ledger = client, trust, ledger
        self.seq: int = ledger["head"]["seq"] if ledger["head"] else 0
        entries = self.record(f"seal_{self.seq}")
        closing = next((one for one in entries if one["kind"] == "solvency"), None)
        _require(closing is not None, "wrong_closing", f"seal {self.seq} has no closing entry")
        assert closing is not None
        self.at, self.entry_id, data = closing["at"], closing["id"], closing["data"]
        self.liabilities = seal_verify.stated_liabilities(data.get("liabilities"))
        _require(self.liabilities is not None, "not_stated", f"seal {self.seq} states no liabilities", "unchecked")
        self.assets = data.get("assets")
        _require(_are_assets(self.assets), "malformed_assets", "the closing entry states no assets of the right form")
        self.control = self.ask("/api/v1/solvency").get("control")

    def ask(self, path: str) -> Json:
        try:
            answer = seal_verify.fetch_json(f"{self.client.base_url}{path}", seal_verify.Patience(NODE_SECONDS, 10 * NODE_SECONDS))
        except seal_verify.CannotCheck as error:
            raise _Wrong("unchecked", error.reason, str(error)) from None
        return answer if isinstance(answer, dict) else {}

    def record(self, name: str) -> List[Json]:
        """Every entry of a record, verified."""
        receipt = self.client.receipt(name)
        verified = check_receipt(self.client, receipt, name, self.trust)
        _require(verified.verdict in ("good", "not_binding"), (verified.reasons or ["unchecked"])[0], f"the receipt of {name}", verified.verdict)
        return [item["entry"] for item in receipt["entries"]]


def _are_assets(assets: Any) -> bool:
    def is_raw(text: Any) -> bool:
        return seal_verify.is_sum(text) and not text.startswith("-")

    def is_hash(text: Any) -> bool:
        return isinstance(text, str) and _HASH.match(text) is not None

    def is_account(one: Any) -> bool:
        return (
            isinstance(one, dict)
            and isinstance(one.get("account"), str)
            and (one.get("frontier", 0) is None or is_hash(one.get("frontier")))
            and is_raw(one.get("balance"))
            and isinstance(one.get("receivable"), list)
            and all(isinstance(part, dict) and is_hash(part.get("hash")) and is_raw(part.get("amount")) for part in one["receivable"])
        )

    if not isinstance(assets, dict) or not isinstance(assets.get("at"), dict) or not {"xno", "xmr"} <= set(assets):
        return False
    xno, xmr, at = assets["xno"], assets["xmr"], assets["at"]
    return (
        (xno is None or (isinstance(xno, list) and all(map(is_account, xno)) and seal_verify.is_whole(at.get("xno"))))
        and (xmr is None or (isinstance(xmr, dict) and is_raw(xmr.get("balance")) and seal_verify.is_whole(at.get("xmr"))))
        and (xmr is None or xmr.get("proof_hash", 0) is None or seal_verify.is_hash(xmr.get("proof_hash")))
    )


def _judge(client: Client, trust: Trust, ledger: Json, nodes: Mapping[str, Optional[str]], agent: Optional[str]) -> List[Outcome]:
    stated: List[_Statement] = []

    def read() -> List[Outcome]:
        stated.append(_Statement(client, trust, ledger))
        return []

    outcomes = _part("", read)
    for coin in COINS if stated else ():
        outcomes += _part(f"{coin}: ", lambda coin=coin: [_judge_coin(coin, stated[0], nodes[coin])])  # type: ignore[misc]
    if stated and agent is not None:
        outcomes += _part("yours: ", lambda: [_judge_own(stated[0], agent)])
    return outcomes


def _judge_coin(coin: str, stated: _Statement, node: Optional[str]) -> Outcome:
    owed = sum(stated.liabilities[coin].values())
    if owed <= 0:
        return "good", "covered", f"{coin}: covered, nothing is owed"
    unread = (stated.assets.get("unread") or {}).get(coin)
    _require(stated.assets[coin] is not None, "not_read", f"the venue has not read what it holds ({unread})", "unchecked")
    proofs = _proofs(coin, stated)
    held, proven = (_nano if coin == "xno" else _monero)(stated, node, proofs)
    if proven >= owed:
        return "good", "covered", f"{coin}: covered, {proven} for {owed} owed"
    sent = _in_flight(coin, stated)
    if proven + sent >= owed:
        return "good", "covered", f"{coin}: covered, {proven} for {owed} owed, {sent} of it under way"
    if held + sent >= owed:
        return "not_binding", "control_not_shown", f"{coin}: {held} are there, and control of {proven} is shown, for {owed} owed"
    return "broken", "short", f"{coin}: short by {owed - held - sent}, {held} for {owed} owed"


def _proofs(coin: str, stated: _Statement) -> List[Json]:
    """The control proofs of a coin that are not too old, each compared with the seal that it names."""
    shown = (stated.control or {}).get(coin)
    fresh: List[Json] = []
    for proof in shown if isinstance(shown, list) else []:
        seq = proof.get("seal_seq") if isinstance(proof, dict) else None
        _require(seal_verify.is_whole(seq), "wrong_control", "a control proof names no seal")
        page = stated.ask(f"/seal?after_seq={seq - 1}&limit=1").get("seals") or [None]
        findings, keyring = seal_verify.Findings(), seal_verify.Keyring(stated.trust.pubkeys, stated.ledger["pubkeys"])
        if findings.run("", seal_verify.check_seal_form, page[0])[0] and page[0]["signed"]:
            seal_verify.check_signature(page[0], keyring, findings, "")
        _require(not findings.kept and page[0]["signed"] and page[0]["seq"] == seq, "wrong_control", f"a control proof names seal {seq}")
        digest = seal_verify.payload_hash_of(page[0])
        account = proof.get("account" if coin == "xno" else "address")
        message = f"agent-network solvency\nseal {seq} {digest}\naccount {account}\n"
        matches = proof.get("seal_hash") == digest and proof.get("message") == message
        _require(matches, "wrong_control", f"the control proof of {account} is not for seal {seq}")
        if stated.at - page[0]["at"] <= PROOF_SECONDS:
            fresh.append(proof)
    return fresh


def _ask_node(url: str, body: Json) -> Json:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=NODE_SECONDS) as response:
            answer = json.loads(response.read())
        if not isinstance(answer, dict) or "error" in answer:
            raise ValueError(f"it answers {json.dumps(answer)[:200]}")
        return answer
    except (OSError, ValueError) as error:
        raise _Wrong("unchecked", "node", f"{url}: {error}") from None


def _nano(stated: _Statement, node: Optional[str], proofs: Sequence[Json]) -> Tuple[int, int]:
    """What the accounts have by a node's word, and of that what is shown to be the venue's."""
    if node is None:
        raise _Wrong("unchecked", "no_node", "a Nano node is needed to look (nano_rpc)")
    url, accounts, at = node, stated.assets["xno"], stated.assets["at"]["xno"]

    def read(hashes: Iterable[str]) -> Json:
        asked = [one for one in hashes if one != ZERO]
        flags = {name: "true" for name in ("json_block", "receive_hash", "include_not_found")}
        blocks = _ask_node(url, {"action": "blocks_info", "hashes": asked, **flags}).get("blocks") if asked else {}
        return blocks if isinstance(blocks, dict) else {}

    sends = [(one["account"], part) for one in accounts for part in one["receivable"]]
    named = [(one["frontier"] or ZERO).upper() for one in accounts] + [part["hash"].upper() for _, part in sends]
    hashes = [one for one in named if one != ZERO]
    addresses = [one["account"] for one in accounts]
    _require(len({*hashes, *addresses}) == len(hashes) + len(addresses), "wrong_assets", "the assets name an account or a block twice")
    blocks = read(hashes)
    after = read({block.get(name) or ZERO for block in blocks.values() for name in ("successor", "receive_hash")})

    def was_before(digest: Any) -> bool:
        return digest in after and int(after[digest]["local_timestamp"]) < at - SEEN_SECONDS

    def block_of(digest: str) -> Json:
        block: Json = blocks.get(digest.upper()) or {}
        _require(block.get("confirmed") == "true", "wrong_assets", f"the node has no confirmed block {digest}")
        return block

    held: Dict[str, int] = {}
    for one in accounts:
        account, frontier = one["account"], one["frontier"] or ZERO
        if frontier != ZERO or one["balance"] != "0":
            block = block_of(frontier)
            is_last = not was_before(block.get("successor"))
            right = block.get("block_account") == account and block.get("balance") == one["balance"] and is_last
            _require(right, "wrong_assets", f"{account} had not {one['balance']} after its last block, {frontier}")
        held[account] = int(one["balance"])
    for account, part in sends:
        block = block_of(part["hash"])
        right = block.get("subtype") == "send" and (block.get("contents") or {}).get("link_as_account") == account
        right = right and block.get("amount") == part["amount"] and not was_before(block.get("receive_hash"))
        _require(right, "wrong_assets", f"block {part['hash']} does not send {part['amount']} that {account} has still to receive")
        held[account] += int(part["amount"])
    proven = set()
    for proof in proofs:
        account = proof["account"]
        _require(_is_signed(account, proof["message"], proof.get("signature")), "wrong_control", f"the signature is not that of {account}")
        proven.add(account)
    return sum(held.values()), sum(raw for account, raw in held.items() if account in proven)


def _is_signed(account: Any, message: str, signature: Any) -> bool:
    """Whether a signature in hex is that of a Nano account: Ed25519 with Blake2b."""
    digits = account[5:] if isinstance(account, str) and re.match(rf"nano_[13][{_DIGITS}]{{59}}\Z", account) else ""
    if not digits or not isinstance(signature, str) or not re.match(r"[0-9A-Fa-f]{128}\Z", signature):
        return False
    number = 0
    for digit in digits:
        number = number << 5 | _DIGITS.index(digit)
    key = (number >> 40).to_bytes(33, "big")[-32:]
    checksum = hashlib.blake2b(key, digest_size=5).digest()[::-1]
    if number & (1 << 40) - 1 != int.from_bytes(checksum, "big"):
        return False
    return bool(seal_verify.is_signed_by(key, message.encode(), bytes.fromhex(signature), hashlib.blake2b))


def _monero(stated: _Statement, node: Optional[str], proofs: Sequence[Json]) -> Tuple[int, int]:
    """What the wallet has by the venue's word, but no more than its proof shows; and what that shows."""
    assets = stated.assets["xmr"]
    balance = int(assets["balance"])
    hashed = ((hashlib.sha256(str(proof.get("signature")).encode()).hexdigest(), proof) for proof in proofs)
    proof = next((proof for digest, proof in hashed if digest == assets["proof_hash"]), None)
    if proof is None:
        return balance, 0
    if node is None:
        raise _Wrong("unchecked", "no_node", "a Monero wallet is needed to look (monero_rpc)")
    params = {name: proof.get(name) for name in ("address", "message", "signature")}
    call = {"jsonrpc": "2.0", "id": "0", "method": "check_reserve_proof", "params": params}
    result = _ask_node(f"{node.rstrip('/')}/json_rpc", call).get("result") or {}
    _require(result.get("good") is True, "wrong_control", f"the reserve proof of {params['address']} does not hold")
    left = int(result["total"]) - int(result["spent"])
    return max(balance, left), left


def _in_flight(coin: str, stated: _Statement) -> int:
    """The sum of payouts that were sent within an hour before the seal and have not arrived, by their receipts."""
    since = stated.at - IN_FLIGHT_SECONDS
    seals = stated.ask(f"/seal?after_seq={max(0, stated.seq - MAX_PAGES)}&limit={MAX_PAGES}").get("seals") or []
    start = min([stated.entry_id, *(seal["from_id"] for seal in seals if seal["at"] >= since)])
    sent = set()
    for _ in range(MAX_PAGES):
        page = stated.ask(f"/api/v1/ledger?kind=payout&from_id={start}&limit=1000")
        data = [entry["data"] for entry in page.get("entries") or []]
        sent |= {one["payout_id"] for one in data if one.get("step") == "sent" and one.get("coin") == coin}
        if page.get("more") is not True or page.get("next_id", 0) <= start:
            break
        start = page["next_id"]
    total = 0
    for name in sorted(sent):
        steps = [one for one in stated.record(name) if one["id"] <= stated.entry_id and one["kind"] == "payout"]
        if steps and steps[-1]["data"].get("step") == "sent" and steps[-1]["data"].get("coin") == coin and steps[-1]["at"] >= since:
            total += int(steps[-1]["data"]["amount_raw"])
    return total


def _own_orders(client: Client) -> List[str]:
    """All orders of the client's agent."""
    found: Dict[str, bool] = {}
    for _ in range(MAX_PAGES):
        known = len(found)
        for order in client.orders(before=list(found)[-1] if found else None, limit=100)["orders"]:
            found[order["order_id"]] = True
        if len(found) == known:
            return list(found)
    raise _Wrong("unchecked", "too_long", "there are too many orders to be read")


def _judge_own(stated: _Statement, agent: str) -> Outcome:
    """Compares what the ledger says the agent is owed, by the receipts of its orders and payouts and by its moves of money, with
    the whole."""
    own = {coin: dict.fromkeys(seal_verify.PARTS, 0) for coin in COINS}

    def add(entries: Iterable[Json], parts: Sequence[str]) -> None:
        met: Dict[str, bool] = {}
        for entry in entries:
            change = seal_verify.part_changes(entry, met) if entry["id"] <= stated.entry_id else None
            if isinstance(change, tuple):
                for part in parts:
                    own[change[0]][part] += change[1].get(part, 0)

    try:
        for name in _own_orders(stated.client):
            order = stated.client.order(name)["order"]
            records = [name, *(payout["payout_id"] for payout in order["payouts"])]
            is_open = order["status"] in ("paid", "delivered", "disputed")
            add([entry for record in records for entry in stated.record(record)], ("orders", "owed") if is_open else ("owed",))
    except (Refusal, TransportError) as error:
        raise _Wrong("unchecked", "unreachable", str(error)) from None
    add(_moves(stated, agent), seal_verify.PARTS)
    sums = [(coin, part, own[coin][part]) for coin in COINS for part in seal_verify.PARTS]
    over = next((f"{coin} {part}" for coin, part, total in sums if total > stated.liabilities[coin][part]), None)
    _require(over is None, "own_left_out", f"your {over} are more than all that is stated")
    shown = ", ".join(f"{total} {coin} in {part}" for coin, part, total in sums if total)
    return ("good", "covered", f"yours: {shown or 'nothing'}")


def _moves(stated: _Statement, agent: str) -> List[Json]:
    """The agent's moves of money in the ledger."""
    found: List[Json] = []
    start = 1
    for _ in range(MAX_PAGES):
        page = stated.ask(f"/api/v1/ledger?kind=money_move&agent={quote(agent, safe='')}&from_id={start}&limit=1000")
        found += page.get("entries") or []
        if page.get("more") is not True or page.get("next_id", 0) <= start:
            return found
        start = page["next_id"]
    raise _Wrong("unchecked", "too_long", "the ledger is too long to be searched")
