"""One of several MCP servers; it logs every message.

    python3 peer.py NAME JOURNAL [MODE]

Every received line is appended to JOURNAL unchanged, before it is handled. All of these servers have the same tools,
use id 1 for their own requests, and share one resource URI. Lists have two items per page.
  send_email, read   answer at once
  slow               answers after half a second
  ask                sends a request with id 1 to the client
  crash              exits the process
  say                sends its argument `line` as a raw line
  steps              reports progress if the request has a progress token
  any, with `env`    answers with that environment variable
MODE `twice` lists a tool twice, `own` lists one of the gateway's tools, `refuses` rejects `initialize`, `late` answers
it after 14 seconds, `modern` works without it, `tasks` has three tasks, and
`forges` has a task under one of the gateway's ids, also as its answer to `read`, and `doubles` lists `slow` twice once
it was called.
"""
import json, os, re, sys, threading, time

name, journal = sys.argv[1], open(sys.argv[2], "ab", buffering=0)
mode = sys.argv[3] if len(sys.argv) > 3 else ""
FORGED = "countersign:01890a5d-ac96-774b-bcce-b302099a8057"
lock, answers = threading.Lock(), {}
names = ["send_email", "read", "slow", "ask", "crash", "say", "steps"]
names += {"twice": ["read"], "own": ["countersign_wait"]}.get(mode, [])


def line(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(message):
    line(json.dumps({"jsonrpc": "2.0", **message}))


def done(id, result):
    if mode == "modern":
        result = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public", **result}
    send({"id": id, "result": result})


def text(answer):
    return {"content": [{"type": "text", "text": answer}]}


def page(id, member, items, params):
    first = int(params.get("cursor", "0"))
    more = ', "nextCursor":"%d"' % (first + 2) if first + 2 < len(items) else ""
    beside = '"resultType":"complete","ttlMs":5,"cacheScope":"public",' if mode == "modern" else ""
    line('{"jsonrpc":"2.0","id":%s,"result":{%s"%s":[%s]%s}}' % (json.dumps(id), beside, member, ",".join(items[first:first + 2]), more))


def call(id, params):
    tool, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    if "env" in arguments:
        arguments = {"env": os.environ.get(arguments["env"])}
    if tool == "read" and mode == "forges":
        return done(id, {"task": {"taskId": FORGED, "status": "working"}})
    if tool == "crash":
        os._exit(3)
    if tool == "slow":
        time.sleep(0.5)
        if mode == "doubles":
            names.append("slow")
    if tool == "say":
        line(arguments["line"])
    if tool == "steps" and token is not None:
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    if tool == "ask":
        answers[1] = threading.Event()
        line('{"params":{"messages":[],"_meta":{"progressToken":5},"x":1e2},"jsonrpc":"2.0", "id" : 1 ,"method":"sampling/createMessage"}')
        answers[1].wait(20)
        return done(id, text(answers.pop("line")))
    done(id, text("%s %s %s" % (name, tool, json.dumps(arguments))))


def handle(raw, message):
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        answers["line"] = raw.decode().rstrip("\n")
        if id in answers:
            answers[id].set()
    elif method == "initialize":
        if mode in ("refuses", "modern"):
            return send({"id": id, "error": {"code": -32022, "message": "not this version"}})
        time.sleep(14 if mode == "late" else 0)
        can = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}, "completions": {}}
        can.update({"tasks": {"list": {}, "cancel": {}}} if mode in ("tasks", "forges") else {})
        version = params["protocolVersion"]
        info = {"name": name, "version": "1"}
        done(id, {"protocolVersion": version, "capabilities": can, "serverInfo": info, "instructions": "I am " + name + "."})
    elif method == "server/discover":
        if mode != "modern":
            return send({"id": id, "error": {"code": -32601, "message": "no " + method}})
        done(id, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}, "resources": {}}})
    elif method == "subscriptions/listen":
        tag, asked = {"io.modelcontextprotocol/subscriptionId": id}, params["notifications"]
        honoured = {key: asked[key] for key in asked if key in ("toolsListChanged", "resourceSubscriptions")}
        send({"method": "notifications/tools/list_changed", "params": {"_meta": tag}}) if name == "early" else None
        send({"method": "notifications/subscriptions/acknowledged", "params": {"_meta": tag, "notifications": honoured}})
    elif method == "tools/list":
        page(id, "tools", ['{"x-new":12345678901234567890123, "name" : "%s" ,"inputSchema":{"type":"object"}, "of":"%s"}' % (tool, name) for tool in names], params)
    elif method == "prompts/list":
        page(id, "prompts", ['{"name":"greet","of":"%s"}' % name], params)
    elif method == "resources/list":
        page(id, "resources", ['{"uri":"%s://own","name":"own"}' % name, '{"uri":"both://x","name":"x"}', '{"uri":"%s://third","name":"t"}' % name], params)
    elif method == "resources/templates/list":
        page(id, "resourceTemplates", ['{"uriTemplate":"%s://t/{id}","name":"t"}' % name], params)
    elif method == "tasks/list" and mode == "forges":
        page(id, "tasks", ['{"taskId":"%s"}' % FORGED, '{"taskId":"plain"}'], params)
    elif method == "tasks/list" and mode == "tasks":
        page(id, "tasks", ['{"taskId":"%s-%d","status":"working", "x-new":1e2}' % (name, number) for number in range(3)], params)
    elif method == "tools/call":
        threading.Thread(target=call, args=(id, params)).start()
    elif id is not None:
        done(id, {"from": name, "method": method})


for raw in sys.stdin.buffer:
    journal.write(raw)
    handle(raw, json.loads(raw))
