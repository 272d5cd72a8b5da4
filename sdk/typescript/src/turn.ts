// The calls of one turn: their rulings, the decision, and at most one run of each.
//
// INVARIANT: a tool runs only on the ruling `pass`, or after `start` has answered with a permit, and only with the
// arguments of that permit. Whatever else happens throws, and nothing runs.

import { CountersignError, Expired, Failed, Forbidden, Refused, TimedOut, UnexpectedAnswer, Unknown } from "./errors.ts";
import type { Gate } from "./gate.ts";
import { pause } from "./http.ts";
import { parseArguments } from "./json.ts";
import { editNotice, errorOf } from "./tell.ts";
import type { Approval, Call, Edit, Outcome, Ruling, Submitted } from "./types.ts";

/** What a tool is told about the call that it runs. */
export interface ApprovedCall {
  tool: string;
  /** Exact approved arguments as JSON text; a number above 2^53 is exact only here. */
  text: string;
  /** Id of the call, by which the tool should recognise a repeated call. Absent for a read that passed. */
  id: string | undefined;
  /** Changes that the approver made. */
  edits: readonly Edit[];
  /** The same in words, for a model. */
  notice: string | undefined;
  /** Credential that was submitted with the call. */
  secret: string | undefined;
  /** Aborted when the caller cancels, or when the tool's time is over. */
  signal: AbortSignal;
}

export type Tool<Arguments, Result> = (args: Arguments, call: ApprovedCall) => Result | Promise<Result>;

export interface Ran<Result> {
  result: Result;
  edits: readonly Edit[];
  notice: string | undefined;
  /** True if the call ran before and this is its recorded result. */
  isReplay: boolean;
}

export interface DecidedOptions {
  /** Time to wait for the decision. Afterwards the approval is withdrawn, so that nobody approves it in vain. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface RunOptions<Arguments> {
  signal?: AbortSignal | undefined;
  /** Checks the approved arguments, which a person may have changed. If it throws, the tool does not run. */
  parse?: ((value: unknown) => Arguments) | undefined;
}

/** What `run` needs to know of a started call. */
interface Started {
  call: ApprovedCall;
  permit: string | undefined;
  /** Time of `performance.now` after which the call counts as unknown. */
  deadline: number;
}

const approvedCalls = new WeakMap<object, ApprovedCall>();

/** Returns the call that a tool runs, for tools that a framework calls. `given` are its arguments or its abort signal. */
export function approvedCall(given: object): ApprovedCall | undefined {
  return approvedCalls.get(given);
}

/** Pause between two looks at a call that another process runs. */
const RUNNING_PAUSE_MS = 250;

export class Turn {
  readonly rulings: readonly Ruling[];
  readonly #gate: Gate;
  readonly #calls: readonly { tool: string; text: string }[];
  readonly #since: number;
  #approval: Approval | undefined;

  constructor(gate: Gate, calls: readonly { tool: string; text: string }[], submitted: Submitted, since: number) {
    this.#gate = gate;
    this.#calls = calls;
    this.#since = since;
    this.rulings = submitted.calls;
    this.#approval = submitted.approval ?? undefined;
  }

  /** The approval that the held calls share, as it was last read. */
  get approval(): Approval | undefined {
    return this.#approval;
  }

  /** True while a person has to decide. */
  get isPending(): boolean {
    return this.#approval?.status === "pending";
  }

  /** Reads the approval again, if a person still has to decide. */
  async refresh({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#approval?.status === "pending") this.#approval = await this.#gate.approval(this.#approval.id, { signal });
  }

  /** Waits until a person has decided, if that is needed. */
  async decided({ timeoutMs, signal }: DecidedOptions = {}): Promise<void> {
    const approval = this.#approval;
    if (approval?.status !== "pending") return;
    try {
      this.#approval = await this.#gate.wait(approval.id, { timeoutMs, signal });
    } catch (error) {
      if (!(error instanceof TimedOut)) throw error;
      await this.#withdraw(approval.id, error);
    }
  }

  /** Withdraws the approval. A decision that was made in this moment counts. */
  async #withdraw(id: string, late: TimedOut): Promise<void> {
    try {
      await this.#gate.withdraw(id, "nobody decided in time");
    } catch (error) {
      if (!(error instanceof Refused)) throw late;
      const approval = await this.#gate.approval(id);
      if (approval.status === "pending") throw late;
      this.#approval = approval;
      return;
    }
    throw late;
  }

