import { describe, expect, it } from "vitest";
import type { AuditLog, AuditRecord } from "../../src/domain/access/audit.js";
import { eachTest, type OpenState } from "./state-harness.js";

const dayMs = 24 * 3_600_000;

export function describeAuditLog(open: OpenState): void {
  describe("AuditLog", () => {
    const harness = eachTest(open);
    const record = (number: number, changes: Partial<AuditRecord> = {}): AuditRecord => ({
      id: `aud_${String(number).padStart(24, "0")}`,
      atMs: harness.state.now() + number,
      actor: { kind: "session", id: "ses_1" },
      address: "203.0.113.1",
      action: "api_key.create",
      target: `key_${number}`,
      result: "ok",
      details: { name: "a 'quoted' näme", scope: "read" },
      ...changes,
    });

    it("returns actor, action, time, address and result of each record (KEY-23)", async () => {
      const kept = record(1, { actor: { kind: "nobody", id: "" }, result: "unauthenticated", details: {} });
      await harness.state.audit.append(kept);
      expect(await harness.state.audit.list({ limit: 10, after: null })).toEqual({ records: [kept], next: null });
    });

    it("lists the newest records first; pages have no gaps or repeats while records are added (KEY-23)", async () => {
      const { audit } = harness.state;
      for (const number of [1, 2, 3, 4, 5]) await audit.append(record(number * 1_000));
      const first = await audit.list({ limit: 2, after: null });
      await audit.append(record(6_000));
      const second = await audit.list({ limit: 2, after: first.next });
      const third = await audit.list({ limit: 2, after: second.next });
      const targets = [first, second, third].map(({ records }) => records.map(({ target }) => target));
      expect(targets).toEqual([["key_5000", "key_4000"], ["key_3000", "key_2000"], ["key_1000"]]);
      expect(third.next).toBeNull();
    });

    it("pages through records of the same millisecond (KEY-23)", async () => {
      const { audit } = harness.state;
      const atMs = harness.state.now();
      for (const number of [1, 2, 3, 4, 5]) await audit.append(record(number, { atMs }));
      expect((await allTargets(audit)).toSorted()).toEqual(["key_1", "key_2", "key_3", "key_4", "key_5"]);
    });

    it("keeps records for 400 days (KEY-23)", async () => {
      const { audit } = harness.state;
      await audit.append(record(1));
      await harness.advance(399 * dayMs);
      await harness.state.purge(100);
      await audit.append(record(2));
      expect(await allTargets(audit)).toEqual(["key_2", "key_1"]);
      await harness.advance(2 * dayMs);
      await harness.state.purge(100);
      expect(await allTargets(audit)).toEqual(["key_2"]);
    });
  });
}

async function allTargets(audit: AuditLog): Promise<string[]> {
  const targets: string[] = [];
  let after: string | null = null;
  do {
    const page = await audit.list({ limit: 2, after });
    targets.push(...page.records.map(({ target }) => target));
    after = page.next;
  } while (after !== null);
  return targets;
}
