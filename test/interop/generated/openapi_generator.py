"""Calls a service with what openapi-generator made for Python: BASE_URL TOKEN CALLS.json TOTAL, the client on PYTHONPATH."""
import json
import re
import sys

import generated_client as api

base_url, token, calls_file, total = sys.argv[1:]
calls = json.load(open(calls_file))
client = api.ApiClient(api.Configuration(host=base_url, access_token=token))
classes = [getattr(api, name)(client) for name in dir(api) if name.endswith("Api")]


def method_of(operation):
    name = re.sub("([A-Z])", lambda match: "_" + match[0].lower(), operation)
    [found] = [getattr(one, name) for one in classes if hasattr(one, name)]
    return found


errors = []
for index in range(int(total)):
    call = calls[index % len(calls)]
    try:
        answer = method_of(call["operation"])(*call["path"].values(), *([call["body"]] if "body" in call else []))
        assert answer.ok is True and type(answer).__name__.endswith("Answer"), answer
    except Exception as error:
        errors.append(f"{call['operation']}: {error!r}"[:500])
print(json.dumps({"calls": int(total), "errors": errors[:5]}))
