// Adapter for Mastra agents (`@mastra/core`).
//
// An output processor sees all calls of a step before any of them runs, so that those that do not pass can be proposed
// as one approval; the wrapped tools then wait for the decision. With `wait: false` a tool suspends instead, and continues
// when it is resumed after the decision; what it is resumed with is not believed.

import type { Processor } from "@mastra/core/processors";
import { type AdapterOptions, AgentRun, type FrameworkCall, tellResult, textOf } from "./adapter.ts";
import { CountersignError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import { isObject } from "./http.ts";
import { conversationOf } from "./messages.ts";
import { tellModel } from "./tell.ts";
import type { Turn } from "./turn.ts";
import type { Message } from "./types.ts";

export interface MastraOptions extends Omit<AdapterOptions, "runId"> {
  /** False to suspend the run instead of waiting. Needs a storage. */
  wait?: boolean;
}

/** What a run is suspended with while a person has to decide. */
export interface PendingApproval {
  countersign: {
    approval: string;
    description: string;
    expiresAt: string;
    /** The held calls of the step, with which another process finds the approval again. */
    calls: { id: string; tool: string; text: string }[];
  };
}

/** A tool of Mastra, as far as it is looked at here. */
interface ToolLike {
  id: string;
  execute?: ((input: never, context: never) => unknown) | undefined;
}

/** The context of a tool, as far as it is looked at here. */
interface Context {
  runId?: string;
  abortSignal?: AbortSignal;
  agent?: {
    toolCallId?: string;
    messages?: { role: string; content: unknown }[];
    suspend?: (payload: PendingApproval) => Promise<unknown>;
    suspendPayload?: unknown;
  };
}

/** Output processor that tells the gate which calls belong together. */
export type TurnProcessor = Processor<"countersign"> & Required<Pick<Processor, "processOutputStep">>;

export interface GatedTools<TOOLS> {
  tools: TOOLS;
  /** Add this to the agent's `outputProcessors`. Without it, every call is an approval of its own. */
  processor: TurnProcessor;
}

/** Makes tools wait for a person, as the policy of the server says. */
export function countersign<TOOLS extends Record<string, ToolLike>>(gate: Gate, options: MastraOptions & { tools: TOOLS }): GatedTools<TOOLS> {
  const { tools, wait = true, ...adapterOptions } = options;
  const steps = new Steps();
  const runs = new Map<string, AgentRun>();

  const gated = (name: string, tool: ToolLike): ToolLike => {
    const { execute } = tool;
    if (!execute) throw new CountersignError(`tool \`${name}\` has no \`execute\`, so its calls cannot be held`, { code: "not_gated", hint: "leave it out, or give it an `execute`" });
    const wrapped = async (input: unknown, context: Context = {}): Promise<unknown> => {
      const { runId = "", agent } = context;
      const id = agent?.toolCallId;
      if (!id || !runId) throw new CountersignError(`a call of \`${name}\` has no id`, { code: "not_proposed", hint: "run the tool by an agent" });
      const run = runs.get(runId) ?? new AgentRun(gate, { ...adapterOptions, runId });
      runs.set(runId, run);
      const call: FrameworkCall = { id, tool: name, input };
      let isSuspended = false;
      try {
        const turn = await steps.propose(run, call, context);
        if (!wait && agent?.suspend && (await isPending(turn, context))) {
          isSuspended = true;
          return await agent.suspend(payloadOf(turn, steps.heldWith(call)));
        }
        const ran = await run.run<Record<string, unknown>, unknown>(
          call,
          async (approved, { signal }) => {
            const result = await execute.call(tool, approved as never, { ...context, abortSignal: signal } as never);
            // Mastra returns a mistake in the arguments as a result.
            if (isObject(result) && result.error === true && "validationErrors" in result) throw new Error(String(result.message));
            return result;
          },
          { signal: context.abortSignal, conversation: steps.before(call) },
        );
        return tellResult(ran);
      } catch (error) {
        if (error instanceof CountersignError) return tellModel(error);
        throw error;
      } finally {
        if (!isSuspended) {
          run.forget(id);
          steps.forget(id);
        }
        if (run.isIdle) runs.delete(runId);
      }
    };
    return Object.create(tool, { execute: { value: wrapped, enumerable: true, writable: true, configurable: true } }) as ToolLike;
  };

  return {
    tools: Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, gated(tool.id || name, tool)])) as TOOLS,
    processor: {
      id: "countersign",
      processOutputStep: ({ toolCalls = [], messages, messageList }) => {
        const calls = toolCalls.filter(({ toolName }) => Object.hasOwn(tools, toolName)).map(({ toolCallId, toolName, args }) => ({ id: toolCallId, tool: tools[toolName]?.id || toolName, input: args }));
        steps.add(calls, conversationOf(messageList.get.all.aiV5.model()));
        return messages;
      },
    },
  };
}

interface Step {
  calls: FrameworkCall[];
  conversation: Message[];
  turn: Promise<Turn | undefined> | undefined;
}

/** The calls of steps that have not ended, and the proposals of their held calls. */
class Steps {
  readonly #steps = new Map<string, Step>();

  add(calls: FrameworkCall[], conversation: Message[]): void {
    const step: Step = { calls, conversation, turn: undefined };
    for (const { id } of calls) this.#steps.set(id, step);
  }

  forget(id: string): void {
    this.#steps.delete(id);
  }

  /** Calls that were proposed together with a call. */
  heldWith(call: FrameworkCall): FrameworkCall[] {
    return this.#steps.get(call.id)?.calls ?? [call];
  }

  /** Messages before a call. */
  before(call: FrameworkCall): Message[] {
    return this.#steps.get(call.id)?.conversation ?? [];
  }

  /** Proposes the held calls of the step that a call belongs to, once. */
  async propose(run: AgentRun, call: FrameworkCall, { agent, abortSignal }: Context): Promise<Turn | undefined> {
    if (!this.#steps.has(call.id)) this.add(suspendedCalls(call, agent?.suspendPayload) ?? [call], conversationOf(agent?.messages ?? []));
    const step = this.#steps.get(call.id);
    if (!step) return undefined;
    step.turn ??= run.proposeHeld(step.calls, step.conversation, abortSignal);
    try {
      return await step.turn;
    } catch (error) {
      step.turn = undefined;
      throw error;
    }
  }
}

async function isPending(turn: Turn | undefined, { abortSignal }: Context): Promise<boolean> {
  await turn?.refresh({ signal: abortSignal });
  return turn?.isPending ?? false;
}

function payloadOf(turn: Turn | undefined, calls: readonly FrameworkCall[]): PendingApproval {
  const { id = "", description = "", expiresAt = "" } = turn?.approval ?? {};
  return { countersign: { approval: id, description, expiresAt, calls: calls.map((call) => ({ id: call.id, tool: call.tool, text: textOf(call) })) } };
}

/** Returns the calls that a suspended call was proposed with. They are proposed again under the same key, and not believed otherwise. */
function suspendedCalls(call: FrameworkCall, payload: unknown): FrameworkCall[] | undefined {
  const known = isObject(payload) && isObject(payload.countersign) && Array.isArray(payload.countersign.calls) ? payload.countersign.calls : [];
  const calls = known.filter(isObject).map(({ id, tool, text }) => ({ id: String(id), tool: String(tool), input: String(text) }));
  return calls.some(({ id, tool }) => id === call.id && tool === call.tool) ? calls : undefined;
}
