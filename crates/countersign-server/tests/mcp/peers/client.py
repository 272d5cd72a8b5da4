"""A client on the Python SDK: python3 client.py MODE COMMAND CALLS. COMMAND and CALLS are JSON. Prints one JSON line
per answer.

MODE is `session` (the SDK's own session, as in its version 1) or a mode of its version 2: `legacy`, `auto` or a
protocol version. The suffix `+yes` accepts elicitations after one and a half seconds; `+cats` accepts only those
about cats. The call `list tools` lists the tools with their descriptions.
"""
import asyncio, json, sys

mode, command, calls = sys.argv[1].split("+")[0], json.loads(sys.argv[2]), json.loads(sys.argv[3])
says_yes = "+yes" in sys.argv[1] or "+cats" in sys.argv[1]


def say(**what):
    print(json.dumps(what), flush=True)


def shown(result):
    dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"text": [block.get("text") for block in dumped["content"]], "isError": dumped.get("isError", False)}


async def drive(client, list_tools, call_tool):
    try:
        say(tools=[tool.name for tool in (await list_tools()).tools])
    except Exception as error:
        say(tools=[], error=str(error))
    for name, arguments in calls:
        try:
            if name == "list tools":
                say(described=[[tool.name, tool.description] for tool in (await list_tools()).tools])
                continue
            say(result=shown(await call_tool(name, arguments)))
        except Exception as error:
            say(error=str(error))


async def elicited(context, params):
    import mcp.types as types

    say(asked=params.message)
    if "+cats" in sys.argv[1] and "cats" not in params.message:
        return types.ElicitResult(action="cancel")
    await asyncio.sleep(1.5)
    return types.ElicitResult(action="accept", content={"decision": "allow"})


async def main():
    from mcp import StdioServerParameters

    parameters = StdioServerParameters(command=command[0], args=command[1:])
    callback = elicited if says_yes else None
    if mode == "session":
        from mcp import ClientSession
        from mcp.client.stdio import stdio_client

        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write, elicitation_callback=callback) as session:
                await session.initialize()
                await drive(session, session.list_tools, session.call_tool)
    else:
        from mcp import Client

        async with Client(parameters, mode=mode, elicitation_callback=callback) as client:
            await drive(client, client.list_tools, client.call_tool)


asyncio.run(main())
