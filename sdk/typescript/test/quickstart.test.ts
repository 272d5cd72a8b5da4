// Runs the commands and the code of each page in docs/quickstart: a person approves on the command line, and the tool runs.
// Only the model is replaced, by the one of the example.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { sleep } from "./harness.ts";
import { snippets, writeProgram } from "./snippets.ts";

const fakes: Record<string, string> = {
  "typescript-ai-sdk": 'import { fakeModel } from "../examples/typescript-ai/model.ts";\nconst model = fakeModel();',
  "typescript-openai-agents": 'import { fakeModel } from "../examples/typescript-openai/model.ts";\nconst model = fakeModel();',
  "typescript-langchain": 'import { fakeModel } from "../examples/typescript-langchain/model.ts";\nconst model = fakeModel(false);',
  "typescript-mastra": 'import { fakeModel } from "../examples/typescript-mastra/model.ts";\nconst model = fakeModel();',
};

for (const { name, commands, code } of snippets()) {
  test(`docs/quickstart/${name}.md`, { timeout: 60_000 }, async () => {
    const fake = fakes[name];
    assert.equal(/^const model = .*;$/m.test(code), fake !== undefined);
    const program = writeProgram(`${name}.run.mts`, code.replace(/^const model = .*;$/m, fake ?? ""));
    const folder = mkdtempSync(join(tmpdir(), "countersign-quickstart."));
    symlinkSync(process.env.COUNTERSIGN_BIN ?? "countersign", join(folder, "countersign"));
    const port = await freePort();
    const env = { PATH: `${folder}:${process.env.PATH ?? ""}`, HOME: folder, COUNTERSIGN_LISTEN: `127.0.0.1:${port}`, OPENAI_AGENTS_DISABLE_TRACING: "1" };
    const [serve = "", ...exports] = commands;
    assert.equal(serve, "countersign serve");
    const service = spawn("bash", ["-c", `exec ${serve}`], { cwd: folder, env, stdio: "ignore" });
    try {
      await answers(`http://127.0.0.1:${port}/readyz`);
      const agent = promisify(execFile)("bash", ["-c", `set -e\n${exports.join("\n").replaceAll("8787", String(port))}\nexec "$0" "$1"`, process.execPath, program], { cwd: folder, env });
      // An agent that fails is reported at once, not when nothing was found pending.
      const { id, digest } = await Promise.race([pending(folder, env), agent.then(({ stdout }) => assert.fail(`the agent ended: ${stdout}`))]);
      await promisify(execFile)("countersign", ["approve", id, "--digest", digest], { cwd: folder, env });
      const { stdout } = await agent;
      assert.match(stdout, /refunded 49 for A-17/);
      if (fake) assert.match(stdout, /I am done with order A-17\./);
    } finally {
      service.kill("SIGTERM");
      if (service.exitCode === null) await once(service, "exit");
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

async function pending(cwd: string, env: Record<string, string>): Promise<{ id: string; digest: string }> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const { stdout } = await promisify(execFile)("countersign", ["list", "--json"], { cwd, env });
    const [approval] = (JSON.parse(stdout) as { approvals: { id: string; digest: string }[] }).approvals;
    if (approval) return approval;
    await sleep(50);
  }
  throw new Error("nothing is pending");
}

async function answers(url: string): Promise<void> {
  for (let attempt = 0; attempt < 600; attempt++) {
    if ((await fetch(url).catch(() => undefined))?.ok) return;
    await sleep(50);
  }
  throw new Error("the service did not start");
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
