"""The gate itself: proposing, waiting, deciding, starting, finishing."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from conftest import Person
from service import Service

from countersign import (
    AsyncGate,
    Call,
    Choice,
    Forbidden,
    Gate,
    Message,
    Refused,
    ServerDown,
    WrongToken,
    WrongURL,
)

EXACT = '{"z":12345678901234567890123,"a":[1.10,"é🙂"],"to":"ana","text":"x"}'


def test_approved_bytes_are_given_out_once(gate: Gate, ana: Person, run_id: str) -> None:
    submission = gate.submit([Call("send", EXACT)], run_id=run_id)
    assert submission.approval is not None
    [ruling] = submission.calls
    assert ruling.ruling == "held" and ruling.id is not None
    ana.approves(run_id)
    approval = gate.wait(submission.approval.id, timeout=20)
    assert approval.status == "approved" and approval.decided_by == "ana"

    permit = gate.start(ruling.id)
    assert permit.arguments_text == EXACT
    assert permit.arguments["z"] == 12345678901234567890123
    with pytest.raises(Refused) as refused:
        gate.start(ruling.id)
    assert refused.value.code == "wrong_state"

    gate.finish(permit, "succeeded", {"sent": True})
    gate.finish(permit, "succeeded", {"sent": True})
    [call] = gate.approval(approval.id).calls
    assert (call.state, call.end, call.result) == ("succeeded", "succeeded", {"sent": True})


def test_the_same_key_tells_the_present_state(gate: Gate, ana: Person, run_id: str) -> None:
    call = Call("send", {"to": "bo", "text": "hi"})
    first = gate.submit([call], key=run_id, run_id=run_id)
    assert first.approval is not None
    ana.gate.decide(first.approval.id, False, comment="no")
    again = gate.submit([call], key=run_id, run_id=run_id)
    assert again.approval is not None
    assert (again.approval.id, again.approval.status) == (first.approval.id, "denied")
    with pytest.raises(Refused, match="key"):
        gate.submit([Call("send", {"to": "bo", "text": "other"})], key=run_id, run_id=run_id)


def test_rulings(gate: Gate) -> None:
    submission = gate.submit(
        [Call("look_up", {"q": 1}), Call("note", {"text": "x"}), Call("refund", {"amount": 1e30}), Call("refund", "[]")]
    )
    assert [call.ruling for call in submission.calls] == ["pass", "pass", "forbidden", "forbidden"]
    assert submission.approval is None
    assert submission.calls[2].reason and "by hand" in submission.calls[2].reason


def test_a_dry_run_proposes_nothing(gate: Gate, ana: Person, run_id: str) -> None:
    submission = gate.submit([Call("send", {"to": "bo", "text": "hi"})], run_id=run_id, dry_run=True)
    assert [call.ruling for call in submission.calls] == ["held"]
    assert submission.approval is None
    assert ana.pending(run_id) == []


def test_a_batch_runs_in_any_order_and_in_part(gate: Gate, ana: Person, run_id: str) -> None:
    calls = [Call("send", {"to": name, "text": "hi"}) for name in ("bo", "cy", "di")]
    submission = gate.submit(calls, run_id=run_id, order="any")
    assert submission.approval is not None
    choices = [Choice(True), Choice(False), Choice(True, {"to": "eve", "text": "hi"})]
    ana.gate.decide(submission.approval.id, True, choices=choices, comment="not cy")
    approval = gate.wait(submission.approval.id, timeout=20)
    assert [call.end for call in approval.calls] == [None, "denied", None]
    third = gate.start(approval.calls[2].id)
    assert third.arguments == {"to": "eve", "text": "hi"}
    gate.finish(third, "failed", "no such address")
    first = gate.start(approval.calls[0].id)
    gate.finish(first, "succeeded")
    approval = gate.wait(approval.id, until="finished", timeout=20)
    assert [call.end for call in approval.calls] == ["succeeded", "denied", "failed"]
    assert [(edit.pointer, edit.was, edit.now) for edit in approval.calls[2].edits] == [("/to", "di", "eve")]


def test_waiting_ends_with_the_time(gate: Gate, run_id: str, ana: Person) -> None:
    submission = gate.submit([Call("send", {"to": "bo", "text": "hi"})], run_id=run_id)
    assert submission.approval is not None
    began = time.monotonic()
    assert gate.wait(submission.approval.id, timeout=0.3).is_pending
    assert time.monotonic() - began < 3
    assert gate.withdraw(submission.approval.id, "not needed").status == "withdrawn"


def test_a_wait_survives_a_restart(
    tokens: dict[str, str], gate: Gate, ana: Person, run_id: str, service: Service
) -> None:
    submission = gate.submit([Call("send", {"to": "bo", "text": "hi"})], run_id=run_id)
    assert submission.approval is not None
    id = submission.approval.id

    def restart() -> None:
        time.sleep(0.3)
        service.down()
        time.sleep(0.5)
        service.up()
        ana.gate.decide(id, True)

    thread = threading.Thread(target=restart)
    thread.start()
    assert gate.wait(id, timeout=60).status == "approved"
    thread.join()


def test_events(gate: Gate, ana: Person, run_id: str) -> None:
    submission = gate.submit([Call("send", {"to": "bo", "text": "hi"})], run_id=run_id)
    assert submission.approval is not None
    id = submission.approval.id
    ana.gate.decide(id, False)
    events = gate.events(after="0", approval=id)
    kinds = [next(events), next(events)]
    events.close()  # type: ignore[attr-defined]
    assert [event.approval for event in kinds] == [id, id]
    assert [event.kind for event in kinds] == ["proposed", "denied"]


async def test_async_events(async_gate: AsyncGate, ana: Person, run_id: str) -> None:
    submission = await async_gate.submit([Call("send", {"to": "bo", "text": "hi"})], run_id=run_id)
    assert submission.approval is not None
    id = submission.approval.id
    seen = []
    async for event in async_gate.events(after="0", approval=id, what=["proposed", "denied"]):
        seen.append(event.kind)
        if event.kind == "proposed":
            await asyncio.to_thread(ana.gate.decide, id, False)
        else:
            break
    assert seen == ["proposed", "denied"]


async def test_many_waits_in_one_process(async_gate: AsyncGate, ana: Person, run_id: str) -> None:
    calls = [Call("send", {"to": f"p{n}", "text": "hi"}) for n in range(12)]
    submissions = [await async_gate.submit([call], run_id=run_id) for call in calls]
    ids = [submission.approval.id for submission in submissions if submission.approval]
    waits = [asyncio.create_task(async_gate.wait(id, timeout=60)) for id in ids]
    await asyncio.sleep(0.2)
    assert not any(wait.done() for wait in waits)
    await asyncio.to_thread(lambda: [ana.gate.decide(id, n % 2 == 0) for n, id in enumerate(ids)])
    ended = await asyncio.gather(*waits)
    assert [approval.status for approval in ended] == ["approved", "denied"] * 6


def test_a_long_conversation_is_cut_to_its_newest_part(gate: Gate, ana: Person, run_id: str) -> None:
    said = [Message(role="user", text="x" * 10_000 + "\ud800") for _ in range(100)]
    said.append(Message(role="user", text="Write to bo@example.com"))
    call = Call("send", {"to": "bo@example.com", "text": "hi"})
    submission = gate.submit([call], run_id=run_id, conversation=said)
    assert submission.approval is not None
    traced = submission.approval.calls[0].raw["provenance"]
    assert traced is not None
    assert {leaf["pointer"]: leaf["mark"] for leaf in traced["leaves"]}["/to"] == "user"


async def test_a_key_cannot_smuggle_a_header(gate: Gate, async_gate: AsyncGate) -> None:
    call = Call("send", {"to": "bo", "text": "hi"})
    with pytest.raises(ValueError, match="key"):
        gate.submit([call], key="a\r\nX: y")
    with pytest.raises(ValueError, match="key"):
        await async_gate.submit([call], key="a\r\nX: y")
    with pytest.raises(WrongToken):
        AsyncGate("http://127.0.0.1:9", "a\r\nX: y")


def test_an_agents_token_cannot_decide(gate: Gate, run_id: str, ana: Person) -> None:
    submission = gate.submit([Call("send", {"to": "bo", "text": "hi"})], run_id=run_id)
    assert submission.approval is not None
    with pytest.raises(WrongToken, match="hint: make one with"):
        gate.decide(submission.approval.id, True)


def test_errors_say_what_to_do(service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERSIGN_SERVER", raising=False)
    monkeypatch.delenv("COUNTERSIGN_TOKEN", raising=False)
    with pytest.raises(WrongURL, match="COUNTERSIGN_SERVER"):
        Gate()
    with pytest.raises(WrongToken, match="COUNTERSIGN_TOKEN"):
        Gate(service.url)
    with pytest.raises(WrongURL, match="http://HOST:PORT"):
        Gate("localhost:8787", "token")
    with pytest.raises(WrongToken):
        Gate(service.url, "nonsense").approvals()
    with pytest.raises(WrongURL):
        Gate(service.url + "/elsewhere", tokens["agent"]).approvals()
    monkeypatch.setenv("COUNTERSIGN_SERVER", service.url)
    monkeypatch.setenv("COUNTERSIGN_TOKEN", tokens["agent"])
    assert Gate().approvals(run_id="none") == []


async def test_a_server_that_is_down() -> None:
    with pytest.raises(ServerDown, match="countersign serve"):
        Gate("http://127.0.0.1:9", "token").wait("x", timeout=0)
    with pytest.raises(ServerDown, match="countersign serve"):
        await AsyncGate("http://127.0.0.1:9", "token").wait("x", timeout=0)


def test_forbidden_is_told(gate: Gate) -> None:
    @gate.hold
    def refund(amount: float) -> None:
        raise AssertionError("ran")

    with pytest.raises(Forbidden, match="made by hand"):
        refund(1e30)


def test_nothing_secret_is_logged(
    gate: Gate, tokens: dict[str, str], run_id: str, ana: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    gate.submit([Call("send", {"to": "bo", "text": "the-secret-word"})], run_id=run_id)
    assert "POST /v1/calls: 200" in caplog.text
    assert tokens["agent"] not in caplog.text and "the-secret-word" not in caplog.text
    assert tokens["agent"] not in repr(gate) + repr(vars(gate))
