import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { eventually } from "../../support/eventually.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { type RunningService, startService } from "../../support/start-service.js";

type Json = Record<string, unknown>;

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
let service: RunningService;
let receiver: Receiver;
let env: Record<string, string>;

beforeAll(async () => {
  receiver = await startReceiver();
  const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], retry_delays: ["1h"] };
  service = await startService({ config: { webhooks } });
  env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
});

afterAll(async () => {
  await service.close();
  await receiver.close();
});

async function json<T = Json>(args: readonly string[], code = 0): Promise<T> {
  const result = await uis(["webhooks", ...args, "--json"], { env });
  expect(result.stderr).toBe("");
  expect(result.code).toBe(code);
  return JSON.parse(result.stdout) as T;
}

const add = (...more: readonly string[]) =>
  json(["add", "--url", receiver.url, "--events", "request.completed,request.failed", ...more]);

describe("uis webhooks, endpoints", () => {
  it("creates an endpoint, shows its secret once, lists the same object as REST, and deletes it (WH-2, WH-6)", async () => {
    const { secret, ...made } = await add("--description", "Bücher");
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(made).toMatchObject({ object: "webhook_endpoint", account: "default", description: "Bücher" });
    expect(await json<Json[]>(["list"])).toEqual([made]);
    const headers = { authorization: `Bearer ${service.key}` };
    const rest = await fetch(`${service.api}/webhooks/${String(made["id"])}`, { headers });
    expect(made).toMatchObject((await rest.json()) as Json);
    expect((await uis(["webhooks", "list"], { env })).stdout).toContain(receiver.url);

    const id = String(made["id"]);
    expect(await json(["rm", id])).toEqual({ id, object: "webhook_endpoint", deleted: true });
    expect(await json<Json[]>(["list"])).toEqual([]);
    const gone = await uis(["webhooks", "rm", id], { env });
    expect(gone).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(/^uis: .+\n$/) });
  });

  it("lists only the endpoints of the given account", async () => {
    const { id } = await add("--account", "team-a");
    expect(await json<Json[]>(["list"])).toEqual([]);
    expect(await json<Json[]>(["list", "--account", "team-a"])).toMatchObject([{ id, account: "team-a" }]);
    await json(["rm", String(id), "--account", "team-a"]);
  });

  it("rotates the secret, with a chosen overlap (WH-7)", async () => {
    const { id, secret } = await add();
    const { secret: next, ...shown } = await json(["rotate", String(id), "--overlap", "1h"]);
    expect(next).not.toBe(secret);
    expect(shown).toMatchObject({ id, previous_secret_expires_at: time, secret_hint: String(next).slice(-4) });
    const restMs = Date.parse(String(shown["previous_secret_expires_at"])) - Date.now();
    expect(Math.abs(restMs - 3_600_000)).toBeLessThan(60_000);
    expect((await uis(["webhooks", "rotate", String(id), "--overlap", "soon"], { env })).code).toBe(2);
    await json(["rm", String(id)]);
  });

  it("sends a sample and shows the response; exits 1 if it was rejected (WH-49)", async () => {
    const { id } = await add();
    receiver.answerWith({ status: 202, body: "noted" });
    const taken = await json(["test", String(id)]);
    expect(taken).toMatchObject({ delivered: true, status: 202, error: null, response: "noted" });
    expect(taken["event"]).toMatchObject({ type: "request.completed", test: true });
    receiver.answerWith({ status: 503 });
    expect(await json(["test", String(id)], 1)).toMatchObject({ delivered: false, status: 503 });
    const text = await uis(["webhooks", "test", String(id)], { env });
    expect(text).toMatchObject({ code: 1, stdout: expect.stringMatching(/^not delivered: 503 after \d+ ms\n/) });
    await json(["rm", String(id)]);
  });

  it("explains an invalid address or event", async () => {
    const bad = ["webhooks", "add", "--url", "https://10.0.0.1/", "--events", "request.completed"];
    expect(await uis(bad, { env })).toMatchObject({ code: 1, stderr: expect.stringContaining("not public") });
    const unknown = ["webhooks", "add", "--url", receiver.url, "--events", "request.started"];
    expect(await uis(unknown, { env })).toMatchObject({ code: 1, stderr: expect.stringContaining("events") });
  });
});

