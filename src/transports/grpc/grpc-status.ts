import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import { type StatusParts, toConnectError } from "../../lib/connect-error.js";

const detailsTrailer = "grpc-status-details-bin";

/** A status as grpc-js sends it: metadata and the packed details are its trailers. */
export function grpcStatusObject(status: StatusParts): StatusObject {
  const trailers = setTrailerStatus(new Headers(), toConnectError(status));
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(status.metadata)) metadata.set(name, value);
  const details = trailers.get(detailsTrailer);
  if (details !== null) metadata.set(detailsTrailer, Buffer.from(details, "base64"));
  return { code: status.code, details: status.message, metadata };
}
