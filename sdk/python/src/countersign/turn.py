"""A model's turn at the gate: all its calls are proposed together, and each runs at most once. For adapters.

Input: the calls by the ids that the model gave them. Output: for each, its result, an earlier result, or an error.
What a framework hands back as "approved" is never believed: the same key is sent again, and the service knows.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from . import _steps
from ._hold import succeeded, told
from ._run import key_of
from ._steps import Steps
from .async_gate import AsyncGate
from .errors import NotRun
from .gate import Gate
from .model import Approval, Call, CallView, Finished, Message, Outcome, Permit, Ruling, read_passed

T = TypeVar("T")

MOST_TURNS = 1024
"""Turns that are remembered. A forgotten one is proposed again under its key, which is safe."""


class Turn:
    """The calls of a turn and the service's rulings on them."""

    def __init__(
        self, run_id: str, key: str, approval: str | None, calls: dict[str, tuple[Call, Ruling]], asked_at: float
    ) -> None:
        self.run_id = run_id
        self.key = key
        self.approval = approval
        self._calls = calls
        self._asked_at = asked_at
        self._lock = threading.Lock()

    def held(self) -> list[Ruling]:
        """Returns the rulings on the calls that wait, or waited, for a person."""
        return [ruling for _, ruling in self._calls.values() if ruling.ruling == "held"]

    def is_held(self, id: str) -> bool:
        return id in self._calls and self._calls[id][1].ruling == "held"

    def view(self, approval: Approval, id: str) -> CallView:
        """Returns the call as the approval has it."""
        ruling = self._calls[id][1]
        return approval.call(ruling.id or "")

    def take(self, id: str, call: Call) -> tuple[Call, Ruling]:
        """Returns the proposed call. A call that was not proposed, or was proposed otherwise, does not run."""
        with self._lock:
            found = self._calls.get(id)
            if found is None:
                raise NotRun(f"the call `{id}` was not proposed", code="not_proposed", tool=call.tool)
            if (found[0].tool, found[0].text) != (call.tool, call.text):
                raise NotRun(f"the call `{id}` is not the one that was proposed", code="not_proposed", tool=call.tool)
            proposed, ruling = found
            if ruling.ruling == "pass" and ruling.id is not None:
                # The permit of a call that passed is given out once.
                self._calls[id] = (proposed, replace(ruling, ruling="passed_before"))
            return proposed, ruling

    def take_permits(self) -> list[Permit]:
        """Takes the permits of all calls that passed and have not begun."""
        passed = [(id, call) for id, (call, ruling) in self._calls.items() if ruling.ruling == "pass" and ruling.id]
        rulings = [self.take(id, call) for id, call in passed]
        return [read_passed(ruling, call, self._asked_at) for call, ruling in rulings if ruling.ruling == "pass"]


# ---- the protocol of a turn ----


def propose(
    run_id: str,
    key: str,
    calls: Mapping[str, Call],
    conversation: Sequence[Message],
    ttl: float | None,
    start_within: float | None,
) -> Steps[Turn]:
    """Proposes the calls of a turn, or finds the turn that was proposed before."""
    asked_at = time.monotonic()
    submission = yield from _steps.submit(
        list(calls.values()),
        key=key,
        run_id=run_id,
        conversation=conversation,
        # A framework runs the calls of a turn side by side.
        order="any" if len(calls) > 1 else "given",
        ttl=ttl,
        start_within=start_within,
    )
    ruled = {id: (call, ruling) for (id, call), ruling in zip(calls.items(), submission.calls, strict=True)}
    return Turn(run_id, key, submission.approval.id if submission.approval else None, ruled, asked_at)


def release(turn: Turn, id: str, call: Call, timeout: float | None) -> Steps[Permit | Finished]:
    """Waits until the call may run, and starts it. Raises a `CallError` if there is nothing to run or to return."""
    proposed, ruling = turn.take(id, call)
    try:
        return (yield from _steps.release(proposed, ruling, turn.approval, asked_at=turn._asked_at, timeout=timeout))
    except NotRun as error:
        if ruling.ruling != "passed_before" or error.code != "not_sent":
            raise
    # It passed and was put off, so nothing ran. By itself it is a new proposal, which also runs once.
    asked_at = time.monotonic()
    alone = yield from _steps.submit([call], key=key_of("alone", turn.key, id), run_id=turn.run_id)
    approval = alone.approval.id if alone.approval else None
    return (yield from _steps.release(call, alone.calls[0], approval, asked_at=asked_at, timeout=timeout))


def is_waiting(turn: Turn, timeout: float, puts_off: bool) -> Steps[bool]:
    """Waits for a decision on the turn. Returns true if nobody has decided; the host may end then, and come back.

    `puts_off` says that what passed does not run before the host comes back.
    """
    if turn.approval is None:
        return False
    approval = yield from _steps.wait(turn.approval, timeout=timeout)
    if not approval.is_pending:
        return False
    # A call that passed has to run soon, or its outcome is recorded as unknown.
    for permit in turn.take_permits() if puts_off else ():
        yield from _steps.finish(permit, "not_sent", "put off until the other calls of its turn are decided")
    return True


