import { describe, expect, it } from "vitest";
import type { ResponseStore } from "../../src/domain/responses/response-store.js";
import { storedResponse as response } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

const keepMax = 100;
const everything = { responsesMax: 100, charsMax: 1_000_000 };

const put = async (store: ResponseStore, ...responses: readonly ReturnType<typeof response>[]) => {
  for (const one of responses) await store.put(one, keepMax);
};

/** Returns which of the responses 1 to 9 of an account are stored. */
async function numbersOf(store: ResponseStore, account = "a"): Promise<number[]> {
  const numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const found = await Promise.all(numbers.map((number) => store.get(account, `resp_${number}`)));
  return numbers.filter((_, position) => found[position] !== null);
}

export function describeResponseStore(open: OpenState): void {
  describe("ResponseStore", () => {
    const harness = eachTest(open);

    it("returns a response, even a large one, only to its account, and does not change it by a repeated write (SEC-22)", async () => {
      const { responses } = harness.state;
      const large = response(2, { previousId: "resp_1", items: 1_000, sealed: "AbC+/=9".repeat(200_000) });
      await put(responses, response(1), large, response(1, { account: "b", sealed: "of b" }));
      expect(await responses.get("a", "resp_1")).toEqual(response(1));
      expect(await responses.get("a", "resp_2")).toEqual(large);
      expect(await responses.get("b", "resp_1")).toEqual(response(1, { account: "b", sealed: "of b" }));
      for (const [account, id] of [
        ["b", "resp_2"],
        ["a", "resp_3"],
        ["a", "resp_\u0000 ' \""],
        ["c", "resp_1"],
      ] as const) {
        expect(await responses.get(account, id)).toBeNull();
        expect(await responses.conversation(account, id, everything)).toEqual([]);
      }
      await put(responses, response(1, { sealed: "other", createdAtMs: 5 }));
      expect(await responses.get("a", "resp_1")).toEqual(response(1));
      expect(await responses.purge(1_000, 10)).toBe(0);
    });

    it("deletes a response once, and reads a conversation from the newest response back to the first or to a missing one", async () => {
      const { responses } = harness.state;
      const chain = [1, 2, 3, 4].map((number) =>
        response(number, number === 1 ? {} : { previousId: `resp_${number - 1}` }),
      );
      await put(responses, ...chain, response(5, { previousId: "resp_2" }), response(3, { account: "b" }));
      const idsOf = async (id: string, account = "a") =>
        (await responses.conversation(account, id, everything)).map((one) => one.id);
      expect(await responses.conversation("a", "resp_4", everything)).toEqual(chain.toReversed());
      expect(await idsOf("resp_1")).toEqual(["resp_1"]);
      expect(await idsOf("resp_5")).toEqual(["resp_5", "resp_2", "resp_1"]);
      expect(await idsOf("resp_3", "b")).toEqual(["resp_3"]);
      expect(await responses.delete("a", "resp_2")).toBe(true);
      expect(await responses.delete("a", "resp_2")).toBe(false);
      expect(await responses.delete("c", "resp_3")).toBe(false);
      expect(await numbersOf(responses)).toEqual([1, 3, 4, 5]);
      expect(await numbersOf(responses, "b")).toEqual([3]);
      expect(await idsOf("resp_4")).toEqual(["resp_4", "resp_3"]);
      expect(await idsOf("resp_2")).toEqual([]);
    });

    it("removes the oldest responses of an account above its maximum, independently of earlier deletions (RSP-28)", async () => {
      const { responses } = harness.state;
      await put(responses, response(1, { account: "b" }));
      // The responses are stored in another order than that of their creation.
      for (const number of [3, 1, 2, 5, 4]) await responses.put(response(number), 5);
      expect(await numbersOf(responses)).toEqual([1, 2, 3, 4, 5]);
      await responses.delete("a", "resp_4");
      await responses.put(response(6), 5);
      expect(await numbersOf(responses)).toEqual([1, 2, 3, 5, 6]);
      await responses.put(response(7), 5);
      expect(await numbersOf(responses)).toEqual([2, 3, 5, 6, 7]);
      await responses.put(response(8), 2);
      expect(await numbersOf(responses)).toEqual([7, 8]);
      expect(await numbersOf(responses, "b")).toEqual([1]);
    });

    it("reads a long conversation in steps of a number of responses and of characters", async () => {
      const { responses } = harness.state;
      const sealed = "x".repeat(1_000);
      for (let number = 1; number <= 9; number += 1) {
        await put(responses, response(number, { sealed, previousId: number === 1 ? null : `resp_${number - 1}` }));
      }
      const read = async (step: typeof everything) => (await responses.conversation("a", "resp_9", step)).length;
      expect(await read({ responsesMax: 4, charsMax: 1_000_000 })).toBe(4);
      expect(await read({ responsesMax: 100, charsMax: 1 })).toBe(1);
      expect(await read({ responsesMax: 100, charsMax: 2_500 })).toBe(3);
      expect(await read(everything)).toBe(9);
    });

    it("removes responses of all accounts that were created before a time, in steps (RSP-27)", async () => {
      const { responses } = harness.state;
      const accounts = ["a", "b", "c", "d"];
      for (const account of accounts) {
        await put(responses, ...[1, 2, 3].map((number) => response(number, { account, createdAtMs: number * 1_000 })));
      }
      await responses.delete("b", "resp_1");
      expect(await responses.purge(1_000, 100)).toBe(0);
      const steps = [];
      for (let step = 0; step < 5; step += 1) steps.push(await responses.purge(3_000, 2));
      expect(steps).toEqual([2, 2, 2, 1, 0]);
      for (const account of accounts) expect(await numbersOf(responses, account)).toEqual([3]);
      expect(await responses.purge(Number.MAX_SAFE_INTEGER, 100)).toBe(4);
      // The accounts of the removed responses can store new ones again.
      for (const number of [4, 5]) await responses.put(response(number), 2);
      expect(await numbersOf(responses)).toEqual([4, 5]);
    });
  });
}
