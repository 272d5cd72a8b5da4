"""A support agent with the OpenAI Agents SDK: it looks an order up, and asks a person before it refunds and writes.

Without arguments a scripted model talks. With the name of a model, that model does: `python agent.py gpt-5`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import countersign
from countersign.openai_agents import Countersign

REQUEST = "The lamp of order A-17 arrived broken. Refund it and tell the customer."


def find_order(order: str) -> str:
    """Finds an order by its number."""
    return f"order {order}: a lamp for 40 EUR, bought by maria@acme.com"


def refund(order: str, amount: int) -> str:
    """Refunds an order, in EUR."""
    record("refund", order, amount)
    return f"refunded {amount} EUR"


def send_email(to: str, subject: str) -> str:
    """Sends an e-mail."""
    record("send_email", to, subject)
    return f"sent to {to}"


def record(*what: object) -> None:
    """Writes down what was done, in place of doing it."""
    with open("done.jsonl", "a") as file:
        file.write(json.dumps(what) + "\n")


SCRIPT: list[Any] = [
    [function_call("find_order", {"order": "A-17"}, call_id="1")],
    [
        function_call("refund", {"order": "A-17", "amount": 40}, call_id="2"),
        function_call("send_email", {"to": "maria@acme.com", "subject": "Your refund"}, call_id="3"),
    ],
    [assistant_message("Maria has her money back.")],
]


async def main() -> None:
    model: Any = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(SCRIPT)
    tools = [function_tool(tool) for tool in (find_order, refund, send_email)]
    agent = Countersign().agent(Agent(name="Support", model=model, tools=[*tools]))
    with countersign.run(f"support-{uuid.uuid4()}"):
        result = await Runner.run(agent, REQUEST)
    for item in result.new_items:
        print(item.type, getattr(item, "output", ""))
    print(result.final_output)


if __name__ == "__main__":
    set_tracing_disabled(len(sys.argv) == 1)
    asyncio.run(main())
