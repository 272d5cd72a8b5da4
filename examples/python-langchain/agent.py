"""A support agent with LangChain: it looks an order up, and asks a person before it refunds and writes.

Without arguments a scripted model talks. With the name of a model, that model does: `python agent.py openai:gpt-5`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from countersign.langchain import CountersignMiddleware

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


class ScriptedModel(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


def call(id: str, name: str, **arguments: object) -> Any:
    return {"id": id, "name": name, "args": arguments}


SCRIPT = [
    AIMessage("", tool_calls=[call("1", "find_order", order="A-17")]),
    AIMessage(
        "",
        tool_calls=[
            call("2", "refund", order="A-17", amount=40),
            call("3", "send_email", to="maria@acme.com", subject="Your refund"),
        ],
    ),
    AIMessage("Maria has her money back."),
]


def main() -> None:
    model: Any = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(responses=list(SCRIPT))
    agent = create_agent(model, [find_order, refund, send_email], middleware=[CountersignMiddleware()])
    result = agent.invoke({"messages": [("user", REQUEST)]})
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main()
