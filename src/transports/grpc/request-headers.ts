import type { Http2Server, IncomingHttpHeaders } from "node:http2";
import type { Server } from "@grpc/grpc-js";
import { fixedLimits } from "../../contract/limits.js";

const timeoutHeader = "grpc-timeout";
const timeoutForm = /^(\d{1,8})([HMSmun])$/;
const unitMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Lets `edit` change the headers of every request before grpc-js reads them. The HTTP/2 servers are a private field of
 * grpc-js, read here and nowhere else; the test of long timeouts fails when it is gone.
 */
export function beforeHeaders(server: Server, edit: (headers: IncomingHttpHeaders) => void): void {
  const { http2Servers } = server as unknown as { http2Servers: ReadonlyMap<Http2Server, unknown> };
  for (const http2Server of http2Servers.keys()) {
    http2Server.prependListener("stream", (_stream, headers) => edit(headers));
  }
}

/** Shortens a timeout that no timer can hold: grpc-js would let it overflow and end the call at once. */
export function clampTimeout(headers: IncomingHttpHeaders): void {
  const [, amount, unit] = timeoutForm.exec(String(headers[timeoutHeader])) ?? [];
  if (amount === undefined || unit === undefined) return;
  const timeoutMs = Number(amount) * (unitMs[unit] ?? 1);
  if (timeoutMs > fixedLimits.int32Max) headers[timeoutHeader] = `${Math.floor(fixedLimits.int32Max / 1_000)}S`;
}
