"""Countersign: a person's recorded decision before a consequential tool call runs, at most once.

`Gate` and `AsyncGate` talk to the service. `@gate.hold` makes a function wait for a decision. The modules
`countersign.langchain`, `countersign.openai_agents`, `countersign.pydantic_ai`, `countersign.google_adk` and
`countersign.claude_agent_sdk` are for those frameworks.
"""

from ._run import run
from ._steps import Choice
from .async_gate import AsyncGate
from .errors import (
    BadAnswer,
    CallError,
    CountersignError,
    Denied,
    Expired,
    Failed,
    Forbidden,
    Mismatch,
    NotJSON,
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
from .gate import Gate
from .model import Approval, Call, CallView, Edit, Event, Finished, Message, Permit, Ruling, Submission

__version__ = "0.2.0"

__all__ = [
    "Approval",
    "AsyncGate",
    "BadAnswer",
    "Call",
    "CallError",
    "CallView",
    "Choice",
    "CountersignError",
    "Denied",
    "Edit",
    "Event",
    "Expired",
    "Failed",
    "Finished",
    "Forbidden",
    "Gate",
    "Message",
    "Mismatch",
    "NotJSON",
    "NotRun",
    "OldServer",
    "Permit",
    "Refused",
    "ResultTooLarge",
    "Ruling",
    "ServerDown",
    "Submission",
    "TimedOut",
    "Unknown",
    "WrongToken",
    "WrongURL",
    "run",
]
