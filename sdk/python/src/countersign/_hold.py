"""What `hold` of both gates shares: the settings of a held function, and what its caller gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from . import _steps
from ._function import HeldFunction
from ._run import current_run
from ._steps import Steps
from .errors import CallError
from .model import Call, Finished, Outcome, Permit, Submission

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """`hold` with `on_denied="return"`: the function may return a text for the model instead of its result."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | str | dict[str, Any]]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | str | dict[str, Any]]: ...


@dataclass(frozen=True)
class Held:
    function: HeldFunction
    on_denied: Literal["raise", "return"]
    timeout: float | None
    ttl: float | None

    def answer(self, notice: str | None, result: Any) -> Any:
        return told(notice, result) if self.on_denied == "return" else result

    def ended(self, error: CallError) -> str:
        if self.on_denied == "raise":
            raise error
        return error.for_model()


@dataclass(frozen=True)
class Proposal:
    submit: Steps[Submission]
    is_resumable: bool
    _call: Call
    _asked_at: float
    _timeout: float | None

    def release(self, submission: Submission) -> Steps[Permit | Finished]:
        approval = submission.approval.id if submission.approval else None
        return _steps.release(self._call, submission.calls[0], approval, asked_at=self._asked_at, timeout=self._timeout)


def plan(held: Held, call: Call) -> Proposal:
    """Returns the steps that propose a call of a held function and release it."""
    run = current_run()
    submit = _steps.submit(
        [call],
        key=run.key(call) if run else None,
        run_id=run.id if run else None,
        conversation=run.conversation if run else None,
        ttl=held.ttl,
    )
    return Proposal(submit, run is not None, call, time.monotonic(), held.timeout)


def told(notice: str | None, result: Any) -> Any:
    """Returns a result with the notice of an edit before it, as a model is told."""
    if notice is None:
        return result
    if isinstance(result, str):
        return f"{notice}\n\n{result}"
    return {"notice": notice, "result": result}


def succeeded(result: Any) -> tuple[Outcome, Any]:
    return "succeeded", result
