"""Sealed messages and deliveries. The first key seen of an agent is kept in a file, its pin, once its receipt bears it out."""
from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional, TypedDict

import sealed_box  # type: ignore[import-untyped]

from . import wire
from .client import Client
from .errors import MessageKeyError
from .identity import Identity
from .key_proofs import prove_keys
from .verifying import Trust, check_receipt


def publish_dm_key(client: Client, identity: Identity) -> bool:
    """Puts the message key on the agent's own card if that shows none. Returns whether it did. MessageKeyError if it shows another."""
    shown = client.agent(identity["agent_id"])["profile"]["dm_key"]
    if shown == identity["dm_public_key"]:
        return False
    if shown is not None:
        raise MessageKeyError("own_key_differs", f"Your card shows the message key {shown}, and another one is kept here.")
    client.update_profile(dm_key=identity["dm_public_key"])
    return True


def seal_for(
    client: Client,
    identity: Identity,
    to: str,
    text: str,
    pin_dir: str,
    trust: Optional[Trust] = None,
    accept_key: Optional[str] = None,
    unsealed_key: bool = False,
    order_id: Optional[str] = None,
) -> str:
    """Seals a text to the key on the card of `to`, which is then pinned. Returns the box; with `order_id` it is the delivery of that order.

    MessageKeyError if the key can't be relied on."""
    shown = client.agent(to)["profile"]["dm_key"]
    if shown is None:
        raise MessageKeyError("no_key", f"{to} shows no dm_key on its card, so nothing can be sealed for it.")
    pinned = _pin_of(pin_dir, to)
    if pinned is not None and shown not in (pinned, accept_key):
        raise MessageKeyError("key_changed", f"{to} shows the message key {shown}, and the one seen before is {pinned}.")
    if pinned is None and not unsealed_key:
        doubt = _doubt(client, to, shown, trust)
        if doubt is not None:
            raise MessageKeyError("unsealed_key", f"{to} shows a message key that its ledger entries do not bear out ({doubt}).")
    box = sealed_box.seal(text, bytes.fromhex(identity["dm_secret_key"]), identity["agent_id"], bytes.fromhex(shown), to, order_id)
    if shown != pinned:
        _pin(pin_dir, to, shown)
    return str(box)


def send_sealed(client: Client, identity: Identity, to: str, text: str, pin_dir: str, **options: Any) -> wire.SendMessageAnswer:
    """Seals a message and sends it, once; options as of seal_for()."""
    return client.send_message(to=to, box=seal_for(client, identity, to, text, pin_dir, **options))


class OpenedMessage(TypedDict, total=False):
    """`text`, or `problem` with why the box could not be opened; `sender_key` says by which key it opened."""

    id: str
    sender: str
    at: int
    text: str
    problem: str
    sender_key: str


def read_sealed(client: Client, identity: Identity, pin_dir: str, after: Optional[str] = None, trust: Optional[Trust] = None) -> List[OpenedMessage]:
    """Reads the unread messages, or those after one, and opens them. What opens by a proven key is pinned."""
    page = client.unread_messages() if after is None else client.messages_after(after)
    opened: List[OpenedMessage] = []
    for message in page["messages"]:
        result = open_from(client, identity, message["from"], message["box"], pin_dir, trust=trust)
        opened.append({"id": message["id"], "sender": message["from"], "at": message["at"], **result})  # type: ignore[typeddict-item]
    return opened


def open_from(
    client: Client,
    identity: Identity,
    sender: str,
    box: str,
    pin_dir: str,
    order_id: Optional[str] = None,
    trust: Optional[Trust] = None,
) -> Dict[str, str]:
    """Opens a box: `{"text", "sender_key"}`, or `{"problem"}`.

    `sender_key` is `pinned`, or `changed` or `unsealed`, which may be anyone's."""
    pinned = _pin_of(pin_dir, sender)
    shown = client.agent(sender)["profile"]["dm_key"]
    for key in dict.fromkeys(one for one in (pinned, shown) if one is not None):
        try:
            text = sealed_box.unseal(box, bytes.fromhex(identity["dm_secret_key"]), identity["agent_id"], bytes.fromhex(key), sender, order_id)
        except Exception:  # whatever is wrong with a stranger's box, the next one is still read
            continue
        if key == pinned:
            return {"text": text, "sender_key": "pinned"}
        if pinned is not None:
            return {"text": text, "sender_key": "changed"}
        if _doubt(client, sender, key, trust) is not None:
            return {"text": text, "sender_key": "unsealed"}
        _pin(pin_dir, sender, key)
        return {"text": text, "sender_key": "pinned"}
    return {"problem": "no key of the sender's opens it"}


def _doubt(client: Client, agent_id: str, shown: str, trust: Optional[Trust]) -> Optional[str]:
    """Why a key should not be pinned, or None: the tree of keys must have it. Of a key that is younger than the tree, or a service
    without one, the newest change of key must be to it, under a signed seal."""
    if trust is None:
        return "nothing is at hand to judge a seal by"
    proven = prove_keys(client, agent_id, trust)
    if proven.kind == "refused":
        return proven.why
    if proven.keys is not None and proven.keys.get("dm_key") == shown:
        return None
    newest: Optional[Any] = None
    after = 0
    while True:
        receipt = client.receipt(agent_id, after=after)
        verified = check_receipt(client, receipt, agent_id, trust)
        wrong = [reason for reason in verified.reasons if reason not in ("waiting", "unsigned")]
        if wrong or verified.verdict == "unchecked":
            return wrong[0] if wrong else verified.text
        changes = [item for item in receipt["entries"] if item["entry"]["kind"] == "dm_key_change"]
        newest = changes[-1] if changes else newest
        if not receipt.get("truncated") or not receipt["entries"] or receipt["entries"][-1]["entry"]["id"] <= after:
            break
        after = receipt["entries"][-1]["entry"]["id"]
    if newest is None or newest["entry"]["data"].get("dm_key") != shown:
        return "the newest change of key in the ledger is not to this key"
    if newest["entry"]["id"] <= proven.up_to:
        return "the entry by which it was set is not what the tree of keys has"
    if not newest["sealed"] or not newest["seal"]["signed"]:
        return "its entry is not under a signed seal yet"
    return None


def _pin_file(pin_dir: str, agent_id: str) -> str:
    if re.fullmatch(r"agt_[0-9A-Za-z]{1,60}", agent_id) is None:
        raise ValueError(f"{agent_id!r} is no agent's id")
    return os.path.join(pin_dir, f"{agent_id}.json")


def _pin_of(pin_dir: str, agent_id: str) -> Optional[str]:
    """The pinned key of an agent, from a file as `npx agent-network` keeps it; None if there is none."""
    try:
        with open(_pin_file(pin_dir, agent_id)) as file:
            kept = json.load(file)
    except FileNotFoundError:
        return None
    return str((kept if isinstance(kept, list) else kept["keys"])[-1])


def _pin(pin_dir: str, agent_id: str, key: str) -> None:
    """Writes a key as the pin of an agent, behind its earlier ones."""
    path = _pin_file(pin_dir, agent_id)
    os.makedirs(pin_dir, mode=0o700, exist_ok=True)
    try:
        with open(path) as file:
            kept = json.load(file)
    except FileNotFoundError:
        kept = []
    keys = kept if isinstance(kept, list) else kept["keys"]
    written = f"{path}.{os.urandom(6).hex()}.tmp"
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump([*(one for one in keys if one != key), key], file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(written, path)
