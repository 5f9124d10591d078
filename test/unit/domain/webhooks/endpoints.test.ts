import { describe, expect, it } from "vitest";
import { administrator, keyCaller, openEndpoints, wanted } from "./endpoints-fixture.js";

const a = keyCaller("a");
const b = keyCaller("b");
const dayMs = 86_400_000;
const own = (id: string) => ({ id, account: "" });

describe("creating a webhook endpoint", () => {
  it("assigns an id and defaults for absent fields (WH-2)", async () => {
    const { endpoints, clock } = openEndpoints();
    const { endpoint, secret } = await endpoints.create(wanted({ description: "Bücher 📚" }), a);
    expect(endpoint).toEqual({
      id: expect.stringMatching(/^we_[0-9A-Za-z]{24}$/),
      account: "a",
      url: "https://receiver.example/hook?token=hush",
      events: ["request.completed", "request.failed"],
      description: "Bücher 📚",
      status: "enabled",
      disabledReason: null,
      maxInFlight: 8,
      secretHint: secret.slice(-4),
      previousSecretExpiresAtMs: null,
      lastSuccessAtMs: null,
      lastFailureAtMs: null,
      failingSinceMs: null,
      failuresInRow: 0,
      permanentlyFailed: 0,
      createdAtMs: clock.now(),
      updatedAtMs: clock.now(),
    });
    expect(await endpoints.get(own(endpoint.id), a)).toEqual(endpoint);
    expect(await endpoints.list("", a)).toEqual([endpoint]);
  });

  it("creates a secret of 32 random bytes, encrypted for this endpoint only (WH-5, USE-16)", async () => {
    const { endpoints, state, box } = openEndpoints();
    const made = [await endpoints.create(wanted(), a), await endpoints.create(wanted(), a)];
    expect(new Set(made.map(({ secret }) => secret)).size).toBe(2);
    for (const { endpoint, secret } of made) {
      expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
      const kept = await state.endpoints.find("a", endpoint.id);
      expect(JSON.stringify(kept)).not.toContain(secret.slice(6, -4));
      const sealed = kept?.record.secrets[0]?.sealed ?? "";
      expect(box.open(sealed, endpoint.id)).toBe(secret);
      expect(() => box.open(sealed, "we_another")).toThrow();
    }
  });

  it.each([
    ["events", "invalid_value", { events: [] }],
    ["events", "invalid_value", { events: ["request.started"] }],
    ["events", "invalid_value", { events: ["request.completed", ""] }],
    ["events", "invalid_value", { events: ["request.failed", "request.failed"] }],
    ["events", "invalid_value", { events: Array(4).fill("request.failed") }],
    ["description", "string_above_max_length", { description: "a".repeat(257) }],
    ["description", "invalid_value", { description: "one\u0000two" }],
    ["status", "invalid_value", { status: "paused" }],
    ["max_in_flight", "integer_below_min_value", { maxInFlight: 0 }],
    ["max_in_flight", "integer_above_max_value", { maxInFlight: 65 }],
    ["account", "not_found", { account: "b" }],
  ])("an invalid %s is rejected as %s with its name: %j (WH-3)", async (param, code, changes) => {
    const { endpoints, acts } = openEndpoints();
    await expect(endpoints.create(wanted(changes), a)).rejects.toMatchObject({ code, param });
    expect(await endpoints.list("", a)).toEqual([]);
    expect(acts).toEqual([]);
  });

  it("accepts values at the bounds (WH-3)", async () => {
    const { endpoints } = openEndpoints();
    const most = wanted({ description: "a".repeat(256), maxInFlight: 64, status: "disabled" });
    const { endpoint } = await endpoints.create(most, a);
    expect(endpoint).toMatchObject({ maxInFlight: 64, status: "disabled", disabledReason: "by_hand" });
  });

  it("a URL that cannot be delivered to is rejected with the sender's reason, naming url (WH-3)", async () => {
    const { endpoints, hand } = openEndpoints();
    hand.refusal = "The host has an address that is not public.";
    const refusal = { code: "invalid_value", param: "url", message: hand.refusal };
    await expect(endpoints.create(wanted(), a)).rejects.toMatchObject(refusal);
    hand.refusal = null;
    const { endpoint } = await endpoints.create(wanted(), a);
    hand.refusal = refusal.message;
    const change = { url: "https://other.example/" };
    await expect(endpoints.update(own(endpoint.id), change, a)).rejects.toMatchObject(refusal);
    // A change of other fields does not check the URL.
    expect(await endpoints.update(own(endpoint.id), { description: "new" }, a)).toMatchObject({ description: "new" });
  });

  it("concurrent creations cannot exceed an account's maximum of endpoints (WH-4)", async () => {
    const { endpoints } = openEndpoints({ endpointsMax: 20 });
    const all = await Promise.allSettled(Array.from({ length: 25 }, () => endpoints.create(wanted(), a)));
    const refused = all.filter((each) => each.status === "rejected");
    expect(refused).toHaveLength(5);
    for (const { reason } of refused) expect(reason).toMatchObject({ code: "invalid_value" });
    expect(await endpoints.list("", a)).toHaveLength(20);
    const { endpoint } = await endpoints.create(wanted(), b);
    await endpoints.remove(own(endpoint.id), b);
  });
});

