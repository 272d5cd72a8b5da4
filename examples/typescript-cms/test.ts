// Runs the assistant with a scripted model against the real service, and looks at what the CMS's tools did.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { MockLanguageModelV4 } from "ai/test";
import { Service } from "../testing/service.mts";
import { Assistant, type Posted, type Settings, tools } from "./agent.ts";
import { Cms } from "./cms.ts";

const key = "a key of the example, at least 32 characters";
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const cms = new Cms(key);
let service: Service;
let settings: Settings;

before(async () => {
  cms.server.listen(0, "127.0.0.1");
  await once(cms.server, "listening");
  const { port } = cms.server.address() as AddressInfo;
  const config = readFileSync(here("serve.toml"), "utf8").replaceAll("127.0.0.1:9000", `127.0.0.1:${port}`);
  service = await Service.start(here("policy.toml"), { config, variables: { CMS_KEY: key } });
  service.addPerson("ana");
  settings = {
    url: service.url,
    agentToken: service.token("--agent", "cms", "--scope", "propose,wait"),
    chatToken: service.token("--name", "cms-chat", "--scope", "reply"),
  };
});

after(async () => {
  await service?.stop();
  cms.server.close();
  cms.server.closeAllConnections();
});

beforeEach(() => {
  const page = (slug: string, name: string, status: "draft" | "published", ...sections: string[]) => ({ id: `page-${slug}`, slug, name, status, sections });
  cms.pages = [
    page("home", "Homepage", "published", "hero", "news"),
    page("about", "About Us", "published", "team", "history", "contact"),
    page("test", "Test Page", "published"),
    page("draft-1", "Draft 1", "draft", "a"),
    page("draft-2", "Draft 2", "draft"),
    page("draft-3", "Draft 3", "draft"),
  ];
  cms.posts = [{ slug: "hours", title: "Winter hours", status: "draft" }];
  cms.images = ["oven.jpg"];
  cms.ran.length = 0;
});

