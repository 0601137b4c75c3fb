"""Runs seal_verify.py again and again in one process: reads {"id", "args"} line by line, writes {"id", "code", "text"}."""

import concurrent.futures
import importlib.util
import json
import sys
import threading

spec = importlib.util.spec_from_file_location("seal_verify", sys.argv[1])
seal_verify = importlib.util.module_from_spec(spec)
sys.modules["seal_verify"] = seal_verify
spec.loader.exec_module(seal_verify)


def run(line):
    call = json.loads(line)
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
