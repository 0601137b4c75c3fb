from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional, Sequence

import seal_verify  # type: ignore[import-untyped]

from .client import Client


@dataclass(frozen=True)
class Trust:
    """By what the service is judged: where the verifier remembers it, keys that are known to be its own, a file with whose
    cosignatures a checkpoint must have (C2SP tlog-policy), and how old what is shown may be, in seconds."""

    state_file: str
    pubkeys: Sequence[str] = field(default_factory=tuple)
    policy_file: Optional[str] = None
    max_age: Optional[int] = None


@dataclass(frozen=True)
class Verified:
    """The result of a verification. `reasons` says why it is not ok: `waiting` (no seal yet), `key_unknown`, or what doesn't hold."""

    ok: bool
    verdict: str
    reasons: List[str]
    text: str


def _check(target: str, trust: Trust, *options: str) -> Verified:
    """Runs the verifier in this process."""
    keys = [word for key in trust.pubkeys for word in ("--pubkey", key)]
    policy = ["--policy", trust.policy_file] if trust.policy_file else []
    age = ["--max-age", str(trust.max_age)] if trust.max_age is not None else []
    _, result, text = seal_verify.check([target, "--state", trust.state_file, *options, *keys, *policy, *age])
    reasons = [one["reason"] for part in ("findings", "not_binding") for one in result.get(part) or []]
    return Verified(result["ok"], result["verdict"], reasons, text)


def verify_ledger(client: Client, trust: Trust) -> Verified:
    """Verifies the ledger here, what is new of it since the last check. The first one remembers the service's key, unless keys
    are pinned, and ends with `key_unknown`."""
    return _check(client.base_url, trust)


def verify_receipt(client: Client, record_id: str, trust: Trust) -> Verified:
    """Fetches the receipt of a record and verifies it here, without trusting the service. If no key is pinned or remembered, the
    ledger is verified first."""
    return check_receipt(client, client.receipt(record_id), record_id, trust)


def check_receipt(client: Client, receipt: Mapping[str, Any], record_id: str, trust: Trust) -> Verified:
    """Verifies a receipt, which must be that of the record. If no key is pinned or remembered, the ledger is verified first."""
    if not trust.pubkeys and client.base_url not in seal_verify.read_state(trust.state_file):
        verify_ledger(client, trust)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "receipt.json")
        with open(path, "w") as file:
            json.dump(receipt, file)
        verified = _check(path, trust, "--service", client.base_url)
    if receipt.get("id") == record_id:
        return verified
    return Verified(False, "broken", [*verified.reasons, "wrong_record"], verified.text)
