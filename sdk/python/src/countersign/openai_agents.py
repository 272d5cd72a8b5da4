"""OpenAI Agents SDK: an agent whose function tools go through the gate.

All calls of a model's turn are one approval. A call that passes runs at once; a held one waits for its decision, or, with
`pause_after`, the run ends with `interruptions`, to be taken up later, also by another process. Needs
`pip install 'countersign[openai-agents]'`.

    countersign = Countersign()
    agent = countersign.agent(Agent(name="Support", tools=[send_email]))
    result = await Runner.run(agent, "Welcome Alice")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from agents import Agent, AgentHooks, FunctionTool, Handoff, RunContextWrapper, RunState
from agents.exceptions import ToolTimeoutError
from agents.items import ModelResponse
from agents.lifecycle import AgentHooksBase
from agents.tool import (
    Tool,
    invoke_function_tool,
    maybe_invoke_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall

from ._run import current_run
from .async_gate import AsyncGate
from .errors import CallError, CountersignError, NotRun
from .gate import Gate
from .model import Call, Message, Permit
from .turn import Turn, Turns, told

MOST_CALLS = 4096
"""Calls that are remembered. A forgotten one does not run."""


@dataclass(frozen=True)
class _Proposal:
    """A model's turn, before it is proposed."""

    run_id: str
    turn_id: str
    calls: Mapping[str, Call]
    conversation: Sequence[Message]


