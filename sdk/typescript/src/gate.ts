// The client of a Countersign server.
//
// Only web standards: fetch, AbortSignal, streams, Web Crypto. It therefore works in Node.js, Deno, Bun, and at the edge.

import { CountersignError, Denied, Expired, Forbidden, Refused, TimedOut, UnexpectedAnswer, Withdrawn, WrongServer, WrongToken } from "./errors.ts";
import { parseEvents } from "./events.ts";
import { expect, Http, type HttpOptions, isObject, pause } from "./http.ts";
import { argumentsText, JsonText, recordable, sha256 } from "./json.ts";
import { type Refusal, refusalOf } from "./tell.ts";
import { type DecidedOptions, type Tool, Turn } from "./turn.ts";
import type { Approval, ApprovalStatus, Decision, GateEvent, Message, Outcome, Permit, ProposedCall, ProposedTurn, Submitted } from "./types.ts";
import { Waits } from "./waits.ts";

export interface GateOptions extends HttpOptions {
  /** Address of the server. Default: COUNTERSIGN_SERVER. */
  server?: string;
  /** Token of the agent, or of a person who decides. Default: COUNTERSIGN_TOKEN. */
  token?: string;
  /** Longest time of one long poll; less than what proxies allow. Default: 50 seconds. */
  longestPollMs?: number;
}

export interface Cancel {
  signal?: AbortSignal | undefined;
}

export interface WaitOptions extends Cancel {
  /** Time after which the wait ends with `TimedOut`. Default: none; an approval expires by itself. */
  timeoutMs?: number | undefined;
  /** What to wait for: the decision, or the end of all calls. */
  until?: "decided" | "finished";
}

export interface ListQuery {
  status?: ApprovalStatus | "all";
  agentName?: string;
  channel?: string;
  runId?: string;
}

export interface EventsQuery {
  approval?: string;
  agentName?: string;
  channel?: string;
  /** Kinds of events, such as `["approved", "denied"]`. */
  what?: readonly string[];
  /** Id of the event after which to begin; `"0"` for all. Default: from now on. */
  after?: string;
}

/** What a held call is proposed with, besides its arguments. */
export type TurnContext = Omit<ProposedTurn, "calls" | "dryRun" | "order">;

export interface HoldOptions<Arguments> extends TurnContext {
  /** What happens if the call is not approved: an error, or a value that can be passed on to a model. */
  onDenied?: "throw" | "return";
  /** Time to wait for the decision. Default: until the approval expires. */
  timeoutMs?: number;
  /** Checks the approved arguments, which a person may have changed, such as `schema.parse`. */
  parse?: (value: unknown) => Arguments;
}

export interface HeldCallOptions extends TurnContext, DecidedOptions {
  /** Idempotency key. The same key and arguments in another process continue this call instead of proposing another. */
  key?: string;
}

/** A tool that waits for a person. */
export type Held<Arguments, Result> = (args: Arguments | JsonText, options?: HeldCallOptions) => Promise<Result>;

const LONGEST_POLL_MS = 50_000;
/** Time for which a result is reported again, because a call whose end is not reported counts as unknown. */
const FINISH_FOR_MS = 120_000;

export class Gate {
  readonly #http: Http;
  readonly #waits: { decided: Waits; finished: Waits };

  constructor(options: GateOptions = {}) {
    const server = options.server ?? environment("COUNTERSIGN_SERVER");
    const token = options.token ?? environment("COUNTERSIGN_TOKEN");
    if (!server) throw new WrongServer("there is no address of the server", { code: "wrong_server", hint: "set COUNTERSIGN_SERVER, or pass `server`" });
    if (!token || !/^[!-~]+$/.test(token)) {
      throw new WrongToken(token ? "the token contains spaces or other characters that no token has" : "there is no token", {
        code: "unauthorized",
        hint: "set COUNTERSIGN_TOKEN, or pass `token`; make one with `countersign token create --agent NAME --scope agent`",
      });
    }
    this.#http = new Http(server, token, options);
    const waits = (until: "decided" | "finished"): Waits =>
      new Waits(
        {
          read: (id, waitMs, signal) => this.#read(id, waitMs, until, { signal }),
          follow: (signal) => this.#changes(signal),
        },
        options.longestPollMs ?? LONGEST_POLL_MS,
      );
    this.#waits = { decided: waits("decided"), finished: waits("finished") };
  }

