// Webhooks of the real service, verified by the reference library of Standard Webhooks.
import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { openWorld } from "./harness.ts";

const SECRET = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

test("e3: requests verify with the reference library", async () => {
  const arrived = Promise.withResolvers<{ headers: IncomingHttpHeaders; body: string }>();
  const receiver = createServer(async (request, response) => {
    const body = (await request.setEncoding("utf8").toArray()).join("");
    response.writeHead(204).end();
    arrived.resolve({ headers: request.headers, body });
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const { port } = receiver.address() as AddressInfo;
  const config = `private_targets = ["127.0.0.1:${port}"]\n[webhooks.test]\nurl = "http://127.0.0.1:${port}/"\nkeys_env = "HOOK_KEYS"\n`;
  const world = await openWorld("policy.toml", config, { HOOK_KEYS: SECRET });
  try {
    const { approval } = await world.gate.submit({ calls: [{ tool: "not_in_the_policy", arguments: { order: "A-17" } }] });
    assert.ok(approval);
    await world.ana.decide(approval.id, { approved: false });
    const { headers, body } = await arrived.promise;
    const told = new Webhook(SECRET).verify(body, headers as Record<string, string>) as { type: string; data: { approval: string } };
    assert.equal(told.type, "approval.denied");
    assert.equal(told.data.approval, approval.id);
    assert.ok(!body.includes("A-17"));
    assert.throws(() => new Webhook(SECRET).verify(`${body} `, headers as Record<string, string>));
  } finally {
    await world.service.stop();
    receiver.close();
  }
});