class Countersign:
    """Puts the function tools of agents through the gate.

    `timeout`: seconds that a call waits for its decision; by default until the approval expires.
    `pause_after`: seconds after which the run ends with `interruptions` instead. Do not approve or reject them: save
    `result.to_state().to_string()`, and later run the agent with what `load` makes of it. The service knows the decision.
    `ungated`: names of tools that are not put through the gate, such as tools that OpenAI hosts.

    Name the run with `with countersign.run(ID):`. Without that, the id of the model's response is used.
    """

    def __init__(
        self,
        gate: Gate | AsyncGate | None = None,
        *,
        timeout: float | None = None,
        pause_after: float | None = None,
        ungated: Sequence[str] = (),
        ttl: float | None = None,
        start_within: float | None = None,
    ) -> None:
        self._turns = Turns(gate, timeout=timeout, ttl=ttl, start_within=start_within)
        self._pause_after = pause_after
        self._ungated = frozenset(ungated)
        self._proposals: dict[tuple[str, str], _Proposal] = {}
        self._waited: set[str] = set()

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Returns a copy of the agent, and of those it hands off to, whose tools go through the gate."""
        return self._agent(agent, {})

    async def load(self, agent: Agent[Any], state: str, **settings: Any) -> RunState[Any, Agent[Any]]:
        """Loads the state of a paused run. Settings are those of `RunState.from_string`.

        Calls about which somebody has decided are marked as approved, so that the runner calls their tools; whether they
        run is up to the service. The others stay interruptions.
        """
        loaded = await RunState.from_string(agent, state, **settings)
        responses = loaded.to_json(strict_context=False, include_tracing_api_key=False)["model_responses"]
        if responses:
            output = [item for item in responses[-1]["output"] if item.get("type") == "function_call"]
            calls = [ResponseFunctionToolCall.model_validate(item) for item in output]
            self._remember(calls, responses[-1].get("response_id"), [])
        for item in loaded.get_interruptions():
            if item.call_id and item.tool_name not in self._ungated and not await self._is_waiting(item.call_id):
                loaded.approve(item)
        return loaded

    # ---- wrapping ----

    def _agent(self, agent: Agent[Any], done: dict[int, Agent[Any]]) -> Agent[Any]:
        if id(agent) in done:
            return done[id(agent)]
        if isinstance(agent.hooks, _Hooks):
            return agent
        if agent.mcp_servers:
            raise TypeError(f"`{agent.name}` has MCP servers: put `countersign mcp` in front of them, see docs/mcp.md")
        wrapped = done[id(agent)] = agent.clone(
            tools=[self._tool(tool) for tool in agent.tools], hooks=_Hooks(self, agent.hooks)
        )
        wrapped.handoffs = [self._handoff(target, done) for target in agent.handoffs]
        return wrapped

    def _handoff(self, target: Any, done: dict[int, Agent[Any]]) -> Any:
        if isinstance(target, Agent):
            return self._agent(target, done)
        reference = target._agent_ref if isinstance(target, Handoff) else None
        found = reference() if reference else None
        if not isinstance(getattr(found, "hooks", None), _Hooks):
            raise TypeError(
                "a handoff leads to an agent that is not gated: make the handoff from `countersign.agent(…)`"
            )
        return target

    def _tool(self, tool: Tool) -> Tool:
        if tool.name in self._ungated:
            return tool
        if not isinstance(tool, FunctionTool):
            raise TypeError(
                f"`{tool.name}` is no function tool, so it cannot be gated: remove it, or list it in `ungated`"
            )
        if tool.needs_approval is not False:
            raise TypeError(f"`{tool.name}` has `needs_approval`: remove it, the policy decides what is held")
        agent = tool._agent_instance if tool._is_agent_tool else None
        if tool._is_agent_tool and not isinstance(getattr(agent, "hooks", None), _Hooks):
            raise TypeError(f"`{tool.name}` is an agent whose tools are not gated: make it from `countersign.agent(…)`")
        # Errors of the inner tool have to be seen here, and its time begins when it is started.
        inner = replace(tool, timeout_behavior="raise_exception")
        set_function_tool_failure_error_function(inner, None)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            return await self._invoke(tool, inner, context, arguments)

        async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], id: str) -> bool:
            return await self._is_waiting(id)

        invoke.is_gated = True  # type: ignore[attr-defined]
        pause: Any = False if self._pause_after is None else needs_approval
        return replace(tool, on_invoke_tool=invoke, needs_approval=pause, timeout_seconds=None)

    # ---- running ----

    async def _invoke(self, tool: FunctionTool, inner: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
        async def run(permit: Permit) -> Any:
            context.tool_arguments = permit.arguments_text
            try:
                return await invoke_function_tool(function_tool=inner, context=context, arguments=permit.arguments_text)
            except ToolTimeoutError as error:
                raise TimeoutError(str(error)) from error

        id = context.tool_call_id
        call = Call(tool.name, arguments or "{}")
        try:
            turn = await self._open(id, call)
            ran = await self._turns.run_async(turn, id, call, run)
        except CallError as error:
            return error.for_model()
        except CountersignError:
            raise
        except Exception as error:
            # As the tool's own settings say: a text for the model, or the end of the run.
            text = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=context, error=error
            )
            if text is None:
                raise
            return text
        return told(ran.notice, ran.result if ran.is_new else ran.recorded)

    async def _is_waiting(self, id: str) -> bool:
        """Returns true if the run has to pause for this call."""
        turn = await self._open(id, None)
        if not turn.is_held(id):
            return False
        # All calls of a turn are asked about, one after the other; only the first one waits.
        timeout = 0 if turn.key in self._waited else self._pause_after or 0
        self._waited.add(turn.key)
        return await self._turns.is_waiting_async(turn, timeout, puts_off=False)

    async def _open(self, id: str, call: Call | None) -> Turn:
        run = current_run()
        proposal = self._proposals.get((run.id if run else "", id))
        if proposal is None:
            tool = call.tool if call else None
            raise NotRun(
                f"the turn of call `{id}` is not known", code="not_proposed", tool=tool, hint="resume with `load`"
            )
        return await self._turns.open_async(proposal.run_id, proposal.turn_id, proposal.calls, proposal.conversation)

    def _remember(
        self, calls: Sequence[ResponseFunctionToolCall], response_id: str | None, conversation: Sequence[Message]
    ) -> None:
        gated = {
            call.call_id: Call(call.name, call.arguments or "{}") for call in calls if call.name not in self._ungated
        }
        run = current_run()
        run_id = run.id if run else response_id
        if not run_id:
            raise NotRun("the run has no name", code="no_run", hint="run the agent in `with countersign.run(ID):`")
        proposal = _Proposal(run_id, response_id or "", gated, conversation)
        for id in gated:
            self._proposals[(run.id if run else "", id)] = proposal
        while len(self._proposals) > MOST_CALLS:
            del self._proposals[next(iter(self._proposals))]


class _Hooks(AgentHooks[Any]):
    """Sees what the model says before its tools are called, and passes everything on to the agent's own hooks."""

    def __init__(self, countersign: Countersign, others: AgentHooksBase[Any, Any] | None) -> None:
        self._countersign = countersign
        self._others = others or AgentHooks[Any]()
        self._inputs: WeakKeyDictionary[RunContextWrapper[Any], Sequence[Any]] = WeakKeyDictionary()

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]) -> None:
        self._inputs[context] = list(input_items)
        await self._others.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        handoffs = {handoff_name(target) for target in agent.handoffs}
        calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
        calls = [call for call in calls if call.name not in handoffs]
        if calls:
            conversation = _conversation(self._inputs.get(context, ()))
            self._countersign._remember(calls, response.response_id, conversation)
        await self._others.on_llm_end(context, agent, response)

    async def on_start(self, context: Any, agent: Any) -> None:
        await self._others.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        await self._others.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        await self._others.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        # A tool may have been added to the agent after it was wrapped.
        is_gated = getattr(getattr(tool, "on_invoke_tool", None), "is_gated", False)
        if not is_gated and tool.name not in self._countersign._ungated:
            raise NotRun(f"`{tool.name}` is not gated", code="not_gated", tool=tool.name, hint="wrap the agent again")
        await self._others.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self._others.on_tool_end(context, agent, tool, result)


def handoff_name(target: Any) -> str:
    return str(target.tool_name if isinstance(target, Handoff) else Handoff.default_tool_name(target))


def _conversation(items: Sequence[Any]) -> list[Message]:
    said: list[Message] = []
    tools: dict[Any, str] = {}
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") in ("user", "assistant"):
            said.append({"role": item["role"], "text": _text(item.get("content"))})
        elif kind == "function_call":
            tools[item.get("call_id")] = str(item.get("name"))
            said.append({"role": "assistant", "text": f"{item.get('name')} {item.get('arguments')}"})
        elif kind == "function_call_output":
            name = tools.get(item.get("call_id"), "tool")
            said.append({"role": "tool", "name": name, "text": _text(item.get("output"))})
    return said


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
