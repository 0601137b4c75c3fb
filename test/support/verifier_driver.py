"""Runs seal_verify.py again and again in one process: reads calls line by line, {"id", "args"} or {"id", "vector"}, and writes
{"id", "code", "text"} or {"id", "result"}. A vector is run by its kind; its reason is not looked at."""

import concurrent.futures
import hashlib
import importlib.util
import json
import sys
import threading

spec = importlib.util.spec_from_file_location("seal_verify", sys.argv[1])
seal_verify = importlib.util.module_from_spec(spec)
sys.modules["seal_verify"] = seal_verify
spec.loader.exec_module(seal_verify)
Fault = seal_verify.Fault


def canonical_faults(vector):
    for case in vector["cases"]:
        try:
            own = seal_verify.canonical_json(seal_verify.read_json(case["json"]))
        except (seal_verify.NotCanonical, seal_verify.TooDeep) as error:
            yield Fault("no_canonical_form", str(error))
            return
        except ValueError as error:
            yield Fault("malformed_json", str(error))
            return
        digest = hashlib.sha256(own).hexdigest()
        if own != case["canonical"].encode("utf-8", "surrogatepass") or digest != case.get("sha256", digest):
            yield Fault("wrong_canonical_form", f"it is {own!r}")
            return


def leaf_faults(vector):
    malformed = list(seal_verify.entry_faults(vector["entry"]))
    yield from malformed or seal_verify.leaf_faults(vector["entry"], vector["leaf"])


def tree_faults(vector):
    tree = seal_verify.Tree()
    for leaf in vector["leaves"]:
        tree.append(bytes.fromhex(leaf))
        if tree.root().hex() != vector["roots"].get(str(tree.count), tree.root().hex()):
            yield Fault("wrong_root", f"{tree.count} leaves have the root {tree.root().hex()}")
            return


def proof_faults(vector):
    wrong_leaf = list(seal_verify.leaf_faults(vector["entry"], vector["leaf"])) if "entry" in vector else []
    parts = (vector.get(name) for name in ("leaf", "path", "root", "index", "count"))
    yield from wrong_leaf or seal_verify.inclusion_faults(*parts)


CHECKS = {"canonical-json": canonical_faults, "leaf": leaf_faults, "tree": tree_faults, "proof": proof_faults}


def run_vector(vector):
    now = vector.get("now", float("inf"))  # without it no seal is of the future
    question = seal_verify.Question(vector.get("pubkeys", []), vector.get("remembered"), lambda: now)
    words = []
    if vector["kind"] in CHECKS:
        findings = seal_verify.Findings()
        findings.note(vector["kind"], CHECKS[vector["kind"]](vector))
    else:
        if vector["kind"] == "seal":
            source = seal_verify.ListSource(lambda: vector["seals"], lambda: vector["entries"])
            audit = seal_verify.audit_chain(source, question)
        else:
            audit = seal_verify.ReceiptAudit(vector.get("receipt"), question).run()
        findings, words = audit.findings, [word for word, _ in audit.not_binding()]
    return {"findings": [vars(finding) for finding in findings.kept], "notBinding": [] if findings.kept else words}


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
