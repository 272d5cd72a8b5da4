// The client itself, against the real service.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import {
  BadArguments,
  CountersignError,
  Denied,
  Expired,
  Failed,
  Forbidden,
  Gate,
  JsonText,
  OldServer,
  Refused,
  TimedOut,
  UnexpectedAnswer,
  Unknown,
  Unreachable,
  Withdrawn,
  WrongServer,
  WrongToken,
} from "../src/index.ts";
import { approvalsOf, newGate, newRun, openWorld, pendingOf, Recorder, sleep, type World } from "./harness.ts";

type Send = { to: string; amount: number };

let world: World;
let gate: Gate;
let ana: Gate;
before(async () => {
  world = await openWorld();
  ({ gate, ana } = world);
});
after(() => world?.service.stop());

function send(recorder: Recorder, options: { onDenied?: "throw"; timeoutMs?: number } = {}) {
  return gate.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call), options);
}

test("an approved call runs once, with the approved bytes", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const result = send(recorder)({ to: "bo", amount: 3 }, { runId });
  const approval = await pendingOf(ana, runId);
  assert.equal(approval.description, "Send 3 to bo");
  assert.deepEqual(recorder.ran, []);
  await ana.decide(approval.id, { approved: true, digest: approval.digest });
  assert.deepEqual(await result, { done: "send" });
  assert.deepEqual(recorder.ran, [{ tool: "send", args: { to: "bo", amount: 3 }, text: '{"to":"bo","amount":3}' }]);
  const [call] = (await gate.approval(approval.id)).calls;
  assert.equal(call?.state, "succeeded");
  assert.deepEqual(call?.result, { done: "send" });
});

test("a tool never sees the arguments in memory, which may change meanwhile", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const args = { to: "bo", amount: 3 };
  const result = send(recorder)(args, { runId });
  const approval = await pendingOf(ana, runId);
  args.amount = 1_000_000;
  await ana.decide(approval.id, { approved: true });
  await result;
  assert.deepEqual(recorder.ran[0]?.args, { to: "bo", amount: 3 });
});

test("an edit runs as edited, and its bytes are kept: numbers, order of keys, characters", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const text = '{"to": "zoë 🐎 \\u00e9", "amount": 9007199254740993, "b": 1.0, "a": 2}';
  const result = send(recorder)(new JsonText('{"amount": 9007199254740995, "to": "bo"}'), { runId });
  const approval = await pendingOf(ana, runId);
  assert.equal(approval.calls[0]?.argumentsText, '{"amount": 9007199254740995, "to": "bo"}');
  await ana.decide(approval.id, { approved: true, calls: [{ approved: true, argumentsText: text }] });
  await result;
  assert.equal(recorder.ran[0]?.text, text);
});

test("a denial throws with its comment, or is returned", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const denied = assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId }), (error: unknown) => {
    assert.ok(error instanceof Denied);
    assert.deepEqual([error.comment, error.decidedBy, error.name], ["ask Bo first", "ana", "Denied"]);
    return true;
  });
  await ana.decide((await pendingOf(ana, runId)).id, { approved: false, comment: "ask Bo first" });
  await denied;

  const other = newRun();
  const returning = gate.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call), { onDenied: "return" });
  const returned = returning({ to: "bo", amount: 4 }, { runId: other });
  await ana.decide((await pendingOf(ana, other)).id, { approved: false, comment: "no" });
  assert.deepEqual(await returned, {
    refused: true,
    status: "denied",
    message: "A person denied `send`: no. It was not run. Do not propose the same call again unless a person asks for it.",
    comment: "no",
  });
  assert.deepEqual(recorder.ran, []);
});

