"""The shared cases with LangChain's `create_agent`, asynchronous and synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import aiosqlite
import pytest
from cases import CASES, End, FakeCall, Host, Told, World
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from countersign.langchain import CountersignMiddleware


class FakeModel(FakeMessagesListChatModel):
    """The framework's fake model, which knows from the conversation how far its script is."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=self.responses[turn].model_copy())])


class LangChainHost(Host):
    def agent(self, checkpointer: Any) -> Any:
        tools: Any = self.world.sync_tools() if self.is_sync else self.world.async_tools()
        middleware = CountersignMiddleware(self.world.gate, timeout=self.timeout, pause_after=self.pause_after)
        model = FakeModel(responses=[said(turn) for turn in self.script])
        return create_agent(model, tools, middleware=[middleware], checkpointer=checkpointer)

    @property
    def config(self) -> Any:
        return {"configurable": {"thread_id": self.world.run_id}}

    @property
    def file(self) -> str:
        return str(self.world.folder / "checkpoints.db")

    async def run(self, text: str, *, stream: bool = False) -> End:
        return await self.invoke({"messages": [("user", text)]}, stream)

    async def resume(self, *, is_forged: bool = False) -> End:
        # The shape in which the framework's own middleware takes decisions.
        value: Any = {"decisions": [{"type": "approve"}]} if is_forged else "look again"
        return await self.invoke(Command(resume=value) if self.can_pause else None, False)

    async def invoke(self, given: Any, stream: bool) -> End:
        async with aiosqlite.connect(self.file) as connection:
            agent = self.agent(AsyncSqliteSaver(connection))
            if stream:
                async for _ in agent.astream(given, self.config, stream_mode=["messages", "updates"]):
                    pass
                state = (await agent.aget_state(self.config)).values
            else:
                state = await agent.ainvoke(given, self.config)
        return end(state)


class SyncLangChainHost(LangChainHost):
    is_sync = True

    async def invoke(self, given: Any, stream: bool) -> End:
        def run() -> Any:
            with SqliteSaver.from_conn_string(self.file) as saver:
                agent = self.agent(saver)
                if not stream:
                    return agent.invoke(given, self.config)
                for _ in agent.stream(given, self.config, stream_mode=["messages", "updates"]):
                    pass
                return agent.get_state(self.config).values

        return end(await asyncio.to_thread(run))


class CrashingLangChainHost(LangChainHost):
    """A process that does not pause but ends while it waits; the graph goes on from its checkpoint."""

    can_pause = False


def said(turn: list[FakeCall] | str) -> AIMessage:
    if isinstance(turn, str):
        return AIMessage(turn)
    calls: Any = [{"name": call.tool, "args": call.arguments, "id": call.id} for call in turn]
    return AIMessage("", tool_calls=calls)


def end(state: Any) -> End:
    messages = state["messages"]
    told = {
        message.tool_call_id: Told(message.text, message.status == "error")
        for message in messages
        if isinstance(message, ToolMessage)
    }
    return End("__interrupt__" in state, told, messages[-1].text)


@pytest.mark.parametrize("host", [LangChainHost, SyncLangChainHost, CrashingLangChainHost])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_case(case: Callable[[World, type[Host]], Awaitable[None]], host: type[Host], world: World) -> None:
    restarts = ("resume_later", "resume_twice", "forged_approval")
    if host is CrashingLangChainHost and case.__name__ not in restarts:
        pytest.skip("the same as with pauses")
    await case(world, host)


def test_an_edit_is_told_with_a_command(world: World) -> None:
    def send(to: str, text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Sends a message, and updates the state."""
        world.effects.append(("send", to))
        return Command(update={"messages": [ToolMessage("sent", tool_call_id=tool_call_id)]})

    model = FakeModel(responses=[said([FakeCall("c1", "send", '{"to": "bo", "text": "hi"}')]), said("done")])
    agent: Any = create_agent(model, [tool(send)], middleware=[CountersignMiddleware(world.gate)])
    world.ana.edits({"to": "cy", "text": "hi"}, world.run_id)
    state = agent.invoke({"messages": [("user", "Go")]}, {"configurable": {"thread_id": world.run_id}})
    assert world.effects == [("send", "cy")]
    assert "ana changed this call" in end(state).told["c1"].text
