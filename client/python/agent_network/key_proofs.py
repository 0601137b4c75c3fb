"""What keys an agent has, proven without its receipt: the answer of GET /keys against what the verifier remembers."""
from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional

import seal_verify  # type: ignore[import-untyped]

from .client import Client
from .errors import Refusal
from .verifying import Trust


@dataclass(frozen=True)
class ProvenKeys:
    """What the tree of keys says of an agent.

    `kind` is `proven`, with its keys (None: it has none) up to the entry `up_to`; `not_offered` if the service proves no keys
    and isn't expected to; or `refused`, and `why`: then nothing weaker may take the place of the proof."""

    kind: str
    keys: Optional[Mapping[str, Any]] = None
    up_to: int = 0
    why: str = ""


def prove_keys(client: Client, agent_id: str, trust: Trust) -> ProvenKeys:
    """Fetches an agent's keys, and verifies the proof by the service's keys that are pinned or remembered, and by the log that was
    seen. seal_verify.CannotCheck if the policy or the state file can't be read."""
    memory = seal_verify.read_state(trust.state_file).get(client.base_url)
    known = memory if memory and "log" in memory else None
    pubkeys = list(trust.pubkeys) or (memory["pubkeys"] if memory else [])
    if not pubkeys:
        return ProvenKeys("not_offered")
    policy = seal_verify.read_policy(trust.policy_file) if trust.policy_file else None
    try:
        answer = client.keys(agent_id)
    except Refusal as error:
        if error.error not in ("no_such_seal", "no_such_route", "not_found"):
            raise
        if known and known["logged"]:
            return ProvenKeys("refused", why=f"the service proves no keys ({error})")
        return ProvenKeys("not_offered")
    try:
        log = _verify(agent_id, answer, pubkeys, policy, known, trust.max_age)
        seen = seal_verify.seen_log(known)
        if seen and 0 < seen["size"] < log["size"]:
            proof = seal_verify.consistency_in(client.consistency(from_=seen["size"], to=log["size"]))
            seal_verify.connect_logs(seen, log, proof)
        elif seen and seen["size"] == log["size"]:
            seal_verify.connect_logs(seen, log, None)
    except seal_verify.NotHeld as refused:
        return ProvenKeys("refused", why=f"the proof of the keys of {agent_id} does not hold: {refused}")
    return ProvenKeys("proven", answer["keys"], answer["up_to"])


def _refuse(sentence: str) -> Exception:
    return seal_verify.NotHeld("wrong_keys", sentence)  # type: ignore[no-any-return]


def _verify(agent_id: str, answer: Mapping[str, Any], pubkeys: List[str], policy: Any, known: Any, max_age: Optional[int]) -> Mapping[str, Any]:
    """Verifies the proof: from the keys to the root of the tree of keys in a closing entry, from that entry to a checkpoint, the
    checkpoint's signature and cosignatures, and its age. Returns the checkpoint; NotHeld says what is wrong."""
    entry, keys = answer["entry"], answer["keys"]
    stated = entry["data"].get("keys") or {}
    log = entry["data"].get("log") or {}
    if entry["kind"] != "solvency" or not seal_verify.is_hash(stated.get("root")) or log.get("size") != answer["up_to"]:
        raise _refuse("its entry is no closing entry that states keys")
    form = stated.get("v", 1)
    if form not in (1, 2):
        raise _refuse("its tree of keys has a form that is not known here")
    found = answer["proof"]["found"]
    if _root_of(agent_id, found, answer["proof"]["path"]) != stated["root"]:
        raise _refuse("it does not lead to the root of the tree of keys")
    if (found if found and found["agent_id"] == agent_id else None) != keys:
        raise _refuse("it shows other keys than those it proves")
    index, path, note = seal_verify.read_log_proof(answer["tlog_proof"])
    checkpoint = seal_verify.verify_checkpoint(note, pubkeys)
    # The newest closing entry is the last of its checkpoint's log: no older tree passes for that log's newest.
    if index != entry["id"] - 1 or entry["id"] != checkpoint["size"]:
        raise _refuse("its closing entry is not the last of the checkpoint")
    if seal_verify.root_by_path(seal_verify.leaf_of(entry), index, checkpoint["size"], path) != checkpoint["root"]:
        raise _refuse("its entry is not in the log")
    support = seal_verify.Support([checkpoint], checkpoint["size"], checkpoint["size"], entry["at"])
    for word, sentence in support.judge(policy, "pinned", int(time.time()), max_age)[1]:
        raise _refuse(f"{word}: {sentence}")
    seen = seal_verify.seen_log(known)
    if seen and checkpoint["size"] < seen["size"]:
        raise _refuse(f"its log has {checkpoint['size']} entries, and one of {seen['size']} was seen here: the keys may have changed since")
    if known and form < known.get("key_form", 1):
        raise _refuse("it is in form 1, in which revoked keys stay, after the ledger has stated form 2")
    return checkpoint  # type: ignore[no-any-return]


def _root_of(agent_id: str, found: Optional[Mapping[str, Any]], path: List[str]) -> str:
    """The root of the tree of keys, from what stands at an agent's place in it: its own keys, another agent's, or nothing."""
    place = _place_of(agent_id)
    if len(path) > 256 or not all(map(seal_verify.is_hash, path)):
        raise _refuse("its path is none")
    other = place if found is None else _place_of(found["agent_id"])
    # Another agent's leaf proves absence only if its own path goes through this place.
    if place >> 256 - len(path) != other >> 256 - len(path):
        raise _refuse("the leaf of another agent is not on this path")
    try:
        running = bytes(32) if found is None else hashlib.sha256(b"\x00" + seal_verify.canonical_json(dict(found))).digest()
    except seal_verify.NotCanonical as error:
        raise _refuse(str(error)) from None
    for step, sibling in enumerate(map(bytes.fromhex, path)):
        is_right = place >> 256 - len(path) + step & 1
        running = seal_verify.log_node_of(sibling, running) if is_right else seal_verify.log_node_of(running, sibling)
    return running.hex()


def _place_of(agent_id: str) -> int:
    return int.from_bytes(hashlib.sha256(agent_id.encode("utf-8")).digest(), "big")
