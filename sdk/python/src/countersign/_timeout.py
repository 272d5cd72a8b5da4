"""`asyncio.timeout`, also for Python 3.10.

`asyncio.wait_for` is not used: before Python 3.12 it can lose a cancellation that arrives together with the result, and the
cancelled caller would wait on.
"""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:

    class timeout:
        def __init__(self, seconds: float) -> None:
            self._seconds = seconds
            self._is_over = False

        async def __aenter__(self) -> None:
            task = asyncio.current_task()
            assert task is not None

            def end() -> None:
                self._is_over = True
                task.cancel()

            self._timer = asyncio.get_running_loop().call_later(self._seconds, end)

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            self._timer.cancel()
            if self._is_over and kind is asyncio.CancelledError:
                raise TimeoutError from error


__all__ = ["timeout"]
