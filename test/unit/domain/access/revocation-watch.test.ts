import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RevocationWatch } from "../../../../src/domain/access/key-cache.js";
import type { EndReason } from "../../../../src/domain/call/call-context.js";
import { type LiveRequest, LiveRequests } from "../../../../src/domain/call/live-requests.js";
import { eventually } from "../../../support/eventually.js";
import { HandFeed } from "../../../support/hand-feed.js";
import { keyHolder } from "../metering/limits-fixture.js";
import { createAccess } from "./access-fixture.js";

const readWrite = { name: "test", scope: "read_write" } as const;

describe("RevocationWatch", () => {
  let access: ReturnType<typeof createAccess>;
  let live: LiveRequests;
  let feed: HandFeed;
  let watch: RevocationWatch;
  let ends: string[];

  beforeEach(() => {
    access = createAccess();
    live = new LiveRequests();
    feed = new HandFeed();
    ends = [];
    const { keys, sessions, clock, now, log } = access;
    watch = new RevocationWatch({ keys, sessions, live, changes: feed, clock, now, log });
  });
  afterEach(() => watch.close());

  interface RunOf {
    readonly keyId?: string;
    readonly sessionId?: string;
    readonly models?: readonly string[];
    readonly expiresAtMs?: number;
    readonly stage?: LiveRequest["stage"];
    readonly model?: string;
    readonly fallbackModel?: string;
  }

  /** A running request, whose model can be set later. */
  function run(id: string, of: RunOf): { model: string | null } {
    const { keyId, sessionId = null, models = [], expiresAtMs = null, stage = "running" } = of;
    const call = {
      requestId: id,
      principal:
        keyId === undefined
          ? ({ kind: "administrator", keyId: null, account: "default", sessionId, role: "admin" } as const)
          : { ...keyHolder(), keyId, models, expiresAtMs },
      receivedAtMs: access.clock.now(),
      stage,
      model: of.model ?? null,
      fallbackModel: of.fallbackModel ?? null,
      usedSoFar: null,
      place: -1,
      abort(why: EndReason): void {
        ends.push(`${id}: ${why}`);
        live.remove(call);
      },
    };
    live.add(call);
    return call;
  }

  const changed = (id: string): void => feed.tell({ kind: "key", id });

  /** Resolves once the change was read. */
  async function readAfter(id: string): Promise<void> {
    const before = access.keys.answers;
    changed(id);
    await eventually(() => access.keys.answers > before, "the key was read");
  }

  it("a revocation on the change feed ends the key's requests immediately (KEY-13)", async () => {
    const { apiKeys, keys } = access;
    const [one, two] = [await apiKeys.create(readWrite), await apiKeys.create(readWrite)];
    for (const [id, keyId] of [
      ["r1", one.record.id],
      ["r2", two.record.id],
      ["r3", one.record.id],
    ] as const) {
      run(id, { keyId });
    }
    await apiKeys.revoke(one.record.id);
    feed.tell({ kind: "key", id: one.record.id });
    await eventually(() => ends.length === 2, "both requests ended");
    expect(ends).toEqual(["r1: key_revoked", "r3: key_revoked"]);
    expect(keys.finds).toEqual([one.record.id]);
  });

  it("a key that was changed but not revoked lets its requests run, and a key without requests is not read", async () => {
    const { apiKeys, keys } = access;
    const { record } = await apiKeys.create(readWrite);
    run("r1", { keyId: record.id });
    feed.tell({ kind: "key", id: record.id });
    feed.tell({ kind: "key", id: "key_other" });
    await eventually(() => keys.finds.length > 0, "the key was read");
    await watch.close();
    expect(keys.finds).toEqual([record.id]);
    expect(ends).toEqual([]);
  });

  it("if the message is lost, a sweep finds the revocation within 10 s, with one read per key (KEY-13)", async () => {
    const { apiKeys, keys, clock } = access;
    const [one, two] = [await apiKeys.create(readWrite), await apiKeys.create(readWrite)];
    for (const id of ["r1", "r2", "r3"]) run(id, { keyId: one.record.id });
    run("r4", { keyId: two.record.id });
    await apiKeys.revoke(one.record.id);
    clock.advance(9_999);
    expect(keys.finds).toEqual([]);
    clock.advance(1);
    await eventually(() => ends.length === 3, "the requests ended");
    expect(keys.finds.toSorted()).toEqual([one.record.id, two.record.id].toSorted());
  });

  it("a sweep that fails is logged once and tried again (KEY-13)", async () => {
    const { apiKeys, keys, clock, lines } = access;
    const { record } = await apiKeys.create(readWrite);
    run("r1", { keyId: record.id });
    await apiKeys.revoke(record.id);
    keys.down = true;
    for (let round = 1; round <= 2; round++) {
      clock.advance(10_000);
      await eventually(() => keys.finds.length === round && clock.pending === 1, "the round is over");
    }
    expect(lines).toHaveLength(1);
    expect(ends).toEqual([]);
    keys.down = false;
    const hasEnded = (): boolean => {
      clock.advance(500);
      return ends.length === 1;
    };
    await eventually(hasEnded, "the request ended");
  });

  it("after a lost connection, the keys of all running requests are read immediately (KEY-11, KEY-13)", async () => {
    const { apiKeys } = access;
    const { record } = await apiKeys.create(readWrite);
    run("r1", { keyId: record.id });
    await apiKeys.revoke(record.id);
    feed.tell({ kind: "lost_link" });
    await eventually(() => ends.length === 1, "the request ended");
  });

  it("calls of a session end with the session (KEY-22)", async () => {
    const { sessions } = access;
    const from = { address: "", userAgent: "" };
    const [one, two] = [await sessions.begin("admin", from), await sessions.begin("admin", from)];
    run("r1", { sessionId: one.record.id });
    run("r2", { sessionId: two.record.id });
    await sessions.end(one.record.id);
    feed.tell({ kind: "session", id: one.record.id });
    await eventually(() => ends.length === 1, "the request ended");
    expect(ends).toEqual(["r1: key_revoked"]);
  });

  it("a rotation without an overlap ends the old key's requests immediately, one with an overlap ends them after the overlap (E-17)", async () => {
    const { apiKeys, clock } = access;
    const [one, two] = [await apiKeys.create(readWrite), await apiKeys.create(readWrite)];
    run("r1", { keyId: one.record.id });
    run("r2", { keyId: two.record.id });
    await apiKeys.rotate({ id: one.record.id, overlapMs: 0, expiresAtMs: null });
    changed(one.record.id);
    await eventually(() => ends.length === 1, "the request ended");
    await apiKeys.rotate({ id: two.record.id, overlapMs: 5_000, expiresAtMs: null });
    await readAfter(two.record.id);
    clock.advance(4_999);
    expect(ends).toEqual(["r1: key_revoked"]);
    clock.advance(1_001);
    expect(ends).toEqual(["r1: key_revoked", "r2: key_revoked"]);
  });

  it("requests end within a second after their key expires, also while the store is unavailable (E-17)", async () => {
    const { clock, keys } = access;
    keys.down = true;
    run("r1", { keyId: "key_1", expiresAtMs: clock.now() + 10_000 });
    run("r2", { keyId: "key_2" });
    clock.advance(9_999);
    expect(ends).toEqual([]);
    clock.advance(1_001);
    expect(ends).toEqual(["r1: key_revoked"]);
  });

  it("a request continues when the expiry of its key was moved to later (E-17)", async () => {
    const { apiKeys, clock } = access;
    const expiresAtMs = clock.now() + 5_000;
    const { record } = await apiKeys.create({ ...readWrite, expiresAtMs });
    run("r1", { keyId: record.id, expiresAtMs });
    await apiKeys.update(record.id, { expiresAtMs: expiresAtMs + 2_000 });
    await readAfter(record.id);
    clock.advance(6_999);
    expect(ends).toEqual([]);
    clock.advance(1_001);
    expect(ends).toEqual(["r1: key_revoked"]);
  });

  it("a narrowed list of models ends requests of other models and watches, within a second (E-17)", async () => {
    const { apiKeys, clock } = access;
    const { record } = await apiKeys.create({ ...readWrite, models: ["a", "b*"] });
    const of = { keyId: record.id, models: record.models };
    run("r1", { ...of, model: "a" });
    run("r2", { ...of, model: "b-small" });
    run("r3", { ...of, model: "a", fallbackModel: "b-large" });
    run("r4", { ...of, stage: "watching" });
    const late = run("r5", { ...of, stage: "receiving" });
    run("other", { keyId: "key_other", models: ["b*"], model: "b-small" });
    await apiKeys.update(record.id, { models: ["a"] });
    changed(record.id);
    await eventually(() => ends.length >= 3, "the requests ended");
    expect(ends).toEqual(["r2", "r3", "r4"].map((id) => `${id}: key_revoked`));
    late.model = "b-small";
    clock.advance(500);
    expect(ends.at(-1)).toBe("r5: key_revoked");
    expect(live.size).toBe(2);
  });

  it("a wider list of models ends no request, and requests that are opened after the change may use it (E-17)", async () => {
    const { apiKeys, clock } = access;
    const { record } = await apiKeys.create({ ...readWrite, models: ["a"] });
    run("r1", { keyId: record.id, models: ["a"], stage: "watching" });
    await apiKeys.update(record.id, { models: ["a", "b"] });
    await readAfter(record.id);
    // The message of the next change is lost, so the rights that were read last are older than this request.
    clock.advance(1);
    await apiKeys.update(record.id, { models: ["a", "b", "c"] });
    run("r2", { keyId: record.id, models: ["a", "b", "c"], model: "c" });
    clock.advance(9_000);
    expect(ends).toEqual([]);
  });

  it("a request that was opened during the change, and a read that failed, are checked again within a second (E-17)", async () => {
    const { apiKeys, clock, keys, sessions } = access;
    const { record } = await apiKeys.create(readWrite);
    await apiKeys.revoke(record.id);
    changed(record.id);
    // Opened with the rights that were read before the revocation.
    run("late", { keyId: record.id });
    clock.advance(500);
    await eventually(() => ends.length === 1, "the late request ended");

    const begun = await sessions.begin("admin", { address: "", userAgent: "" });
    run("watch", { keyId: record.id });
    run("page", { sessionId: begun.record.id });
    keys.down = true;
    changed(record.id);
    await eventually(() => keys.finds.length === 2, "the read failed");
    keys.down = false;
    await sessions.end(begun.record.id);
    feed.tell({ kind: "session", id: begun.record.id });
    clock.advance(500);
    await eventually(() => ends.length === 3, "both ended");
  });

  it("has no timer after it is closed", async () => {
    await watch.close();
    expect(access.clock.pending).toBe(0);
  });
});
