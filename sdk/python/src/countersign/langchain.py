"""LangChain and LangGraph: a middleware for `create_agent`.

All calls of a model's turn are one approval. A call that passes runs at once; a held one waits for its decision, or, with
`pause_after`, the graph is interrupted until somebody resumes it. Needs `pip install 'countersign[langchain]'`.

Put it last in the list of middleware: what stands behind it, such as a retry, could run a tool twice under one permit.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from ._json import arguments_text
from .async_gate import AsyncGate
from .errors import CallError, NotRun
from .gate import Gate
from .model import Call, Message, Outcome, Permit
from .turn import Ran, Turn, Turns

Answer = ToolMessage | Command[Any]


class CountersignMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts every tool call of an agent through the gate.

    `timeout`: seconds that a call waits for its decision; by default until the approval expires.
    `pause_after`: seconds after which the graph is interrupted instead (needs a checkpointer). Resume it with any value,
    from any process: the service is asked, not the value.
    """

    def __init__(
        self,
        gate: Gate | AsyncGate | None = None,
        *,
        timeout: float | None = None,
        pause_after: float | None = None,
        ttl: float | None = None,
        start_within: float | None = None,
    ) -> None:
        super().__init__()
        self._turns = Turns(gate, timeout=timeout, ttl=ttl, start_within=start_within)
        self._pause_after = pause_after

    # ---- pausing: one interrupt for the whole turn ----

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        message = _last_call_message(state["messages"])
        if self._pause_after is None or message is None:
            return
        turn = self._turns.open(*_proposal(state["messages"], message))
        while self._turns.is_waiting(turn, self._pause_after, puts_off=True):
            interrupt(_question(turn))

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        message = _last_call_message(state["messages"])
        if self._pause_after is None or message is None:
            return
        turn = await self._turns.open_async(*_proposal(state["messages"], message))
        while await self._turns.is_waiting_async(turn, self._pause_after, puts_off=True):
            interrupt(_question(turn))

    # ---- running ----

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        try:
            id, call, messages, message = _find(request)
            turn = self._turns.open(*_proposal(messages, message))
            ran = self._turns.run(turn, id, call, lambda permit: handler(_approved(request, permit)), _outcome)
        except CallError as error:
            return _not_run(request, error)
        return _answer(request, ran)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        try:
            id, call, messages, message = _find(request)
            turn = await self._turns.open_async(*_proposal(messages, message))
            ran = await self._turns.run_async(
                turn, id, call, lambda permit: handler(_approved(request, permit)), _outcome
            )
        except CallError as error:
            return _not_run(request, error)
        return _answer(request, ran)


# ---- what is proposed ----


def _last_call_message(messages: Sequence[AnyMessage]) -> AIMessage | None:
    last = messages[-1] if messages else None
    return last if isinstance(last, AIMessage) and last.tool_calls else None


def _find(request: ToolCallRequest) -> tuple[str, Call, Sequence[AnyMessage], AIMessage]:
    """Returns the call, the conversation, and the message of the model that contains the call."""
    id, name, arguments = request.tool_call["id"], request.tool_call["name"], request.tool_call["args"]
    state = request.state
    messages: Sequence[AnyMessage] = state if isinstance(state, list) else state["messages"]
    for message in reversed(messages):
        if isinstance(message, AIMessage) and id and any(call["id"] == id for call in message.tool_calls):
            return id, Call(name, arguments_text(name, arguments)), messages, message
    raise NotRun("the call is in no message of the model", code="not_proposed", tool=name)


def _proposal(messages: Sequence[AnyMessage], message: AIMessage) -> tuple[str, str, dict[str, Call], list[Message]]:
    """Returns the run, the turn, its calls by id, and the conversation before it."""
    calls: dict[str, Call] = {}
    for call in message.tool_calls:
        if not call["id"] or call["id"] in calls:
            raise NotRun("a call of the turn has no id of its own", code="not_proposed", tool=call["name"])
        calls[call["id"]] = Call(call["name"], arguments_text(call["name"], call["args"]))
    run_id = str(get_config().get("configurable", {}).get("thread_id") or message.id or "")
    if not run_id:
        raise NotRun("there is neither a `thread_id` nor a message id to name the run", code="no_run")
    before = messages[: next(index for index, each in enumerate(messages) if each is message)]
    return run_id, message.id or "", calls, _conversation(before)


def _conversation(messages: Sequence[AnyMessage]) -> list[Message]:
    said: list[Message] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            said.append({"role": "user", "text": message.text})
        elif isinstance(message, AIMessage):
            calls = [f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in message.tool_calls]
            said.append({"role": "assistant", "text": "\n".join([message.text, *calls]).strip()})
        elif isinstance(message, ToolMessage):
            said.append({"role": "tool", "name": message.name or "tool", "text": message.text})
    return said


def _question(turn: Turn) -> dict[str, Any]:
    return {"approval": turn.approval, "waiting_for": [ruling.summary for ruling in turn.held()]}


# ---- what the model is told ----


def _approved(request: ToolCallRequest, permit: Permit) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": permit.arguments})


def _outcome(answer: Answer) -> tuple[Outcome, Any]:
    if isinstance(answer, ToolMessage):
        return "failed" if answer.status == "error" else "succeeded", answer.content
    return "succeeded", str(answer)


def _not_run(request: ToolCallRequest, error: CallError) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(error.for_model(), name=call["name"], tool_call_id=call["id"], status="error")


def _answer(request: ToolCallRequest, ran: Ran[Answer]) -> Answer:
    call = request.tool_call
    if ran.result is not None:
        if ran.notice and isinstance(ran.result, ToolMessage):
            noticed: ToolMessage = _noticed(ran.notice, ran.result)
            return noticed
        if ran.notice and isinstance(ran.result, Command) and isinstance(ran.result.update, dict):
            messages = [_noticed(ran.notice, each) for each in ran.result.update.get("messages", [])]
            return replace(ran.result, update={**ran.result.update, "messages": messages})
        return ran.result
    recorded = ran.recorded if isinstance(ran.recorded, (str, list)) else json.dumps(ran.recorded)
    content = _with_notice(ran.notice, recorded) if ran.notice else recorded
    return ToolMessage(content, name=call["name"], tool_call_id=call["id"])


def _noticed(notice: str, message: Any) -> Any:
    if not isinstance(message, ToolMessage):
        return message
    return message.model_copy(update={"content": _with_notice(notice, message.content)})


def _with_notice(notice: str, content: str | list[Any]) -> str | list[Any]:
    if isinstance(content, str):
        return f"{notice}\n\n{content}"
    return [{"type": "text", "text": notice}, *content]
