"""A support agent with the Claude Agent SDK: it looks an order up, and asks a person before it refunds and writes.

Without arguments a scripted model talks, which is a small server in place of Anthropic's. With the name of a model, that
model does: `python agent.py claude-sonnet-4-5`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, create_sdk_mcp_server, tool
from scripted import ScriptedAnthropic

from countersign.claude_agent_sdk import CountersignHooks

REQUEST = "The lamp of order A-17 arrived broken. Refund it and tell the customer."


@tool("find_order", "Finds an order by its number.", {"order": str})
async def find_order(given: dict[str, Any]) -> dict[str, Any]:
    return text(f"order {given['order']}: a lamp for 40 EUR, bought by maria@acme.com")


@tool("refund", "Refunds an order, in EUR.", {"order": str, "amount": int})
async def refund(given: dict[str, Any]) -> dict[str, Any]:
    record("refund", given["order"], given["amount"])
    return text(f"refunded {given['amount']} EUR")


@tool("send_email", "Sends an e-mail.", {"to": str, "subject": str})
async def send_email(given: dict[str, Any]) -> dict[str, Any]:
    record("send_email", given["to"], given["subject"])
    return text(f"sent to {given['to']}")


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def record(*what: object) -> None:
    """Writes down what was done, in place of doing it."""
    with open("done.jsonl", "a") as file:
        file.write(json.dumps(what) + "\n")


def call(id: str, name: str, **arguments: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": f"mcp__shop__{name}", "input": json.dumps(arguments)}


SCRIPT = [
    [call("1", "find_order", order="A-17")],
    [
        call("2", "refund", order="A-17", amount=40),
        call("3", "send_email", to="maria@acme.com", subject="Your refund"),
    ],
    [{"type": "text", "text": "Maria has her money back."}],
]


async def main() -> None:
    options = ClaudeAgentOptions(
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[find_order, refund, send_email])},
        # What passes at the gate is left to these rules of Claude Code.
        allowed_tools=["mcp__shop__find_order"],
        tools=[],
        setting_sources=[],
    )
    if len(sys.argv) > 1:
        options.model = sys.argv[1]
    else:
        options.model = "claude-sonnet-4-5"
        options.env = {
            "ANTHROPIC_BASE_URL": ScriptedAnthropic(SCRIPT).url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": tempfile.mkdtemp(),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
    async with CountersignHooks() as hooks, ClaudeSDKClient(hooks.options(options)) as client:
        await client.query(REQUEST)
        async for message in client.receive_response():
            for block in getattr(message, "content", None) or ():
                print(block)


if __name__ == "__main__":
    asyncio.run(main())
