// An approval store with the interface of an agent framework, kept by Countersign over HTTP.
//
// `requireApproval` wraps a tool: it asks, waits, and runs the tool with the approved bytes, once. If a person rejects the
// call, or nobody answers in time, it throws an `ApprovalRejectedError` and the tool does not run.

export type RiskLevel = "low" | "medium" | "high" | "critical";
export type ApprovalStatus = "pending" | "approved" | "rejected" | "expired";

export interface HitlRequest {
  id: string;
  runId: string;
  agentName: string;
  toolName: string;
  toolArguments: Record<string, unknown>;
  riskLevel: RiskLevel;
  description?: string;
  status: ApprovalStatus;
  comment?: string;
  createdAt: string;
  expiresAt: string;
  decidedAt?: string;
  requestedBy?: string;
  decidedBy?: string;
  /** The call to start once it is approved. */
  callId: string;
}

export interface NewRequest {
  runId: string;
  toolName: string;
  toolArguments: Record<string, unknown>;
  /** May raise the policy's level, but not lower it. */
  riskLevel?: RiskLevel;
  /** The agent's reason, which the card shows as the agent's claim. */
  description?: string;
  /** May shorten the policy's time, but not extend it. */
  ttlMs?: number;
}

export interface ApprovalDecision {
  approved: boolean;
  comment?: string;
  /** Recorded as a claim. Who decides follows from the token. */
  decidedBy?: string;
}

export interface ApprovalStore {
  create(request: NewRequest): Promise<HitlRequest>;
  get(id: string): Promise<HitlRequest>;
  getByRunId(runId: string): Promise<HitlRequest[]>;
  decide(id: string, decision: ApprovalDecision): Promise<HitlRequest>;
  listPending(agentName?: string): Promise<HitlRequest[]>;
}

/** Thrown when an approval is rejected, or is not given in time. */
export class ApprovalRejectedError extends Error {
  readonly request: HitlRequest;
  readonly reason: "rejected" | "expired" | "timeout";

  constructor(request: HitlRequest, reason: ApprovalRejectedError["reason"]) {
    super(`${request.toolName} was not approved: ${request.comment ?? reason}`);
    this.name = "ApprovalRejectedError";
    this.request = request;
    this.reason = reason;
  }

  get toolName(): string {
    return this.request.toolName;
  }

  get comment(): string | undefined {
    return this.request.comment;
  }
}

/** An answer of the service that is an error. `code` is for programs, for example `already_decided`. */
export class ServiceError extends Error {
  readonly code: string;

  constructor({ code, message, hint }: { code: string; message: string; hint: string }) {
    super(`${message} (${hint})`);
    this.name = "ServiceError";
    this.code = code;
  }
}

/** Tokens for the three roles. Each process has only those of its own role: an agent's process cannot decide. */
export interface Tokens {
  /** `--agent SupportAgent --scope propose,wait`: create, get and wait. */
  agent?: string;
  /** `--person alice --scope read,decide`: list and decide. */
  person?: string;
  /** `--name mail-host --scope execute`: run what was approved. */
  host?: string;
}

/** What a tool does, with the approved arguments and their exact bytes. */
export type Execute<Input, Output> = (input: Input, bytes: Buffer) => Promise<Output>;

export class CountersignApprovalStore implements ApprovalStore {
  readonly #url: string;
  readonly #tokens: Tokens;

  constructor(url: string, tokens: Tokens) {
    this.#url = url;
    this.#tokens = tokens;
  }

