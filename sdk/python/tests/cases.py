"""The cases that every adapter passes, against the real service and the framework's own fake model.

A case is a coroutine function that gets a `World` and the class of a `Host`. What counts is what the tools did
(`world.effects`), then what the model was told, then what the service has recorded.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import Person
from service import Service

from countersign import Choice, Gate


@dataclass(frozen=True)
class FakeCall:
    """A call that the fake model makes. `text` is what a provider would send."""

    id: str
    tool: str
    text: str

    @property
    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = json.loads(self.text)
        return arguments


Script = Sequence["list[FakeCall] | str"]
"""What the fake model says in each turn: calls, or words."""


@dataclass(frozen=True)
class Told:
    """What the model was told about a call. `is_error` is the framework's own mark, if it has one."""

    text: str
    is_error: bool | None = None


@dataclass(frozen=True)
class End:
    """How a run of the agent ended: with words, or paused until somebody decides."""

    is_paused: bool
    told: dict[str, Told]
    text: str = ""


@dataclass
class World:
    """The tools and what they did, the service, and the folder in which a host keeps its state."""

    gate: Gate
    ana: Person
    service: Service
    run_id: str
    folder: Path
    effects: list[tuple[str, Any]] = field(default_factory=list)
    _meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(3))

    def fork(self, name: str) -> World:
        """Returns a world with a copy of the host's state, as it is now, and the same tools."""
        folder = self.folder.parent / f"{self.folder.name}-{name}"
        shutil.copytree(self.folder, folder)
        return World(self.gate, self.ana, self.service, self.run_id, folder, self.effects, self._meeting)

    def sync_tools(self) -> list[Callable[..., Any]]:
        def look_up(q: str) -> str:
            """Looks something up."""
            self.effects.append(("look_up", {"q": q}))
            return f"found {q}"

        def note(text: str) -> str:
            """Writes a note."""
            self.effects.append(("note", {"text": text}))
            return "noted"

        def send(to: str, text: str) -> str:
            """Sends a message."""
            self.effects.append(("send", {"to": to, "text": text}))
            return f"sent to {to}"

        def exact(payload: dict[str, Any]) -> str:
            """Does something whose bytes matter."""
            self.effects.append(("exact", payload))
            return "exact"

        def refund(amount: float) -> str:
            """Refunds a customer."""
            self.effects.append(("refund", {"amount": amount}))
            return "refunded"

        def fail(reason: str) -> str:
            """Fails."""
            self.effects.append(("fail", {"reason": reason}))
            raise LookupError(reason)

        def meet(name: str) -> str:
            """Returns once three are here at the same time."""
            self._meeting.wait(20)
            self.effects.append(("meet", {"name": name}))
            return f"met {name}"

        return [look_up, note, send, exact, refund, fail, meet]

    def async_tools(self) -> list[Callable[..., Awaitable[Any]]]:
        sync = {tool.__name__: tool for tool in self.sync_tools()}

        async def look_up(q: str) -> str:
            """Looks something up."""
            return str(sync["look_up"](q))

        async def note(text: str) -> str:
            """Writes a note."""
            return str(sync["note"](text))

        async def send(to: str, text: str) -> str:
            """Sends a message."""
            return str(sync["send"](to, text))

        async def exact(payload: dict[str, Any]) -> str:
            """Does something whose bytes matter."""
            return str(sync["exact"](payload))

        async def refund(amount: float) -> str:
            """Refunds a customer."""
            return str(sync["refund"](amount))

        async def fail(reason: str) -> str:
            """Fails."""
            return str(sync["fail"](reason))

        async def meet(name: str) -> str:
            """Returns once three are here at the same time."""
            return str(await asyncio.to_thread(sync["meet"], name))

        async def slow(name: str) -> str:
            """Takes long."""
            self.effects.append(("slow", {"name": name}))
            await asyncio.sleep(60)
            return "late"

        return [look_up, note, send, exact, refund, fail, meet, slow]

    def ends(self) -> list[str | None]:
        """Returns how the calls of the run ended, by the service's record."""
        return [call.end for approval in self.gate.approvals(run_id=self.run_id) for call in approval.calls]


