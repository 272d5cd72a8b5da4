// Checked by the compiler only: the types that the client is written with agree with those of the API description.
import type { Approval, Call, Decision, Outcome, Permit, ProposedTurn, Ruling, Submitted } from "../src/index.ts";
import type { components } from "../src/types.gen.ts";

type Schemas = components["schemas"];
/** Fails to compile unless `Given` can be used as `Wanted`. */
type Fits<Wanted, Given extends Wanted> = Given;
/** The fields of `Wanted` as the description has them. */
type Part<Given, Wanted> = Pick<Given, Extract<keyof Given, KnownKeys<Wanted>>>;
type KnownKeys<T> = keyof { [Key in keyof T as string extends Key ? never : Key]: T[Key] };

// What the server sends is what the client expects.
export type Received = [
  Fits<Pick<Approval, Exclude<KnownKeys<Approval>, "calls">>, Omit<Part<Schemas["ApprovalView"], Approval>, "calls">>,
  Fits<Pick<Call, Exclude<KnownKeys<Call>, "arguments">>, Omit<Part<Schemas["CallView"], Call>, "arguments">>,
  Fits<Ruling, Part<Schemas["RulingView"], Ruling>>,
  Fits<Omit<Submitted, "approval" | "calls">, Schemas["SubmittedView"]>,
  Fits<Omit<Permit, "argumentsText">, Schemas["PermitView"]>,
];

// Every field that the client sends is one that the server knows.
export type Sent = [
  Fits<keyof Schemas["Submit"], keyof ProposedTurn>,
  Fits<keyof Schemas["Decide"], keyof Decision>,
  Fits<Schemas["Finish"]["outcome"], Outcome>,
];
