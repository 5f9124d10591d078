import { describe, expect, it } from "vitest";
import { canRetry } from "../../../src/dashboard/pages/deliveries/can-retry.js";
import { isFiltered, listRequest, noFilter, queryOf } from "../../../src/dashboard/pages/deliveries/delivery-query.js";
import {
  answerWords,
  reasonWords,
  deliveryStates as shownStates,
  stateOf,
} from "../../../src/dashboard/pages/deliveries/delivery-words.js";
import { endpointHealth } from "../../../src/dashboard/pages/webhooks/endpoint-health.js";
import { eventTypeNames } from "../../../src/dashboard/pages/webhooks/event-types.js";
import { eventTypes } from "../../../src/domain/events/event.js";
import { type AttemptError, type DeliveryFailure, deliveryStates } from "../../../src/domain/webhooks/delivery.js";
import { isFailing } from "../../../src/domain/webhooks/failing-endpoints.js";

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

describe("words of the dashboard", () => {
  it("there is one for each state of a delivery and for no other (WH-29)", () => {
    expect(Object.keys(shownStates)).toEqual([...deliveryStates]);
    expect(stateOf({ state: "awaiting_retry" })).toEqual({ word: "awaiting retry", tone: "busy", isOpen: true });
  });

  it("there are some for each reason and each error of an attempt", () => {
    for (const reason of Object.keys(failures)) expect(reasonWords({ reason })).not.toBe(reason.replaceAll("_", " "));
    for (const error of Object.keys(errors)) expect(answerWords({ error })).not.toBe(error.replaceAll("_", " "));
    expect(answerWords({ status: 503 })).toBe("status 503");
  });

  it("what a newer service says is shown as it is", () => {
    expect(stateOf({ state: "on_hold" })).toEqual({ word: "on hold", tone: "plain", isOpen: false });
    expect(reasonWords({ reason: "too_old" })).toBe("too old");
  });

  it("the events are those of the service", () => {
    expect(eventTypeNames).toEqual([...eventTypes]);
  });
});

describe("a retry by hand", () => {
  it.each([
    ["retries_used_up", true],
    ["endpoint_disabled", true],
    ["endpoint_deleted", false],
  ])("of a delivery that failed with %s is offered: %s", (reason, isOffered) => {
    expect(canRetry({ state: "permanently_failed", reason })).toBe(isOffered);
  });
});

describe("the health of an endpoint", () => {
  it.each([9, 10])("after %i failures in a row it is called as the service calls it (WH-38)", (failuresInRow) => {
    const health = {
      lastSuccessAtMs: null,
      lastFailureAtMs: 1,
      failingSinceMs: 1,
      permanentlyFailed: 0,
      failuresInRow,
    };
    const shown = endpointHealth({ status: "enabled", failuresInRow: String(failuresInRow) });
    expect(shown.word === "failing").toBe(isFailing(health));
  });

  it("says who has disabled it", () => {
    expect(endpointHealth({ status: "disabled", disabledReason: "by_hand" })).toMatchObject({ reason: "by hand" });
    expect(endpointHealth({ status: "disabled", disabledReason: "failing" })).toMatchObject({ tone: "bad" });
  });
});

describe("the filter of deliveries", () => {
  it("the address of the page says what is asked of the service (WH-45)", () => {
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

  it("lets all through without one", () => {
    expect(isFiltered(noFilter)).toBe(false);
  });
});
