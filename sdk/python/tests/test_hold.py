"""`@gate.hold`: what runs, with which arguments, and what the caller is told. Each test looks at what the tool did."""

from __future__ import annotations

import asyncio
import inspect
import typing
from pathlib import Path
from typing import Any

import pytest
from conftest import Person

import countersign
from countersign import AsyncGate, Denied, Expired, Failed, Gate, Mismatch, NotJSON, ResultTooLarge, TimedOut, Unknown


@pytest.fixture
def sent() -> list[Any]:
    return []


def make_send(gate: Gate, sent: list[Any], **settings: Any) -> Any:
    hold: Any = gate.hold(**settings)

    def send(to: str, text: str = "hello") -> str:
        """Sends a message."""
        sent.append((to, text))
        return f"sent to {to}"

    return hold(send)


def test_an_approved_call_runs_once(gate: Gate, ana: Person, sent: list[Any]) -> None:
    send = make_send(gate, sent)
    decided = ana.later(lambda ana: (list(sent), ana.gate.decide(ana.next(tool="send").id, True)))
    assert send("bo") == "sent to bo"
    assert decided.result()[0] == []
    assert sent == [("bo", "hello")]
    [call] = decided.result()[1].calls
    # The default was shown, too.
    assert call.raw["arguments"] == {"to": "bo", "text": "hello"}
    assert gate.approval(decided.result()[1].id).calls[0].result == "sent to bo"


def test_a_denied_call_raises_or_returns(gate: Gate, ana: Person, sent: list[Any]) -> None:
    ana.denies("not this customer", tool="send")
    with pytest.raises(Denied) as denied:
        make_send(gate, sent)("bo")
    assert (denied.value.comment, denied.value.decided_by) == ("not this customer", "ana")
    ana.denies("not this customer", tool="send")
    answer = make_send(gate, sent, on_denied="return")("bo")
    assert "denied" in answer and "not this customer" in answer
    assert sent == []


def test_an_edit_is_what_runs_and_is_told(gate: Gate, ana: Person, sent: list[Any]) -> None:
    ana.edits({"to": "cy", "text": "hi"}, tool="send")
    answer = make_send(gate, sent, on_denied="return")("bo", "hi")
    assert sent == [("cy", "hi")]
    assert answer.endswith("\n\nsent to cy")
    assert "ana changed this call" in answer and "cy" in answer
    ana.edits({"to": "cy", "text": "hi"}, tool="send")
    assert make_send(gate, sent)("bo", "hi") == "sent to cy"


def test_the_approved_bytes_run_not_the_ones_in_memory(gate: Gate, ana: Person, sent: list[Any]) -> None:
    payload = {"n": [1]}

    @gate.hold(name="send")
    def send(payload: dict[str, Any]) -> None:
        sent.append(payload)

    def change_and_approve(ana: Person) -> None:
        id = ana.next(tool="send").id
        payload["n"].append(2)
        ana.gate.decide(id, True)

    ana.later(change_and_approve)
    send(payload)
    assert sent == [{"n": [1]}]


def test_an_edit_that_does_not_fit_runs_nothing(gate: Gate, ana: Person, sent: list[Any]) -> None:
    for arguments in ({"to": "cy", "txt": "hi"}, {"text": "hi"}):
        decided = ana.edits(arguments, tool="send")
        with pytest.raises(Mismatch):
            make_send(gate, sent)("bo", "hi")
        assert gate.approval(decided.result().id).calls[0].end == "not_sent"
    assert sent == []


def test_nobody_decides(gate: Gate, ana: Person, sent: list[Any]) -> None:
    with pytest.raises(TimedOut) as timed_out:
        make_send(gate, sent, timeout=0.2)("bo")
    assert timed_out.value.approval is not None
    # Without a run nobody can take it up, so nobody is asked any more.
    assert gate.approval(timed_out.value.approval).status == "withdrawn"
    with pytest.raises(Expired):
        make_send(gate, sent, name="brief")("bo")
    assert sent == []


def test_a_tool_that_raises_has_failed(gate: Gate, ana: Person) -> None:
    @gate.hold
    def send(to: str) -> None:
        raise LookupError(f"no {to}")

    decided = ana.approves(tool="send")
    with pytest.raises(LookupError):
        send("bo")
    [call] = gate.approval(decided.result().id).calls
    assert (call.end, call.result) == ("failed", {"error": "LookupError: no bo"})


