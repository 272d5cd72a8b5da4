// What a model is told about a call that did not run, or that a person changed.

import { type CountersignError, Denied, Expired, Failed, Forbidden, TimedOut, Unknown, Withdrawn } from "./errors.ts";
import type { Approval, Call, CallEnd, Edit } from "./types.ts";

/** A call that did not run, as a value that can be passed on to a model. */
export interface Refusal {
  refused: true;
  status: CallEnd | "timed_out";
  message: string;
  comment?: string;
}

/** Returns the error of a call that has ended otherwise than in success. */
export function errorOf(call: Call, approval: Approval): CountersignError {
  const ids = { approval: approval.id, call: call.id };
  const end = call.end ?? endOf(call, approval);
  switch (end) {
    case "denied": {
      const [comment, decidedBy] = [approval.comment ?? undefined, approval.decidedBy ?? undefined];
      const said = comment ? `: ${comment}` : "";
      const hint = "do not propose the same call again unless a person asks for it";
      return new Denied(`a person denied \`${call.tool}\`${said}`, { ...ids, comment, decidedBy, hint });
    }
    case "expired":
      return new Expired(`\`${call.tool}\` expired before it was decided and started`, { ...ids, code: end, hint: "propose it again if it is still wanted" });
    case "forbidden":
      return new Forbidden(`the policy forbids \`${call.tool}\``, { ...ids, code: end, hint: "propose something else" });
    case "superseded":
    case "withdrawn":
    case "voided":
      return new Withdrawn(`\`${call.tool}\` was ${end} and will not run`, { ...ids, code: end, hint: "propose it again if it is still wanted" });
    case "failed":
    case "not_sent":
      return new Failed(`\`${call.tool}\` ran earlier and failed`, { ...ids, code: end, hint: "it is not run again; propose it as a new call" });
    default:
      return new Unknown(`it is not known whether \`${call.tool}\` took effect`, ids);
  }
}

/** Returns why a call has not succeeded, for a server that does not say it in `end`. */
function endOf(call: Call, approval: Approval): CallEnd {
  if (call.state === "failed") return "failed";
  if (call.state !== "refused") return "unknown";
  switch (approval.status) {
    case "expired":
    case "superseded":
    case "withdrawn":
    case "denied":
      return approval.status;
    default:
      return "voided";
  }
}

/** Returns what a model is told about a call that did not run. */
export function refusalOf(error: CountersignError): Refusal {
  const message = `${tellModel(error)}`;
  if (error instanceof Denied) return { refused: true, status: "denied", message, ...(error.comment === undefined ? {} : { comment: error.comment }) };
  if (error instanceof TimedOut) return { refused: true, status: "timed_out", message };
  return { refused: true, status: error.code as CallEnd, message };
}

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
