import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, type Reply } from "./api.js";

const path = "/v1/webhooks";
/** An address that the settings allow, so that no DNS lookup is needed. Nothing is sent to it. */
const url = "https://127.0.0.1:9443/hook";
const wanted = { url, events: ["request.completed", "usage.threshold_reached"] };
const webhooks = { deliver: false, allow_private_cidrs: ["127.0.0.0/8"] };

let service: RunningService;
let api: Api;
beforeAll(async () => {
  service = await startService({ config: { webhooks } });
  api = createApi(service);
});
afterAll(() => service.close());

const readOnly = (): Record<string, string> => ({ authorization: `Bearer ${service.readKey}` });
const nobody = { authorization: "" };
const remove = (id: string, changes: Record<string, string> = {}) =>
  api.send("DELETE", `${path}/${id}`, undefined, { "content-type": "", ...changes });

async function make(fields: object = {}): Promise<Reply> {
  const reply = await api.post(path, { ...wanted, ...fields });
  expect([reply.status, reply.text]).toEqual([200, reply.text]);
  return reply;
}

describe("webhook endpoints over REST", () => {
  it("are created with a secret that no later response shows and no cache stores, read, listed and deleted (WH-1, WH-2, WH-6, E-18)", async () => {
    const { json: made, headers } = await make({ description: "Bücher 📚", max_in_flight: 3 });
    expect(headers.get("cache-control")).toBe("no-store");
    const { secret, ...shown } = made;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(shown).toEqual({
      id: expect.stringMatching(/^we_[0-9A-Za-z]{24}$/),
      object: "webhook_endpoint",
      ...wanted,
      description: "Bücher 📚",
      status: "enabled",
      disabled_reason: null,
      max_in_flight: 3,
      secret_hint: secret.slice(-4),
      previous_secret_expires_at: null,
      last_success_at: null,
      last_failure_at: null,
      failing_since: null,
      created_at: time,
      updated_at: time,
    });
    const got = await api.get(`${path}/${made.id}`);
    expect([got.status, got.json, got.headers.get("cache-control")]).toEqual([200, shown, null]);
    const listed = await api.get(path);
    expect([listed.status, listed.json]).toEqual([200, { object: "list", data: [shown] }]);
    const removed = await remove(made.id);
    expect([removed.status, removed.json]).toEqual([200, { id: made.id, object: "webhook_endpoint", deleted: true }]);
    expect((await api.get(path)).json.data).toEqual([]);
    for (const later of [got, listed, removed]) expect(later.text).not.toContain(secret.slice(6, -4));
    for (const reply of [await api.get(`${path}/${made.id}`), await remove(made.id)]) {
      expectError(reply, 404, "not_found", "id");
    }
  });

  it("a read key may read but not change, and a caller without a key may do neither (WH-3, KEY-7)", async () => {
    const { id } = (await make()).json;
    expect((await api.get(path, readOnly())).json.data).toHaveLength(1);
    expect((await api.get(`${path}/${id}`, readOnly())).json.id).toBe(id);
    // The body's content is not checked before the scope.
    for (const body of [JSON.stringify(wanted), "no json", "{}"]) {
      const refused = await api.send("POST", path, body, readOnly());
      expectError(refused, 403, "insufficient_permissions");
      expect(refused.json.error.type).toBe("permission_error");
      expectError(await api.send("POST", path, body, nobody), 401, "invalid_api_key");
    }
    expectError(await remove(id, readOnly()), 403, "insufficient_permissions");
    for (const reply of [
      await api.get(path, nobody),
      await api.get(`${path}/${id}`, nobody),
      await remove(id, nobody),
    ]) {
      expectError(reply, 401, "invalid_api_key");
    }
    expect((await remove(id)).status).toBe(200);
  });

  it.each([
    ["url", ""],
    ["url", "receiver.example/hook"],
    ["url", "http://receiver.example/hook"],
    ["url", "ftp://receiver.example/hook"],
    ["url", "https://user:word@receiver.example/hook"],
    ["url", "https://receiver.example/hook#part"],
    ["url", "https://receiver.example/a b"],
    ["url", `https://127.0.0.1:9443/${"a".repeat(2_048)}`],
    ["url", "https://10.0.0.1/hook"],
    ["url", "https://[::1]/hook"],
    ["url", "https://localhost/hook"],
    ["url", "https://169.254.169.254/latest"],
    ["url", "https://127.0.0.1:22/hook"],
    ["events", []],
    ["events", ["request.started"]],
    ["events", ["request.completed", "request.completed"]],
    ["status", "paused"],
    ["description", "one\ntwo"],
  ])("a bad %s is 400 invalid_value with that param: %j (WH-3, WH-4)", async (param, value) => {
    expectError(await api.post(path, { ...wanted, [param]: value }), 400, "invalid_value", param);
  });

  it.each([
    ["url", undefined, "missing_required_parameter", "url"],
    ["url", null, "missing_required_parameter", "url"],
    ["url", 7, "invalid_type", "url"],
    ["events", undefined, "missing_required_parameter", "events"],
    ["events", "request.completed", "invalid_type", "events"],
    ["events", ["request.failed", 7], "invalid_type", "events[1]"],
    ["description", 7, "invalid_type", "description"],
    ["description", "a".repeat(257), "string_above_max_length", "description"],
    ["status", true, "invalid_type", "status"],
    ["max_in_flight", 0, "integer_below_min_value", "max_in_flight"],
    ["max_in_flight", 65, "integer_above_max_value", "max_in_flight"],
    ["max_in_flight", 1.5, "invalid_type", "max_in_flight"],
    ["max_in_flight", "8", "invalid_type", "max_in_flight"],
  ] as const)("%s %j is %s at %s (WH-3)", async (field, value, code, param) => {
    expectError(await api.post(path, { ...wanted, [field]: value }), 400, code, param);
    expect((await api.get(path)).json.data).toEqual([]);
  });

  it("a URL of 2,048 characters is stored unchanged, a longer one is rejected (WH-4)", async () => {
    const longest = `${url}/${"a".repeat(2_048 - url.length - 1)}`;
    const { json } = await make({ url: longest });
    expect([json.url, json.url.length]).toEqual([longest, 2_048]);
    await remove(json.id);
    expectError(await api.post(path, { ...wanted, url: `${longest}a` }), 400, "invalid_value", "url");
  });

  it("a host whose name does not resolve within two seconds is accepted (WH-1)", async () => {
    const { json } = await make({ url: "https://nobody-has-this-name.invalid/hook" });
    expect(json.status).toBe("enabled");
    await remove(json.id);
  });

  it("an account has at most 20 endpoints; one more is 400 until another is deleted (WH-4)", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) ids.push((await make()).json.id);
    const refused = await api.post(path, wanted);
    expectError(refused, 400, "invalid_value");
    expect(refused.json.error.message).toContain("webhooks.endpoints_max");
    // Oldest first.
    expect((await api.get(path)).json.data.map(({ id }: { id: string }) => id)).toEqual(ids);
    await remove(ids.pop() ?? "");
    ids.push((await make()).json.id);
    for (const id of ids) await remove(id);
  });

  it("the body is validated like any other, after the method and the media type (GEN-6, ERR-13)", async () => {
    expectError(await api.send("POST", path, "{"), 400, "invalid_json");
    expectError(await api.send("POST", path, "[]"), 400, "invalid_type");
    const form = { "content-type": "text/plain" };
    expectError(await api.send("POST", path, JSON.stringify(wanted), form), 415, "unsupported_media_type");
    expectError(await api.send("PUT", path, "{"), 405, "method_not_allowed");
  });

  it("unknown fields are ignored, and each name is logged once (GEN-10, DEC-9)", async () => {
    for (let i = 0; i < 2; i++)
      await remove((await make({ secret: "whsec_mine", account: "other", novelty: 1 })).json.id);
    const noted = service.logs.filter((line) => line["path"] === path).map((line) => line["field"]);
    expect(noted.toSorted()).toEqual(["account", "novelty", "secret"]);
  });

  it.each([
    ["PUT", path, "POST, GET, HEAD"],
    ["DELETE", path, "POST, GET, HEAD"],
    ["POST", `${path}/we_1`, "GET, DELETE, HEAD"],
    ["PATCH", `${path}/we_1`, "GET, DELETE, HEAD"],
  ])(
    "%s %s is 405 with the allowed methods, also for a key that may only read (ERR-13)",
    async (method, at, allowed) => {
      for (const changes of [{}, readOnly()]) {
        const reply = await api.send(method, at, undefined, changes);
        expectError(reply, 405, "method_not_allowed");
        expect(reply.headers.get("allow")).toBe(allowed);
      }
      expectError(await api.send(method, at, undefined, nobody), 401, "invalid_api_key");
    },
  );

  it("any path that is not an id of this account is the same 404 (SEC-22)", async () => {
    const ids = [`we_${"0".repeat(24)}`, "we_1", "", "..%2Fdefault", "%00", "a/b", "default", "🙂", "a".repeat(5_000)];
    const told = new Set<string>();
    for (const id of ids) {
      for (const reply of [await api.get(`${path}/${id}`), await remove(id)]) {
        expectError(reply, 404, "not_found", "id");
        told.add(reply.text);
      }
    }
    expect(told.size).toBe(1);
    expectError(await api.get(`${path}/%zz`), 400, "invalid_value");
  });
});
