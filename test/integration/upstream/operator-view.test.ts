import { describe, expect, it, onTestFinished } from "vitest";
import { metricLines } from "../../support/metrics-text.js";
import { ServiceClient } from "../../support/service-client.js";
import { startService } from "../../support/start-service.js";
import { answerBytes, type RawAnswer, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { done, finish, start, text, whole } from "../../support/upstream/test-upstream.js";

const answers: RawAnswer = (socket, { method }) => {
  socket.end(method === "POST" ? whole : answerBytes("200 OK", "application/json", '{"data":[]}'));
};
const fails: RawAnswer = (socket) => void socket.end(answerBytes("500 Internal Server Error", "text/plain", "no"));

/** A service with a model whose deployment at `broken` fails and whose deployment at `works` answers. */
async function startWithUpstreams() {
  const [broken, works] = [await start(fails), await start(answers)];
  const service = await startService({
    config: {
      upstreams: { broken: { url: broken.url, kind: "generic" }, works: { url: works.url, kind: "generic" } },
      models: [
        {
          id: "m",
          deployments: ["broken", "works"].map((upstream) => ({ engine: "openai", upstream, model: "x" })),
        },
        { id: "idle", engine: "openai", upstream: "works", model: "y" },
        { id: "other", engine: "openai", upstream: "broken", model: "z" },
      ],
    },
  });
  onTestFinished(() => service.close());
  const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
  const chat = async (model = "m"): Promise<number> => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] });
    const response = await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body });
    await response.text();
    return response.status;
  };
  return { service, chat, broken };
}

