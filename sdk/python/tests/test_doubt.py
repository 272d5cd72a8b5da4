"""Any doubt raises: a server that is old, is none, or says something odd runs nothing. Here a stub answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from countersign import AsyncGate, BadAnswer, CountersignError, Gate, OldServer, Permit, WrongURL

HELD = {"ruling": "held", "id": "a1.1", "callId": "a1.1", "state": "held"}
CALL = {"id": "a1.1", "tool": "send", "state": "released", "end": None}
APPROVAL = {"id": "a1", "status": "approved", "calls": [CALL]}
PERMIT = {"id": "a1.1", "tool": "send", "argumentsText": '{"to":"bo"}', "permit": "p", "timeoutMs": 60000}


class Stub:
    """Answers each path with what `answers` has for its last word; `None` cuts the connection, once."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "calls": {"calls": [HELD], "approval": {**APPROVAL, "status": "pending"}},
            "a1": APPROVAL,
            "start": PERMIT,
            "finish": APPROVAL,
        }
        self.status: dict[str, int] = {}
        self.cut: set[str] = set()
        self.seen: list[tuple[str, str | None, Any]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                word = self.path.partition("?")[0].rpartition("/")[2]
                stub.seen.append((word, self.headers.get("Idempotency-Key"), json.loads(body) if body else None))
                if word in stub.cut:
                    stub.cut.remove(word)
                    self.close_connection = True
                    return
                answer = stub.answers[word]
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(stub.status.get(word, 200))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def stub() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.server.shutdown()
    stub.server.server_close()


async def send_both(stub: Stub) -> list[Any]:
    """Calls a held function through both gates. Returns what ran, or the errors."""
    ran: list[Any] = []
    gate, async_gate = Gate(stub.url, "token"), AsyncGate(stub.url, "token")

    @gate.hold
    def send(to: str) -> None:
        ran.append(to)

    @async_gate.hold(name="send")
    async def async_send(to: str) -> None:
        ran.append(to)

    try:
        send("in memory")
    except CountersignError as error:
        ran.append(type(error))
    try:
        await async_send("in memory")
    except CountersignError as error:
        ran.append(type(error))
    gate.close()
    await async_gate.close()
    return ran


async def test_the_stub_lets_calls_run(stub: Stub) -> None:
    assert await send_both(stub) == ["bo", "bo"]


@pytest.mark.parametrize("word", ["calls", "a1", "start", "finish"])
async def test_a_lost_answer_is_asked_for_again_under_the_same_key(stub: Stub, word: str) -> None:
    stub.cut = {word}
    assert await send_both(stub) == ["bo", "bo"]
    asked = [(key, body) for each, key, body in stub.seen if each == word]
    # The first gate asked twice, and said the same.
    assert len(asked) == 3
    assert asked[0] == asked[1] if word != "a1" else True
    assert asked[0][0] is not None or word in ("a1", "finish")


@pytest.mark.parametrize(
    "word, answer",
    [
        ("start", {**PERMIT, "id": "a2.1"}),
        ("start", {**PERMIT, "tool": "refund"}),
        ("start", {**PERMIT, "argumentsText": None}),
        ("start", {**PERMIT, "argumentsText": "[]"}),
        ("start", {**PERMIT, "permit": None}),
        ("start", {**PERMIT, "timeoutMs": None}),
        ("a1", {**APPROVAL, "calls": []}),
        ("a1", {**APPROVAL, "calls": None}),
        ("a1", {**APPROVAL, "calls": [{**CALL, "state": "succeeded!"}]}),
        ("calls", {"calls": []}),
        ("calls", {"calls": [{"ruling": "passt"}]}),
        ("calls", {"calls": [{"ruling": "pass", "id": "a1.1"}]}),
        ("calls", {"calls": [{"ruling": "pass", "permit": "p"}]}),
        ("calls", {"calls": [{}]}),
        ("calls", []),
        ("calls", b"<html>Hello</html>"),
    ],
)
async def test_an_odd_answer_runs_nothing(stub: Stub, word: str, answer: Any) -> None:
    stub.answers[word] = answer
    first, second = await send_both(stub)
    assert first is second and issubclass(first, CountersignError)


async def test_a_late_permit_is_not_used(stub: Stub) -> None:
    stub.answers["start"] = {**PERMIT, "timeoutMs": 0}
    first, second = await send_both(stub)
    assert first is second and issubclass(first, CountersignError)
    assert [body["outcome"] for word, _, body in stub.seen if word == "finish"] == ["not_sent", "not_sent"]


async def test_an_old_server_is_named(stub: Stub) -> None:
    stub.status["calls"] = 400
    stub.answers["calls"] = {
        "error": {"code": "bad_request", "message": "unknown field `argumentsText`", "hint": "correct the request"}
    }
    assert await send_both(stub) == [OldServer, OldServer]


async def test_another_web_server_is_named(stub: Stub) -> None:
    stub.status["calls"] = 404
    stub.answers["calls"] = b"<html>not found</html>"
    assert await send_both(stub) == [WrongURL, WrongURL]


def test_a_permit_tells_no_secret() -> None:
    permit = Permit("a1.1", "send", "{}", token="the-permit", secret="the-secret")
    assert "the-permit" not in repr(permit) and "the-secret" not in repr(permit)
    with pytest.raises(BadAnswer):
        _ = Permit("a1.1", "send", "1").arguments
