export * from "./errors.ts";
export {
  type Cancel,
  type EventsQuery,
  Gate,
  type GateOptions,
  type Held,
  type HeldCallOptions,
  type HoldOptions,
  isRefusal,
  type ListQuery,
  type TurnContext,
  turnKey,
  type WaitOptions,
} from "./gate.ts";
export { JsonText } from "./json.ts";
export { type Refusal, refusalOf } from "./tell.ts";
export { type ApprovedCall, approvedCall, type DecidedOptions, type Ran, type RunOptions, type Tool, Turn } from "./turn.ts";
export type * from "./types.ts";
/** The complete API, as docs/openapi.json describes it. */
export type { components, paths } from "./types.gen.ts";
