"""What the service tells: approvals, calls, rulings, permits and events, as plain values.

Each has the fields that programs use, and `raw`, the whole JSON object.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ._json import arguments_text, parse_arguments
from .errors import BadAnswer

if TYPE_CHECKING:
    # Generated from docs/openapi.json by `scripts/sdk-python --types`.
    from . import _types

Order = Literal["given", "any"]
Outcome = Literal["succeeded", "failed", "not_sent", "unknown"]
Until = Literal["decided", "finished"]


class _Said(TypedDict):
    role: Literal["user", "assistant", "tool", "outside"]
    text: str


class Message(_Said, total=False):
    """A message of the conversation before a call, from which the service finds out where values came from.

    `name` is the tool's name, for the roles `tool` and `outside`. `at` is in microseconds since 1970.
    """

    name: str
    at: int


@dataclass(frozen=True)
class Call:
    """A call to propose: a tool and its arguments, as an object or as the exact JSON text."""

    tool: str
    arguments: Mapping[str, Any] | str

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return arguments_text(self.tool, self.arguments)


@dataclass(frozen=True)
class Edit:
    """A value that the approver changed. `None` means that there was, or is, no such value."""

    pointer: str
    was: str | None
    now: str | None


@dataclass(frozen=True)
class CallView:
    """A call of an approval. `end` says how it ended or why it will not run, once it is known."""

    id: str
    tool: str
    state: str
    end: str | None
    summary: str
    edits: tuple[Edit, ...]
    raw: _types.CallView = field(repr=False)

    @property
    def result(self) -> Any:
        return self.raw.get("result")

    @property
    def reason(self) -> str | None:
        """Why the call will not run, in words."""
        return _optional(self.raw, "because")


@dataclass(frozen=True)
class Approval:
    """The question put to a person: one or more calls."""

    id: str
    status: str
    calls: tuple[CallView, ...]
    raw: _types.ApprovalView = field(repr=False)

    @property
    def is_pending(self) -> bool:
        return self.status == "pending"

    @property
    def comment(self) -> str | None:
        return _optional(self.raw, "comment")

    @property
    def decided_by(self) -> str | None:
        return _optional(self.raw, "decidedBy")

    @property
    def digest(self) -> str:
        return _text(self.raw, "digest")

    @property
    def run_id(self) -> str | None:
        return _optional(self.raw, "runId")

    def call(self, id: str) -> CallView:
        for call in self.calls:
            if call.id == id:
                return call
        raise BadAnswer(f"approval `{self.id}` has no call `{id}`")


@dataclass(frozen=True)
class Ruling:
    """The policy's ruling on one call: `pass`, `held`, `forbidden`, `passed_before` or `confirmed`."""

    ruling: str
    id: str | None
    reason: str | None
    summary: str | None
    raw: _types.RulingView = field(repr=False)


@dataclass(frozen=True)
class Submission:
    """The service's answer to the calls of one turn. All held calls share one approval."""

    calls: tuple[Ruling, ...]
    approval: Approval | None


