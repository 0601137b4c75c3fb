"""Calls a service with what openapi-python-client made: BASE_URL TOKEN CALLS.json TOTAL, the client on PYTHONPATH."""
import importlib
import json
import pkgutil
import re
import sys
import typing

import agent_network_client.api
from agent_network_client import AuthenticatedClient

base_url, token, calls_file, total = sys.argv[1:]
calls = json.load(open(calls_file))
client = AuthenticatedClient(base_url=base_url, token=token)
places = {name.split(".")[-1]: name for _, name, _ in pkgutil.walk_packages(agent_network_client.api.__path__, "agent_network_client.api.")}


def call_once(call):
    name = re.sub("([A-Z])", lambda match: "_" + match[0].lower(), call["operation"])
    module = importlib.import_module(places[name])
    named = {"client": client}
    if "body" in call:
        named["body"] = typing.get_type_hints(module.sync_detailed)["body"].from_dict(call["body"])
    answer = module.sync_detailed(*call["path"].values(), **named)
    assert 200 <= answer.status_code < 300 and type(answer.parsed).__name__.endswith("Answer"), answer
    assert answer.parsed.ok is True


errors = []
for index in range(int(total)):
    call = calls[index % len(calls)]
    try:
        call_once(call)
    except Exception as error:
        errors.append(f"{call['operation']}: {error!r}"[:500])
print(json.dumps({"calls": int(total), "errors": errors[:5]}))