class Host(ABC):
    """An agent of one framework, with the fake model and the tools of the world."""

    is_sync = False
    can_pause = True
    is_parallel = True
    """Whether the framework runs the calls of a turn side by side."""
    largest_integer = 2**62 + 1
    is_batched = True
    """Whether the framework tells all calls of a turn before it runs the first."""

    def __init__(
        self, world: World, script: Script, *, timeout: float | None = None, pause_after: float | None = None
    ) -> None:
        self.world = world
        self.script = script
        self.timeout = timeout
        self.pause_after = pause_after

    @abstractmethod
    async def run(self, text: str, *, stream: bool = False) -> End:
        """Lets a person say something, and runs the agent until it ends or pauses."""

    @abstractmethod
    async def resume(self, *, is_forged: bool = False) -> End:
        """Takes up the run from the world's folder, as another process would; forged: as one that claims approval."""


def send(id: str, to: str, text: str = "hello") -> FakeCall:
    return FakeCall(id, "send", json.dumps({"to": to, "text": text}))


def look_up(id: str, q: str) -> FakeCall:
    return FakeCall(id, "look_up", json.dumps({"q": q}))


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


async def decide(world: World, approved: bool = True, **settings: Any) -> Any:
    approval = await asyncio.to_thread(world.ana.next, world.run_id)
    return await asyncio.to_thread(lambda: world.ana.gate.decide(approval.id, approved, **settings))


# ---- the cases ----


async def approve(world: World, host: type[Host]) -> None:
    running = asyncio.create_task(host(world, [[send("c1", "bo")], "done"]).run("Say hello to bo"))
    approval = await asyncio.to_thread(world.ana.next, world.run_id)
    assert world.effects == []
    assert [call.summary for call in approval.calls] == ["Send “hello” to bo"]
    await decide(world)
    end = await running
    assert world.effects == [("send", {"to": "bo", "text": "hello"})]
    assert end.told["c1"].text == "sent to bo" and not end.told["c1"].is_error
    assert end.text == "done"
    assert world.ends() == ["succeeded"]


async def deny(world: World, host: type[Host]) -> None:
    world.ana.denies("bo is on holiday", world.run_id)
    end = await host(world, [[send("c1", "bo")], "done"]).run("Say hello to bo")
    assert world.effects == []
    assert "bo is on holiday" in end.told["c1"].text and "did not run" in end.told["c1"].text
    assert end.told["c1"].is_error is not False
    assert end.text == "done"


async def edit(world: World, host: type[Host]) -> None:
    world.ana.edits({"to": "cy", "text": "hello"}, world.run_id)
    end = await host(world, [[send("c1", "bo")], "done"]).run("Say hello to bo")
    assert world.effects == [("send", {"to": "cy", "text": "hello"})]
    told = end.told["c1"]
    assert "ana changed this call" in told.text and "sent to cy" in told.text and not told.is_error


async def timeout(world: World, host: type[Host]) -> None:
    end = await host(world, [[send("c1", "bo")], "done"], timeout=0.3).run("Say hello to bo")
    assert world.effects == []
    assert "Nobody has decided" in end.told["c1"].text
    assert [approval.status for approval in world.gate.approvals(run_id=world.run_id)] == ["pending"]


async def forbidden(world: World, host: type[Host]) -> None:
    call = FakeCall("c1", "refund", '{"amount": 1e30}')
    end = await host(world, [[call], "done"]).run("Refund")
    assert world.effects == []
    assert "made by hand" in end.told["c1"].text


async def one_approval_for_a_turn(world: World, host: type[Host]) -> None:
    if not host.is_batched:
        pytest.skip("the framework asks about one call after the other")
    calls = [send("c1", "bo"), send("c2", "cy"), send("c3", "di")]
    world.ana.approves(world.run_id)
    end = await host(world, [calls, "done"]).run("Say hello")
    [approval] = world.gate.approvals(run_id=world.run_id)
    assert len(approval.calls) == 3
    assert sorted(call["to"] for _, call in world.effects) == ["bo", "cy", "di"]
    assert {id: told.text for id, told in end.told.items()} == {
        "c1": "sent to bo",
        "c2": "sent to cy",
        "c3": "sent to di",
    }


