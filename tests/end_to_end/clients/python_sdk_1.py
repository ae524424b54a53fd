"""The Python SDK 1.x, in an environment of its own: `python python_sdk_1.py URL`, with the steps as JSON on stdin.

A step is [method of the TypeScript clients, its parameters]; one JSON object with what came of each goes to stdout.
"""

import asyncio
import json
import sys

from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client

asked = []


async def elicit(context, params):
    asked.append(params.message)
    content = {"username": "ada", "email": "ada@example.com", "name": "Ada"}
    return types.ElicitResult(action="accept", content=content)


async def sample(context, params):
    asked.append(params.messages[0].content.text)
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", model="none", content=content)


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///work/here", name="here")])


async def take(session, method, given, report):
    match method:
        case "callTool":
            return await session.call_tool(given["name"], given.get("arguments"), progress_callback=report)
        case "readResource":
            return await session.read_resource(given["uri"])
        case "getPrompt":
            return await session.get_prompt(given["name"], given.get("arguments"))
        case "listTools":
            return await session.list_tools()
        case "listResources":
            return await session.list_resources()
        case "listPrompts":
            return await session.list_prompts()
    raise ValueError(method)


async def main():
    results = []
    async with streamablehttp_client(sys.argv[1]) as (incoming, outgoing, _):
        async with ClientSession(
            incoming,
            outgoing,
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=roots,
        ) as session:
            protocol = (await session.initialize()).protocolVersion
            for method, given in json.load(sys.stdin):
                progress = []

                async def report(done, total, message, progress=progress):
                    progress.append(done)

                try:
                    result = await take(session, method, given, report)
                    told = {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}
                except Exception as error:
                    told = {"error": f"{type(error).__name__}: {error}"}
                results.append({**told, "progress": progress})
    print(json.dumps({"protocol": protocol, "asked": asked, "results": results}))


asyncio.run(main())
