"""Pydantic AI: a capability that puts an agent's tools through the gate.

All calls of a model's turn are one approval. Calls that pass run first; held ones wait for their decision, or, with
`pause_after`, the run ends with `DeferredToolRequests`, to be taken up later, also by another process. Needs
`pip install 'countersign[pydantic-ai]'`.

    agent = Agent("openai:gpt-5", capabilities=[Countersign()])

Tools that the model's provider runs, such as its web search, do not go through the gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from . import _steps
from ._json import arguments_text, parse_arguments
from ._run import current_run
from .async_gate import AsyncGate
from .errors import CallError, NotRun, TimedOut
from .gate import Gate
from .model import Approval, Call, CallView, Message, Permit
from .turn import Turn, Turns, told


class Countersign(AbstractCapability[Any]):
    """Puts the tools of an agent through the gate.

    `timeout`: seconds that a call waits for its decision; by default until the approval expires.
    `pause_after`: seconds after which the run ends with `DeferredToolRequests` instead, which has to be among the
    agent's output types. Take it up with `deferred_tool_results=requests.build_results(approve_all=True)`: that says
    only that the run goes on. The service knows the decision, and a call about which nobody has decided is deferred again.

    The run's name is that of `with countersign.run(ID):`, or else Pydantic AI's `conversation_id`.
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
        self._turns = Turns(gate, timeout=timeout, ttl=ttl, start_within=start_within)
        self._pause_after = pause_after
        self._decided: dict[tuple[str, str], None] = {}
        self._others: set[str] = set()

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        self._others.update(tool.name for tool in tool_defs if tool.kind == "external")
        return tool_defs

    async def prepare_output_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        self._others.update(tool.name for tool in tool_defs)
        return tool_defs

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        id = call.tool_call_id
        try:
            turn, proposed = await self._open(ctx, id)
            if turn.is_held(id) and (turn.key, id) not in self._decided:
                # Whatever the framework was told: the decision is looked up in `handle_deferred_tool_calls`.
                raise ApprovalRequired({"approval": turn.approval})

            async def run(permit: Permit) -> Any:
                return await handler(args)

            def check(permit: Permit) -> None:
                if permit.arguments != parse_arguments(_text(call)):
                    raise NotRun(
                        "the approved arguments are not those of the call", code="mismatch", tool=call.tool_name
                    )

            ran = await self._turns.run_async(turn, id, proposed, run, check=check)
        except CallError as error:
            raise ToolFailed(error.for_model()) from error
        return _answer(ran.notice, ran.result if ran.is_new else ran.recorded)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        results = DeferredToolResults()
        for call in requests.approvals:
            try:
                result = await self._decision(ctx, call)
            except CallError as error:
                result = ToolDenied(error.for_model())
            if result is not None:
                results.approvals[call.tool_call_id] = result
        return results if results.approvals else None

    async def _decision(self, ctx: RunContext[Any], call: ToolCallPart) -> ToolApproved | ToolDenied | None:
        """Returns what the service says about a deferred call; `None` if the run has to pause."""
        id = call.tool_call_id
        turn, proposed = await self._open(ctx, id)
        approval = None
        if turn.is_held(id) and turn.approval is not None:
            timeout = self._turns.timeout if self._pause_after is None else self._pause_after
            approval = await self._turns.async_gate.wait(turn.approval, timeout=timeout)
            if approval.is_pending:
                if self._pause_after is not None:
                    return None
                raise TimedOut(
                    f"nobody decided about `{call.tool_name}` in time", tool=call.tool_name, approval=approval.id
                )
        override = _check(approval, turn.view(approval, id)) if approval else None
        self._decided[(turn.key, id)] = None
        while len(self._decided) > MOST_DECIDED:
            del self._decided[next(iter(self._decided))]
        return ToolApproved(override_args=override)

    async def _open(self, ctx: RunContext[Any], id: str) -> tuple[Turn, Call]:
        """Proposes the turn that contains the call, and returns the call as the model made it."""
        for index in reversed(range(len(ctx.messages))):
            message = ctx.messages[index]
            if isinstance(message, ModelResponse) and any(part.tool_call_id == id for part in message.tool_calls):
                parts = [part for part in message.tool_calls if part.tool_name not in self._others]
                calls = {part.tool_call_id: Call(part.tool_name, _text(part)) for part in parts}
                if len(calls) != len(parts) or id not in calls:
                    raise NotRun("a call of the turn has no id of its own", code="not_proposed")
                run = current_run()
                run_id = run.id if run else ctx.conversation_id or ctx.run_id
                if not run_id:
                    raise NotRun("the run has no name", code="no_run")
                conversation = _conversation(ctx.messages[:index])
                turn = await self._turns.open_async(run_id, message.provider_response_id or "", calls, conversation)
                return turn, calls[id]
        raise NotRun(f"the call `{id}` is in no message of the model", code="not_proposed")


MOST_DECIDED = 4096
"""Decided calls that are remembered. A forgotten one is looked up again."""


def _check(approval: Approval, call: CallView) -> dict[str, Any] | None:
    """Returns the edited arguments of a call that may run, or did. Raises a `CallError` if it does not run."""
    if call.state not in ("released", "running", "succeeded"):
        _steps.recorded(approval, call)
    if not call.edits:
        return None
    text = call.raw.get("argumentsText")
    if not isinstance(text, str):
        raise NotRun("its arguments were edited, and are secret", code="hidden", tool=call.tool, approval=approval.id)
    return parse_arguments(text)


def _text(call: ToolCallPart) -> str:
    """Returns the arguments as the model wrote them."""
    if isinstance(call.args, str):
        return call.args or "{}"
    return arguments_text(call.tool_name, call.args or {})


def _answer(notice: str | None, result: Any) -> Any:
    if notice and isinstance(result, ToolReturn):
        return replace(result, return_value=told(notice, result.return_value))
    return told(notice, result)


def _conversation(messages: Sequence[ModelMessage]) -> list[Message]:
    said: list[Message] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    content = [part.content] if isinstance(part.content, str) else part.content
                    said.append({"role": "user", "text": "\n".join(each for each in content if isinstance(each, str))})
                elif isinstance(part, ToolReturnPart):
                    said.append({"role": "tool", "name": part.tool_name, "text": part.model_response_str()})
        else:
            texts = [part.content for part in message.parts if isinstance(part, TextPart)]
            calls = [f"{part.tool_name} {part.args_as_json_str()}" for part in message.tool_calls]
            said.append({"role": "assistant", "text": "\n".join([*texts, *calls])})
    return said
