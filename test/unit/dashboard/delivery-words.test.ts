import { describe, expect, it } from "vitest";
import {
  canRetry,
  isFiltered,
  listRequest,
  noFilter,
  queryOf,
  reasonOf,
  deliveryStatuses as shownStatuses,
  statusOf,
} from "../../../src/dashboard/pages/deliveries/delivery.js";
import { endpointHealth, eventTypeNames, outcomeOf } from "../../../src/dashboard/pages/webhooks/events.js";
import { eventTypes } from "../../../src/domain/events/events.js";
import { type AttemptError, type DeliveryFailure, deliveryStates } from "../../../src/domain/webhooks/delivery.js";
import { isFailing } from "../../../src/domain/webhooks/endpoint-book.js";

const failures = {
  retries_used_up: true,
  manual_retry_failed: true,
  endpoint_disabled: true,
  endpoint_deleted: true,
  overflow: true,
} satisfies Record<DeliveryFailure, true>;

const errors = {
  dns: true,
  connect: true,
  tls: true,
  timeout: true,
  reset: true,
  blocked_address: true,
  bad_response: true,
  secret_unreadable: true,
} satisfies Record<AttemptError, true>;

describe("texts of deliveries", () => {
  it("every delivery state has a status text, and no other state has one (WH-29)", () => {
    expect(Object.keys(shownStatuses)).toEqual([...deliveryStates]);
    expect(statusOf({ state: "awaiting_retry" })).toEqual({ title: "Awaiting retry", tone: "busy", isOpen: true });
  });

  it("every failure reason and every attempt error has a text", () => {
    for (const reason of Object.keys(failures)) expect(reasonOf({ reason })).not.toBe(reason.replaceAll("_", " "));
    for (const error of Object.keys(errors)) expect(outcomeOf({ error })).not.toBe(error.replaceAll("_", " "));
    expect(outcomeOf({ status: 503 })).toBe("HTTP 503");
  });

  it("unknown values of a newer service are shown by name", () => {
    expect(statusOf({ state: "on_hold" })).toEqual({ title: "on hold", tone: "plain", isOpen: false });
    expect(reasonOf({ reason: "too_old" })).toBe("too old");
  });

  it("the listed event types equal those of the service", () => {
    expect(eventTypeNames).toEqual([...eventTypes]);
  });
});

describe("a manual retry", () => {
  it.each([
    ["retries_used_up", true],
    ["endpoint_disabled", true],
    ["endpoint_deleted", false],
  ])("of a delivery that failed with %s is offered: %s", (reason, isOffered) => {
    expect(canRetry({ state: "permanently_failed", reason })).toBe(isOffered);
  });
});

describe("the health of an endpoint", () => {
  it.each([9, 10])(
    "after %i consecutive failures the status text agrees with the service's rule (WH-38)",
    (failuresInRow) => {
      const health = {
        lastSuccessAtMs: null,
        lastFailureAtMs: 1,
        failingSinceMs: 1,
        permanentlyFailed: 0,
        failuresInRow,
      };
      const shown = endpointHealth({ status: "enabled", failuresInRow: String(failuresInRow) });
      expect(shown.status === "Failing").toBe(isFailing(health));
    },
  );

  it("distinguishes a manually disabled endpoint from an automatically disabled one", () => {
    expect(endpointHealth({ status: "disabled", disabledReason: "by_hand" })).toMatchObject({ reason: "manually" });
    expect(endpointHealth({ status: "disabled", disabledReason: "failing" })).toMatchObject({ tone: "bad" });
  });
});

describe("the filter of deliveries", () => {
  it("the page's URL determines the filter of the query (WH-45)", () => {
    const address = new URLSearchParams("state=delivered&endpoint=we_1&from=2026-11-21T00:00:00.000Z&id=dlv_1");
    const query = queryOf(address);
    expect(isFiltered(query)).toBe(true);
    expect(listRequest(query, "next", 50)).toEqual({
      pageSize: 50,
      pageToken: "next",
      state: "delivered",
      account: "",
      endpointId: "we_1",
      eventType: "",
      replayId: "",
      createdFrom: "2026-11-21T00:00:00.000Z",
    });
  });

  it("is inactive when empty", () => {
    expect(isFiltered(noFilter)).toBe(false);
  });
});
