// Runs the bot against a real Countersign service on PostgreSQL, and looks at what the CRM's tools did.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { Service } from "../testing/service.mts";
import { Bot, type Chat, type Model, type Said, type Settings } from "./bot.ts";
import { Crm, SCHEMA, TOOLS } from "./crm.ts";

const server = process.env.COUNTERSIGN_TEST_POSTGRES;
if (!server) throw new Error("COUNTERSIGN_TEST_POSTGRES is not set; use scripts/examples");

const name = `example_${randomUUID().replaceAll("-", "")}`;
const admin = new pg.Client(server);
let service: Service;
let pool: pg.Pool;
let settings: Settings;

before(async () => {
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  // The bot's role has a schema of its own in the same database, and no right to Countersign's tables.
  await admin.query(`CREATE ROLE ${name} LOGIN`);
  const database = new pg.Client(url(name, "postgres"));
  await database.connect();
  await database.query(`CREATE SCHEMA crm AUTHORIZATION ${name}`);
  await database.end();
  pool = new pg.Pool({ connectionString: url(name, name), options: "-c search_path=crm" });
  await pool.query(SCHEMA);

  const policy = fileURLToPath(new URL("policy.toml", import.meta.url));
  service = await Service.start(policy, { store: url(name, "postgres") });
  service.addPerson("ana");
  settings = {
    url: service.url,
    agentToken: service.token("--agent", "crm", "--scope", "propose,wait"),
    chatToken: service.token("--name", "crm-chat", "--scope", "reply"),
    hostToken: service.token("--name", "crm-host", "--scope", "read,execute"),
  };
});

after(async () => {
  await service?.stop();
  await pool?.end();
  await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  await admin.query(`DROP ROLE IF EXISTS ${name}`);
  await admin.end();
});

test("nine reads run at once, four writes wait", async () => {
  const chat = new TestChat();
  const held = new Set<string>();
  for (const tool of TOOLS) {
    const told = await chat.say(`call ${tool} {"query":"a","id":1,"name":"N","title":"T","amount":1,"contact":"C","kind":"call","note":"n"}`);
    if (told.includes("reply \"yes\"")) held.add(tool);
  }
  assert.equal(TOOLS.length, 13);
  assert.deepEqual([...held], ["create_contact", "create_deal", "create_task", "log_activity"]);
  assert.equal(await chat.say("no"), "Cancelled.");
  assert.deepEqual(await ran(), []);
});

test("the dialogue of the source, with a restart of the service between the question and the yes", async () => {
  const chat = new TestChat();
  const asked = await chat.say("Create a contact for Maria Garcia at Acme Corp, maria@acme.com");
  assert.equal(
    asked,
    `I'll create a new contact with these details:
- Name: Maria Garcia
- Email: maria@acme.com
- Company: Acme Corp
Create contact Maria Garcia, maria@acme.com, Acme Corp
-- reply "yes" to confirm or "no" to cancel.`,
  );
  await service.down();
  await service.up();
  assert.equal(await chat.say("yes"), "Done! Create contact Maria Garcia, maria@acme.com, Acme Corp.");
  assert.deepEqual(await ran(), [["create_contact", MARIA]]);
  assert.deepEqual(await rows("SELECT name, email, company FROM contact"), [
    { name: "Maria Garcia", email: "maria@acme.com", company: "Acme Corp" },
  ]);
});

test("no cancels", async () => {
  const chat = new TestChat();
  await chat.say("Create a contact for Maria Garcia at Acme Corp, maria@acme.com");
  assert.equal(await chat.say("no"), "Cancelled.");
  assert.deepEqual(await ran(), []);
});

test("anything else cancels and is processed", async () => {
  const chat = new TestChat();
  await chat.say("Create a contact for Maria Garcia at Acme Corp, maria@acme.com");
  const told = await chat.say("actually, show me my pipeline");
  assert.match(told, /^Cancelled, because you changed the subject: Create contact Maria Garcia/);
  assert.match(told, /get_pipeline: \[\]$/);
  assert.doesNotMatch(await chat.say("yes"), /Done/);
  assert.deepEqual(await ran(), []);
});

