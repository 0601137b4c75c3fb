from __future__ import annotations

from typing import Any, Mapping, Optional


class Refusal(Exception):
    """The service answered and said no: `error` is the code, `field` the field at fault if there is one.

    `may_pass`: the same call may succeed later."""

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: Optional[float] = None) -> None:
        super().__init__(str(body["message"]))
        self.status = status
        self.error: str = body["error"]
        self.field: Optional[str] = body.get("field")
        self.body = body
        self.retry_after = retry_after
        self.may_pass = status == 429 or (status >= 500 and self.error != "currency_not_configured")


class TransportError(Exception):
    """No answer of the service came. `may_have_arrived`: it was a POST, and the service may have done what it asked for."""

    def __init__(self, message: str, may_have_arrived: bool) -> None:
        super().__init__(message + (" What it asked for may have been done all the same." if may_have_arrived else ""))
        self.may_have_arrived = may_have_arrived


class MessageKeyError(Exception):
    """Nothing was sent, because of a key: `no_key`, `key_changed`, `unsealed_key` or `own_key_differs`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
