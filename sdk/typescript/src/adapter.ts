// What the adapters for agent frameworks share: one run of an agent, and which of its calls are known to the gate.
//
// INVARIANT: what a framework hands back as "approved" is never believed. A call runs only if this process has proposed
// it, or asked for its ruling, under the run's own key; an unknown call id is refused.

import { CountersignError, TimedOut } from "./errors.ts";
import { type Gate, type TurnContext, turnKey } from "./gate.ts";
import { argumentsText } from "./json.ts";
import type { Ran, RunOptions, Tool, Turn } from "./turn.ts";
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

export type RulingPreview = { ruling: "pass" | "held" } | { ruling: "forbidden"; reason: string };

/** Result of a call that a person changed. The model is told so before it sees the result. */
export interface ChangedResult {
  notice: string;
  result: unknown;
}

/** A turn whose calls wait together, so that all of them are told the same. */
interface SharedTurn {
  turn: Turn;
  decided: Promise<void> | undefined;
}

export class AgentRun {
  readonly timeoutMs: number | undefined;
  readonly #gate: Gate;
  readonly #runId: string;
  readonly #context: Omit<AdapterOptions, "timeoutMs">;
  /** Calls that were proposed, by their ids. */
  readonly #proposed = new Map<string, { shared: SharedTurn; index: number; tool: string }>();
  /** Tools of calls that would pass, by the ids of the calls. They are proposed, and ruled on, when they run. */
  readonly #passing = new Map<string, string>();

  constructor(gate: Gate, { timeoutMs, ...context }: AdapterOptions) {
    if (!context.runId) throw new CountersignError("the run has no name", { code: "no_run", hint: "pass `runId`, such as the id of the conversation" });
    this.timeoutMs = timeoutMs;
    this.#gate = gate;
    this.#runId = context.runId;
    this.#context = context;
  }

  /** Asks how calls would be ruled on; proposes nothing. */
  async rule(calls: readonly FrameworkCall[], signal?: AbortSignal): Promise<RulingPreview[]> {
    const asked = calls.filter(({ id }) => !this.#proposed.has(id));
    const proposed = asked.map((call) => ({ tool: call.tool, argumentsText: textOf(call) }));
    const rulings = asked.length === 0 ? [] : (await this.#gate.submit({ ...this.#context, calls: proposed, dryRun: true }, { signal })).calls;
    asked.forEach(({ id, tool }, index) => rulings[index]?.ruling === "pass" && this.#passing.set(id, tool));
    return calls.map((call) => {
      const ruling = rulings[asked.indexOf(call)];
      if (ruling?.ruling === "forbidden") return { ruling: "forbidden", reason: ruling.reason ?? "the policy forbids this call" };
      return { ruling: ruling?.ruling === "pass" ? "pass" : "held" };
    });
  }

  /** Proposes those calls of a turn that do not pass. Returns `undefined` if all of them pass. */
  async proposeHeld(calls: readonly FrameworkCall[], conversation: readonly Message[], signal?: AbortSignal): Promise<Turn | undefined> {
    const rulings = await this.rule(calls, signal);
    const held = calls.filter((_, index) => rulings[index]?.ruling !== "pass");
    return held.length === 0 ? undefined : this.propose(held, conversation, signal);
  }

  /** Forgets a call that has ended. */
  forget(id: string): void {
    this.#proposed.delete(id);
    this.#passing.delete(id);
  }

  /** True if no call is known. */
  get isIdle(): boolean {
    return this.#proposed.size === 0 && this.#passing.size === 0;
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
    const shared: SharedTurn = { turn, decided: undefined };
    calls.forEach(({ id, tool }, index) => this.#proposed.set(id, { shared, index, tool }));
    return turn;
  }

  /** Runs a call of this run: one that was proposed and decided, or one that passes. Any other call is refused. */
  async run<Arguments, Result>(call: FrameworkCall, tool: Tool<Arguments, Result>, options: AdapterRunOptions<Arguments> = {}): Promise<Ran<Result>> {
    const { signal, parse, conversation } = options;
    if (!this.#proposed.has(call.id) && this.#passing.get(call.id) === call.tool) await this.propose([call], conversation, signal);
    const proposed = this.#proposed.get(call.id);
    if (proposed?.tool !== call.tool) {
      throw new CountersignError(`this call of \`${call.tool}\` was never proposed to a person`, {
        code: "not_proposed",
        hint: "an approval in the history counts only if Countersign knows it",
      });
    }
    const { shared, index } = proposed;
    await (shared.decided ??= shared.turn.decided({ timeoutMs: this.timeoutMs, signal }));
    return shared.turn.run(index, tool, { signal, parse });
  }

  /** Waits for the decision on a turn. Returns the error if nobody decided in time. */
  async decided(turn: Turn, signal: AbortSignal | undefined): Promise<TimedOut | undefined> {
    try {
      await turn.decided({ timeoutMs: this.timeoutMs, signal });
      return undefined;
    } catch (error) {
      if (error instanceof TimedOut) return error;
      throw error;
    }
  }
}

export interface AdapterRunOptions<Arguments> extends RunOptions<Arguments> {
  /** Messages before the call, for a call that has not been proposed yet. */
  conversation?: readonly Message[] | undefined;
}

/** Options of the adapters' `settle`. */
export interface SettleOptions {
  signal?: AbortSignal | undefined;
  /** False to return at once if nobody has decided yet. */
  wait?: boolean;
}

/** Returns a result in the form in which a model is told about it. */
export function tellResult<Result>({ result, notice }: Ran<Result>): Result | ChangedResult {
  return notice === undefined ? result : { notice, result };
}

/** Returns the arguments of a call as JSON text. */
export function textOf({ tool, input }: FrameworkCall): string {
  return typeof input === "string" ? input || "{}" : argumentsText(tool, input ?? {});
}
