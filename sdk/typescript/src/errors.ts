// Errors of this package. Every one of them means that the call did not run, except `Unknown` and `Failed`.
//
// Absent on purpose: tokens and permits never occur in a message.

export interface ErrorDetails {
  /** What to do now. */
  hint?: string;
  /** Error code of the server, or of this package. */
  code?: string;
  /** Id of the approval, if there is one. */
  approval?: string | undefined;
  /** Id of the call, if there is one. */
  call?: string | undefined;
  cause?: unknown;
}

/** Base class of all errors of this package. */
export class CountersignError extends Error {
  readonly hint: string;
  readonly code: string;
  readonly approval: string | undefined;
  readonly call: string | undefined;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.hint = details.hint ?? "";
    this.code = details.code ?? "error";
    this.approval = details.approval;
    this.call = details.call;
  }
}

/** A person denied the call. */
export class Denied extends CountersignError {
  /** What the person said about it. */
  readonly comment: string | undefined;
  readonly decidedBy: string | undefined;

  constructor(message: string, details: ErrorDetails & { comment?: string | undefined; decidedBy?: string | undefined } = {}) {
    super(message, { code: "denied", ...details });
    this.comment = details.comment;
    this.decidedBy = details.decidedBy;
  }
}

/** Nobody decided before the approval expired, or the call was approved and not started in time. */
export class Expired extends CountersignError {}

/** The policy forbids the call, or its arguments do not fit the tool's schema. */
export class Forbidden extends CountersignError {}

/** The approval was withdrawn, replaced by a newer one, or voided. */
export class Withdrawn extends CountersignError {}

/** The caller's own time limit passed before a decision. */
export class TimedOut extends CountersignError {}

/** The call was started, and it is not known whether it took effect. It is never run again. */
export class Unknown extends CountersignError {
  /** What the tool returned, if it returned and only the record of it is missing. */
  readonly result: unknown;

  constructor(message: string, details: ErrorDetails & { result?: unknown } = {}) {
    super(message, { code: "unknown", hint: "do not repeat the call; a person has to find out whether it took effect", ...details });
    this.result = details.result;
  }
}

/** The call ran earlier and failed. It is not run again. */
export class Failed extends CountersignError {}

/** The call's arguments are not a JSON object. */
export class BadArguments extends CountersignError {}

/** The server cannot be reached. */
export class Unreachable extends CountersignError {}

/** What answers at the address is not a Countersign server. */
export class WrongServer extends CountersignError {}

/** The server does not accept the token, or the token has not the scope that the request needs. */
export class WrongToken extends CountersignError {}

/** The server is older than this package. */
export class OldServer extends CountersignError {}

/** The server's answer does not have the expected form. */
export class UnexpectedAnswer extends CountersignError {}

/** The server refused the request for another reason; see `code` and `hint`. */
export class Refused extends CountersignError {
  readonly status: number;
  /** Further fields of the error, such as `decidedBy` or `state`. */
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(message: string, details: ErrorDetails & { status: number; fields: Record<string, unknown> }) {
    super(message, details);
    this.status = details.status;
    this.fields = details.fields;
  }
}