test("cancellation", async () => {
  const chat = new Chat([
    { calls: [["cms_deletePage", { slug: "home" }]] },
    { text: "Are you sure? This will delete the homepage." },
    { text: "Okay, I won't delete the homepage." },
  ]);
  const asked = await chat.say("Delete the homepage");
  assert.match(asked, /^Are you sure\? This will delete/);
  assert.match(asked, /Delete page “Homepage” and all 2 sections\. This cannot be undone\./);
  assert.match(await chat.say("no"), /Okay, I won't delete the homepage\.$/);
  assert.match(chat.toldLast(), /"status":"denied"/);
  assert.deepEqual(cms.ran, []);
});

test("confirmation", async () => {
  const chat = new Chat([
    { calls: [["cms_deletePage", { slug: "test" }]] },
    { text: "Are you sure? This will delete the test page." },
    { text: "Done! The test page has been deleted." },
  ]);
  await chat.say("Delete the test page");
  assert.match(chat.toldLast(), /"requiresConfirmation":true/);
  assert.deepEqual(cms.ran, []);
  assert.match(await chat.say("yes"), /Done! The test page has been deleted\.$/);
  assert.match(chat.toldLast(), /"status":"succeeded".*Test Page.* and all its sections have been deleted\./);
  // The default of the schema is filled in before the person is asked, so it is part of what they approve.
  assert.deepEqual(cms.ran, [{ tool: "cms_deletePage", bytes: '{"slug":"test","removeFromNavigation":true}' }]);
  await chat.say("yes");
  assert.equal(cms.ran.length, 1);
});

test("the flow of the source", async () => {
  const words = 'This will permanently delete the "About Us" page\nalong with all its sections. This cannot be undone.\n\nAre you sure you want to proceed?';
  const chat = new Chat([
    { calls: [["cms_deletePage", { slug: "about" }]] },
    { text: words },
    { text: "Done! The About Us page has been deleted." },
  ]);
  assert.equal(
    await chat.say("Delete the about page"),
    `${words}
Delete page “About Us” and all 3 sections. This cannot be undone.
/slug: about
/removeFromNavigation: true
there now, as cms_getPage read it: {"id":"page-about","slug":"about","name":"About Us","status":"published","sections":["team","history","contact"]}
-- reply "yes" to confirm or "no" to cancel.`,
  );
  const summary = "Delete page “About Us” and all 3 sections. This cannot be undone.";
  assert.equal(await chat.say("yes"), `Done: ${summary}\nDone! The About Us page has been deleted.`);
  assert.deepEqual(slugs(), ["about"]);
});

test("several confirmations in a row", async () => {
  const remove = (slug: string): Step => ({ calls: [["cms_deletePage", { slug }]] });
  const chat = new Chat([
    { calls: [["cms_listPages", { status: "draft" }]] },
    remove("draft-1"),
    { text: "I found 3 draft pages. Let me delete them one by one...\nDelete 'Draft 1'?" },
    remove("draft-2"),
    { text: "Deleted. Delete 'Draft 2'?" },
    remove("draft-3"),
    { text: "Deleted. Delete 'Draft 3'?" },
    { text: "Okay, I kept 'Draft 3'." },
  ]);
  await chat.say("Delete all draft pages");
  assert.deepEqual(slugs(), []);
  assert.match(await chat.say("yes"), /Deleted\. Delete 'Draft 2'\?/);
  assert.deepEqual(slugs(), ["draft-1"]);
  await chat.say("yes");
  assert.deepEqual(slugs(), ["draft-1", "draft-2"]);
  await chat.say("no");
  assert.deepEqual(slugs(), ["draft-1", "draft-2"]);
  assert.deepEqual(cms.pages.map((page) => page.slug), ["home", "about", "test", "draft-3"]);
});

test("calls of one step share one card", async () => {
  const slugsOfDrafts = ["draft-1", "draft-2", "draft-3"];
  const chat = new Chat([
    { calls: slugsOfDrafts.map((slug) => ["cms_deletePage", { slug }]) },
    { text: "Delete these three?" },
    { text: "Done! Deleted 3 pages." },
  ]);
  const asked = await chat.say("Delete all draft pages");
  for (const name of ["Draft 1", "Draft 2", "Draft 3"]) assert.ok(asked.includes(`Delete page “${name}”`), asked);
  assert.deepEqual(slugs(), []);
  await chat.say("yes");
  assert.deepEqual(slugs(), slugsOfDrafts);
});

test("a `confirmed: true` that the model invents runs nothing", async () => {
  const call: Step = { calls: [["cms_deletePage", { slug: "about", confirmed: true }]] };
  const chat = new Chat([
    call,
    call,
    { calls: [["cms_publishPost", { postSlug: "hours", confirmed: true }]] },
    { text: "It is done, the user said yes." },
    { text: "Okay." },
  ]);
  await chat.say("Clean up the site");
  assert.equal(chat.told().length, 3);
  for (const told of chat.told()) assert.match(told, /"requiresConfirmation":true/);
  assert.deepEqual(cms.ran, []);
  await chat.say("no");
  assert.deepEqual(cms.ran, []);
});

test("a model that calls again with `confirmed: true` after the yes does not run it twice", async () => {
  const chat = new Chat([
    { calls: [["cms_publishPost", { postSlug: "hours" }]] },
    { text: "Are you sure?" },
    { calls: [["cms_publishPost", { postSlug: "hours", confirmed: true }]] },
    { text: "Published." },
  ]);
  await chat.say("Publish the winter hours post");
  await chat.say("yes");
  assert.deepEqual(cms.ran, [{ tool: "cms_publishPost", bytes: '{"postSlug":"hours"}' }]);
  // The call refers to what the person approved, so it gets that result and no second card.
  assert.match(chat.toldLast(), /"status":"succeeded"/);
});

test("every tool of the source waits", async () => {
  const calls: Step["calls"] = [
    ["cms_deletePage", { slug: "about" }],
    ["cms_deletePageSection", { slug: "about", section: "team" }],
    ["cms_deletePageSections", { slug: "about", sections: ["team", "history"] }],
    ["cms_publishPost", { postSlug: "hours" }],
    ["cms_archivePost", { postSlug: "hours" }],
    ["cms_deletePost", { postSlug: "hours" }],
    ["cms_deleteImage", { filename: "oven.jpg" }],
    ["http_post", { url: "https://example.com/hook", body: { hello: "world" } }],
  ];
  assert.deepEqual(calls.map(([name]) => name).sort(), Object.keys(tools).filter((name) => name !== "cms_listPages").sort());
  const chat = new Chat([{ calls }, { text: "Shall I?" }, { text: "Okay." }]);
  await chat.say("Do everything");
  assert.equal(chat.told().length, 8);
  for (const told of chat.told()) assert.match(told, /"requiresConfirmation":true/);
  await chat.say("no");
  assert.deepEqual(cms.ran, []);
});

test("anything but a yes runs nothing, and goes on to the model", async () => {
  const chat = new Chat([
    { calls: [["cms_deletePage", { slug: "about" }]] },
    { text: "Are you sure?" },
    { text: "You have six pages." },
    { text: "You have two posts." },
  ]);
  await chat.say("Delete the about page");
  // A question keeps the card, and so does the first message about something else.
  const kept = await chat.say("how many pages do we have?");
  assert.match(kept, /You have six pages\./);
  assert.match(kept, /Delete page “About Us”/);
  assert.match(await chat.say("show me the posts"), /You have two posts\./);
  assert.deepEqual(cms.ran, []);
});

test("a page that changed since the card is not deleted, and is asked about again", async () => {
  const chat = new Chat([
    { calls: [["cms_deletePage", { slug: "about" }]] },
    { text: "Are you sure?" },
    { text: "The page changed meanwhile." },
    { text: "Done!" },
  ]);
  await chat.say("Delete the about page");
  cms.pages.find((page) => page.slug === "about")?.sections.push("prices");
  const again = await chat.say("yes");
  assert.deepEqual(cms.ran, []);
  assert.match(again, /all 4 sections/);
  assert.match(chat.toldLast(), /"status":"changed"/);
  await chat.say("yes");
  assert.deepEqual(slugs(), ["about"]);
});

test("a request without the service's signature changes nothing", async () => {
  const { port } = cms.server.address() as AddressInfo;
  const headers = { "countersign-tool": "cms_deletePage", "idempotency-key": "1", "countersign-signature": "v1=00" };
  const answer = await fetch(`http://127.0.0.1:${port}/tools/cms_deletePage`, { method: "POST", headers, body: '{"slug":"home"}' });
  assert.equal(answer.status, 401);
  assert.deepEqual(cms.ran, []);
});

// ---- the model and the page ----

type Step = { text?: string; calls?: [tool: string, input: unknown][] };

/** A page on which ana talks to the assistant, whose model follows a script. */
class Chat {
  readonly #model: MockLanguageModelV4;
  readonly #assistant: Assistant;
  #last: string | undefined;
  #messages = 0;

  constructor(script: Step[]) {
    const steps = script.values();
    let calls = 0;
    this.#model = new MockLanguageModelV4({
      doGenerate: async () => {
        const step: Step = steps.next().value ?? { text: "I have nothing to say." };
        const content = (step.calls ?? []).map(([toolName, input]) => {
          return { type: "tool-call" as const, toolCallId: `t${calls++}`, toolName, input: JSON.stringify(input) };
        });
        const none = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 };
        return {
          content: step.text ? [{ type: "text", text: step.text }, ...content] : content,
          finishReason: { unified: step.calls ? "tool-calls" : "stop", raw: undefined },
          usage: { inputTokens: none, outputTokens: { total: 0, text: 0, reasoning: 0 } },
          warnings: [],
        };
      },
    });
    this.#assistant = new Assistant(settings, this.#model, "ana");
  }

  /** Sends a message as ana, and returns what the page shows. */
  async say(text: string): Promise<string> {
    const posts: Posted[] = await this.#assistant.handle(text, `m${this.#messages++}`, this.#last);
    this.#last = posts.at(-1)?.id ?? this.#last;
    return posts.map((post) => post.text).join("\n");
  }

  /** Returns the tool results that the model was given with its last question. */
  told(): string[] {
    const prompt = this.#model.doGenerateCalls.at(-1)?.prompt ?? [];
    return prompt.flatMap((message) => (message.role === "tool" ? message.content : [])).map((part) => JSON.stringify(part));
  }

  toldLast(): string {
    return this.told().at(-1) ?? "";
  }
}

/** Returns the slugs of the pages that were deleted, in order. */
function slugs(): string[] {
  return cms.ran.filter(({ tool }) => tool === "cms_deletePage").map(({ bytes }) => JSON.parse(bytes).slug);
}