test("a call that was denied lately is not asked again", async () => {
  const other = await openWorld("cool-down.toml");
  try {
    const [recorder, runId] = [new Recorder(), newRun()];
    const held = other.gate.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call));
    const denied = assert.rejects(held({ to: "bo", amount: 3 }, { runId }), Denied);
    await other.ana.decide((await pendingOf(other.ana, runId)).id, { approved: false });
    await denied;
    await assert.rejects(held({ to: "bo", amount: 3 }, { runId }), (error: unknown) => error instanceof Forbidden && /denied a short while ago/.test(error.message));
    assert.deepEqual(recorder.ran, []);
  } finally {
    await other.service.stop();
  }
});

test("a read passes at once; a passed write is recorded; a forbidden call does not run", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const tool = (name: string) => gate.hold(name, (args: Record<string, unknown>, call) => recorder.run(name, args, call));
  await tool("lookup")({ id: 1 }, { runId });
  await tool("note")({ text: "short" }, { runId });
  await assert.rejects(tool("forbidden")({ id: 1 }, { runId }), (error: unknown) => error instanceof Forbidden && /never/.test(error.message));
  assert.deepEqual(recorder.tools, ["lookup", "note"]);
  const recorded = await approvalsOf(ana, runId);
  assert.deepEqual(recorded.map(({ status, calls }) => [status, calls[0]?.tool, calls[0]?.state]), [["passed", "note", "succeeded"]]);
});

test("a passed write that is repeated under its key does not run again", async () => {
  const [recorder, key] = [new Recorder(), randomUUID()];
  const note = gate.hold("note", (args: { text: string }, call) => recorder.run("note", { ...args }, call));
  const first = await note({ text: "x" }, { key });
  assert.deepEqual(await note({ text: "x" }, { key }), first);
  assert.equal(recorder.ran.length, 1);
  await assert.rejects(note({ text: "another" }, { key }), (error: unknown) => error instanceof Refused && error.code === "key_reused");
});

test("a time limit withdraws the approval, so that nobody approves it in vain", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  await assert.rejects(send(recorder, { timeoutMs: 150 })({ to: "bo", amount: 3 }, { runId }), TimedOut);
  const [approval] = await approvalsOf(ana, runId);
  assert.equal(approval?.status, "withdrawn");
  await assert.rejects(ana.decide(approval?.id ?? "", { approved: true }), (error: unknown) => error instanceof Refused && error.code === "withdrawn");
  assert.deepEqual(recorder.ran, []);
});

test("an approval that expires does not run", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  await assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId, ttlMs: 1000 }), Expired);
  assert.deepEqual(recorder.ran, []);
});

test("an approval that is withdrawn does not run", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const result = assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId }), Withdrawn);
  await gate.withdraw((await pendingOf(ana, runId)).id);
  await result;
  assert.deepEqual(recorder.ran, []);
});

test("the same key in another process continues the call; the second one gets the recorded result", async () => {
  const [recorder, runId, key] = [new Recorder(), newRun(), randomUUID()];
  const gone = new AbortController();
  const first = assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId, key, signal: gone.signal }), { name: "AbortError" });
  const approval = await pendingOf(ana, runId);
  gone.abort();
  await first;
  await ana.decide(approval.id, { approved: true });
  const again = () => newGate(world.service, world.agentToken).hold("send", (args: Send, call) => recorder.run("send", { ...args }, call));
  const results = await Promise.all([again()({ to: "bo", amount: 3 }, { runId, key }), again()({ to: "bo", amount: 3 }, { runId, key })]);
  assert.deepEqual(results, [{ done: "send" }, { done: "send" }]);
  assert.equal(recorder.ran.length, 1);
  assert.equal((await approvalsOf(ana, runId)).length, 1);
});

