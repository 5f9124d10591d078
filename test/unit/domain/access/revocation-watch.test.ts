import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RevocationWatch } from "../../../../src/domain/access/key-cache.js";
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
    const { keys, sessions, clock, log } = access;
    watch = new RevocationWatch({ keys, sessions, live, changes: feed, clock, log });
  });
  afterEach(() => watch.close());

  function run(id: string, of: { keyId?: string; sessionId?: string }): void {
    const call: LiveRequest = {
      requestId: id,
      principal:
        of.keyId === undefined
          ? { kind: "administrator", keyId: null, account: "default", sessionId: of.sessionId ?? null, role: "admin" }
          : { ...keyHolder(), keyId: of.keyId },
      stage: "running",
      usedSoFar: null,
      place: -1,
      abort: (why) => void ends.push(`${id}: ${why}`),
    };
    live.add(call);
  }

  it("a revocation on the change feed ends the key's requests at once (KEY-13)", async () => {
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

  it("with the message lost, the sweep finds the revocation within 10 s, with one read per key (KEY-13)", async () => {
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
    clock.advance(10_000);
    await eventually(() => ends.length === 1, "the request ended");
  });

  it("after a lost connection, the keys of all running requests are read at once (KEY-11, KEY-13)", async () => {
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

  it("stops when it is closed", async () => {
    await watch.close();
    expect(access.clock.pending).toBe(0);
  });
});
