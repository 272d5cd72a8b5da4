"""A Python function as a tool: its call as JSON, and approved JSON as its call."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

from .errors import Mismatch, NotJSON
from .model import Call, Permit

VARIADIC: dict[Any, type] = {inspect.Parameter.VAR_POSITIONAL: list, inspect.Parameter.VAR_KEYWORD: dict}


class HeldFunction:
    """`context` names parameters that are no part of the call: they are neither shown nor approved, and are passed on."""

    def __init__(self, function: Callable[..., Any], tool: str | None, context: Sequence[str]) -> None:
        self.function = function
        self.tool = tool or function.__name__
        self._signature = inspect.signature(function)
        self._context = frozenset(context)
        unknown = self._context - self._signature.parameters.keys()
        if unknown:
            raise TypeError(f"`{self.tool}` has no parameter {', '.join(sorted(unknown))}, which `context` names")

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
        """Returns the call to propose, with defaults filled in, and the context to pass on."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        shown: dict[str, Any] = {}
        context: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name in self._context:
                context[name] = value
            elif self._signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                shown[name] = list(value)
            else:
                shown[name] = value
        call = Call(self.tool, shown)
        try:
            return Call(self.tool, call.text), context
        except NotJSON as error:
            if "self" in shown:
                error.hint = 'for a method, write `@gate.hold(context=("self",))`'
            raise

    def bind(self, permit: Permit, context: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with which the function runs: the approved ones, and the context."""
        approved = permit.arguments
        parameters = self._signature.parameters
        extra = [name for name in approved if name not in parameters or name in self._context]
        missing = [
            name
            for name, parameter in parameters.items()
            if name not in approved
            and name not in self._context
            and parameter.default is inspect.Parameter.empty
            and parameter.kind not in VARIADIC
        ]
        if extra or missing:
            named = ", ".join(f"`{name}`" for name in [*extra, *missing])
            raise Mismatch(f"the approved arguments do not fit `{self.tool}`: {named}", code="mismatch", tool=self.tool)
        for name, parameter in parameters.items():
            kind = VARIADIC.get(parameter.kind)
            if kind and name in approved and not isinstance(approved[name], kind):
                raise Mismatch(
                    f"the approved arguments do not fit `{self.tool}`: `{name}`", code="mismatch", tool=self.tool
                )
        values = {name: {**approved, **context}[name] for name in parameters if name in approved or name in context}
        bound = inspect.BoundArguments(self._signature, values)
        # After a left out parameter, `BoundArguments` would pass the others by position or not at all.
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def dress(self, wrapper: Any) -> None:
        """Gives the wrapper the function's name, documentation and signature.

        There is no `__wrapped__`, which `functools.wraps` sets: a framework that unwraps functions would run it ungated.
        """
        function = self.function
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(wrapper, name, getattr(function, name, None))
        # Annotations that are text are resolved here, where the function's module is known.
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except Exception:
            hints = dict(getattr(function, "__annotations__", {}))
        wrapper.__annotations__ = hints
        empty = inspect.Parameter.empty
        wrapper.__signature__ = self._signature.replace(
            parameters=[p.replace(annotation=hints.get(p.name, empty)) for p in self._signature.parameters.values()],
            return_annotation=hints.get("return", empty),
        )
