"""HTTP for `Gate`, with the standard library. Safe to use from several threads."""

from __future__ import annotations

import http.client
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from ._address import Address, log, read_retry_after, retry_delay
from ._steps import Answer, Request, Steps, T
from .errors import CountersignError, ServerDown, WrongURL

MOST_IDLE = 16


class Transport:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[http.client.HTTPConnection] = deque(maxlen=MOST_IDLE)

    def run(self, steps: Steps[T]) -> T:
        """Sends what the steps ask for, until they return."""
        try:
            request = next(steps)
            while True:
                try:
                    answer = self.send(request)
                except CountersignError as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def send(self, request: Request) -> Answer:
        """Sends a request, again if need be: every request of this package can be repeated."""
        if request.delay:
            time.sleep(request.delay)
        give_up_at = time.monotonic() + request.retry_for
        attempt = 0
        while True:
            try:
                answer = self._send_once(request)
            except (OSError, http.client.HTTPException) as error:
                down = self._address.down(error)
                delay = retry_delay(attempt, None)
                if isinstance(down, WrongURL) or time.monotonic() + delay > give_up_at:
                    raise down from error
            else:
                delay = retry_delay(attempt, answer.retry_after)
                if answer.status not in (429, 502, 503, 504) or time.monotonic() + delay > give_up_at:
                    return answer
            attempt += 1
            time.sleep(delay)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _send_once(self, request: Request) -> Answer:
        began = time.monotonic()
        while True:
            reused = self._idle.pop() if self._idle else None
            connection = reused or self._connect(request.timeout)
            try:
                answer, keep = self._exchange(connection, request)
            except (ConnectionError, http.client.RemoteDisconnected, http.client.CannotSendRequest):
                connection.close()
                # The service closes connections that were idle for long. A fresh one tells whether it is there.
                if reused is None:
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                break
        if keep:
            self._idle.append(connection)
        else:
            connection.close()
        took = (time.monotonic() - began) * 1000
        log.debug("%s %s: %d in %.1f ms", request.method, request.path.partition("?")[0], answer.status, took)
        return answer

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> tuple[Answer, bool]:
        if connection.sock is not None:
            connection.sock.settimeout(request.timeout)
        path = self._address.prefix + request.path
        body = request.content if request.body is not None else None
        connection.request(request.method, path, body=body, headers=self._address.headers(request))
        response = connection.getresponse()
        content = response.read()
        answer = Answer(
            response.status,
            content,
            response.getheader("Countersign-Version"),
            read_retry_after(response.getheader("Retry-After")),
        )
        return answer, not response.will_close

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        address = self._address
        if address.tls is not None:
            return http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=address.tls)
        return http.client.HTTPConnection(address.host, address.port, timeout=timeout)

    @contextmanager
    def stream(self, request: Request) -> Iterator[tuple[Answer, Iterator[str]]]:
        """Opens a stream. Gives the head of the answer, with its body if it is an error, and the lines."""
        connection = self._connect(request.timeout)
        try:
            path = self._address.prefix + request.path
            headers = {**self._address.headers(request), "Accept": "text/event-stream"}
            connection.request(request.method, path, headers=headers)
            response = connection.getresponse()
            body = b"" if response.status == 200 else response.read()
            yield Answer(response.status, body, response.getheader("Countersign-Version")), _lines(response)
        except (OSError, http.client.HTTPException) as error:
            raise self._address.down(error) from error
        finally:
            connection.close()


def _lines(response: http.client.HTTPResponse) -> Iterator[str]:
    while line := response.readline():
        yield line.decode().rstrip("\r\n")


__all__ = ["ServerDown", "Transport"]
