// Server-sent events, parsed as the standard says.

export interface ServerSentEvent {
  id: string;
  event: string;
  data: string;
}

/** Yields the events of a stream until it ends or is aborted. `onId` gets every id, also of an event without data. */
export async function* parseEvents(body: ReadableStream<Uint8Array>, onId: (id: string) => void, signal: AbortSignal | undefined): AsyncGenerator<ServerSentEvent> {
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => undefined);
  signal?.addEventListener("abort", cancel, { once: true });
  if (signal?.aborted) cancel();
  const decoder = new TextDecoder();
  let rest = "";
  let [id, event, data]: [string, string, string[]] = ["", "", []];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line !== "") {
          const [, name, text] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
          if (name === "id") onId((id = text ?? ""));
          if (name === "event") event = text ?? "";
          if (name === "data") data.push(text ?? "");
          continue;
        }
        if (data.length > 0) yield { id, event: event || "message", data: data.join("\n") };
        [event, data] = ["", []];
      }
    }
  } finally {
    // Ends the connection if the consumer stops early.
    signal?.removeEventListener("abort", cancel);
    cancel();
  }
}