  /** Returns why a call will not run; `undefined` if it may, or is not decided yet. */
  refusal(index: number): CountersignError | undefined {
    const ruling = this.#ruling(index);
    if (ruling.ruling === "forbidden") return this.#forbidden(index, ruling);
    if (ruling.ruling !== "held") return undefined;
    const { call, approval } = this.#held(ruling);
    return call.state === "refused" ? errorOf(call, approval) : undefined;
  }

  /** Changes that the approver made to a call. */
  edits(index: number): readonly Edit[] {
    const ruling = this.#ruling(index);
    return ruling.ruling === "held" ? (this.#held(ruling).call.edits ?? []) : [];
  }

  /**
   * Runs a call with the approved arguments, after waiting for the decision. A call that ran before is not run again:
   * its recorded result is returned. An error of the tool is recorded as `failed` and thrown.
   */
  async run<Arguments, Result>(index: number, tool: Tool<Arguments, Result>, options: RunOptions<Arguments> = {}): Promise<Ran<Result>> {
    const ruling = this.#ruling(index);
    switch (ruling.ruling) {
      case "forbidden":
        throw this.#forbidden(index, ruling);
      case "passed_before":
      case "confirmed":
        return this.#replay(idOf(ruling), options.signal);
      case "pass":
        // A status means that the service has run the tool itself.
        return ruling.status ? served(this.#name(index), ruling) : this.#execute(this.#passed(index, ruling, options.signal), tool, options);
      case "held": {
        await this.decided({ signal: options.signal });
        const { call, approval } = this.#held(ruling);
        if (call.state === "refused") throw errorOf(call, approval);
        if (call.state !== "released") return this.#replay(call.id, options.signal);
        const started = await this.#start(call, options.signal);
        return started ? this.#execute(started, tool, options) : this.#replay(call.id, options.signal);
      }
      default:
        throw new UnexpectedAnswer(`there is no ruling \`${String(ruling.ruling)}\``, { hint: "update @countersign/client" });
    }
  }

  #passed(index: number, ruling: Ruling, signal: AbortSignal | undefined): Started {
    const { tool, text } = this.#call(index);
    const timeoutMs = ruling.timeoutMs ?? Infinity;
    return {
      permit: ruling.permit ?? undefined,
      deadline: this.#since + timeoutMs,
      call: { tool, text, id: ruling.id ?? undefined, edits: [], notice: undefined, secret: undefined, signal: limited(signal, timeoutMs) },
    };
  }

  /** Starts a released call. Returns `undefined` if it is not this process that runs it. */
  async #start(call: Call, signal: AbortSignal | undefined): Promise<Started | undefined> {
    const since = performance.now();
    const edits = call.edits ?? [];
    try {
      const permit = await this.#gate.start(call.id, { signal });
      if (permit.tool !== call.tool) throw new UnexpectedAnswer(`the permit is not for \`${call.tool}\``, { hint: "update @countersign/client", call: call.id });
      const { id, tool, argumentsText: text, timeoutMs } = permit;
      return {
        permit: permit.permit,
        deadline: since + timeoutMs,
        call: { tool, text, id, edits, notice: editNotice(edits), secret: permit.secret ?? undefined, signal: limited(signal, timeoutMs) },
      };
    } catch (error) {
      // It was started before, or the service runs it itself.
      if (error instanceof Refused && (error.code === "wrong_state" || error.code === "runs_elsewhere")) return undefined;
      throw error;
    }
  }

