from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, List, Mapping, Sequence

import seal_verify  # type: ignore[import-untyped]

from .client import Client


@dataclass(frozen=True)
class Trust:
    """By what a seal is judged: where the verifier remembers the service, and keys that are known to be its own."""

    state_file: str
    pubkeys: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True)
class VerifiedReceipt:
    ok: bool
    verdict: str
    reasons: List[str]
    text: str


def verify_receipt(client: Client, record_id: str, trust: Trust) -> VerifiedReceipt:
    """Fetches the receipt of a record and verifies it here, without trusting the service.

    `reasons` says why not: `waiting` (no seal yet), `key_unknown`, or what doesn't hold."""
    return check_receipt(client.base_url, client.receipt(record_id), record_id, trust)


def check_receipt(base_url: str, receipt: Mapping[str, Any], record_id: str, trust: Trust) -> VerifiedReceipt:
    keys = [word for key in trust.pubkeys for word in ("--pubkey", key)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "receipt.json")
        with open(path, "w") as file:
            json.dump(receipt, file)
        _, result, text = seal_verify.check([path, "--state", trust.state_file, "--service", base_url, *keys])
    reasons = [one["reason"] for part in ("findings", "not_binding") for one in result.get(part) or []]
    if receipt.get("id") != record_id:
        return VerifiedReceipt(False, "broken", [*reasons, "wrong_record"], text)
    return VerifiedReceipt(result["ok"], result["verdict"], reasons, text)
