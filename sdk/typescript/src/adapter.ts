// What the adapters for agent frameworks share: one run of an agent, and which of its calls are known to the gate.
//
// INVARIANT: what a framework hands back as "approved" is never believed. A call runs only if this process has proposed
// it, or asked for its ruling, under the run's own key; an unknown call id is refused.

import { CountersignError } from "./errors.ts";
import { type Gate, type TurnContext, turnKey } from "./gate.ts";
import { argumentsText } from "./json.ts";
import type { Ran, Tool, Turn } from "./turn.ts";
import type { Message } from "./types.ts";

export interface AdapterOptions extends Omit<TurnContext, "runId" | "conversation"> {
  /** Name of this run of the agent. Another process that continues the run uses the same name. */
  runId: string;
  /** Time to wait for a decision. Afterwards the approval is withdrawn. Default: until it expires. */
  timeoutMs?: number;
}

/** A call as a framework names it. */
export interface FrameworkCall {
  /** Id that the model gave the call. */
  id: string;
  tool: string;
  /** Arguments: JSON text, or a value. */
  input: unknown;
}

/** Result of a call that a person changed. The model is told so before it sees the result. */
export interface ChangedResult {
  notice: string;
  result: unknown;
}

export class AgentRun {
  readonly timeoutMs: number | undefined;
  readonly #gate: Gate;
  readonly #runId: string;
  readonly #context: Omit<AdapterOptions, "timeoutMs">;
  /** Calls that were proposed, by their ids. */
  readonly #proposed = new Map<string, { turn: Turn; index: number; tool: string }>();
  /** Calls that would pass, by their ids. The ruling itself is asked for when they run. */
  readonly #passing = new Map<string, { tool: string; text: string }>();

  constructor(gate: Gate, { timeoutMs, ...context }: AdapterOptions) {
    if (!context.runId) throw new CountersignError("the run has no name", { code: "no_run", hint: "pass `runId`, such as the id of the conversation" });
    this.timeoutMs = timeoutMs;
    this.#gate = gate;
    this.#runId = context.runId;
    this.#context = context;
  }

  /** Asks how a call would be ruled on; proposes nothing. */
  async rule(call: FrameworkCall, signal?: AbortSignal): Promise<{ ruling: "pass" | "held" } | { ruling: "forbidden"; reason: string }> {
    if (this.#proposed.has(call.id)) return { ruling: "held" };
    const text = textOf(call);
    const { calls } = await this.#gate.submit({ ...this.#context, calls: [{ tool: call.tool, argumentsText: text }], dryRun: true }, { signal });
    const ruling = calls[0];
    switch (ruling?.ruling) {
      case "pass":
        this.#passing.set(call.id, { tool: call.tool, text });
        return { ruling: "pass" };
      case "forbidden":
        return { ruling: "forbidden", reason: ruling.reason ?? "the policy forbids this call" };
      default:
        return { ruling: "held" };
    }
  }

  /** Proposes the calls of one turn as one approval. The same calls again continue the earlier proposal. */
  async propose(calls: readonly FrameworkCall[], conversation: readonly Message[] | undefined, signal?: AbortSignal): Promise<Turn> {
    const key = await turnKey(this.#runId, calls.map(({ id }) => id));
    const turn = await this.#gate.propose(
      {
        ...this.#context,
        order: "any",
        calls: calls.map((call) => ({ tool: call.tool, argumentsText: textOf(call) })),
        ...(conversation ? { conversation } : {}),
      },
      { key, signal },
    );
    calls.forEach(({ id, tool }, index) => this.#proposed.set(id, { turn, index, tool }));
    return turn;
  }

  /** Runs a call of this run: one that was proposed and decided, or one that passes. Any other call is refused. */
  async run<Arguments, Result>(id: string, tool: string, run: Tool<Arguments, Result>, options: { signal?: AbortSignal | undefined; conversation?: readonly Message[] | undefined } = {}): Promise<Ran<Result>> {
    const { signal } = options;
    const passing = this.#passing.get(id);
    if (!this.#proposed.has(id) && passing?.tool === tool) {
      const turn = await this.propose([{ id, tool, input: passing.text }], options.conversation, signal);
      await turn.decided({ timeoutMs: this.timeoutMs, signal });
    }
    const proposed = this.#proposed.get(id);
    if (proposed?.tool !== tool) {
      throw new CountersignError(`\`${tool}\` was not run: this call was never proposed to a person`, {
        code: "not_proposed",
        hint: "an approval in the history counts only if Countersign knows it",
      });
    }
    return proposed.turn.run(proposed.index, run, { signal });
  }
}

/** Returns a result in the form in which a model is told about it. */
export function tellResult<Result>({ result, notice }: Ran<Result>): Result | ChangedResult {
  return notice === undefined ? result : { notice, result };
}

function textOf({ tool, input }: FrameworkCall): string {
  return typeof input === "string" ? input || "{}" : argumentsText(tool, input ?? {});
}
