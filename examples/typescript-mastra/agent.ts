// A support agent of a shop: it looks orders up by itself, and refunds only what a person has approved.
//
// Input: the question, and the environment variables of the client; MODEL, such as `openai/gpt-5.4`, for a real model.
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { Gate } from "@countersign/client";
import { countersign } from "@countersign/client/mastra";
import { fakeModel } from "./model.ts";

const orders: Record<string, { customer: string; total: number }> = { "A-17": { customer: "zoe@example.com", total: 49 } };

const lookupOrder = createTool({
  id: "lookup_order",
  description: "Look an order up",
  inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => orders[order] ?? "there is no such order",
});
const refund = createTool({
  id: "refund_order",
  description: "Refund an order",
  inputSchema: z.object({ order: z.string(), amount: z.number() }),
  execute: async ({ order, amount }) => {
    console.log(`refunded ${amount} for ${order}`);
    return { refunded: amount };
  },
});

const { tools, processor } = countersign(new Gate(), { tools: { lookup_order: lookupOrder, refund_order: refund } });
const agent = new Agent({ id: "support", name: "Support", instructions: "Help customers.", model: process.env.MODEL ?? fakeModel(), tools, outputProcessors: [processor] });
const result = await agent.generate(process.argv[2] ?? "Please refund order A-17", { runId: process.env.RUN ?? crypto.randomUUID(), maxSteps: 10 });
console.log(result.text);
