import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { status as grpcStatus } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { openWay, wayNames } from "./ways.js";

let service: RunningService;
beforeAll(async () => {
  // Nothing listens on port 1.
  const upstreams = { away: { url: "http://127.0.0.1:1/v1", discover: "off" } };
  const models = [{ id: "test-chat", engine: "scripted" }];
  service = await startService({ config: { offline: true, upstreams, models } });
});
afterAll(() => service.close());

const administrator = () => ({ authorization: `Bearer ${service.adminToken}` });

async function chat(): Promise<number> {
  const { status } = await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test-chat", messages: [{ role: "user", content: "hello" }] }),
  });
  return status;
}

describe("SystemService.WatchOverview", () => {
  it("sends everything first, then only the time until something changes, over every protocol", async () => {
    const heard = new Map<string, number>();
    let asked: Promise<number> | null = null;
    const watched = await Promise.all(
      wayNames.map(async (name) => {
        const way = openWay(name, service);
        const stop = new AbortController();
        const onMessage = (count: number): void => {
          heard.set(name, count);
          if (asked === null && wayNames.every((other) => (heard.get(other) ?? 0) >= 2)) asked = chat();
          if (count === 3) stop.abort();
        };
        const settings = { ...administrator(), signal: stop.signal, onMessage };
        const { messages } = await way.call(SystemService.method.watchOverview, {}, settings);
        way.close();
        return messages;
      }),
    );
    expect(await asked).toBe(200);
    for (const [first, second, third] of watched) {
      expect(first?.system).toMatchObject({ models: [{ id: "test-chat" }], state: { ok: true } });
      expect(first?.at).toEqual(first?.system?.now);
      expect(second?.system).toBeUndefined();
      expect(Number(second?.at?.seconds)).toBeGreaterThan(Number(first?.at?.seconds));
      expect(third?.system?.counters?.requests).toBe((first?.system?.counters?.requests ?? 0n) + 1n);
    }
  });

  it.each(wayNames)("over %s it needs the administrator (SEC-2)", async (name) => {
    const way = openWay(name, service);
    const { failure, messages } = await way.call(SystemService.method.watchOverview, {});
    way.close();
    expect([failure?.code, messages.length]).toEqual([grpcStatus.PERMISSION_DENIED, 0]);
  });

  it("ends with the session that watches (SEC-19)", async () => {
    const { sessions } = service.service.parts;
    const { token, record } = await sessions.begin("admin", { address: "127.0.0.1", userAgent: "test" });
    const client = createClient(SystemService, createConnectTransport({ baseUrl: service.http, httpVersion: "1.1" }));
    const headers = { cookie: `uis_session=${token}`, origin: service.http, "sec-fetch-site": "same-origin" };
    let looks = 0;
    const watched = (async () => {
      for await (const _ of client.watchOverview({}, { headers })) {
        looks += 1;
        if (looks === 1) await sessions.end(record.id);
      }
    })();
    const error = await watched.catch((thrown: unknown) => ConnectError.from(thrown).code);
    expect([looks, error]).toEqual([1, Code.Unauthenticated]);
  });

  it("ends immediately when the service stops (REL-10)", async () => {
    const other = await startService({ config: { offline: true, models: [{ id: "m", engine: "scripted" }] } });
    const way = openWay("connect json", other);
    let stopped = Promise.resolve();
    const settings = {
      authorization: `Bearer ${other.adminToken}`,
      onMessage(count: number) {
        if (count === 1) stopped = other.close();
      },
    };
    const { failure } = await way.call(SystemService.method.watchOverview, {}, settings);
    await stopped;
    way.close();
    expect(failure).toMatchObject({ code: grpcStatus.UNAVAILABLE, reason: "SERVER_SHUTTING_DOWN" });
  });

  it("leaves no timer and no call behind when its last client ends", async () => {
    await expect.poll(() => service.debugState()).toMatchObject({ timers: 0, streams: 0, requests: { by_stage: {} } });
  });
});

describe("SystemService.RunDoctor", () => {
  it("returns the findings of `uis doctor` that a running service can have, over every protocol", async () => {
    const outcomes = await Promise.all(
      wayNames.map(async (name) => {
        const way = openWay(name, service);
        const outcome = await way.call(SystemService.method.runDoctor, {}, administrator());
        way.close();
        return outcome;
      }),
    );
    const [checks = [], ...others] = outcomes.map(({ messages }) => messages[0]?.checks);
    const names = checks.map(({ check }) => check);
    for (const check of ["node", "sqlite", "cpu", "memory", "engine", "disk", "data_dir", "clock", "bind", "tls"]) {
      expect(names).toContain(check);
    }
    for (const { status, fix } of checks) expect(fix === "").toBe(status === "ok");
    expect(checks).toContainEqual(expect.objectContaining({ check: "engine", status: "ok" }));
    expect(checks).toContainEqual(expect.objectContaining({ check: "state", status: "warn" }));
    expect(checks).toContainEqual(expect.objectContaining({ check: "upstream", status: "warn" }));
    for (const other of others) expect(other?.map(({ check }) => check)).toEqual(names);
  });

  it.each(wayNames)("over %s it needs the administrator (SEC-2)", async (name) => {
    const way = openWay(name, service);
    const { failure } = await way.call(SystemService.method.runDoctor, {});
    way.close();
    expect(failure?.code).toBe(grpcStatus.PERMISSION_DENIED);
  });
});
