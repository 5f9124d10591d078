import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { byTier } from "../../support/tier.js";
import { failingAnswers } from "../../support/upstream/failing-answers.js";
import { answerBytes, type RawAnswer, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { start, text, whole } from "../../support/upstream/test-upstream.js";

/** Times until the failure. All but the first are longer than `limits.commit`: the head of a stream has been sent before. */
const delaysMs = byTier({ ci: [0, 3_000], long: [0, 3_000, 30_000] });
/** Time after the failure within which the second deployment must answer. */
const patienceMs = 10_000;
const forms = ["unary", "stream"] as const;

interface BadUpstream {
  readonly url: string;
  readonly first_byte?: string;
  readonly idle?: string;
}

/**
 * A service with the models `m0`, `m1` and so on: each has a deployment at a bad upstream of its own, because a 401 or 429
 * pauses the key of the whole upstream, and one at a working upstream, which is used second. Azure lists no models.
 */
async function serviceWith(bad: readonly BadUpstream[], works: RawUpstream): Promise<RunningService> {
  const upstreams = bad.map((settings, at) => [`bad${at}`, { kind: "azure", idle: "60s", ...settings }]);
  const models = bad.map((_, at) => ({
    id: `m${at}`,
    deployments: [
      { engine: "openai", upstream: `bad${at}`, model: `m${at}` },
      { engine: "openai", upstream: "works", model: `m${at}`, priority: 1 },
    ],
  }));
  const config = { upstreams: { ...Object.fromEntries(upstreams), works: { url: works.url, kind: "azure" } }, models };
  return await startService({ config });
}

/** The model that a request to an upstream names. */
const modelOf = (body: string): string => (JSON.parse(body) as { model: string }).model;

function contentOf({ json, text: body }: ClientAnswer): string {
  if (Object.keys(json).length === 0) {
    return [...body.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part).join("");
  }
  return String((json["choices"] as { message: { content: string } }[])[0]?.message.content);
}

/** The log line of the only request for a model. */
async function logLine(service: RunningService, model: string): Promise<Record<string, unknown>> {
  const found = () => service.logs.filter((line) => line["msg"] === "request" && line["model"] === model);
  await eventually(() => found().length === 1, `one request for ${model} in the log`);
  return found()[0] ?? {};
}

describe("a first deployment that fails after it accepted a request, without content", () => {
  const silent = "silence to the first-byte limit";
  const cases = [...failingAnswers.map(({ name }) => name), silent].flatMap((failure) =>
    delaysMs.flatMap((delayMs) => forms.map((form) => ({ failure, delayMs, form }))),
  );
  const answers = new Map<string, ClientAnswer & { readonly tookMs: number; readonly line: Record<string, unknown> }>();
  const idOf = (at: number): string => `m${at}`;
  let bad: RawUpstream;
  let works: RawUpstream;

  beforeAll(async () => {
    const fail: RawAnswer = (socket, { body }) => {
      const given = cases[Number(modelOf(body).slice(1))];
      const failing = failingAnswers.find(({ name }) => name === given?.failure);
      if (given === undefined || failing === undefined) return;
      if (failing.before !== undefined) socket.write(failing.before);
      setTimeout(() => failing.fail(socket), given.delayMs);
    };
    bad = await RawUpstream.start(fail);
    works = await RawUpstream.start((socket) => void socket.end(whole));
    const service = await serviceWith(
      cases.map(({ failure, delayMs }) => {
        return { url: bad.url, first_byte: failure === silent ? `${delayMs + 500}ms` : "60s" };
      }),
      works,
    );
    const client = new ServiceClient(service.api, service.key);
    await Promise.all(
      cases.map(async ({ form }, at) => {
        const sentAtMs = performance.now();
        const answer = await client.chat(idOf(at), { stream: form === "stream" });
        const tookMs = performance.now() - sentAtMs;
        answers.set(idOf(at), { ...answer, tookMs, line: await logLine(service, idOf(at)) });
      }),
    );
    await service.close();
    return async () => await Promise.all([bad.close(), works.close()]);
  }, 90_000);

  it.each(cases.map((given, at) => ({ ...given, id: idOf(at) })))(
    "$failure after $delayMs ms, $form: the second deployment answers (REL-8)",
    ({ id, form, delayMs }) => {
      const answer = answers.get(id);
      if (answer === undefined) throw new Error("there was no answer");
      expect(answer.status, answer.text).toBe(200);
      expect(contentOf(answer)).toBe("Hello");
      expect(answer.text.includes("[DONE]")).toBe(form === "stream");
      expect(answer.text).not.toContain('"error"');
      expect(answer.tookMs).toBeLessThan(delayMs + patienceMs);
      expect(answer.line).toMatchObject({ outcome: "completed", deployment: `works/${id}`, attempts: 2 });
      for (const server of [bad, works]) {
        expect(server.requests.filter(({ body }) => modelOf(body) === id)).toHaveLength(1);
      }
    },
  );
});

describe("a deployment that fails after the first content", () => {
  const failures: readonly { readonly name: string; readonly fail: RawAnswer; readonly code: string }[] = [
    { name: "resets", fail: (socket) => void socket.resetAndDestroy(), code: "upstream_error" },
    { name: "ends without a finish", fail: (socket) => void socket.end(), code: "upstream_error" },
    {
      name: "sends an error event",
      fail: (socket) => void socket.end(sse({ error: { message: "boom", type: "server_error" } })),
      code: "upstream_error",
    },
    { name: "falls silent", fail: () => {}, code: "upstream_timeout" },
  ];

  it.each(failures)(
    "$name: a stream is settled, ends with one error event and is not retried; a unary answer is retried (REL-8)",
    async ({ fail, code }) => {
      const bad = await start((socket, request) => {
        socket.write(streamHead + text("one") + text(" two"), () => fail(socket, request));
      });
      const works = await start((socket) => void socket.end(whole));
      const service = await serviceWith([{ url: bad.url, idle: "500ms" }], works);
      onTestFinished(() => service.close());
      const client = new ServiceClient(service.api, service.key);

      const stream = await client.chat("m0", { stream: true });
      expect(stream.status).toBe(200);
      expect(contentOf(stream)).toBe("one two");
      expect(stream.text.match(/"error":\{/g)).toHaveLength(1);
      expect(stream.text).toContain(`"code":"${code}"`);
      expect(stream.text).not.toContain("[DONE]");
      expect([bad.requests.length, works.requests.length]).toEqual([1, 0]);
      expect(await logLine(service, "m0")).toMatchObject({ outcome: "failed", attempts: 1, completion_tokens: 2 });
      expect((await service.debugState()).live_leases).toBe(0);

      const unary = await client.chat("m0");
      expect([unary.status, contentOf(unary), unary.headers.get("x-uis-attempts")]).toEqual([200, "Hello", "2"]);
      expect(unary.json["usage"]).toMatchObject({ completion_tokens: 1 });
      expect([bad.requests.length, works.requests.length]).toEqual([2, 1]);
    },
  );
});

describe("a retry that waits for a slot of its last deployment", () => {
  it("ends with the failure of its first try as soon as that deployment becomes unusable too (REL-8)", async () => {
    const bad = await start((socket) => void socket.end(answerBytes("500 Internal Server Error", "text/plain", "no")));
    let limit = (): void => {};
    const full = await start((socket) => {
      limit = () => void socket.end(answerBytes("429 Too Many Requests", "text/plain", "no", ["retry-after: 20"]));
    });
    const service = await startService({
      config: {
        upstreams: { bad: { url: bad.url, kind: "azure" }, full: { url: full.url, kind: "azure" } },
        models: [
          {
            id: "m",
            deployments: [
              { engine: "openai", upstream: "bad" },
              { engine: "openai", upstream: "full", priority: 1, slots: 1 },
            ],
          },
        ],
      },
    });
    onTestFinished(() => service.close());
    const client = new ServiceClient(service.api, service.key);
    const waiting = async () => (await service.debugState()).requests.waiting;
    const running = client.chat("m");
    await eventually(() => full.requests.length === 1, "the slot is in use");
    const retry = client.chat("m");
    await eventually(async () => (await waiting()) === 1, "the retry waits");
    const limitedAtMs = performance.now();
    limit();
    expect([(await running).code, (await retry).code]).toEqual(["upstream_rate_limited", "upstream_error"]);
    // limits.queue_wait is 30 s.
    expect(performance.now() - limitedAtMs).toBeLessThan(5_000);
    expect([bad.requests.length, full.requests.length]).toEqual([2, 1]);
  });
});
