import { describe, expect, it } from "vitest";
import type { AuditSource } from "../../../../src/domain/access/audit.js";
import { type LimitOwner, type LimitScope, unlimited } from "../../../../src/domain/call/rate-limits.js";
import type { AdmitRequest } from "../../../../src/domain/metering/ledger.js";
import { RejectionCache } from "../../../../src/domain/metering/limit-response.js";
import { LimitsAdmin } from "../../../../src/domain/metering/limits-admin.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { keyRecord } from "../../../suites/api-key-records.js";
import { administrator, keyHolder, limitsOf, noDefaults, openBook } from "./limits-fixture.js";

const by: AuditSource = { principal: administrator, address: "192.0.2.1" };
const account: LimitOwner = { kind: "account", id: "a" };
const model: LimitOwner = { kind: "model", id: "m" };

async function open() {
  const { book, store, clock } = openBook({ ...noDefaults, account: limitsOf({ requestsPerMinute: 100 }) });
  const state = openMemoryState({ clock });
  const { ledger } = state;
  const key = keyRecord(1, { account: "a", limits: limitsOf({ requestsPerMinute: 2 }) });
  await state.keys.insert(key);
  const acts: unknown[] = [];
  const rejections = new RejectionCache(clock);
  const admin = new LimitsAdmin({
    book,
    store,
    keys: state.keys,
    ledger,
    rejections,
    audit: {
      async record(...act) {
        acts.push(act);
      },
    },
    now: () => clock.now(),
  });
  let count = 0;
  const use = async (scopes: readonly LimitScope[], of = "a") => {
    const request: AdmitRequest = {
      requestId: `req_${count++}`,
      account: of,
      keyId: null,
      model: "m",
      operation: "create_completion",
      reserve: { tokens: 7, costNano: 0 },
      promptTokens: 0,
      leaseMs: 60_000,
      scopes,
      budgets: [],
    };
    const admission = await ledger.admit(request);
    if (!admission.admitted) rejections.note(admission);
    return admission.admitted;
  };
  return { admin, use, key, acts, book, clock, rejections };
}

describe("administration of limits", () => {
  it("shows the configured limits, the effective limits and the current use (state RL-22)", async () => {
    const { admin, use, book, clock } = await open();
    await admin.update(account, limitsOf({ tokensPerMinute: 1_000 }), by);
    await use(book.scopesOf(keyHolder(), "m"));
    expect(await admin.get({ owner: account, account: "" })).toEqual({
      owner: account,
      account: "a",
      own: limitsOf({ tokensPerMinute: 1_000 }),
      configured: limitsOf({ requestsPerMinute: 100 }),
      effective: limitsOf({ requestsPerMinute: 100, tokensPerMinute: 1_000 }),
      use: expect.objectContaining({ requests: 1, tokens: 7, running: 1 }),
      updatedAtMs: clock.now(),
    });
  });

  it("changed limits apply when the change is answered, are audited, and are removed by a change without limits (state RL-15)", async () => {
    const { admin, acts, book } = await open();
    await admin.update(model, limitsOf({ concurrency: 1 }), by);
    expect(book.scopesOf(keyHolder(), "m")).toContainEqual({ owner: model, limits: limitsOf({ concurrency: 1 }) });
    expect(acts).toEqual([
      [
        by,
        "limits.update",
        "model m",
        { requests_per_minute: "as configured", tokens_per_minute: "as configured", concurrency: "1" },
      ],
    ]);
    const report = await admin.update(model, unlimited, by);
    expect(report).toMatchObject({ own: unlimited, effective: unlimited, updatedAtMs: null });
    expect(book.scopesOf(keyHolder(), "m").map(({ owner }) => owner.kind)).toEqual(["account"]);
  });

  it("a reset clears the windows of one key and its cached rejection (state RL-22)", async () => {
    const { admin, use, key, acts, rejections } = await open();
    const scopes = [{ owner: { kind: "key", id: key.id } as const, limits: key.limits }];
    const target = { owner: { kind: "key", id: key.id } as const, account: "" };
    const holder = { ...keyHolder(), keyId: key.id };
    expect([await use(scopes), await use(scopes), await use(scopes)]).toEqual([true, true, false]);
    expect(() => rejections.check("create_completion", holder)).toThrow("Rate limit reached");
    expect((await admin.get(target)).use).toMatchObject({ requests: 2 });
    expect(await admin.reset(target, by)).toMatchObject({ account: "a", own: key.limits, use: { requests: 0 } });
    expect(() => rejections.check("create_completion", holder)).not.toThrow();
    expect(await use(scopes)).toBe(true);
    expect(acts).toEqual([[by, "limits.reset_window", key.id, { account: "a" }]]);
  });

  it("a model limit counts separately for each account", async () => {
    const { admin, use } = await open();
    const limits = limitsOf({ requestsPerMinute: 1 });
    await admin.update(model, limits, by);
    expect(await use([{ owner: model, limits }], "a")).toBe(true);
    expect(await use([{ owner: model, limits }], "b")).toBe(true);
    expect(await use([{ owner: model, limits }], "b")).toBe(false);
    await admin.reset({ owner: model, account: "b" }, by);
    expect((await admin.get({ owner: model, account: "a" })).use).toMatchObject({ requests: 1 });
    expect((await admin.get({ owner: model, account: "b" })).use).toMatchObject({ requests: 0 });
  });

  it.each([
    ["owner", { kind: "key", id: "key_1" } as const, unlimited],
    ["owner.account", { kind: "account", id: "No Account" } as const, unlimited],
    ["owner.model", { kind: "model", id: "no model" } as const, unlimited],
    ["limits.concurrency", account, limitsOf({ concurrency: 0 })],
    ["limits.tokens_per_minute", account, limitsOf({ tokensPerMinute: 1e13 })],
  ])("invalid limits are rejected with the field %s", async (param, owner, limits) => {
    const { admin } = await open();
    await expect(admin.update(owner, limits, by)).rejects.toMatchObject({ param });
  });

  it("an unknown key is rejected as not found", async () => {
    const { admin } = await open();
    const target = { owner: { kind: "key", id: "key_none" } as const, account: "" };
    await expect(admin.get(target)).rejects.toMatchObject({ code: "not_found" });
    await expect(admin.reset(target, by)).rejects.toMatchObject({ code: "not_found" });
  });
});
