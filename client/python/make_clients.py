"""Writes agent_network/aio.py, the asynchronous client, from client.py. `npm run docs` runs it; --check compares only."""
import ast
import pathlib
import sys

HERE = pathlib.Path(__file__).parent / "agent_network"
HEAD = '''# Generated from client.py by "npm run docs": change that instead.
from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional, Union

from . import wire
from .client import Client


class AsyncClient:
    """The client, each call in a thread of its own, so that none holds up the event loop."""

    def __init__(self, base_url: str, token: Optional[str] = None, *, timeout: float = 30.0, insecure: bool = False) -> None:
        #: The same calls without asyncio, for the functions that take a Client: asyncio.to_thread(mine_days, client.sync)
        self.sync = Client(base_url, token, timeout=timeout, insecure=insecure)

    @property
    def base_url(self) -> str:
        return self.sync.base_url
'''


def generate() -> str:
    """The text of aio.py."""
    tree = ast.parse((HERE / "client.py").read_text())
    [client] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    out = [HEAD]
    for method in client.body:
        if not isinstance(method, ast.FunctionDef) or method.name.startswith("_") or method.decorator_list or method.name == "with_token":
            continue
        names = [arg.arg for arg in method.args.args[1:]] + [f"{arg.arg}={arg.arg}" for arg in method.args.kwonlyargs]
        out.append(f"\n    async def {method.name}({ast.unparse(method.args)}) -> {ast.unparse(method.returns)}:\n")
        out.append(f"        return await asyncio.to_thread({', '.join([f'self.sync.{method.name}', *names])})\n")
    return "".join(out)


if __name__ == "__main__":
    target = HERE / "aio.py"
    if "--check" in sys.argv:
        sys.exit(target.read_text() != generate())
    target.write_text(generate())
