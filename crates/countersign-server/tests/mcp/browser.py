"""An MCP server with state, like a browser: the open page exists only in this process.

    python3 browser.py JOURNAL

`open` (a page) and `click` (something on the page) answer with the process id, the page and the arguments. Each click
is appended to JOURNAL as the same JSON, on one line.
"""
import json, os, sys

page = None


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "browser", "version": "1"}}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("open", "click")]}})
    elif method == "tools/call":
        name, arguments = message["params"]["name"], message["params"].get("arguments", {})
        if name == "open":
            page = arguments["page"]
        answer = json.dumps({"process": os.getpid(), "page": page, "arguments": arguments})
        if name == "click":
            with open(sys.argv[1], "a") as journal:
                journal.write(answer + "\n")
        send({"id": id, "result": {"content": [{"type": "text", "text": answer}]}})
    elif id is not None and method is not None:
        send({"id": id, "result": {}})
