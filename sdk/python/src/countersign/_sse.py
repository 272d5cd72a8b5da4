"""Server-sent events, line by line."""

from __future__ import annotations

import json

from .errors import BadAnswer
from .model import Event


class EventReader:
    """Collects the lines of a stream into events."""

    def __init__(self) -> None:
        self._kind = ""
        self._id = ""
        self._data: list[str] = []

    def feed(self, line: str) -> Event | None:
        """Takes a line without its end. Returns an event with the empty line that ends one."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._kind = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        if not self._data:
            self._kind = ""
            return None
        text, kind = "\n".join(self._data), self._kind
        self._data, self._kind = [], ""
        try:
            raw = json.loads(text)
        except ValueError:
            raise BadAnswer("an event is not JSON") from None
        if not isinstance(raw, dict):
            raise BadAnswer("an event is not an object")
        approval = raw.get("approval")
        return Event(self._id, kind, approval if isinstance(approval, str) else None, raw)
