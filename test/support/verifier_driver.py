"""Runs seal_verify.py again and again in one process: reads calls line by line, {"id", "args"} or {"id", "vector"}, and writes
{"id", "code", "text"} or {"id", "result"}. A vector is run by its kind; its reason is not looked at."""

import concurrent.futures
import functools
import hashlib
import importlib.util
import json
import sys
import threading

spec = importlib.util.spec_from_file_location("seal_verify", sys.argv[1])
seal_verify = importlib.util.module_from_spec(spec)
sys.modules["seal_verify"] = seal_verify
spec.loader.exec_module(seal_verify)
NotHeld = seal_verify.NotHeld
# The calls are about the same few seals, and Python takes milliseconds for a signature.
seal_verify.is_signed_by = functools.lru_cache(None)(seal_verify.is_signed_by)


def check_canonical(vector):
    for case in vector["cases"]:
        try:
            own = seal_verify.canonical_json(seal_verify.read_json(case["json"]))
        except (seal_verify.NotCanonical, seal_verify.TooDeep) as error:
            raise NotHeld("no_canonical_form", str(error)) from None
        except ValueError as error:
            raise NotHeld("malformed_json", str(error)) from None
        digest = hashlib.sha256(own).hexdigest()
        if own != case["canonical"].encode("utf-8", "surrogatepass") or digest != case.get("sha256", digest):
            raise NotHeld("wrong_canonical_form", f"it is {own!r}")


def check_leaf(vector):
    seal_verify.check_entry(vector["entry"])
    seal_verify.check_leaf(vector["entry"], vector["leaf"])


def check_tree(vector):
    tree = seal_verify.Tree()
    for leaf in vector["leaves"]:
        tree.append(bytes.fromhex(leaf))
        if tree.root().hex() != vector["roots"].get(str(tree.count), tree.root().hex()):
            raise NotHeld("wrong_root", f"{tree.count} leaves have the root {tree.root().hex()}")


def check_proof(vector):
    if "entry" in vector:
        seal_verify.check_leaf(vector["entry"], vector["leaf"])
    seal_verify.check_inclusion(*(vector.get(name) for name in ("leaf", "path", "root", "index", "count")))


CHECKS = {"canonical-json": check_canonical, "leaf": check_leaf, "tree": check_tree, "proof": check_proof}


def run_vector(vector):
    now = vector.get("now", float("inf"))  # without it no seal is of the future
    question = seal_verify.Question(vector.get("pubkeys", []), vector.get("remembered"), lambda: now)
    words = []
    if vector["kind"] in CHECKS:
        findings = seal_verify.Findings()
        findings.run(vector["kind"], CHECKS[vector["kind"]], vector)
    else:
        if vector["kind"] == "seal":
            source = seal_verify.ListSource(vector["seals"], vector["entries"])
            audit = seal_verify.audit_chain(source, question)
        else:
            audit = seal_verify.ReceiptAudit(vector.get("receipt"), question).run()
        findings, words = audit.findings, [word for word, _ in audit.not_binding()]
    return {"findings": findings.kept, "notBinding": [] if findings.kept else words}


def run(line):
    call = seal_verify.read_json(line)
    if "vector" in call:
        return json.dumps({"id": call["id"], "result": run_vector(call["vector"])})
    code, _, text = seal_verify.check(call["args"])
    return json.dumps({"id": call["id"], "code": code, "text": text})


one_at_a_time = threading.Lock()


def write(done):
    with one_at_a_time:
        sys.stdout.write(done.result() + "\n")
        sys.stdout.flush()


with concurrent.futures.ThreadPoolExecutor(32) as pool:
    for line in sys.stdin:
        pool.submit(run, line).add_done_callback(write)
