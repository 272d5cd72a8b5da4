// A model that follows a script, so that the example needs no key.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { fakeModel as builtFakeModel } from "@langchain/core/testing";

/** With `looksUp`, the model looks the order up before it refunds it. */
export function fakeModel(looksUp = true) {
  const call = (name: string, args: Record<string, unknown>) => new AIMessage({ content: "", tool_calls: [{ id: `call-${name}`, name, args, type: "tool_call" }] });
  const hasResult = (messages: BaseMessage[], name: string) => messages.some((message) => message.type === "tool" && message.name === name);
  const next = (messages: BaseMessage[]) => {
    if (hasResult(messages, "refund_order")) return new AIMessage("I am done with order A-17.");
    if (looksUp && !hasResult(messages, "lookup_order")) return call("lookup_order", { order: "A-17" });
    return call("refund_order", { order: "A-17", amount: 49 });
  };
  return builtFakeModel().respond(next).respond(next).respond(next);
}
