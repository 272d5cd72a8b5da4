// The code of the pages in docs/quickstart, as programs. Run as a program, it writes them, to be type-checked.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));
/** Folder of the programs; the packages of the tests can be imported there. */
const folder = join(root, "quickstart");

export interface Snippet {
  name: string;
  /** The commands of the page, one per line: service, address, token. */
  commands: string[];
  code: string;
}

export function snippets(): Snippet[] {
  const pages = readdirSync(join(root, "docs/quickstart")).filter((name) => /^typescript.*\.md$/.test(name));
  return pages.map((page) => {
    const text = readFileSync(join(root, "docs/quickstart", page), "utf8");
    const blocks = (language: string) => [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map((block) => block[1] ?? "");
    return { name: page.replace(/\.md$/, ""), commands: blocks("sh")[1]?.trim().split("\n") ?? [], code: blocks("ts")[0] ?? "" };
  });
}

/** Writes a program, and returns its path. */
export function writeProgram(name: string, code: string): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  writeFileSync(path, code);
  return path;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) for (const { name, code } of snippets()) writeProgram(`${name}.mts`, code);