  async #execute<Arguments, Result>(started: Started, tool: Tool<Arguments, Result>, options: RunOptions<Arguments>): Promise<Ran<Result>> {
    const { call, deadline } = started;
    const finish = (outcome: Outcome, result: unknown): Promise<void> => this.#finish(started, outcome, result);
    let args: Arguments;
    try {
      if (performance.now() >= deadline) throw new Expired(`the time to run \`${call.tool}\` is over`, { code: "expired", call: call.id });
      options.signal?.throwIfAborted();
      const value = parseArguments(call.tool, call.text);
      args = options.parse ? options.parse(value) : (value as Arguments);
    } catch (error) {
      await finish("not_sent", message(error));
      throw error;
    }
    // A framework may copy the one or wrap the other.
    for (const given of [args, call.signal]) if (typeof given === "object" && given !== null) approvedCalls.set(given, call);
    let result: Result;
    try {
      result = await tool(args, call);
    } catch (error) {
      const isUnknown = call.signal.aborted || error instanceof Unknown || (error instanceof Error && error.name === "AbortError");
      await finish(isUnknown ? "unknown" : "failed", message(error));
      throw error;
    }
    await finish("succeeded", result);
    return { result, edits: call.edits, notice: call.notice, isReplay: false };
  }

  async #finish({ call, permit }: Started, outcome: Outcome, result: unknown): Promise<void> {
    // A read that passed is not recorded.
    if (call.id === undefined || permit === undefined) return;
    try {
      await this.#gate.finish({ id: call.id, permit }, outcome, result);
    } catch (cause) {
      const ended = `\`${call.tool}\` ended as ${outcome}, but that could not be recorded`;
      throw new Unknown(ended, { call: call.id, result, cause });
    }
  }

  /** Returns the recorded result of a call that ran before or runs elsewhere, after waiting for its end. */
  async #replay<Result>(id: string, signal: AbortSignal | undefined): Promise<Ran<Result>> {
    for (;;) {
      const approval = await this.#gate.approval(id.slice(0, id.lastIndexOf(".")), { signal });
      const call = approval.calls.find((one) => one.id === id);
      if (!call) throw new UnexpectedAnswer("the approval does not have the call", { approval: approval.id, call: id });
      if (call.state === "succeeded" || call.state === "undone") {
        const edits = call.edits ?? [];
        return { result: call.result as Result, edits, notice: editNotice(edits), isReplay: true };
      }
      // The server ends both states when their time is over, so this ends.
      if (call.state !== "running" && call.state !== "released") throw errorOf(call, approval);
      await pause(RUNNING_PAUSE_MS, signal);
    }
  }

  #ruling(index: number): Ruling {
    const ruling = this.rulings[index];
    if (!ruling) throw new RangeError(`the turn has no call ${index}`);
    return ruling;
  }

  #call(index: number): { tool: string; text: string } {
    const call = this.#calls[index];
    if (!call) throw new RangeError(`the turn has no call ${index}`);
    return call;
  }

  #name(index: number): string {
    return this.#call(index).tool;
  }

  #held(ruling: Ruling): { call: Call; approval: Approval } {
    const id = idOf(ruling);
    const approval = this.#approval;
    const call = approval?.calls.find((one) => one.id === id);
    if (!approval || !call) throw new UnexpectedAnswer("a held call is not in the approval", { call: id });
    return { call, approval };
  }

  #forbidden(index: number, ruling: Ruling): Forbidden {
    const why = ruling.reason ? `: ${ruling.reason}` : "";
    return new Forbidden(`the policy forbids \`${this.#name(index)}\`${why}`, { code: "forbidden", hint: "correct the call, or do something else" });
  }
}

function served<Result>(tool: string, ruling: Ruling): Ran<Result> {
  const call = ruling.id ?? undefined;
  switch (ruling.status) {
    case "succeeded":
      return { result: ruling.result as Result, edits: [], notice: undefined, isReplay: false };
    case "failed":
    case "not_sent":
      throw new Failed(`\`${tool}\` failed at the service`, { code: ruling.status, call });
    default:
      throw new Unknown(`it is not known whether \`${tool}\` took effect`, { call });
  }
}

function idOf(ruling: Ruling): string {
  const id = ruling.callId ?? ruling.id;
  if (typeof id !== "string") throw new UnexpectedAnswer("a recorded call has no id", { hint: "update the server" });
  return id;
}

/** Returns a signal that is aborted with the given one, or when the time is over. */
function limited(signal: AbortSignal | undefined, timeoutMs: number): AbortSignal {
  const late = Number.isFinite(timeoutMs) ? AbortSignal.timeout(timeoutMs) : undefined;
  return AbortSignal.any([signal, late].filter((one) => one !== undefined));
}

function message(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
