/** The service's words for what became of a delivery, as people say them. */
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";

interface StateWords {
  readonly word: string;
  readonly tone: "good" | "bad" | "busy" | "plain";
  /** Something will still happen to it by itself. */
  readonly isOpen: boolean;
}

export const deliveryStates: Readonly<Record<string, StateWords>> = {
  pending: { word: "pending", tone: "plain", isOpen: true },
  delivery_attempted: { word: "delivery attempted", tone: "busy", isOpen: true },
  awaiting_retry: { word: "awaiting retry", tone: "busy", isOpen: true },
  delivered: { word: "delivered", tone: "good", isOpen: false },
  permanently_failed: { word: "permanently failed", tone: "bad", isOpen: false },
};

/** A state of a newer service is shown as it is called. */
export function stateOf({ state = "" }: DeliveryJson): StateWords {
  return deliveryStates[state] ?? { word: state.replaceAll("_", " "), tone: "plain", isOpen: false };
}

const reasons: Readonly<Record<string, string>> = {
  retries_used_up: "all retries were used",
  manual_retry_failed: "the retry by hand failed",
  endpoint_disabled: "the endpoint was disabled",
  endpoint_deleted: "the endpoint was deleted",
  overflow: "too many deliveries of the account were waiting",
};

/** Why it has failed for good. Empty when it has not. */
export function reasonWords({ reason = "" }: DeliveryJson): string {
  return reasons[reason] ?? reason.replaceAll("_", " ");
}

const errors: Readonly<Record<string, string>> = {
  dns: "the name was not found",
  connect: "no connection",
  tls: "TLS failed",
  timeout: "no answer in time",
  reset: "the connection was reset",
  blocked_address: "the address is not allowed",
  bad_response: "the answer was not HTTP",
  secret_unreadable: "the secret cannot be read; rotate it",
};

/** What an attempt met with: a status, or why there was none. */
export function answerWords({ status = 0, error = "" }: { readonly status?: number; readonly error?: string }): string {
  return error === "" ? `status ${status}` : (errors[error] ?? error.replaceAll("_", " "));
}

/** Who asked for an attempt by hand. Empty for those of the schedule. */
export function askedBy({ by = "" }: { readonly by?: string }): string {
  return by === "admin_token" ? "administrator's token" : by.replace(":", " ");
}
