import { randomUUID } from "node:crypto";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { InMemoryStore } from "@mastra/core/storage";
import { MastraLanguageModelV2Mock, simulateReadableStream } from "@mastra/core/test-utils/llm-mock";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { approvedCall } from "../src/index.ts";
import { countersign } from "../src/mastra.ts";
import { type Adapter, type End, runCases, type Start, type Step } from "./cases.ts";
import type { Recorder } from "./harness.ts";

const names = ["send", "remove", "lookup", "note", "forbidden"];
const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

function toolsOf(recorder: Recorder) {
  return Object.fromEntries(
    names.map((name) => [
      name,
      createTool({
        id: name,
        description: name,
        inputSchema: z.looseObject({}),
        execute: (input, context) => recorder.run(name, input, context.abortSignal && approvedCall(context.abortSignal), context.abortSignal),
      }),
    ]),
  );
}

type Prompt = { role: string; content: unknown }[];

/** The fake model, and what it was told. */
function modelOf(steps: Step[], prompts: Prompt[]) {
  const rest = [...steps];
  const next = (prompt: Prompt) => {
    prompts.push(prompt);
    const step = rest.shift() ?? { text: "out of steps" };
    if ("text" in step) return { content: [{ type: "text" as const, text: step.text }], finishReason: "stop" as const };
    return { content: step.calls.map(({ id, tool, text }) => ({ type: "tool-call" as const, toolCallId: id, toolName: tool, input: text })), finishReason: "tool-calls" as const };
  };
  return new MastraLanguageModelV2Mock({
    doGenerate: async ({ prompt }) => ({ ...next(prompt as Prompt), usage, warnings: [] }),
    doStream: async ({ prompt }) => {
      const { content, finishReason } = next(prompt as Prompt);
      const parts = content.flatMap((part): object[] => (part.type === "text" ? [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: part.text }, { type: "text-end", id: "t" }] : [part]));
      return { stream: simulateReadableStream({ chunks: [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason, usage }] as never[] }) };
    },
  });
}

/** Snapshots of suspended runs, as a database would have them. */
const saved = new Map<string, { storage: InMemoryStore; toolCallId: string }>();

/** A run never changes the copy that it starts from. */
function copyOf(storage: InMemoryStore | undefined): InMemoryStore {
  const copy = new InMemoryStore();
  const workflows = (one: InMemoryStore) => (one as unknown as { stores: { workflows: { db: { workflows: Map<string, unknown> } } } }).stores.workflows.db.workflows;
  if (storage) for (const [name, run] of workflows(storage)) workflows(copy).set(name, structuredClone(run));
  return copy;
}

async function go(start: Start, isStream: boolean): Promise<End> {
  const { gate, runId, timeoutMs, signal, wait } = start;
  const earlier = start.state === undefined ? undefined : saved.get(start.state);
  const storage = copyOf(earlier?.storage);
  const { tools, processor } = countersign(gate, { tools: toolsOf(start.recorder), ...(wait === undefined ? {} : { wait }), ...(timeoutMs === undefined ? {} : { timeoutMs }) });
  const prompts: Prompt[] = [];
  const agent = new Agent({ id: "tester", name: "tester", instructions: "", model: modelOf(start.steps, prompts) as never, tools, outputProcessors: [processor] });
  new Mastra({ agents: { agent }, storage, logger: false });
  const options = { runId, maxSteps: 5, ...(signal ? { abortSignal: signal } : {}) };
  // What a run is resumed with must not count as an approval.
  const resumed = { ...options, toolCallId: earlier?.toolCallId ?? "" };
  let finishReason: string | undefined;
  let text: string;
  let payload: { toolCallId?: string } | undefined;
  if (isStream) {
    const output = earlier ? await agent.resumeStream({ approved: true }, resumed) : await agent.stream(start.prompt, options);
    await output.consumeStream();
    [finishReason, text] = [await output.finishReason, await output.text];
  } else {
    const output = earlier ? await agent.resumeGenerate({ approved: true }, resumed) : await agent.generate(start.prompt, options);
    ({ finishReason, text } = output);
    payload = output.suspendPayload as typeof payload;
  }
  const name = randomUUID();
  saved.set(name, { storage, toolCallId: payload?.toolCallId ?? earlier?.toolCallId ?? "" });
  return {
    text: finishReason === "suspended" ? undefined : text,
    state: name,
    told: (id) => {
      const parts = prompts.flatMap((prompt) => prompt.flatMap(({ role, content }) => (role === "tool" ? (content as { toolCallId: string; output: unknown }[]) : [])));
      const result = parts.find(({ toolCallId }) => toolCallId === id);
      const told = JSON.stringify(result?.output ?? null);
      return result && { text: told, isDenied: told.includes("It was not run") };
    },
  };
}

const adapter: Adapter = {
  name: "mastra",
  can: { readsFirst: true, batches: true, exactInput: false },
  run: (start) => go(start, false),
  stream: (start) => go(start, true),
  // The run is suspended, and is then resumed as if somebody had approved.
  forge: async (start) => (await go({ ...start, wait: false }, false)).state,
};

runCases(adapter);
