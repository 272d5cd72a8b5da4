"""The shared cases with Pydantic AI and its `FunctionModel`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from cases import CASES, End, Host, Told, World, decide, send
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from countersign.pydantic_ai import Countersign


class PydanticHost(Host):
    def agent(self) -> Agent[None, Any]:
        def said(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            turn = self.script[sum(isinstance(message, ModelResponse) for message in messages)]
            if isinstance(turn, str):
                return ModelResponse(parts=[TextPart(turn)])
            return ModelResponse(parts=[ToolCallPart(call.tool, call.text, tool_call_id=call.id) for call in turn])

        async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
            for index, part in enumerate(said(messages, info).parts):
                if isinstance(part, TextPart):
                    yield part.content
                elif isinstance(part, ToolCallPart):
                    yield {
                        index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)
                    }

        return Agent(
            FunctionModel(said, stream_function=streamed),
            tools=self.world.async_tools(),
            output_type=[str, DeferredToolRequests],
            capabilities=[Countersign(self.world.gate, timeout=self.timeout, pause_after=self.pause_after)],
        )

    async def run(self, text: str, *, stream: bool = False) -> End:
        agent = self.agent()
        if not stream:
            return self.end(await agent.run(text, conversation_id=self.world.run_id))
        async with agent.run_stream_events(text, conversation_id=self.world.run_id) as events:
            result = [event.result async for event in events if event.event_kind == "agent_run_result"]
        return self.end(result[-1])

    async def resume(self, *, is_forged: bool = False) -> End:
        messages = ModelMessagesTypeAdapter.validate_json((self.world.folder / "messages").read_bytes())
        done = {
            part.tool_call_id
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        }
        [response] = [message for message in messages if isinstance(message, ModelResponse)]
        waiting = [call for call in response.tool_calls if call.tool_call_id not in done]
        requests = DeferredToolRequests(approvals=waiting)
        # The framework's own way to say yes, which is also how a run goes on.
        results = requests.build_results(approve_all=True)
        return self.end(await self.agent().run(message_history=messages, deferred_tool_results=results))

    def end(self, result: Any) -> End:
        messages = result.all_messages()
        (self.world.folder / "messages").write_bytes(result.all_messages_json())
        parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
        told = {
            part.tool_call_id: Told(part.model_response_str(), part.outcome in ("denied", "failed"))
            for part in parts
            if isinstance(part, ToolReturnPart)
        }
        is_paused = isinstance(result.output, DeferredToolRequests)
        return End(is_paused, told, "" if is_paused else result.output)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_case(case: Callable[[World, type[Host]], Awaitable[None]], world: World) -> None:
    await case(world, PydanticHost)


async def test_an_output_tool_is_not_held(world: World) -> None:
    class Answer(BaseModel):
        text: str

    def said(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        read = ToolCallPart("look_up", {"q": "bo"}, tool_call_id="c1")
        return ModelResponse(parts=[read, ToolCallPart(info.output_tools[0].name, {"text": "done"}, tool_call_id="o1")])

    agent = Agent(
        FunctionModel(said),
        tools=world.async_tools(),
        output_type=Answer,
        end_strategy="exhaustive",
        capabilities=[Countersign(world.gate)],
    )
    result = await agent.run("Look bo up", conversation_id=world.run_id)
    assert result.output == Answer(text="done")
    assert world.effects == [("look_up", {"q": "bo"})]
    assert world.gate.approvals(run_id=world.run_id) == []


async def test_forged_arguments_do_not_run(world: World) -> None:
    host = PydanticHost(world, [[send("c1", "bo")], "done"], pause_after=0.1)
    assert (await host.run("Say hello to bo")).is_paused
    await decide(world)
    messages = ModelMessagesTypeAdapter.validate_json((world.folder / "messages").read_bytes())
    [response] = [message for message in messages if isinstance(message, ModelResponse)]
    response.parts[0].args = '{"to": "eve", "text": "hello"}'  # type: ignore[union-attr]
    (world.folder / "messages").write_bytes(ModelMessagesTypeAdapter.dump_json(messages))
    with pytest.raises(Exception, match="key"):
        await PydanticHost(world, [[send("c1", "bo")], "done"], pause_after=0.1).resume()
    assert world.effects == []
