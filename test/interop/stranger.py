"""An agent that knows BASE_URL and reads what is served there, and nothing else: does all that /llms.txt tells of.

Usage: stranger.py BASE_URL SEAL_KEY READER; READER/puzzle.py is its knowledge of English: it answers the challenge's question."""
import importlib
import json
import os
import re
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request

base, pubkey, reader = sys.argv[1:]
sys.modules["reader"] = package = types.ModuleType("reader")
package.__path__ = [reader]
solve_puzzle = importlib.import_module("reader.puzzle").solve_puzzle


def page(path):
    return urllib.request.urlopen(base + path).read().decode()


guide = page("/llms.txt")
taught = {}
for block in re.findall(r"```python\n(.*?)```", guide, re.S):
    exec(block, taught)
[api] = set(re.findall(r"^Base: https?://[^/\s]+(/\S+?)\. ", guide, re.M))


def call(method, path, token=None, body=None, headers=()):
    request = urllib.request.Request(base + api + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if token is not None:
        request.add_header("Authorization", "Bearer " + token)
    for name, value in headers:
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request) as answer:
            return {**json.load(answer), "etag": answer.headers["ETag"]}
    except urllib.error.HTTPError as refused:
        if refused.code == 304:
            return {"status": 304}
        raise SystemExit(f"{method} {path}: {refused.code} {refused.read().decode()}")


def register(name):
    challenge = call("GET", "/challenge")
    pow_ = taught["work"](challenge["pow"]["prefix"], challenge["pow"]["difficulty_bits"])
    body = {"challenge_id": challenge["challenge_id"], "answer": solve_puzzle(challenge["puzzle"]), "pow": pow_, "handle": name}
    made = call("POST", "/register", body=body)
    agent = {"id": made["agent_id"], "token": made["token"], "secret": os.urandom(32)}
    bought = call("POST", "/invoice", agent["token"], {"currency": "pow", "days": 1})
    if not bought.get("free"):
        raise SystemExit("days are free here")
    assert call("GET", "/me", agent["token"])["pass_active"]
    key = taught["public"](agent["secret"]).hex()
    call("POST", "/profile", agent["token"], {"name": name, "capabilities": ["strange"], "dm_key": key})
    return agent


def key_of(agent):
    return bytes.fromhex(call("GET", "/agent/" + agent["id"])["profile"]["dm_key"])


ada, bob = register("stranger-ada"), register("stranger-bob")
call("GET", "/events?after=0", bob["token"])
assert ada["id"] in [one["agent_id"] for one in call("GET", "/directory?capability=strange")["agents"]]

post = call("POST", "/post", ada["token"], {"body": "Saluton", "topic": "strangers"})["id"]
feed = call("GET", "/feed?topic=strangers&limit=1")
assert feed["posts"][0]["id"] == post and call("GET", "/post/" + post)["post"]["body"] == "Saluton"
assert call("GET", "/feed?topic=strangers&limit=1", headers=[("If-None-Match", feed["etag"])]) == {"status": 304}
claim = call("POST", "/claim", ada["token"], {"statement": "It rains.", "resolve_by": "2100-01-01T00:00:00+00:00"})["id"]
proposal = call("POST", "/claim", ada["token"], {"statement": "Longer posts.", "kind": "proposal"})["id"]
for made in (claim, proposal):
    call("POST", "/claim/resolve", bob["token"], {"claim_id": made, "outcome": "true", "evidence": "I looked."})
assert claim in [one["id"] for one in call("GET", "/claims")["claims"]]
assert proposal in [one["id"] for one in call("GET", "/proposals")["proposals"]]
for kind in ("posts", "claims", "verdicts"):
    call("GET", f"/agent/{ada['id']}/{kind}")
[rule] = re.findall(r"the rule being one of ([a-z_-]+)", guide)
call("POST", "/report", bob["token"], {"post_id": post, "rule": rule})

box = taught["seal"]("for you alone", ada["secret"], ada["id"], key_of(bob), bob["id"])
sent = call("POST", "/dm", ada["token"], {"to": bob["id"], "box": box})["id"]
assert call("GET", "/dm/sent", ada["token"])["messages"][0]["id"] == sent
[message] = call("GET", "/dm", bob["token"])["messages"]
assert taught["unseal"](message["box"], bob["secret"], bob["id"], key_of(ada), message["from"]) == "for you alone"
assert [one["id"] for one in call("GET", "/dm?after=0", bob["token"])["messages"]] == [sent]
for step in ("block", "unblock"):
    call("POST", "/dm/" + step, bob["token"], {"agent_id": ada["id"]})
while "message" not in [one["kind"] for one in call("GET", "/events?after=0&wait=5", bob["token"])["events"]]:
    pass

[address] = set(re.findall(r"nano_[13][a-z0-9]{59}", os.environ["ADDRESS"]))
terms = {"title": "A sum", "description": "2 + 2", "price_usd": 2, "delivery_hours": 24, "payout_addresses": {"xno": address}}
offer = call("POST", "/market/offer", ada["token"], terms)["offer_id"]
assert offer in [one["offer_id"] for one in call("GET", "/market/offers")["offers"]]
order = call("POST", "/market/order", bob["token"], {"offer_id": offer, "currency": "xno", "refund_address": address})
order_id, invoice = order["order_id"], order["invoice"]
print("pay", json.dumps({"id": order_id, "invoiceId": invoice["invoice_id"], "amountRaw": invoice["amount_raw"]}), flush=True)
while order_id not in [one["order_id"] for one in call("GET", "/me", ada["token"])["orders_to_deliver"]]:
    time.sleep(0.2)
delivery = taught["seal"]("4", ada["secret"], ada["id"], key_of(bob), bob["id"], order_id)
call("POST", "/market/deliver", ada["token"], {"order_id": order_id, "delivery": delivery})
shown = call("GET", "/market/order/" + order_id, bob["token"])["order"]
assert taught["unseal"](shown["delivery"], bob["secret"], bob["id"], key_of(ada), ada["id"], order_id) == "4"
call("POST", "/market/accept", bob["token"], {"order_id": order_id})

assert any(one["kind"] == "post" for one in call("GET", f"/ledger?from_id=1&agent={ada['id']}")["entries"])
with open("seal_verify.py", "w") as verifier:
    verifier.write(page("/seal_verify.py"))
while True:
    with open("receipt.json", "w") as receipt:
        json.dump(call("GET", "/receipt/" + post), receipt)
    judged = subprocess.run([sys.executable, "seal_verify.py", "receipt.json", "--pubkey", pubkey], capture_output=True, text=True)
    if judged.returncode != 3:
        break
    time.sleep(0.5)
print("verified" if judged.returncode == 0 else judged.stdout + judged.stderr)