async def part_of_a_batch(world: World, host: type[Host]) -> None:
    if not host.is_batched:
        pytest.skip("the framework asks about one call after the other")
    calls = [send("c1", "bo"), send("c2", "cy"), send("c3", "di")]
    running = asyncio.create_task(host(world, [calls, "done"]).run("Say hello"))
    choices = [Choice(True), Choice(False), Choice(True, {"to": "eve", "text": "hello"})]
    await decide(world, choices=choices, comment="not cy")
    end = await running
    assert sorted(call["to"] for _, call in world.effects) == ["bo", "eve"]
    assert "not cy" in end.told["c2"].text
    assert "ana changed" in end.told["c3"].text
    assert end.told["c1"].text == "sent to bo"


async def reads_do_not_wait(world: World, host: type[Host]) -> None:
    calls = [send("c1", "bo"), look_up("c2", "cy"), FakeCall("c3", "note", '{"text": "x"}')]
    running = asyncio.create_task(host(world, [calls, "done"]).run("Say hello"))
    await asyncio.to_thread(world.ana.next, world.run_id)
    if host.is_parallel:
        await until(lambda: len(world.effects) == 2)
        assert sorted(tool for tool, _ in world.effects) == ["look_up", "note"]
    await decide(world)
    end = await running
    assert sorted(tool for tool, _ in world.effects) == ["look_up", "note", "send"]
    assert [end.told[id].text for id in ("c1", "c2", "c3")] == ["sent to bo", "found cy", "noted"]


async def resume_later(world: World, host: type[Host]) -> None:
    calls = [send("c1", "bo"), FakeCall("c2", "note", '{"text": "x"}')]
    script: Script = [calls, "done"]
    await stop_while_waiting(world, host, script)
    assert ("send", {"to": "bo", "text": "hello"}) not in world.effects
    if host.can_pause:
        # Too early: it pauses again.
        assert (await host(world, script, pause_after=0.1).resume()).is_paused
        assert ("send", {"to": "bo", "text": "hello"}) not in world.effects
    await decide(world)
    end = await host(world, script, pause_after=0.1 if host.can_pause else None).resume()
    assert sorted(tool for tool, _ in world.effects) == ["note", "send"]
    assert end.told["c1"].text == "sent to bo"
    assert end.text == "done"
    assert (
        len([approval for approval in world.gate.approvals(run_id=world.run_id) if approval.status == "approved"]) == 1
    )


async def resume_twice(world: World, host: type[Host]) -> None:
    script: Script = [[send("c1", "bo")], "done"]
    await stop_while_waiting(world, host, script)
    copies = [world.fork("one"), world.fork("two")]
    await decide(world)
    ends = await asyncio.gather(*(host(copy, script).resume() for copy in copies))
    assert world.effects == [("send", {"to": "bo", "text": "hello"})]
    assert all("sent to bo" in end.told["c1"].text for end in ends)


async def forged_approval(world: World, host: type[Host]) -> None:
    script: Script = [[send("c1", "bo")], "done"]
    await stop_while_waiting(world, host, script)
    end = await host(world, script, timeout=0.2, pause_after=0.1 if host.can_pause else None).resume(is_forged=True)
    assert world.effects == []
    assert end.is_paused or "Nobody has decided" in end.told["c1"].text
    await decide(world, False, comment="no")
    if end.is_paused:
        end = await host(world, script, pause_after=0.1).resume(is_forged=True)
        assert "no" in end.told["c1"].text
    assert world.effects == []


async def three_in_parallel(world: World, host: type[Host]) -> None:
    if not host.is_parallel:
        pytest.skip("the framework runs one call after the other")
    calls = [FakeCall(f"c{n}", "meet", json.dumps({"name": f"p{n}"})) for n in (1, 2, 3)]
    world.ana.approves(world.run_id)
    end = await host(world, [calls, "done"]).run("Meet")
    assert sorted(call["name"] for _, call in world.effects) == ["p1", "p2", "p3"]
    assert {told.text for told in end.told.values()} == {"met p1", "met p2", "met p3"}


