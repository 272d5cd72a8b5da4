"""A support agent with Google ADK: it looks an order up, and asks a person before it refunds and writes.

Without arguments a scripted model talks. With the name of a model, that model does: `python agent.py gemini-flash-latest`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import FunctionCall, ModelContent, Part

from countersign.google_adk import CountersignPlugin

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


def call(id: str, name: str, **arguments: object) -> Part:
    return Part(function_call=FunctionCall(id=id, name=name, args=arguments))


SCRIPT = [
    ModelContent([call("1", "find_order", order="A-17")]),
    ModelContent(
        [
            call("2", "refund", order="A-17", amount=40),
            call("3", "send_email", to="maria@acme.com", subject="Your refund"),
        ]
    ),
    ModelContent("Maria has her money back."),
]


class ScriptedModel(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        turn = sum(content.role == "model" for content in llm_request.contents)
        yield LlmResponse(content=SCRIPT[turn])


async def main() -> None:
    model: Any = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(model="scripted")
    tools: Any = [find_order, refund, send_email]
    agent = LlmAgent(name="support", model=model, tools=tools)
    runner = InMemoryRunner(app=App(name="support", root_agent=agent, plugins=[CountersignPlugin()]))
    await runner.run_debug(REQUEST, verbose=True)


if __name__ == "__main__":
    asyncio.run(main())
