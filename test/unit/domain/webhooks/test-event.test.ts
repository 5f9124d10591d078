import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { eventTypes } from "../../../../src/domain/events/events.js";
import { SecretBox } from "../../../../src/lib/crypto.js";
import { verifyWebhook } from "../../../../src/lib/webhook-signature.js";
import { administrator, answered, keyCaller, openEndpoints, wanted } from "./endpoints-fixture.js";

const a = keyCaller("a");
const own = (id: string) => ({ id, account: "" });

describe("a test event", () => {
  it("is one signed sample of the first event type, sent within the attempt timeout, and returns the result (WH-49)", async () => {
    const { endpoints, sent, clock } = openEndpoints();
    const { endpoint, secret } = await endpoints.create(wanted(), a);
    const outcome = await endpoints.sendTestEvent(own(endpoint.id), "", a);
    expect(outcome).toMatchObject({ isDelivered: true, result: { status: 200, error: null } });
    expect(sent).toHaveLength(1);
    const [request] = sent;
    expect(request).toMatchObject({ url: endpoint.url, budgetMs: 5_000, body: outcome.payload });
    const header = request?.headers["service-signature"];
    expect(verifyWebhook({ secret, header, body: outcome.payload, nowS: clock.now() / 1_000 }).valid).toBe(true);
    const event = JSON.parse(outcome.payload) as Record<string, unknown>;
    expect(event).toMatchObject({ type: "request.completed", test: true });
    expect(event["created_at"]).toBe(new Date(clock.now()).toISOString());
    expect(request?.headers["webhook-id"]).toBe(event["id"]);
    expect(event["id"]).toMatch(/^evt_[0-9a-f]{32}$/);
  });

  it.each(eventTypes)("has the fields of a real %s, and an id that is new each time (WH-49)", async (type) => {
    const { endpoints } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted({ events: eventTypes }), a);
    const told = [
      await endpoints.sendTestEvent(own(endpoint.id), type, a),
      await endpoints.sendTestEvent(own(endpoint.id), type, a),
    ].map(({ payload }) => JSON.parse(payload) as { id: string; type: string; data: object; test: boolean });
    expect(new Set(told.map(({ id }) => id)).size).toBe(2);
    for (const event of told) {
      expect(Object.keys(event)).toEqual(["id", "type", "created_at", "data", "test"]);
      expect(event).toMatchObject({ type, test: true });
    }
    const fields = Object.keys(told[0]?.data ?? {});
    expect(fields).toContain(type === "usage.threshold_reached" ? "threshold_id" : "request_id");
  });

  it("creates no delivery and leaves the endpoint's health unchanged (WH-49)", async () => {
    const { endpoints, state, hand } = openEndpoints();
    hand.answer = async () => ({ ...answered, status: 500 });
    const { endpoint } = await endpoints.create(wanted(), a);
    const outcome = await endpoints.sendTestEvent(own(endpoint.id), "request.failed", a);
    expect(outcome).toMatchObject({ isDelivered: false, result: { status: 500 } });
    expect(await endpoints.get(own(endpoint.id), a)).toEqual(endpoint);
    expect(await state.deliveries.due()).toBe(0);
  });

  it("is rejected for an event type that the endpoint does not receive or that does not exist (WH-49)", async () => {
    const { endpoints, sent } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted({ events: ["request.failed"] }), a);
    for (const type of ["request.completed", "request.started"]) {
      const refusal = { code: "invalid_value", param: "event_type" };
      await expect(endpoints.sendTestEvent(own(endpoint.id), type, a)).rejects.toMatchObject(refusal);
    }
    expect(sent).toEqual([]);
  });

  it("returns the receiver's response only to the administrator (WH-43)", async () => {
    const { endpoints } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    const toKey = await endpoints.sendTestEvent(own(endpoint.id), "", a);
    expect(toKey.result.response).toBeNull();
    expect(JSON.stringify(toKey)).not.toContain("thank you");
    const toAdministrator = await endpoints.sendTestEvent({ id: endpoint.id, account: "a" }, "", administrator);
    expect(toAdministrator.result.response).toBe("thank you");
  });

  it("is signed with every secret that still signs (WH-7)", async () => {
    const { endpoints, sent, clock } = openEndpoints();
    const { endpoint, secret: old } = await endpoints.create(wanted(), a);
    const { secret } = await endpoints.rotate(own(endpoint.id), 60_000, a);
    await endpoints.sendTestEvent(own(endpoint.id), "", a);
    clock.advance(60_000);
    await endpoints.sendTestEvent(own(endpoint.id), "", a);
    const nowS = clock.now() / 1_000;
    const verified = sent.map(({ headers, body }) =>
      [secret, old].map(
        (each) => verifyWebhook({ secret: each, header: headers["service-signature"], body, nowS }).valid,
      ),
    );
    expect(verified).toEqual([
      [true, true],
      [true, false],
    ]);
  });

  it("is not sent if the secret cannot be decrypted, and is sent again after a rotation (USE-16)", async () => {
    const { endpoints, state, sent } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    const kept = await state.endpoints.find("a", endpoint.id);
    if (kept === null) throw new Error("the endpoint is missing");
    const sealed = new SecretBox(randomBytes(32)).seal("whsec_", endpoint.id);
    const secrets = [{ sealed, hint: "", expiresAtMs: null }];
    await state.endpoints.replace({ ...kept.record, secrets, version: kept.record.version + 1 });
    const outcome = await endpoints.sendTestEvent(own(endpoint.id), "", a);
    expect(outcome).toMatchObject({ isDelivered: false, result: { error: "secret_unreadable", status: null } });
    expect(sent).toEqual([]);
    await endpoints.rotate(own(endpoint.id), null, a);
    expect((await endpoints.sendTestEvent(own(endpoint.id), "", a)).isDelivered).toBe(true);
  });

  it("can run only once at a time per endpoint, whatever the result", async () => {
    const { endpoints, hand } = openEndpoints();
    const { endpoint } = await endpoints.create(wanted(), a);
    let end = (_: Error): void => {};
    let begun = (): void => {};
    const reached = new Promise<void>((resolve) => {
      begun = resolve;
    });
    hand.answer = () =>
      new Promise((_, reject) => {
        end = reject;
        begun();
      });
    const first = endpoints.sendTestEvent(own(endpoint.id), "", a);
    await reached;
    await expect(endpoints.sendTestEvent(own(endpoint.id), "", a)).rejects.toMatchObject({ code: "conflict" });
    end(new Error("broken"));
    await expect(first).rejects.toThrow("broken");
    hand.answer = async () => answered;
    expect((await endpoints.sendTestEvent(own(endpoint.id), "", a)).isDelivered).toBe(true);
  });
});
