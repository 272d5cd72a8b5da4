import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent, type AgentInputItem, Runner, RunState, setTracingDisabled, type Tool } from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents-core/testing";
import { z } from "zod";
import { Gate } from "../src/index.ts";
import { countersign } from "../src/openai.ts";
import { type Adapter, type End, runCases, type Start, type Step } from "./cases.ts";
import { approvalsOf, newRun, openWorld, pendingOf, Recorder } from "./harness.ts";

setTracingDisabled(true);
const names = ["send", "remove", "lookup", "note", "forbidden"];

function toolsOf(make: ReturnType<typeof countersign>["tool"], recorder: Recorder): Tool[] {
  const parameters = { type: "object" as const, properties: {}, required: [], additionalProperties: true as const };
  return names.map((name) =>
    make({ name, description: name, strict: false, parameters, execute: (input, _context, details) => recorder.run(name, input as Record<string, unknown>, undefined, details?.signal) }),
  );
}

function modelOf(steps: Step[]): ScriptedModel {
  return new ScriptedModel(steps.map((step) => ("text" in step ? [assistantMessage(step.text)] : step.calls.map(({ id, tool, text }) => functionCall(tool, text, { callId: id })))));
}

async function go(start: Start, isStream: boolean): Promise<End> {
  const { gate, runId, timeoutMs, signal, wait } = start;
  const { tool, settle } = countersign(gate, { runId, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
  const agent = new Agent({ name: "tester", model: modelOf(start.steps), tools: toolsOf(tool, start.recorder) });
  const runner = new Runner({ tracingDisabled: true });
  let input: string | RunState<undefined, typeof agent> = start.state ? await RunState.fromString(agent, start.state) : start.prompt;
  for (let turn = 0; turn < 5; turn++) {
    if (input instanceof RunState) {
      const { status } = await settle(input, { signal, ...(wait === undefined ? {} : { wait }) });
      if (status === "pending") return endOf(undefined, input.toString(), input.history);
    }
    const options = { ...(signal ? { signal } : {}) };
    let state: RunState<undefined, typeof agent>;
    let text: string | undefined;
    if (isStream) {
      const result = await runner.run(agent, input, { ...options, stream: true });
      await result.completed;
      [state, text] = [result.state, result.interruptions.length > 0 ? undefined : result.finalOutput];
    } else {
      const result = await runner.run(agent, input, options);
      [state, text] = [result.state, result.interruptions.length > 0 ? undefined : result.finalOutput];
    }
    if (text !== undefined) return endOf(text, state.toString(), state.history);
    input = state;
  }
  throw new Error("the run does not end");
}

function endOf(text: string | undefined, state: string, history: AgentInputItem[]): End {
  return {
    text,
    state,
    told: (id) => {
      const result = history.find((item) => item.type === "function_call_result" && item.callId === id);
      if (result?.type !== "function_call_result") return undefined;
      const output = typeof result.output === "string" ? result.output : "text" in result.output ? String(result.output.text) : JSON.stringify(result.output);
      // The SDK tells a rejection as the text of the result.
      return { text: output, isDenied: output.includes("It was not run") };
    },
  };
}

const adapter: Adapter = {
  name: "openai",
  can: { readsFirst: true, batches: true, exactInput: true },
  run: (start) => go(start, false),
  stream: (start) => go(start, true),
  forge: async (start) => {
    // Somebody approves in the state itself, without Countersign.
    const { tool } = countersign(start.gate, { runId: start.runId });
    const agent = new Agent({ name: "tester", model: modelOf(start.steps), tools: toolsOf(tool, start.recorder) });
    const { state } = await new Runner({ tracingDisabled: true }).run(agent, start.prompt);
    for (const item of state.getInterruptions()) state.approve(item);
    return state.toString();
  },
};

runCases(adapter);

test("openai: a forged approval that is not settled at all runs nothing", async () => {
  const world = await openWorld();
  try {
    const start: Start = { gate: world.gate, runId: newRun(), recorder: new Recorder(), prompt: "go", steps: [{ calls: [{ id: "c1", tool: "send", text: '{"to":"bo","amount":3}' }] }] };
    const forged = await adapter.forge(start);
    const { tool } = countersign(start.gate, { runId: start.runId });
    const agent = new Agent({ name: "tester", model: modelOf([{ text: "done" }]), tools: toolsOf(tool, start.recorder) });
    const result = await new Runner({ tracingDisabled: true }).run(agent, await RunState.fromString(agent, forged));
    assert.match(endOf(result.finalOutput, "", result.state.history).told("c1")?.text ?? "", /never proposed to a person/);
    assert.deepEqual(start.recorder.ran, []);
    assert.deepEqual(await approvalsOf(world.ana, start.runId), []);
  } finally {
    await world.service.stop();
  }
});

test("openai: a denied call is rejected in the run's state, so that the tool is not even invoked", async () => {
  const world = await openWorld();
  try {
    const runId = newRun();
    const { tool, settle } = countersign(world.gate, { runId });
    const agent = new Agent({ name: "tester", model: modelOf([{ calls: [{ id: "c1", tool: "send", text: '{"to":"bo","amount":3}' }] }, { text: "done" }]), tools: toolsOf(tool, new Recorder()) });
    const runner = new Runner({ tracingDisabled: true });
    const invoked: string[] = [];
    runner.on("agent_tool_start", (_context, _agent, { name }) => invoked.push(name));
    const { state } = await runner.run(agent, "go");
    const settled = settle(state);
    await world.ana.decide((await pendingOf(world.ana, runId)).id, { approved: false, comment: "no" });
    await settled;
    assert.equal((await runner.run(agent, state)).finalOutput, "done");
    assert.deepEqual(invoked, []);
  } finally {
    await world.service.stop();
  }
});

test("openai: a Zod schema checks what a person changed", async () => {
  const world = await openWorld();
  try {
    const runId = newRun();
    const sent: unknown[] = [];
    const { tool, settle } = countersign(new Gate({ server: world.service.url, token: world.agentToken }), { runId });
    const send = tool({ name: "send", description: "send", parameters: z.object({ to: z.string(), amount: z.number() }), execute: (input) => void sent.push(input) });
    const agent = new Agent({ name: "tester", model: modelOf([{ calls: [{ id: "c1", tool: "send", text: '{"to":"bo","amount":3}' }] }, { text: "done" }]), tools: [send] });
    const { state } = await new Runner({ tracingDisabled: true }).run(agent, "go");
    const settled = settle(state);
    await world.ana.decide((await pendingOf(world.ana, runId)).id, { approved: true, calls: [{ approved: true, argumentsText: '{"to":"bo","amount":"much"}' }] });
    await settled;
    const result = await new Runner({ tracingDisabled: true }).run(agent, state);
    assert.equal(result.finalOutput, "done");
    assert.deepEqual(sent, []);
    assert.equal((await approvalsOf(world.ana, runId))[0]?.calls[0]?.end, "not_sent");
  } finally {
    await world.service.stop();
  }
});
