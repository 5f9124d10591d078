import { ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import { headers } from "../../contract/headers.js";
import type { StatusParts } from "../../domain/rpc/rpc-status.js";

/** Retry pushback for gRPC libraries (gRFC A6): milliseconds to wait; negative: do not retry. */
const pushbackTrailer = "grpc-retry-pushback-ms";
const detailsTrailer = "grpc-status-details-bin";

/** A status for grpc-js: its metadata and packed details become trailers. */
export function grpcStatusObject(status: StatusParts): StatusObject {
  const error = new ConnectError(status.message, status.code, status.metadata, status.details);
  const trailers = setTrailerStatus(new Headers(), error);
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(status.metadata)) metadata.set(name, value);
  const pushback = pushbackOf(status.metadata);
  if (pushback !== null) metadata.set(pushbackTrailer, pushback);
  const details = trailers.get(detailsTrailer);
  if (details !== null) metadata.set(detailsTrailer, Buffer.from(details, "base64"));
  return { code: status.code, details: status.message, metadata };
}

/** The retry advice as pushback; null: none. Where SDKs are advised not to retry, so are gRPC libraries. */
function pushbackOf(metadata: StatusParts["metadata"]): string | null {
  return metadata[headers.shouldRetry] === "false" ? "-1" : (metadata[headers.retryAfterMs] ?? null);
}
