"""JSON with nothing lost: what is sent is what a person sees, and what a person approves is what runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .errors import BadAnswer, NotJSON

HEAD_BYTES = 4096


def dumps(value: Any) -> str:
    """Returns compact JSON. Raises `ValueError` or `TypeError` for what JSON does not have, such as NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def arguments_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """Returns the arguments as JSON. Raises `NotJSON` if the tool would run with other values than these."""
    arguments = dict(arguments)
    for name, value in arguments.items():
        if not isinstance(name, str):
            raise NotJSON(f"an argument of `{tool}` has the name {name!r}, which is not text")
        try:
            same = json.loads(dumps(value)) == value
        except (TypeError, ValueError, RecursionError) as error:
            raise NotJSON(f"argument `{name}` of `{tool}` is not JSON: {error}") from None
        if not same:
            kind = type(value).__name__
            raise NotJSON(f"argument `{name}` of `{tool}` ({kind}) would be another value after JSON")
    return _checked(tool, dumps(arguments))


def _checked(tool: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJSON(f"an argument of `{tool}` contains half of a character (a lone surrogate)") from None
    return text


def parse_arguments(text: str) -> dict[str, Any]:
    """Parses the arguments of a permit."""
    try:
        value = json.loads(text)
    except ValueError:
        raise BadAnswer("the permit's arguments are not JSON") from None
    if not isinstance(value, dict):
        raise BadAnswer("the permit's arguments are not an object")
    return value


def result_fields(result: Any) -> dict[str, Any]:
    """Returns the field of `finish` that holds the result: JSON as it is, anything else as its text."""
    try:
        dumps(result).encode()
    except (TypeError, ValueError, RecursionError):
        return {"resultText": _text(str(result))}
    return {"result": result}


def shortened(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns what is kept of a result that is too large to be sent."""
    text = fields["resultText"] if "resultText" in fields else dumps(fields["result"])
    content = text.encode()
    head = content[:HEAD_BYTES].decode(errors="ignore")
    digest = hashlib.sha256(content).hexdigest()
    return {"result": {"truncated": True, "bytes": len(content), "sha256": digest, "head": head}}


def _text(value: str) -> str:
    return value.encode(errors="replace").decode()
