"""Measures what the package adds to plain HTTP, and a thousand waits in one process.

Input: COUNTERSIGN_BIN. Output: a few lines of text. Requests with and without the package alternate, so that both meet the
same noise.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from service import Service  # noqa: E402

from countersign import AsyncGate, Call, Gate  # noqa: E402

ROUNDS = 2000
WAITS = 1000
POLICY = '[channel]\nttl = "30m"\n\n[agents]\nmost_pending = "unlimited"\nproposals_per_minute = "unlimited"\n'


def main() -> None:
    service = Service(POLICY)
    try:
        token = service.token("--agent", "bench", "--scope", "agent")
        with Gate(service.url, token) as gate:
            submission = gate.submit([Call("send", {"to": "bo"})])
            assert submission.approval is not None
            path = f"/v1/approvals/{submission.approval.id}"
            sync_overhead(service.url, token, path, gate)
        asyncio.run(async_overhead(service.url, token, path))
        asyncio.run(waits(service.url, token))
    finally:
        service.stop()


def report(name: str, plain: list[float], ours: list[float]) -> None:
    before, after = statistics.median(plain) * 1000, statistics.median(ours) * 1000
    print(f"{name}: plain HTTP {before:.3f} ms, with the package {after:.3f} ms, overhead {after - before:.3f} ms")


def sync_overhead(url: str, token: str, path: str, gate: Gate) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    headers = {"Authorization": f"Bearer {token}"}
    plain, ours = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        json.loads(connection.getresponse().read())
        plain.append(time.perf_counter() - began)
        began = time.perf_counter()
        gate.approval(path.rpartition("/")[2])
        ours.append(time.perf_counter() - began)
    report("Gate", plain, ours)


async def async_overhead(url: str, token: str, path: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    gate = AsyncGate(url, token)

    async def plain_request() -> None:
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        json.loads(await reader.readexactly(length))

    async def timed(request: Callable[[], Awaitable[object]]) -> float:
        began = time.perf_counter()
        await request()
        return time.perf_counter() - began

    plain, ours = [], []
    for _ in range(ROUNDS):
        plain.append(await timed(plain_request))
        ours.append(await timed(lambda: gate.approval(path.rpartition("/")[2])))
    report("AsyncGate", plain, ours)
    writer.close()
    await gate.close()


async def waits(url: str, token: str) -> None:
    gate = AsyncGate(url, token)
    ids = []
    for number in range(WAITS):
        submission = await gate.submit([Call("send", {"to": f"p{number}"})])
        assert submission.approval is not None
        ids.append(submission.approval.id)
    woken: dict[str, float] = {}

    async def wait(id: str) -> None:
        await gate.wait(id, timeout=300)
        woken[id] = time.perf_counter()

    waiting = [asyncio.create_task(wait(id)) for id in ids]
    await asyncio.sleep(3)
    used = time.process_time()
    await asyncio.sleep(2)
    used = time.process_time() - used
    ended = {}
    for id in ids:
        ended[id] = time.perf_counter()
        await gate.withdraw(id, "enough")
    await asyncio.gather(*waiting)
    delays = [woken[id] - ended[id] for id in ids]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{WAITS} waits: woken after {statistics.median(delays) * 1000:.1f} ms (median), {max(delays) * 1000:.1f} ms (longest); "
        f"{used / 2 * 100:.1f} % of a core while waiting; {memory:.0f} MiB"
    )
    await gate.close()


if __name__ == "__main__":
    main()
