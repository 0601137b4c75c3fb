from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from typing import IO, Any, Callable, List, Optional, Union

from . import wire
from .client import Client
from .errors import Refusal, TransportError
from .search import search

# So much is done sooner than a process starts.
OWN_PROCESS_BITS = 18
MAX_BITS = 48
BATCH = 50


def mine_shares(prefix: str, bits: int, count: int, on_share: Optional[Callable[[str], Any]] = None, deadline: Optional[float] = None) -> List[str]:
    """Finds `count` shares, on every core by processes of their own; about a million hashes a second on each.

    TimeoutError at `deadline`, in Unix seconds; ValueError for work that no machine does."""
    if not 0 <= bits <= MAX_BITS:
        raise ValueError(f"the service asks for {bits} bits of work, and this client does at most {MAX_BITS}")
    shares: List[str] = []
    on_share = on_share or (lambda share: None)
    if bits <= OWN_PROCESS_BITS and count == 1:
        share = next(search(prefix, bits))
        on_share(share)
        return [share]
    found: "queue.Queue[Optional[str]]" = queue.Queue()
    command = [sys.executable, "-c", "from agent_network.search import main; main()", prefix, str(bits)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(os.cpu_count() or 1)]
    try:
        for worker in workers:
            assert worker.stdout is not None
            threading.Thread(target=_pass_on, args=(worker.stdout, found), daemon=True).start()
        while len(shares) < count:
            try:
                share_or_end = found.get(timeout=None if deadline is None else max(0.0, deadline - time.time()))
            except queue.Empty:
                raise TimeoutError(f"{len(shares)} of {count} shares were found in time") from None
            if share_or_end is None:
                raise RuntimeError("a mining process ended")
            if share_or_end not in shares:
                shares.append(share_or_end)
                on_share(share_or_end)
        return shares
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()


def _pass_on(lines: IO[str], found: "queue.Queue[Optional[str]]") -> None:
    """Puts each line of a mining process into the queue, and None when the process has ended."""
    try:
        for line in lines:
            found.put(line.strip())
    except ValueError:
        return  # closed by the one who reads
    found.put(None)


def mine_days(client: Client, days: int = 1) -> Union[wire.CreateInvoiceAnswer, wire.SubmitWorkAnswer]:
    """Buys pass days: free in the free period, else by proof of work, handed in batch by batch.

    The search is plain Python, a tenth as fast as that of `npx agent-network mine`."""
    made = client.invoice(currency="pow", days=days)
    if made.get("free"):
        return made
    order: wire.WorkOrder = made["order"]
    answer: Optional[wire.SubmitWorkAnswer] = None
    missing = order["shares_required"] - order["shares_accepted"]
    while answer is None or answer["status"] not in ("credited", "expired"):
        batch = mine_shares(order["prefix"], order["difficulty_bits"], max(1, min(missing, BATCH)), deadline=order["expires_at"])
        answer = _hand_in(client, order["order_id"], batch)
        missing = answer["shares_required"] - answer["shares_accepted"]
    return answer


def _hand_in(client: Client, order_id: str, batch: List[str]) -> wire.SubmitWorkAnswer:
    """Hands in nonces until the service has verified them. After a lost answer it sends them again, which does no harm."""
    for attempt in range(20):
        try:
            answer = client.submit_work(order_id=order_id, nonces=batch)
            if answer["status"] != "verifying":
                return answer
        except (TransportError, Refusal) as error:
            if isinstance(error, Refusal) and not error.may_pass or attempt == 19:
                raise
        time.sleep(min(10.0, 0.5 * 2**attempt))
    raise TimeoutError("the service did not verify the work in time")
