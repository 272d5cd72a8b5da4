"""Webhooks of the real service, verified by the reference library of Standard Webhooks and by another Ed25519 library."""

from __future__ import annotations

import base64
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from service import Service
from standardwebhooks import Webhook, WebhookVerificationError

from countersign import Call, Gate

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
PRIVATE = bytes([7] * 32)

Request = tuple[dict[str, str], str]


@pytest.fixture
def received() -> Iterator[tuple[int, queue.Queue[Request]]]:
    requests: queue.Queue[Request] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            requests.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, requests
    server.shutdown()


def test_e3_requests_verify_with_the_reference_library(received: tuple[int, queue.Queue[Request]]) -> None:
    port, requests = received
    config = f"""
private_targets = ["127.0.0.1:{port}"]
[webhooks.test]
url = "http://127.0.0.1:{port}/hook"
keys_env = "HOOK_KEYS"
"""
    keys = SECRET + " whsk_" + base64.b64encode(PRIVATE).decode()
    service = Service('[tools.refund]\neffect = "write"\n', config, {"HOOK_KEYS": keys})
    try:
        service.run("person", "add", "ana", "--in", "approvers")
        agent = Gate(service.url, service.token("--agent", "tester", "--scope", "agent"))
        ana = Gate(service.url, service.token("--person", "ana", "--scope", "read,decide"))
        held = agent.submit([Call("refund", {"order": "A-17"})], key="turn-1").approval
        assert held is not None
        ana.decide(held.id, False)
        headers, body = requests.get(timeout=30)
        told = Webhook(SECRET).verify(body, headers)
        assert told["type"] == "approval.denied"
        assert told["data"]["approval"] == held.id
        assert "A-17" not in body
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(body + " ", headers)
        signatures = headers["webhook-signature"].split()
        signature = next(word.removeprefix("v1a,") for word in signatures if word.startswith("v1a,"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
        Ed25519PrivateKey.from_private_bytes(PRIVATE).public_key().verify(base64.b64decode(signature), signed)
        agent.close()
        ana.close()
    finally:
        service.stop()
