import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { version } from "../../../../src/contract/version.js";
import { SecretBox } from "../../../../src/lib/crypto.js";
import { verifyWebhook } from "../../../../src/lib/webhook-signature.js";
import { answered, Dispatching, day, scheduleMs, unanswered } from "./dispatch-fixture.js";

let dispatching: Dispatching;
beforeEach(() => {
  dispatching = new Dispatching();
});
afterEach(() => dispatching.close());

describe("an attempt", () => {
  it("has a signature that covers its own time, and contains its number (WH-15, WH-18)", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a", {}, ["whsec_bmV3"]);
    receivers.answer = () => answered(receivers.got.length < 3 ? 500 : 200);
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    for (const delayMs of scheduleMs) await dispatching.pass(delayMs);
    const { eventId } = await dispatching.find(id);
    expect(receivers.got).toHaveLength(3);
    for (const [i, { url, headers, body, budgetMs, atMs }] of receivers.got.entries()) {
      const timestampS = Math.floor(atMs / 1_000);
      expect(url).toBe("https://we_a.example/hook");
      expect(budgetMs).toBe(5_000);
      expect(body).toBe(await dispatching.state.deliveries.payload(id));
      expect(headers).toEqual({
        "content-type": "application/json",
        "user-agent": `UnifiedInference/${version}`,
        "service-signature": expect.stringMatching(new RegExp(`^t=${timestampS},v1=[0-9a-f]{64}$`)),
        "service-delivery-id": id,
        "service-attempt": String(i + 1),
        "webhook-id": eventId,
        "webhook-timestamp": String(timestampS),
        "webhook-signature": expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
      });
      const given = { secret: "whsec_bmV3", header: headers["service-signature"], body };
      expect(verifyWebhook({ ...given, nowS: timestampS })).toEqual({ valid: true, timestampS });
    }
    expect(new Set(receivers.got.map(({ headers }) => headers["service-signature"])).size).toBe(3);
  });

  it("is also signed with the old secret until that secret expires (WH-7, WH-16)", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a", {}, ["whsec_bmV3", "whsec_b2xk"]);
    await dispatching.startIdle();
    await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(day - 1_000);
    await dispatching.emit("we_a");
    await dispatching.soon();
    await dispatching.pass(1_000);
    await dispatching.emit("we_a");
    await dispatching.soon();
    const verdicts = receivers.got.map(({ headers, body, atMs }) => {
      const header = headers["service-signature"];
      const each = ["whsec_bmV3", "whsec_b2xk"].map(
        (secret) => verifyWebhook({ secret, header, body, nowS: atMs / 1_000 }).valid,
      );
      return [header?.split("v1=").length, headers["webhook-signature"]?.split(" ").length, ...each];
    });
    expect(verdicts).toEqual([
      [3, 2, true, true],
      [3, 2, true, true],
      [2, 1, true, false],
    ]);
  });

  it("is not signed with a secret that was replaced without an overlap (WH-7)", async () => {
    const { receivers, box } = dispatching;
    await dispatching.insert("we_a", {}, ["whsec_b2xk"]);
    receivers.answer = () => answered(500);
    await dispatching.startIdle();
    await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.change("we_a", {
      secrets: [{ sealed: box.seal("whsec_bmV3", "we_a"), hint: "bmV3", expiresAtMs: null }],
    });
    await dispatching.pass(30_000);
    const last = receivers.got.at(-1);
    const given = {
      header: last?.headers["service-signature"],
      body: last?.body ?? "",
      nowS: (last?.atMs ?? 0) / 1_000,
    };
    expect(receivers.got).toHaveLength(2);
    expect(verifyWebhook({ ...given, secret: "whsec_bmV3" }).valid).toBe(true);
    expect(verifyWebhook({ ...given, secret: "whsec_b2xk" }).valid).toBe(false);
  });

  it("sends nothing if the secret cannot be decrypted, and records that as the cause", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a");
    await dispatching.startIdle({ secrets: new SecretBox(Buffer.alloc(32, 8)) });
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    expect(receivers.got).toEqual([]);
    const delivery = await dispatching.find(id);
    expect(delivery).toMatchObject({
      state: "awaiting_retry",
      attempts: [{ error: "secret_unreadable", status: null }],
    });
    expect(dispatching.log.lines).toMatchObject([{ level: "error", fields: { endpoint: "we_a" } }]);
    expect(JSON.stringify(dispatching.log.lines)).not.toContain("whsec_");
  });

  it("is recorded with its time, its response and the time of the next attempt (WH-44)", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => receivers.after(1_200, unanswered("timeout"));
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    const startedAtMs = clock.now();
    await dispatching.now();
    expect((await dispatching.find(id)).state).toBe("delivery_attempted");
    await dispatching.pass(1_200);
    expect((await dispatching.find(id)).attempts).toEqual([
      {
        number: 1,
        trigger: "schedule",
        by: "",
        startedAtMs,
        latencyMs: 1_200,
        status: null,
        error: "timeout",
        ip: null,
        response: null,
        retryAfter: null,
        signatures: [expect.stringMatching(/^t=\d+,v1=[0-9a-f]{64}$/), expect.stringMatching(/^v1,/)],
        nextAttemptAtMs: startedAtMs + 1_200 + 30_000,
      },
    ]);
  });

  it("is not made after the endpoint was disabled or deleted (WH-30)", async () => {
    const { receivers, state } = dispatching;
    receivers.answer = () => answered(500);
    for (const id of ["we_a", "we_b"]) await dispatching.insert(id);
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    expect(receivers.got).toHaveLength(2);
    await dispatching.change("we_a", { status: "disabled", disabledReason: "by_hand" });
    await state.endpoints.remove("a", "we_b");
    await dispatching.now();
    await dispatching.pass(1_000);
    expect(await dispatching.find(id)).toMatchObject({ state: "permanently_failed", reason: "endpoint_disabled" });
    await dispatching.pass(day, 3_600_000);
    expect(receivers.got).toHaveLength(2);
  });

  it("is not made if the endpoint is disabled between the claim and the attempt (WH-30)", async () => {
    const { receivers, state } = dispatching;
    await dispatching.insert("we_a");
    const id = await dispatching.emit("we_a");
    dispatching.start({
      endpoints: {
        replace: (endpoint) => state.endpoints.replace(endpoint),
        async find(account, endpointId) {
          const kept = await state.endpoints.find(account, endpointId);
          if (kept?.record.status === "enabled") {
            await dispatching.change("we_a", { status: "disabled", disabledReason: "by_hand" });
          }
          return state.endpoints.find(account, endpointId);
        },
      },
    });
    await dispatching.now();
    await dispatching.pass(2_000, 100);
    expect(receivers.got).toEqual([]);
    const ended = { state: "permanently_failed", reason: "endpoint_disabled", attemptsMade: 0 };
    expect(await dispatching.find(id)).toMatchObject(ended);
  });
});

