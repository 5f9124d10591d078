import { status as grpcStatus } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Status } from "../../../gen/unified/admin/v1/status_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
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

async function statusBy(name: WayName): Promise<Status> {
  const way = openWay(name, service);
  const settings = { authorization: `Bearer ${service.adminToken}` };
  const { messages, failure } = await way.call(SystemService.method.getStatus, {}, settings);
  way.close();
  const [{ status } = {}] = messages;
  if (status === undefined) throw new Error(`no status: ${failure?.message}`);
  return status;
}

function chat(model: string, key = service.key, signal?: AbortSignal): Promise<Response> {
  return fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "four words are these" }] }),
    ...(signal === undefined ? {} : { signal }),
  });
}

const modelOf = ({ models }: Status, id: string) => models.find((model) => model.id === id);

describe("SystemService.GetStatus", () => {
  it.each(wayNames)("over %s it tells the administrator how the process and its store are doing", async (name) => {
    const status = await statusBy(name);
    expect(status).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      state: { kind: "volatile", ok: true, durability: "none", replicas: 1, spooled: 0n },
      deliveriesDue: 0n,
      endpointsFailing: 0,
    });
    expect(status.latencies.map(({ name: of }) => of)).toEqual(["request", "time_to_first_token", "queue"]);
    const stood = Number(status.now?.seconds) - Number(status.startedAt?.seconds);
    expect(stood).toBeGreaterThanOrEqual(0);
    expect(stood).toBeLessThan(600);
  });

  it.each(wayNames)("SEC-2: over %s it is for nobody else", async (name) => {
    const way = openWay(name, service);
    const { failure } = await way.call(SystemService.method.getStatus, {});
    way.close();
    expect(failure?.code).toBe(grpcStatus.PERMISSION_DENIED);
  });

  it("WH-41: what the configuration opens is told with its remedy", async () => {
    const { warnings } = await statusBy("grpc");
    expect(warnings).toContainEqual(expect.stringContaining("webhooks.allow_http"));
    expect(warnings.filter((warning) => /memory/.test(warning))).toHaveLength(1);
  });

  it("counts what was answered, turned away and left, with its tokens and durations", async () => {
    const { counters: before } = await statusBy("grpc");
    expect((await chat("test-chat")).status).toBe(200);
    expect((await chat("test-chat", "no-such-key")).status).toBe(401);
    const leave = new AbortController();
    const left = chat("slow", service.key, leave.signal).catch(() => "left");
    await expect.poll(async () => modelOf(await statusBy("grpc"), "slow")).toMatchObject({ running: 1, slots: 1 });
    leave.abort();
    expect(await left).toBe("left");
    await expect.poll(async () => modelOf(await statusBy("grpc"), "slow")?.running).toBe(0);
    const { counters, latencies, models } = await statusBy("grpc");
    expect(Number(counters?.requests) - Number(before?.requests)).toBe(3);
    expect(counters).toMatchObject({ failed: 0n, rejected: 1n, clientLeft: 1n, completionTokens: 3n });
    expect(counters?.promptTokens).toBeGreaterThanOrEqual(4n);
    expect(latencies.find(({ name }) => name === "request")).toMatchObject({ count: 1n });
    expect(models).toContainEqual(expect.objectContaining({ id: "test-chat", state: "ready", producedTokens: 3n }));
  });
});
