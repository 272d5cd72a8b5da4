"""The shared cases with the Claude Agent SDK: the real Claude Code, and a server that stands in for the model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cases import CASES, End, FakeCall, Host, Told, World
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SdkMcpTool, create_sdk_mcp_server
from scripted import ScriptedAnthropic

from countersign.claude_agent_sdk import CountersignHooks

PREFIX = "mcp__t__"


class ClaudeHost(Host):
    is_parallel = False
    is_batched = False
    largest_integer = 2**53 - 1
    """Claude Code rounds larger ones before it asks, so a person sees, and approves, the rounded ones."""

    async def run(self, text: str, *, stream: bool = False) -> End:
        return await self.ask(text, include_partial_messages=stream, session_id=self.world.run_id)

    async def resume(self, *, is_forged: bool = False) -> End:
        # The framework's own way to say yes to everything.
        mode: Any = "bypassPermissions" if is_forged else "default"
        return await self.ask(None, resume=self.world.run_id, permission_mode=mode)

    async def ask(self, text: str | None, **settings: Any) -> End:
        fake = ScriptedAnthropic([blocks(turn) for turn in self.script])
        server = create_sdk_mcp_server("t", tools=[sdk_tool(tool) for tool in self.world.async_tools()])
        options = ClaudeAgentOptions(
            mcp_servers={"t": server},
            allowed_tools=[f"{PREFIX}look_up", f"{PREFIX}note"],
            model="claude-sonnet-4-5",
            cwd=self.world.folder,
            setting_sources=[],
            tools=[],
            env={
                "ANTHROPIC_BASE_URL": fake.url,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CONFIG_DIR": str(self.world.folder / "config"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "IS_SANDBOX": "1",
            },
            **settings,
        )
        try:
            async with CountersignHooks(self.world.gate, timeout=self.timeout, pause_after=self.pause_after) as hooks:
                async with ClaudeSDKClient(hooks.options(options)) as client:
                    if text is not None:
                        await client.query(text)
                    async for message in client.receive_response():
                        result = message
        finally:
            fake.stop()
        assert isinstance(result, ResultMessage)
        return end(fake, result)


def sdk_tool(function: Callable[..., Any]) -> SdkMcpTool[Any]:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": await function(**arguments)}]}

    parameters = inspect.signature(function).parameters
    schema = {"type": "object", "properties": {name: {} for name in parameters}, "required": list(parameters)}
    return SdkMcpTool(function.__name__, function.__doc__ or "", schema, handler)


def blocks(turn: list[FakeCall] | str) -> list[dict[str, Any]]:
    if isinstance(turn, str):
        return [{"type": "text", "text": turn}]
    return [{"type": "tool_use", "id": call.id, "name": PREFIX + call.tool, "input": call.text} for call in turn]


def end(fake: ScriptedAnthropic, result: ResultMessage) -> End:
    told: dict[str, Told] = {}
    for message in fake.requests[-1]["messages"] if fake.requests else ():
        content = message["content"] if isinstance(message["content"], list) else []
        for block in content:
            if block["type"] == "tool_result":
                text = block["content"] if isinstance(block["content"], str) else block["content"][0]["text"]
                # What hooks add comes as further text.
                added = json.dumps(content, ensure_ascii=False) if "changed this call" in str(content) else ""
                told[block["tool_use_id"]] = Told(text.strip() + added, bool(block.get("is_error")))
    return End(result.stop_reason == "tool_deferred", told, result.result or "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_case(case: Callable[[World, type[Host]], Awaitable[None]], world: World) -> None:
    await case(world, ClaudeHost)
