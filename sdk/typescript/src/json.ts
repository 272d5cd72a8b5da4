// JSON text of arguments and results.
//
// Input: values of the program. Output: text that says the same, or an error; never text that says something else.

import { BadArguments } from "./errors.ts";

/** Arguments that are already JSON text, which is sent byte for byte. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Returns the JSON text of a call's arguments, which must be a JSON object. */
export function argumentsText(tool: string, value: unknown): string {
  const text = value instanceof JsonText ? value.text : encode(tool, value);
  parseArguments(tool, text);
  return text;
}

/** Parses a call's arguments, which must be a JSON object. */
export function parseArguments(tool: string, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw notAnObject(tool, "they are not JSON", cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw notAnObject(tool, "they are not an object");
  return value as Record<string, unknown>;
}

function encode(tool: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value, (name, member) => plain(tool, name, member));
  } catch (cause) {
    if (cause instanceof BadArguments) throw cause;
    throw notAnObject(tool, cause instanceof Error ? cause.message : "they cannot be written as JSON", cause);
  }
  if (text === undefined) throw notAnObject(tool, "they are not an object");
  return text;
}

/** Refuses what `JSON.stringify` would silently turn into something else. */
function plain(tool: string, name: string, value: unknown): unknown {
  const at = name === "" ? "they are" : `\`${name}\` is`;
  if (typeof value === "number" && !Number.isFinite(value)) throw notAnObject(tool, `${at} ${value}`);
  if (typeof value === "function" || typeof value === "symbol") throw notAnObject(tool, `${at} a ${typeof value}`);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const prototype: unknown = Object.getPrototypeOf(value);
    // A plain object of another realm has a prototype without a prototype.
    if (prototype !== null && Object.getPrototypeOf(prototype) !== null) throw notAnObject(tool, `${at} not a plain object`);
  }
  return value;
}

function notAnObject(tool: string, why: string, cause?: unknown): BadArguments {
  return new BadArguments(`the arguments of \`${tool}\` are not a JSON object: ${why}`, {
    code: "bad_arguments",
    hint: "pass a plain object of strings, finite numbers, booleans, null, lists and plain objects",
    cause,
  });
}

/** Largest result that is sent whole, in bytes of its JSON text. The server keeps at most 256 KiB. */
export const LARGEST_RESULT = 255 * 1024;
const HEAD = 4096;

/** Returns a result in the form in which it is recorded. A result must never keep a call from ending. */
export async function recordable(result: unknown): Promise<{ result: unknown } | { resultText: string }> {
  let text: string;
  try {
    text = JSON.stringify(result) ?? "null";
  } catch {
    return { resultText: `a result that cannot be written as JSON: ${Object.prototype.toString.call(result)}` };
  }
  // A UTF-16 code unit takes at most three bytes, so most results need not be encoded to be measured.
  if (text.length * 3 <= LARGEST_RESULT) return { result };
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= LARGEST_RESULT) return { result };
  const head = new TextDecoder().decode(bytes.subarray(0, HEAD));
  return { result: { truncated: true, bytes: bytes.length, sha256: await sha256(bytes), head } };
}

/** Returns the SHA-256 of a text or of bytes, in hexadecimal. */
export async function sha256(content: string | Uint8Array<ArrayBuffer>): Promise<string> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