test("a tool that throws is recorded as failed; one that is cancelled as unknown", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  recorder.behave = () => {
    throw new RangeError("no such account");
  };
  const failed = assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId, key: runId }), RangeError);
  const approval = await pendingOf(ana, runId);
  await ana.decide(approval.id, { approved: true });
  await failed;
  assert.equal((await gate.approval(approval.id)).calls[0]?.state, "failed");
  await assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId, key: runId }), Failed);

  const other = newRun();
  const cancel = new AbortController();
  recorder.behave = (_tool, _args, signal) =>
    new Promise((_, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason as Error));
      cancel.abort();
    });
  const cancelled = assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId: other, key: other, signal: cancel.signal }), { name: "AbortError" });
  const second = await pendingOf(ana, other);
  await ana.decide(second.id, { approved: true });
  await cancelled;
  assert.equal((await gate.approval(second.id)).calls[0]?.state, "unknown");
  await assert.rejects(send(recorder)({ to: "bo", amount: 3 }, { runId: other, key: other }), Unknown);
  assert.equal(recorder.ran.length, 2);
});

test("arguments that the tool does not accept are not run", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const parse = (): Send => {
    throw new TypeError("amount is missing");
  };
  const result = assert.rejects(gate.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call), { parse })({ to: "bo", amount: 1 }, { runId }), TypeError);
  const approval = await pendingOf(ana, runId);
  await ana.decide(approval.id, { approved: true });
  await result;
  const [call] = (await gate.approval(approval.id)).calls;
  assert.equal(call?.state, "failed");
  assert.deepEqual(recorder.ran, []);
});

test("arguments that are not a JSON object are refused before anything is proposed", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const wrong: unknown[] = [undefined, null, 3, "text", [1], { n: NaN }, { n: 1n }, { f: () => 1 }, { m: new Map() }, cyclic, new JsonText("{"), new JsonText("[1]")];
  for (const args of wrong) await assert.rejects(send(recorder)(args as Send, { runId }), BadArguments);
  assert.deepEqual(await approvalsOf(ana, runId), []);
});

test("a large result and one that is not JSON end their calls", async () => {
  for (const result of ["x".repeat(400_000), "é".repeat(200_000), { big: 1n }, () => 1, undefined]) {
    const [recorder, runId] = [new Recorder(), newRun()];
    recorder.behave = () => result;
    const ran = send(recorder)({ to: "bo", amount: 3 }, { runId });
    const approval = await pendingOf(ana, runId);
    await ana.decide(approval.id, { approved: true });
    assert.equal(await ran, result);
    const [call] = (await gate.approval(approval.id)).calls;
    assert.equal(call?.state, "succeeded");
    if (typeof result === "string") {
      const { truncated, bytes, sha256, head } = call?.result as { truncated: boolean; bytes: number; sha256: string; head: string };
      assert.deepEqual([truncated, bytes, sha256.length], [true, Buffer.byteLength(result) + 2, 64]);
      assert.ok(JSON.stringify(result).startsWith(head.slice(0, 1000)));
    }
  }
});

test("calls of one turn share one approval, and can be decided in part and run in any order", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const calls = [1, 2, 3].map((id) => ({ tool: "remove", arguments: { id } }));
  const turn = await gate.propose({ calls, order: "any", runId });
  const approval = await pendingOf(ana, runId);
  assert.equal(approval.calls.length, 3);
  await ana.decide(approval.id, { approved: true, comment: "keep 2", calls: [{ approved: true }, { approved: false }, { approved: true }] });
  const run = (index: number) => turn.run(index, (args: { id: number }, call) => recorder.run("remove", { ...args }, call));
  await run(2);
  await assert.rejects(run(1), Denied);
  await run(0);
  assert.deepEqual(recorder.ran.map(({ args }) => args), [{ id: 3 }, { id: 1 }]);
});

test("a dry run rules and records nothing", async () => {
  const runId = newRun();
  const { calls, approval } = await gate.submit({ calls: [{ tool: "lookup", arguments: {} }, { tool: "send", arguments: { to: "bo", amount: 1 } }, { tool: "forbidden", arguments: {} }], runId, dryRun: true });
  assert.deepEqual(calls.map(({ ruling }) => ruling), ["pass", "held", "forbidden"]);
  assert.equal(approval ?? null, null);
  assert.deepEqual(await approvalsOf(ana, runId), []);
});

