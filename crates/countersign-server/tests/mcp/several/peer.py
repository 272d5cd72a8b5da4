"""One of several MCP servers, whose every message can be looked at afterwards.

    python3 peer.py NAME JOURNAL [MODE]

Every line it gets is appended to JOURNAL as it came, before anything is done about it. All of these servers have the
same tools, count their own questions from 1, and offer one resource of the same address. Lists come in pages of two.
  send_email, read   answer at once                 slow    answers after half a second
  ask                asks the client, under id 1     crash   ends the process
  any, with `env`    answers with that of its environment
  say                says the line in its argument `line`, as it stands there
  steps              tells how far it is, if it is asked to
MODE `twice` lists a tool twice, `own` lists one of the gateway's, `refuses` takes no greeting, `late` takes its time,
`modern` needs none.
"""
import json, os, re, sys, threading, time

name, journal = sys.argv[1], open(sys.argv[2], "ab", buffering=0)
mode = sys.argv[3] if len(sys.argv) > 3 else ""
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
    if tool == "crash":
        os._exit(3)
    if tool == "slow":
        time.sleep(0.5)
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
    elif method == "tools/call":
        threading.Thread(target=call, args=(id, params)).start()
    elif id is not None:
        done(id, {"from": name, "method": method})


for raw in sys.stdin.buffer:
    journal.write(raw)
    handle(raw, json.loads(raw))