test("a second write replaces the first", async () => {
  const chat = new TestChat();
  const task = '{"title":"Call John"}';
  await chat.say(`call create_contact ${MARIA} then create_task ${task}`);
  assert.equal(await chat.say("yes"), "Done! Create task Call John.");
  assert.deepEqual(await ran(), [["create_task", task]]);
});

test("a yes that the chat delivers twice, or that is written twice, runs once", async () => {
  const chat = new TestChat();
  await chat.say("Create a contact for Maria Garcia at Acme Corp, maria@acme.com");
  const yes = chat.message("yes");
  const bot = chat.bot();
  await Promise.all([bot.handle(yes), bot.handle(yes), chat.bot().handle(yes)]);
  await chat.say("yes");
  assert.deepEqual(await ran(), [["create_contact", MARIA]]);
});

test("the tool gets the bytes that the model wrote", async () => {
  const chat = new TestChat();
  const deal = '{ "title": "Caf\\u00e9",  "amount": 12345678901234567890.10, "contact":"Maria" }';
  await chat.say(`call create_deal ${deal}`);
  // A number that the template could not write exactly is shown as it is, with the other arguments.
  assert.equal(await chat.say("yes"), "Done! create_deal: title Café, amount 12345678901234567890.10, contact Maria.");
  assert.deepEqual(await ran(), [["create_deal", deal]]);
  assert.deepEqual(await rows("SELECT title, amount FROM deal"), [{ title: "Café", amount: "12345678901234567890.10" }]);
});

test("a bot that ends after the yes runs the call when it is back, once", async () => {
  const chat = new TestChat();
  await chat.say("Create a contact for Maria Garcia at Acme Corp, maria@acme.com");
  const { channel, sender, text, id, after } = chat.message("yes");
  await fetch(`${settings.url}/v1/channels/${channel}/replies`, {
    method: "POST",
    headers: { authorization: `Bearer ${settings.chatToken}`, "content-type": "application/json" },
    body: JSON.stringify({ text, sender, messageId: id, after }),
  });
  assert.deepEqual(await ran(), []);
  await chat.bot().resume(channel);
  await chat.bot().resume(channel);
  assert.deepEqual(await ran(), [["create_contact", MARIA]]);
  assert.equal(chat.posts.at(-1)?.text, "Done! Create contact Maria Garcia, maria@acme.com, Acme Corp.");
});

test("a write that fails changes nothing, and is recorded as failed", async () => {
  const chat = new TestChat();
  await chat.say('call create_deal {"title":"T","amount":"much","contact":"Maria"}');
  assert.equal(await chat.say("yes"), "That failed, and nothing was changed: Create deal T over much for Maria.");
  assert.deepEqual(await ran(), []);
  assert.equal(await lastStatus(chat), "failed");
});

test("an approved write that does not reach the CRM is recorded as not sent", async () => {
  const chat = new TestChat();
  await chat.say('call create_task {"title":"Call John"}');
  const nowhere = new pg.Pool({ host: "127.0.0.1", port: 1, connectionTimeoutMillis: 1000 });
  await chat.bot(new Crm(nowhere)).handle(chat.message("yes"));
  assert.equal(chat.posts.at(-1)?.text, "The CRM cannot be reached, and nothing was changed: Create task Call John.");
  assert.equal(await lastStatus(chat), "not_sent");
  assert.deepEqual(await ran(), []);
});

test("a value that nobody stated is marked on the card", async () => {
  const chat = new TestChat({ marks: true });
  const told = await chat.say("Create a contact for Maria");
  assert.match(told, /Create contact Maria, maria@company\.com/);
  assert.match(told, /NOT FROM YOU.*maria@company\.com/);
  await chat.say("no");
});

test("while the service is away, nothing runs", async () => {
  const chat = new TestChat();
  await chat.say("Create a contact for Maria Garcia at Acme Corp, maria@acme.com");
  const yes = chat.message("yes");
  await service.down();
  await chat.bot().handle(yes);
  assert.match(await chat.say(`call create_contact ${MARIA}`), /^Sorry/);
  assert.deepEqual(await ran(), []);
  await service.up();
  // The chat delivers the message again, because the bot had not accepted it.
  await chat.bot().handle(yes);
  assert.match(chat.posts.at(-1)?.text ?? "", /^Done!/);
  assert.deepEqual(await ran(), [["create_contact", MARIA]]);
});

