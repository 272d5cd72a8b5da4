// The CRM bot's message handler, with Countersign in place of a `pending_actions` table.
//
// A message is read as an answer to the pending approval first. Only then the model sees it, and whatever the model calls
// is ruled on by Countersign's policy: reads run at once, writes wait for a person.
import type { Crm } from "./crm.ts";

export type Incoming = {
  channel: string;
  sender: string;
  text: string;
  /** The chat's id of this message. A message that the chat delivers twice counts once. */
  id: string;
  /** The id of the bot's last message that the person had seen. */
  after?: string;
};

export interface Chat {
  /** Posts a message and returns its id. */
  post(channel: string, text: string): Promise<string>;
}

export type Call = { tool: string; arguments: string };
export type Said =
  | { role: "user" | "assistant"; text: string }
  | { role: "tool"; name: string; text: string };
/** Answers a conversation, in place of the source's specialists: with calls as the model wrote them, or with words. */
export type Model = (conversation: Said[]) => Promise<{ text: string; calls: Call[] }>;

export type Settings = {
  url: string;
  /** `--agent crm --scope propose,wait`: may only propose. */
  agentToken: string;
  /** `--name crm-chat --scope reply`: forwards what people write. */
  chatToken: string;
  /** `--name crm-host --scope read,execute`: runs what was approved. */
  hostToken: string;
  /** If true, cards say which values the person gave and which nobody stated. */
  marks?: boolean;
};

type Card = { text: string; digest?: string };
type Approval = { id: string; calls: { id: string; state: string; summary: string }[] };

const mostSteps = 8;

export class Bot {
  readonly #settings: Settings;
  readonly #crm: Crm;
  readonly #chat: Chat;
  readonly #model: Model;
  readonly #conversations = new Map<string, Said[]>();

  constructor(settings: Settings, crm: Crm, chat: Chat, model: Model) {
    this.#settings = settings;
    this.#crm = crm;
    this.#chat = chat;
    this.#model = model;
  }

  /** Handles one message. If anything fails before a call has started, the call does not run, and the person is told. */
  async handle(message: Incoming): Promise<void> {
    const { channel, sender, text, id, after } = message;
    try {
      const reply = { text, sender, messageId: id, after };
      const heard = await this.#request(this.#settings.chatToken, `${channelPath(channel)}/replies`, reply);
      if (heard.happened === "approved") return await this.#run(channel, heard.approval);
      if (heard.say) await this.#chat.post(channel, heard.say);
      if (heard.show) await this.#show(channel, heard.show);
      if (heard.goOn) await this.#turn(message);
    } catch (error) {
      await this.#chat.post(channel, `Sorry, I could not go on: ${(error as Error).message}`);
    }
  }

  /** Runs what was approved while this process was not there. */
  async resume(channel: string): Promise<void> {
    const query = new URLSearchParams({ status: "approved", channel });
    const page = await this.#request(this.#settings.hostToken, `/v1/approvals?${query}`);
    for (const approval of page.approvals.reverse()) await this.#run(channel, approval);
  }

  async #turn({ channel, text }: Incoming): Promise<void> {
    const conversation = this.#conversations.get(channel) ?? [];
    this.#conversations.set(channel, conversation);
    conversation.push({ role: "user", text });
    let isHeld = false;
    for (let step = 0; step < mostSteps; step++) {
      const answer = await this.#model(conversation);
      if (answer.text) {
        conversation.push({ role: "assistant", text: answer.text });
        await this.#chat.post(channel, answer.text);
      }
      if (answer.calls.length === 0) break;
      isHeld = (await this.#submit(channel, answer.calls, conversation)) || isHeld;
    }
    if (!isHeld) return;
    const { pending } = await this.#request(this.#settings.chatToken, `${channelPath(channel)}/pending`);
    if (pending) await this.#show(channel, pending);
  }

  /** Submits the calls of one answer, and tells the model what came of each. Returns true if any of them is held. */
  async #submit(channel: string, calls: Call[], conversation: Said[]): Promise<boolean> {
    // The arguments are inserted as the model wrote them: these bytes are shown, and these bytes run.
    const written = calls.map((call) => `{"tool":${JSON.stringify(call.tool)},"arguments":${call.arguments}}`);
    const marks = this.#settings.marks ? `,"conversation":${JSON.stringify(conversation)}` : "";
    const body = `{"channel":${JSON.stringify(channel)},"calls":[${written.join(",")}]${marks}}`;
    const submitted = await this.#request(this.#settings.agentToken, "/v1/calls", body);
    for (const [index, { tool, arguments: given }] of calls.entries()) {
      const ruling = submitted.calls[index];
      let result: unknown = { status: "forbidden", message: ruling.reason };
      if (ruling.ruling === "held") {
        const message = `This action requires confirmation: ${ruling.summary}`;
        result = { status: "pending_confirmation", message };
      } else if (ruling.ruling === "pass") {
        // With this policy only reads pass. A write that passes comes with a permit, and its end has to be reported.
        result = await this.#crm.read(tool, Buffer.from(given));
      }
      conversation.push({ role: "tool", name: tool, text: JSON.stringify(result) });
    }
    return submitted.approval !== null;
  }

  /** Posts a card unchanged and reports it as shown: a yes counts only for a card that was shown. */
  async #show(channel: string, card: Card): Promise<void> {
    const messageId = await this.#chat.post(channel, card.text);
    const shown = { messageId, digest: card.digest };
    await this.#request(this.#settings.chatToken, `${channelPath(channel)}/shown`, shown);
  }

  /** Runs the released calls of an approval. Each is started once, whoever asks, and runs with the bytes of its card. */
  async #run(channel: string, approval: Approval): Promise<void> {
    const token = this.#settings.hostToken;
    for (const { id, summary, state } of approval.calls) {
      if (state !== "released") continue;
      const started = await this.#request(token, `/v1/calls/${id}/start`, {});
      const given = Buffer.from(started.argumentsHex, "hex");
      const ended = await this.#crm.write(id, started.tool, given);
      const text = JSON.stringify({ status: ended.outcome, result: ended.result });
      this.#conversations.get(channel)?.push({ role: "tool", name: started.tool, text });
      await this.#chat.post(channel, `${WORDS[ended.outcome]} ${summary}.`);
      await this.#request(token, `/v1/calls/${id}/finish`, { permit: started.permit, ...ended });
    }
  }

  async #request(token: string, path: string, body?: unknown): Promise<any> {
    const answer = await fetch(this.#settings.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: typeof body === "string" || body === undefined ? body : JSON.stringify(body),
    });
    const parsed: any = await answer.json();
    if (!answer.ok) throw new Error(parsed.error.message);
    return parsed;
  }
}

const WORDS = {
  succeeded: "Done!",
  failed: "That failed, and nothing was changed:",
  not_sent: "The CRM cannot be reached, and nothing was changed:",
  unknown: "That may or may not have worked; please check:",
};

function channelPath(channel: string): string {
  return `/v1/channels/${encodeURIComponent(channel)}`;
}
