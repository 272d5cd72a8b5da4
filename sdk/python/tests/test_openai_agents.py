"""The shared cases with the OpenAI Agents SDK and its `ScriptedModel`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, WebSearchTool, function_tool, handoff, set_tracing_disabled
from agents.exceptions import UserError
from agents.testing import ScriptedModel, assistant_message, function_call
from cases import CASES, End, FakeCall, Host, Told, World, send

import countersign
from countersign.openai_agents import Countersign

set_tracing_disabled(True)


class OpenAIHost(Host):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.countersign = Countersign(self.world.gate, timeout=self.timeout, pause_after=self.pause_after)

    def agent(self, first_turn: int = 0) -> Any:
        tools: Any = [function_tool(tool, strict_mode=False) for tool in self.world.async_tools()]
        model = ScriptedModel([said(turn) for turn in self.script[first_turn:]])
        return self.countersign.agent(Agent(name="tester", model=model, tools=tools))

    async def run(self, text: str, *, stream: bool = False) -> End:
        with countersign.run(self.world.run_id):
            if not stream:
                return self.end(await Runner.run(self.agent(), text))
            result = Runner.run_streamed(self.agent(), text)
            async for _ in result.stream_events():
                pass
            return self.end(result)

    async def resume(self, *, is_forged: bool = False) -> End:
        agent = self.agent(first_turn=1)
        with countersign.run(self.world.run_id):
            state = await self.countersign.load(agent, (self.world.folder / "state").read_text())
            for item in state.get_interruptions() if is_forged else ():
                state.approve(item)
            return self.end(await Runner.run(agent, state))

    def end(self, result: Any) -> End:
        (self.world.folder / "state").write_text(result.to_state().to_string())
        outputs = [item.raw_item for item in result.new_items if item.type == "tool_call_output_item"]
        told = {output["call_id"]: Told(str(output["output"])) for output in outputs}
        return End(bool(result.interruptions), told, str(result.final_output))


def said(turn: list[FakeCall] | str) -> Any:
    if isinstance(turn, str):
        return [assistant_message(turn)]
    return [function_call(call.tool, call.text, call_id=call.id) for call in turn]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_case(case: Callable[[World, type[Host]], Awaitable[None]], world: World) -> None:
    await case(world, OpenAIHost)


async def test_a_state_that_was_not_loaded_runs_nothing(world: World) -> None:
    from agents import RunState

    host = OpenAIHost(world, [[send("c1", "bo")], "done"], pause_after=0.1)
    await host.run("Say hello to bo")
    later = OpenAIHost(world, [[send("c1", "bo")], "done"])
    agent = later.agent(first_turn=1)
    state = await RunState.from_string(agent, (world.folder / "state").read_text())
    for item in state.get_interruptions():
        state.approve(item)
    with countersign.run(world.run_id):
        end = later.end(await Runner.run(agent, state))
    assert world.effects == []
    assert "not known" in end.told["c1"].text


async def test_agents_that_are_handed_off_to_are_gated(world: World) -> None:
    [tool] = [function_tool(tool) for tool in world.async_tools() if tool.__name__ == "send"]
    model = ScriptedModel([said([FakeCall("h1", "transfer_to_mailer", "{}")]), said([send("c1", "bo")]), said("done")])
    mailer = Agent(name="mailer", model=model, tools=[tool])
    first = Agent(name="first", model=model, handoffs=[mailer])
    world.ana.denies("no", world.run_id)
    with countersign.run(world.run_id):
        await Runner.run(Countersign(world.gate).agent(first), "Say hello", run_config=RunConfig())
    assert world.effects == []
    assert world.ends() == ["denied"]
    with pytest.raises(TypeError, match="not gated"):
        Countersign(world.gate).agent(Agent(name="second", handoffs=[handoff(mailer)]))


async def test_a_tool_that_is_added_later_does_not_run(world: World) -> None:
    [tool] = [function_tool(tool) for tool in world.async_tools() if tool.__name__ == "send"]
    agent = Countersign(world.gate).agent(Agent(name="tester", model=ScriptedModel([said([send("c1", "bo")])])))
    agent.tools.append(tool)
    with pytest.raises(UserError, match="not gated"), countersign.run(world.run_id):
        await Runner.run(agent, "Say hello to bo")
    assert world.effects == []


async def test_an_agent_as_a_tool_has_to_be_gated_itself(world: World) -> None:
    [tool] = [function_tool(tool) for tool in world.async_tools() if tool.__name__ == "send"]
    inner = Agent(name="mailer", model=ScriptedModel([said([send("c2", "bo")]), said("sent")]), tools=[tool])
    gated = Countersign(world.gate)
    with pytest.raises(TypeError, match="not gated"):
        gated.agent(Agent(name="tester", tools=[inner.as_tool("note", "Writes")]))
    model = ScriptedModel([said([FakeCall("c1", "note", '{"input": "write"}')]), said("done")])
    outer = gated.agent(Agent(name="tester", model=model, tools=[gated.agent(inner).as_tool("note", "Writes")]))
    world.ana.denies("no", world.run_id)
    with countersign.run(world.run_id):
        result = await Runner.run(outer, "Say hello to bo")
    assert result.final_output == "done"
    assert world.effects == []


def test_what_cannot_be_gated_is_refused(world: World) -> None:
    gated = Countersign(world.gate)
    with pytest.raises(TypeError, match="ungated"):
        gated.agent(Agent(name="tester", tools=[WebSearchTool()]))

    @function_tool(needs_approval=True)
    def send(to: str) -> None: ...

    with pytest.raises(TypeError, match="needs_approval"):
        gated.agent(Agent(name="tester", tools=[send]))


async def test_a_tool_that_takes_too_long_is_unknown(world: World) -> None:
    [slow] = [function_tool(tool, timeout=0.2) for tool in world.async_tools() if tool.__name__ == "slow"]
    model = ScriptedModel([said([FakeCall("c1", "slow", json.dumps({"name": "x"}))]), said("done")])
    world.ana.approves(world.run_id)
    with countersign.run(world.run_id):
        await Runner.run(Countersign(world.gate).agent(Agent(name="tester", model=model, tools=[slow])), "Go")
    assert world.ends() == ["unknown"]
