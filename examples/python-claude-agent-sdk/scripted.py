"""A server with Anthropic's API that follows a script, for Claude Code, which is a program and takes no fake model."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedAnthropic:
    """`script` has the content blocks of each turn. `requests` are the bodies that came."""

    def __init__(self, script: list[list[dict[str, Any]]]) -> None:
        fake = self
        self.script = script
        self.requests: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
                if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                    self.reply(404, b"{}", "application/json")
                    return
                fake.requests.append(body)
                turn = sum(message["role"] == "assistant" for message in body["messages"])
                self.reply(200, stream(turn, fake.script[turn], body["model"]), "text/event-stream")

            def do_GET(self) -> None:
                self.reply(404, b"{}", "application/json")

            do_HEAD = do_GET

            def reply(self, status: int, content: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def stream(turn: int, blocks: list[dict[str, Any]], model: str) -> bytes:
    """Returns a message as the events in which Anthropic streams it."""
    events: list[dict[str, Any]] = []
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "usage": usage,
    }
    events.append({"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}})
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": block["input"]}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