test("the bot's database role cannot reach Countersign's tables", async () => {
  await assert.rejects(pool.query("SELECT 1 FROM countersign.approval"), /permission denied/);
});

// ---- the chat and the model ----

const MARIA = '{"name":"Maria Garcia","email":"maria@acme.com","company":"Acme Corp"}';

/** A chat with one person, in a channel of its own. */
class TestChat implements Chat {
  readonly channel = `telegram-${randomUUID()}`;
  readonly posts: { id: string; text: string }[] = [];
  readonly #settings: Settings;
  readonly #bot: Bot;
  #messages = 0;

  constructor(more: Partial<Settings> = {}) {
    this.#settings = { ...settings, ...more };
    this.#bot = this.bot();
  }

  bot(crm = new Crm(pool)): Bot {
    return new Bot(this.#settings, crm, this, model);
  }

  message(text: string) {
    const id = `person-${this.#messages++}`;
    return { channel: this.channel, sender: "ana", text, id, after: this.posts.at(-1)?.id };
  }

  async post(_channel: string, text: string): Promise<string> {
    const id = `bot-${this.posts.length}`;
    this.posts.push({ id, text });
    return id;
  }

  /** Sends a message as the person, and returns what the bot posts. */
  async say(text: string): Promise<string> {
    const before = this.posts.length;
    await this.#bot.handle(this.message(text));
    return this.posts.slice(before).map((post) => post.text).join("\n");
  }
}

/** Replaces the source's specialists by a script. `call TOOL ARGUMENTS then TOOL ARGUMENTS` makes the model call tools. */
const model: Model = async (conversation) => {
  const asked = conversation.findLastIndex((said) => said.role === "user");
  const text = conversation[asked]?.text ?? "";
  const answers = conversation.slice(asked + 1).filter((said) => said.role === "tool");
  const script = text.startsWith("call ") ? text.slice(5).split(" then ") : (SCRIPT[text] ?? []);
  const [tool, ...given] = (script[answers.length] ?? "").split(" ");
  if (tool) return { text: "", calls: [{ tool, arguments: given.join(" ") }] };
  const last = answers.at(-1);
  return { text: last ? explain(last) : "I did not understand.", calls: [] };
};

const SCRIPT: Record<string, string[]> = {
  "Create a contact for Maria Garcia at Acme Corp, maria@acme.com": [`create_contact ${MARIA}`],
  "Create a contact for Maria": ['create_contact {"name":"Maria","email":"maria@company.com"}'],
  "actually, show me my pipeline": ["get_pipeline {}"],
};

function explain({ name, text }: Extract<Said, { role: "tool" }>): string {
  if (!text.includes("pending_confirmation")) return `${name}: ${text}`;
  if (!text.includes("Maria Garcia")) return `I'll use ${name}.`;
  return "I'll create a new contact with these details:\n- Name: Maria Garcia\n- Email: maria@acme.com\n- Company: Acme Corp";
}

/** Returns the status of the last held call, as the model is told it. */
async function lastStatus({ channel }: TestChat): Promise<string> {
  const headers = { authorization: `Bearer ${settings.agentToken}` };
  const answer = await fetch(`${settings.url}/v1/channels/${channel}/transcript?format=openai`, { headers });
  const messages = (await answer.json()) as { content: string }[];
  return JSON.parse(messages.at(-1)?.content ?? "{}").status;
}

// ---- the database ----

function url(database: string, role: string): string {
  const made = new URL(server as string);
  made.pathname = `/${database}`;
  made.username = role;
  return made.href;
}

async function rows(query: string): Promise<unknown[]> {
  return (await pool.query(query)).rows;
}

let seen = 0;

/** Returns the writes that ran since the last call, with their exact arguments. */
async function ran(): Promise<string[][]> {
  const { rows } = await pool.query("SELECT tool, convert_from(arguments, 'UTF8') AS given FROM ran ORDER BY call OFFSET $1", [seen]);
  seen += rows.length;
  return rows.map(({ tool, given }) => [tool, given]);
}
