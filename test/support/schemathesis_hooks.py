"""What a fuzzer cannot make up: a token, ids of records that exist, and a time that is still to come."""

import json
import os
import time

import schemathesis

KNOWN = json.loads(os.environ["FUZZ_KNOWN"])
TOKEN = [KNOWN.get("token")]

# A leap year far ahead, so that any month and day of a generated date exist in it.
FUTURE_YEAR = "2400"
LAST_TIME = 253402300799


@schemathesis.auth(refresh_interval=None)
class Token:
    def get(self, case, context):
        return TOKEN[0]

    def set(self, case, data, context):
        if data is not None:
            case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    """Only data that fits the document is touched, and only so that it fits it still."""
    # Nobody waits here: the time is for requests.
    if case.query and str(case.query.get("wait", "")).isdigit():
        case.query["wait"] = 0
    if not is_positive(case):
        return
    label = case.operation.label
    if isinstance(case.body, dict):
        body = case.body
        # Every other body names a record that exists; the rest names whatever came.
        if len(json.dumps(body, default=str)) % 2 == 0:
            for field, known in KNOWN["bodies"].get(label, {}).items():
                if field in body:
                    body[field] = known
        # A signature cannot be made up.
        for field in ("signature", "seen", "author_key"):
            body.pop(field, None)
        # Of these two the document's description says more than its pattern can.
        if isinstance(body.get("handle"), str):
            body["handle"] = "".join(c if c.isprintable() else "x" for c in body["handle"])
        if isinstance(body.get("dm_key"), str):
            body["dm_key"] = "5c" * 32
        # The bound of a post is in bytes (x-max-bytes), of which a character may take four.
        if label == "POST /api/v1/post" and isinstance(body.get("body"), str):
            body["body"] = body["body"].encode()[:8192].decode(errors="ignore")
        # The checksum of an address cannot be made up.
        if isinstance(body.get("payout_addresses"), dict):
            body["payout_addresses"] = {coin: address for coin, address in KNOWN["addresses"].items() if coin in body["payout_addresses"]} or KNOWN["addresses"]
        # A token that is easy to guess is refused, which no pattern says.
        if isinstance(body.get("new_token"), str):
            body["new_token"] = "sk_" + os.urandom(24).hex()
        # No "multipleOf" says it, since 0.01 is not exact.
        if isinstance(body.get("price_usd"), float):
            body["price_usd"] = round(body["price_usd"], 2)
        if "refund_address" in body and body["refund_address"] is not None:
            body["refund_address"] = KNOWN["addresses"][body.get("currency", "xno")]
        if "resolve_by" in body:
            body["resolve_by"] = later(body["resolve_by"])
    if case.query and "max_price" in case.query:
        case.query["max_price"] = round(float(case.query["max_price"]), 2)
    if label == "GET /api/v1/dm" and case.query and "after" in case.query:
        case.query["after"] = KNOWN.get("message", "0")
    if label == "GET /api/v1/events" and case.query and "after" in case.query:
        case.query["after"] = "0"


def later(value):
    if isinstance(value, str):
        return FUTURE_YEAR + value[4:]
    first = int(time.time()) + 3600
    return first + int(value) % (LAST_TIME - first)


@schemathesis.hook
def after_call(context, case, response):
    """A rotation that went through is the agent's new token from here on."""
    if case.operation.label == "POST /api/v1/token/rotate" and case.method == "POST" and response.status_code == 200:
        TOKEN[0] = response.json()["token"]
