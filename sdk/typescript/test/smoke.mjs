// The built client in another runtime: only web standards, so that the same file runs in Node.js 20, Deno and Bun.
// Input: COUNTERSIGN_SERVER, COUNTERSIGN_TOKEN and DECIDER_TOKEN.
import { Denied, Gate } from "../dist/index.js";

const gate = new Gate();
const ana = new Gate({ token: globalThis.process?.env.DECIDER_TOKEN });
const ran = [];
const send = gate.hold("send", (args, call) => {
  ran.push(call.text);
  return args.amount;
});

const approvals = new Map();
const stop = new AbortController();
const deciding = (async () => {
  for await (const { approval, what } of ana.events({ after: "0" }, { signal: stop.signal })) {
    if (what !== "proposed") continue;
    const { calls } = await ana.approval(approval);
    const approved = !calls[0].argumentsText.includes('"amount":13');
    approvals.set(approval, await ana.decide(approval, { approved, comment: "no 13" }));
  }
})();

// Enough waits that some of them share the event stream.
const amounts = Array.from({ length: 30 }, (_, index) => index);
const results = await Promise.allSettled(amounts.map((amount) => send({ to: "bo", amount })));
stop.abort();
await deciding;
const wrong = results.filter(({ status, value, reason }, amount) => (amount === 13 ? !(reason instanceof Denied) || reason.comment !== "no 13" : status !== "fulfilled" || value !== amount));
if (wrong.length > 0 || ran.length !== 29) throw new Error(`wrong: ${JSON.stringify(wrong)}, ${ran.length} ran`);
console.log("smoke test passed");
