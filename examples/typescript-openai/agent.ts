// A support agent of a shop: it looks orders up by itself, and refunds only what a person has approved.
//
// Input: the question, and the environment variables of the client; MODEL, such as `gpt-5.4`, for a real model.
import { Agent, Runner } from "@openai/agents";
import { z } from "zod";
import { Gate } from "@countersign/client";
import { countersign } from "@countersign/client/openai";
import { fakeModel } from "./model.ts";

const orders: Record<string, { customer: string; total: number }> = { "A-17": { customer: "zoe@example.com", total: 49 } };

const { tool, settle } = countersign(new Gate(), { runId: process.env.RUN ?? crypto.randomUUID() });
const lookupOrder = tool({
  name: "lookup_order",
  description: "Look an order up",
  parameters: z.object({ order: z.string() }),
  execute: async ({ order }) => orders[order] ?? "there is no such order",
});
const refund = tool({
  name: "refund_order",
  description: "Refund an order",
  parameters: z.object({ order: z.string(), amount: z.number() }),
  execute: async ({ order, amount }) => {
    console.log(`refunded ${amount} for ${order}`);
    return { refunded: amount };
  },
});

const agent = new Agent({ name: "Support", model: process.env.MODEL ?? fakeModel(), tools: [lookupOrder, refund] });
const runner = new Runner({ tracingDisabled: true });
let result = await runner.run(agent, process.argv[2] ?? "Please refund order A-17");
while ((await settle(result.state)).status !== "none") result = await runner.run(agent, result.state);
console.log(result.finalOutput);
