// Adapter for LangChain agents (`langchain`), as a middleware.
//
// The calls of a turn are known from the model's message: those that do not pass are proposed as one approval, and each
// tool call then waits for the decision. With `wait: false` the graph is interrupted instead, and continues when it is
// resumed after the decision; what it is resumed with is not believed.

import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { interrupt, isGraphBubbleUp } from "@langchain/langgraph";
import { createMiddleware } from "langchain";
import { type AdapterOptions, AgentRun, type FrameworkCall } from "./adapter.ts";
import { CountersignError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import { tellModel } from "./tell.ts";
import type { Turn } from "./turn.ts";
import type { Message } from "./types.ts";

export interface LangChainOptions extends Omit<AdapterOptions, "runId"> {
  /** Name of the run. Default: the thread's id (`configurable.thread_id`). */
  runId?: string;
  /** False to interrupt the graph instead of waiting. Needs a checkpointer. */
  wait?: boolean;
}

/** What the graph is interrupted with while a person has to decide. */
export interface PendingApproval {
  countersign: { approval: string; description: string; expiresAt: string };
}

interface Runtime {
  configurable?: { thread_id?: string };
  signal?: AbortSignal;
}

/** A run of an agent with the turn that it is in. */
interface ThreadRun {
  run: AgentRun;
  /** The held calls of the turn, by the id of its first call. Shared by the calls, which run in parallel. */
  turns: Map<string, Promise<Turn | undefined>>;
}

/** Makes the tools of an agent wait for a person, as the policy of the server says. */
export function countersign(gate: Gate, options: LangChainOptions = {}): ReturnType<typeof createMiddleware> {
  const { wait = true, runId, ...adapterOptions } = options;
  const threads = new Map<string, ThreadRun>();

  const threadOf = (runtime: Runtime): [string, ThreadRun] => {
    const name = runId ?? runtime.configurable?.thread_id ?? "";
    const thread = threads.get(name) ?? { run: new AgentRun(gate, { ...adapterOptions, runId: name }), turns: new Map() };
    threads.set(name, thread);
    return [name, thread];
  };
  /** Proposes the turn that the last message of the model began, once. */
  const turnOf = ({ run, turns }: ThreadRun, messages: readonly BaseMessage[], signal: AbortSignal | undefined): Promise<Turn | undefined> => {
    const { calls, before } = openCalls(messages);
    const first = calls[0]?.id ?? "";
    const turn = turns.get(first) ?? run.proposeHeld(calls, conversationOf(before), signal);
    turns.set(first, turn);
    // A turn that could not be proposed is proposed again the next time.
    turn.catch(() => turns.delete(first));
    return turn;
  };

  return createMiddleware({
    name: "Countersign",
    afterModel: async (state: { messages: BaseMessage[] }, runtime: Runtime) => {
      if (wait || openCalls(state.messages).calls.length === 0) return;
      const [, thread] = threadOf(runtime);
      const turn = await turnOf(thread, state.messages, runtime.signal);
      for (await turn?.refresh(runtime); turn?.isPending; await turn.refresh(runtime)) {
        const { id, description, expiresAt } = turn.approval ?? { id: "", description: "", expiresAt: "" };
        interrupt({ countersign: { approval: id, description, expiresAt } } satisfies PendingApproval);
      }
    },
    wrapToolCall: async (request, handler) => {
      const runtime = request.runtime as Runtime;
      const { signal } = runtime;
      const [name, thread] = threadOf(runtime);
      const { id = "", name: tool, args } = request.toolCall;
      const messages = request.state.messages as BaseMessage[];
      let message: Awaited<ReturnType<typeof handler>> | undefined;
      try {
        await turnOf(thread, messages, signal);
        const ran = await thread.run.run<Record<string, unknown>, unknown>(
          { id, tool, input: args },
          async (approved, call) => {
            message = await handler({ ...request, toolCall: { ...request.toolCall, args: approved }, runtime: { ...request.runtime, signal: call.signal } });
            if (!ToolMessage.isInstance(message)) return { command: true };
            if (message.status === "error") throw new ToolFailed(message);
            return message.content;
          },
          { signal, conversation: conversationOf(messages) },
        );
        // A command cannot be told anything; without a notice, the tool's own message is kept with all that it has.
        if (message && (ran.notice === undefined || !ToolMessage.isInstance(message))) return message;
        const notice = ran.notice === undefined ? "" : `${ran.notice}\n`;
        return new ToolMessage({ content: notice + textOf(ran.result), tool_call_id: id, name: tool });
      } catch (error) {
        if (error instanceof ToolFailed) return error.told;
        if (error instanceof CountersignError) return new ToolMessage({ content: tellModel(error), tool_call_id: id, name: tool, status: "error" });
        if (isGraphBubbleUp(error) || signal?.aborted) throw error;
        // An error that leaves a middleware would end the run.
        return new ToolMessage({ content: error instanceof Error ? error.message : String(error), tool_call_id: id, name: tool, status: "error" });
      } finally {
        thread.run.forget(id);
        if (thread.run.isIdle) threads.delete(name);
      }
    },
  }) as ReturnType<typeof createMiddleware>;
}

/** A tool's failure that the framework has already put into words. */
class ToolFailed extends Error {
  readonly told: ToolMessage;

  constructor(told: ToolMessage) {
    super(textOf(told.content));
    this.name = "ToolFailed";
    this.told = told;
  }
}

/** Returns the calls of the model's last message, and the messages before it. */
function openCalls(messages: readonly BaseMessage[]): { calls: FrameworkCall[]; before: readonly BaseMessage[] } {
  const index = messages.findLastIndex((message) => AIMessage.isInstance(message));
  const message = messages[index];
  const calls = message && AIMessage.isInstance(message) ? (message.tool_calls ?? []) : [];
  return { calls: calls.map(({ id = "", name, args }) => ({ id, tool: name, input: args })), before: messages.slice(0, Math.max(index, 0)) };
}

/** Returns the conversation in the form in which the server looks for the origin of values. */
function conversationOf(messages: readonly BaseMessage[]): Message[] {
  return messages.flatMap((message): Message[] => {
    if (ToolMessage.isInstance(message)) return [{ role: "tool", name: message.name ?? "tool", text: textOf(message.content) }];
    if (message.type === "human") return [{ role: "user", text: message.text }];
    if (!AIMessage.isInstance(message)) return [];
    const calls = (message.tool_calls ?? []).map(({ name, args }): Message => ({ role: "assistant", text: `${name} ${JSON.stringify(args)}` }));
    return message.text === "" ? calls : [{ role: "assistant", text: message.text }, ...calls];
  });
}

function textOf(content: unknown): string {
  return typeof content === "string" ? content : JSON.stringify(content ?? null);
}
