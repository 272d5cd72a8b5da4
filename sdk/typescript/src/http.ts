// Requests to the server: headers, retries, and what each error response means.
//
// Output: parsed JSON, or an error of errors.ts. A request is retried only if repeating it has no further effect.

import { CountersignError, OldServer, Refused, UnexpectedAnswer, Unreachable, WrongServer, WrongToken } from "./errors.ts";

export interface Request {
  method: "GET" | "POST";
  path: string;
  body?: string;
  /** Idempotency key. */
  key?: string;
  /** True if repeating the request has no further effect. */
  repeatable: boolean;
  /** Time that the server may take to answer. */
  answerWithinMs?: number;
  /** Time for which failures are retried; `Infinity` until the signal ends it. */
  retryForMs?: number;
  signal?: AbortSignal | undefined;
}

export interface HttpOptions {
  /** What sends the requests. Default: `fetch`. */
  fetch?: Fetch;
  /** Time for which a request is repeated while the server cannot be reached. Default: 30 seconds. */
  retryForMs?: number;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

const ANSWER_WITHIN_MS = 30_000;
const RETRY_FOR_MS = 30_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;
const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

export class Http {
  readonly #origin: string;
  readonly #base: string;
  readonly #token: string;
  readonly #fetch: Fetch;
  readonly #retryForMs: number;

  constructor(server: string, token: string, options: HttpOptions) {
    const url = parseUrl(server);
    this.#origin = url.origin;
    this.#base = url.href.replace(/\/+$/, "");
    this.#token = token;
    this.#fetch = options.fetch ?? ((address, init) => fetch(address, init));
    this.#retryForMs = options.retryForMs ?? RETRY_FOR_MS;
  }

  /** Sends a request and returns the parsed body of its answer. */
  json(request: Request): Promise<unknown> {
    return this.#retry(request, async (response) => {
      const answer = await this.#body(response);
      if (answer === undefined) throw this.#wrongServer(response);
      return answer;
    });
  }

  /** Sends a request and returns the body of its answer as a stream, which its reader has to cancel. */
  stream(request: Request): Promise<ReadableStream<Uint8Array>> {
    return this.#retry(request, (response) => {
      if (response.body && response.headers.get("content-type")?.startsWith("text/event-stream")) return response.body;
      throw this.#wrongServer(response);
    });
  }

  async #retry<T>(request: Request, read: (response: Response) => T | Promise<T>): Promise<T> {
    const { repeatable, signal, retryForMs = this.#retryForMs } = request;
    const since = performance.now();
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      signal?.throwIfAborted();
      const attempt = await this.#try(request, read);
      if ("answer" in attempt) return attempt.answer;
      const waitMs = Math.max(attempt.afterMs, pauseMs * (0.5 + Math.random() / 2));
      if (!repeatable || attempt.afterMs < 0 || performance.now() - since + waitMs > retryForMs) throw attempt.problem;
      await pause(waitMs, signal);
    }
  }

  /** Tries once. A negative `afterMs` means that another attempt would fail in the same way. */
  async #try<T>(request: Request, read: (response: Response) => T | Promise<T>): Promise<{ answer: T } | { problem: unknown; afterMs: number }> {
    const { signal, answerWithinMs = ANSWER_WITHIN_MS } = request;
    // Linked by hand, because some runtimes collect the signal that `AbortSignal.any` returns too early.
    const cancel = new AbortController();
    let isLate = false;
    const timer = setTimeout(() => cancel.abort((isLate = true)), answerWithinMs);
    const onAbort = (): void => cancel.abort(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` };
    if (request.body !== undefined) headers["content-type"] = "application/json";
    if (request.key !== undefined) headers["idempotency-key"] = request.key;
    try {
      const response = await this.#fetch(this.#base + request.path, {
        method: request.method,
        headers,
        body: request.body ?? null,
        // A redirect would lead the token to another server, and repeat a POST as a GET.
        redirect: "manual",
        signal: cancel.signal,
      });
      if (response.ok) return { answer: await read(response) };
      const problem = await this.#problem(response);
      return { problem, afterMs: RETRIED.has(response.status) ? retryAfterMs(response) : -1 };
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof CountersignError) return { problem: cause, afterMs: -1 };
      const problem = new Unreachable(`the server \`${this.#origin}\` cannot be reached${isLate ? " in time" : ""}`, {
        code: "unreachable",
        hint: "check COUNTERSIGN_SERVER, and that `countersign serve` is running there",
        cause,
      });
      return { problem, afterMs: 0 };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
  }

  async #problem(response: Response): Promise<CountersignError> {
    const answer = await this.#body(response);
    const error = isObject(answer) && isObject(answer.error) ? answer.error : undefined;
    if (typeof error?.code !== "string" || typeof error.message !== "string") return this.#wrongServer(response);
    const { code, message, hint, ...fields } = error;
    const details = { code, hint: String(hint ?? "") };
    if (response.status === 401 || code === "wrong_scope") {
      return new WrongToken(`the server \`${this.#origin}\` does not accept the token: ${message}`, {
        ...details,
        hint: "set COUNTERSIGN_TOKEN to a token made with `countersign token create --agent NAME --scope agent`",
      });
    }
    const isOld = (response.status === 400 || response.status === 404) && !response.headers.has("countersign-version");
    if (isOld && (code === "bad_request" || code === "no_idempotency_key" || code === "no_route")) {
      return new OldServer(`the server \`${this.#origin}\` is older than this package: ${message}`, {
        ...details,
        hint: "update the server to 0.2 or newer",
      });
    }
    return new Refused(message, { ...details, status: response.status, fields });
  }

  /** Returns the parsed body, or `undefined` if it is not JSON. */
  async #body(response: Response): Promise<unknown> {
    const text = await response.text();
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }

  #wrongServer(response: Response): WrongServer {
    return new WrongServer(`\`${this.#origin}\` does not answer like a Countersign server (status ${response.status})`, {
      code: "wrong_server",
      hint: "check COUNTERSIGN_SERVER: it is the address that `countersign serve` prints, without a path",
    });
  }
}

function parseUrl(server: string): URL {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new WrongServer("the address of the server is not an http or https URL without credentials and query", {
      code: "wrong_server",
      hint: "set COUNTERSIGN_SERVER to an address such as http://127.0.0.1:8787",
    });
  }
  return url;
}

function retryAfterMs(response: Response): number {
  const seconds = Number(response.headers.get("retry-after") ?? "0");
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
}

/** Longest time of a timer, about 24 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Waits, or rejects as soon as the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(done, Math.min(ms, LONGEST_TIMER_MS));
    signal?.addEventListener("abort", aborted, { once: true });
    function done(): void {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }
    function aborted(): void {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    }
  });
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the value if it has the expected form; otherwise throws. */
export function expect<T>(what: string, value: unknown, isGood: (value: Record<string, unknown>) => boolean): T {
  if (isObject(value) && isGood(value)) return value as T;
  throw new UnexpectedAnswer(`the server's answer is not ${what}`, {
    code: "unexpected_answer",
    hint: "compare the versions of the server and of @countersign/client",
  });
}
