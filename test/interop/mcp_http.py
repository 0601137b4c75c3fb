"""Lists the tools of an MCP server over HTTP, and calls each by the official SDK; prints what came as JSON.

Reads {"url", "tokens": {name: token}, "steps": [[name, tool, arguments]]} from stdin, and the mode of the client
("auto", "legacy" or a version) from its argument.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    asked = json.load(sys.stdin)
    answers = {}
    names = []
    for name, token in asked["tokens"].items():
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(asked["url"], http_client=http)
            async with Client(transport, mode=sys.argv[1]) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                for number, (by, tool, arguments) in enumerate(asked["steps"]):
                    if by != name:
                        continue
                    result = await client.call_tool(tool, arguments)
                    text = "".join(part.text for part in result.content)
                    answers[number] = {
                        "isError": result.is_error,
                        "text": text,
                        "structured": result.structured_content,
                    }
                version = client.protocol_version
    ordered = [answers[number] for number in sorted(answers)]
    print(json.dumps({"version": version, "names": names, "answers": ordered}))


asyncio.run(main())
