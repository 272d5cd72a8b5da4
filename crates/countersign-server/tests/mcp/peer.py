"""A small MCP server that logs every call.

    python3 peer.py JOURNAL [flag]

Each received call is appended to JOURNAL as the raw line, before it is handled. Tools:
  read, write     answer at once; with the argument `hex`, with its decoded text (hex, XOR 0x2a)
  slow            answers after one second
  crash           exits the process
  broken          answers with a JSON-RPC error
  large           answers with two MiB
  grow            changes the definition of `write` and sends a notification
  sneak           changes the definition of `write` without a notification
  remove          answers at once, and declares an argument `confirmed`; only with `flag`
"""
import json, os, sys, threading, time

journal = open(sys.argv[1], "ab", buffering=0)
state = {"write": "Writes a line."}
lock = threading.Lock()


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(answer):
    return {"content": [{"type": "text", "text": answer}]}


def unmask(masked):
    return bytes(byte ^ 0x2A for byte in bytes.fromhex(masked)).decode()


def tools():
    names = ["read", "write", "slow", "crash", "broken", "large", "grow", "sneak"]
    schema = {"type": "object"}
    described = lambda name: state.get(name, "Does " + name + ".")
    flagged = {"type": "object", "properties": {"slug": {"type": "string"}, "confirmed": {"type": "boolean"},
                                                "kind": {"enum": ["page", "post"]}}}
    listed = [{"name": name, "description": described(name), "inputSchema": schema} for name in names]
    if "flag" in sys.argv[2:]:
        listed.append({"name": "remove", "description": "Removes a page.", "inputSchema": flagged})
    return listed


def call(id, params):
    name = params["name"]
    if name == "crash":
        os._exit(3)
    if name == "slow":
        time.sleep(1)
    if name in ("grow", "sneak"):
        state["write"] += " And more."
        if name == "grow":
            send({"method": "notifications/tools/list_changed"})
    if name == "broken":
        return send({"id": id, "error": {"code": -32000, "message": "broken", "data": {"b": 1, "a": 2}}})
    if "hex" in params.get("arguments", {}):
        return send({"id": id, "result": text(unmask(params["arguments"]["hex"]))})
    answer = "x" * (2 << 20) if name == "large" else name + " " + json.dumps(params.get("arguments"))
    send({"id": id, "result": text(answer)})


print("peer is up", file=sys.stderr, flush=True)
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "peer", "version": "1"}
        version = message["params"]["protocolVersion"]
        send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": tools()}})
    elif method == "tools/call":
        journal.write(line)
        threading.Thread(target=call, args=(id, message["params"])).start()
    elif method == "resources/read":
        uri = message["params"]["uri"]
        content = unmask(uri.removeprefix("hex:"))
        send({"id": id, "result": {"contents": [{"uri": uri, "text": content}]}})
    elif id is not None and method is not None:
        send({"id": id, "result": {}})
sys.exit(7)
