// The table of cases that every adapter has to pass: the framework's own fake model proposes, a person decides at the
// real service, and the recording tools show what ran.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Gate } from "../src/index.ts";
import { approvalsOf, newGate, newRun, openWorld, pendingOf, Recorder, sleep, type World } from "./harness.ts";

/** What the fake model answers, step by step: calls, or a final text. */
export type Step = { calls: { id: string; tool: string; text: string }[] } | { text: string };

export interface Start {
  gate: Gate;
  runId: string;
  recorder: Recorder;
  /** Answers of the model from now on. */
  steps: Step[];
  /** What the person says. */
  prompt: string;
  /** State of an earlier run, to be continued. */
  state?: string;
  /** False to stop as soon as a person has to be asked. */
  wait?: boolean;
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface End {
  /** Final text of the model; undefined if the run stopped because a person has to be asked. */
  text: string | undefined;
  /** State with which another process can continue. */
  state: string;
  /** What the model was told about a call. */
  told(id: string): { text: string; isDenied: boolean } | undefined;
}

export interface Adapter {
  name: string;
  run(start: Start): Promise<End>;
  /** The same with the framework's streaming. */
  stream(start: Start): Promise<End>;
  /** Returns the state of a run in which a step with these calls seems to have been approved already. */
  forge(start: Start): Promise<string>;
  can: {
    /** Passing calls of a turn run while others wait for a person. */
    readsFirst: boolean;
    /** The calls of a turn are known together, so that they share one approval. */
    batches: boolean;
    /** The framework hands arguments on as text, so that numbers above 2^53 reach the person. */
    exactInput: boolean;
  };
}

const prompt = "Send 3 to bo";
const send = (id: string, amount = 3, to = "bo") => ({ id, tool: "send", text: JSON.stringify({ to, amount }) });
const done: Step = { text: "done" };

export function runCases(adapter: Adapter): void {
  describe(adapter.name, () => {
    let world: World;
    before(async () => {
      world = await openWorld();
    });
    after(() => world?.service.stop());

    const start = (steps: Step[], more: Partial<Start> = {}): Start => ({
      gate: newGate(world.service, world.agentToken),
      runId: newRun(),
      recorder: new Recorder(),
      prompt,
      steps,
      ...more,
    });
    const pending = (runId: string) => pendingOf(world.ana, runId);
    const onlyCall = async (runId: string) => (await approvalsOf(world.ana, runId))[0]?.calls[0];

    test("approve: the call runs once, with the approved arguments", async () => {
      const begun = start([{ calls: [send("c1")] }, done]);
      const ended = adapter.run(begun);
      const approval = await pending(begun.runId);
      assert.deepEqual(begun.recorder.ran, []);
      await world.ana.decide(approval.id, { approved: true });
      const end = await ended;
      assert.equal(end.text, "done");
      assert.match(end.told("c1")?.text ?? "", /"?done"?: ?"?send/);
      assert.equal(end.told("c1")?.isDenied, false);
      assert.deepEqual(begun.recorder.ran.map(({ args }) => args), [{ to: "bo", amount: 3 }]);
      assert.equal((await onlyCall(begun.runId))?.state, "succeeded");
    });

    test("deny: the comment reaches the model as the framework's denied result", async () => {
      const begun = start([{ calls: [send("c1")] }, done]);
      const ended = adapter.run(begun);
      await world.ana.decide((await pending(begun.runId)).id, { approved: false, comment: "ask Bo first" });
      const told = (await ended).told("c1");
      assert.match(told?.text ?? "", /ask Bo first/);
      assert.equal(told?.isDenied, true);
      assert.deepEqual(begun.recorder.ran, []);
    });

    test("edit: the call runs as edited, and the model is told", async () => {
      const begun = start([{ calls: [send("c1", 100)] }, done]);
      const ended = adapter.run(begun);
      const edited = { approved: true, argumentsText: '{"to":"bo","amount":50}' };
      await world.ana.decide((await pending(begun.runId)).id, { approved: true, calls: [edited] });
      const told = (await ended).told("c1");
      assert.match(told?.text ?? "", /amount: 100 → 50/);
      assert.match(told?.text ?? "", /done/);
      assert.deepEqual(begun.recorder.ran.map(({ args }) => args), [{ to: "bo", amount: 50 }]);
    });

    test("timeout: the call does not run, and cannot be approved later", async () => {
      const begun = start([{ calls: [send("c1")] }, done], { timeoutMs: 200 });
      const told = (await adapter.run(begun)).told("c1");
      assert.match(told?.text ?? "", /nobody decided/i);
      assert.deepEqual(begun.recorder.ran, []);
      assert.equal((await approvalsOf(world.ana, begun.runId))[0]?.status, "withdrawn");
    });

    test("forbidden: the call does not run, and the model is told why", async () => {
      const begun = start([{ calls: [{ id: "c1", tool: "forbidden", text: "{}" }] }, done]);
      assert.match((await adapter.run(begun)).told("c1")?.text ?? "", /never/);
      assert.deepEqual(begun.recorder.ran, []);
    });

    test("a turn of several calls is one approval, and a part of it can be approved", { skip: !adapter.can.batches }, async () => {
      const begun = start([{ calls: [send("c1", 1), send("c2", 2), send("c3", 3)] }, done]);
      const ended = adapter.run(begun);
      const approval = await pending(begun.runId);
      assert.equal(approval.calls.length, 3);
      await world.ana.decide(approval.id, { approved: true, comment: "not 2", calls: [{ approved: true }, { approved: false }, { approved: true }] });
      const end = await ended;
      assert.deepEqual(begun.recorder.ran.map(({ args }) => (args as { amount: number }).amount).sort(), [1, 3]);
      assert.match(end.told("c2")?.text ?? "", /not 2/);
      assert.deepEqual(["c1", "c2", "c3"].map((id) => end.told(id)?.isDenied), [false, true, false]);
      assert.equal((await approvalsOf(world.ana, begun.runId)).length, 1);
    });

    test("three approved calls run in parallel", { skip: !adapter.can.batches }, async () => {
      const begun = start([{ calls: [send("c1", 1), send("c2", 2), send("c3", 3)] }, done]);
      let running = 0;
      let most = 0;
      begun.recorder.behave = async () => {
        most = Math.max(most, (running += 1));
        // Ends once all three have begun, or after a while.
        for (let attempt = 0; attempt < 80 && most < 3; attempt++) await sleep(25);
        running -= 1;
        return { done: "send" };
      };
      const ended = adapter.run(begun);
      await world.ana.decide((await pending(begun.runId)).id, { approved: true });
      assert.equal((await ended).text, "done");
      assert.equal(begun.recorder.ran.length, 3);
      assert.equal(most, 3);
    });

    test("reads run without waiting for held calls of the same turn", { skip: !adapter.can.readsFirst }, async () => {
      const begun = start([{ calls: [send("c1"), { id: "c2", tool: "lookup", text: '{"id":7}' }] }, done]);
      const ended = adapter.run(begun);
      const approval = await pending(begun.runId);
      for (let attempt = 0; attempt < 100 && begun.recorder.ran.length === 0; attempt++) await sleep(20);
      assert.deepEqual(begun.recorder.tools, ["lookup"]);
      assert.equal(approval.calls.length, 1);
      await world.ana.decide(approval.id, { approved: true });
      const end = await ended;
      assert.deepEqual(begun.recorder.tools, ["lookup", "send"]);
      assert.match(end.told("c2")?.text ?? "", /lookup/);
    });

    test("a process that exits is continued by another one; continued twice, the call runs once", async () => {
      const begun = start([{ calls: [send("c1")] }], { wait: false });
      const stopped = await adapter.run(begun);
      assert.equal(stopped.text, undefined);
      const approval = await pending(begun.runId);
      assert.deepEqual(begun.recorder.ran, []);
      await world.ana.decide(approval.id, { approved: true });
      const { recorder, runId } = begun;
      for (const attempt of [1, 2]) {
        const end = await adapter.run(start([done], { runId, recorder, state: stopped.state }));
        assert.equal(end.text, "done", `attempt ${attempt}`);
        assert.match(end.told("c1")?.text ?? "", /send/, `attempt ${attempt}`);
        assert.equal(recorder.ran.length, 1);
      }
      assert.equal((await approvalsOf(world.ana, runId)).length, 1);
    });

    test("another process that comes too early still waits", async () => {
      const begun = start([{ calls: [send("c1")] }], { wait: false });
      const stopped = await adapter.run(begun);
      const { recorder, runId } = begun;
      const again = await adapter.run(start([done], { runId, recorder, state: stopped.state, wait: false }));
      assert.equal(again.text, undefined);
      const ended = adapter.run(start([done], { runId, recorder, state: again.state }));
      await sleep(100);
      await world.ana.decide((await pending(runId)).id, { approved: false, comment: "too late" });
      assert.match((await ended).told("c1")?.text ?? "", /too late/);
      assert.deepEqual(recorder.ran, []);
    });

    test("a forged approval in the history runs nothing", async () => {
      const begun = start([{ calls: [send("c1")] }], { wait: false });
      const state = await adapter.forge(begun);
      const { recorder, runId } = begun;
      const ended = adapter.run(start([done], { runId, recorder, state, timeoutMs: 300 })).catch((error: unknown) => error);
      await ended;
      assert.deepEqual(recorder.ran, []);
      const calls = (await approvalsOf(world.ana, runId)).flatMap((approval) => approval.calls);
      assert.ok(calls.every(({ state }) => state === "refused" || state === "held"), JSON.stringify(calls.map(({ state }) => state)));
    });

    test("a wait outlasts a restart of the server", { timeout: 60_000 }, async () => {
      const other = await openWorld();
      try {
        const begun = start([{ calls: [send("c1")] }, done], { gate: other.gate });
        const ended = adapter.run(begun);
        const approval = await pendingOf(other.ana, begun.runId);
        await other.service.down();
        await sleep(200);
        await other.service.up();
        await other.ana.decide(approval.id, { approved: true });
        assert.equal((await ended).text, "done");
        assert.equal(begun.recorder.ran.length, 1);
      } finally {
        await other.service.stop();
      }
    });

    test("a tool that throws: the call is failed, and the model is told", async () => {
      const begun = start([{ calls: [send("c1")] }, done]);
      begun.recorder.behave = () => {
        throw new Error("no such account");
      };
      const ended = adapter.run(begun);
      await world.ana.decide((await pending(begun.runId)).id, { approved: true });
      assert.match((await ended).told("c1")?.text ?? "", /no such account|error occurred/);
      assert.equal((await onlyCall(begun.runId))?.state, "failed");
      assert.equal(begun.recorder.ran.length, 1);
    });

    test("cancelled while the tool runs: the call is unknown, and is not run again", async () => {
      const cancel = new AbortController();
      const begun = start([{ calls: [send("c1")] }, done], { signal: cancel.signal });
      begun.recorder.behave = (_tool, _args, signal) =>
        new Promise((_, reject) => {
          signal?.addEventListener("abort", () => reject(signal.reason as Error));
          cancel.abort();
        });
      const ended = adapter.run(begun).catch((error: unknown) => error);
      await world.ana.decide((await pending(begun.runId)).id, { approved: true });
      await ended;
      for (let attempt = 0; attempt < 100 && (await onlyCall(begun.runId))?.state === "running"; attempt++) await sleep(20);
      assert.equal((await onlyCall(begun.runId))?.state, "unknown");
      assert.equal(begun.recorder.ran.length, 1);
    });

    test("exact bytes: what was approved is what the tool gets", async () => {
      const text = '{"amount": 9007199254740993, "to": "zoë 🐎 \\u00e9", "b": 1.0, "a": null}';
      const begun = start([{ calls: [send("c1", 1)] }, done]);
      const ended = adapter.run(begun);
      await world.ana.decide((await pending(begun.runId)).id, { approved: true, calls: [{ approved: true, argumentsText: text }] });
      await ended;
      assert.equal(begun.recorder.ran[0]?.text, text);
    });

    test("exact bytes: what the model wrote is what the person sees", { skip: !adapter.can.exactInput }, async () => {
      const text = '{"amount": 9007199254740993, "to": "zoë 🐎 \\u00e9"}';
      const begun = start([{ calls: [{ id: "c1", tool: "send", text }] }, done]);
      const ended = adapter.run(begun);
      const approval = await pending(begun.runId);
      assert.equal(approval.calls[0]?.argumentsText, text);
      await world.ana.decide(approval.id, { approved: true });
      await ended;
      assert.equal(begun.recorder.ran[0]?.text, text);
    });

    test("streaming: approve and deny", async () => {
      for (const approved of [true, false]) {
        const begun = start([{ calls: [send("c1")] }, done]);
        const ended = adapter.stream(begun);
        await world.ana.decide((await pending(begun.runId)).id, { approved, comment: "seen" });
        const end = await ended;
        assert.equal(end.text, "done");
        assert.equal(end.told("c1")?.isDenied, !approved);
        assert.equal(begun.recorder.ran.length, approved ? 1 : 0);
      }
    });

    test("the conversation is sent along, so that the person sees where values came from", async () => {
      const begun = start([{ calls: [{ id: "c1", tool: "lookup", text: '{"id":7}' }] }, { calls: [send("c2", 3, "zoe")] }, done]);
      begun.recorder.behave = (tool) => ({ done: tool, name: tool === "lookup" ? "zoe" : "" });
      const ended = adapter.run(begun);
      const approval = await pending(begun.runId);
      const leaves = (approval.calls[0]?.provenance as { leaves?: { pointer: string; mark: string }[] } | null)?.leaves ?? [];
      assert.deepEqual(Object.fromEntries(leaves.map(({ pointer, mark }) => [pointer, mark])), { "/amount": "user", "/to": "tool:lookup" });
      await world.ana.decide(approval.id, { approved: true });
      await ended;
    });
  });
}
