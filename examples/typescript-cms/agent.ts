// The CMS's assistant on the AI SDK, with Countersign in place of the `confirmed` flag.
//
// The tools have no `execute`: the calls of each step are submitted to Countersign, which runs the reads, holds the rest
// for a person, and runs what was approved. A model that sets `confirmed: true` by itself changes nothing about that.
import { randomUUID } from "node:crypto";
import { generateText, type LanguageModel, type ModelMessage, tool } from "ai";
import { z } from "zod";

const confirmed = z.boolean().optional().describe("Not needed: a person decides");
const postSlug = z.string().describe("Post slug");

export const tools = {
  cms_listPages: tool({
    description: "List pages.",
    inputSchema: z.object({ status: z.enum(["draft", "published"]).optional() }),
  }),
  cms_deletePage: tool({
    description: "Delete a page permanently (CASCADE: deletes all sections). This cannot be undone.",
    inputSchema: z.object({
      slug: z.string().optional().describe("Page slug"),
      id: z.string().optional().describe("Page ID"),
      removeFromNavigation: z.boolean().optional().default(true),
      confirmed,
    }),
  }),
  cms_deletePageSection: tool({
    description: "Delete a section of a page.",
    inputSchema: z.object({ slug: z.string(), section: z.string(), confirmed }),
  }),
  cms_deletePageSections: tool({
    description: "Delete several sections of a page.",
    inputSchema: z.object({ slug: z.string(), sections: z.array(z.string()).min(1), confirmed }),
  }),
  cms_publishPost: tool({
    description: "Publish a draft post (makes it publicly visible).",
    inputSchema: z.object({ postSlug, confirmed }),
  }),
  cms_archivePost: tool({ description: "Hide a published post.", inputSchema: z.object({ postSlug, confirmed }) }),
  cms_deletePost: tool({ description: "Delete a post permanently.", inputSchema: z.object({ postSlug, confirmed }) }),
  cms_deleteImage: tool({
    description: "Delete an image permanently.",
    inputSchema: z.object({ filename: z.string(), confirmed }),
  }),
  http_post: tool({
    description: "Send JSON to an external API.",
    inputSchema: z.object({ url: z.url(), body: z.record(z.string(), z.unknown()), confirmed }),
  }),
};

export type Settings = {
  url: string;
  /** `--agent cms --scope propose,wait` */
  agentToken: string;
  /** `--name cms-chat --scope reply` */
  chatToken: string;
};

export type Posted = { id: string; text: string };

const mostSteps = 8;
/** The tools' `timeout` in the policy: after that, the outcome is `unknown`. */
const longestWait = "60s";

export class Assistant {
  readonly messages: ModelMessage[] = [];
  readonly #settings: Settings;
  readonly #model: LanguageModel;
  readonly #person: string;
  readonly #told = new Set<string>();
  readonly #channel = `cms-${randomUUID()}`;

  constructor(settings: Settings, model: LanguageModel, person: string) {
    this.#settings = settings;
    this.#model = model;
    this.#person = person;
  }

