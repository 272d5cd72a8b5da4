// A support agent of a shop: it looks orders up by itself, and refunds only what a person has approved.
//
// Input: the question, and the environment variables of the client; MODEL, such as `openai/gpt-5.4`, for a real model.
import { generateText, isStepCount, type ModelMessage, tool } from "ai";
import { z } from "zod";
import { Gate } from "@countersign/client";
import { countersign } from "@countersign/client/ai";
import { fakeModel } from "./model.ts";

const orders: Record<string, { customer: string; total: number }> = { "A-17": { customer: "zoe@example.com", total: 49 } };

const { tools, toolApproval, settle } = countersign(new Gate(), {
  runId: process.env.RUN ?? crypto.randomUUID(),
  tools: {
    lookup_order: tool({
      description: "Look an order up",
      inputSchema: z.object({ order: z.string() }),
      execute: async ({ order }) => orders[order] ?? "there is no such order",
    }),
    refund_order: tool({
      description: "Refund an order",
      inputSchema: z.object({ order: z.string(), amount: z.number() }),
      execute: async ({ order, amount }) => {
        console.log(`refunded ${amount} for ${order}`);
        return { refunded: amount };
      },
    }),
  },
});

const model = process.env.MODEL ?? fakeModel();
let messages: ModelMessage[] = [{ role: "user", content: process.argv[2] ?? "Please refund order A-17" }];
for (;;) {
  const result = await generateText({ model, tools, toolApproval, messages, stopWhen: isStepCount(10) });
  const settled = await settle([...messages, ...result.responseMessages]);
  messages = settled.messages;
  if (settled.status === "none") {
    console.log(result.text);
    break;
  }
}
