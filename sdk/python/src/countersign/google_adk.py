"""Google ADK: a plugin that puts the tools of all agents of a runner through the gate.

All calls of a model's turn are one approval. A call that passes runs at once; a held one waits for its decision, or, with
`pause_after`, the run ends with a request for confirmation, to be taken up later, also by another process. Needs
`pip install 'countersign[google-adk]'`.

    app = App(name="support", root_agent=agent, plugins=[CountersignPlugin()])
    runner = Runner(app=app, session_service=sessions)

List it first. If a later callback changes the arguments of a call, that is recorded as failed and ends the run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from google.adk.events import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from . import _steps
from ._json import arguments_text
from ._run import current_run
from .async_gate import AsyncGate
from .errors import CallError, NotRun, TimedOut
from .gate import Gate
from .model import Call, Finished, Message, Permit
from .turn import Turn, Turns

INTERNAL = frozenset({"transfer_to_agent", "set_model_response"})
"""Functions by which ADK controls the flow itself. They have no effect outside."""

REQUESTS = frozenset({"adk_request_confirmation", "adk_request_credential", "adk_request_input"})


class _TooEarly(TimedOut):
    """A paused run was taken up before anybody decided."""


class CountersignPlugin(BasePlugin):
    """Puts every tool call through the gate.

    `timeout`: seconds that a call waits for its decision; by default until the approval expires.
    `pause_after`: seconds after which the run ends with ADK's request for confirmation instead. Answer it with
    `confirmed: true` to take the run up: that says only that it goes on. The service knows the decision. If nobody has
    decided yet, the run ends with an error whose cause is `TimedOut`; send the same answer again later.

    The run's name is that of `with countersign.run(ID):`, or else the id of the session.
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
        super().__init__(name="countersign")
        self._turns = Turns(gate, timeout=timeout, ttl=ttl, start_within=start_within)
        self._pause_after = pause_after
        self._running: dict[tuple[str, str], Permit] = {}

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        if tool.name in INTERNAL:
            if not type(tool).__module__.startswith("google.adk."):
                raise NotRun(f"the name `{tool.name}` is reserved for ADK", code="not_proposed", tool=tool.name)
            return None
        if isinstance(tool, AgentTool) and not tool.include_plugins:
            raise NotRun(
                f"the tools of `{tool.name}` would run ungated", code="not_gated", hint="use `include_plugins=True`"
            )
        try:
            return await self._before(tool, tool_args, tool_context)
        except _TooEarly:
            raise
        except CallError as error:
            return {"error": error.for_model()}

    async def _before(self, tool: BaseTool, tool_args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
        id = context.function_call_id or ""
        call = Call(tool.name, arguments_text(tool.name, tool_args))
        turn = await self._open(context, id)
        if self._pause_after is not None and turn.is_held(id):
            if await self._turns.is_waiting_async(turn, self._pause_after, puts_off=False):
                if context.tool_confirmation is not None:
                    # ADK asks for confirmation once. A run that ends here can be confirmed again.
                    raise _TooEarly(f"nobody decided about `{tool.name}` yet", tool=tool.name, approval=turn.approval)
                context.request_confirmation(hint="A person is asked.", payload={"approval": turn.approval})
                # Otherwise the model would be told, and would call the tool again.
                context.actions.skip_summarization = True
                return {"status": "waiting", "approval": turn.approval}
        released = await self._turns.release_async(turn, id, call)
        if isinstance(released, Finished):
            return _answer(released.notice, released.result)
        if released.is_late:
            await self._turns.async_gate._record(released, "not_sent", "not started in time")
            raise NotRun(f"`{tool.name}` was given up before it was started", code="late", tool=tool.name)
        # ADK calls the tool with this very dictionary.
        tool_args.clear()
        tool_args.update(released.arguments)
        self._running[(context.invocation_id, id)] = released
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        permit = self._running.pop((tool_context.invocation_id, tool_context.function_call_id or ""), None)
        if permit is None:
            return None
        gate = self._turns.async_gate
        if tool_args != permit.arguments:
            await gate._record(permit, "failed", "a callback changed the arguments after they were approved")
            raise RuntimeError(f"a callback changed the approved arguments of `{tool.name}`")
        await asyncio.shield(gate.finish(permit, "succeeded", result))
        notice = permit.notice()
        return None if notice is None else _answer(notice, result)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Any
    ) -> dict[str, Any] | None:
        permit = self._running.pop((tool_context.invocation_id, tool_context.function_call_id or ""), None)
        if permit is not None:
            # ADK reports a cancelled call here, too.
            outcome = _steps.outcome_of(error) if isinstance(error, Exception) else "unknown"
            await self._turns.async_gate._record(permit, outcome, _steps.error_text(error))
        return None

    async def _open(self, context: ToolContext, id: str) -> Turn:
        """Proposes the turn of the model that contains the call."""
        events = context.session.events
        for index in reversed(range(len(events))):
            found = events[index].get_function_calls()
            if any(call.id == id and call.name not in REQUESTS for call in found):
                gated = [call for call in found if call.name not in INTERNAL]
                calls = {
                    call.id or "": Call(call.name or "", arguments_text(call.name or "", call.args or {}))
                    for call in gated
                }
                if len(calls) != len(gated) or "" in calls:
                    raise NotRun("a call of the turn has no id of its own", code="not_proposed")
                run = current_run()
                run_id = run.id if run else context.session.id
                return await self._turns.open_async(run_id, events[index].id, calls, _conversation(events[:index]))
        raise NotRun(f"the call `{id}` is in no event of the session", code="not_proposed")


def _answer(notice: str | None, result: Any) -> dict[str, Any]:
    if notice is not None:
        return {"notice": notice, "result": result}
    return result if isinstance(result, dict) else {"result": result}


def _conversation(events: Sequence[Event]) -> list[Message]:
    said: list[Message] = []
    for event in events:
        for part in (event.content.parts if event.content else None) or []:
            if part.function_response and part.function_response.name not in REQUESTS:
                text = json.dumps(part.function_response.response, ensure_ascii=False, default=str)
                said.append({"role": "tool", "name": part.function_response.name or "tool", "text": text})
            elif part.function_call and part.function_call.name not in REQUESTS:
                arguments = json.dumps(part.function_call.args, ensure_ascii=False, default=str)
                said.append({"role": "assistant", "text": f"{part.function_call.name} {arguments}"})
            elif part.text and not part.thought:
                said.append({"role": "user" if event.author == "user" else "assistant", "text": part.text})
    return said
