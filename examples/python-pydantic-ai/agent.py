"""A support agent with Pydantic AI: it looks an order up, and asks a person before it refunds and writes.

Without arguments a scripted model talks. With the name of a model, that model does: `python agent.py openai:gpt-5`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from countersign.pydantic_ai import Countersign

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


SCRIPT = [
    ModelResponse(parts=[ToolCallPart("find_order", {"order": "A-17"}, "1")]),
    ModelResponse(
        parts=[
            ToolCallPart("refund", {"order": "A-17", "amount": 40}, "2"),
            ToolCallPart("send_email", {"to": "maria@acme.com", "subject": "Your refund"}, "3"),
        ]
    ),
    ModelResponse(parts=[TextPart("Maria has her money back.")]),
]


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return SCRIPT[sum(isinstance(message, ModelResponse) for message in messages)]


def main() -> None:
    model: Any = sys.argv[1] if len(sys.argv) > 1 else FunctionModel(scripted)
    agent = Agent(model, tools=[find_order, refund, send_email], capabilities=[Countersign()])
    result = agent.run_sync(REQUEST)
    for message in result.all_messages():
        for part in message.parts:
            print(part.part_kind, getattr(part, "content", ""))
    print(result.output)


if __name__ == "__main__":
    main()
