// What a model is told about a call that did not run, or that a person changed.

import { type CountersignError, Denied, Expired, Failed, Forbidden, Unknown, Withdrawn } from "./errors.ts";
import type { Approval, Call, Edit } from "./types.ts";

/** A call that did not run, as a value that can be passed on to a model. */
export interface Refusal {
  refused: true;
  /** Why: the `end` of the call, such as `denied` or `expired`, or `timed_out`. */
  status: string;
  message: string;
  comment?: string;
}

/** Returns the error of a call that has ended otherwise than in success. */
export function errorOf(call: Call, approval: Approval): CountersignError {
  const ids = { approval: approval.id, call: call.id };
  const again = "propose it again if it is still wanted";
  if (call.state === "failed") {
    return new Failed(`\`${call.tool}\` ran earlier and failed`, { ...ids, code: call.end ?? "failed", hint: "it is not run again; propose it as a new call" });
  }
  if (call.state !== "refused") return new Unknown(`it is not known whether \`${call.tool}\` took effect`, ids);
  switch (call.end) {
    case "denied": {
      const [comment, decidedBy] = [approval.comment ?? undefined, approval.decidedBy ?? undefined];
      const said = comment ? `: ${comment}` : "";
      const hint = "do not propose the same call again unless a person asks for it";
      return new Denied(`a person denied \`${call.tool}\`${said}`, { ...ids, comment, decidedBy, hint });
    }
    case "expired":
      return new Expired(`nobody decided about \`${call.tool}\` in time`, { ...ids, code: call.end, hint: again });
    case "stale":
      return new Expired(`\`${call.tool}\` was approved, but not started in time`, { ...ids, code: call.end, hint: again });
    case "forbidden":
      return new Forbidden(`the policy forbids \`${call.tool}\``, { ...ids, code: call.end, hint: "do something else" });
    default:
      return new Withdrawn(`\`${call.tool}\` will not run: ${(call.end ?? "refused").replaceAll("_", " ")}`, { ...ids, code: call.end ?? "refused", hint: again });
  }
}

/** Returns what a model is told about a call that did not run. */
export function refusalOf(error: CountersignError): Refusal {
  const comment = error instanceof Denied && error.comment !== undefined ? { comment: error.comment } : {};
  return { refused: true, status: error.code, message: tellModel(error), ...comment };
}

/** Returns what a model is told about an error. */
export function tellModel(error: CountersignError): string {
  if (error instanceof Unknown) return `${sentence(error.message)} Do not repeat it. A person has to find out.`;
  if (error instanceof Failed) return `${sentence(error.message)} It was not run again.`;
  return `${sentence(error.message)} It was not run. ${sentence(error.hint)}`.trim();
}

/** Returns the notice for the model that a person changed a call before it ran; `undefined` if nobody did. */
export function editNotice(edits: readonly Edit[]): string | undefined {
  if (edits.length === 0) return undefined;
  const changes = edits.map(({ pointer, was, is }) => `${pointer || "all arguments"}: ${was ?? "(absent)"} → ${is ?? "(removed)"}`);
  return `A person changed this call before approving it, and it ran as changed: ${changes.join("; ")}`;
}

function sentence(text: string): string {
  if (text === "") return "";
  const first = text.startsWith("`") ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
