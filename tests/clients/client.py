"""Drives the server by calls.json with the official Python client, of major
version 1 or 2. The client itself validates structured results.

usage: client.py PROVOST CALLS REPO OTHER_REPO
"""

import asyncio
import contextlib
import json
import os
import sys

import mcp

TIMEOUT = 60


def filled(value, names):
    """The value with every "$NAME" in it replaced."""
    if isinstance(value, str):
        return names[value[1:]] if value.startswith("$") else value
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return value


def on_the_wire(model):
    """As it came: both majors, whatever they call their fields."""
    return model.model_dump(mode="json", by_alias=True)


async def settled(session, call, arguments):
    """The result of a call, asked for until it holds what is waited for."""
    awaited = call.get("until", {})
    while True:
        result = on_the_wire(await session.call_tool(call["tool"], arguments))
        output = result["structuredContent"]
        if all(output.get(key) == value for key, value in awaited.items()):
            return result
        await asyncio.sleep(0.05)


async def perform(session, call, names):
    arguments = filled(call["arguments"], names)
    if call.get("protocol_error"):
        try:
            await session.call_tool(call["tool"], arguments)
        except Exception as error:  # Each major has its own.
            assert "no tool" in str(error), error
            return
        raise AssertionError("a protocol error was expected")
    result = await asyncio.wait_for(settled(session, call, arguments), TIMEOUT)
    output = result["structuredContent"]
    assert [content["type"] for content in result["content"]] == ["text"], result
    assert json.loads(result["content"][0]["text"]) == output, result
    assert bool(result["isError"]) == ("error" in call), result
    if "error" in call:
        assert output["code"] == call["error"], output
        assert output["error"] == output["message"] and output["hint"], output
    for key, value in filled(call.get("expect", {}), names).items():
        assert output[key] == value, (key, value, output)
    for path, name in call.get("keep", {}).items():
        value = output
        for part in path.split("."):
            value = value[int(part) if part.isdigit() else part]
        names[name] = value


@contextlib.asynccontextmanager
async def connected(server):
    if hasattr(mcp, "Client"):
        async with mcp.Client(server) as client:
            yield client, client.protocol_version
    else:
        async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
            yield session, (await session.initialize()).protocolVersion


async def play(scene, program, names):
    """Plays a scene; the tools that it was shown, and those that it called rightly."""
    env = {name: os.environ[name] for name in ("PATH", "PROVOST_HOME")}
    if "inside" in scene:
        env["PROVOST_ATTEMPT_ID"] = filled(scene["inside"], names)
    server = mcp.StdioServerParameters(command=program, args=scene["server"], env=env)
    async with connected(server) as (session, version):
        listed = {tool.name for tool in (await session.list_tools()).tools}
        for number, call in enumerate(scene["calls"]):
            try:
                await perform(session, call, names)
            except BaseException as error:
                error.add_note(f"{scene['title']}, call {number}: {json.dumps(call)}")
                raise
        print(f"ok: protocol {version}, {len(scene['calls'])} calls: {scene['title']}")
    return listed, {call["tool"] for call in scene["calls"] if "error" not in call}


async def main(program, calls, repo, other_repo):
    names = {"REPO": repo, "OTHER_REPO": other_repo}
    with open(calls, encoding="utf-8") as file:
        played = [await play(scene, program, names) for scene in json.load(file)]
    listed, right = (set().union(*tools) for tools in zip(*played))
    assert listed <= right, f"never called: {listed - right}"


asyncio.run(main(*sys.argv[1:]))
