// A model that follows a script, so that the example needs no key.
import { MockLanguageModelV4 } from "ai/test";

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined }, outputTokens: { total: 1, text: 1, reasoning: undefined } };

export function fakeModel(): MockLanguageModelV4 {
  let step = 0;
  const call = (toolName: string, input: object) => ({ type: "tool-call" as const, toolCallId: `call-${step}`, toolName, input: JSON.stringify(input) });
  return new MockLanguageModelV4({
    doGenerate: async ({ tools }) => {
      // A model only calls tools that it has.
      if (step === 0 && !tools?.some(({ name }) => name === "lookup_order")) step = 1;
      step += 1;
      const content = [step === 1 ? call("lookup_order", { order: "A-17" }) : step === 2 ? call("refund_order", { order: "A-17", amount: 49 }) : { type: "text" as const, text: "I am done with order A-17." }];
      return { content, finishReason: { unified: step < 3 ? ("tool-calls" as const) : ("stop" as const), raw: undefined }, usage, warnings: [] };
    },
  });
}
