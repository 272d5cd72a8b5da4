// What the client costs over plain `fetch`, and 1,000 waits at once. Prints one line per figure.
import { Gate } from "../src/index.ts";
import { openWorld } from "../test/harness.ts";

const rounds = Number(process.env.ROUNDS ?? 1_500);
const waits = 1_000;

const world = await openWorld();
try {
  const { gate, service, agentToken } = world;
  const { approval } = await gate.submit({ calls: [{ tool: "send", arguments: { to: "bo", amount: 1 } }] });
  const path = `/v1/approvals/${approval?.id}`;
  const headers = { authorization: `Bearer ${agentToken}` };
  const raw = async (): Promise<void> => void (await (await fetch(service.url + path, { headers })).json());
  const client = async (): Promise<void> => void (await gate.approval(approval?.id ?? ""));
  // Alternating, so that both see the same machine.
  const [plain, ours]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    plain.push(await timed(raw));
    ours.push(await timed(client));
  }
  const [fetchMs, clientMs] = [median(plain.slice(100)), median(ours.slice(100))];
  print("read with fetch, median", fetchMs);
  print("read with the client, median", clientMs);
  print("overhead of the client, median", clientMs - fetchMs);

  const turns = await Promise.all(
    Array.from({ length: waits }, (_, amount) => gate.propose({ calls: [{ tool: "send", arguments: { to: "bo", amount } }] })),
  );
  const since = performance.now();
  const decided = turns.map((turn) => turn.decided().then(() => performance.now()));
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  const memory = process.memoryUsage().rss / 2 ** 20;
  const deciding = performance.now();
  const ana = new Gate({ server: service.url, token: world.anaToken });
  const answered = new Map<number, number>();
  let next = 0;
  const decide = async (): Promise<void> => {
    for (let index = next++; index < waits; index = next++) {
      await ana.decide(turns[index]?.approval?.id ?? "", { approved: false });
      answered.set(index, performance.now());
    }
  };
  await Promise.all([decide(), decide()]);
  const woken = await Promise.all(decided);
  print("1,000 waits opened and read once, at most", deciding - since);
  print("from a decision's answer to the woken wait, median", median(woken.map((at, index) => at - (answered.get(index) ?? at))));
  console.log(`resident memory with 1,000 waits: ${memory.toFixed(0)} MiB`);
  if (turns.some((turn) => turn.approval?.status !== "denied")) throw new Error("a wait ended without its decision");
} finally {
  await world.service.stop();
}

async function timed(run: () => Promise<void>): Promise<number> {
  const since = performance.now();
  await run();
  return performance.now() - since;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

function print(what: string, ms: number): void {
  console.log(`${what}: ${ms.toFixed(3)} ms`);
}
