"""`Gate`: the service for programs that wait, one thread per wait."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar, overload

from . import _steps
from ._address import Address, log
from ._function import HeldFunction
from ._hold import Decorator, Held, plan, succeeded
from ._sse import EventReader
from ._steps import Choice, Steps
from ._transport import Transport
from .errors import CallError, CountersignError, Mismatch, NotRun, ServerDown, TimedOut, Unknown
from .model import Approval, Call, Event, Finished, Message, Order, Outcome, Permit, Submission, Until

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Gate:
    """A Countersign service, as an agent's program or a decider's program sees it.

    Without arguments, COUNTERSIGN_SERVER and COUNTERSIGN_TOKEN are used. May be used from several threads.
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self._address = Address.read(server, token)
        self._transport = Transport(self._address)

    @classmethod
    def _at(cls, address: Address) -> Gate:
        gate = cls.__new__(cls)
        gate._address = address
        gate._transport = Transport(address)
        return gate

    def __repr__(self) -> str:
        return f"Gate({self._address.name})"

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self._transport.close()

    # ---- the protocol ----

    def submit(
        self,
        calls: Sequence[Call],
        *,
        key: str | None = None,
        run_id: str | None = None,
        session: str | None = None,
        channel: str | None = None,
        claim: str | None = None,
        conversation: Sequence[Message] | None = None,
        order: Order = "given",
        ttl: float | None = None,
        start_within: float | None = None,
        dry_run: bool = False,
    ) -> Submission:
        """Proposes the calls of one turn. Under the same key, the present state of the earlier proposal is returned."""
        return self._do(
            _steps.submit(
                calls,
                key=key,
                run_id=run_id,
                session=session,
                channel=channel,
                claim=claim,
                conversation=conversation,
                order=order,
                ttl=ttl,
                start_within=start_within,
                dry_run=dry_run,
            )
        )

    def approval(self, id: str) -> Approval:
        """Reads one approval."""
        return self._do(_steps.read(id))

    def wait(self, id: str, *, timeout: float | None = None, until: Until = "decided") -> Approval:
        """Waits for the decision (or until all calls have ended). After `timeout` seconds, returns the present state."""
        return self._do(_steps.wait(id, timeout=timeout, until=until))

    def start(self, call: str) -> Permit:
        """Starts a released call. From then on it counts as run, so finish it."""
        return self._do(_steps.start(call))

    def finish(self, permit: Permit, outcome: Outcome, result: Any = None) -> None:
        """Records how a started call ended."""
        self._do(_steps.finish(permit, outcome, result))

    def withdraw(self, id: str, reason: str) -> Approval:
        """Takes a pending approval back."""
        return self._do(_steps.withdraw(id, reason))

    def approvals(
        self,
        *,
        status: str | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> list[Approval]:
        """Lists approvals: the pending ones, or with `run_id` those of the run in every state."""
        return self._do(_steps.approvals(status=status, run_id=run_id, agent=agent, limit=limit))

    def decide(
        self,
        id: str,
        approved: bool,
        *,
        comment: str | None = None,
        choices: Sequence[Choice] | None = None,
        digest: str | None = None,
    ) -> Approval:
        """Decides, with the token of a person. `choices` has one entry per call, if they differ or are edited."""
        return self._do(_steps.decide(id, approved, comment=comment, choices=choices, digest=digest))

    def events(
        self, *, after: str | None = None, approval: str | None = None, what: Sequence[str] = ()
    ) -> Iterator[Event]:
        """Follows events, and reconnects where it broke off. Without `after`, only new events are given."""
        attempt = 0
        while True:
            try:
                with self._transport.stream(_steps.follow(after, approval, what)) as (answer, lines):
                    if answer.status != 200:
                        _steps.parse(answer)
                    reader = EventReader()
                    for line in lines:
                        event = reader.feed(line)
                        if event is not None:
                            attempt, after = 0, event.id or after
                            yield event
            except ServerDown:
                attempt += 1
                if attempt > _steps.MOST_RECONNECTS:
                    raise
            time.sleep(_steps.reconnect_delay(attempt))

    # ---- running tools ----

    def run_permitted(
        self, permit: Permit, tool: Callable[[Permit], T], outcome: Callable[[T], tuple[Outcome, Any]] = succeeded
    ) -> T:
        """Runs the tool once, with the permit's arguments, and records how it ended: as `outcome` says of its result.

        An exception is recorded as failed, a time-out or a lost connection as unknown. What is no ordinary error, such as Ctrl-C,
        is recorded as unknown, too.
        """
        if permit.is_late:
            self._record(permit, "not_sent", "not started in time")
            raise NotRun(f"`{permit.tool}` was given up before it was started", code="late", tool=permit.tool)
        try:
            result = tool(permit)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(f"`{permit.tool}` returned a coroutine, which has not run: use `AsyncGate`")
        except Exception as error:
            self._record(permit, _steps.outcome_of(error), _steps.error_text(error))
            raise
        except BaseException as error:
            self._record(permit, "unknown", _steps.error_text(error))
            raise
        try:
            self.finish(permit, *outcome(result))
        except CountersignError as error:
            raise Unknown(
                f"`{permit.tool}` ran, but that could not be recorded: {error.message}", result=result
            ) from error
        return result

    @overload
    def hold(self, function: F) -> F: ...
    @overload
    def hold(
        self,
        *,
        name: str | None = None,
        on_denied: Literal["raise"] = "raise",
        timeout: float | None = None,
        context: Sequence[str] = (),
        ttl: float | None = None,
    ) -> Callable[[F], F]: ...
    @overload
    def hold(
        self,
        *,
        name: str | None = None,
        on_denied: Literal["return"],
        timeout: float | None = None,
        context: Sequence[str] = (),
        ttl: float | None = None,
    ) -> Decorator: ...
    def hold(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        on_denied: Literal["raise", "return"] = "raise",
        timeout: float | None = None,
        context: Sequence[str] = (),
        ttl: float | None = None,
    ) -> Any:
        """Makes each call of a function wait for the policy or a person, and runs it with the approved arguments.

        With `on_denied="return"`, which is for functions that a model calls, the text that tells why a call did not run
        is returned instead of raised, and a result comes with a notice if a person changed the arguments. `name` is the
        tool's name in the policy, by default the function's. `context` names parameters that are no part of the call.
        Coroutine functions can be held, too.
        """
        if function is None:
            settings = {"name": name, "on_denied": on_denied, "timeout": timeout, "context": context, "ttl": ttl}
            return functools.partial(self.hold, **settings)
        if inspect.iscoroutinefunction(function):
            from .async_gate import AsyncGate

            settings = {"name": name, "on_denied": on_denied, "timeout": timeout, "context": context, "ttl": ttl}
            hold: Any = AsyncGate._at(self._address).hold
            return hold(function, **settings)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"`{function.__name__}` is a generator: hold a function that returns its result")
        held = Held(HeldFunction(function, name, context), on_denied, timeout, ttl)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return self._call_held(held, args, kwargs)

        held.function.dress(wrapper)
        return wrapper

    def _call_held(self, held: Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call, context = held.function.call(args, kwargs)
        try:
            released = self._release(held, call)
            if isinstance(released, Finished):
                return held.answer(released.notice, released.result)
            args, kwargs = self._bind(held, released, context)
        except CallError as error:
            return held.ended(error)
        # Outside of `try`: what the function raises is passed on, also if it is about another held call.
        result = self.run_permitted(released, lambda _: held.function.function(*args, **kwargs))
        return held.answer(released.notice(), result)

    def _bind(self, held: Held, permit: Permit, context: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return held.function.bind(permit, context)
        except Mismatch as error:
            self._record(permit, "not_sent", error.message)
            raise

    def _release(self, held: Held, call: Call) -> Permit | Finished:
        proposal = plan(held, call)
        submission = self._do(proposal.submit)
        approval = submission.approval
        try:
            return self._do(proposal.release(submission))
        except BaseException as error:
            # Nobody can take up a proposal without a run, so nobody should be asked about it any more.
            is_open = isinstance(error, TimedOut) or not isinstance(error, Exception)
            if is_open and approval is not None and not proposal.is_resumable:
                with suppress(CountersignError):
                    self.withdraw(approval.id, "the caller no longer waits")
            raise

    def _record(self, permit: Permit, outcome: Outcome, result: Any) -> None:
        """Records an outcome while another error is on its way to the caller."""
        try:
            self._do(_steps.finish(permit, outcome, result, retry_for=5))
        except CountersignError as error:
            log.warning("call %s was not recorded as %s: %s", permit.id, outcome, error.message)

    def _do(self, steps: Steps[T]) -> T:
        return self._transport.run(steps)