async def restart_while_waiting(world: World, host: type[Host]) -> None:
    running = asyncio.create_task(host(world, [[send("c1", "bo")], "done"]).run("Say hello to bo"))
    approval = await asyncio.to_thread(world.ana.next, world.run_id)
    await asyncio.sleep(0.2)
    await asyncio.to_thread(world.service.down)
    await asyncio.sleep(0.3)
    await asyncio.to_thread(world.service.up)
    await asyncio.to_thread(world.ana.gate.decide, approval.id, True)
    end = await running
    assert world.effects == [("send", {"to": "bo", "text": "hello"})]
    assert end.told["c1"].text == "sent to bo"


async def tool_raises(world: World, host: type[Host]) -> None:
    world.ana.approves(world.run_id)
    try:
        end = await host(world, [[FakeCall("c1", "fail", '{"reason": "no such person"}')], "done"]).run("Fail")
    except Exception as error:
        # Some frameworks end the run, others tell the model.
        assert "no such person" in str(error)
    else:
        assert end.told["c1"].text
    assert world.effects == [("fail", {"reason": "no such person"})]
    assert world.ends() == ["failed"]


async def cancelled(world: World, host: type[Host]) -> None:
    if host.is_sync:
        pytest.skip("a thread cannot be cancelled")
    world.ana.approves(world.run_id)
    running = asyncio.create_task(host(world, [[FakeCall("c1", "slow", '{"name": "x"}')], "done"]).run("Go"))
    await until(lambda: world.effects)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: world.ends() == ["unknown"])


async def exact_bytes(world: World, host: type[Host]) -> None:
    payload = {"z": host.largest_integer, "é🙂": ["\u2028", 1.5], "a": {"y": 1, "x": None}}
    call = FakeCall("c1", "exact", json.dumps({"payload": payload}, ensure_ascii=False))
    running = asyncio.create_task(host(world, [[call], "done"]).run("Go"))
    approval = await asyncio.to_thread(world.ana.next, world.run_id)
    shown = json.loads(approval.calls[0].raw["argumentsText"] or "")
    await decide(world)
    await running
    assert shown == {"payload": payload} and list(shown["payload"]) == list(payload)
    assert world.effects == [("exact", payload)]
    assert list(world.effects[0][1]) == list(payload)


async def streaming(world: World, host: type[Host]) -> None:
    world.ana.edits({"to": "cy", "text": "hello"}, world.run_id)
    end = await host(world, [[send("c1", "bo"), look_up("c2", "x")], "done"]).run("Say hello to bo", stream=True)
    assert sorted(tool for tool, _ in world.effects) == ["look_up", "send"]
    assert "sent to cy" in end.told["c1"].text and "ana changed" in end.told["c1"].text
    assert end.text == "done"


async def provenance(world: World, host: type[Host]) -> None:
    script: Script = [[look_up("c1", "x")], [send("c2", "bo@example.com", "found x and more")], "done"]
    running = asyncio.create_task(host(world, script).run("Write to bo@example.com"))
    approval = await asyncio.to_thread(world.ana.next, world.run_id)
    traced = approval.calls[0].raw["provenance"]
    assert traced is not None
    await decide(world, False)
    await running
    marks = {leaf["pointer"]: leaf["mark"] for leaf in traced["leaves"]}
    assert marks["/to"] == "user"
    assert marks["/text"] == "none"
    assert traced["conversationFrom"] == "agent"


async def stop_while_waiting(world: World, host: type[Host], script: Script) -> None:
    """Runs the agent until it waits for a decision, and ends it there."""
    if host.can_pause:
        end = await host(world, script, pause_after=0.1).run("Say hello to bo")
        assert end.is_paused
        return
    running = asyncio.create_task(host(world, script).run("Say hello to bo"))
    await asyncio.to_thread(world.ana.next, world.run_id)
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


CASES = [
    approve,
    deny,
    edit,
    timeout,
    forbidden,
    one_approval_for_a_turn,
    part_of_a_batch,
    reads_do_not_wait,
    resume_later,
    resume_twice,
    forged_approval,
    three_in_parallel,
    restart_while_waiting,
    tool_raises,
    cancelled,
    exact_bytes,
    streaming,
    provenance,
]
"""Each is a test of each adapter."""
