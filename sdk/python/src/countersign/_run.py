"""The run that a call belongs to, so that a new process can take it up again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from .model import Call, Message


@dataclass
class Run:
    id: str
    conversation: Sequence[Message]
    _seen: Counter[str] = field(default_factory=Counter)

    def key(self, call: Call) -> str:
        """Returns the key of the next such call of this run. A run that is repeated makes the same keys."""
        name = key_of(self.id, call.tool, call.text)
        self._seen[name] += 1
        return key_of(name, str(self._seen[name]))


_current: ContextVar[Run | None] = ContextVar("countersign_run", default=None)


@contextmanager
def run(id: str, *, conversation: Sequence[Message] = ()) -> Iterator[None]:
    """Names the run in which held functions are called.

    If the program ends and does the same calls again under the same name, it finds the approvals that it asked for, and
    the results of calls that have run, instead of asking again. With `conversation`, people see where values came from.
    """
    token = _current.set(Run(id, conversation))
    try:
        yield
    finally:
        _current.reset(token)


def current_run() -> Run | None:
    return _current.get()


def key_of(*parts: str) -> str:
    """Returns an idempotency key: a hash in which no two lists of parts are the same."""
    hash = hashlib.sha256()
    for part in parts:
        content = part.encode(errors="surrogatepass")
        hash.update(len(content).to_bytes(8, "big") + content)
    return hash.hexdigest()
