"""Checks what venues hold against what they owe, by what they serve and what a Nano node and a Monero wallet say.

Usage: stranger_solvency.py SEAL_KEY < lines of JSON {url, nano, monero}. Prints for each {code, words}: 0 covered, 1 it does not
hold, 2 it could not be checked, 3 control is not shown. It is written by the published rules alone and shares no code.
"""
import base64
import hashlib
import json
import sys
import urllib.request

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ALPHABET = "13456789abcdefghijkmnopqrstuwxyz"
COINS, PARTS = ("xno", "xmr"), ("orders", "owed", "invoices", "remainders", "unassigned")
OPEN = ("awaiting_payment", "paid", "delivered", "disputed")


class Bad(Exception):
    """Raised with (code, word)."""


def need(holds, word, code=1):
    if not holds:
        raise Bad(code, word)


def point(raw):
    number = int.from_bytes(raw, "little")
    y = number & (1 << 255) - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    need(x * x % P == square, "no_point")
    return (P - x if x & 1 != number >> 255 else x), y


def add(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    e, f = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    g, h = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    return (f - e) * (h - g) % P, (h + g) * (f + e) % P, (h - g) * (h + g) % P, (f - e) * (f + e) % P


def times(affine, number):
    x, y = affine
    total, step = (0, 1, 1, 0), (x, y, 1, x * y % P)
    while number:
        total = add(total, step) if number & 1 else total
        step, number = add(step, step), number >> 1
    return total


BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def signed(key, text, signature, digest):
    """Whether R + kA = SB."""
    k = int.from_bytes(digest(signature[:32] + key + text).digest(), "little") % L
    left, right = times(BASE, int.from_bytes(signature[32:], "little")), times(point(key), k)
    x, y = point(signature[:32])
    total = add((x, y, 1, x * y % P), right)
    return all((left[n] * total[2] - total[n] * left[2]) % P == 0 for n in (0, 1))


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def payload(seal):
    return canonical({name: seal[name] for name in ("at", "count", "from_id", "prev_root", "root", "seq", "to_id")})


def fetch(url, body=None):
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def root_of(leaves):
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(root_of(leaves[:half]) + root_of(leaves[half:])).digest()


class Books:
    """The five sums, and each order."""

    def __init__(self):
        self.sums = {coin: dict.fromkeys(PARTS, 0) for coin in COINS}
        self.orders, self.below = {}, set()

    def add(self, entry):
        kind, data = entry["kind"], entry["data"]
        step, coin, order = data.get("step"), data.get("coin"), self.orders.get(data.get("order_id"))
        amount, changes, held = int(data.get("amount_raw", 0)), {}, 0
        if kind == "money_move":
            for side, sign in (("from", -1), ("to", 1)):
                if data[side] in PARTS[2:]:
                    changes[data[side]] = changes.get(data[side], 0) + sign * amount
        elif kind == "order" and step == "ordered":
            need(int(data["fee_raw"]) == amount * 20 // 100, "wrong_fee")
            self.orders[data["order_id"]] = {"held": 0, "fee": amount * 20 // 100, "taken": 0, "percent": 100}
        elif kind == "payment" and "order_id" in data:
            changes["orders"] = held = -amount if step == "undone" else amount
        elif kind == "fee":
            changes["orders"] = held = amount if step == "returned" else -amount
            order["taken"] -= held
            need(0 <= order["taken"] <= order["fee"] * order["percent"] // 100, "wrong_fee")
        elif kind == "dispute_outcome":
            changes["orders"] = held = -int(data["written_off_raw"])
            order["percent"] = {"release": 100, "refund": 0, "split": data.get("split_percent")}.get(data["outcome"], order["percent"])
        elif kind == "payout":
            if "undoes" in data:
                changes["owed"] = held = amount
            elif step in ("confirmed", "manual"):
                changes["owed"] = held = -amount
            elif step == "withdrawn" or (step == "owed" and "again" not in data):
                changes = {"owed": amount if step == "owed" else -amount, "orders": -amount if step == "owed" else amount}
        for part, change in changes.items():
            self.sums[coin][part] += change
        if order and held:
            order["held"] += held

    def end_seal(self):
        below = {name for name, order in self.orders.items() if order["held"] < 0}
        need(not below & self.below, "order_overdrawn")
        self.below = below


def ledger(base, key):
    """Every seal and every entry. Returns {seq: seal} and the last closing entry."""
    seals, entries, known, previous, books, has_stated = fetch(f"{base}/seal?after_seq=0&limit=1000")["seals"], [], {}, None, Books(), False
    while page := fetch(f"{base}/api/v1/ledger?from_id={len(entries) + 1}&limit=10000")["entries"]:
        entries += page
    for seal in seals:
        need(seal["signed"] and seal["pubkey"] == key, "wrong_key")
        need(signed(bytes.fromhex(key), payload(seal), base64.b64decode(seal["signature"]), hashlib.sha512), "bad_signature")
        own = entries[seal["from_id"] - 1 : seal["to_id"]]
        need([entry["id"] for entry in own] == list(range(seal["from_id"], seal["to_id"] + 1)), "entry_gap")
        need(root_of([hashlib.sha256(b"\0" + canonical(entry)).digest() for entry in own]).hex() == seal["root"], "wrong_root")
        for entry in own[:-1]:
            books.add(entry)
        closing = own[-1]["data"]
        need(closing["prev_seal"] == previous, "wrong_prev_seal")
        previous = hashlib.sha256(payload(seal)).hexdigest()
        known[seal["seq"]] = {"hash": previous, "at": seal["at"]}
        has_stated = has_stated or "liabilities" in closing
        if has_stated:
            texts = {coin: {part: str(total) for part, total in parts.items()} for coin, parts in books.sums.items()}
            need(closing.get("liabilities") == texts, "wrong_liabilities")
        books.end_seal()
    return known, own[-1], entries


def nano(assets, at, url):
    """What each account has by the node's word."""

    def read(hashes):
        flags = {"json_block": "true", "receive_hash": "true", "include_not_found": "true"}
        return fetch(url, {"action": "blocks_info", "hashes": hashes, **flags})["blocks"] if hashes else {}

    names = [one["account"] for one in assets]
    hashes = [one["frontier"] for one in assets if one["frontier"]] + [part["hash"] for one in assets for part in one["receivable"]]
    need(len({*names, *hashes}) == len(names) + len(hashes), "wrong_assets")
    blocks = read(hashes)
    need(all(blocks.get(one, {}).get("confirmed") == "true" for one in hashes), "wrong_assets")
    after = read(sorted({block[name] for block in blocks.values() for name in ("successor", "receive_hash")} - {"0" * 64}))
    gone = {one for one, block in after.items() if int(block["local_timestamp"]) < at - 60}
    held = {}
    for one in assets:
        held[one["account"]] = int(one["balance"])
        if one["frontier"]:
            block = blocks[one["frontier"]]
            need(block["block_account"] == one["account"] and block["balance"] == one["balance"], "wrong_assets")
            need(block["successor"] not in gone, "wrong_assets")
        else:
            need(one["balance"] == "0", "wrong_assets")
        for part in one["receivable"]:
            block = blocks[part["hash"]]
            need(block["subtype"] == "send" and block["contents"].get("link_as_account") == one["account"], "wrong_assets")
            need(block["amount"] == part["amount"] and block["receive_hash"] not in gone, "wrong_assets")
            held[one["account"]] += int(part["amount"])
    return held


def nano_key(account):
    number = 0
    for digit in account[5:57]:
        number = number << 5 | ALPHABET.index(digit)
    return number.to_bytes(33, "big")[-32:]


def check_coin(coin, known, closing, entries, control, venue):
    assets, owed = closing["data"].get("assets"), sum(map(int, closing["data"]["liabilities"][coin].values()))
    if owed <= 0:
        return
    need(isinstance(assets, dict) and coin in assets, "malformed_assets")
    need(assets[coin] is not None, "not_read", 2)
    need(venue[{"xno": "nano", "xmr": "monero"}[coin]], "no_node", 2)
    shown = []
    for proof in control[coin]:
        seal, account = known[proof["seal_seq"]], proof["account" if coin == "xno" else "address"]
        text = f"agent-network solvency\nseal {proof['seal_seq']} {seal['hash']}\naccount {account}\n"
        need(proof["message"] == text and proof["seal_hash"] == seal["hash"], "wrong_control")
        if closing["at"] - seal["at"] <= 2 * 86_400:
            shown.append(proof)
    if coin == "xno":
        held = nano(assets["xno"], assets["at"]["xno"], venue["nano"])
        for proof in shown:
            right = signed(nano_key(proof["account"]), proof["message"].encode(), bytes.fromhex(proof["signature"]), hashlib.blake2b)
            need(right, "wrong_control")
        total, proven = sum(held.values()), sum(held[one] for one in {proof["account"] for proof in shown} & set(held))
    else:
        total, proven = int(assets["xmr"]["balance"]), 0
        for proof in shown:
            if hashlib.sha256(proof["signature"].encode()).hexdigest() == assets["xmr"]["proof_hash"]:
                params = {name: proof[name] for name in ("address", "message", "signature")}
                call = {"jsonrpc": "2.0", "id": "0", "method": "check_reserve_proof", "params": params}
                result = fetch(f"{venue['monero']}/json_rpc", call)["result"]
                need(result.get("good") is True, "wrong_control")
                proven = result["total"] - result["spent"]
    last = {entry["data"]["payout_id"]: entry for entry in entries[: closing["id"]] if entry["kind"] == "payout"}
    sent = [one["data"] for one in last.values() if one["at"] >= closing["at"] - 3_600 and one["data"]["step"] == "sent"]
    under_way = sum(int(one["amount_raw"]) for one in sent if one["coin"] == coin)
    need(max(total, proven) + under_way >= owed, "short")
    need(proven + under_way >= owed, "control_not_shown", 3)


def check(venue, key):
    ends = []
    try:
        known, closing, entries = ledger(venue["url"], key)
        control = fetch(f"{venue['url']}/api/v1/solvency")["control"]
    except Bad as bad:
        return {"code": bad.args[0], "words": [bad.args[1]]}
    for coin in COINS:
        try:
            check_coin(coin, known, closing, entries, control, venue)
        except Bad as bad:
            ends.append(bad.args)
    codes = [code for code, _ in ends]
    return {"code": next((code for code in (1, 2, 3) if code in codes), 0), "words": [word for _, word in ends]}


for line in sys.stdin:
    print(json.dumps(check(json.loads(line), sys.argv[1])), flush=True)