  /**
   * Proposes the calls of one turn. The same key and calls again return the present state, whatever has happened since.
   * Without a key, a key is made up, so that a lost answer does not propose twice.
   */
  async submit(turn: ProposedTurn, { key = crypto.randomUUID(), signal }: Cancel & { key?: string } = {}): Promise<Submitted> {
    const body = JSON.stringify({ ...turn, calls: turn.calls.map(encodeCall), conversation: turn.conversation && newest(turn.conversation) });
    const answer = await this.#http.json({ method: "POST", path: "/v1/calls", body, ...(turn.dryRun ? {} : { key }), repeatable: true, signal });
    return expect("the rulings on the proposed calls", answer, ({ calls, approval }) => {
      const isGood = Array.isArray(calls) && calls.length === turn.calls.length && calls.every((call) => isObject(call) && typeof call.ruling === "string");
      return isGood && (approval === undefined || approval === null || isApproval(approval));
    });
  }

  /** Proposes the calls of one turn, as `submit` does, and returns them in a form in which they can be run. */
  async propose(turn: Omit<ProposedTurn, "dryRun">, options: Cancel & { key?: string } = {}): Promise<Turn> {
    const calls = turn.calls.map((call) => ({ tool: call.tool, text: textOf(call) }));
    const since = performance.now();
    const submitted = await this.submit(turn, options).catch((error: unknown) => {
      // A person denied the same call a short while ago: for whoever runs the turn, that is a ruling like any other.
      if (!(error instanceof Refused) || error.code !== "denied_lately") throw error;
      return { calls: calls.map(() => ({ ruling: "forbidden" as const, reason: error.message })) };
    });
    return new Turn(this, calls, submitted, since);
  }

  /** Reads an approval. */
  approval(id: string, options: Cancel = {}): Promise<Approval> {
    return this.#read(id, 0, "decided", options);
  }

  /** Waits for the decision on an approval. Any number of waits can be open at the same time. */
  async wait(id: string, { timeoutMs = Infinity, until = "decided", signal }: WaitOptions = {}): Promise<Approval> {
    const isDone = until === "decided" ? isDecided : isFinished;
    const approval = await this.#waits[until].wait({ id, isDone, deadline: performance.now() + timeoutMs, signal });
    if (isDone(approval)) return approval;
    throw new TimedOut(`nobody decided within ${timeoutMs / 1000} seconds`, { code: "timed_out", approval: id, hint: "wait longer, or propose it again later" });
  }

  /** Starts a released call. From then on it counts as run; a lost answer is asked for again under the same key. */
  async start(callId: string, { key = crypto.randomUUID(), signal }: Cancel & { key?: string } = {}): Promise<Permit> {
    const path = `/v1/calls/${encodeURIComponent(callId)}/start`;
    const answer = await this.#http.json({ method: "POST", path, body: "{}", key, repeatable: true, signal });
    return expect("a permit for this call", answer, ({ id, tool, permit, argumentsText, timeoutMs }) => {
      const texts = [tool, permit, argumentsText].every((text) => typeof text === "string" && text !== "");
      return id === callId && texts && typeof timeoutMs === "number";
    });
  }

  /** Records how a started call ended. A result that is too large is recorded by its size, hash and beginning. */
  async finish(permit: Pick<Permit, "id" | "permit">, outcome: Outcome, result?: unknown, { signal }: Cancel = {}): Promise<Approval> {
    const path = `/v1/calls/${encodeURIComponent(permit.id)}/finish`;
    const body = JSON.stringify({ permit: permit.permit, outcome, ...(await recordable(result)) });
    const answer = await this.#http.json({ method: "POST", path, body, repeatable: true, retryForMs: FINISH_FOR_MS, signal });
    return expect("an approval", answer, isApproval);
  }

