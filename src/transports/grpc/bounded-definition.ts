import { type DescService, fromBinary, type Message } from "@bufbuild/protobuf";
import type { ServiceDefinition } from "@grpc/grpc-js";
import type { ServiceLimits } from "../../contract/limits.js";
import { type ServiceError, toServiceError } from "../../domain/call/service-error.js";
import { checkMessageBounds } from "../../domain/rpc/message-bounds.js";
import { grpcDefinition } from "../../lib/grpc-definition.js";

/** Stands for a message that is out of bounds: grpc-js has one status for whatever its decoder throws. */
export class RefusedMessage implements Message {
  readonly $typeName = "refused";
  readonly error: ServiceError;

  constructor(error: ServiceError) {
    this.error = error;
  }
}

/**
 * The grpc-js definition of a service whose requests are checked against the bounds of messages before they are decoded.
 * Unknown fields are dropped: each one that is kept becomes an object.
 */
export function boundedDefinition(service: DescService, limits: ServiceLimits): ServiceDefinition {
  return grpcDefinition(service, (desc, bytes) => {
    try {
      checkMessageBounds(desc, bytes, limits);
    } catch (thrown) {
      return new RefusedMessage(toServiceError(thrown));
    }
    return fromBinary(desc, bytes, { readUnknownFields: false });
  });
}