test("an agent's token does not decide", async () => {
  const runId = newRun();
  const turn = await gate.propose({ calls: [{ tool: "send", arguments: { to: "bo", amount: 1 } }], runId });
  const id = turn.approval?.id ?? "";
  await assert.rejects(gate.decide(id, { approved: true }), WrongToken);
  assert.equal((await gate.approval(id)).status, "pending");
});

test("events arrive as they happen", async () => {
  const runId = newRun();
  const stop = new AbortController();
  const turn = await gate.propose({ calls: [{ tool: "send", arguments: { to: "bo", amount: 1 } }], runId });
  const id = turn.approval?.id ?? "";
  const kinds: string[] = [];
  const following = (async () => {
    for await (const event of gate.events({ approval: id, after: "0" }, { signal: stop.signal })) {
      kinds.push(event.what);
      assert.equal(event.approval, id);
      if (event.what === "denied") stop.abort();
    }
  })();
  await ana.decide(id, { approved: false });
  await following;
  assert.deepEqual(kinds, ["proposed", "denied"]);
});

test("more waits than connections share one stream", { timeout: 60_000 }, async () => {
  const counted = counting();
  const many = new Gate({ server: world.service.url, token: world.agentToken, fetch: counted.fetch });
  const runId = newRun();
  const turns = await Promise.all(Array.from({ length: 40 }, (_, amount) => many.propose({ calls: [{ tool: "send", arguments: { to: "bo", amount } }], runId })));
  const waits = turns.map((turn) => turn.decided());
  // 16 long polls and the stream; at first, all approvals are also read once or twice.
  for (let attempt = 0; attempt < 200 && counted.open() > 17; attempt++) await sleep(25);
  assert.ok(counted.open() <= 17, `${counted.open()} requests are open`);
  for (const turn of turns) await ana.decide(turn.approval?.id ?? "", { approved: false });
  await Promise.all(waits);
  assert.ok(turns.every((turn) => turn.approval?.status === "denied"));
  for (let attempt = 0; attempt < 100 && counted.open() > 0; attempt++) await sleep(10);
  assert.equal(counted.open(), 0);
});

test("a tool that the service runs itself is not run here, and its result is returned", async () => {
  const recorder = new Recorder();
  let calls = 0;
  const tool: RequestListener = (_, response) => {
    calls += 1;
    setTimeout(() => response.writeHead(200, { "content-type": "application/json" }).end('{"sent":true}'), 300);
  };
  await answering(tool, async (address) => {
    const config = `private_targets = ["${new URL(address).host}"]\n[tools.send]\nurl = "${address}/send"\nkey_env = "TOOL_KEY"\n`;
    const other = await openWorld("policy.toml", config, { TOOL_KEY: "k".repeat(32) });
    try {
      const runId = newRun();
      const result = other.gate.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call))({ to: "bo", amount: 3 }, { runId });
      await other.ana.decide((await pendingOf(other.ana, runId)).id, { approved: true });
      assert.deepEqual(await result, { sent: true });
      assert.deepEqual([calls, recorder.ran], [1, []]);
    } finally {
      await other.service.stop();
    }
  });
});

test("a wait outlasts a restart of the server", { timeout: 60_000 }, async () => {
  const other = await openWorld();
  try {
    const [recorder, runId] = [new Recorder(), newRun()];
    const held = other.gate.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call));
    const result = held({ to: "bo", amount: 3 }, { runId });
    const approval = await pendingOf(other.ana, runId);
    await other.service.down();
    await sleep(300);
    await other.service.up();
    await other.ana.decide(approval.id, { approved: true });
    assert.deepEqual(await result, { done: "send" });
    assert.equal(recorder.ran.length, 1);
  } finally {
    await other.service.stop();
  }
});

