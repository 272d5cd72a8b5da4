"""HTTP/1.1 for `AsyncGate`, over asyncio streams.

Connections are kept per event loop, because a stream belongs to the loop that opened it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from ._address import Address, log, read_retry_after, retry_delay
from ._steps import Answer, Request, Steps, T
from ._timeout import timeout
from .errors import CountersignError, WrongURL

MOST_IDLE = 64
LONGEST_HEAD = 64 * 1024


class Broken(ConnectionError):
    """The peer closed the connection, or does not speak HTTP/1.1."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def is_usable(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    async def send(self, address: Address, request: Request, accept: str | None = None) -> tuple[int, dict[str, str]]:
        """Sends a request. Returns the status and the headers, with names in lower case."""
        headers = address.headers(request)
        headers["Host"] = address.name
        if accept:
            headers["Accept"] = accept
        content = request.content
        if request.body is not None:
            headers["Content-Length"] = str(len(content))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{request.method} {address.prefix}{request.path} HTTP/1.1\r\n{lines}\r\n"
        self._writer.write(head.encode("ascii") + content)
        await self._writer.drain()
        return await self._read_head()

    async def _read_head(self) -> tuple[int, dict[str, str]]:
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Broken("the connection was closed before an answer") from error
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise Broken("the answer is not HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                headers[name.lower()] = value.strip()
        return int(words[1]), headers

    async def read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join([chunk async for chunk in self.chunks()])
        try:
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ValueError) as error:
            raise Broken("the answer broke off") from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the parts of a chunked body."""
        try:
            while True:
                size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
                chunk = await self._reader.readexactly(size + 2)
                if size == 0:
                    return
                yield chunk[:-2]
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise Broken("the answer broke off") from error


class AsyncTransport:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[Connection]] = WeakKeyDictionary()

    async def run(self, steps: Steps[T]) -> T:
        """Sends what the steps ask for, until they return."""
        try:
            request = next(steps)
            while True:
                try:
                    answer = await self.send(request)
                except CountersignError as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def send(self, request: Request) -> Answer:
        """Sends a request, again if need be: every request of this package can be repeated."""
        if request.delay:
            await asyncio.sleep(request.delay)
        give_up_at = time.monotonic() + request.retry_for
        attempt = 0
        while True:
            try:
                async with timeout(request.timeout):
                    answer = await self._send_once(request)
            except OSError as error:
                down = self._address.down(error)
                delay = retry_delay(attempt, None)
                if isinstance(down, WrongURL) or time.monotonic() + delay > give_up_at:
                    raise down from error
            else:
                delay = retry_delay(attempt, answer.retry_after)
                if answer.status not in (429, 502, 503, 504) or time.monotonic() + delay > give_up_at:
                    return answer
            attempt += 1
            await asyncio.sleep(delay)

    async def close(self) -> None:
        idle = self._idle.pop(asyncio.get_running_loop(), deque())
        for connection in idle:
            connection.close()

    async def _send_once(self, request: Request) -> Answer:
        began = time.monotonic()
        idle = self._idle.setdefault(asyncio.get_running_loop(), deque(maxlen=MOST_IDLE))
        while True:
            reused = _take(idle)
            connection = reused or await self._connect()
            try:
                status, headers = await connection.send(self._address, request)
                body = await connection.read_body(headers)
            except ConnectionError:
                connection.close()
                # The service closes connections that were idle for long. A fresh one tells whether it is there.
                if reused is None:
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                break
        if headers.get("connection", "").lower() == "close" or len(idle) == MOST_IDLE:
            connection.close()
        else:
            idle.append(connection)
        took = (time.monotonic() - began) * 1000
        log.debug("%s %s: %d in %.1f ms", request.method, request.path.partition("?")[0], status, took)
        return Answer(status, body, headers.get("countersign-version"), read_retry_after(headers.get("retry-after")))

    async def _connect(self) -> Connection:
        address = self._address
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls, limit=LONGEST_HEAD)
        return Connection(reader, writer)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[tuple[Answer, AsyncIterator[str]]]:
        """Opens a stream. Gives the head of the answer, with its body if it is an error, and the lines."""
        try:
            async with timeout(request.timeout):
                connection = await self._connect()
        except OSError as error:
            raise self._address.down(error) from error
        try:
            async with timeout(request.timeout):
                status, headers = await connection.send(self._address, request, accept="text/event-stream")
            body = b"" if status == 200 else await connection.read_body(headers)
            yield Answer(status, body, headers.get("countersign-version")), _lines(connection)
        except OSError as error:
            raise self._address.down(error) from error
        finally:
            connection.close()


def _take(idle: deque[Connection]) -> Connection | None:
    while idle:
        connection = idle.pop()
        if connection.is_usable:
            return connection
        connection.close()
    return None


async def _lines(connection: Connection) -> AsyncIterator[str]:
    rest = b""
    async for chunk in connection.chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode().rstrip("\r")