@dataclass(frozen=True)
class Permit:
    """Leave to run one call, once, with exactly these arguments.

    `token` is what `finish` needs; a read that passed has none, because nothing is recorded of it.
    """

    id: str | None
    tool: str
    arguments_text: str
    edits: tuple[Edit, ...] = ()
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    decided_by: str | None = None
    start_before: float | None = field(default=None, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The approved arguments, parsed anew each time, so that no caller can change them for another."""
        return parse_arguments(self.arguments_text)

    @property
    def is_late(self) -> bool:
        """True if the service has given the call up by now. It must not be run then."""
        return self.start_before is not None and time.monotonic() >= self.start_before

    def notice(self) -> str | None:
        """Returns what to tell the model if a person changed the arguments; `None` if nobody did."""
        if not self.edits:
            return None
        by = self.decided_by or "the approver"
        changes = "; ".join(f"{edit.pointer}: {edit.was} → {edit.now}" for edit in self.edits)
        return f"Notice: {by} changed this call before approving it ({changes}). It ran with {self.arguments_text}"


@dataclass(frozen=True)
class Finished:
    """A call that was run before, or by the service itself; `result` is what was recorded then."""

    result: Any
    notice: str | None = None


@dataclass(frozen=True)
class Event:
    """An event of the feed. `id` is the cursor from which to resume."""

    id: str
    kind: str
    approval: str | None
    raw: Mapping[str, Any] = field(repr=False)


# ---- parsing ----


def read_approval(raw: Any) -> Approval:
    raw = _object(raw)
    calls = raw.get("calls")
    if not isinstance(calls, list):
        raise BadAnswer("the approval has no list `calls`")
    return Approval(_text(raw, "id"), _text(raw, "status"), tuple(map(_call, calls)), cast("_types.ApprovalView", raw))


def read_submission(raw: Any, expected: int) -> Submission:
    raw = _object(raw)
    rulings = raw.get("calls")
    if not isinstance(rulings, list) or len(rulings) != expected:
        raise BadAnswer(f"the service did not answer with one ruling for each of {expected} calls")
    approval = raw.get("approval")
    return Submission(tuple(map(_ruling, rulings)), None if approval is None else read_approval(approval))


def read_permit(raw: Any, call: CallView | None, decided_by: str | None, asked_at: float) -> Permit:
    raw = _object(raw)
    return Permit(
        id=_text(raw, "id"),
        tool=_text(raw, "tool"),
        arguments_text=_exact_arguments(raw),
        edits=call.edits if call else (),
        token=_text(raw, "permit"),
        secret=_optional(raw, "secret"),
        decided_by=decided_by,
        start_before=asked_at + _milliseconds(raw, "timeoutMs"),
    )


def read_passed(ruling: Ruling, call: Call, asked_at: float) -> Permit:
    """Returns the permit of a call that passed and that the caller runs."""
    token = _optional(ruling.raw, "permit")
    if (token is None) != (ruling.id is None):
        raise BadAnswer("a passed call has both an id and a permit, or neither")
    late = asked_at + _milliseconds(ruling.raw, "timeoutMs") if token else None
    return Permit(id=ruling.id, tool=call.tool, arguments_text=call.text, token=token, start_before=late)


def _exact_arguments(raw: Mapping[str, Any]) -> str:
    text = raw.get("argumentsText")
    if isinstance(text, str):
        return text
    try:
        return bytes.fromhex(_text(raw, "argumentsHex")).decode()
    except ValueError:
        raise BadAnswer("the permit does not have the exact arguments") from None


def _call(raw: Any) -> CallView:
    raw = _object(raw)
    edits = tuple(
        Edit(_text(edit, "pointer"), _optional(edit, "was"), _optional(edit, "is")) for edit in raw.get("edits") or ()
    )
    state = _text(raw, "state")
    return CallView(
        id=_text(raw, "id"),
        tool=_text(raw, "tool"),
        state=state,
        end=_optional(raw, "end"),
        summary=_optional(raw, "summary") or "",
        edits=edits,
        raw=cast("_types.CallView", raw),
    )


def _ruling(raw: Any) -> Ruling:
    raw = _object(raw)
    id = _optional(raw, "callId") or _optional(raw, "id")
    return Ruling(
        _text(raw, "ruling"), id, _optional(raw, "reason"), _optional(raw, "summary"), cast("_types.RulingView", raw)
    )


def _object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise BadAnswer("the service answered with something else than a JSON object")
    return raw


def _text(raw: Mapping[str, object], name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str):
        raise BadAnswer(f"the service's answer has no text `{name}`")
    return value


def _optional(raw: Mapping[str, object], name: str) -> str | None:
    value = raw.get(name)
    return value if isinstance(value, str) else None


def _milliseconds(raw: Mapping[str, object], name: str) -> float:
    value = raw.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadAnswer(f"the service's answer has no number `{name}`")
    return value / 1000