  async create(request: NewRequest): Promise<HitlRequest> {
    return toRequest(await this.#request("agent", "/v1/approvals", request));
  }

  async get(id: string): Promise<HitlRequest> {
    return toRequest(await this.#request(this.#reader(), `/v1/approvals/${id}`));
  }

  /** Waits until the approval is decided or has expired, for at most `waitMs`. Waiting decides nothing. */
  async wait(id: string, waitMs: number): Promise<HitlRequest> {
    return toRequest(await this.#request("agent", `/v1/approvals/${id}?wait=${Math.ceil(waitMs)}ms`));
  }

  async withdraw(id: string, reason: string): Promise<HitlRequest> {
    return toRequest(await this.#request("agent", `/v1/approvals/${id}/withdraw`, { reason }));
  }

  getByRunId(runId: string): Promise<HitlRequest[]> {
    return this.#list({ status: "all", runId });
  }

  listPending(agentName?: string): Promise<HitlRequest[]> {
    return this.#list({ status: "pending", ...(agentName && { agentName }) });
  }

  async decide(id: string, decision: ApprovalDecision): Promise<HitlRequest> {
    return toRequest(await this.#request("person", `/v1/approvals/${id}`, decision));
  }

  /** Runs an approved call: the bytes are given out once, and the outcome is recorded. */
  async run<Input, Output>(callId: string, execute: Execute<Input, Output>): Promise<Output> {
    const started = await this.#request("host", `/v1/calls/${callId}/start`, {});
    const finish = (outcome: string, result: unknown) =>
      this.#request("host", `/v1/calls/${callId}/finish`, { permit: started.permit, outcome, result });
    let output: Output;
    try {
      const bytes = Buffer.from(started.argumentsHex, "hex");
      output = await execute(JSON.parse(bytes.toString("utf8")), bytes);
    } catch (error) {
      // The tool may have had its effect before it threw, so a person has to find out.
      await finish("unknown", String(error));
      throw error;
    }
    await finish("succeeded", output ?? null);
    return output;
  }

  async #list(query: Record<string, string>): Promise<HitlRequest[]> {
    const found: HitlRequest[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const parameters = new URLSearchParams({ ...query, ...(cursor && { cursor }) });
      const page: any = await this.#request(this.#reader(), `/v1/approvals?${parameters}`);
      found.push(...page.approvals.map(toRequest));
      cursor = page.next ?? null;
    }
    return found;
  }

  /** An agent's token reads that agent's approvals, a person's token all of them. */
  #reader(): keyof Tokens {
    return this.#tokens.person ? "person" : "agent";
  }

  async #request(role: keyof Tokens, path: string, body?: unknown): Promise<any> {
    const answer = await fetch(this.#url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${this.#tokens[role]}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const parsed: any = await answer.json();
    if (!answer.ok) throw new ServiceError(parsed.error);
    return parsed;
  }
}

/** Waits for the decision. If nobody decides in time, the request is withdrawn, so that nobody approves it later in vain. */
export async function waitForApproval(
  store: CountersignApprovalStore,
  id: string,
  options: { timeoutMs: number },
): Promise<HitlRequest> {
  const longestWaitMs = 60_000;
  const deadline = Date.now() + options.timeoutMs;
  let request = await store.get(id);
  while (request.status === "pending" && Date.now() < deadline) {
    request = await store.wait(id, Math.min(deadline - Date.now(), longestWaitMs));
  }
  if (request.status === "pending") {
    // A decision that was made in this moment is refused to be withdrawn, and counts.
    const withdrawn = await store.withdraw(id, "nobody decided in time").catch(() => undefined);
    if (withdrawn) throw new ApprovalRejectedError(withdrawn, "timeout");
    request = await store.get(id);
  }
  if (request.status === "approved") return request;
  throw new ApprovalRejectedError(request, request.status === "expired" ? "expired" : "rejected");
}

/** Makes a tool wait for a person. What is approved is the call itself, so the tool runs with the arguments of the card. */
export function requireApproval<Input extends Record<string, unknown>, Output>(
  store: CountersignApprovalStore,
  tool: { name: string; riskLevel?: RiskLevel; timeoutMs: number; execute: Execute<Input, Output> },
): (input: Input, context: { runId: string; description?: string }) => Promise<Output> {
  return async (input, { runId, description }) => {
    const { name: toolName, riskLevel, timeoutMs } = tool;
    const created = await store.create({ runId, toolName, toolArguments: input, riskLevel, description });
    const approved = await waitForApproval(store, created.id, { timeoutMs });
    return store.run(approved.callId, tool.execute);
  };
}

// The service distinguishes more states than the interface does. A request that was withdrawn, or that another one
// replaced, will never run, as one that was denied.
const STATUSES: Record<string, ApprovalStatus> = {
  pending: "pending",
  approved: "approved",
  denied: "rejected",
  withdrawn: "rejected",
  superseded: "rejected",
  expired: "expired",
};

function toRequest(view: any): HitlRequest {
  const status = STATUSES[view.status];
  if (!status) throw new Error(`unknown status \`${view.status}\``);
  return {
    id: view.id,
    runId: view.runId ?? "unknown",
    agentName: view.agentName,
    toolName: view.toolName,
    toolArguments: view.toolArguments ?? {},
    riskLevel: view.riskLevel,
    description: view.description,
    status,
    comment: view.comment ?? undefined,
    createdAt: view.createdAt,
    expiresAt: view.expiresAt,
    decidedAt: view.decidedAt ?? undefined,
    requestedBy: view.requestedBy,
    decidedBy: view.decidedBy ?? undefined,
    callId: view.calls[0].id,
  };
}
