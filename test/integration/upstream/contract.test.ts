import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { answerBytes, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { done, finish, text } from "../../support/upstream/test-upstream.js";
import { WebhookInbox, webhooksHere } from "../service/webhook-inbox.js";

const key = "key-of-this-test";
const adminToken = "administrator-of-this-test";
const limit = 20;
/** Usage that the upstream states for each answer. The service's own estimate would be very different. */
const usage = { prompt_tokens: 70, completion_tokens: 30 };
const totalTokens = usage.prompt_tokens + usage.completion_tokens;

/** Models that the upstream answers, each with a limit of its own. */
const limits = {
  requests: { requests_per_minute: limit },
  tokens: { tokens_per_minute: 5 * totalTokens },
  "concurrent-hangs": { concurrency: 4 },
};

let redis: RedisServer;
let upstream: RawUpstream;
let folders: readonly ServiceFolder[];
let inbox: WebhookInbox;
let services: readonly ServiceProcess[];

/** Two service processes on one Redis, with models of one upstream; `fails` has three deployments. */
beforeAll(async () => {
  redis = await startRedis();
  inbox = await WebhookInbox.open({ answer: () => ({ status: 204 }) });
  upstream = await RawUpstream.start((socket, { method, body }) => {
    if (method !== "POST") socket.end(answerBytes("200 OK", "application/json", '{"data":[]}'));
    else if (body.includes('hangs"')) socket.write(streamHead + text("one"));
    else if (body.includes('"model":"fails"')) socket.end(answerBytes("500 Internal Server Error", "text/plain", "no"));
    else socket.end(streamHead + text("one") + finish + sse({ choices: [], usage }) + done);
  });
  const names = ["a", "b", "c"];
  const deployment = (name: string, model: string) => ({ engine: "openai", upstream: name, model });
  const config = {
    webhooks: webhooksHere,
    rate_limits: { models: limits },
    upstreams: Object.fromEntries(names.map((name) => [name, { url: upstream.url, kind: "generic", discover: "off" }])),
    models: [
      ...["answers", "hangs", ...Object.keys(limits)].map((id) => ({ id, ...deployment("a", id) })),
      { id: "fails", deployments: names.map((name) => deployment(name, "fails")) },
    ],
  };
  const env = {
    ...{ REDIS_URL: redis.url, UIS_MASTER_KEY: randomBytes(32).toString("base64") },
    ...{ UIS_BOOTSTRAP_API_KEY: key, UIS_ADMIN_TOKEN: adminToken },
  };
  folders = await Promise.all([ServiceFolder.create(), ServiceFolder.create()]);
  services = await Promise.all(folders.map((folder) => folder.start(config, { env })));
});
afterAll(async () => {
  await Promise.all(folders.map((folder) => folder.remove()));
  await inbox.close();
  await upstream.close();
  await redis.remove();
});
beforeEach(() => {
  upstream.requests.length = 0;
});

/** A client of each service. */
const clients = (secret = key): readonly ServiceClient[] => services.map(({ http }) => new ServiceClient(http, secret));

const statuses = (answers: readonly ClientAnswer[]): Record<number, number> => {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

describe("two service processes on one Redis and one upstream", () => {
  it("admit exactly the limit of requests (REL-16)", async () => {
    const answers = await Promise.all(
      clients().flatMap((client) => Array.from({ length: limit }, () => client.chat("requests"))),
    );
    expect(statuses(answers)).toEqual({ 200: limit, 429: limit });
    expect(upstream.requests.filter(({ method }) => method === "POST")).toHaveLength(limit);
  });

  it("count the tokens that the upstream states toward the limit that they share (REL-16)", async () => {
    const all = clients();
    const answers: ClientAnswer[] = [];
    for (let sent = 0; sent < 8; sent++) {
      // The estimate before the answer is smaller: 5 tokens and the prompt.
      const answer = await all[sent % 2]?.chat("tokens", { max_tokens: 5 });
      if (answer !== undefined) answers.push(answer);
    }
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
    expect(upstream.requests.filter(({ method }) => method === "POST")).toHaveLength(5);
  });

  it("run exactly the limit of concurrent streams (REL-16)", async () => {
    const leave = new AbortController();
    const open = Array.from({ length: 12 }, async (_, at) => {
      const response = await fetch(`${services[at % 2]?.http}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "concurrent-hangs", stream: true, messages: [{ role: "user", content: "Hi" }] }),
        signal: leave.signal,
      });
      return response.status;
    });
    const seen = await Promise.all(open);
    expect([seen.filter((status) => status === 200).length, seen.filter((status) => status === 429).length]).toEqual([
      4, 8,
    ]);
    leave.abort();
    await eventually(() => upstream.isIdle, "the closed connections at the upstream");
  });

  it("end the streams of a revoked key, and their requests at the upstream, within a second (KEY-9)", async () => {
    const administrator = new ServiceClient(services[0]?.http ?? "", adminToken);
    const made = await administrator.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", {
      name: "revoked",
      scope: "SCOPE_READ_WRITE",
    });
    const { id } = made.json["apiKey"] as { id: string };
    const streams = clients(String(made.json["secret"])).flatMap((client) => [
      client.chat("hangs", { stream: true }),
      client.chat("hangs"),
    ]);
    await eventually(() => upstream.requests.filter(({ method }) => method === "POST").length === 4, "four requests");
    const revokedAtMs = performance.now();
    const ended = streams.map(async (stream) => ({ ...(await stream), afterMs: performance.now() - revokedAtMs }));
    await administrator.rpc("unified.admin.v1.ApiKeyService/RevokeApiKey", { id });
    for (const answer of await Promise.all(ended)) {
      expect(answer.text).toContain("invalid_api_key");
      expect(answer.text).not.toContain("[DONE]");
      expect(answer.afterMs).toBeLessThan(1_000);
    }
    await eventually(() => upstream.isIdle, "the closed connections at the upstream");
  });

  it("send events with the tokens that the upstream states, and one request.failed after all tries (WH-8)", async () => {
    const [first] = services;
    if (first === undefined) throw new Error("there is no service");
    await inbox.makeEndpoint({ http: first.http, key }, { path: "/events" });
    const all = clients();
    const good = await Promise.all(all.map((client) => client.chat("answers")));
    const bad = await Promise.all(
      all.flatMap((client) => [client.chat("fails"), client.chat("fails", { stream: true })]),
    );
    expect(bad.map(({ status, code }) => [status, code])).toEqual(bad.map(() => [502, "upstream_error"]));
    expect(
      bad.map(({ headers }) => headers.get("x-uis-attempts")).filter((tries) => tries !== null && tries !== "3"),
    ).toEqual([]);
    const ids = [...good, ...bad].map(({ headers }) => headers.get("x-request-id") ?? "");
    await eventually(() => ids.every((requestId) => inbox.hasTaken(requestId)), "all events");
    expect(upstream.requests.filter(({ body }) => body.includes('"model":"fails"'))).toHaveLength(3 * bad.length);
    await eventually(async () => {
      const states = await Promise.all(services.map((service) => service.debugState()));
      return states.every(({ deliveries }) => deliveries.due === 0 && deliveries.in_flight === 0);
    }, "no delivery is left");
    const events = inbox.arrivals.map(
      ({ body }) => JSON.parse(body) as { type: string; data: Record<string, unknown> },
    );
    expect(events).toHaveLength(ids.length);
    for (const { type, data } of events) {
      const isGood = good.some(({ headers }) => headers.get("x-request-id") === data["request_id"]);
      expect(type).toBe(isGood ? "request.completed" : "request.failed");
      expect(data).toMatchObject(
        isGood ? { ...usage, total_tokens: totalTokens } : { error: { code: "upstream_error" } },
      );
    }
    expect(new Set(inbox.arrivals.map(({ requestId }) => requestId)).size).toBe(ids.length);
    const { json } = await new ServiceClient(first.http, key).get("/v1/usage?limit=1&group_by=model");
    const [bucket] = json["data"] as { results: Record<string, unknown>[] }[];
    expect(bucket?.results.find(({ model }) => model === "answers")).toMatchObject({
      num_model_requests: 2,
      input_tokens: 2 * usage.prompt_tokens,
      output_tokens: 2 * usage.completion_tokens,
    });
  });
});
