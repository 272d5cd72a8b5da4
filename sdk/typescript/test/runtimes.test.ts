// The built package in other runtimes. SDK_RUNTIMES names them, such as `bun=/path/to/bun,deno=/path/to/deno`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { openWorld } from "./harness.ts";

const smoke = fileURLToPath(new URL("smoke.mjs", import.meta.url));
const runtimes = (process.env.SDK_RUNTIMES ?? "").split(",").filter(Boolean);

for (const runtime of runtimes) {
  const [name = "", path = ""] = runtime.split("=");
  test(`the built client works in ${name}`, { timeout: 60_000 }, async () => {
    const world = await openWorld();
    try {
      const flags = name === "deno" ? ["run", "--allow-net", "--allow-env"] : name === "bun" ? ["run"] : [];
      const variables = { COUNTERSIGN_SERVER: world.service.url, COUNTERSIGN_TOKEN: world.agentToken, DECIDER_TOKEN: world.anaToken };
      const { stdout } = await promisify(execFile)(path, [...flags, smoke], { env: { PATH: process.env.PATH, HOME: process.env.HOME, ...variables }, timeout: 50_000 });
      assert.match(stdout, /smoke test passed/);
    } finally {
      await world.service.stop();
    }
  });
}
