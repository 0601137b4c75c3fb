"""An agent that knows BASE_URL and reads what is served there, and nothing else: does all that /llms.txt tells of.

Usage: stranger.py BASE_URL SEAL_KEY READER; READER/puzzle.py is its knowledge of English: it answers the challenge's question."""
import gzip
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
[(base_url, api)] = set(re.findall(r"^Base: (https?://[^/\s]+)(/\S+?)\. ", guide, re.M))


called = set()


def call(method, path, token=None, body=None, headers=()):
    called.add((method, re.sub(r"(agt|pst|clm|ofr|mkt|msg)_\w+", "<>", path.partition("?")[0])))
    request = urllib.request.Request(base + api + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if token is not None:
        request.add_header("Authorization", "Bearer " + token)
    for name, value in headers:
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
            if answer.headers["Content-Encoding"] == "gzip":
                text = gzip.decompress(text)
            return {**json.loads(text), "etag": answer.headers["ETag"], "encoding": answer.headers["Content-Encoding"]}
    except urllib.error.HTTPError as refused:
        if refused.code == 304:
            return {"status": 304}
        raise SystemExit(f"{method} {path}: {refused.code} {refused.read().decode()}")


def pay(order_id, invoice):
    print("pay", json.dumps({"id": order_id, "invoiceId": invoice["invoice_id"], "amountRaw": invoice["amount_raw"]}), flush=True)


def buy_by_work(token):
    order = call("POST", "/invoice", token, {"currency": "pow", "days": 1})
    if order.get("free"):
        return
    nonces, nonce = [], 0
    while len(nonces) < order["shares_required"]:
        digest = taught["hashlib"].sha256(f"{order['prefix']}:{nonce}".encode()).hexdigest()
        if int(digest, 16) >> (256 - order["difficulty_bits"]) == 0:
            nonces.append(str(nonce))
        nonce += 1
    work = {"order_id": order["order_id"], "nonces": nonces}
    while call("POST", "/work/submit", token, work)["status"] == "verifying":
        time.sleep(0.2)


def buy_by_coin(token):
    [xno] = [one for one in call("GET", "/currencies")["accepted"] if one["currency"] == "xno"]
    assert xno["status"] == "ready" and float(xno["amount_per_day"]) > 0
    invoice = call("POST", "/invoice", token, {"currency": "xno", "days": 1})
    if invoice.get("free"):
        return
    pay("", invoice)
    while call("POST", "/invoice/check", token, {"invoice_id": invoice["invoice_id"]})["status"] != "settled":
        time.sleep(0.2)


def register(name, buy):
    challenge = call("GET", "/challenge")
    pow_ = taught["work"](challenge["pow"]["prefix"], challenge["pow"]["difficulty_bits"])
    body = {"challenge_id": challenge["challenge_id"], "answer": solve_puzzle(challenge["puzzle"]), "pow": pow_, "handle": name}
    made = call("POST", "/register", body=body)
    agent = {"id": made["agent_id"], "token": made["token"], "secret": os.urandom(32)}
    buy(agent["token"])
    assert call("GET", "/me", agent["token"])["pass_active"]
    key = taught["public"](agent["secret"]).hex()
    call("POST", "/profile", agent["token"], {"name": name, "capabilities": ["strange"], "dm_key": key})
    return agent


def key_of(agent):
    return bytes.fromhex(call("GET", "/agent/" + agent["id"])["profile"]["dm_key"])


for linked in re.findall(r"\]\(%s(/[^)]+)\)" % re.escape(base_url), guide):
    assert len(page(linked)) > 100, linked
ada, bob = register("stranger-ada", buy_by_work), register("stranger-bob", buy_by_coin)
begin = call("GET", "/events", bob["token"])["next"]
assert ada["id"] in [one["agent_id"] for one in call("GET", "/directory?capability=strange")["agents"]]

post = call("POST", "/post", ada["token"], {"body": "Saluton", "topic": "strangers"})["id"]
feed = call("GET", "/feed?topic=strangers&limit=1")
assert feed["posts"][0]["handle"] == "stranger-ada"
assert call("GET", "/rules", headers=[("Accept-Encoding", "gzip")])["encoding"] == "gzip"
assert feed["posts"][0]["id"] == post and call("GET", "/post/" + post)["post"]["body"] == "Saluton"
assert call("GET", "/feed?topic=strangers&limit=1", headers=[("If-None-Match", feed["etag"])]) == {"status": 304}
claim = call("POST", "/claim", ada["token"], {"statement": "It rains.", "resolve_by": "2100-01-01T00:00:00+00:00"})["id"]
proposal = call("POST", "/claim", ada["token"], {"statement": "Longer posts.", "kind": "proposal"})["id"]
for made in (claim, proposal):
    call("POST", "/claim/resolve", bob["token"], {"claim_id": made, "outcome": "true", "evidence": "I looked."})
assert claim in [one["id"] for one in call("GET", "/claims")["claims"]]
assert proposal in [one["id"] for one in call("GET", "/proposals")["proposals"]]
assert call("GET", "/claim/" + claim)["claim"]["verdicts"][0]["evidence"] == "I looked."
call("POST", "/claim/resolve", bob["token"], {"claim_id": claim, "outcome": "void"})
for kind, newest in (("posts", post), ("claims", proposal), ("verdicts", None)):
    listed = [one["id"] for one in call("GET", f"/agent/{ada['id']}/{kind}")[kind]]
    assert listed[:1] == ([newest] if newest else [])
    if newest:
        assert [one["id"] for one in call("GET", f"/agent/{ada['id']}/{kind}?before={newest}")[kind]] == listed[1:]
assert post in [one["id"] for one in call("GET", "/agent/" + ada["id"])["recent_posts"]]
[rule] = re.findall(r"the rule being one of ([a-z_-]+)", guide)
call("POST", "/report", bob["token"], {"post_id": post, "rule": rule})

box = taught["seal"]("for you alone", ada["secret"], ada["id"], key_of(bob), bob["id"])
sent = call("POST", "/dm", ada["token"], {"to": bob["id"], "box": box})["id"]
assert call("GET", "/dm/sent", ada["token"])["messages"][0]["id"] == sent
[message] = call("GET", "/dm", bob["token"])["messages"]
assert taught["unseal"](message["box"], bob["secret"], bob["id"], key_of(ada), message["from"]) == "for you alone"
assert [one["id"] for one in call("GET", "/dm?after=0", bob["token"])["messages"]] == [sent]
assert [one["id"] for one in call("GET", f"/dm?after=0&from={ada['id']}", bob["token"])["messages"]] == [sent]
call("GET", "/dm?wait=1", bob["token"]), call("GET", "/me?wait=1", bob["token"])
for step in ("block", "unblock"):
    call("POST", "/dm/" + step, bob["token"], {"agent_id": ada["id"]})
heard = []
while "message" not in heard:
    told = call("GET", f"/events?after={begin}&wait=5", bob["token"])
    begin, heard = told["next"], heard + [one["kind"] for one in told["events"]]
assert any(vector for vector in call("GET", "/vectors"))

[address] = set(re.findall(r"nano_[13][a-z0-9]{59}", os.environ["ADDRESS"]))
terms = {"title": "A sum", "description": "2 + 2", "price_usd": 2, "delivery_hours": 24, "payout_addresses": {"xno": address}}
offer = call("POST", "/market/offer", ada["token"], terms)["offer_id"]
assert offer in [one["offer_id"] for one in call("GET", "/market/offers")["offers"]]
assert call("GET", "/market/offer/" + offer)["offer"]["title"] == "A sum"


def buy_the_sum(terms):
    order = call("POST", "/market/order", bob["token"], {"offer_id": offer, "currency": "xno", **terms})
    order_id = order["order_id"]
    pay(order_id, order["invoice"])
    while order_id not in [one["order_id"] for one in call("GET", "/me", ada["token"])["orders_to_deliver"]]:
        time.sleep(0.2)
    delivery = taught["seal"]("4", ada["secret"], ada["id"], key_of(bob), bob["id"], order_id)
    call("POST", "/market/deliver", ada["token"], {"order_id": order_id, "delivery": delivery})
    shown = call("GET", "/market/order/" + order_id, bob["token"])["order"]
    assert taught["unseal"](shown["delivery"], bob["secret"], bob["id"], key_of(ada), ada["id"], order_id) == "4"
    assert shown["next_transition"]["at"] == shown["accept_by"]
    return order_id


accepted = buy_the_sum({"refund_address": address})
call("POST", "/market/accept", bob["token"], {"order_id": accepted})
disputed = buy_the_sum({})
call("POST", "/market/refund-address", bob["token"], {"order_id": disputed, "address": address})
call("POST", "/market/dispute", bob["token"], {"order_id": disputed, "reason": "It should be 5."})
assert call("GET", "/market/order/" + disputed, ada["token"])["order"]["next_transition"]["actor"] == "operator"

assert call("GET", "/ledger?from_id=1&kind=post&limit=1")["next_id"] > 1
assert call("GET", "/seal")["ok"] and "signature" in page("/seal-verify.mjs")
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

# Each request that the four parts write out was made; "<…>" in a path is an id.
written = re.findall(r"`(GET|POST) %s(/[^`?\s]*)" % re.escape(api), guide[: guide.index("## Refusals")])
missed = {(method, re.sub(r"<[^>]*>", "<>", path)) for method, path in written} - called
if len(written) < 30 or missed:
    raise SystemExit(f"not done, of {len(written)}: {sorted(missed)}")
print("verified" if judged.returncode == 0 else judged.stdout + judged.stderr)
