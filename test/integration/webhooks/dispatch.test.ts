import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { afterEach, describe, expect, it } from "vitest";
import { version } from "../../../src/contract/version.js";
import { event } from "../../suites/delivery-records.js";
import { eventually } from "../../support/eventually.js";
import { refusingPort } from "../../support/receivers/listener.js";
import { type Receiver, type ReceiverOptions, startReceiver } from "../../support/receivers/receiver.js";
import { drivers, type RunningDispatch, secret, startDispatch } from "./running-dispatch.js";

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const part of opened.splice(0).reverse()) await part.close();
});

async function receiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const started = await startReceiver(options);
  opened.push(started);
  return started;
}

describe.each(drivers)("a dispatcher over %s", (driver) => {
  async function dispatch(changes: Parameters<typeof startDispatch>[1] = {}): Promise<RunningDispatch> {
    const started = await startDispatch(driver, changes);
    opened.push(started);
    return started;
  }

  it("posts the bytes of the event, signed for the attempt in both formats (WH-12, WH-15, WH-18)", async () => {
    const { url, requests } = await receiver({ answer: (_, before) => ({ status: before === 0 ? 500 : 204 }) });
    const { insert, emit, ended } = await dispatch();
    await insert("we_a", url);
    const [id = ""] = await emit("we_a", 1);
    const delivery = await ended(id);
    expect(requests).toHaveLength(2);
    for (const [i, { method, headers, rawBody, arrivedAtMs }] of requests.entries()) {
      expect(method).toBe("POST");
      expect(rawBody.toString()).toBe(event(0).body);
      expect(headers).toMatchObject({
        "content-type": "application/json",
        "user-agent": `UnifiedInference/${version}`,
        "service-delivery-id": id,
        "service-attempt": String(i + 1),
        "webhook-id": delivery.eventId,
      });
      const signature = String(headers["service-signature"]);
      const timestampS = Number(/^t=(\d+),/.exec(signature)?.[1]);
      expect(Math.abs(arrivedAtMs / 1_000 - timestampS)).toBeLessThan(5);
      expect(Stripe.webhooks.constructEvent(rawBody, signature, secret)).toMatchObject({ id: "evt_0" });
      const standard = new Webhook(secret).verify(rawBody, headers as Record<string, string>);
      expect(standard).toMatchObject({ id: "evt_0" });
    }
    expect(delivery.attempts.map(({ status }) => status)).toEqual([500, 204]);
  });

  it("retries after every response other than 2xx, records each attempt, and stops after the last retry (WH-19, WH-44)", async () => {
    const answers = [{ status: 302, headers: { location: "/" } }, "reset", "random bytes", { status: 429 }] as const;
    const { url } = await receiver({
      answer: ({ headers }) => answers[Number(headers["service-attempt"]) - 1] ?? { status: 200 },
    });
    const { insert, emit, ended, ends } = await dispatch();
    await insert("we_a", url);
    const [id = ""] = await emit("we_a", 1);
    const delivery = await ended(id);
    expect(delivery).toMatchObject({ state: "permanently_failed", reason: "retries_used_up", attemptsMade: 4 });
    expect(delivery.attempts).toMatchObject([
      { number: 1, status: 302, error: null, ip: "127.0.0.1" },
      { number: 2, status: null, error: "reset" },
      { number: 3, status: null, error: "bad_response" },
      { number: 4, status: 429, error: null, nextAttemptAtMs: null },
    ]);
    expect(ends.map(({ answer }) => answer)).toEqual(["3xx", "reset", "bad_response", "4xx"]);
  });

  it("retries are never early and hardly late (WH-26)", async () => {
    const { url } = await receiver({
      answer: (request) => ({ status: request.headers["service-attempt"] === "1" ? 503 : 200 }),
    });
    const { insert, emit, ended, ends } = await dispatch({ retryDelaysMs: [400] });
    await insert("we_a", url, { maxInFlight: 64 });
    const deliveries = [];
    for (let batch = 0; batch < 10; batch++) deliveries.push(...(await emit("we_a", 10)));
    for (const id of deliveries) {
      const { attempts } = await ended(id);
      const [first, second] = attempts;
      if (first === undefined || second === undefined || first.nextAttemptAtMs === null)
        throw new Error("two attempts");
      expect(first.nextAttemptAtMs).toBeGreaterThanOrEqual(first.startedAtMs + first.latencyMs + 399);
      expect(second.startedAtMs).toBeGreaterThanOrEqual(first.nextAttemptAtMs);
    }
    const late = ends.map(({ latenessMs }) => latenessMs).sort((a, b) => a - b);
    expect(late[Math.floor(late.length * 0.99)]).toBeLessThan(5 * 250);
  });

  it("a hanging endpoint delays a healthy one by less than a second, at 300 deliveries each (WH-37)", async () => {
    const hanging = await receiver({ answer: "hang" });
    const good = await receiver();
    const { insert, emit, ends } = await dispatch({ budgetMs: 1_000 });
    await insert("we_hangs", hanging.url);
    await insert("we_good", good.url);
    await emit("we_good", 300);
    await good.until(300, 20_000);
    await eventually(() => ends.filter(({ effect }) => effect === "delivered").length === 300);
    const late = ends.filter(({ effect }) => effect === "delivered").map(({ latenessMs }) => latenessMs);
    expect(Math.max(...late)).toBeLessThan(5_000);
    expect(hanging.open).toBeLessThanOrEqual(8);
  });

  it("hanging or rejecting endpoints delay none of 18 healthy ones (REL-14, WH-37)", async () => {
    const hanging = await receiver({ answer: "hang" });
    const good = await receiver();
    const bad = { we_hangs: hanging.url, we_refuses: `http://127.0.0.1:${await refusingPort()}/` };
    const { insert, emit, ends } = await dispatch({ budgetMs: 1_000 });
    for (const [id, url] of Object.entries(bad)) await insert(id, url);
    const ids = Array.from({ length: 18 }, (_, number) => `we_good${number}`);
    for (const id of ids) await insert(id, good.url);
    const perEndpoint = 5;
    await emit(ids[0] ?? "", perEndpoint);
    await good.until(ids.length * perEndpoint, 20_000);
    await eventually(() => ends.filter(({ effect }) => effect === "delivered").length === ids.length * perEndpoint);
    const late = ends.filter(({ effect }) => effect === "delivered").map(({ latenessMs }) => latenessMs);
    expect(Math.max(...late)).toBeLessThan(5_000);
    await eventually(() => ends.some(({ effect }) => effect !== "delivered"), "a failed attempt");
  });

  it("closes within 6 s once attempts in flight have ended, and leaves the rest unchanged (WH-36)", async () => {
    const { url, requests, answerWith } = await receiver({ answer: { status: 200, afterMs: 300 } });
    const { insert, emit, dispatcher, state } = await dispatch();
    await insert("we_a", url, { maxInFlight: 4 });
    const ids = await emit("we_a", 12);
    await eventually(() => requests.length >= 4);
    const closing = performance.now();
    await dispatcher.close();
    expect(performance.now() - closing).toBeLessThan(6_000);
    answerWith({ status: 500 });
    const states = await Promise.all(ids.map(async (id) => (await state.deliveries.find(id))?.state));
    expect(states.filter((each) => each === "delivered")).toHaveLength(requests.length);
    expect(states.filter((each) => each === "pending")).toHaveLength(12 - requests.length);
    expect(dispatcher.inFlight).toBe(0);
  });
});