def test_a_tool_that_is_interrupted_is_unknown(gate: Gate, ana: Person) -> None:
    @gate.hold
    def send(to: str) -> None:
        raise KeyboardInterrupt

    decided = ana.approves(tool="send")
    with pytest.raises(KeyboardInterrupt):
        send("bo")
    assert gate.approval(decided.result().id).calls[0].end == "unknown"


def test_a_call_that_passes_is_recorded(gate: Gate, ana: Person, sent: list[Any], run_id: str) -> None:
    note = make_send(gate, sent, name="note")
    with countersign.run(run_id):
        assert note("bo") == "sent to bo"
    [passed] = gate.approvals(run_id=run_id)
    assert (passed.status, passed.calls[0].end) == ("passed", "succeeded")
    assert make_send(gate, sent, name="look_up")("cy") == "sent to cy"
    assert sent == [("bo", "hello"), ("cy", "hello")]


def test_a_run_is_taken_up_again(gate: Gate, ana: Person, sent: list[Any], run_id: str) -> None:
    send = make_send(gate, sent, timeout=0.2)

    def both() -> list[str]:
        with countersign.run(run_id):
            return [send("bo"), send("bo")]

    with pytest.raises(TimedOut):
        both()
    [waiting] = ana.pending(run_id)
    ana.gate.decide(waiting.id, True)
    # The first call runs now; the second, although it looks the same, is another one.
    with pytest.raises(TimedOut):
        both()
    assert sent == [("bo", "hello")]
    ana.gate.decide(ana.next(run_id).id, True)
    assert both() == both() == ["sent to bo", "sent to bo"]
    assert sent == [("bo", "hello")] * 2


def test_what_failed_is_not_run_again(gate: Gate, ana: Person, run_id: str) -> None:
    ran = []

    @gate.hold
    def send(to: str) -> None:
        ran.append(to)
        raise LookupError

    ana.approves(run_id)
    for error in (LookupError, Failed):
        with pytest.raises(error), countersign.run(run_id):
            send("bo")
    assert ran == ["bo"]


def test_a_result_that_is_too_large(gate: Gate, ana: Person, run_id: str) -> None:
    @gate.hold
    def send(size: int) -> str:
        return "é" * size

    def call(size: int) -> str:
        with countersign.run(f"{run_id}-{size}"):
            return send(size)

    for size in (300_000, 3_000_000):
        ana.approves(f"{run_id}-{size}")
        assert len(call(size)) == size
        with pytest.raises(ResultTooLarge):
            call(size)


class Opaque:
    pass


@pytest.mark.parametrize("value", [Opaque(), (1, 2), {1: 2}, float("nan"), {"deep": [{1}]}, "\ud800"])
def test_what_json_cannot_say_is_refused(gate: Gate, ana: Person, sent: list[Any], value: Any) -> None:
    with pytest.raises(NotJSON):
        make_send(gate, sent)("bo", value)
    assert sent == [] and ana.pending(tool="send") == []


def test_exact_values(gate: Gate, ana: Person, sent: list[Any]) -> None:
    value = {"z": 2**53 + 1, "a": 1.1, "é🙂": "\u2028\u0000", "n": [None, True, -(2**70)]}
    ana.approves(tool="send")
    make_send(gate, sent)("bo", value)
    assert sent == [("bo", value)]
    assert list(sent[0][1]) == list(value)


def test_methods_and_context(gate: Gate, ana: Person) -> None:
    class Mailer:
        def __init__(self) -> None:
            self.sent: list[Any] = []

        @gate.hold(context=("self",))
        def send(self, to: str, *more: str, **options: int) -> int:
            self.sent.append((to, more, options))
            return len(self.sent)

    mailer = Mailer()
    ana.approves(tool="send")
    assert mailer.send("bo", "cy", copies=2) == 1
    assert mailer.sent == [("bo", ("cy",), {"copies": 2})]

    class Other:
        @gate.hold
        def send(self, to: str) -> None: ...

    with pytest.raises(NotJSON, match="context="):
        Other().send("bo")
    with pytest.raises(TypeError, match="no parameter slef"):
        gate.hold(context=("slef",))(lambda self: None)


