"""The protocol without input or output: what to send, and what an answer means.

Each function is a generator that yields requests and receives answers, so that `Gate` and `AsyncGate` share it.
Everything that is sent can be sent twice without a second effect, so a transport may repeat it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from ._json import dumps, result_fields, shortened
from .errors import (
    BadAnswer,
    CountersignError,
    Denied,
    Expired,
    Failed,
    Forbidden,
    NotRun,
    OldServer,
    Refused,
    ResultTooLarge,
    ServerDown,
    TimedOut,
    Unknown,
    WrongToken,
    WrongURL,
)
from .model import (
    Approval,
    Call,
    CallView,
    Finished,
    Message,
    Order,
    Outcome,
    Permit,
    Ruling,
    Submission,
    Until,
    read_approval,
    read_passed,
    read_permit,
    read_submission,
)

T = TypeVar("T")

LONG_POLL = 50.0
"""Seconds of one long poll: shorter than the idle time of common proxies."""

LONGEST_OUTAGE = 600.0
"""Seconds for which a wait bridges a service that cannot be reached."""

MAX_RESULT_BYTES = 1024 * 1024

LARGEST_BODY = 240 * 1024
"""Bytes of a proposal; the service accepts 256 KiB."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    key: str | None = None
    timeout: float = 30.0
    """Seconds until an answer has to be there."""
    retry_for: float = 10.0
    """Seconds for which the transport repeats the request if the service cannot be reached."""
    delay: float = 0.0
    """Seconds to wait before the request is sent."""

    @property
    def content(self) -> bytes:
        return b"" if self.body is None else dumps(self.body).encode()


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    version: str | None = None
    retry_after: float | None = None


Steps = Generator[Request, Answer, T]


# ---- proposing ----


def submit(
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
) -> Steps[Submission]:
    optional: dict[str, Any] = {
        "runId": run_id,
        "session": session,
        "channel": channel,
        "claim": claim,
        "ttlMs": None if ttl is None else round(ttl * 1000),
        "startWithinMs": None if start_within is None else round(start_within * 1000),
        "dryRun": True if dry_run else None,
        "order": None if order == "given" else order,
    }
    body = {name: value for name, value in optional.items() if value is not None}
    body["calls"] = [{"tool": call.tool, "argumentsText": call.text} for call in calls]
    if conversation:
        body["conversation"] = newest(conversation, LARGEST_BODY - len(dumps(body).encode()))
    # A key of our own lets a lost answer be asked for again. A dry run has no effect to repeat.
    key = None if dry_run else _checked_key(key) if key else new_key()
    answer = yield Request("POST", "/v1/calls", body, key=key)
    return read_submission(parse(answer), len(calls))


def newest(conversation: Sequence[Message], most_bytes: int) -> list[Message]:
    """Returns the newest messages that fit. With fewer of them, the service trusts fewer values, never more."""
    fitting: list[Message] = []
    for message in reversed(conversation):
        # Half of a character, which a model may write, cannot be sent.
        message = message.copy()
        message["text"] = message["text"].encode(errors="replace").decode()
        most_bytes -= len(dumps(message).encode()) + 1
        if most_bytes < 0:
            break
        fitting.append(message)
    return fitting[::-1]


def withdraw(approval: str, reason: str) -> Steps[Approval]:
    answer = yield Request("POST", f"/v1/approvals/{quote(approval)}/withdraw", {"reason": reason})
    return read_approval(parse(answer))


# ---- reading and deciding ----


def read(approval: str) -> Steps[Approval]:
    answer = yield Request("GET", f"/v1/approvals/{quote(approval)}")
    return read_approval(parse(answer))


def wait(approval: str, *, timeout: float | None = None, until: Until = "decided") -> Steps[Approval]:
    """Waits for the decision, or for the end of all calls. Returns the present state when the time is over."""
    deadline = None if timeout is None else time.monotonic() + timeout
    path = f"/v1/approvals/{quote(approval)}"
    delay = 0.0
    down_since: float | None = None
    while True:
        sent_at = now = time.monotonic()
        left = LONG_POLL if deadline is None else max(0.0, min(LONG_POLL, deadline - now))
        query = urlencode({"wait": f"{int(left * 1000)}ms", "waitFor": until})
        try:
            answer = yield Request("GET", f"{path}?{query}", timeout=left + 15, retry_for=0, delay=delay)
            found = read_approval(parse(answer))
        except (ServerDown, Refused) as error:
            if isinstance(error, Refused) and error.status != 429:
                raise
            now = time.monotonic()
            down_since = down_since or now
            if now - down_since > LONGEST_OUTAGE or (deadline is not None and now >= deadline):
                raise
            delay = min(2.0, max(0.1, delay * 2))
            continue
        now = time.monotonic()
        if is_settled(found, until) or (deadline is not None and now >= deadline):
            return found
        # A service that stops answers early, and says when to come back.
        down_since = None
        is_early = now - sent_at < left / 2
        delay = min(answer.retry_after or 0.5, 5.0) if is_early else 0.0


