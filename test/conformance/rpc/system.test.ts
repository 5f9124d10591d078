import { status as grpcStatus } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { System } from "../../../gen/unified/admin/v1/system_pb.js";
import { HistoryRange, SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { openWay, type WayName, wayNames } from "./ways.js";

let service: RunningService;
beforeAll(async () => {
  service = await startService({
    config: {
      webhooks: { allow_http: true },
      models: [
        { id: "test-chat", engine: "scripted", scripted: { text: "one two three" } },
        { id: "slow", engine: "scripted", slots: 1, scripted: { first_token_delay_ms: 10_000 } },
      ],
    },
  });
});
afterAll(() => service.close());

async function systemBy(name: WayName): Promise<System> {
  const way = openWay(name, service);
  const settings = { authorization: `Bearer ${service.adminToken}` };
  const { messages, failure } = await way.call(SystemService.method.getSystem, {}, settings);
  way.close();
  const [{ system } = {}] = messages;
  if (system === undefined) throw new Error(`no system: ${failure?.message}`);
  return system;
}

function chat(model: string, key = service.key, signal?: AbortSignal): Promise<Response> {
  return fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "four words are these" }] }),
    ...(signal === undefined ? {} : { signal }),
  });
}

const portOf = (address: string): number => Number(new URL(address).port);
const modelOf = ({ models }: System, id: string) => models.find((model) => model.id === id);

describe("SystemService.GetSystem", () => {
  it.each(wayNames)("returns the status of the process and its store over %s", async (name) => {
    const system = await systemBy(name);
    expect(system).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      state: { kind: "volatile", ok: true, durability: "none", replicas: 1, spooled: 0n },
      deliveriesDue: 0n,
      endpointsFailing: 0,
      listeners: {
        host: "127.0.0.1",
        httpPort: portOf(service.http),
        grpcPort: portOf(`tcp://${service.grpc}`),
        tls: false,
      },
    });
    expect(system.latencies.map(({ name: of }) => of)).toEqual(["request", "time_to_first_token", "queue"]);
    const stood = Number(system.now?.seconds) - Number(system.startedAt?.seconds);
    expect(stood).toBeGreaterThanOrEqual(0);
    expect(stood).toBeLessThan(600);
  });

  it.each(wayNames)("over %s it needs the administrator (SEC-2)", async (name) => {
    const way = openWay(name, service);
    const { failure } = await way.call(SystemService.method.getSystem, {});
    way.close();
    expect(failure?.code).toBe(grpcStatus.PERMISSION_DENIED);
  });

  it("lists a risky configuration with its remedy (WH-41)", async () => {
    const { warnings } = await systemBy("grpc");
    expect(warnings).toContainEqual(expect.stringContaining("webhooks.allow_http"));
    expect(warnings.filter((warning) => /memory/.test(warning))).toHaveLength(1);
  });

  it("counts completed, rejected and cancelled requests with their tokens and durations", async () => {
    const { counters: before } = await systemBy("grpc");
    expect((await chat("test-chat")).status).toBe(200);
    expect((await chat("test-chat", "no-such-key")).status).toBe(401);
    const leave = new AbortController();
    const left = chat("slow", service.key, leave.signal).catch(() => "left");
    await expect.poll(async () => modelOf(await systemBy("grpc"), "slow")).toMatchObject({ running: 1, slots: 1 });
    leave.abort();
    expect(await left).toBe("left");
    await expect.poll(async () => modelOf(await systemBy("grpc"), "slow")?.running).toBe(0);
    const { counters, latencies, models } = await systemBy("grpc");
    expect(Number(counters?.requests) - Number(before?.requests)).toBe(3);
    expect(counters).toMatchObject({ failed: 0n, rejected: 1n, clientLeft: 1n, completionTokens: 3n });
    expect(counters?.promptTokens).toBeGreaterThanOrEqual(4n);
    expect(latencies.find(({ name }) => name === "request")).toMatchObject({ count: 1n });
    expect(models).toContainEqual(expect.objectContaining({ id: "test-chat", state: "ready", producedTokens: 3n }));
  });
});

describe("SystemService.GetHistory", () => {
  it.each(wayNames)("returns the history since the start and its sum over %s", async (name) => {
    expect((await chat("test-chat")).status).toBe(200);
    const { counters } = await systemBy("grpc");
    const way = openWay(name, service);
    const settings = { authorization: `Bearer ${service.adminToken}` };
    const { messages } = await way.call(SystemService.method.getHistory, { range: HistoryRange.DAY }, settings);
    const { failure } = await way.call(SystemService.method.getHistory, { range: 9 as HistoryRange }, settings);
    way.close();
    const [{ points = [], total } = {}] = messages;
    expect(total?.counters).toMatchObject({ requests: counters?.requests, promptTokens: counters?.promptTokens });
    expect(total?.latencies.map(({ name: of }) => of)).toEqual(["request", "time_to_first_token", "queue"]);
    const sum = points.reduce((requests, point) => requests + Number(point.counters?.requests), 0);
    expect(sum).toBe(Number(counters?.requests));
    expect(failure?.code).toBe(grpcStatus.INVALID_ARGUMENT);
  });
});
