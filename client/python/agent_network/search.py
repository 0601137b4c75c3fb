"""A mining process: main() prints each nonce that is a share, until it is ended."""
from __future__ import annotations

import hashlib
import os
import sys
from typing import Iterator


def search(prefix: str, bits: int) -> Iterator[str]:
    """Yields shares, searching from a random place on, so that two processes hardly ever search the same one."""
    target = 1 << (256 - bits)
    start = hashlib.sha256(f"{prefix}:".encode())
    head = os.urandom(5).hex()
    whole, rest = divmod(bits, 8)
    zeros, least = bytes(whole), 256 >> rest
    for number in range(10**10):
        nonce = b"%s%d" % (head.encode(), number)
        hashing = start.copy()
        hashing.update(nonce)
        digest = hashing.digest()
        if digest.startswith(zeros) and (rest == 0 or digest[whole] < least) and int.from_bytes(digest, "big") < target:
            yield nonce.decode()


def main() -> None:
    """Prints the shares of the prefix and the bits that the command line names, each on a line, until the reader is gone."""
    try:
        for found in search(sys.argv[1], int(sys.argv[2])):
            print(found, flush=True)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)
