import { beforeEach, describe, expect, it } from "vitest";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type { ResponseStore } from "../../../../src/domain/responses/response-store.js";
import {
  conversationItemsMax,
  type NewResponse,
  type ResponseItem,
  responseBytesMax,
  StoredResponses,
} from "../../../../src/domain/responses/stored-responses.js";
import { SecretBox } from "../../../../src/lib/crypto.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FakeClock } from "../../../support/fake-clock.js";

const keepMs = 3_600_000;
const accountA = callerOf("a");
const accountB = callerOf("b");

function callerOf(account: string) {
  const limits = unlimited;
  return { principal: { kind: "api_key", keyId: "key_1", account, scope: "read_write", models: [], limits } as const };
}

const message = (text: string, role = "user"): ResponseItem => ({ id: `msg_${text}`, type: "message", role, text });
const output = (text: string) => message(text, "assistant");
const jsonOf = (id: string, ...items: readonly ResponseItem[]) => JSON.stringify({ id, output: items });

/** A response with one item of input and one of output. */
function answer(number: number, changes: Partial<NewResponse> = {}): NewResponse {
  const id = `resp_${number}`;
  const previousId = number === 1 ? null : `resp_${number - 1}`;
  return { id, previousId, json: jsonOf(id, output(`out${number}`)), input: [message(`in${number}`)], ...changes };
}