describe("a dispatcher over Redis", () => {
  it("continues within 5 s of its return, with stored deliveries and with new ones after it was emptied (WH-35)", async () => {
    const started = await startDispatch("redis", { retryDelaysMs: [1_000] });
    opened.push(started);
    const { redis, state, insert, emit, ended, dispatcher, ends } = started;
    if (redis === null) throw new Error("there is a server");
    let isReady = false;
    const { url, requests } = await receiver({ answer: () => ({ status: isReady ? 200 : 503 }) });
    await insert("we_a", url);
    const ids = await emit("we_a", 20);
    // A claim whose reply is lost with the server becomes due only after its lease.
    await eventually(() => ends.length === 20 && dispatcher.inFlight === 0, "the first attempts");
    await redis.kill();
    isReady = true;
    await eventually(async () => !(await state.health()).ok, "the outage");
    await redis.restart();
    const before = requests.length;
    await eventually(() => requests.length > before, "an attempt after the return", 5_000);
    await eventually(async () => (await state.health()).ok, "the store");
    for (const id of ids) expect((await ended(id)).state).toBe("delivered");

    await redis.cli("FLUSHALL");
    await redis.cli("SCRIPT", "FLUSH");
    await insert("we_b", url);
    const [id = ""] = await emit("we_b", 1);
    expect((await ended(id)).state).toBe("delivered");
    await eventually(() => dispatcher.inFlight === 0);
  });
});
