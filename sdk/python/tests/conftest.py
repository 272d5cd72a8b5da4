from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from service import Service

from countersign import Approval, AsyncGate, Choice, Gate

POLICY = Path(__file__).with_name("policy.toml").read_text()
# Claude Code puts the name of the MCP server before the name of a tool.
POLICY += POLICY[POLICY.index("[tools.") :].replace("[tools.", "[tools.mcp__t__")


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    service = Service(POLICY)
    service.run("person", "add", "ana", "--in", "approvers")
    yield service
    service.stop()


@pytest.fixture(scope="session")
def tokens(service: Service) -> dict[str, str]:
    return {
        "agent": service.token("--agent", "tester", "--scope", "agent"),
        "ana": service.token("--person", "ana", "--scope", "read,decide"),
    }


@pytest.fixture
def gate(service: Service, tokens: dict[str, str]) -> Iterator[Gate]:
    with Gate(service.url, tokens["agent"]) as gate:
        yield gate


@pytest.fixture
def async_gate(service: Service, tokens: dict[str, str]) -> AsyncGate:
    return AsyncGate(service.url, tokens["agent"])


@pytest.fixture
def run_id() -> str:
    return str(uuid.uuid4())


@dataclass
class Person:
    """Ana, who decides in a thread of her own."""

    gate: Gate

    def pending(self, run_id: str | None = None, tool: str | None = None) -> list[Approval]:
        found = self.gate.approvals(status="pending")
        return [
            approval
            for approval in found
            if (run_id is None or approval.run_id == run_id)
            and (tool is None or any(call.tool == tool for call in approval.calls))
        ]

    def next(self, run_id: str | None = None, tool: str | None = None) -> Approval:
        """Waits until something is pending."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if found := self.pending(run_id, tool):
                return found[0]
            time.sleep(0.02)
        raise AssertionError("nothing is pending")

    def later(self, decide: Callable[[Person], Any]) -> Future[Any]:
        """Lets her do something while the test goes on. The result of the future is what she saw."""
        future: Future[Any] = Future()

        def act() -> None:
            try:
                future.set_result(decide(self))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=act, daemon=True).start()
        return future

    def approves(self, run_id: str | None = None, tool: str | None = None) -> Future[Any]:
        return self.later(lambda ana: ana.gate.decide(ana.next(run_id, tool).id, True))

    def denies(self, comment: str, run_id: str | None = None, tool: str | None = None) -> Future[Any]:
        return self.later(lambda ana: ana.gate.decide(ana.next(run_id, tool).id, False, comment=comment))

    def edits(self, arguments: dict[str, Any], run_id: str | None = None, tool: str | None = None) -> Future[Any]:
        choices = [Choice(True, arguments)]
        return self.later(lambda ana: ana.gate.decide(ana.next(run_id, tool).id, True, choices=choices))


@pytest.fixture
def ana(service: Service, tokens: dict[str, str]) -> Iterator[Person]:
    with Gate(service.url, tokens["ana"]) as gate:
        person = Person(gate)
        yield person
        # What a test leaves open must not be found by the next one.
        for approval in person.pending():
            gate.decide(approval.id, False)


@pytest.fixture
def world(gate: Gate, ana: Person, service: Service, run_id: str, tmp_path: Path) -> Any:
    from cases import World

    folder = tmp_path / "state"
    folder.mkdir()
    return World(gate, ana, service, run_id, folder)
