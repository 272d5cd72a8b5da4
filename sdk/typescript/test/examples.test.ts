// Runs the example of each adapter: a person changes the refund and approves it, or denies it; or the agent's process dies.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Service } from "../../../examples/testing/service.mts";
import type { Gate } from "../src/index.ts";
import { approvalsOf, newGate, newRun, pendingOf } from "./harness.ts";

for (const name of ["ai", "openai", "langchain", "mastra"]) {
  test(`examples/typescript-${name}`, { timeout: 60_000 }, async () => {
    const example = (file: string) => fileURLToPath(new URL(`../../../examples/typescript-${name}/${file}`, import.meta.url));
    const service = await Service.start(example("policy.toml"));
    try {
      service.addPerson("ana");
      const ana = newGate(service, service.token("--person", "ana", "--scope", "read,decide"));
      const token = service.token("--agent", "support", "--scope", "agent");
      for (const approved of [true, false]) {
        const runId = newRun();
        const env = { PATH: process.env.PATH, COUNTERSIGN_SERVER: service.url, COUNTERSIGN_TOKEN: token, RUN: runId };
        const agent = promisify(execFile)(process.execPath, [example("agent.ts")], { env });
        const approval = await Promise.race([pendingOf(ana, runId), agent.then(({ stdout }) => assert.fail(`the agent ended: ${stdout}`))]);
        assert.equal(approval.description, "Refund 49 for order A-17");
        // Where the values came from: the person named the order, and the lookup stated the amount.
        const leaves = (approval.calls[0]?.provenance as { leaves: { pointer: string; mark: string }[] }).leaves;
        assert.deepEqual(Object.fromEntries(leaves.map(({ pointer, mark }) => [pointer, mark])), { "/order": "user", "/amount": "tool:lookup_order" });
        const edited = { approved: true, arguments: { order: "A-17", amount: 20 } };
        await ana.decide(approval.id, approved ? { approved, calls: [edited] } : { approved, comment: "not yet" });
        const { stdout } = await agent;
        assert.equal(stdout, `${approved ? "refunded 20 for A-17\n" : ""}I am done with order A-17.\n`);
      }
      await survivesItsProcess(example("agent.ts"), ana, { PATH: process.env.PATH, COUNTERSIGN_SERVER: service.url, COUNTERSIGN_TOKEN: token });
    } finally {
      await service.stop();
    }
  });
}

/** The agent is killed while it waits; after the decision, two other processes continue the run, and the refund is made once. */
async function survivesItsProcess(agent: string, ana: Gate, variables: NodeJS.ProcessEnv): Promise<void> {
  const runId = newRun();
  const env = { ...variables, RUN: runId };
  const killed = spawn(process.execPath, [agent], { env, stdio: "ignore" });
  const approval = await pendingOf(ana, runId);
  killed.kill("SIGKILL");
  await once(killed, "exit");
  await ana.decide(approval.id, { approved: true });
  const again = () => promisify(execFile)(process.execPath, [agent], { env });
  const printed = (await Promise.all([again(), again()])).map(({ stdout }) => stdout);
  assert.equal(printed.join("").match(/refunded 49/g)?.length, 1);
  for (const text of printed) assert.match(text, /I am done with order A-17\./);
  assert.equal((await approvalsOf(ana, runId)).length, 1);
}