def is_settled(approval: Approval, until: Until) -> bool:
    if approval.is_pending:
        return False
    return until == "decided" or not any(call.state in ("held", "released", "running") for call in approval.calls)


def page(query: Mapping[str, str]) -> Steps[tuple[tuple[Approval, ...], str | None]]:
    """Reads one page of approvals. Returns them, and the cursor of the next page."""
    answer = parse((yield Request("GET", f"/v1/approvals?{urlencode(query)}")))
    approvals = answer.get("approvals")
    if not isinstance(approvals, list):
        raise BadAnswer("the page has no list `approvals`")
    return tuple(map(read_approval, approvals)), answer.get("next")


def approvals(
    *, status: str | None = None, run_id: str | None = None, agent: str | None = None, limit: int | None = None
) -> Steps[list[Approval]]:
    given = {"status": status, "runId": run_id, "agentName": agent}
    query = {name: value for name, value in given.items() if value is not None}
    found: list[Approval] = []
    cursor: str | None = None
    while limit is None or len(found) < limit:
        if cursor:
            query["cursor"] = cursor
        some, cursor = yield from page(query)
        found.extend(some)
        if not cursor:
            break
    return found[:limit]


@dataclass(frozen=True)
class Choice:
    """A decision on one call of an approval; with `arguments`, the call runs with those instead."""

    approved: bool
    arguments: Mapping[str, Any] | None = None


def decide(
    approval: str,
    approved: bool,
    *,
    comment: str | None = None,
    choices: Sequence[Choice] | None = None,
    digest: str | None = None,
) -> Steps[Approval]:
    body: dict[str, Any] = {"approved": approved}
    if comment is not None:
        body["comment"] = comment
    if digest is not None:
        body["digest"] = digest
    if choices is not None:
        body["calls"] = [
            {"approved": choice.approved, **({} if choice.arguments is None else {"arguments": choice.arguments})}
            for choice in choices
        ]
    answer = yield Request("POST", f"/v1/approvals/{quote(approval)}", body, key=new_key())
    return read_approval(parse(answer))


# ---- running ----


def start(id: str, *, call: CallView | None = None, decided_by: str | None = None) -> Steps[Permit]:
    asked_at = time.monotonic()
    # The key is new for each attempt: with it a lost answer can be asked for again, and nobody else gets the permit.
    answer = yield Request("POST", f"/v1/calls/{quote(id)}/start", {}, key=new_key())
    permit = read_permit(parse(answer), call, decided_by, asked_at)
    if permit.id != id:
        raise BadAnswer("the permit is for another call")
    return permit


def finish(permit: Permit, outcome: Outcome, result: Any = None, *, retry_for: float = 30.0) -> Steps[None]:
    """Records how a call ended. A result that is too large is replaced by its size, hash and beginning."""
    if permit.token is None or permit.id is None:
        return
    fields = result_fields(result)
    if len(dumps(fields)) > MAX_RESULT_BYTES:
        fields = shortened(fields)
    path = f"/v1/calls/{quote(permit.id)}/finish"
    body = {"permit": permit.token, "outcome": outcome}
    answer = yield Request("POST", path, {**body, **fields}, retry_for=retry_for)
    if answer.status == 413:
        answer = yield Request("POST", path, {**body, **shortened(fields)}, retry_for=retry_for)
    parse(answer)


def release(
    call: Call, ruling: Ruling, approval: str | None, *, asked_at: float, timeout: float | None = None
) -> Steps[Permit | Finished]:
    """Waits until the call may run, and starts it. Returns what was recorded if it ran before.

    Raises `NotRun` if it will not run, `TimedOut` if nobody decided in time, `Unknown` if it may have run.
    """
    if ruling.ruling == "pass":
        if ruling.raw.get("status") is not None:
            return _ran_by_service(call, ruling)
        return read_passed(ruling, call, asked_at)
    if ruling.ruling == "forbidden":
        raise Forbidden(ruling.reason or "the policy forbids it", code="forbidden", tool=call.tool)
    if ruling.ruling not in ("held", "passed_before", "confirmed") or ruling.id is None:
        raise BadAnswer(f"the service ruled `{ruling.ruling}`, which this package does not know")
    approval = approval if ruling.ruling == "held" and approval else ruling.id.partition(".")[0]
    deadline = None if timeout is None else time.monotonic() + timeout
    found = yield from wait(approval, timeout=timeout)
    view = found.call(ruling.id)
    if found.is_pending:
        raise TimedOut(
            f"nobody decided about `{call.tool}` in time", code="timed_out", tool=call.tool, approval=found.id
        )
    if view.state == "released":
        try:
            permit = yield from start(view.id, call=view, decided_by=found.decided_by)
        except Refused as refused:
            if refused.code != "wrong_state":
                raise NotRun(
                    refused.message, hint=refused.hint, code=refused.code, tool=call.tool, approval=found.id
                ) from refused
        else:
            if permit.tool != call.tool:
                yield from finish(permit, "not_sent", "the permit is for another tool")
                raise BadAnswer("the permit is for another tool")
            return permit
    # It was started before: by an earlier run of this program, or by the service itself.
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    found = yield from wait(approval, timeout=left, until="finished")
    return recorded(found, found.call(ruling.id))


