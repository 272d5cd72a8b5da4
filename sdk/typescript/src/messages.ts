// Messages as the AI SDK and frameworks that follow it have them, in the form in which the server looks for the origin
// of values.

import type { Message } from "./types.ts";

interface Part {
  type: string;
  text?: string;
  toolName?: string;
  input?: unknown;
  args?: unknown;
  output?: unknown;
  result?: unknown;
}

/** A message of the AI SDK, as far as it is looked at here. */
interface ModelMessageLike {
  role: string;
  content: unknown;
}

export function conversationOf(messages: readonly ModelMessageLike[]): Message[] {
  return messages.flatMap(({ role, content }): Message[] => {
    const parts: Part[] = typeof content === "string" ? [{ type: "text", text: content }] : Array.isArray(content) ? (content as Part[]) : [];
    if (role === "user") return parts.flatMap(({ type, text }): Message[] => (type === "text" && text ? [{ role: "user", text }] : []));
    if (role === "assistant") return parts.flatMap(assistantPart);
    return role === "tool" ? parts.flatMap(toolPart) : [];
  });
}

function assistantPart(part: Part): Message[] {
  if (part.type === "text" && part.text) return [{ role: "assistant", text: part.text }];
  if (part.type === "tool-call") return [{ role: "assistant", text: `${part.toolName ?? ""} ${JSON.stringify(part.input ?? part.args ?? null)}` }];
  return toolPart(part);
}

function toolPart({ type, toolName, output, result }: Part): Message[] {
  if (type !== "tool-result") return [];
  const told = output ?? result;
  const value = typeof told === "object" && told !== null && "value" in told ? told.value : told;
  return [{ role: "tool", name: toolName ?? "tool", text: typeof value === "string" ? value : JSON.stringify(value ?? null) }];
}
