"""A model's turn at the gate: all its calls are proposed together, and each runs at most once. For adapters.

Input: the calls by the ids that the model gave them. Output: for each, a permit, an earlier result, or an error.
What a framework hands back as "approved" is never believed: the same key is sent again, and the service knows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _steps
from ._run import key_of
from ._steps import Steps
from .errors import NotRun
from .model import Call, Finished, Message, Permit, Ruling


@dataclass(frozen=True)
class Turn:
    """The calls of a turn and the service's rulings on them."""

    approval: str | None
    _calls: Mapping[str, tuple[Call, Ruling]] = field(repr=False)
    _asked_at: float = field(repr=False)

    def __contains__(self, id: str) -> bool:
        return id in self._calls

    def is_held(self, id: str) -> bool:
        return id in self._calls and self._calls[id][1].ruling == "held"

    def _find(self, id: str, call: Call) -> tuple[Call, Ruling]:
        """Returns the proposed call. A call that was not proposed, or was proposed otherwise, does not run."""
        found = self._calls.get(id)
        if found is None:
            raise NotRun(f"the call `{id}` was not proposed", code="not_proposed", tool=call.tool)
        if (found[0].tool, found[0].text) != (call.tool, call.text):
            raise NotRun(f"the call `{id}` is not the one that was proposed", code="not_proposed", tool=call.tool)
        return found


def turn_key(run_id: str, ids: Sequence[str]) -> str:
    """Returns the key of a turn. A process that resumes the run makes the same key."""
    return key_of("turn", run_id, *ids)


def propose(
    run_id: str,
    calls: Mapping[str, Call],
    *,
    conversation: Sequence[Message] | None = None,
    claim: str | None = None,
    ttl: float | None = None,
    start_within: float | None = None,
) -> Steps[Turn]:
    """Proposes the calls of a turn, or finds the turn that was proposed before."""
    asked_at = time.monotonic()
    submission = yield from _steps.submit(
        list(calls.values()),
        key=turn_key(run_id, list(calls)),
        run_id=run_id,
        conversation=conversation,
        claim=claim,
        # A framework runs the calls of a turn side by side.
        order="any" if len(calls) > 1 else "given",
        ttl=ttl,
        start_within=start_within,
    )
    ruled = {id: (call, ruling) for (id, call), ruling in zip(calls.items(), submission.calls, strict=True)}
    return Turn(submission.approval.id if submission.approval else None, ruled, asked_at)


def release(turn: Turn, id: str, call: Call, *, timeout: float | None = None) -> Steps[Permit | Finished]:
    """Waits until the call may run, and starts it. Raises a `CallError` if there is nothing to run or to return."""
    proposed, ruling = turn._find(id, call)
    return (yield from _steps.release(proposed, ruling, turn.approval, asked_at=turn._asked_at, timeout=timeout))


def told(notice: str | None, result: Any) -> Any:
    """Returns a result with the notice of an edit before it, as a model is told."""
    if notice is None:
        return result
    if isinstance(result, str):
        return f"{notice}\n\n{result}"
    return {"notice": notice, "result": result}
