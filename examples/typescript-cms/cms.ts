// The CMS: pages, posts and images, and the endpoint at which Countersign calls its tools.
//
// Input: signed requests of the service. Output: the tool's answer; a 4xx says that nothing was done.
// Not here: a `confirmed` flag. Whatever arrives here with a valid signature has been ruled on, and acts once.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";

type Page = { id: string; slug: string; name: string; status: "draft" | "published"; sections: string[] };
type Post = { slug: string; title: string; status: "draft" | "published" | "archived" };

const oldestSeconds = 300;

export class Cms {
  pages: Page[] = [];
  posts: Post[] = [];
  images: string[] = [];
  /** Every change that ran, with the exact bytes of its arguments. */
  readonly ran: { tool: string; bytes: string }[] = [];
  readonly server: Server;
  readonly #key: string;
  readonly #answers = new Map<string, unknown>();

  constructor(key: string) {
    this.#key = key;
    this.server = createServer(async (request, response) => {
      const body = Buffer.concat(await Array.fromAsync(request));
      const [status, answer] = isFromTheService(request, body, key) ? this.#call(request, body) : [401, "bad signature"];
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
  }

  /** Acts once per call: a call that is sent again gets the earlier answer. Reads come without an id. */
  #call(request: IncomingMessage, body: Buffer): [number, unknown] {
    const tool = String(request.headers["countersign-tool"]);
    const call = request.headers["idempotency-key"];
    try {
      const read = READS[tool];
      if (read) return [200, read(this, JSON.parse(body.toString("utf8")))];
      const change = CHANGES[tool];
      if (!change || typeof call !== "string") return [404, `there is no tool \`${tool}\``];
      if (!this.#answers.has(call)) {
        if (!isInTime(request, this.#key)) return [410, "too late"];
        this.#answers.set(call, change(this, JSON.parse(body.toString("utf8"))));
        this.ran.push({ tool, bytes: body.toString("utf8") });
      }
      return [200, this.#answers.get(call)];
    } catch (error) {
      return [422, (error as Error).message];
    }
  }
}

type Tool = (cms: Cms, input: any) => unknown;

const READS: Record<string, Tool> = {
  cms_listPages: (cms, { status }) => cms.pages.filter((page) => !status || page.status === status),
  cms_getPage: (cms, { page }) => found(cms.pages, (one) => one.slug === page || one.id === page),
  cms_getPost: (cms, { postSlug }) => found(cms.posts, (post) => post.slug === postSlug),
};

const CHANGES: Record<string, Tool> = {
  cms_deletePage: (cms, { slug, id }) => {
    const page = found(cms.pages, (one) => one.slug === slug || one.id === id);
    cms.pages = cms.pages.filter((one) => one !== page);
    return { success: true, message: `Page "${page.name}" and all its sections have been deleted.` };
  },
  cms_deletePageSection: (cms, { slug, section }) => deleteSections(cms, slug, [section]),
  cms_deletePageSections: (cms, { slug, sections }) => deleteSections(cms, slug, sections),
  cms_publishPost: (cms, { postSlug }) => setStatus(cms, postSlug, "published"),
  cms_archivePost: (cms, { postSlug }) => setStatus(cms, postSlug, "archived"),
  cms_deletePost: (cms, { postSlug }) => {
    const post = found(cms.posts, (one) => one.slug === postSlug);
    cms.posts = cms.posts.filter((one) => one !== post);
    return { success: true, message: `Deleted "${post.title}"` };
  },
  cms_deleteImage: (cms, { filename }) => {
    found(cms.images, (image) => image === filename);
    cms.images = cms.images.filter((image) => image !== filename);
    return { success: true, message: `Deleted "${filename}"` };
  },
  // The example does not reach other servers; what would have been sent is in `ran`.
  http_post: () => ({ success: true, status: 202 }),
};

function deleteSections(cms: Cms, slug: string, sections: string[]): unknown {
  const page = found(cms.pages, (one) => one.slug === slug);
  for (const section of sections) found(page.sections, (one) => one === section);
  page.sections = page.sections.filter((one) => !sections.includes(one));
  return { success: true, message: `Deleted ${sections.length} sections of "${page.name}"` };
}

function setStatus(cms: Cms, slug: string, status: Post["status"]): unknown {
  const post = found(cms.posts, (one) => one.slug === slug);
  post.status = status;
  return { success: true, message: `"${post.title}" is ${status}`, post };
}

function found<Item>(items: Item[], is: (item: Item) => boolean): Item {
  const item = items.find(is);
  if (item === undefined) throw new Error("not found");
  return item;
}

function isFromTheService({ headers }: IncomingMessage, body: Buffer, key: string): boolean {
  const at = String(headers["countersign-timestamp"]);
  if (!(Math.abs(Date.now() / 1000 - Number(at)) < oldestSeconds)) return false;
  const signed = Buffer.concat([Buffer.from(`${at}.${headers["idempotency-key"] ?? ""}.`), body]);
  return isSignature(headers["countersign-signature"], signed, key);
}

/** Returns false after the call's deadline: the service has given the call up by then. */
function isInTime({ headers }: IncomingMessage, key: string): boolean {
  const deadline = String(headers["countersign-deadline"]);
  const signed = Buffer.from(`${headers["countersign-started"]}.${deadline}.${headers["idempotency-key"]}`);
  return isSignature(headers["countersign-deadline-signature"], signed, key) && Date.now() < Date.parse(deadline);
}

function isSignature(given: string | string[] | undefined, signed: Buffer, key: string): boolean {
  const expected = Buffer.from(`v1=${createHmac("sha256", key).update(signed).digest("hex")}`);
  const bytes = Buffer.from(String(given));
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}