describe("changing a webhook endpoint", () => {
  it("changes the given fields only, and reports why it is disabled (WH-2)", async () => {
    const { endpoints, clock } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    clock.advance(1_000);
    const disabled = await endpoints.update(own(endpoint.id), { status: "disabled" }, a);
    const when = { updatedAtMs: clock.now() };
    expect(disabled).toEqual({ ...endpoint, ...when, status: "disabled", disabledReason: "by_hand" });
    const events = ["usage.threshold_reached"];
    const enabled = await endpoints.update(own(endpoint.id), { status: "enabled", events, maxInFlight: 1 }, a);
    expect(enabled).toEqual({ ...endpoint, ...when, events, maxInFlight: 1 });
  });

  it("an endpoint disabled by the service keeps its reason until it is enabled (WH-2)", async () => {
    const { endpoints, state } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    const kept = await state.endpoints.find("a", endpoint.id);
    if (kept === null) throw new Error("the endpoint is missing");
    const failing = { ...kept.record, status: "disabled", disabledReason: "failing", version: 2 } as const;
    expect(await state.endpoints.replace(failing)).toBe("replaced");
    const again = await endpoints.update(own(endpoint.id), { status: "disabled" }, a);
    expect(again).toMatchObject({ status: "disabled", disabledReason: "failing" });
    expect(await endpoints.update(own(endpoint.id), { status: "enabled" }, a)).toMatchObject({ disabledReason: null });
  });

  it("applies all of several concurrent changes", async () => {
    const { endpoints } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    await Promise.all([
      endpoints.update(own(endpoint.id), { description: "new" }, a),
      endpoints.update(own(endpoint.id), { maxInFlight: 3 }, a),
      endpoints.rotate(own(endpoint.id), null, a),
    ]);
    const { description, maxInFlight, previousSecretExpiresAtMs } = await endpoints.get(own(endpoint.id), a);
    expect([description, maxInFlight, previousSecretExpiresAtMs === null]).toEqual(["new", 3, false]);
  });

  it("every operation returns the same error for an endpoint of another account as for an unknown one (SEC-22)", async () => {
    const { endpoints, acts } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    const before = acts.length;
    const calls = [
      (id: string) => endpoints.get(own(id), b),
      (id: string) => endpoints.update(own(id), { status: "disabled" }, b),
      (id: string) => endpoints.update(own(id), { url: "https://other.example/" }, b),
      (id: string) => endpoints.rotate(own(id), 0, b),
      (id: string) => endpoints.sendTestEvent(own(id), "", b),
      (id: string) => endpoints.remove(own(id), b),
    ];
    for (const call of calls) {
      const told = await Promise.all(
        [endpoint.id, `we_${"0".repeat(24)}`, "we_1", "", "../a"].map((id) =>
          call(id).catch((error: unknown) => error),
        ),
      );
      for (const error of told) expect(error).toMatchObject({ code: "not_found", param: "id" });
      expect(new Set(told.map(String)).size).toBe(1);
    }
    await expect(endpoints.get({ id: endpoint.id, account: "a" }, b)).rejects.toMatchObject({ code: "not_found" });
    await expect(endpoints.list("a", b)).rejects.toMatchObject({ code: "not_found", param: "account" });
    expect(await endpoints.list("", b)).toEqual([]);
    expect(acts).toHaveLength(before);
    expect(await endpoints.get(own(endpoint.id), a)).toEqual(endpoint);
  });

  it("the administrator names the account, and uses `default` if none is named (SEC-22)", async () => {
    const { endpoints } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted({ account: "a" }), administrator);
    expect(await endpoints.list("", a)).toEqual([endpoint]);
    expect(await endpoints.list("", administrator)).toEqual([]);
    expect(await endpoints.get({ id: endpoint.id, account: "a" }, administrator)).toEqual(endpoint);
    await expect(endpoints.get(own(endpoint.id), administrator)).rejects.toMatchObject({ code: "not_found" });
    const { endpoint: second } = await endpoints.create(wanted(), administrator);
    expect(second.account).toBe("default");
    const misnamed = endpoints.create(wanted({ account: "No Account" }), administrator);
    await expect(misnamed).rejects.toMatchObject({ code: "invalid_value", param: "account" });
  });

  it("every change is audited with its actor, without a secret and without the URL's path (KEY-23)", async () => {
    const { endpoints, acts } = openEndpoints();
    const { endpoint, secret } = await endpoints.create(wanted(), a);
    const target = own(endpoint.id);
    await endpoints.update(target, { url: "https://other.example/hush", status: "disabled" }, a);
    const rotated = await endpoints.rotate(target, 0, a);
    await endpoints.sendTestEvent(target, "", a);
    await endpoints.get(target, a);
    await endpoints.list("", a);
    await endpoints.remove(target, a);
    await expect(endpoints.remove(target, a)).rejects.toMatchObject({ code: "not_found" });
    expect(acts.map(({ action, target: of, source }) => [action, of, source])).toEqual(
      ["create", "update", "rotate", "test", "delete"].map((act) => [`webhook_endpoint.${act}`, endpoint.id, a]),
    );
    expect(acts[0]?.details).toMatchObject({ account: "a", url_origin: "https://receiver.example" });
    expect(acts[1]?.details).toEqual({ url_origin: "https://other.example", status: "disabled" });
    const written = JSON.stringify(acts);
    for (const hidden of [secret, rotated.secret, "hush", "whsec_"]) expect(written).not.toContain(hidden);
  });
});

