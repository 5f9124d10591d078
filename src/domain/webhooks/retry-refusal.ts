import { ServiceError } from "../call/service-error.js";
import type { RetryOutcome } from "./delivery-queue.js";

/** Why a delivery is not sent again, with what can be done about it. */
export function retryRefusal(outcome: Exclude<RetryOutcome, "queued">): ServiceError {
  switch (outcome) {
    case "in_flight":
      return new ServiceError("conflict", "An attempt of this delivery is under way. Look again in a few seconds.");
    case "delivered":
      return new ServiceError(
        "conflict",
        "The delivery has arrived. Set 'resend_delivered' to true to send it once more, with the same event id.",
        { param: "resend_delivered", shouldRetry: false },
      );
    case "purged":
      return new ServiceError(
        "gone",
        "The payload was removed after its time (24 hours after it arrived, 30 days after it failed): " +
          "this delivery cannot be sent any more.",
        { param: "id" },
      );
    case "endpoint_disabled":
      return new ServiceError(
        "conflict",
        "The webhook endpoint is disabled. Set its 'status' to enabled (UpdateWebhookEndpoint), then try again.",
        { shouldRetry: false },
      );
    case "endpoint_deleted":
      return new ServiceError(
        "conflict",
        "The webhook endpoint was deleted, so nothing of it can be sent. A new endpoint gets the events that follow.",
        { shouldRetry: false },
      );
    case "unknown":
      return new ServiceError("not_found", "There is no delivery with this id.", { param: "id" });
  }
}
