// A support agent of a shop: it looks orders up by itself, and refunds only what a person has approved.
//
// Input: the question, and the environment variables of the client; MODEL, such as `openai:gpt-5.4`, for a real model.
import { createAgent, tool } from "langchain";
import { z } from "zod";
import { Gate } from "@countersign/client";
import { countersign } from "@countersign/client/langchain";
import { fakeModel } from "./model.ts";

const orders: Record<string, { customer: string; total: number }> = { "A-17": { customer: "zoe@example.com", total: 49 } };

const lookupOrder = tool(async ({ order }) => orders[order] ?? "there is no such order", {
  name: "lookup_order",
  description: "Look an order up",
  schema: z.object({ order: z.string() }),
});
const refund = tool(
  async ({ order, amount }) => {
    console.log(`refunded ${amount} for ${order}`);
    return { refunded: amount };
  },
  { name: "refund_order", description: "Refund an order", schema: z.object({ order: z.string(), amount: z.number() }) },
);

const agent = createAgent({ model: process.env.MODEL ?? fakeModel(), tools: [lookupOrder, refund], middleware: [countersign(new Gate())] });
const question = { messages: [{ role: "user" as const, content: process.argv[2] ?? "Please refund order A-17" }] };
const { messages } = await agent.invoke(question, { configurable: { thread_id: process.env.RUN ?? crypto.randomUUID() } });
console.log(messages.at(-1)?.text);
