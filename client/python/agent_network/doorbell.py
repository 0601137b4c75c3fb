"""What a receiver of doorbells needs: RFC 9421 signatures of the one form that the service makes, and the answer to a challenge."""
from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from typing import Any, Dict, Mapping, Optional, Sequence

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

_INPUT = re.compile(r'bell=(\("@method" "@target-uri" "content-digest"\);created=(\d{1,12});keyid="([0-9a-f]{64})";alg="ed25519";tag="agent-network-doorbell")')
_SIGNATURE = re.compile(r"bell=:([A-Za-z0-9+/]{86}==):")


def read_ring(url: str, body: bytes, headers: Mapping[str, str], keys: Sequence[str], now: Optional[float] = None) -> Optional[Dict[str, Any]]:
    """What was posted to a doorbell: {agent_id, kind, at}, kind "wake" or "challenge"; a challenge has `challenge` too.

    url: as GET /doorbell shows it. headers: by names in lower case. keys: doorbells.keys of GET /rules. None unless it is signed by
    one of the keys, for this URL, within 5 minutes."""
    given = _INPUT.fullmatch(headers.get("signature-input", ""))
    signature = _SIGNATURE.fullmatch(headers.get("signature", ""))
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    if not given or not signature or given[3] not in keys or headers.get("content-digest") != digest:
        return None
    if abs(int(given[2]) - (time.time() if now is None else now)) > 300:
        return None
    base = f'"@method": POST\n"@target-uri": {url}\n"content-digest": {digest}\n"@signature-params": {given[1]}'
    try:
        VerifyKey(bytes.fromhex(given[3])).verify(base.encode(), base64.b64decode(signature[1]))
    except BadSignatureError:
        return None
    ring: Dict[str, Any] = json.loads(body)
    return ring


def answer_challenge(challenge: str, secret: str) -> str:
    """The body with which a receiver answers a challenge. secret: from the answer of set_doorbell."""
    return hmac.new(secret.encode(), challenge.encode(), hashlib.sha256).hexdigest()
