import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RequestLog } from "../../../gen/unified/admin/v1/request_log_pb.js";
import { RequestLogService } from "../../../gen/unified/admin/v1/request_log_service_pb.js";
import { UsageService } from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { serviceClient } from "../../../src/app/commands/service-client.js";
import { openWay } from "../../conformance/rpc/ways.js";
import { uis } from "../../support/cli-run.js";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";

const chat = (model: string, changes: object = {}) => ({
  model,
  messages: [{ role: "user", content: "a secret question" }],
  ...changes,
});

function openClient(service: RunningService) {
  const target = { url: service.http, credential: service.adminToken, credentialFrom: "" };
  const requests = serviceClient(RequestLogService, target);
  const send = async (path: string, body: object, headers: Record<string, string> = {}, signal?: AbortSignal) => {
    const response = await fetch(`${service.api}/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
    await response.text();
    return response;
  };
  /** The stored request of an answer, as soon as it is written. */
  const stored = async (response: Response): Promise<RequestLog> => {
    const id = response.headers.get("x-request-id") ?? "";
    let found: RequestLog | undefined;
    await eventually(async () => {
      found = (await requests.getRequestLog({ id }).catch(() => null))?.requestLog;
      return found !== undefined;
    }, `request ${id} is stored`);
    if (found === undefined) throw new Error("unreachable");
    return found;
  };
  return { requests, usage: serviceClient(UsageService, target), send, stored };
}

describe("the request log of metadata", () => {
  let service: RunningService;
  let client: ReturnType<typeof openClient>;
  beforeAll(async () => {
    const broken = { fail: { after_tokens: 0, code: "upstream_error" } };
    service = await startService({
      config: {
        requests: { keep: 100 },
        models: [
          {
            id: "two",
            prices: { input: 3, output: 5 },
            deployments: [
              { id: "first", engine: "scripted", scripted: broken, priority: 0 },
              { id: "second", engine: "scripted", scripted: { text: "one two three" }, priority: 1 },
            ],
          },
          { id: "broken", engine: "scripted", scripted: broken, fallbacks: ["two"] },
          { id: "hangs", engine: "scripted", scripted: { text: "one two", hang_after_tokens: 1 } },
          { id: "embed", engine: "scripted", scripted: { dimensions: 4 } },
        ],
      },
    });
    client = openClient(service);
  });
  afterAll(() => service.close());

  it("contains timings, tokens, cost and attempts of a stream that failed over, and the client's labels", async () => {
    const beforeMs = Date.now();
    const headers = { "x-client-request-id": "mine" };
    const labels = { user: "u-7", metadata: { ticket: "T-1" } };
    const response = await client.send("chat/completions", chat("two", { stream: true, ...labels }), headers);
    const log = await client.stored(response);
    expect(log).toMatchObject({
      account: "default",
      operation: "chat",
      protocol: "openai",
      model: "two",
      fallbackModel: "",
      code: "ok",
      isStream: true,
      completionTokens: 3n,
      attempts: 2,
      tries: [
        { deployment: "first", model: "two", code: "upstream_error" },
        { deployment: "second", model: "two", code: "ok" },
      ],
      address: "127.0.0.1",
      clientRequestId: "mine",
      labels: { user: "u-7", "metadata.ticket": "T-1" },
    });
    expect(log.apiKeyId).toMatch(/^key_/);
    expect(log.costNanoDollars).toBe(log.promptTokens * 3n + 15n);
    expect(log.content).toBeUndefined();
    const [first, second] = log.tries;
    const steps = [0, first?.beganMs, second?.beganMs, log.firstTokenMs, log.durationMs];
    expect(steps).toEqual([...steps].sort((a, b) => Number(a) - Number(b)));
    expect(timestampMs(log.receivedAt ?? timestampFromMs(0))).toBeGreaterThanOrEqual(beforeMs);
  });

  it("contains requests of all protocols and outcomes, and its sums equal usage", async () => {
    const answers = [
      await client.send("chat/completions", chat("broken")),
      await client.send("embeddings", { model: "embed", input: "a b c" }),
      await client.send("chat/completions", chat("none")),
      await client.send("chat/completions", chat("two", { temperature: 9 })),
    ];
    const logs = await Promise.all(answers.map(client.stored));
    expect(logs).toMatchObject([
      { model: "broken", fallbackModel: "two", code: "ok", attempts: 3 },
      { operation: "embeddings", model: "embed", code: "ok", promptTokens: 3n, completionTokens: 0n },
      { model: "", code: "model_not_found", attempts: 0, tries: [] },
      { model: "", code: "decimal_above_max_value" },
    ]);
    const leaving = new AbortController();
    const left = client.send("chat/completions", chat("hangs"), {}, leaving.signal).catch(() => {});
    await eventually(async () => (await service.debugState()).requests.running === 1, "the request runs");
    leaving.abort();
    await left;
    const way = openWay("grpc", service);
    await way.call(
      InferenceService.method.createEmbeddings,
      { params: { model: "embed", input: ["x"] } },
      { authorization: `Bearer ${service.adminToken}` },
    );
    way.close();
    let all: RequestLog[] = [];
    await eventually(async () => {
      all = (await client.requests.listRequestLogs({})).requestLogs;
      return all.length === 7;
    }, "all requests are stored");
    expect(all.find(({ model }) => model === "hangs")).toMatchObject({ code: "client_closed_request" });
    expect(all.find(({ protocol }) => protocol === "grpc")).toMatchObject({ apiKeyId: "", promptTokens: 1n });
    const { buckets } = await client.usage.queryUsage({});
    const sums = buckets.flatMap(({ results }) => results);
    for (const field of ["promptTokens", "completionTokens", "costNanoDollars"] as const) {
      const sum = (rows: readonly Record<typeof field, bigint>[]) =>
        rows.reduce((total, row) => total + row[field], 0n);
      expect([field, sum(all)]).toEqual([field, sum(sums)]);
    }
  });

  it("lists the requests that match a filter in pages, newest first, and rejects an unknown code", async () => {
    const list = client.requests.listRequestLogs;
    const first = await list({ code: "error", pageSize: 2 });
    const rest = await list({ code: "error", pageSize: 2, pageToken: first.nextPageToken });
    const codes = [...first.requestLogs, ...rest.requestLogs].map(({ code }) => code);
    expect(codes).toEqual(["client_closed_request", "decimal_above_max_value", "model_not_found"]);
    expect([first.keep, first.keepContent, rest.nextPageToken]).toEqual([100, false, ""]);
    const [newest] = (await list({ model: "two", account: "default" })).requestLogs;
    const apiKeyId = newest?.apiKeyId ?? "";
    const at = newest?.receivedAt ?? timestampFromMs(0);
    expect((await list({ model: "two", apiKeyId, from: at, code: "ok" })).requestLogs).toEqual([newest]);
    expect((await list({ model: "two", to: at })).requestLogs).toEqual([]);
    expect((await list({ account: "other" })).requestLogs).toEqual([]);
    await expect(list({ code: "nonsense" })).rejects.toThrow("'code' must be ok, error for all errors");
    await expect(list({ pageToken: "bm9uc2Vuc2U" })).rejects.toThrow("page_token");
    await expect(client.requests.getRequestLog({ id: "req_none" })).rejects.toThrow("no such request");
  });

  it("streams matching requests: first past ones, then each one that ends", async () => {
    const stop = new AbortController();
    const watch = client.requests.watchRequestLogs({ model: "embed", recent: 1 }, { signal: stop.signal });
    const responses = watch[Symbol.asyncIterator]();
    const past = await responses.next();
    expect(past.value?.requestLogs).toMatchObject([{ model: "embed", protocol: "grpc" }]);
    await client.send("chat/completions", chat("two"));
    const response = await client.send("embeddings", { model: "embed", input: "d" });
    const ended = await responses.next();
    expect(ended.value?.requestLogs).toMatchObject([{ id: response.headers.get("x-request-id"), model: "embed" }]);
    stop.abort();
    await expect(responses.next()).rejects.toThrow();
    await expect(client.requests.watchRequestLogs({ recent: 1_001 })[Symbol.asyncIterator]().next()).rejects.toThrow(
      "'recent' must be at most 1000",
    );
  });
});

describe("uis logs", () => {
  it("prints the last requests, one of them with its content, and requests as they end until the service stops", async () => {
    const service = await startService({ config: { requests: { keep: 10, keep_content: true } } });
    const { send, stored } = openClient(service);
    const env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
    const first = await stored(await send("chat/completions", chat("test-chat", { user: "u-7" })));
    const second = await stored(await send("chat/completions", chat("none")));

    const table = await uis(["logs"], { env });
    const [head = "", ...rows] = table.stdout.trimEnd().split("\n");
    expect(head).toMatch(/^TIME +CODE +MODEL +KEY +ATTEMPTS +FIRST +TOTAL +TOKENS +COST +REQUEST$/);
    expect(rows.map((row) => row.split(/ {2,}/).at(-1))).toEqual([first.id, second.id]);
    expect(rows[1]).toMatch(/Z {2}model_not_found +- +key_/);
    const lines = await uis(["logs", "--json", "--code", "ok"], { env });
    expect(JSON.parse(lines.stdout)).toMatchObject({ id: first.id, labels: { user: "u-7" }, tries: [{ code: "ok" }] });
    const one = await uis(["logs", first.id], { env });
    expect(one.stdout).toMatch(/^Request +req_.*\n(.*\n)+user +u-7\n/);
    expect(one.stdout).toMatch(/\nattempt at \S+ .* ok\nend .*\n\nRequest:\n.*a secret question.*\n\nAnswer:\nHello/s);

    const printed = new Set<string>();
    const onStdout = (text: string) => void printed.add(JSON.parse(text).id);
    const following = uis(["logs", "-f", "--json", "--limit", "1"], { env, onStdout });
    await eventually(() => printed.size === 1, "the last request is printed");
    const third = await send("embeddings", { model: "test-embed", input: "x" });
    await eventually(() => printed.size === 2, "the new request is printed");
    expect([...printed]).toEqual([second.id, third.headers.get("x-request-id")]);
    await service.close();
    expect(await following).toMatchObject({ code: 1, stderr: expect.stringContaining("stopping") });
  });
});

it("the request log stores prompts, answers and error messages only with keep_content, and never credentials (SEC-18)", async () => {
  const service = await startService({ config: { requests: { keep: 3, keep_content: true } } });
  const { requests, send, stored } = openClient(service);
  const question = `my key is ${service.key}, what now?`;
  const messages = [{ role: "user", content: question }];
  const streamed = await stored(await send("chat/completions", { model: "test-chat", messages, stream: true }));
  expect(streamed.content).toMatchObject({ answers: ["Hello from the script."], errorMessage: "", isCut: false });
  expect(JSON.parse(streamed.content?.request ?? "")).toMatchObject({
    messages: [{ role: "ROLE_USER", content: [{ text: "my key is sk-uis-[redacted] what now?" }] }],
  });
  const whole = await stored(await send("chat/completions", { model: "test-chat", messages }));
  expect(whole.content?.answers).toEqual(["Hello from the script."]);
  const failed = await stored(await send("embeddings", { model: "test-chat", input: "x" }));
  expect(failed.content).toMatchObject({ answers: [], errorMessage: expect.stringContaining("test-chat") });
  await stored(await send("embeddings", { model: "test-embed", input: "x" }));
  const { requestLogs, keepContent } = await requests.listRequestLogs({});
  expect(requestLogs.map(({ content, id }) => [content, id === streamed.id])).toEqual(
    Array(3).fill([undefined, false]),
  );
  expect(keepContent).toBe(true);
  await service.close();
});

it("the request log is off by default: uis logs reports this, and nothing is stored", async () => {
  const service = await startService();
  const { requests, send } = openClient(service);
  await send("chat/completions", chat("test-chat"));
  expect(service.service.parts.recorder).toBeNull();
  expect(await requests.listRequestLogs({})).toMatchObject({ requestLogs: [], keep: 0, keepContent: false });
  const logs = await uis(["logs"], { env: { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir } });
  expect(logs).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("set requests.keep in uis.yaml") });
  await service.close();
});
