"""Errors of this package. Every one has a `hint`: what to do next.

A `CallError` is about one call, and a model can be told (`for_model`): `NotRun` and its kinds mean that the tool was not
called, `Unknown` that it may have been. All other errors are about the program or its settings.
"""

from __future__ import annotations

from typing import Any


class CountersignError(Exception):
    """Base of all errors of this package."""

    hint = "see docs/serve.md of Countersign"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"

    def for_model(self) -> str:
        """Returns the text to give to a model as the result of its call."""
        return f"The call did not run: {self.message}."


# ---- how a call ends without a result ----


class CallError(CountersignError):
    """A call has no result: it did not run, or it ran and there is nothing to return."""


class NotRun(CallError):
    """The call did not run, and this attempt will not run it."""

    hint = "propose it again if it is still wanted"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        tool: str | None = None,
        approval: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.tool = tool
        self.approval = approval


class Denied(NotRun):
    """A person denied the call."""

    hint = "do not propose it again unless a person asks for it"

    def __init__(
        self,
        tool: str,
        *,
        comment: str | None = None,
        decided_by: str | None = None,
        approval: str | None = None,
    ) -> None:
        by = f" by {decided_by}" if decided_by else ""
        because = f": {comment}" if comment else ""
        super().__init__(f"`{tool}` was denied{by}{because}", code="denied", tool=tool, approval=approval)
        self.comment = comment
        self.decided_by = decided_by

    def for_model(self) -> str:
        because = f" They said: {self.comment}." if self.comment else ""
        return f"A person denied this call.{because} It did not run. Do not propose it again unless they ask for it."


class Expired(NotRun):
    """Nobody decided in time, or the approved call was not started in time."""

    hint = "propose it again, or set a longer `ttl` or `start_within` in the policy"

    def for_model(self) -> str:
        return f"Nobody decided in time, so the call did not run: {self.message}."


class TimedOut(NotRun):
    """Nobody decided while this process waited. The approval may still be pending; see `approval`."""

    hint = "wait longer, or resume later under the same key"

    def for_model(self) -> str:
        return "Nobody has decided about this call yet. It did not run. Do not propose it again; say that it waits for approval."


class Forbidden(NotRun):
    """The policy forbids the call, or its arguments do not fit the tool's schema. No person was asked."""

    hint = "correct the arguments; `countersign policy try` shows the ruling"

    def for_model(self) -> str:
        return f"This call is not allowed: {self.message}. It did not run."


class Failed(CallError):
    """The call ran earlier, or elsewhere, and failed. It is not run again."""

    hint = "look at the recorded result, and propose a new call if it is still wanted"

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message, code="failed")
        self.result = result

    def for_model(self) -> str:
        return f"The call ran and failed: {self.message}."


class Unknown(CallError):
    """The call was started, and nobody knows how it ended. It is never run again by itself."""

    hint = "find out whether it had its effect, then record that with `countersign reconcile`"

    def __init__(self, message: str, *, hint: str | None = None, result: Any = None) -> None:
        super().__init__(message, hint=hint, code="unknown")
        self.result = result

    def for_model(self) -> str:
        return (
            "The call was started and nobody knows how it ended. Do not propose it again before a person has found out."
        )


# ---- what a program or its settings got wrong ----


class WrongURL(CountersignError):
    """There is something at the address, but no Countersign, or the address is not usable."""

    hint = "set COUNTERSIGN_SERVER to the address that `countersign serve` prints, such as http://127.0.0.1:8787"


class WrongToken(CountersignError):
    """The token is missing, not valid (any more), or may not do this."""

    hint = "make one with `countersign token create --agent NAME --scope agent` and set COUNTERSIGN_TOKEN"


class ServerDown(CountersignError):
    """The service cannot be reached or does not answer."""

    hint = "start it with `countersign serve`, or check COUNTERSIGN_SERVER"


class OldServer(CountersignError):
    """The service is older than this package."""

    hint = "update the service to Countersign 0.2 or later"


class BadAnswer(CountersignError):
    """The service's answer does not have the form that this package expects, so nothing is run on it."""

    hint = "use a version of this package that fits the service"


class NotJSON(CountersignError):
    """An argument cannot be shown and run exactly, because it does not survive JSON."""

    hint = "pass text, numbers, booleans, None, lists and dicts with text keys; list others in `context=`"


class Mismatch(NotRun):
    """The approved arguments do not fit the function, for example after an edit."""

    hint = "give the tool a `schema` in the policy, so that such an edit is refused"


class ResultTooLarge(CallError):
    """The call succeeded earlier, but its result was too large to be kept, so it cannot be returned again."""

    hint = "let the tool return less than 256 KiB, for example a reference to the data"

    def for_model(self) -> str:
        return "The call ran and succeeded. Its result was too large to be kept."


class Refused(CountersignError):
    """The service refused a request; `code` says why, such as `already_decided`."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        hint = str(error.get("hint") or "see `code`")
        super().__init__(str(error.get("message") or "refused"), hint=hint, code=str(error.get("code") or ""))
        self.status = status
        self.error = error
