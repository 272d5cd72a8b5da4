// Runs the store and the wrapped tools against the real service, and looks at which e-mails were sent.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Service } from "../testing/service.mts";
import { ApprovalRejectedError, CountersignApprovalStore, requireApproval, ServiceError, waitForApproval } from "./approvals.ts";

type Mail = { to: string; subject: string; body: string };

const welcome: Mail = { to: "alice@acme.com", subject: "Welcome", body: "Hello Alice" };
let service: Service;
/** The agent's process: it proposes and runs, and cannot decide. */
let agent: CountersignApprovalStore;
let agentToken: string;
/** The reviewer's page. */
let alice: CountersignApprovalStore;
let aliceToken: string;
/** The exact arguments of every e-mail that was sent. */
let sent: string[] = [];
let run: string;

before(async () => {
  service = await Service.start(fileURLToPath(new URL("policy.toml", import.meta.url)));
  service.addPerson("alice");
  agentToken = service.token("--agent", "SupportAgent", "--scope", "propose,wait");
  agent = new CountersignApprovalStore(service.url, {
    agent: agentToken,
    host: service.token("--name", "mail-host", "--scope", "execute"),
  });
  aliceToken = service.token("--person", "alice", "--scope", "read,decide");
  alice = new CountersignApprovalStore(service.url, { person: aliceToken });
});

beforeEach(() => {
  sent = [];
  run = `run-${randomUUID()}`;
});

after(() => service?.stop());

function sendEmail(timeoutMs = 30_000) {
  return requireApproval(agent, {
    name: "sendEmail",
    timeoutMs,
    execute: async (_mail: Mail, bytes) => {
      sent.push(bytes.toString("utf8"));
      return { sent: true };
    },
  });
}

/** Waits until the reviewer sees the request of this run. */
async function pending() {
  for (let attempt = 0; attempt < 200; attempt++) {
    const found = (await alice.listPending("SupportAgent")).find((request) => request.runId === run);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error("nothing is pending");
}

test("an approved call runs once, with the arguments that were shown", async () => {
  const result = sendEmail()(welcome, { runId: run, description: "Alice signed up" });
  const request = await pending();
  assert.equal(request.description, "Send “Welcome” to alice@acme.com");
  assert.deepEqual(request.toolArguments, welcome);
  assert.equal(request.riskLevel, "high");
  assert.deepEqual(sent, []);

  const decided = await alice.decide(request.id, { approved: true, comment: "Reviewed and OK" });
  assert.equal(decided.status, "approved");
  assert.deepEqual(await result, { sent: true });
  assert.deepEqual(sent, [JSON.stringify(welcome)]);

  // Neither a second decision nor a second start runs it again.
  await refused("already_decided", alice.decide(request.id, { approved: true }));
  await refused("wrong_state", agent.run(request.callId, async () => sent.push("again")));
  assert.equal(sent.length, 1);
});

test("a decision over plain HTTP, as a web page sends it", async () => {
  const result = sendEmail()(welcome, { runId: run });
  const request = await pending();
  const answer = await fetch(`${service.url}/v1/approvals/${request.id}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${aliceToken}` },
    body: JSON.stringify({ approved: true, comment: "Reviewed and OK", decidedBy: "supervisor@company.com" }),
  });
  assert.equal(answer.status, 200);
  await result;
  assert.deepEqual(sent, [JSON.stringify(welcome)]);
  // The body's name is a claim; the token says who decided.
  assert.equal((await agent.get(request.id)).decidedBy, "alice");
});

test("a rejected call throws with the tool and the comment", async () => {
  const rejected = assert.rejects(sendEmail()(welcome, { runId: run }), (error: unknown) => {
    assert.ok(error instanceof ApprovalRejectedError);
    assert.equal(error.reason, "rejected");
    assert.equal(error.toolName, "sendEmail");
    assert.equal(error.comment, "Do not contact this customer");
    return true;
  });
  await alice.decide((await pending()).id, { approved: false, comment: "Do not contact this customer" });
  await rejected;
  assert.deepEqual(sent, []);
});

test("a call that nobody decides in time throws, and cannot be approved later", async () => {
  await assert.rejects(sendEmail(200)(welcome, { runId: run }), { name: "ApprovalRejectedError", reason: "timeout" });
  const [request] = await agent.getByRunId(run);
  assert.equal(request?.status, "rejected");
  await refused("withdrawn", alice.decide(request?.id ?? "", { approved: true }));
  assert.deepEqual(sent, []);
});

test("a request that expires throws, and cannot be approved or run later", async () => {
  const { id, callId } = await agent.create({ runId: run, toolName: "sendEmail", toolArguments: welcome, ttlMs: 1_000 });
  await assert.rejects(waitForApproval(agent, id, { timeoutMs: 20_000 }), { name: "ApprovalRejectedError", reason: "expired" });
  await refused("expired", alice.decide(id, { approved: true }));
  await refused("wrong_state", agent.run(callId, async () => sent.push("late")));
  assert.deepEqual(sent, []);
});

test("requests are found by run and by agent", async () => {
  const ids: string[] = [];
  for (const subject of ["One", "Two"]) {
    const toolArguments = { ...welcome, subject };
    ids.push((await agent.create({ runId: run, toolName: "sendEmail", toolArguments })).id);
  }
  await alice.decide(ids[0] ?? "", { approved: false });
  const found = await agent.getByRunId(run);
  assert.deepEqual(found.map(({ id, status }) => [id, status]).sort(), [[ids[0], "rejected"], [ids[1], "pending"]].sort());
  assert.ok((await alice.listPending()).some(({ id }) => id === ids[1]));
  assert.ok((await alice.listPending("SupportAgent")).some(({ id }) => id === ids[1]));
  assert.deepEqual(await alice.listPending("BillingAgent"), []);
});

test("the agent's process cannot decide, and cannot lower the risk", async () => {
  const request = await agent.create({ runId: run, toolName: "chargeCard", toolArguments: { amount: 1, currency: "EUR", customer: "c1" }, riskLevel: "low" });
  assert.equal(request.riskLevel, "critical");
  const pretending = new CountersignApprovalStore(service.url, { person: agentToken });
  await refused("wrong_scope", pretending.decide(request.id, { approved: true }));
  await refused("wrong_state", agent.run(request.callId, async () => sent.push("early")));
  assert.equal((await agent.get(request.id)).status, "pending");
  assert.deepEqual(sent, []);
});

test("a tool that throws is recorded as unknown, and is not run again", async () => {
  const failing = requireApproval(agent, {
    name: "sendEmail",
    timeoutMs: 30_000,
    execute: async (_mail: Mail, bytes) => {
      sent.push(bytes.toString("utf8"));
      throw new Error("the connection broke");
    },
  });
  const broken = assert.rejects(failing(welcome, { runId: run }), /the connection broke/);
  const request = await pending();
  await alice.decide(request.id, { approved: true });
  await broken;
  await refused("wrong_state", agent.run(request.callId, async () => sent.push("again")));
  assert.deepEqual(sent, [JSON.stringify(welcome)]);
});

async function refused(code: string, attempt: Promise<unknown>): Promise<void> {
  await assert.rejects(attempt, (error: unknown) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.equal(error.code, code);
    return true;
  });
}
