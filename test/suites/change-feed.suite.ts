import { describe, expect, it } from "vitest";
import type { StateChange } from "../../src/domain/call/ports.js";
import { unlimited } from "../../src/domain/call/rate-limits.js";
import type { State } from "../../src/domain/service/state.js";
import { endpoint, storedUpstream, threshold } from "../support/records.js";
import { keyRecord } from "./api-key-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

interface Change {
  readonly title: string;
  readonly write: (state: State) => Promise<unknown>;
  readonly expected: StateChange;
}

const { id: keyId } = keyRecord(1);
const key: StateChange = { kind: "key", id: keyId };
const owner = { kind: "account", id: "a" } as const;

/** Changes in order: each depends on those before it. */
const changes: readonly Change[] = [
  { title: "a new key", write: ({ keys }) => keys.insert(keyRecord(1)), expected: key },
  { title: "a changed key", write: ({ keys }) => keys.update(keyId, { name: "new" }), expected: key },
  { title: "a rotated key", write: ({ keys }) => keys.rotate(keyId, keyRecord(2), 5_000), expected: key },
  { title: "a revoked key", write: ({ keys }) => keys.revoke(keyId, 5), expected: key },
  {
    title: "limits",
    write: ({ limits }) => limits.put({ owner, limits: unlimited, updatedAtMs: 1 }),
    expected: { kind: "limits" },
  },
  { title: "removed limits", write: ({ limits }) => limits.remove(owner), expected: { kind: "limits" } },
  {
    title: "a threshold",
    write: ({ thresholds }) => thresholds.insert(threshold("thr_a")),
    expected: { kind: "thresholds" },
  },
  {
    title: "a changed threshold",
    write: ({ thresholds }) => thresholds.replace(threshold("thr_a")),
    expected: { kind: "thresholds" },
  },
  {
    title: "a removed threshold",
    write: ({ thresholds }) => thresholds.remove("thr_a"),
    expected: { kind: "thresholds" },
  },
  {
    title: "an endpoint",
    write: ({ endpoints }) => endpoints.insert(endpoint("we_a"), 20),
    expected: { kind: "endpoint", id: "we_a" },
  },
  {
    title: "a removed endpoint",
    write: ({ endpoints }) => endpoints.remove("a", "we_a"),
    expected: { kind: "endpoint", id: "we_a" },
  },
  {
    title: "an upstream",
    write: ({ upstreams }) => upstreams.insert(storedUpstream("gpu")),
    expected: { kind: "upstreams" },
  },
  {
    title: "a changed upstream",
    write: ({ upstreams }) => upstreams.replace(storedUpstream("gpu", { version: 2 })),
    expected: { kind: "upstreams" },
  },
  { title: "a removed upstream", write: ({ upstreams }) => upstreams.remove("gpu"), expected: { kind: "upstreams" } },
  {
    title: "a drain",
    write: ({ drains }) => drains.insert({ id: "gpu/m", sinceMs: 1 }),
    expected: { kind: "drains" },
  },
  { title: "a removed drain", write: ({ drains }) => drains.remove("gpu/m"), expected: { kind: "drains" } },
  {
    title: "a setting",
    write: ({ settings }) => settings.put("admin.password", "x", null),
    expected: { kind: "settings" },
  },
  {
    title: "a removed setting",
    write: ({ settings }) => settings.remove("admin.password"),
    expected: { kind: "settings" },
  },
];

export function describeChangeFeed(open: OpenState): void {
  describe("ChangeFeed", () => {
    const harness = eachTest(open);

    it("reports that it is connected", () => {
      expect(harness.state.changes.isLinked).toBe(true);
    });

    it("delivers every change before its write returns", async () => {
      const received: StateChange[] = [];
      harness.state.changes.subscribe((change) => void received.push(change));
      for (const { title, write, expected } of changes) {
        received.length = 0;
        await write(harness.state);
        expect(received, title).toContainEqual(expected);
      }
    });

    it("delivers removals of sessions", async () => {
      const { sessions, changes: feed } = harness.state;
      const nowMs = harness.state.now();
      await sessions.insert({
        id: "ses_1",
        tokenHash: "hash_1",
        user: "admin",
        role: "admin",
        createdAtMs: nowMs,
        lastSeenAtMs: nowMs,
        expiresAtMs: nowMs + 60_000,
        address: "",
        userAgent: "",
      });
      const received: StateChange[] = [];
      feed.subscribe((change) => void received.push(change));
      await sessions.remove("ses_1");
      expect(received).toContainEqual({ kind: "session", id: "ses_1" });
    });

    it("sends nothing if a write changes nothing, or only the time of a key's last use", async () => {
      const { keys, limits, thresholds, upstreams, drains, changes: feed } = harness.state;
      await keys.insert(keyRecord(1));
      const received: StateChange[] = [];
      feed.subscribe((change) => void received.push(change));
      await keys.touch([{ id: keyId, atMs: 5_000 }]);
      await keys.update("key_nobody", { name: "new" });
      await limits.remove(owner);
      await thresholds.remove("thr_nobody");
      await upstreams.replace(storedUpstream("nobody", { version: 2 }));
      await upstreams.remove("nobody");
      await drains.remove("nobody/m");
      expect(received).toEqual([]);
    });

    it("delivers changes to each subscriber until it unsubscribes", async () => {
      const { keys, changes: feed } = harness.state;
      const [first, second]: [StateChange[], StateChange[]] = [[], []];
      const unsubscribe = feed.subscribe((change) => void first.push(change));
      feed.subscribe((change) => void second.push(change));
      await keys.insert(keyRecord(1));
      unsubscribe();
      await keys.insert(keyRecord(2));
      expect(first).not.toContainEqual({ kind: "key", id: keyRecord(2).id });
      expect(second).toEqual(expect.arrayContaining([...first, { kind: "key", id: keyRecord(2).id }]));
    });
  });
}
