"""Claude Agent SDK: hooks that put tool calls through the gate.

Claude Code asks before each call, one after the other, so each call is an approval of its own. A held call waits for its
decision, or, with `pause_after`, is deferred: the query ends, and resuming the session takes the call up again, also in
another process. Needs `pip install 'countersign[claude-agent-sdk]'`.

    options = CountersignHooks().options(ClaudeAgentOptions(mcp_servers={"mail": server}))

The tool's name in the policy is the one that Claude Code uses, such as `mcp__mail__send`. For its built-in tools (`Bash`,
`Edit`) rather use `countersign hook install claude-code`, which also shows the working folder and links; see docs/hooks.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
from claude_agent_sdk.types import HookContext, HookInput, HookJSONOutput

from ._address import log
from ._json import arguments_text, dumps
from .async_gate import AsyncGate
from .errors import CallError, CountersignError, NotRun
from .gate import Gate
from .model import Call, Finished, Message, Outcome, Permit
from .turn import Turn, Turns, told

LONGEST_HOOK = 30 * 24 * 3600.0
"""Seconds that Claude Code waits for the hook: as long as an approval can be pending."""


class CountersignHooks:
    """Puts every tool call through the gate.

    `timeout`: seconds that a call waits for its decision; by default until the approval expires.
    `pause_after`: seconds after which the call is deferred instead, and the query ends with the `stop_reason`
    `tool_deferred`. To take it up, connect a `ClaudeSDKClient` with `resume=session_id` and without a prompt.

    A call that passes is left to Claude Code's own rules and questions; one that a person approved is allowed. Use it as
    `async with CountersignHooks() as hooks:`, so that a call that is interrupted is recorded as unknown at once; otherwise
    that happens when the tool's `timeout` is over.
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
        self._running: dict[str, Permit] = {}
        self._prompts: dict[str, list[Message]] = {}

    async def __aenter__(self) -> CountersignHooks:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Records the calls that have not ended as unknown."""
        while self._running:
            _, permit = self._running.popitem()
            await self._turns.async_gate._record(permit, "unknown", "the session ended while it ran")

    def options(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """Returns a copy of the options with the hooks added to those that are there."""
        options = options or ClaudeAgentOptions()
        ours = {
            # A hook that fails, also by its own fault, blocks the call.
            "PreToolUse": HookMatcher(hooks=[self.before], timeout=LONGEST_HOOK, on_failure="block"),
            "PostToolUse": HookMatcher(hooks=[self.after], timeout=120),
            "PostToolUseFailure": HookMatcher(hooks=[self.after], timeout=120),
            "UserPromptSubmit": HookMatcher(hooks=[self.prompted], timeout=120),
        }
        hooks: dict[Any, list[HookMatcher]] = {
            event: list(matchers) for event, matchers in (options.hooks or {}).items()
        }
        for event, matcher in ours.items():
            hooks[event] = [matcher, *hooks.get(event, [])]
        return replace(options, hooks=hooks)

    async def before(self, input: HookInput, id: str | None, context: HookContext) -> HookJSONOutput:
        """Rules on a call before it runs."""
        given = cast(Mapping[str, Any], input)
        try:
            return await self._before(given)
        except CallError as error:
            return _decision("deny", error.for_model())
        except CountersignError as error:
            log.warning("a call was blocked: %s", error.message)
            return _decision("deny", f"The call did not run, because it could not be checked: {error.message}.")

    async def _before(self, input: Mapping[str, Any]) -> HookJSONOutput:
        id, call = str(input["tool_use_id"]), _call(input)
        turn = await self._open(str(input["session_id"]), id, call)
        if self._pause_after is not None and turn.is_held(id):
            if await self._turns.is_waiting_async(turn, self._pause_after, puts_off=False):
                return _decision("defer", "A person is asked.")
        released = await self._turns.release_async(turn, id, call)
        if isinstance(released, Finished):
            # Claude Code takes no result from a hook, so what is recorded is told as the reason.
            raise _RanBefore(dumps(told(released.notice, released.result)))
        if released.is_late:
            await self._turns.async_gate._record(released, "not_sent", "not started in time")
            raise NotRun(f"`{call.tool}` was given up before it was started", code="late", tool=call.tool)
        if released.token is not None:
            self._running[id] = released
        if not turn.is_held(id):
            return {}
        return _decision("allow", "A person approved it.", released.arguments)

    async def after(self, input: HookInput, id: str | None, context: HookContext) -> HookJSONOutput:
        """Records how a call ended, and tells the model if a person changed it."""
        given = cast(Mapping[str, Any], input)
        permit = self._running.pop(str(given["tool_use_id"]), None)
        if permit is None:
            return {}
        outcome, result = _outcome(given, permit)
        await asyncio.shield(self._turns.async_gate.finish(permit, outcome, result))
        event = given["hook_event_name"]
        notice = permit.notice()
        if notice is None:
            return {}
        return cast(HookJSONOutput, {"hookSpecificOutput": {"hookEventName": event, "additionalContext": notice}})

    async def prompted(self, input: HookInput, id: str | None, context: HookContext) -> HookJSONOutput:
        """Remembers what the person said, so that cards can show where values came from."""
        given = cast(Mapping[str, Any], input)
        said = self._prompts.setdefault(str(given["session_id"]), [])
        said.append({"role": "user", "text": str(given.get("prompt", ""))})
        return {}

    async def _open(self, session: str, id: str, call: Call) -> Turn:
        return await self._turns.open_async(session, "", {id: call}, self._prompts.get(session, []))


class _RanBefore(CallError):
    """The call has run, and this is what was recorded."""

    def for_model(self) -> str:
        return f"This call has run before and is not run again. Its result was: {self.message}"


def _call(input: Mapping[str, Any]) -> Call:
    tool = str(input["tool_name"])
    return Call(tool, arguments_text(tool, input["tool_input"]))


def _outcome(input: Mapping[str, Any], permit: Permit) -> tuple[Outcome, Any]:
    if input.get("tool_input") != permit.arguments:
        return "unknown", "it is not known what ran: Claude Code reports other arguments than were approved"
    if input["hook_event_name"] == "PostToolUse":
        return "succeeded", input.get("tool_response")
    return "unknown" if input.get("is_interrupt") else "failed", {"error": input.get("error")}


def _decision(decision: str, reason: str, updated: dict[str, Any] | None = None) -> HookJSONOutput:
    output: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    if updated is not None:
        output["updatedInput"] = updated
    return cast(HookJSONOutput, {"hookSpecificOutput": output})
