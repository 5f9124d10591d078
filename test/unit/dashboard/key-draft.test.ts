import { describe, expect, it } from "vitest";
import { toInstant, toLocal } from "../../../src/dashboard/lib/format.js";
import {
  createRequest,
  draftOf,
  emptyDraft,
  keyStatus,
  updateRequest,
} from "../../../src/dashboard/pages/keys/api-key.js";

const apiKey = {
  id: "key_1",
  name: "checkout",
  account: "shop",
  scope: "SCOPE_READ_WRITE",
  models: ["a", "b-*"],
  limits: { requestsPerMinute: "600", concurrency: 2 },
  expiresAt: "2027-01-01T00:00:30Z",
} as const;
const before = draftOf({ ...apiKey, models: [...apiKey.models] });

describe("the form of a key", () => {
  it("sends no empty field", () => {
    expect(createRequest({ ...emptyDraft(""), name: " checkout " })).toEqual({
      name: "checkout",
      scope: "SCOPE_READ_WRITE",
      account: "",
      models: [],
      limits: {},
      priority: "PRIORITY_DEFAULT",
    });
  });

  it("accepts models separated by spaces, commas and line breaks", () => {
    expect(createRequest({ ...emptyDraft(""), models: "a, b-*\n c\n" }).models).toEqual(["a", "b-*", "c"]);
  });

  it("sends nothing if nothing was edited, so that an expiry keeps its seconds", () => {
    expect(updateRequest("key_1", before, before)).toEqual({ id: "key_1" });
  });

  it("sends all limits when one changed, so that an emptied limit is removed", () => {
    expect(updateRequest("key_1", before, { ...before, requestsPerMinute: "" })).toEqual({
      id: "key_1",
      limits: { concurrency: 2 },
    });
  });

  it("sends a priority that was changed", () => {
    expect(updateRequest("key_1", before, { ...before, priority: "PRIORITY_BATCH" })).toEqual({
      id: "key_1",
      priority: "PRIORITY_BATCH",
    });
  });

  it("sends neverExpires when the expiry was emptied", () => {
    expect(updateRequest("key_1", before, { ...before, expiresAt: "" })).toEqual({ id: "key_1", neverExpires: true });
  });
});

describe("the status of a key", () => {
  const nowMs = Date.parse("2026-11-21T12:00:00Z");

  it.each([
    [{}, "active"],
    [{ expiresAt: "2026-11-21T12:00:01Z" }, "active"],
    [{ expiresAt: "2026-11-21T12:00:00Z" }, "expired"],
    [{ expiresAt: "2026-11-21T13:00:00Z", revokedAt: "2026-11-21T11:00:00Z" }, "revoked"],
  ] as const)("%j is %s", (key, status) => {
    expect(keyStatus(key, nowMs)).toBe(status);
  });
});

describe("datetime-local inputs", () => {
  it("keep a timestamp to the minute when it is converted both ways", () => {
    const local = toLocal("2026-11-21T12:34:56Z");
    expect(local).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d$/);
    expect(toInstant(local)).toBe("2026-11-21T12:34:00.000Z");
  });

  it.each(["", "soon"])("%j has no timestamp", (text) => {
    expect(toInstant(text)).toBeNull();
    expect(toLocal(text)).toBe("");
  });
});
