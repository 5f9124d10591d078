import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";

/** Whether somebody may have it sent by hand now. A disabled endpoint can be enabled, a deleted one never comes back. */
export function canRetry({ state, reason, purged = false }: DeliveryJson): boolean {
  return !purged && reason !== "endpoint_deleted" && state !== "delivery_attempted" && state !== "pending";
}