describe("uis webhooks, deliveries", () => {
  const deliveriesOf = (endpoint: string, ...more: readonly string[]) =>
    json<Json[]>(["deliveries", "--endpoint", endpoint, ...more]);

  async function chat(): Promise<void> {
    const response = await fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "test-chat", messages: [{ role: "user", content: "Hi" }] }),
    });
    expect(response.status).toBe(200);
    await response.text();
  }

  /** The only delivery of the endpoint, once it is in that state. */
  async function reaches(endpoint: string, state: string): Promise<Json> {
    await expect.poll(() => deliveriesOf(endpoint, "--state", state), { timeout: 20_000 }).toHaveLength(1);
    const [delivery] = await deliveriesOf(endpoint);
    return delivery ?? {};
  }

  it("lists deliveries, retries one and replays several (WH-45, WH-46, WH-47, WH-48)", async () => {
    receiver.answerWith({ status: 500, body: "no" });
    const id = String((await add())["id"]);
    await chat();
    const waiting = await reaches(id, "awaiting_retry");
    expect(waiting).toMatchObject({
      id: expect.stringMatching(/^dlv_[0-9a-f]{32}$/),
      event_id: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
      event_type: "request.completed",
      endpoint_id: id,
      reason: null,
      attempts_made: 1,
      next_attempt_at: time,
      created_at: time,
      purged: false,
      replay_id: null,
    });
    const attempt = {
      number: 1,
      trigger: "schedule",
      by: null,
      status: 500,
      error: null,
      ip: "127.0.0.1",
    };
    expect(waiting["attempts"]).toEqual([
      { ...attempt, started_at: time, latency_ms: expect.any(Number), retry_after: null, next_attempt_at: time },
    ]);

    const delivery = String(waiting["id"]);
    const { event, ...inspected } = await json(["inspect", delivery]);
    expect(event).toMatchObject({ id: waiting["event_id"], type: "request.completed" });
    expect(inspected).toMatchObject(waiting);
    expect(inspected["attempts"]).toMatchObject([{ response: "no" }]);
    const shown = await uis(["webhooks", "inspect", delivery], { env });
    expect(shown.stdout).toMatch(/\n {2}1 .+ schedule {2}500 after \d+ ms\n {5}no\n\{"id":"evt_/);

    expect(await json(["retry", delivery])).toMatchObject({ id: delivery });
    const failed = await reaches(id, "permanently_failed");
    expect(failed).toMatchObject({ reason: "retries_used_up", attempts_made: 2, next_attempt_at: null });
    expect((failed["attempts"] as Json[])[1]).toMatchObject({ number: 2, trigger: "manual", by: "admin_token" });

    receiver.answerWith({ status: 200 });
    await json(["retry", delivery, "--restart"]);
    expect(await reaches(id, "delivered")).toMatchObject({ reason: null, attempts_made: 3 });
    const refused = await uis(["webhooks", "retry", delivery], { env });
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    await json(["retry", delivery, "--again"]);
    await expect
      .poll(async () => (await deliveriesOf(id))[0], { timeout: 20_000 })
      .toMatchObject({
        state: "delivered",
        attempts_made: 4,
      });

    const replay = ["replay", id, "--from", "2020-01-01"];
    expect(await json(replay)).toMatchObject({ replay_id: expect.any(String), queued: 0, created_before: time });
    expect(await json([...replay, "--all"])).toMatchObject({ queued: 1 });
    await expect.poll(() => json([...replay, "--all"]), { timeout: 20_000 }).toMatchObject({ queued: 0, delivered: 1 });
    expect((await deliveriesOf(id))[0]).toMatchObject({ attempts_made: 5, replay_id: expect.any(String) });
    const text = await uis(["webhooks", "deliveries", "--endpoint", id], { env });
    expect(text.stdout).toMatch(/ delivered +5 +200\n$/);
    await json(["rm", id]);
  });

  it("lists the newest deliveries, and reports if there are more than the limit", async () => {
    const id = String((await add())["id"]);
    for (let i = 0; i < 3; i += 1) await chat();
    await eventually(async () => (await deliveriesOf(id)).length === 3, "each chat has its delivery");
    const some = await uis(["webhooks", "deliveries", "--endpoint", id, "--limit", "2", "--json"], { env });
    expect(JSON.parse(some.stdout)).toHaveLength(2);
    expect(some.stderr).toContain("--limit");
    await json(["rm", id]);
  });

  it("prints which command helps if there is no delivery or endpoint", async () => {
    const filtered = await uis(["webhooks", "deliveries", "--account", "team-none"], { env });
    expect(filtered).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("lists all of them") });
    const fresh = await startService();
    const ofFresh = { UIS_URL: fresh.http, UIS_DATA_DIR: fresh.dataDir };
    const none = await uis(["webhooks", "deliveries"], { env: ofFresh });
    const endpoints = await uis(["webhooks", "list"], { env: ofFresh });
    await fresh.close();
    for (const answer of [none, endpoints]) {
      expect(answer).toMatchObject({
        code: 0,
        stdout: "",
        stderr: expect.stringMatching(/^.*uis webhooks add.*\n$/),
      });
    }
  });

  it("exits 2 for invalid states, times and limits", async () => {
    for (const args of [
      ["deliveries", "--state", "lost"],
      ["deliveries", "--limit", "0"],
      ["replay", "we_1", "--from", "1h"],
    ]) {
      expect((await uis(["webhooks", ...args], { env })).code).toBe(2);
    }
  });
});