  /** Yields approvals, by default the pending ones, oldest first. */
  async *approvals(query: ListQuery = {}, { signal }: Cancel = {}): AsyncGenerator<Approval> {
    let cursor: string | undefined;
    do {
      const path = `/v1/approvals?${parameters({ ...query, cursor })}`;
      const answer = await this.#http.json({ method: "GET", path, repeatable: true, signal });
      const page = expect<{ approvals: Approval[]; next?: string | null }>("a list of approvals", answer, ({ approvals }) => Array.isArray(approvals) && approvals.every(isApproval));
      yield* page.approvals;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
  }

  /** Decides an approval. Needs a person's token with the scope `decide`; no agent's token has it. */
  async decide(id: string, decision: Decision, { key = crypto.randomUUID(), signal }: Cancel & { key?: string } = {}): Promise<Approval> {
    const path = `/v1/approvals/${encodeURIComponent(id)}`;
    const answer = await this.#http.json({ method: "POST", path, body: encodeDecision(decision), key, repeatable: true, signal });
    return expect("an approval", answer, isApproval);
  }

  /** Withdraws a pending approval. */
  async withdraw(id: string, reason = "", { signal }: Cancel = {}): Promise<Approval> {
    const path = `/v1/approvals/${encodeURIComponent(id)}/withdraw`;
    const answer = await this.#http.json({ method: "POST", path, body: JSON.stringify({ reason }), repeatable: false, signal });
    return expect("an approval", answer, isApproval);
  }

  /** Yields events as they happen. Reconnects by itself and misses none; ends when the signal is aborted. */
  async *events(query: EventsQuery = {}, { signal }: Cancel = {}): AsyncGenerator<GateEvent> {
    for await (const event of this.#follow(query, signal)) if (event) yield event;
  }

  /**
   * Makes a tool wait for a person. It runs with the approved arguments, never with those in memory: a person may have
   * changed them. `argumentsText` of the call has them byte for byte.
   */
  hold<Arguments extends object, Result>(
    tool: string,
    run: Tool<Arguments, Result>,
    options: HoldOptions<Arguments> & { onDenied: "return" },
  ): Held<Arguments, Result | Refusal>;
  hold<Arguments extends object, Result>(tool: string, run: Tool<Arguments, Result>, options?: HoldOptions<Arguments>): Held<Arguments, Result>;
  hold<Arguments extends object, Result>(tool: string, run: Tool<Arguments, Result>, options: HoldOptions<Arguments> = {}): Held<Arguments, Result | Refusal> {
    const { onDenied = "throw", timeoutMs, parse, ...defaults } = options;
    return async (args, { key, signal, timeoutMs: ownTimeoutMs, ...context } = {}) => {
      let hasBegun = false;
      try {
        const calls = [{ tool, argumentsText: argumentsText(tool, args) }];
        const turn = await this.propose({ ...defaults, ...context, calls }, { ...(key === undefined ? {} : { key }), signal });
        await turn.decided({ timeoutMs: ownTimeoutMs ?? timeoutMs, signal });
        const begin: Tool<Arguments, Result> = (approved, call) => {
          hasBegun = true;
          return run(approved, call);
        };
        return (await turn.run(0, begin, { signal, parse })).result;
      } catch (error) {
        if (onDenied === "return" && !hasBegun && isRefusal(error)) return refusalOf(error);
        throw error;
      }
    };
  }

  async #read(id: string, waitMs: number, until: "decided" | "finished", { signal }: Cancel): Promise<Approval> {
    const query = waitMs > 0 ? `?wait=${Math.ceil(waitMs)}ms&waitFor=${until}` : "";
    const path = `/v1/approvals/${encodeURIComponent(id)}${query}`;
    // Waiting outlasts a restart of the server; a single read does not wait for one longer than any request.
    const patience = waitMs > 0 ? { retryForMs: Infinity, answerWithinMs: waitMs + 15_000 } : {};
    const answer = await this.#http.json({ method: "GET", path, repeatable: true, signal, ...patience });
    return expect("an approval", answer, (approval) => isApproval(approval) && approval.id === id);
  }

  /** Yields the approval of each event that can end a wait, and `undefined` whenever the stream has been opened. */
  async *#changes(signal: AbortSignal): AsyncGenerator<string | undefined> {
    for await (const event of this.#follow({}, signal, 0)) yield event?.approval;
  }

  /** Yields events, and `undefined` whenever the stream has been opened. */
  async *#follow(query: EventsQuery, signal: AbortSignal | undefined, firstRetryForMs?: number): AsyncGenerator<GateEvent | undefined> {
    let after = query.after;
    for (let isFirst = true; ; isFirst = false) {
      const path = `/v1/events?${parameters({ ...query, what: query.what?.join(","), after })}`;
      const retry = isFirst ? (firstRetryForMs === undefined ? {} : { retryForMs: firstRetryForMs }) : { retryForMs: Infinity };
      try {
        const body = await this.#http.stream({ method: "GET", path, repeatable: true, signal, ...retry });
        yield undefined;
        for await (const { id, event, data } of parseEvents(body, (last) => (after = last), signal)) {
          if (event !== "lagged") yield { ...(JSON.parse(data) as GateEvent), id, what: event };
        }
      } catch (error) {
        if (signal?.aborted) return;
        // A stream that breaks off is opened again, after the last event that arrived.
        if (error instanceof CountersignError || error instanceof SyntaxError) throw error;
      }
      if (signal?.aborted) return;
      await pause(100, signal).catch(() => undefined);
    }
  }
}

