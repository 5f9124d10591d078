import { beforeEach, describe, expect, it } from "vitest";
import { type ApiKeyRecord, checkSearch, type KeyFilter, type KeyStore } from "../../src/domain/access/key-store.js";
import { anyKey, keyRecord, listKeys } from "./api-key-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeKeyStore(open: OpenState): void {
  describe("KeyStore", () => {
    const harness = eachTest(open);
    let keys: KeyStore;
    beforeEach(() => {
      keys = harness.state.keys;
    });

    it("finds a record with all its fields by the hash of its secret", async () => {
      const record = keyRecord(1, {
        name: "строка 'quoted' \" ; --",
        account: "team-a",
        scope: "read",
        models: ["org/model", "qwen*"],
        priority: "batch",
        expiresAtMs: 2_000_000_000_001,
        lastUsedAtMs: 1_900_000_000_000,
      });
      await keys.insert(record);
      expect(await keys.findByHash(record.hash)).toEqual(record);
      expect(await keys.findByHash(keyRecord(2).hash)).toBeNull();
    });

    it("rejects a second record with the same id or hash and keeps the first", async () => {
      await keys.insert(keyRecord(1));
      await expect(keys.insert(keyRecord(2, { id: keyRecord(1).id }))).rejects.toMatchObject({ code: "conflict" });
      await expect(keys.insert(keyRecord(3, { hash: keyRecord(1).hash }))).rejects.toMatchObject({ code: "conflict" });
      expect(await namesOf(keys)).toEqual(["key number 1"]);
    });

    it("a rejected write does not affect writes of the same batch", async () => {
      const outcomes = await Promise.allSettled([1, 2, 1, 3].map((number) => keys.insert(keyRecord(number))));
      expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
      expect(await namesOf(keys)).toEqual(["key number 3", "key number 2", "key number 1"]);
    });

    it("inserts only one first key for any number of simultaneous attempts", async () => {
      const won = await Promise.all([1, 2, 3, 4, 5].map((number) => keys.insertFirst(keyRecord(number))));
      expect(won.filter(Boolean)).toHaveLength(1);
      expect(await namesOf(keys)).toHaveLength(1);
    });

    it("counts a revoked key as existing when a first key is inserted", async () => {
      await keys.insert(keyRecord(1));
      await keys.revoke(keyRecord(1).id, 5);
      expect(await keys.insertFirst(keyRecord(2))).toBe(false);
    });

    it("lists newest first; pages have no gaps or repeats while keys are added", async () => {
      for (const number of [3, 1, 5, 2, 4]) await keys.insert(keyRecord(number));
      const first = await keys.list({ filter: anyKey, limit: 2, after: null });
      expect(first.records.map(({ name }) => name)).toEqual(["key number 5", "key number 4"]);
      await keys.insert(keyRecord(6));
      const second = await keys.list({ filter: anyKey, limit: 2, after: first.next });
      const third = await keys.list({ filter: anyKey, limit: 2, after: second.next });
      expect([...second.records, ...third.records].map(({ name }) => name)).toEqual([
        "key number 3",
        "key number 2",
        "key number 1",
      ]);
      expect(third.next).toBeNull();
    });

    it("pages through keys that were created in the same millisecond", async () => {
      const numbers = [1, 2, 3, 4, 5, 6, 7];
      for (const number of numbers) await keys.insert(keyRecord(number, { createdAtMs: 1_000 }));
      expect(await namesOf(keys, 2)).toEqual(numbers.toReversed().map((number) => `key number ${number}`));
    });

    it("returns no cursor for a next page if a page ends exactly with the last key", async () => {
      await keys.insert(keyRecord(1));
      await keys.insert(keyRecord(2));
      expect((await keys.list({ filter: anyKey, limit: 2, after: null })).next).toBeNull();
      expect(await keys.list({ filter: { ...anyKey, account: "nobody" }, limit: 2, after: null })).toEqual({
        records: [],
        next: null,
      });
    });

    it("lists the keys of one account on request", async () => {
      await keys.insert(keyRecord(1, { account: "a" }));
      await keys.insert(keyRecord(2, { account: "b" }));
      await keys.insert(keyRecord(3, { account: "a" }));
      expect((await listKeys(keys, { account: "a" })).map(({ name }) => name)).toEqual([
        "key number 3",
        "key number 1",
      ]);
    });

    it("searches name, account, id and the ends of the secret, ignoring case", async () => {
      await keys.insert(keyRecord(1, { name: 'The "Blue" \\ Größe', account: "team-blue" }));
      await keys.insert(keyRecord(2, { name: "100%_sure", prefix: "sk-uis-XyZ", last4: "Q7rs" }));
      await keys.insert(keyRecord(3, { name: "three" }));
      const numbersOf = async (text: string) =>
        (await listKeys(keys, { search: checkSearch(text) })).map(({ id }) => Number(id.slice("key_".length)));
      expect(await numbersOf("blue")).toEqual([1]);
      expect(await numbersOf('"BLUE" \\ Größe')).toEqual([1]);
      expect(await numbersOf("TEAM-")).toEqual([1]);
      expect(await numbersOf("%_s")).toEqual([2]);
      expect(await numbersOf("-xyz")).toEqual([2]);
      expect(await numbersOf("q7RS")).toEqual([2]);
      expect(await numbersOf("key_00000003")).toEqual([3]);
      expect(await numbersOf(" e ")).toEqual([3, 2, 1]);
      expect(await numbersOf("key number")).toEqual([]);
      // Other stored fields are not searched.
      for (const text of ["administrator", "createdAt", "read_write", "00000003".repeat(2)]) {
        expect(await numbersOf(text)).toEqual([]);
      }
    });

    it("filters keys by their state at a time: active, expired or revoked, also combined with a search", async () => {
      const nowMs = keyRecord(1).createdAtMs + 60_000;
      await keys.insert(keyRecord(1, { name: '"revokedAtMs":1, a', expiresAtMs: nowMs + 1 }));
      await keys.insert(keyRecord(2, { name: "expired a", expiresAtMs: nowMs }));
      await keys.insert(keyRecord(3, { name: "expired b", expiresAtMs: nowMs - 1 }));
      await keys.insert(keyRecord(4, { name: "gone a", expiresAtMs: nowMs - 1 }));
      await keys.revoke(keyRecord(4).id, nowMs - 2);
      const numbersOf = async (filter: Partial<KeyFilter>) =>
        (await listKeys(keys, { nowMs, ...filter }, 1)).map(({ id }) => Number(id.slice("key_".length)));
      expect(await numbersOf({ state: "active" })).toEqual([1]);
      expect(await numbersOf({ state: "expired" })).toEqual([3, 2]);
      expect(await numbersOf({ state: "revoked" })).toEqual([4]);
      expect(await numbersOf({ state: "expired", search: "red a" })).toEqual([2]);
      expect(await numbersOf({ state: "active", account: "nobody" })).toEqual([]);
    });

    it("a search continues past many keys that do not match", async () => {
      const numbers = Array.from({ length: 1_200 }, (_, position) => position + 1);
      await Promise.all(numbers.map((number) => keys.insert(keyRecord(number))));
      await keys.revoke(keyRecord(7).id, 5);
      const found = await listKeys(keys, { state: "revoked" });
      expect(found.map(({ name }) => name)).toEqual(["key number 7"]);
      expect((await listKeys(keys, { search: "number 1" }, 30)).map(({ name }) => name)).toEqual(
        numbers
          .filter((number) => String(number).startsWith("1"))
          .toReversed()
          .map((number) => `key number ${number}`),
      );
    });

    it("a key is returned as revoked immediately after its revocation, and a second revocation does not change the time", async () => {
      await keys.insert(keyRecord(1));
      const revoked: ApiKeyRecord = keyRecord(1, { revokedAtMs: 1_000 });
      expect(await keys.revoke(revoked.id, 1_000)).toEqual(revoked);
      expect(await keys.findByHash(revoked.hash)).toEqual(revoked);
      expect(await keys.revoke(revoked.id, 2_000)).toEqual(revoked);
      expect(await keys.revoke("key_nobody", 2_000)).toBeNull();
    });

    it("keeps the latest time of use, independently of the order in which uses are reported", async () => {
      await keys.insert(keyRecord(1));
      const { id, hash } = keyRecord(1);
      for (const atMs of [1_000, 3_000, 2_000]) await keys.touch([{ id, atMs }]);
      await keys.touch([
        { id: "key_nobody", atMs: 9_000 },
        { id, atMs: 2_500 },
      ]);
      expect(await keys.findByHash(hash)).toEqual(keyRecord(1, { lastUsedAtMs: 3_000 }));
    });

    it("finds a key by its id, revoked or not", async () => {
      await keys.insert(keyRecord(1));
      expect(await keys.find(keyRecord(1).id)).toEqual(keyRecord(1));
      await keys.revoke(keyRecord(1).id, 5);
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ revokedAtMs: 5 });
      expect(await keys.find("key_nobody")).toBeNull();
    });

    it("changes the given fields and keeps the others", async () => {
      await keys.insert(keyRecord(1, { models: ["a"], expiresAtMs: 5_000 }));
      const { id, hash } = keyRecord(1);
      const limits = { requestsPerMinute: 10, tokensPerMinute: null, concurrency: 2 };
      const changed = keyRecord(1, { name: "new", models: ["a"], expiresAtMs: 5_000, limits });
      expect(await keys.update(id, { name: "new", limits })).toEqual(changed);
      const last = { ...changed, models: [], expiresAtMs: null, priority: "interactive" };
      expect(await keys.update(id, { models: [], expiresAtMs: null, priority: "interactive" })).toEqual(last);
      expect(await keys.findByHash(hash)).toEqual(last);
      expect(await keys.update("key_nobody", { name: "new" })).toBeNull();
    });

    it("no change of simultaneous updates is lost", async () => {
      await keys.insert(keyRecord(1));
      const { id } = keyRecord(1);
      await Promise.all([
        keys.update(id, { name: "new" }),
        keys.update(id, { models: ["m"] }),
        keys.touch([{ id, atMs: 7 }]),
        keys.revoke(id, 9),
      ]);
      expect(await keys.find(id)).toMatchObject({ name: "new", models: ["m"], lastUsedAtMs: 7, revokedAtMs: 9 });
    });

    it("a rotation atomically creates a successor and sets the expiry of the old key (KEY-16)", async () => {
      await keys.insert(keyRecord(1));
      expect(await keys.rotate(keyRecord(1).id, keyRecord(2), 9_000)).toBe(true);
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ expiresAtMs: 9_000 });
      expect(await keys.findByHash(keyRecord(2).hash)).toEqual(keyRecord(2));
    });

    it("rotating never extends the life of the old key (KEY-16)", async () => {
      await keys.insert(keyRecord(1, { expiresAtMs: 5_000 }));
      expect(await keys.rotate(keyRecord(1).id, keyRecord(2), 9_000)).toBe(true);
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ expiresAtMs: 5_000 });
    });

    it("a revoked or unknown key is not rotated, and nothing is inserted (KEY-16)", async () => {
      await keys.insert(keyRecord(1, { revokedAtMs: 5 }));
      expect(await keys.rotate(keyRecord(1).id, keyRecord(2), 9_000)).toBe(false);
      expect(await keys.rotate("key_nobody", keyRecord(2), 9_000)).toBe(false);
      expect(await namesOf(keys)).toEqual(["key number 1"]);
    });

    it("a successor with an existing id leaves the old key unchanged (KEY-16)", async () => {
      await keys.insert(keyRecord(1));
      await keys.insert(keyRecord(2));
      const rotating = keys.rotate(keyRecord(1).id, keyRecord(2), 9_000);
      await expect(rotating).rejects.toMatchObject({ code: "conflict" });
      expect(await keys.find(keyRecord(1).id)).toMatchObject({ expiresAtMs: null });
    });
  });
}

async function namesOf(keys: KeyStore, limit = 100): Promise<string[]> {
  return (await listKeys(keys, {}, limit)).map(({ name }) => name);
}
