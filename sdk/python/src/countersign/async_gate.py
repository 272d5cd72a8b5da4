"""`AsyncGate`: the service for asyncio programs. A thousand waits need no threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar, overload

from . import _steps
from ._address import Address, log
from ._async_transport import AsyncTransport
from ._function import HeldFunction
from ._hold import Decorator, Held, plan, succeeded
from ._sse import EventReader
from ._steps import Choice, Steps
from .errors import CallError, CountersignError, Mismatch, NotRun, ServerDown, TimedOut, Unknown
from .model import Approval, Call, Event, Finished, Message, Order, Outcome, Permit, Submission, Until

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class AsyncGate:
    """A Countersign service, as an agent's program or a decider's program sees it.

    Without arguments, COUNTERSIGN_SERVER and COUNTERSIGN_TOKEN are used. May be used in several event loops.
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self._address = Address.read(server, token)
        self._transport = AsyncTransport(self._address)

    @classmethod
    def _at(cls, address: Address) -> AsyncGate:
        gate = cls.__new__(cls)
        gate._address = address
        gate._transport = AsyncTransport(address)
        return gate

    def __repr__(self) -> str:
        return f"AsyncGate({self._address.name})"

    async def __aenter__(self) -> AsyncGate:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes idle connections."""
        await self._transport.close()

    # ---- the protocol ----

    async def submit(
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
        return await self._do(
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

    async def approval(self, id: str) -> Approval:
        """Reads one approval."""
        return await self._do(_steps.read(id))

    async def wait(self, id: str, *, timeout: float | None = None, until: Until = "decided") -> Approval:
        """Waits for the decision (or until all calls have ended). After `timeout` seconds, returns the present state."""
        return await self._do(_steps.wait(id, timeout=timeout, until=until))

    async def start(self, call: str) -> Permit:
        """Starts a released call. From then on it counts as run, so finish it."""
        return await self._do(_steps.start(call))

    async def finish(self, permit: Permit, outcome: Outcome, result: Any = None) -> None:
        """Records how a started call ended."""
        await self._do(_steps.finish(permit, outcome, result))

    async def withdraw(self, id: str, reason: str) -> Approval:
        """Takes a pending approval back."""
        return await self._do(_steps.withdraw(id, reason))

    async def approvals(
        self,
        *,
        status: str | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> list[Approval]:
        """Lists approvals: the pending ones, or with `run_id` those of the run in every state."""
        return await self._do(_steps.approvals(status=status, run_id=run_id, agent=agent, limit=limit))

    async def decide(
        self,
        id: str,
        approved: bool,
        *,
        comment: str | None = None,
        choices: Sequence[Choice] | None = None,
        digest: str | None = None,
    ) -> Approval:
        """Decides, with the token of a person. `choices` has one entry per call, if they differ or are edited."""
        return await self._do(_steps.decide(id, approved, comment=comment, choices=choices, digest=digest))

    async def events(
        self, *, after: str | None = None, approval: str | None = None, what: Sequence[str] = ()
    ) -> AsyncIterator[Event]:
        """Follows events, and reconnects where it broke off. Without `after`, only new events are given."""
        attempt = 0
        while True:
            try:
                async with self._transport.stream(_steps.follow(after, approval, what)) as (answer, lines):
                    if answer.status != 200:
                        _steps.parse(answer)
                    reader = EventReader()
                    async for line in lines:
                        event = reader.feed(line)
                        if event is not None:
                            attempt, after = 0, event.id or after
                            yield event
            except ServerDown:
                attempt += 1
                if attempt > _steps.MOST_RECONNECTS:
                    raise
            await asyncio.sleep(_steps.reconnect_delay(attempt))

    # ---- running tools ----

    async def run_permitted(
        self,
        permit: Permit,
        tool: Callable[[Permit], Awaitable[T]],
        outcome: Callable[[T], tuple[Outcome, Any]] = succeeded,
    ) -> T:
        """Runs the tool once, with the permit's arguments, and records how it ended: as `outcome` says of its result.

        An exception is recorded as failed, a time-out or a lost connection as unknown. A cancelled tool
        is recorded as unknown, too.
        """
        if permit.is_late:
            await self._record(permit, "not_sent", "not started in time")
            raise NotRun(f"`{permit.tool}` was given up before it was started", code="late", tool=permit.tool)
        try:
            result = await tool(permit)
        except Exception as error:
            await self._record(permit, _steps.outcome_of(error), _steps.error_text(error))
            raise
        except BaseException as error:
            await self._record(permit, "unknown", _steps.error_text(error))
            raise
        try:
            # The tool has run: a caller that is cancelled now must not lose that.
            await asyncio.shield(self.finish(permit, *outcome(result)))
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
        """
        if function is None:
            settings = {"name": name, "on_denied": on_denied, "timeout": timeout, "context": context, "ttl": ttl}
            return functools.partial(self.hold, **settings)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"`{function.__name__}` is no coroutine function: hold it with `Gate`")
        held = Held(HeldFunction(function, name, context), on_denied, timeout, ttl)

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await self._call_held(held, args, kwargs)

        held.function.dress(wrapper)
        return wrapper

    async def _call_held(self, held: Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call, context = held.function.call(args, kwargs)
        try:
            released = await self._release(held, call)
            if isinstance(released, Finished):
                return held.answer(released.notice, released.result)
            args, kwargs = await self._bind(held, released, context)
        except CallError as error:
            return held.ended(error)
        # Outside of `try`: what the function raises is passed on, also if it is about another held call.
        result = await self.run_permitted(released, lambda _: held.function.function(*args, **kwargs))
        return held.answer(released.notice(), result)

    async def _bind(
        self, held: Held, permit: Permit, context: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return held.function.bind(permit, context)
        except Mismatch as error:
            await self._record(permit, "not_sent", error.message)
            raise

    async def _release(self, held: Held, call: Call) -> Permit | Finished:
        proposal = plan(held, call)
        submission = await self._do(proposal.submit)
        approval = submission.approval
        try:
            return await self._do(proposal.release(submission))
        except BaseException as error:
            # Nobody can take up a proposal without a run, so nobody should be asked about it any more.
            is_open = isinstance(error, TimedOut) or not isinstance(error, Exception)
            if is_open and approval is not None and not proposal.is_resumable:
                with suppress(CountersignError):
                    await self.withdraw(approval.id, "the caller no longer waits")
            raise

    async def _record(self, permit: Permit, outcome: Outcome, result: Any) -> None:
        """Records an outcome while another error is on its way to the caller."""
        try:
            await self._do(_steps.finish(permit, outcome, result, retry_for=5))
        except CountersignError as error:
            log.warning("call %s was not recorded as %s: %s", permit.id, outcome, error.message)

    async def _do(self, steps: Steps[T]) -> T:
        return await self._transport.run(steps)
