import { beforeEach, describe, expect, it } from "vitest";
import type { ApiKeyRecord, KeyStore } from "../../src/domain/access/key-store.js";
import { keyRecord } from "./api-key-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeKeyStore(open: OpenState): void {
  describe("KeyStore", () => {
    const harness = eachTest(open);
    let keys: KeyStore;
    beforeEach(() => {
      keys = harness.state.keys;
    });

    it("gives back every field of a record, by the hash of its secret", async () => {
      const record = keyRecord(1, {
        name: "строка 'quoted' \" ; --",
        account: "team-a",
        scope: "read",
        models: ["org/model", "qwen*"],
        expiresAtMs: 2_000_000_000_001,
        lastUsedAtMs: 1_900_000_000_000,
      });
      await keys.insert(record);
      expect(await keys.findByHash(record.hash)).toEqual(record);
      expect(await keys.findByHash(keyRecord(2).hash)).toBeNull();
    });

    it("refuses a second record with the same id or the same hash and keeps the first", async () => {
      await keys.insert(keyRecord(1));
      await expect(keys.insert(keyRecord(2, { id: keyRecord(1).id }))).rejects.toMatchObject({ code: "conflict" });
      await expect(keys.insert(keyRecord(3, { hash: keyRecord(1).hash }))).rejects.toMatchObject({ code: "conflict" });
      expect(await namesOf(keys)).toEqual(["key number 1"]);
    });

    it("a refused write leaves those that were asked for beside it as they are", async () => {
      const outcomes = await Promise.allSettled([1, 2, 1, 3].map((number) => keys.insert(keyRecord(number))));
      expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
      expect(await namesOf(keys)).toEqual(["key number 3", "key number 2", "key number 1"]);
    });

    it("inserts a first key once, however many try at the same moment", async () => {
      const won = await Promise.all([1, 2, 3, 4, 5].map((number) => keys.insertFirst(keyRecord(number))));
      expect(won.filter(Boolean)).toHaveLength(1);
      expect(await namesOf(keys)).toHaveLength(1);
    });

    it("takes a revoked key for a key when it looks for the first one", async () => {
      await keys.insert(keyRecord(1));
      await keys.revoke(keyRecord(1).id, 5);
      expect(await keys.insertFirst(keyRecord(2))).toBe(false);
    });

    it("lists newest first in pages, without gaps or repeats while keys are added", async () => {
      for (const number of [3, 1, 5, 2, 4]) await keys.insert(keyRecord(number));
      const first = await keys.list({ account: null, limit: 2, after: null });
      expect(first.records.map(({ name }) => name)).toEqual(["key number 5", "key number 4"]);
      await keys.insert(keyRecord(6));
      const second = await keys.list({ account: null, limit: 2, after: first.next });
      const third = await keys.list({ account: null, limit: 2, after: second.next });
      expect([...second.records, ...third.records].map(({ name }) => name)).toEqual([
        "key number 3",
        "key number 2",
        "key number 1",
      ]);
      expect(third.next).toBeNull();
    });

    it("pages through keys that were made in the same millisecond", async () => {
      const numbers = [1, 2, 3, 4, 5, 6, 7];
      for (const number of numbers) await keys.insert(keyRecord(number, { createdAtMs: 1_000 }));
      expect(await namesOf(keys, 2)).toEqual(numbers.toReversed().map((number) => `key number ${number}`));
    });

    it("says that a page is the last one when it ends exactly with the last key", async () => {
      await keys.insert(keyRecord(1));
      await keys.insert(keyRecord(2));
      expect((await keys.list({ account: null, limit: 2, after: null })).next).toBeNull();
      expect(await keys.list({ account: "nobody", limit: 2, after: null })).toEqual({ records: [], next: null });
    });

    it("lists the keys of one account only when asked for one", async () => {
      await keys.insert(keyRecord(1, { account: "a" }));
      await keys.insert(keyRecord(2, { account: "b" }));
      await keys.insert(keyRecord(3, { account: "a" }));
      const { records } = await keys.list({ account: "a", limit: 10, after: null });
      expect(records.map(({ name }) => name)).toEqual(["key number 3", "key number 1"]);
    });

    it("a revoked key is found as revoked at once, and the first instant stays", async () => {
      await keys.insert(keyRecord(1));
      const revoked: ApiKeyRecord = keyRecord(1, { revokedAtMs: 1_000 });
      expect(await keys.revoke(revoked.id, 1_000)).toEqual(revoked);
      expect(await keys.findByHash(revoked.hash)).toEqual(revoked);
      expect(await keys.revoke(revoked.id, 2_000)).toEqual(revoked);
      expect(await keys.revoke("key_nobody", 2_000)).toBeNull();
    });

    it("keeps the latest use, in whatever order uses arrive", async () => {
      await keys.insert(keyRecord(1));
      const { id, hash } = keyRecord(1);
      for (const atMs of [1_000, 3_000, 2_000]) await keys.touch(id, atMs);
      await keys.touch("key_nobody", 9_000);
      expect(await keys.findByHash(hash)).toEqual(keyRecord(1, { lastUsedAtMs: 3_000 }));
    });

    it("is found by its id, revoked or not", async () => {
      await keys.insert(keyRecord(1));
      expect(await keys.find(keyRecord(1).id)).toEqual(keyRecord(1));
      await keys.revoke(keyRecord(1).id, 5);
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ revokedAtMs: 5 });
      expect(await keys.find("key_nobody")).toBeNull();
    });

    it("changes what is named and leaves the rest", async () => {
      await keys.insert(keyRecord(1, { models: ["a"], expiresAtMs: 5_000 }));
      const { id, hash } = keyRecord(1);
      const limits = { requestsPerMinute: 10, tokensPerMinute: null, concurrency: 2 };
      const changed = keyRecord(1, { name: "new", models: ["a"], expiresAtMs: 5_000, limits });
      expect(await keys.update(id, { name: "new", limits })).toEqual(changed);
      expect(await keys.update(id, { models: [], expiresAtMs: null })).toEqual({
        ...changed,
        models: [],
        expiresAtMs: null,
      });
      expect(await keys.findByHash(hash)).toEqual({ ...changed, models: [], expiresAtMs: null });
      expect(await keys.update("key_nobody", { name: "new" })).toBeNull();
    });

    it("changes of the same moment lose nothing of each other", async () => {
      await keys.insert(keyRecord(1));
      const { id } = keyRecord(1);
      await Promise.all([
        keys.update(id, { name: "new" }),
        keys.update(id, { models: ["m"] }),
        keys.touch(id, 7),
        keys.revoke(id, 9),
      ]);
      expect(await keys.find(id)).toMatchObject({ name: "new", models: ["m"], lastUsedAtMs: 7, revokedAtMs: 9 });
    });

    it("KEY-16: a rotated key has a successor and an end, in one step", async () => {
      await keys.insert(keyRecord(1));
      expect(await keys.rotate(keyRecord(1).id, keyRecord(2), 9_000)).toBe(true);
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ expiresAtMs: 9_000 });
      expect(await keys.findByHash(keyRecord(2).hash)).toEqual(keyRecord(2));
    });

    it("KEY-16: rotating never lengthens the life of the old key", async () => {
      await keys.insert(keyRecord(1, { expiresAtMs: 5_000 }));
      expect(await keys.rotate(keyRecord(1).id, keyRecord(2), 9_000)).toBe(true);
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ expiresAtMs: 5_000 });
    });

    it("KEY-16: a key that is revoked or unknown is not rotated, and nothing is inserted", async () => {
      await keys.insert(keyRecord(1, { revokedAtMs: 5 }));
      expect(await keys.rotate(keyRecord(1).id, keyRecord(2), 9_000)).toBe(false);
      expect(await keys.rotate("key_nobody", keyRecord(2), 9_000)).toBe(false);
      expect(await namesOf(keys)).toEqual(["key number 1"]);
    });

    it("KEY-16: a successor whose id is taken leaves the old key as it is", async () => {
      await keys.insert(keyRecord(1));
      await keys.insert(keyRecord(2));
      const rotating = keys.rotate(keyRecord(1).id, keyRecord(2), 9_000);
      await expect(rotating).rejects.toMatchObject({ code: "conflict" });
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ expiresAtMs: null });
    });
  });
}

async function namesOf(keys: KeyStore, limit = 100): Promise<string[]> {
  const names: string[] = [];
  let after: string | null = null;
  do {
    const page = await keys.list({ account: null, limit, after });
    names.push(...page.records.map((record) => record.name));
    after = page.next;
  } while (after !== null);
  return names;
}