/** Returns the idempotency key of a turn, so that another process that knows the run and the calls continues it. */
export function turnKey(runId: string, callIds: readonly string[]): Promise<string> {
  return sha256(JSON.stringify([runId, ...callIds]));
}

/** Returns true for an error that says that a call was ruled on or decided, and did not run. */
export function isRefusal(error: unknown): error is CountersignError {
  return [Denied, Expired, Forbidden, TimedOut, Withdrawn].some((kind) => error instanceof kind);
}

function isDecided(approval: Approval): boolean {
  return approval.status !== "pending";
}

function isFinished(approval: Approval): boolean {
  return isDecided(approval) && approval.calls.every(({ state }) => state !== "held" && state !== "released" && state !== "running");
}

function isApproval(value: unknown): value is Approval & Record<string, unknown> {
  if (!isObject(value) || typeof value.id !== "string" || typeof value.status !== "string" || !Array.isArray(value.calls)) return false;
  return value.calls.every((call) => isObject(call) && typeof call.id === "string" && typeof call.state === "string" && typeof call.tool === "string");
}

function textOf({ tool, arguments: value, argumentsText: text }: ProposedCall): string {
  if (text !== undefined && value !== undefined) throw new UnexpectedAnswer("a call has both `arguments` and `argumentsText`", { hint: "give one of them" });
  return argumentsText(tool, text === undefined ? value : new JsonText(text));
}

function encodeCall(call: ProposedCall): Record<string, unknown> {
  const { arguments: _, ...rest } = call;
  return { ...rest, argumentsText: textOf(call) };
}

/** Writes the body of a decision. Edited arguments that are given as text are kept byte for byte. */
function encodeDecision({ calls, ...decision }: Decision): string {
  const body = JSON.stringify(decision);
  if (!calls) return body;
  const choices = calls.map(({ approved, arguments: value, argumentsText: text }) => {
    if (value === undefined && text === undefined) return JSON.stringify({ approved });
    return `{"approved":${approved},"arguments":${argumentsText("the edited call", text === undefined ? value : new JsonText(text))}}`;
  });
  return `${body.slice(0, -1)},"calls":[${choices.join(",")}]}`;
}

/** Limits of a conversation, which has to fit into a request together with the calls. */
const LONGEST_TEXT = 16_000;
const LONGEST_CONVERSATION = 60_000;

/** Returns the newest messages that fit; a long text is cut. */
function newest(conversation: readonly Message[]): Message[] {
  const kept: Message[] = [];
  let length = 0;
  for (const message of conversation.toReversed()) {
    const text = message.text.slice(0, LONGEST_TEXT).toWellFormed();
    length += text.length + 40;
    if (length > LONGEST_CONVERSATION) break;
    kept.push({ ...message, text });
  }
  return kept.reverse();
}

function parameters(query: Record<string, string | undefined>): URLSearchParams {
  return new URLSearchParams(Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

interface Environment {
  process?: { env?: Record<string, string | undefined> };
  Deno?: { env: { get(name: string): string | undefined } };
}

/** Returns a variable of the environment, where there is one and it may be read. */
function environment(name: string): string | undefined {
  const { process, Deno } = globalThis as Environment;
  try {
    return process?.env?.[name] ?? Deno?.env.get(name);
  } catch {
    return undefined;
  }
}