def test_the_function_keeps_its_face(gate: Gate, sent: list[Any]) -> None:
    send = make_send(gate, sent)
    assert (send.__name__, send.__doc__) == ("send", "Sends a message.")
    assert str(inspect.signature(send)) == "(to: str, text: str = 'hello') -> str"
    assert typing.get_type_hints(send) == {"to": str, "text": str, "return": str}
    # Nobody gets at the ungated function.
    assert inspect.unwrap(send) is send
    with pytest.raises(TypeError, match="generator"):

        @gate.hold
        def send_all() -> Any:
            yield 1


async def test_async_functions(gate: Gate, async_gate: AsyncGate, ana: Person, sent: list[Any]) -> None:
    for either in (gate, async_gate):

        @either.hold(on_denied="return")
        async def send(to: str) -> str:
            sent.append(to)
            return f"sent to {to}"

        ana.approves(tool="send")
        assert await send("bo") == "sent to bo"
        ana.denies("no", tool="send")
        assert "denied" in await send("bo")
    assert sent == ["bo", "bo"]
    with pytest.raises(TypeError, match="use|hold it with `Gate`"):
        async_gate.hold(lambda: None)


async def test_a_cancelled_tool_is_unknown(async_gate: AsyncGate, gate: Gate, ana: Person) -> None:
    began = asyncio.Event()

    @async_gate.hold
    async def send(to: str) -> None:
        began.set()
        await asyncio.sleep(60)

    decided = ana.approves(tool="send")
    task = asyncio.create_task(send("bo"))
    await asyncio.wait_for(began.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.approval(decided.result().id).calls[0].end == "unknown"


async def test_a_cancelled_wait_is_withdrawn(async_gate: AsyncGate, ana: Person, gate: Gate) -> None:
    @async_gate.hold
    async def send(to: str) -> None:
        raise AssertionError("ran")

    task = asyncio.create_task(send("bo"))
    id = (await asyncio.to_thread(ana.next, None, "send")).id
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.approval(id).status == "withdrawn"


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_a_cancellation_is_never_lost(async_gate: AsyncGate, ana: Person, steps: int) -> None:
    @async_gate.hold(timeout=5)
    async def send(to: str) -> None:
        raise AssertionError("ran")

    task = asyncio.create_task(send("bo"))
    # Wherever the call is by then: connecting, proposing, waiting.
    for _ in range(steps):
        await asyncio.sleep(0.0005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_unrecorded_outcome_is_unknown(gate: Gate, ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    from countersign import ServerDown

    @gate.hold
    def send(to: str) -> str:
        def fail(*_: Any) -> None:
            raise ServerDown("gone")

        monkeypatch.setattr(gate, "finish", fail)
        return "done"

    ana.approves(tool="send")
    with pytest.raises(Unknown) as unknown:
        send("bo")
    assert unknown.value.result == "done"


def test_a_new_process_takes_up_the_run(
    gate: Gate, ana: Person, run_id: str, tmp_path: Path, tokens: dict[str, str]
) -> None:
    import subprocess
    import sys

    program = tmp_path / "agent.py"
    program.write_text(
        "import countersign, sys\n"
        "gate = countersign.Gate()\n"
        "@gate.hold(timeout=float(sys.argv[3]))\n"
        "def send(to: str) -> str:\n"
        "    open(sys.argv[2], 'a').write(to + '\\n')\n"
        "    return 'sent'\n"
        "with countersign.run(sys.argv[1]):\n"
        "    print(send('bo'))\n"
    )
    log = tmp_path / "log"
    environment = {
        "COUNTERSIGN_SERVER": "http://" + gate._address.name,
        "COUNTERSIGN_TOKEN": tokens["agent"],
        "PYTHONPATH": str(Path(countersign.__file__).parents[1]),
    }

    def start(timeout: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(program), run_id, str(log), str(timeout)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    assert "TimedOut" in start(0.1).stderr
    ana.gate.decide(ana.next(run_id).id, True)
    assert start(5).stdout == start(5).stdout == "sent\n"
    assert log.read_text() == "bo\n"
