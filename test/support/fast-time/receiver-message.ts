import type { IncomingHttpHeaders } from "node:http";

/** A request that the receiver in fast time got; its times are those of the receiver's wall clock. */
export interface FastRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly arrivedAtMs: number;
  /** The request was answered no earlier than this. */
  readonly answeredAtMs: number;
}

/** Messages from the receiver to its parent. */
export type ReceiverMessage =
  /** `env`: variables that put another process into fast time. */
  | { readonly ready: { readonly url: string; readonly env: Readonly<Record<string, string>> } }
  | { readonly request: FastRequest }
  | { readonly nowMs: number };