describe("metrics and logs of attempts", () => {
  it("report each attempt's effect, status, duration and lateness (WH-51)", async () => {
    const { receivers, ends } = dispatching;
    await dispatching.insert("we_a");
    await dispatching.emit("we_a");
    await dispatching.pass(400);
    const results = [unanswered("tls"), answered(302), answered(204)];
    receivers.answer = () => receivers.after(50, results[receivers.got.length - 1] ?? answered(200));
    dispatching.start();
    await dispatching.now();
    await dispatching.pass(50);
    await dispatching.pass(30_000);
    await dispatching.pass(50);
    await dispatching.pass(120_000);
    await dispatching.pass(50);
    expect(ends).toEqual([
      { effect: "awaiting_retry", answer: "tls", durationMs: 50, latenessMs: 400 },
      { effect: "awaiting_retry", answer: "3xx", durationMs: 50, latenessMs: 0 },
      { effect: "delivered", answer: "2xx", durationMs: 50, latenessMs: 0 },
    ]);
  });

  it("log permanent failures with their reason, but no secrets and no content", async () => {
    await dispatching.insert("we_a");
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.failForGood(id);
    const { eventId } = await dispatching.find(id);
    const fields = {
      delivery: id,
      endpoint: "we_a",
      event: eventId,
      attempt: 6,
      status: 500,
      reason: "retries_used_up",
    };
    expect(dispatching.log.lines).toMatchObject([{ level: "warn", fields }]);
    expect(JSON.stringify(dispatching.log.lines)).not.toMatch(/whsec_|quoted/);
  });

  it("a sender that throws unexpectedly does not stop the dispatcher", async () => {
    const { receivers, log } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => {
      if (receivers.got.length === 1) throw new Error("unheard of");
      return answered(200);
    };
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    expect(log.lines).toMatchObject([{ level: "error", fields: { delivery: id } }]);
    await dispatching.pass(16_000, 500);
    expect(await dispatching.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
  });
});
