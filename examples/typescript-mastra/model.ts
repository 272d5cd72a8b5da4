// A model that follows a script, so that the example needs no key.
import type { MastraModelConfig } from "@mastra/core/llm";
import { MastraLanguageModelV2Mock } from "@mastra/core/test-utils/llm-mock";

export function fakeModel(): MastraModelConfig {
  let step = 0;
  const call = (toolName: string, input: object) => ({ type: "tool-call" as const, toolCallId: `call-${step}`, toolName, input: JSON.stringify(input) });
  const model = new MastraLanguageModelV2Mock({
    doGenerate: async ({ tools }) => {
      // A model only calls tools that it has.
      if (step === 0 && !tools?.some(({ name }) => name === "lookup_order")) step = 1;
      step += 1;
      const content = [step === 1 ? call("lookup_order", { order: "A-17" }) : step === 2 ? call("refund_order", { order: "A-17", amount: 49 }) : { type: "text" as const, text: "I am done with order A-17." }];
      return { content, finishReason: step < 3 ? ("tool-calls" as const) : ("stop" as const), usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, warnings: [] };
    },
  });
  return model as unknown as MastraModelConfig;
}
