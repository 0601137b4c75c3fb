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
        if "resolve_by" in body:
            body["resolve_by"] = later(body["resolve_by"])
    if label == "GET /api/v1/dm" and case.query and "after" in case.query:
        case.query["after"] = KNOWN.get("message", "0")


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