  /** Handles a person's message and returns what the page shows. `after` is the id of the last message that it showed. */
  async handle(text: string, messageId: string, after?: string): Promise<Posted[]> {
    const reply = { text, sender: this.#person, messageId, after };
    const heard = await this.#request("chatToken", `${this.#path()}/replies`, reply);
    const isApproved = heard.happened === "approved";
    const say = isApproved ? await this.#waitUntilItRan(heard.approval.id) : heard.say;
    const posts: Posted[] = say ? [post(say)] : [];
    if (!isApproved && heard.happened !== "denied" && !heard.goOn) {
      return heard.show ? [...posts, await this.#show(heard.show)] : posts;
    }
    this.messages.push({ role: "user", content: text });
    await this.#tellWhatEnded();
    return [...posts, ...(await this.#turn())];
  }

  /** Waits for the calls of an approved card, which the service runs, and says how each ended. */
  async #waitUntilItRan(approval: string): Promise<string> {
    const query = `wait=${longestWait}&waitFor=finished`;
    const { calls } = await this.#request("agentToken", `/v1/approvals/${approval}?${query}`);
    return calls.map(({ state, because, summary }: any) => `${because ?? WORDS[state] ?? state}: ${summary}`).join("\n");
  }

  /** Asks the model until it only answers in words, and then shows the card, if a call is held. */
  async #turn(): Promise<Posted[]> {
    const posts: Posted[] = [];
    // How to work with calls that wait for a person; it replaces the source's three-step instructions.
    const system = await (await fetch(`${this.#settings.url}/v1/guide`)).text();
    for (let step = 0; step < mostSteps; step++) {
      const answer = await generateText({ model: this.#model, system, tools, messages: this.messages });
      this.messages.push(...answer.responseMessages);
      if (answer.text) posts.push(post(answer.text));
      const calls = answer.toolCalls.filter((call) => !("invalid" in call && call.invalid));
      if (calls.length > 0) await this.#submit(calls);
      if (answer.toolCalls.length === 0) break;
    }
    const { pending } = await this.#request("chatToken", `${this.#path()}/pending`);
    if (pending) posts.push(await this.#show(pending));
    return posts;
  }

  /** Submits the calls of one step together: those that are held share one card. */
  async #submit(calls: { toolCallId: string; toolName: string; input: unknown }[]): Promise<void> {
    const submitted = await this.#request("agentToken", "/v1/calls", {
      channel: this.#channel,
      calls: calls.map(({ toolName, input }) => ({ tool: toolName, arguments: input })),
    });
    calls.forEach(({ toolCallId, toolName }, index) => {
      const { ruling, status, summary, reason, result } = submitted.calls[index];
      const told =
        ruling === "held" ? { requiresConfirmation: true, message: `Are you sure? ${summary}` }
        : ruling === "forbidden" ? { error: reason }
        : { status, result };
      this.#result(toolCallId, toolName, told);
    });
  }

  /**
   * Tells the model how held calls ended, wherever they were decided: each is in the conversation once more, with its
   * final result.
   */
  async #tellWhatEnded(): Promise<void> {
    const transcript: any[] = await this.#request("agentToken", `${this.#path()}/transcript?format=openai`);
    const calls = transcript.flatMap((message) => message.tool_calls ?? []);
    for (const { id: toolCallId, function: called } of calls) {
      const result = JSON.parse(transcript.find((message) => message.tool_call_id === toolCallId).content);
      if (NOT_ENDED.includes(result.status) || this.#told.has(toolCallId)) continue;
      this.#told.add(toolCallId);
      const input = JSON.parse(called.arguments);
      const content = [{ type: "tool-call" as const, toolCallId, toolName: called.name, input }];
      this.messages.push({ role: "assistant", content });
      this.#result(toolCallId, called.name, result);
    }
  }

  #result(toolCallId: string, toolName: string, value: any): void {
    const content = [{ type: "tool-result" as const, toolCallId, toolName, output: { type: "json" as const, value } }];
    this.messages.push({ role: "tool", content });
  }

  /** Posts a card unchanged and reports it as shown: a yes counts only for a card that was shown. */
  async #show(card: { text: string; digest?: string }): Promise<Posted> {
    const posted = post(card.text);
    await this.#request("chatToken", `${this.#path()}/shown`, { messageId: posted.id, digest: card.digest });
    return posted;
  }

  #path(): string {
    return `/v1/channels/${this.#channel}`;
  }

  async #request(token: "agentToken" | "chatToken", path: string, body?: unknown): Promise<any> {
    const answer = await fetch(this.#settings.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${this.#settings[token]}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const parsed: any = await answer.json();
    if (!answer.ok) throw new Error(parsed.error.message);
    return parsed;
  }
}

const NOT_ENDED = ["pending_confirmation", "approved", "running"];

const WORDS: Record<string, string> = {
  succeeded: "Done",
  failed: "That failed, and nothing was changed",
  unknown: "Nobody knows yet whether that was done",
  running: "That has not ended yet",
};

function post(text: string): Posted {
  return { id: randomUUID(), text };
}
