import { randomUUID } from "node:crypto";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { fakeModel } from "@langchain/core/testing";
import { Command, MemorySaver } from "@langchain/langgraph";
import { createAgent, tool } from "langchain";
import { z } from "zod";
import { approvedCall } from "../src/index.ts";
import { countersign } from "../src/langchain.ts";
import { type Adapter, type End, runCases, type Start, type Step } from "./cases.ts";
import type { Recorder } from "./harness.ts";

const names = ["send", "remove", "lookup", "note", "forbidden"];

function toolsOf(recorder: Recorder) {
  return names.map((name) =>
    tool((input: Record<string, unknown>, config) => recorder.run(name, input, approvedCall(config.toolCall?.args ?? input), config.signal), { name, description: name, schema: z.looseObject({}) }),
  );
}

function modelOf(steps: Step[]) {
  return steps.reduce(
    (model, step) =>
      "text" in step
        ? model.respond(new AIMessage(step.text))
        : model.respondWithTools(step.calls.map(({ id, tool: name, text }) => ({ id, name, args: JSON.parse(text) as Record<string, unknown> }))),
    fakeModel(),
  );
}

/** Saved threads, as a database would have them. A run never changes the copy that it starts from. */
const saved = new Map<string, MemorySaver>();

function copyOf(saver: MemorySaver): MemorySaver {
  const copy = new MemorySaver();
  copy.storage = structuredClone(saver.storage);
  copy.writes = structuredClone(saver.writes);
  return copy;
}

async function go(start: Start, isStream: boolean): Promise<End> {
  const { gate, runId, timeoutMs, signal, wait } = start;
  const earlier = start.state === undefined ? undefined : saved.get(start.state);
  const checkpointer = earlier ? copyOf(earlier) : new MemorySaver();
  const middleware = countersign(gate, { ...(wait === undefined ? {} : { wait }), ...(timeoutMs === undefined ? {} : { timeoutMs }) });
  const agent = createAgent({ model: modelOf(start.steps), tools: toolsOf(start.recorder), middleware: [middleware], checkpointer });
  const config = { configurable: { thread_id: runId }, ...(signal ? { signal } : {}) };
  // What a graph is resumed with must not count as an approval.
  const input = earlier ? new Command({ resume: { approved: true, decisions: [{ type: "approve" }] } }) : { messages: [{ role: "user", content: start.prompt }] };
  if (isStream) for await (const _ of await agent.stream(input, { ...config, streamMode: "updates" }));
  else await agent.invoke(input, config);
  const state = await agent.graph.getState(config);
  const name = randomUUID();
  saved.set(name, checkpointer);
  const messages = (state.values as { messages: BaseMessage[] }).messages;
  const last = messages.at(-1);
  return {
    text: state.tasks.some(({ interrupts }) => interrupts.length > 0) ? undefined : last?.text,
    state: name,
    told: (id) => {
      const message = messages.find((one) => ToolMessage.isInstance(one) && one.tool_call_id === id);
      if (!message || !ToolMessage.isInstance(message)) return undefined;
      return { text: message.text, isDenied: message.status === "error" };
    },
  } satisfies End;
}

const adapter: Adapter = {
  name: "langchain",
  can: { readsFirst: true, batches: true, exactInput: false },
  run: (start) => go(start, false),
  stream: (start) => go(start, true),
  // The graph waits for a person, and is then resumed as if somebody had approved.
  forge: async (start) => (await go({ ...start, wait: false }, false)).state,
};

runCases(adapter);
