import { describe, expect, it } from "vitest";
import type { SessionRecord } from "../../src/domain/access/sessions.js";
import { eachTest, type OpenState } from "./state-harness.js";

const hourMs = 3_600_000;

export function describeSessionStore(open: OpenState): void {
  describe("SessionStore", () => {
    const harness = eachTest(open);

    /** A session that was created now and lasts an hour; a higher number means a later creation. */
    const session = (number: number, changes: Partial<SessionRecord> = {}): SessionRecord => {
      const nowMs = harness.state.now();
      return {
        id: `ses_${number}`,
        tokenHash: `hash_${number}`,
        user: "admin",
        role: "admin",
        createdAtMs: nowMs + number * 1_000,
        lastSeenAtMs: nowMs,
        expiresAtMs: nowMs + hourMs,
        address: "203.0.113.1",
        userAgent: 'Browser "1.0"',
        ...changes,
      };
    };
    const idsOf = (sessions: readonly SessionRecord[]): string[] => sessions.map(({ id }) => id);

    it("finds a session with all its fields by the hash of its token", async () => {
      const { sessions } = harness.state;
      const kept = session(1, { role: "viewer" });
      await sessions.insert(kept);
      expect(await sessions.findByHash("hash_1")).toEqual(kept);
      expect(await sessions.findByHash("hash_2")).toBeNull();
    });

    it("stores the times of last use and expiry", async () => {
      const { sessions } = harness.state;
      const kept = session(1);
      await sessions.insert(kept);
      await sessions.touch("ses_1", kept.lastSeenAtMs + 5, kept.expiresAtMs + 5);
      await sessions.touch("ses_nobody", 1, 1);
      expect(await sessions.findByHash("hash_1")).toEqual({
        ...kept,
        lastSeenAtMs: kept.lastSeenAtMs + 5,
        expiresAtMs: kept.expiresAtMs + 5,
      });
    });

    it("lists unexpired sessions, newest first", async () => {
      const { sessions } = harness.state;
      const nowMs = harness.state.now();
      for (const number of [2, 1, 3]) await sessions.insert(session(number));
      await sessions.insert(session(4, { expiresAtMs: nowMs + 1_000 }));
      expect(idsOf(await sessions.list(nowMs + 1_000))).toEqual(["ses_3", "ses_2", "ses_1"]);
    });

    it("a removed session is no longer returned", async () => {
      const { sessions } = harness.state;
      await sessions.insert(session(1));
      expect(await sessions.remove("ses_1")).toBe(true);
      expect(await sessions.findByHash("hash_1")).toBeNull();
      expect(await sessions.remove("ses_1")).toBe(false);
      expect(await sessions.list(harness.state.now())).toEqual([]);
    });

    it("a simultaneous use does not restore a removed session", async () => {
      const { sessions } = harness.state;
      const kept = session(1);
      await sessions.insert(kept);
      await Promise.all([sessions.remove("ses_1"), sessions.touch("ses_1", kept.lastSeenAtMs, kept.expiresAtMs)]);
      expect(await sessions.findByHash("hash_1")).toBeNull();
    });

    it("removes all of a user's sessions except one, and none of other users", async () => {
      const { sessions } = harness.state;
      for (const number of [1, 2, 3]) await sessions.insert(session(number));
      await sessions.insert(session(4, { user: "other" }));
      expect(await sessions.removeOthers("admin", "ses_2")).toBe(2);
      expect(idsOf(await sessions.list(harness.state.now()))).toEqual(["ses_4", "ses_2"]);
      expect(await sessions.removeOthers("admin", null)).toBe(1);
      expect(await sessions.removeOthers("admin", null)).toBe(0);
    });

    it("does not list a session that has expired by the store's time", async () => {
      const { sessions } = harness.state;
      await sessions.insert(session(1));
      await harness.advance(hourMs + 1_000);
      await harness.state.purge(100);
      expect(await sessions.list(harness.state.now())).toEqual([]);
    });
  });
}