describe("rotating a webhook secret", () => {
  async function openOne() {
    const parts = openEndpoints();
    const { endpoint, secret } = await parts.endpoints.create(wanted(), a);
    const rotate = (overlapMs: number | null) => parts.endpoints.rotate(own(endpoint.id), overlapMs, a);
    const signing = async () => {
      const kept = await parts.state.endpoints.find("a", endpoint.id);
      return (kept?.record.secrets ?? []).map(({ sealed }) => parts.box.open(sealed, endpoint.id));
    };
    return { ...parts, id: endpoint.id, secret, rotate, signing };
  }

  it("the old secret also signs for 24 hours, and is deleted by the first change after that (WH-7)", async () => {
    const { endpoints, id, clock, rotate, signing, secret } = await openOne();
    const rotated = await rotate(null);
    expect(rotated.secret).not.toBe(secret);
    expect(rotated.oldExpiresAtMs).toBe(clock.now() + dayMs);
    expect(rotated.endpoint).toMatchObject({
      secretHint: rotated.secret.slice(-4),
      previousSecretExpiresAtMs: clock.now() + dayMs,
    });
    expect(await signing()).toEqual([rotated.secret, secret]);
    clock.advance(dayMs - 1);
    expect((await endpoints.get(own(id), a)).previousSecretExpiresAtMs).not.toBeNull();
    clock.advance(1);
    expect((await endpoints.get(own(id), a)).previousSecretExpiresAtMs).toBeNull();
    await endpoints.update(own(id), { description: "later" }, a);
    expect(await signing()).toEqual([rotated.secret]);
  });

  it("with two expiring secrets a third rotation is rejected with the time when the next expires (WH-7)", async () => {
    const { clock, rotate, signing, secret } = await openOne();
    const first = await rotate(2 * dayMs);
    const second = await rotate(7 * dayMs);
    expect(second.endpoint.previousSecretExpiresAtMs).toBe(clock.now() + 7 * dayMs);
    const refusal = await rotate(null).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "conflict", shouldRetry: false });
    expect(String(refusal)).toContain(new Date(clock.now() + 2 * dayMs).toISOString());
    expect(await signing()).toEqual([second.secret, first.secret, secret]);
    clock.advance(2 * dayMs);
    const third = await rotate(null);
    expect(await signing()).toEqual([third.secret, second.secret, first.secret]);
  });

  it("an overlap of 0 s removes the old secret immediately, even if there are two expiring ones (WH-7)", async () => {
    const { rotate, signing, secret } = await openOne();
    const first = await rotate(0);
    expect(await signing()).toEqual([first.secret]);
    expect(first.endpoint.previousSecretExpiresAtMs).toBeNull();
    const second = await rotate(dayMs);
    const third = await rotate(dayMs);
    const leaked = await rotate(0);
    expect(await signing()).toEqual([leaked.secret, second.secret, first.secret]);
    expect([secret, third.secret].some((old) => old === leaked.secret)).toBe(false);
  });

  it.each([
    [-1, "integer_below_min_value"],
    [7 * dayMs + 1, "integer_above_max_value"],
  ])("an overlap of %i ms is rejected (WH-7)", async (overlapMs, code) => {
    const { rotate, signing, secret } = await openOne();
    await expect(rotate(overlapMs)).rejects.toMatchObject({ code, param: "overlap" });
    expect(await signing()).toEqual([secret]);
  });
});
