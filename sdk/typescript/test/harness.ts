// The real service, an agent and a person, and tools that record what they did.
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { Service } from "../../../examples/testing/service.mts";
import { type ApprovedCall, type Approval, approvedCall, Gate } from "../src/index.ts";

export interface World {
  service: Service;
  /** The agent's gate. */
  gate: Gate;
  agentToken: string;
  /** The gate of a person who decides. */
  ana: Gate;
  anaToken: string;
}

export async function openWorld(policy = "policy.toml", config = "", variables: Record<string, string> = {}): Promise<World> {
  const service = await Service.start(fileURLToPath(new URL(policy, import.meta.url)), { config: `decisions_per_second = 1000\n${config}`, variables });
  service.addPerson("ana");
  const agentToken = service.token("--agent", "tester", "--scope", "agent");
  const anaToken = service.token("--person", "ana", "--scope", "read,decide");
  return { service, agentToken, anaToken, ana: newGate(service, anaToken), gate: newGate(service, agentToken) };
}

/** Returns a gate without any memory, as another process would have it. */
export function newGate(service: Service, token: string): Gate {
  return new Gate({ server: service.url, token });
}

export function newRun(): string {
  return `run-${randomUUID()}`;
}

/** Waits until the person sees a pending approval of this run. */
export async function pendingOf(ana: Gate, runId: string): Promise<Approval> {
  for (let attempt = 0; attempt < 400; attempt++) {
    for await (const approval of ana.approvals({ runId, status: "pending" })) return approval;
    await sleep(15);
  }
  throw new Error("nothing is pending");
}

export async function approvalsOf(ana: Gate, runId: string): Promise<Approval[]> {
  return Array.fromAsync(ana.approvals({ runId, status: "all" }));
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export interface Recorded {
  tool: string;
  args: unknown;
  /** Exact approved bytes, if the tool was given them. */
  text: string | undefined;
}

/** Tools that record every run. `behave` says what a tool does besides. */
export class Recorder {
  readonly ran: Recorded[] = [];
  behave: (tool: string, args: Record<string, unknown>, signal: AbortSignal | undefined) => unknown = (tool) => ({ done: tool });

  run = async (tool: string, args: Record<string, unknown>, call: ApprovedCall | undefined = approvedCall(args), signal = call?.signal): Promise<unknown> => {
    this.ran.push({ tool, args, text: call?.text });
    return this.behave(tool, args, signal);
  };

  get tools(): string[] {
    return this.ran.map(({ tool }) => tool);
  }
}
