import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";

/** A status of gRPC or Connect as plain data. */
export interface StatusParts {
  /** gRPC status code, not 0. */
  readonly code: number;
  readonly message: string;
  /** Detail messages, packed as google.protobuf.Any. */
  readonly details: readonly StatusDetail[];
  /** Sent with the status, as headers or trailers. */
  readonly metadata: Readonly<Record<string, string>>;
}

export interface StatusDetail<D extends DescMessage = DescMessage> {
  readonly desc: D;
  readonly value: MessageInitShape<D>;
}

/** The error object that Connect's protocol code renders: as JSON, as an end-of-stream message or as trailers. */
export function toConnectError({ code, message, details, metadata }: StatusParts): ConnectError {
  return new ConnectError(message, code, { ...metadata }, [...details]);
}
