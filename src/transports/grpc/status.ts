import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import { headers } from "../../contract/headers.js";
import { type StatusParts, toConnectError } from "../../lib/connect-error.js";

/** Read by the retries of gRPC libraries (gRFC A6): milliseconds to wait; negative: do not retry. */
const pushbackTrailer = "grpc-retry-pushback-ms";
const detailsTrailer = "grpc-status-details-bin";

/** A status as grpc-js sends it: metadata and the packed details are its trailers. */
export function grpcStatusObject(status: StatusParts): StatusObject {
  const trailers = setTrailerStatus(new Headers(), toConnectError(status));
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(status.metadata)) metadata.set(name, value);
  const pushback = pushbackOf(status.metadata);
  if (pushback !== null) metadata.set(pushbackTrailer, pushback);
  const details = trailers.get(detailsTrailer);
  if (details !== null) metadata.set(detailsTrailer, Buffer.from(details, "base64"));
  return { code: status.code, details: status.message, metadata };
}

/** The retry advice as a pushback; null: none. A wait that SDKs should not sleep for is advice not to retry. */
function pushbackOf(metadata: StatusParts["metadata"]): string | null {
  return metadata[headers.shouldRetry] === "false" ? "-1" : (metadata[headers.retryAfterMs] ?? null);
}
