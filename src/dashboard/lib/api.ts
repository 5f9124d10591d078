/** Client of the service's public API: the Connect protocol with JSON. Message types are generated and erased at build time. */

import { prefix } from "./location.js";
import type { Methods, Streams } from "./methods.js";

/** An error answer of the service, or a failed connection. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** Connect code: `unauthenticated`, `not_found`, … */
  readonly code: string;
  /** The service's own error code: `invalid_api_key`, `not_found`, …; empty if a proxy answered. */
  readonly reason: string;
  /** The invalid request field; empty if none. */
  readonly param: string;
  constructor(message: string, code: string, reason = "", param = "") {
    super(message);
    this.code = code;
    this.reason = reason;
    this.param = param;
  }
}

/** Whether the credentials are missing or wrong. */
export function isUnauthenticated(error: unknown): boolean {
  return error instanceof ApiError && error.code === "unauthenticated";
}

const signedOut = new Set<() => void>();

/** RPCs whose `unauthenticated` reports a wrong password or link, not an expired session. */
const secretChecks: ReadonlySet<string> = new Set([
  "unified.admin.v1.SessionService/ChangePassword",
  "unified.admin.v1.SessionService/CompleteSetup",
  "unified.admin.v1.SessionService/SignIn",
] satisfies (keyof Methods)[]);

/** Calls the listener when the session has ended. Returns a function that unsubscribes. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

/** Calls a unary RPC. Rejects with ApiError, or with the signal's reason. */
export async function call<M extends keyof Methods>(
  method: M,
  request: Methods[M][0],
  signal?: AbortSignal,
): Promise<Methods[M][1]> {
  const response = await post(method, "application/json", JSON.stringify(request), signal);
  const body: unknown = await response.json().catch(() => null);
  if (response.ok) return body as Methods[M][1];
  throw checked(method, errorOf(body, response.status));
}

/** Calls a server-streaming RPC. Rejects as `call` does; leaving the loop cancels the call. */
export async function* stream<M extends keyof Streams>(
  method: M,
  request: Streams[M][0],
  signal?: AbortSignal,
): AsyncGenerator<Streams[M][1]> {
  const response = await post(method, "application/connect+json", enveloped(JSON.stringify(request)), signal);
  if (!response.ok || response.body === null) {
    throw checked(method, errorOf(await response.json().catch(() => null), response.status));
  }
  const reader = response.body.getReader();
  let pending = new Uint8Array();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new ApiError("The connection closed unexpectedly.", "unavailable");
      pending = joined(pending, value);
      for (let message = firstOf(pending); message !== null; message = firstOf(pending)) {
        pending = pending.slice(message.size);
        const json: unknown = JSON.parse(message.text);
        if (message.isEnd) {
          const error = (json as { error?: unknown }).error;
          if (error !== undefined) throw checked(method, errorOf(error, 200));
          return;
        }
        yield json as Streams[M][1];
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function post(method: string, type: string, body: BodyInit, signal?: AbortSignal): Promise<Response> {
  try {
    return await fetch(`${prefix}/${method}`, {
      method: "POST",
      credentials: "same-origin",
      headers: { "content-type": type, "connect-protocol-version": "1" },
      body,
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError("Cannot reach the service. Is it running?", "unavailable");
  }
}

/** The error, after the listeners were notified if it means that the session has ended. */
function checked(method: string, error: ApiError): ApiError {
  if (isUnauthenticated(error) && !secretChecks.has(method)) for (const listener of signedOut) listener();
  return error;
}

interface ConnectError {
  readonly code?: string;
  readonly message?: string;
  readonly details?: readonly {
    readonly type?: string;
    readonly debug?: { readonly reason?: string; readonly metadata?: Readonly<Record<string, string>> };
  }[];
}

function errorOf(body: unknown, status: number): ApiError {
  const { code, message, details = [] } = (body ?? {}) as ConnectError;
  if (code === undefined) return new ApiError(`The service answered with HTTP ${status}.`, "unknown");
  const info = details.find(({ type }) => type === "google.rpc.ErrorInfo")?.debug;
  return new ApiError(message ?? code, code, info?.reason, info?.metadata?.["param"]);
}

/** Connect's envelope: one byte of flags, four bytes of length, the message. */
const endFlag = 2;
const headBytes = 5;

function enveloped(text: string): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(text);
  const message = new Uint8Array(headBytes + body.length);
  new DataView(message.buffer).setUint32(1, body.length);
  message.set(body, headBytes);
  return message;
}

function firstOf(bytes: Uint8Array): { readonly text: string; readonly isEnd: boolean; readonly size: number } | null {
  if (bytes.length < headBytes) return null;
  const size = headBytes + new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
  if (bytes.length < size) return null;
  const text = new TextDecoder().decode(bytes.subarray(headBytes, size));
  return { text, isEnd: ((bytes[0] ?? 0) & endFlag) !== 0, size };
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