test("mistakes are named, with a hint and without the token", { timeout: 30_000 }, async () => {
  const token = world.agentToken;
  const proposal = { calls: [{ tool: "send", arguments: { to: "bo", amount: 1 } }] };
  const refused = async (kind: new (...args: never[]) => CountersignError, attempt: () => unknown, pattern: RegExp) => {
    await assert.rejects(async () => attempt(), (error: unknown) => {
      assert.ok(error instanceof kind, `${String(error)} is not ${kind.name}`);
      assert.ok(error instanceof CountersignError);
      assert.match(error.hint, pattern);
      assert.ok(!`${error.message} ${error.hint} ${JSON.stringify(error)}`.includes(token));
      return true;
    });
  };
  const quick = AbortSignal.timeout(20_000);
  await refused(WrongServer, () => new Gate({ token }), /COUNTERSIGN_SERVER/);
  await refused(WrongServer, () => new Gate({ server: "localhost", token }), /COUNTERSIGN_SERVER/);
  await refused(WrongToken, () => new Gate({ server: world.service.url }), /token create/);
  await refused(WrongToken, () => new Gate({ server: world.service.url, token: "0".repeat(64) }).submit(proposal), /token create/);
  const page: RequestListener = (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>");
  await answering(page, (server) => refused(WrongServer, () => new Gate({ server, token }).submit(proposal), /COUNTERSIGN_SERVER/));
  const redirect: RequestListener = (_, response) => response.writeHead(302, { location: "/elsewhere" }).end();
  await answering(redirect, (server) => refused(WrongServer, () => new Gate({ server, token }).submit(proposal), /COUNTERSIGN_SERVER/));
  const old: RequestListener = (_, response) => response.writeHead(400).end('{"error":{"code":"bad_request","message":"unknown field `argumentsText`","hint":""}}');
  await answering(old, (server) => refused(OldServer, () => new Gate({ server, token }).submit(proposal), /update the server/));
  const odd: RequestListener = (_, response) => response.end('{"calls":[]}');
  await answering(odd, (server) => refused(UnexpectedAnswer, () => new Gate({ server, token }).submit(proposal), /versions/));
  let closed = "";
  await answering(odd, async (server) => void (closed = server));
  const impatient = new Gate({ server: closed, token, retryForMs: 100 });
  await refused(Unreachable, () => impatient.submit(proposal, { signal: quick }), /countersign serve/);
});

test("a lost answer of start does not lose the permit, and a lost one of submit does not propose twice", async () => {
  const [recorder, runId] = [new Recorder(), newRun()];
  const lost = new Set<string>();
  const lossy = new Gate({
    server: world.service.url,
    token: world.agentToken,
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      const route = /\/(calls|start|finish)$/.exec(url)?.[1];
      if (!route || lost.has(route)) return response;
      lost.add(route);
      await response.text();
      throw new TypeError("the connection broke");
    },
  });
  const result = lossy.hold("send", (args: Send, call) => recorder.run("send", { ...args }, call))({ to: "bo", amount: 3 }, { runId });
  await ana.decide((await pendingOf(ana, runId)).id, { approved: true });
  assert.deepEqual(await result, { done: "send" });
  assert.deepEqual([...lost], ["calls", "start", "finish"]);
  assert.equal(recorder.ran.length, 1);
  assert.equal((await approvalsOf(ana, runId)).length, 1);
});

/** A `fetch` that counts the requests and streams that are open. */
function counting() {
  let open = 0;
  return {
    open: () => open,
    fetch: async (url: string, init: RequestInit) => {
      open += 1;
      try {
        const response = await fetch(url, init);
        const reader = response.headers.get("content-type")?.startsWith("text/event-stream") ? response.body?.getReader() : undefined;
        if (!reader) return response;
        open += 1;
        const body = new ReadableStream({
          pull: async (controller) => controller.enqueue((await reader.read()).value),
          cancel: () => {
            open -= 1;
            return reader.cancel();
          },
        });
        return new Response(body, response);
      } finally {
        open -= 1;
      }
    },
  };
}

async function answering(listener: RequestListener, check: (server: string) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await check(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}
