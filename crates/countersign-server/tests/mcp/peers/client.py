"""The Python SDK as a client: python3 client.py MODE COMMAND CALLS, both JSON. One JSON line per answer.

MODE is `session` (the SDK's own session, as in its first major version) or what the second calls a mode: `legacy`,
`auto` or a version of the protocol. A `yes` behind it answers elicitations, after a second and a half.
"""
import asyncio, json, sys

mode, command, calls = sys.argv[1].split("+")[0], json.loads(sys.argv[2]), json.loads(sys.argv[3])
says_yes = "+yes" in sys.argv[1]


def say(**what):
    print(json.dumps(what), flush=True)


def shown(result):
    dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"text": [block.get("text") for block in dumped["content"]], "isError": dumped.get("isError", False)}


async def drive(client, list_tools, call_tool):
    tools = (await list_tools()).tools
    say(tools=[tool.name for tool in tools])
    for name, arguments in calls:
        try:
            say(result=shown(await call_tool(name, arguments)))
        except Exception as error:
            say(error=str(error))


async def elicited(context, params):
    import mcp.types as types

    say(asked=params.message)
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
