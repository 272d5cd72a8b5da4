// A model that follows a script, so that the example needs no key.
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from "@openai/agents-core/testing";

export function fakeModel(): ScriptedModel {
  const refund = [functionCall("refund_order", { order: "A-17", amount: 49 }, { callId: "call-2" })];
  const done = [assistantMessage("I am done with order A-17.")];
  // A model only calls tools that it has.
  let hasLookedUp = false;
  const next = modelResponder(({ request }) => {
    const told = JSON.stringify(request.input);
    if (told.includes("call-2")) return done;
    if (hasLookedUp || !request.tools.some((tool) => "name" in tool && tool.name === "lookup_order")) return refund;
    hasLookedUp = true;
    return [functionCall("lookup_order", { order: "A-17" }, { callId: "call-1" })];
  });
  return new ScriptedModel([next, next, next, next]);
}