def recorded(approval: Approval, call: CallView) -> Finished:
    """Returns the recorded result of a call that succeeded. Raises for every other end."""
    words = call.reason or call.end or call.state
    if call.state == "succeeded":
        return Finished(_kept_result(call), _notice(approval, call))
    if call.end == "denied":
        raise Denied(call.tool, comment=approval.comment, decided_by=approval.decided_by, approval=approval.id)
    if call.end in ("expired", "stale"):
        raise Expired(f"`{call.tool}` was not run: {words}", code=call.end, tool=call.tool, approval=approval.id)
    if call.state == "refused" or call.end == "not_sent":
        raise NotRun(f"`{call.tool}` was not run: {words}", code=call.end, tool=call.tool, approval=approval.id)
    if call.state == "failed":
        raise Failed(f"`{call.tool}` failed: {call.result}", result=call.result)
    if call.state == "undone":
        raise Failed(f"`{call.tool}` ran and was undone", result=call.result)
    raise Unknown(f"`{call.tool}` was started and its end is not known ({words})")


def _ran_by_service(call: Call, ruling: Ruling) -> Finished:
    status, result = ruling.raw.get("status"), ruling.raw.get("result")
    if status == "succeeded":
        return Finished(result)
    if status == "failed":
        raise Failed(f"`{call.tool}` failed: {result}", result=result)
    if status == "not_sent":
        raise NotRun(f"`{call.tool}` was not run: {result}", code="not_sent", tool=call.tool)
    raise Unknown(f"`{call.tool}` was started and its end is not known ({status})")


def _kept_result(call: CallView) -> Any:
    result = call.result
    if isinstance(result, dict) and result.get("truncated") is True and "sha256" in result:
        raise ResultTooLarge(f"`{call.tool}` succeeded; its result of {result.get('bytes')} bytes was not kept")
    return result


def _notice(approval: Approval, call: CallView) -> str | None:
    text = call.raw.get("argumentsText")
    shown = text if isinstance(text, str) else "the changed arguments"
    return Permit(call.id, call.tool, shown, call.edits, decided_by=approval.decided_by).notice()


# ---- answers ----


def new_key() -> str:
    return uuid.uuid4().hex


def _checked_key(key: str) -> str:
    if not re.fullmatch(r"[!-~]{1,256}", key):
        raise ValueError("a key has 1 to 256 visible ASCII characters")
    return key


def parse(answer: Answer) -> dict[str, Any]:
    """Returns the JSON object of a successful answer. Raises the fitting error for every other one."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise WrongURL(f"the server answered {answer.status} with something else than JSON")
    if answer.status < 300:
        return body
    error = body.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        raise WrongURL(f"the server answered {answer.status}, not in the way of Countersign")
    raise _error(answer, error)


def _error(answer: Answer, error: dict[str, Any]) -> CountersignError:
    refused = Refused(answer.status, error)
    code = refused.code or ""
    if answer.status == 401:
        return WrongToken(refused.message, code=code)
    if code == "not_found" and "route" in refused.message:
        return WrongURL("the server has no such route", code=code)
    if code == "wrong_scope":
        return WrongToken(refused.message, code=code)
    is_old = answer.version is None and (code == "no_idempotency_key" or "unknown field" in refused.message)
    if is_old:
        return OldServer(f"the service does not know this request: {refused.message}", code=code)
    if answer.status in (502, 503, 504):
        return ServerDown(refused.message, code=code, hint=refused.hint)
    return refused


# ---- following events ----

MOST_RECONNECTS = 60


def follow(after: str | None, approval: str | None, what: Sequence[str]) -> Request:
    given = {"after": after, "approval": approval, "what": ",".join(what)}
    query = {name: value for name, value in given.items() if value}
    return Request("GET", f"/v1/events?{urlencode(query)}", timeout=60)


def reconnect_delay(attempt: int) -> float:
    return float(min(5.0, 0.2 * 2.0 ** min(attempt, 10)))


def error_text(error: BaseException) -> dict[str, str]:
    """Returns an exception as the result of a call that failed."""
    return {"error": f"{type(error).__name__}: {error}"}


def outcome_of(error: Exception) -> Outcome:
    """Returns how a tool that raised this ended: after a time-out or a lost connection, nobody knows."""
    return "unknown" if isinstance(error, (TimeoutError, asyncio.TimeoutError, ConnectionError)) else "failed"