describe("stored responses", () => {
  let clock: FakeClock;
  let store: ResponseStore;
  let errors: object[];
  const open = (changes: { store?: ResponseStore; secrets?: SecretBox } = {}) =>
    new StoredResponses({
      store,
      secrets: new SecretBox(Buffer.alloc(32, 1)),
      clock,
      now: () => clock.now(),
      keepMs,
      log: {
        debug() {},
        info() {},
        warn() {},
        error: (fields) => errors.push(fields),
      },
      ...changes,
    });

  beforeEach(() => {
    clock = new FakeClock();
    store = openMemoryState({ clock }).responses;
    errors = [];
  });

  const errorOf = async (attempt: Promise<unknown>): Promise<ServiceError> =>
    await attempt.then(
      () => Promise.reject(new Error("it did not fail")),
      (error: ServiceError) => error,
    );

  it("are returned byte for byte as they were answered, with their input (RSP-21)", async () => {
    const responses = open();
    const json = '{"id":"resp_1",\n "metadata":{"2":"b","1":"ä"}, "output":[]}';
    const input = [message("line\nbreak"), { id: "x", type: "function_call_output", output: "{}" }];
    expect(await responses.put(answer(1, { json, input }), accountA)).toBe(true);
    expect(await responses.get("resp_1", accountA)).toBe(json);
    expect(await responses.inputOf("resp_1", accountA)).toEqual(input);
  });

  it("of another account give the same error as those that never existed (SEC-22)", async () => {
    const responses = open();
    await responses.put(answer(1), accountA);
    const asB = await errorOf(responses.get("resp_1", accountB));
    for (const attempt of [
      responses.get("resp_1", callerOf("nobody")),
      responses.delete("resp_1", accountB),
      responses.inputOf("resp_1", accountB),
    ]) {
      const { code, message, param } = await errorOf(attempt);
      expect([code, message, param]).toEqual(["not_found", asB.message, null]);
    }
    for (const id of ["", "resp_", "resp_ä", "msg_1", "resp_1/..", `resp_${"a".repeat(9_000)}`]) {
      expect((await errorOf(responses.get(id, accountA))).code).toBe("not_found");
    }
    const continued = await errorOf(responses.itemsBefore("resp_1", 1, accountB));
    await responses.delete("resp_1", accountA);
    const unknown = await errorOf(responses.itemsBefore("resp_1", 1, accountB));
    expect([continued.code, continued.message]).toEqual([unknown.code, unknown.message]);
    expect(continued).toMatchObject({ code: "previous_response_not_found", param: "previous_response_id" });
  });

  it("cannot be read after their expiry, even before they are purged, nor after they were deleted (RSP-21, RSP-27)", async () => {
    const responses = open();
    await responses.put(answer(1), accountA);
    await responses.put(answer(2), accountA);
    await responses.delete("resp_2", accountA);
    expect((await errorOf(responses.get("resp_2", accountA))).code).toBe("not_found");
    clock.advance(keepMs - 1);
    expect(await responses.get("resp_1", accountA)).toContain("out1");
    clock.advance(1);
    expect(await store.get("a", "resp_1")).not.toBeNull();
    for (const attempt of [
      responses.get("resp_1", accountA),
      responses.delete("resp_1", accountA),
      responses.inputOf("resp_1", accountA),
    ]) {
      expect((await errorOf(attempt)).code).toBe("not_found");
    }
    expect((await errorOf(responses.itemsBefore("resp_1", 1, accountA))).code).toBe("previous_response_not_found");
  });

  it("are encrypted for their account and id (RSP-26, USE-16)", async () => {
    const responses = open();
    await responses.put(answer(1, { input: [message("a secret question")] }), accountA);
    const stored = await store.get("a", "resp_1");
    expect(JSON.stringify(stored)).not.toContain("secret");
    expect(Buffer.from(stored?.sealed ?? "", "base64").toString("latin1")).not.toContain("secret");
    if (stored === null) throw new Error("unreachable");
    await store.put({ ...stored, id: "resp_2" }, 10);
    expect((await errorOf(responses.get("resp_2", accountA))).code).toBe("not_found");
    const other = open({ secrets: new SecretBox(Buffer.alloc(32, 2)) });
    expect((await errorOf(other.get("resp_1", accountA))).code).toBe("not_found");
    expect(errors).toMatchObject([{ response: "resp_2" }, { response: "resp_1" }]);
  });

  it("continue each other: all earlier items stand before the new input, the oldest first (RSP-23)", async () => {
    const responses = open();
    for (let number = 1; number <= 150; number += 1) await responses.put(answer(number), accountA);
    const items = await responses.itemsBefore("resp_3", 1, accountA);
    expect(items).toEqual([1, 2, 3].flatMap((number) => [message(`in${number}`), output(`out${number}`)]));
    expect(await responses.itemsBefore("resp_150", 1, accountA)).toHaveLength(300);
    expect(await responses.inputOf("resp_2", accountA)).toEqual([message("in1"), output("out1"), message("in2")]);
  });

  it("cannot be continued if an earlier one is missing, which the error names; their input lists the items that are still stored (RSP-22, RSP-23)", async () => {
    const responses = open();
    for (const number of [1, 2, 3]) await responses.put(answer(number), accountA);
    await responses.delete("resp_1", accountA);
    const error = await errorOf(responses.itemsBefore("resp_3", 1, accountA));
    expect([error.code, error.param]).toEqual(["previous_response_not_found", "previous_response_id"]);
    expect(error.message).toContain('"resp_1"');
    expect(await responses.inputOf("resp_3", accountA)).toEqual([message("in2"), output("out2"), message("in3")]);
  });

  it("have at most 1,000 items in a conversation, with the new input (RSP-23)", async () => {
    const responses = open();
    const input = Array.from({ length: conversationItemsMax - 4 }, (_, number) => message(String(number)));
    await responses.put(answer(1, { input }), accountA);
    await responses.put(answer(2), accountA);
    expect(await responses.itemsBefore("resp_2", 1, accountA)).toHaveLength(conversationItemsMax - 1);
    const error = await errorOf(responses.itemsBefore("resp_2", 2, accountA));
    expect([error.code, error.param]).toEqual(["array_above_max_length", "previous_response_id"]);
    expect(error.message).toContain("1000 items");
  });

  it("have at most 12 MiB in a conversation", async () => {
    const responses = open();
    // The item's id contains the text too, so each response has about a megabyte.
    const input = [message("a".repeat(520_000))];
    for (let number = 1; number <= 13; number += 1) await responses.put(answer(number, { input }), accountA);
    expect(await responses.itemsBefore("resp_12", 1, accountA)).toHaveLength(24);
    const error = await errorOf(responses.itemsBefore("resp_13", 1, accountA));
    expect(error.message).toContain("12 MiB");
  });

  it("are not stored above 1 MiB in UTF-8 (RSP-20)", async () => {
    const bytesOf = ({ input, json }: NewResponse) => Buffer.byteLength(`${JSON.stringify(input)}\n${json}`);
    const sized = (letters: number) => answer(1, { input: [message("ä".repeat(letters))] });
    // The letter is in the text and in the id of the item, with two bytes each.
    const most = Math.floor((responseBytesMax - bytesOf(sized(0))) / 4);
    expect(bytesOf(sized(most))).toBeGreaterThan(responseBytesMax - 4);
    const responses = open();
    expect(await responses.put(sized(most + 1), accountA)).toBe(false);
    expect(await responses.put(sized(most), accountA)).toBe(true);
    expect(errors).toEqual([]);
  });

  it("are not stored while the store fails, then tried every 200 ms, and the log has one line (RSP-20)", async () => {
    let calls = 0;
    let fails = true;
    const put: ResponseStore["put"] = async (...args) => {
      calls += 1;
      if (fails) throw new ServiceError("storage_unavailable", "The store cannot be used.");
      await store.put(...args);
    };
    const responses = open({ store: { ...store, put } });
    for (let number = 1; number <= 9; number += 1) expect(await responses.put(answer(number), accountA)).toBe(false);
    expect([calls, errors.length]).toEqual([3, 1]);
    clock.advance(200);
    for (let number = 1; number <= 2; number += 1) expect(await responses.put(answer(number), accountA)).toBe(false);
    expect([calls, errors.length]).toEqual([4, 1]);
    fails = false;
    clock.advance(200);
    for (let number = 1; number <= 2; number += 1) expect(await responses.put(answer(number), accountA)).toBe(true);
    expect(errors).toHaveLength(1);
  });

  it("wait for a slow store up to a bound, beyond which they are not stored", async () => {
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const responses = open({ store: { ...store, put: () => released } });
    const input = [message("a".repeat(500_000))];
    const outcomes = Array.from({ length: 80 }, (_, number) => responses.put(answer(number + 1, { input }), accountA));
    release();
    const stored = await Promise.all(outcomes);
    expect(stored.indexOf(false)).toBe(67);
    expect(stored.slice(67)).toEqual(Array(13).fill(false));
    clock.advance(200);
    expect(await responses.put(answer(1, { input }), accountA)).toBe(true);
    expect(errors).toHaveLength(1);
  });
});