describe("an operator of upstreams sees", () => {
  it("the ejection of a failing deployment with its reason in /debug/state, and its attempts in the metrics", async () => {
    const { service, chat } = await startWithUpstreams();
    const isEjected = async () => (await service.debugState()).deployments.some(({ state }) => state === "ejected");
    let requests = 0;
    while (!(await isEjected()) && requests < 100) {
      expect(await chat()).toBe(200);
      requests += 1;
    }
    const { deployments } = await service.debugState();
    const shared = { outstanding_requests: 0, outstanding_tokens: 0, weight: 1, priority: 0 };
    expect(deployments).toEqual([
      { ...shared, id: "works/y", model: "idle", upstream: "works", state: "ready", reason: null, until: null },
      {
        ...shared,
        id: "broken/x",
        model: "m",
        upstream: "broken",
        state: "ejected",
        reason: "5 requests failed in a row; the last one: the upstream answered 500",
        until: expect.stringMatching(/^20\d\d-.*Z$/),
      },
      { ...shared, id: "works/x", model: "m", upstream: "works", state: "ready", reason: null, until: null },
      { ...shared, id: "broken/z", model: "other", upstream: "broken", state: "ready", reason: null, until: null },
    ]);
    const page = await (await fetch(`${service.ops}/metrics`)).text();
    expect(metricLines(page, "uis_upstream_requests_total")).toEqual({
      '{upstream="broken",deployment="broken/x",outcome="upstream_error"}': 5,
      '{upstream="works",deployment="works/x",outcome="success"}': requests,
    });
    expect(metricLines(page, "uis_upstream_first_byte_seconds_count")).toMatchObject({
      '{upstream="works",deployment="works/x"}': requests,
    });
    expect(metricLines(page, "uis_upstream_ejected")).toEqual({
      '{deployment="broken/x"}': 1,
      '{deployment="works/x"}': 0,
    });
    expect(metricLines(page, "uis_upstream_outstanding_tokens")).toEqual({
      '{deployment="broken/x"}': 0,
      '{deployment="works/x"}': 0,
    });
    // 0 for each model with upstream deployments that was used, so that a rate has a start.
    expect(metricLines(page, "uis_retry_budget_exhausted_total")).toEqual({ '{model="m"}': 0 });
  });

  it("the error of prompt estimates, which token limits use, in the metrics", async () => {
    const usage = sse({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } });
    const upstream = await start((socket, { method }) => {
      const answer = `${streamHead}${text("Hello")}${finish}${usage}${done}`;
      socket.end(method === "POST" ? answer : answerBytes("200 OK", "application/json", '{"data":[]}'));
    });
    const service = await startService({
      config: {
        upstreams: { up: { url: upstream.url, kind: "generic" } },
        models: [
          { id: "m", engine: "openai", upstream: "up", model: "x" },
          { id: "counted", engine: "scripted", scripted: { text: "Hello" } },
        ],
        rate_limits: { default_key: { tokens_per_minute: 100_000 } },
      },
    });
    onTestFinished(() => service.close());
    const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
    for (const model of ["m", "m", "counted"]) {
      const body = JSON.stringify({ model, prompt: "Thirty characters are 10 tokens" });
      const response = await fetch(`${service.api}/completions`, { method: "POST", headers, body });
      expect(response.status).toBe(200);
      await response.text();
    }
    const page = await (await fetch(`${service.ops}/metrics`)).text();
    expect(metricLines(page, "uis_upstream_token_estimate_ratio_count")).toEqual({ '{model="m"}': 2 });
    // 31 bytes are 11 estimated tokens.
    expect(metricLines(page, "uis_upstream_token_estimate_ratio_sum")['{model="m"}']).toBeCloseTo(6 / 11);
  });

  it("a warning of the diagnostics about each upstream that does not list its models, including a stored one", async () => {
    const { service } = await startWithUpstreams();
    const admin = new ServiceClient(service.http, service.adminToken);
    // Nothing listens on port 1.
    const upstream = { name: "added", url: "http://127.0.0.1:1/v1", kind: "vllm", models: ["x"] };
    expect((await admin.rpc("unified.admin.v1.UpstreamService/CreateUpstream", { upstream })).status).toBe(200);
    const { json } = await admin.rpc("unified.admin.v1.SystemService/RunDoctor");
    const checks = (json["checks"] as { check: string; status: string; detail: string }[]).flatMap((one) => {
      return one.check === "upstream" ? [`${one.status} ${one.detail.split(":")[0]}`] : [];
    });
    expect(checks.sort()).toEqual(["warn added", "warn broken", "warn works"]);
  });

  it("the pause of every deployment at an upstream that rejects all keys, while the others answer", async () => {
    const { service, chat, broken } = await startWithUpstreams();
    broken.answer = (socket) => void socket.end(answerBytes("401 Unauthorized", "text/plain", "no"));
    const states = async () => {
      const { deployments } = await service.debugState();
      return Object.fromEntries(deployments.map((deployment) => [deployment.id, deployment]));
    };
    for (let i = 0; i < 20; i++) expect(await chat()).toBe(200);
    const held = { state: "cooling", reason: expect.stringContaining("every key"), until: expect.any(String) };
    expect(await states()).toMatchObject({
      "broken/x": held,
      "broken/z": held,
      "works/x": { state: "ready" },
      "works/y": { state: "ready" },
    });
    expect(broken.requests.filter(({ method }) => method === "POST")).toHaveLength(1);
  });

  it("the pause of only one model's deployment when the upstream forbids every key that model", async () => {
    const { service, chat, broken } = await startWithUpstreams();
    broken.answer = (socket, { body }) =>
      void socket.end(body.includes('"x"') ? answerBytes("403 Forbidden", "text/plain", "no access to x") : whole);
    for (let i = 0; i < 20; i++) expect(await chat()).toBe(200);
    const { deployments } = await service.debugState();
    expect(Object.fromEntries(deployments.map(({ id, state }) => [id, state]))).toEqual({
      "broken/x": "cooling",
      "broken/z": "ready",
      "works/x": "ready",
      "works/y": "ready",
    });
    expect(broken.requests.filter(({ method }) => method === "POST")).toHaveLength(1);
    expect(await chat("other")).toBe(200);
  });

  it("outstanding tokens while a request runs, also of a model's only deployment, and none after it", async () => {
    let finish = (): void => {};
    const upstream = await start((socket, { method }) => {
      if (method === "POST") finish = () => void socket.end(whole);
      else answers(socket, { method, path: "", headers: {}, body: "" });
    });
    const service = await startService({
      config: {
        upstreams: { one: { url: upstream.url, kind: "generic" } },
        models: [{ id: "m", engine: "openai", upstream: "one" }],
      },
    });
    onTestFinished(() => service.close());
    const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
    const body = JSON.stringify({ model: "m", max_tokens: 50, messages: [{ role: "user", content: "x" }] });
    const response = fetch(`${service.api}/chat/completions`, { method: "POST", headers, body });
    const outstanding = async () => {
      const page = await (await fetch(`${service.ops}/metrics`)).text();
      return metricLines(page, "uis_upstream_outstanding_tokens")['{deployment="one/m"}'];
    };
    await expect.poll(outstanding).toBeGreaterThanOrEqual(50);
    await expect.poll(() => upstream.requests.some(({ method }) => method === "POST")).toBe(true);
    finish();
    expect((await response).status).toBe(200);
    await expect.poll(outstanding).toBe(0);
  });
});