# ---- running it ----


@dataclass(frozen=True)
class Ran(Generic[T]):
    """What a tool returned (`result`), or what was recorded when it ran before (`recorded`)."""

    result: T | None
    recorded: Any
    notice: str | None
    is_new: bool


class Turns:
    """All turns of an agent in this process.

    `timeout` is how long a call waits for its decision; `None` waits until the approval expires. `ttl` and
    `start_within` are those of the approvals, in seconds; the policy sets the defaults and the limits.
    """

    def __init__(
        self,
        gate: Gate | AsyncGate | None,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        start_within: float | None = None,
    ) -> None:
        gate = gate or Gate()
        self.gate = gate if isinstance(gate, Gate) else Gate._at(gate._address)
        self.async_gate = gate if isinstance(gate, AsyncGate) else AsyncGate._at(gate._address)
        self.timeout = timeout
        self._ttl = ttl
        self._start_within = start_within
        self._turns: OrderedDict[str, Future[Turn]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, run_id: str, turn_id: str, calls: Mapping[str, Call], conversation: Sequence[Message]) -> Turn:
        """Proposes a turn, once even if its calls run side by side. `turn_id` and the call ids make the key."""
        key = key_of("turn", run_id, turn_id, *calls)
        future, is_mine = self._find(key)
        if is_mine:
            with self._filling(key, future):
                future.set_result(self.gate._do(self._propose(run_id, key, calls, conversation)))
        return future.result()

    async def open_async(
        self, run_id: str, turn_id: str, calls: Mapping[str, Call], conversation: Sequence[Message]
    ) -> Turn:
        key = key_of("turn", run_id, turn_id, *calls)
        future, is_mine = self._find(key)
        if is_mine:
            with self._filling(key, future):
                future.set_result(await self.async_gate._do(self._propose(run_id, key, calls, conversation)))
        return await asyncio.shield(asyncio.wrap_future(future))

    def run(
        self,
        turn: Turn,
        id: str,
        call: Call,
        tool: Callable[[Permit], T],
        outcome: Callable[[T], tuple[Outcome, Any]] = succeeded,
    ) -> Ran[T]:
        """Runs a call of the turn once it may run. Raises a `CallError` if it did not run."""
        released = self.gate._do(release(turn, id, call, self.timeout))
        if isinstance(released, Finished):
            return Ran(None, released.result, released.notice, is_new=False)
        return Ran(self.gate.run_permitted(released, tool, outcome), None, released.notice(), is_new=True)

    async def run_async(
        self,
        turn: Turn,
        id: str,
        call: Call,
        tool: Callable[[Permit], Awaitable[T]],
        outcome: Callable[[T], tuple[Outcome, Any]] = succeeded,
        *,
        check: Callable[[Permit], None] | None = None,
    ) -> Ran[T]:
        """As `run`. `check` may raise a `NotRun` for a permit that cannot be used."""
        released = await self.release_async(turn, id, call)
        if isinstance(released, Finished):
            return Ran(None, released.result, released.notice, is_new=False)
        try:
            if check is not None:
                check(released)
        except NotRun as error:
            await self.async_gate._record(released, "not_sent", error.message)
            raise
        result = await self.async_gate.run_permitted(released, tool, outcome)
        return Ran(result, None, released.notice(), is_new=True)

    async def release_async(self, turn: Turn, id: str, call: Call) -> Permit | Finished:
        """Waits until a call may run, for frameworks that call the tool themselves. A permit has to be finished."""
        return await self.async_gate._do(release(turn, id, call, self.timeout))

    def is_waiting(self, turn: Turn, timeout: float, *, puts_off: bool) -> bool:
        return self.gate._do(is_waiting(turn, timeout, puts_off))

    async def is_waiting_async(self, turn: Turn, timeout: float, *, puts_off: bool) -> bool:
        return await self.async_gate._do(is_waiting(turn, timeout, puts_off))

    def _propose(
        self, run_id: str, key: str, calls: Mapping[str, Call], conversation: Sequence[Message]
    ) -> Steps[Turn]:
        return propose(run_id, key, calls, conversation, self._ttl, self._start_within)

    def _find(self, key: str) -> tuple[Future[Turn], bool]:
        """Returns the future of a turn, and whether the caller has to fill it."""
        with self._lock:
            future = self._turns.get(key)
            if future is not None:
                self._turns.move_to_end(key)
                return future, False
            future = self._turns[key] = Future()
            if len(self._turns) > MOST_TURNS:
                self._turns.popitem(last=False)
            return future, True

    def _filling(self, key: str, future: Future[Turn]) -> _Filling:
        return _Filling(self, key, future)

    def _forget(self, key: str) -> None:
        with self._lock:
            self._turns.pop(key, None)


@dataclass
class _Filling:
    """Passes an error on to those who wait for the same turn, and lets the next one try again."""

    turns: Turns
    key: str
    future: Future[Turn]

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.turns._forget(self.key)
            self.future.set_exception(error if isinstance(error, Exception) else NotRun("the turn was not proposed"))


__all__ = ["Ran", "Turn", "Turns", "told"]
