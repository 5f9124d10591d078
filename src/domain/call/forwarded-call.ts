import type { Operation } from "../../contract/operations.js";
import type { Caller } from "./call-context.js";

/**
 * Data of a call that a gateway process sends to a core process in addition to the credential. A core accepts it only from a
 * trusted gateway.
 */
export interface ForwardedCall {
  /** The gateway's id of the request, which the client has seen. */
  readonly requestId: string;
  /** The operation that the client called: a core serves responses and messages as chat completions. */
  readonly operation: Operation;
  /** The protocol that the client speaks. */
  readonly transport: Caller["transport"];
  /** The client's address without port. */
  readonly address: string;
  /** Token of the client's dashboard session; null: it sent an `authorization` header. */
  readonly sessionToken: string | null;
}

/** Maximum age of forwarded fields, including the difference between the clocks of gateway and core. */
const acceptedForMs = 5 * 60_000;

const requestIdForm = /^req_[0-9a-f]{32}$/;
const addressForm = /^[0-9A-Za-z.:%]{0,64}$/;
/** A record, so that the compiler requires each protocol of a client. */
const transportNames: Readonly<Record<Caller["transport"], true>> = {
  openai: true,
  anthropic: true,
  connect: true,
  grpc_web: true,
  grpc: true,
};
const transports: ReadonlySet<unknown> = new Set(Object.keys(transportNames));

/** Encodes the fields and the time of sending as text. */
export function forwardedText(call: ForwardedCall, nowMs: number): string {
  const { requestId, operation, transport, address, sessionToken } = call;
  return JSON.stringify([nowMs, requestId, operation, transport, address, sessionToken]);
}

/**
 * Decodes the text sent with an RPC of `operation`. Null if its time is too far in the past or future, or if the text is not
 * one of `forwardedText`.
 */
export function readForwarded(text: string, operation: Operation, nowMs: number): ForwardedCall | null {
  const fields = parsed(text);
  if (!Array.isArray(fields)) return null;
  const [atMs, requestId, forwarded, transport, address, sessionToken] = fields as unknown[];
  if (typeof atMs !== "number" || Math.abs(nowMs - atMs) > acceptedForMs) return null;
  if (typeof requestId !== "string" || !requestIdForm.test(requestId)) return null;
  if (typeof address !== "string" || !addressForm.test(address) || !transports.has(transport)) return null;
  if (sessionToken !== null && typeof sessionToken !== "string") return null;
  if (!isServedBy(operation, forwarded)) return null;
  return { requestId, operation: forwarded, transport: transport as Caller["transport"], address, sessionToken };
}

/**
 * Whether the RPC of `operation` serves the forwarded operation: the RPC of chat completions also serves responses and
 * messages.
 */
function isServedBy(operation: Operation, forwarded: unknown): forwarded is Operation {
  if (forwarded === operation) return true;
  return operation === "create_chat_completion" && isTranslated(forwarded as Operation);
}

/** Whether an operation of another API is translated to a chat. */
export function isTranslated(operation: Operation): boolean {
  return operation === "create_response" || operation === "create_message";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
