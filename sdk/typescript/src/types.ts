// The parts of the server's JSON that this package reads and writes. The complete description is docs/openapi.json.

export type RiskLevel = "low" | "medium" | "high" | "critical";
export type ApprovalStatus = "pending" | "approved" | "denied" | "expired" | "superseded" | "withdrawn" | "passed";
export type CallState = "held" | "refused" | "released" | "running" | "succeeded" | "failed" | "unknown" | "undone";
/** Why a call will not run, or how it ended. Null while it is undecided, released or running. */
export type CallEnd =
  | "denied"
  | "expired"
  | "stale"
  | "superseded"
  | "withdrawn"
  | "forbidden"
  | "voided"
  | "earlier_failed"
  | "changed"
  | "unreadable"
  | "nothing_to_undo"
  | "succeeded"
  | "failed"
  | "not_sent"
  | "unknown"
  | "undone";
export type RulingKind = "pass" | "held" | "forbidden" | "passed_before" | "confirmed";
export type Outcome = "succeeded" | "failed" | "not_sent" | "unknown";

/** A message of the conversation that led to a call. `at` is in microseconds since 1970. */
export type Message =
  | { role: "user" | "assistant"; text: string; at?: number }
  | { role: "tool" | "outside"; name: string; text: string; at?: number };

export interface Edit {
  /** JSON pointer of the changed value. */
  pointer: string;
  was?: string | null;
  is?: string | null;
}

export interface Call {
  id: string;
  tool: string;
  effect: string;
  risk: RiskLevel;
  summary: string;
  state: CallState;
  end?: CallEnd | null;
  because?: string | null;
  /** Exact arguments as JSON text. Absent if some of them are secret. */
  argumentsText?: string | null;
  arguments?: unknown;
  edited: boolean;
  edits?: Edit[];
  result?: unknown;
  digest: string;
  [field: string]: unknown;
}

export interface Approval {
  id: string;
  runId?: string | null;
  agentName: string;
  riskLevel: RiskLevel;
  description: string;
  status: ApprovalStatus;
  comment?: string | null;
  createdAt: string;
  expiresAt: string;
  decidedAt?: string | null;
  decidedBy?: string | null;
  requestedBy: string;
  digest: string;
  channel?: string | null;
  partlyDenied?: boolean;
  calls: Call[];
  [field: string]: unknown;
}

export interface Ruling {
  ruling: RulingKind;
  id?: string | null;
  callId?: string | null;
  state?: CallState | null;
  end?: CallEnd | null;
  /** Set if the service runs the tool itself, or if the call ended before. */
  status?: string | null;
  reason?: string | null;
  summary?: string | null;
  permit?: string | null;
  timeoutMs?: number | null;
  result?: unknown;
}

export interface Submitted {
  calls: Ruling[];
  approval?: Approval | null;
}

/** A permit to run one call, once. */
export interface Permit {
  id: string;
  tool: string;
  /** Exact approved arguments as JSON text. */
  argumentsText: string;
  permit: string;
  timeoutMs: number;
  startedAt?: string | null;
  deadline?: string | null;
  /** Credential that was submitted with the call. */
  secret?: string | null;
}

/** An event of the feed. */
export interface GateEvent {
  /** Id from which the stream can be resumed. */
  id: string;
  /** Kind, such as `approved` or `succeeded`. */
  what: string;
  approval: string;
  status: ApprovalStatus;
  agentName: string;
  runId?: string | null;
  call?: string | null;
  channel?: string | null;
  number: number;
  at: string;
  by: string;
  event: Record<string, unknown>;
}

/** A call as it is proposed. Exactly one of `arguments` and `argumentsText` is given. */
export interface ProposedCall {
  tool: string;
  arguments?: unknown;
  /** Arguments as JSON text, kept byte for byte; use it for numbers above 2^53. */
  argumentsText?: string;
  /** SHA-256 of the tool's definition. */
  definition?: string;
  /** Credential for the tool; stored encrypted, shown to nobody. */
  secret?: string;
  workingFolder?: { path: string };
}

/** The calls of one turn: all that are held share one approval. */
export interface ProposedTurn {
  calls: readonly ProposedCall[];
  /** Whether approved calls can be started in any order and in parallel. */
  order?: "given" | "any";
  runId?: string;
  channel?: string;
  session?: string;
  /** The agent's reason, shown as its claim. */
  claim?: string;
  conversation?: readonly Message[];
  /** Time until the approval expires. */
  ttlMs?: number;
  /** Time after the decision within which a released call can be started. */
  startWithinMs?: number;
  /** Only asks for the rulings; nothing is recorded, proposed or run. */
  dryRun?: boolean;
}

export interface Decision {
  approved: boolean;
  comment?: string;
  /** Digest of the card that was shown; another card is refused. */
  digest?: string;
  /** One choice per call, in order; requires `approved: true`. Edited arguments are JSON text or a value. */
  calls?: readonly { approved: boolean; arguments?: unknown; argumentsText?: string }[];
}
