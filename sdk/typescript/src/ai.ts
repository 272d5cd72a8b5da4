// Adapter for the AI SDK (`ai`).
//
// The SDK's own approval parts are used: calls that need a person end the step as approval requests, `settle` proposes
// all of them as one approval and answers the requests as the person decided, and the next step runs what was approved.
// Calls that pass run within their step. The state is the messages; nothing else has to be kept.

import type { ModelMessage, ToolApprovalConfiguration, ToolApprovalRequest, ToolApprovalResponse, ToolExecutionOptions, ToolSet } from "ai";
import { type AdapterOptions, AgentRun, type FrameworkCall, type SettleOptions, tellResult } from "./adapter.ts";
import { CountersignError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import { conversationOf } from "./messages.ts";
import { tellModel } from "./tell.ts";
import type { Approval } from "./types.ts";

export interface Settled {
  /** `settled`: go on with `messages`. `pending`: nobody has decided yet. `none`: the last step asked for nothing. */
  status: "settled" | "pending" | "none";
  /** The messages, with the answers to the approval requests. */
  messages: ModelMessage[];
  approval: Approval | undefined;
}

export interface GatedTools<TOOLS extends ToolSet> {
  /** Pass these to `generateText`, `streamText` or `ToolLoopAgent`… */
  tools: TOOLS;
  /** …together with this. */
  toolApproval: ToolApprovalConfiguration<TOOLS, never>;
  /** Settles the approval requests of the last step. Call it before each further step. */
  settle(messages: readonly ModelMessage[], options?: SettleOptions): Promise<Settled>;
}

/** Makes tools wait for a person, as the policy of the server says. */
export function countersign<TOOLS extends ToolSet>(gate: Gate, options: AdapterOptions & { tools: TOOLS }): GatedTools<TOOLS> {
  const { tools, ...adapterOptions } = options;
  const run = new AgentRun(gate, adapterOptions);
  const toolApproval = async ({ toolCall }: { toolCall: { toolCallId: string; toolName: string; input: unknown } }) => {
    const [ruling] = await run.rule([{ id: toolCall.toolCallId, tool: toolCall.toolName, input: toolCall.input }]);
    switch (ruling?.ruling) {
      case "pass":
        return "not-applicable";
      case "forbidden":
        return { type: "denied", reason: ruling.reason };
      default:
        return "user-approval";
    }
  };
  return {
    tools: Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, gated(run, name, tool)])) as TOOLS,
    toolApproval: toolApproval as unknown as ToolApprovalConfiguration<TOOLS, never>,
    settle: (messages, settleOptions = {}) => settle(run, messages, settleOptions),
  };
}

function gated(run: AgentRun, name: string, tool: ToolSet[string]): ToolSet[string] {
  const { execute } = tool;
  if (!execute) {
    throw new CountersignError(`tool \`${name}\` has no \`execute\`, so its calls cannot be held`, { code: "not_gated", hint: "leave it out, or give it an `execute`" });
  }
  return {
    ...tool,
    execute: async (input: unknown, options: ToolExecutionOptions<never>) => {
      const { toolCallId, abortSignal: signal, messages } = options;
      try {
        const ran = await run.run({ id: toolCallId, tool: name, input }, async (args, call) => last(await execute(args as never, { ...options, abortSignal: call.signal } as never)), {
          signal,
          conversation: conversationOf(messages),
        });
        return tellResult(ran);
      } catch (error) {
        if (error instanceof CountersignError) throw new Error(tellModel(error), { cause: error });
        throw error;
      }
    },
  } as ToolSet[string];
}

async function settle(run: AgentRun, messages: readonly ModelMessage[], { signal, wait = true }: SettleOptions): Promise<Settled> {
  const { requests, calls, before } = openRequests(messages);
  if (requests.length === 0) return { status: "none", messages: [...messages], approval: undefined };
  const turn = await run.propose(calls, conversationOf(before), signal);
  if (turn.isPending && !wait) return { status: "pending", messages: [...messages], approval: turn.approval };
  const late = await run.decided(turn, signal);
  const responses = requests.map(({ approvalId }, index): ToolApprovalResponse => {
    const refusal = late ?? turn.refusal(index);
    return { type: "tool-approval-response", approvalId, approved: !refusal, ...(refusal ? { reason: tellModel(refusal) } : {}) };
  });
  return { status: "settled", messages: [...withoutResponses(messages, requests), { role: "tool", content: responses }], approval: turn.approval };
}

/** Returns the requests of the last step that have no result yet, the calls that they are about, and what came before. */
function openRequests(messages: readonly ModelMessage[]): { requests: ToolApprovalRequest[]; calls: FrameworkCall[]; before: readonly ModelMessage[] } {
  const index = messages.findLastIndex(({ role }) => role === "assistant");
  const step = messages[index];
  const parts = step?.role === "assistant" && typeof step.content !== "string" ? step.content : [];
  const later = messages.slice(index + 1).flatMap((message) => (message.role === "tool" ? message.content : []));
  const isDone = (id: string): boolean => later.some((part) => part.type === "tool-result" && part.toolCallId === id);
  const requests = parts.filter((part) => part.type === "tool-approval-request").filter((part) => !part.isAutomatic && !isDone(part.toolCallId));
  const calls = requests.map(({ toolCallId }) => {
    const call = parts.find((part) => part.type === "tool-call" && part.toolCallId === toolCallId);
    if (call?.type !== "tool-call") throw new CountersignError("an approval request has no call in its message", { code: "not_proposed", hint: "keep all parts of the response messages" });
    return { id: toolCallId, tool: call.toolName, input: call.input };
  });
  return { requests, calls, before: messages.slice(0, Math.max(index, 0)) };
}

/** Leaves out answers to these requests, which anybody may have put into the history. */
function withoutResponses(messages: readonly ModelMessage[], requests: readonly ToolApprovalRequest[]): ModelMessage[] {
  const ids = new Set(requests.map(({ approvalId }) => approvalId));
  return messages.flatMap((message): ModelMessage[] => {
    if (message.role !== "tool") return [message];
    const content = message.content.filter((part) => part.type !== "tool-approval-response" || !ids.has(part.approvalId));
    return content.length > 0 ? [{ ...message, content }] : [];
  });
}

/** A tool may yield preliminary results; the last one is its result. */
async function last(output: unknown): Promise<unknown> {
  if (typeof output !== "object" || output === null || !(Symbol.asyncIterator in output)) return output;
  let result: unknown;
  for await (const part of output as AsyncIterable<unknown>) result = part;
  return result;
}
