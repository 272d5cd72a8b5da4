// The generated types fit the API description that the tested server offers.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openWorld } from "./harness.ts";

const generator = process.env.SDK_GENERATOR ?? "";

test("src/types.gen.ts is what the server's description generates", { skip: generator === "", timeout: 60_000 }, async () => {
  const world = await openWorld();
  const folder = mkdtempSync(join(tmpdir(), "countersign-types."));
  try {
    const description = await (await fetch(`${world.service.url}/openapi.json`)).text();
    writeFileSync(join(folder, "openapi.json"), description);
    execFileSync(generator, [join(folder, "openapi.json"), "-o", join(folder, "types.ts")], { stdio: "ignore" });
    const committed = readFileSync(new URL("../src/types.gen.ts", import.meta.url), "utf8");
    assert.equal(readFileSync(join(folder, "types.ts"), "utf8"), committed, "run scripts/sdk-typescript --types, and commit the result");
  } finally {
    rmSync(folder, { recursive: true, force: true });
    await world.service.stop();
  }
});
