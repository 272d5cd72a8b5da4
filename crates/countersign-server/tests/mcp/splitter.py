"""An MCP server that splits its input like a careless program: at everything that Python's `splitlines` treats as a
line ending.

    python3 splitter.py JOURNAL [text]

Each received `tools/call` is appended to JOURNAL at once, with or without an id, alone or in a batch. Unreadable
input is skipped. With `text`, lines are read in text mode instead, as in the Python SDK: CR, LF and CRLF end a line.
"""
import io, json, sys

journal = open(sys.argv[1], "a", buffering=1)


def lines():
    if "text" in sys.argv:
        yield from io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        return
    for line in sys.stdin.buffer:
        yield from line.decode("utf-8", errors="replace").splitlines()


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def take(message):
    if isinstance(message, list):
        for one in message:
            take(one)
        return
    if not isinstance(message, dict):
        return
    method, id = message.get("method"), message.get("id")
    if method == "tools/call":
        journal.write(json.dumps(message) + "\n")
        send({"id": id, "result": {"content": [{"type": "text", "text": "called"}]}})
    elif method == "initialize":
        info = {"name": "splitter", "version": "1"}
        version = message["params"]["protocolVersion"]
        send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write")]
        send({"id": id, "result": {"tools": tools}})
    elif id is not None and method is not None:
        send({"id": id, "result": {"got": message.get("params")}})


for line in lines():
    try:
        message = json.loads(line)
    except ValueError:
        continue
    take(message)
