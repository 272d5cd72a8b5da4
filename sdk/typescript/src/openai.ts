// Adapter for the OpenAI Agents SDK (`@openai/agents`).
//
// The SDK's own interruptions are used: calls that need a person interrupt the run, `settle` proposes all of them as one
// approval and approves or rejects them in the run's state as the person decided, and the continued run executes what
// was approved. Calls that pass run at once. The state is the SDK's `RunState`; nothing else has to be kept.

import { type AgentInputItem, type FunctionTool, type RunState, tool as agentsTool, type ToolOptions } from "@openai/agents";
import { type AdapterOptions, AgentRun, type SettleOptions, tellResult } from "./adapter.ts";
import { CountersignError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import { tellModel } from "./tell.ts";
import type { Approval, Message } from "./types.ts";

export interface Settled {
  /** `settled`: run the agent again with the state. `pending`: nobody has decided yet. `none`: nothing to settle. */
  status: "settled" | "pending" | "none";
  approval: Approval | undefined;
}

type AnyState = RunState<any, any>;

export interface GatedTools {
  /** Makes a tool, as `tool` of the SDK does, that waits for a person as the policy of the server says. */
  tool: typeof agentsTool;
  /** Settles the interruptions of a run. Call it before the run is continued. */
  settle(state: AnyState, options?: SettleOptions): Promise<Settled>;
}

/** Details of a call, as the SDK passes them to a tool. */
interface Details {
  toolCall?: { callId: string; arguments: string };
  signal?: AbortSignal;
}

type AnyOptions = Omit<ToolOptions<undefined>, "execute" | "parameters"> & {
  parameters?: unknown;
  execute: (input: unknown, context?: unknown, details?: Details) => unknown;
};

/** Makes a factory for tools that wait for a person, and the function that settles their calls. */
export function countersign(gate: Gate, options: AdapterOptions): GatedTools {
  const run = new AgentRun(gate, options);
  const names = new Set<string>();
  const tool = (toolOptions: AnyOptions): FunctionTool => {
    const made = agentsTool({
      ...toolOptions,
      execute: (_: unknown, context: unknown, details?: Details) => execute(run, made.name, toolOptions, context, details),
      // A forbidden call is an interruption as well: it is rejected with the reason when it is settled.
      needsApproval: async (_: unknown, input: unknown, callId?: string) => {
        if (!callId) return true;
        const [ruling] = await run.rule([{ id: callId, tool: made.name, input }]);
        return ruling?.ruling !== "pass";
      },
    } as never) as FunctionTool;
    names.add(made.name);
    return made;
  };
  return { tool: tool as typeof agentsTool, settle: (state, settleOptions = {}) => settle(run, names, state, settleOptions) };
}

async function execute(run: AgentRun, tool: string, { execute: original, parameters }: AnyOptions, context: unknown, details: Details | undefined): Promise<unknown> {
  const { toolCall, signal } = details ?? {};
  if (!toolCall) throw new CountersignError(`a call of \`${tool}\` has no id`, { code: "not_proposed", hint: "run the tool by an agent" });
  try {
    const ran = await run.run(
      { id: toolCall.callId, tool, input: toolCall.arguments },
      (args, call) => original(args, context, { ...details, toolCall: { ...toolCall, arguments: call.text }, signal: call.signal }),
      { signal, parse: parserOf(parameters) },
    );
    return tellResult(ran);
  } catch (error) {
    // Returned, not thrown: the SDK would hide the reason from the model and ask it to try again.
    if (error instanceof CountersignError) return tellModel(error);
    throw error;
  }
}

/** Returns the check of a Zod schema, which may fill in defaults. */
function parserOf(parameters: unknown): ((value: unknown) => unknown) | undefined {
  if (typeof parameters !== "object" || parameters === null || !("parse" in parameters) || typeof parameters.parse !== "function") return undefined;
  return (value) => (parameters as { parse(value: unknown): unknown }).parse(value);
}

async function settle(run: AgentRun, names: ReadonlySet<string>, state: AnyState, { signal, wait = true }: SettleOptions): Promise<Settled> {
  // Interruptions of other tools are left to the program.
  const items = state.getInterruptions().filter((item) => item.rawItem.type === "function_call" && names.has(item.rawItem.name));
  if (items.length === 0) return { status: "none", approval: undefined };
  const calls = items.map(({ rawItem }) => {
    if (rawItem.type !== "function_call") throw new TypeError("not a function call");
    return { id: rawItem.callId, tool: rawItem.name, input: rawItem.arguments };
  });
  const turn = await run.propose(calls, conversationOf(state.history, new Set(calls.map(({ id }) => id))), signal);
  if (turn.isPending && !wait) return { status: "pending", approval: turn.approval };
  const late = await run.decided(turn, signal);
  items.forEach((item, index) => {
    const refusal = late ?? turn.refusal(index);
    if (refusal) state.reject(item, { message: tellModel(refusal) });
    else state.approve(item);
  });
  return { status: "settled", approval: turn.approval };
}

/** Returns the conversation in the form in which the server looks for the origin of values. */
function conversationOf(items: readonly AgentInputItem[], proposed: ReadonlySet<string>): Message[] {
  const tools = new Map(items.flatMap((item) => (item.type === "function_call" ? [[item.callId, item.name] as const] : [])));
  return items.flatMap((item): Message[] => {
    switch (item.type) {
      case "function_call":
        return proposed.has(item.callId) ? [] : [{ role: "assistant", text: `${item.name} ${item.arguments}` }];
      case "function_call_result":
        return [{ role: "tool", name: tools.get(item.callId) ?? item.name, text: textOf(item.output) }];
      default:
        if (!("role" in item) || (item.role !== "user" && item.role !== "assistant")) return [];
        return [{ role: item.role, text: textOf(item.content) }];
    }
  });
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? content : [content];
  return parts.map((part: unknown) => (typeof part === "object" && part !== null && "text" in part ? String(part.text) : JSON.stringify(part))).join("\n");
}
