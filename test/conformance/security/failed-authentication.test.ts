import { get } from "node:http";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { byTier, rounds } from "../../support/tier.js";
import { openWay } from "../rpc/ways.js";

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
  readonly tookMs: number;
}

let service: RunningService;
let bad: Record<"none" | "malformed" | "mistyped" | "unknown" | "revoked", string | null>;

beforeAll(async () => {
  service = await startService({ logLevel: "error" });
  const { apiKeys } = service.service.parts;
  const made = await apiKeys.create({ name: "to be revoked", scope: "read" });
  await apiKeys.revoke(made.record.id);
  const digit = service.key.endsWith("0") ? "1" : "0";
  bad = {
    none: null,
    malformed: "Bearer sk-uis-short",
    mistyped: `Bearer ${service.key.slice(0, -1)}${digit}`,
    unknown: `Bearer ${"k".repeat(56)}`,
    revoked: `Bearer ${made.secret}`,
  };
});
afterAll(() => service.close());

/** Lists models from one of the addresses of 127.0.0.0/8, which all belong to this machine. `host`: its lower 24 bits. */
function listModels(authorization: string | null, host: number): Promise<Answer> {
  const startedAtMs = performance.now();
  const localAddress = `127.${(host >> 16) & 255}.${(host >> 8) & 255}.${host & 255}`;
  const headers = authorization === null ? {} : { authorization };
  return new Promise((resolve, reject) => {
    get(`${service.api}/models`, { headers, localAddress, agent: false }, (res) => {
      let body = "";
      res.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      res.on("end", () =>
        resolve({ status: res.statusCode, headers: res.headers, body, tookMs: performance.now() - startedAtMs }),
      );
    }).on("error", reject);
  });
}

describe("failed authentication", () => {
  it("gets the same response for every kind of bad key, byte for byte (SEC-1, KEY-5)", async () => {
    const answers = await Promise.all(Object.values(bad).map((authorization) => listModels(authorization, 2)));
    for (const { status: code, body, headers } of answers) {
      expect(code).toBe(401);
      expect(body).toBe(answers[0]?.body);
      expect(Object.keys(headers)).toEqual(Object.keys(answers[0]?.headers ?? {}));
    }
  });

  it("gets 429 for the 61st bad key of an address within a minute; valid keys from there are served (KEY-19, SEC-1)", async () => {
    const host = 3;
    for (let tries = 0; tries < 60; tries++) {
      expect((await listModels(`Bearer guess-number-${tries}`, host)).status).toBe(401);
    }
    const refused = await listModels("Bearer guess-number-61", host);
    expect(refused.status).toBe(429);
    expect(JSON.parse(refused.body)).toMatchObject({ error: { type: "requests", code: "rate_limit_exceeded" } });
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(60);
    expect((await listModels(`Bearer ${service.readKey}`, host)).status).toBe(200);
    expect((await listModels(null, host)).status).toBe(401);
    expect((await listModels("Bearer guess-number-62", host + 1)).status).toBe(401);
  });

  it("is counted over all transports together (KEY-19)", async () => {
    const other = await startService();
    const [grpc, connect] = [openWay("grpc", other), openWay("connect json", other)];
    const guess = (number: number) => ({ authorization: `Bearer guess-number-${number}` });
    for (let tries = 0; tries < 30; tries++) {
      await grpc.call(CatalogService.method.listModels, {}, guess(tries));
      await connect.call(CatalogService.method.listModels, {}, guess(tries));
    }
    for (const way of [grpc, connect]) {
      const { failure } = await way.call(CatalogService.method.listModels, {}, guess(61));
      expect(failure).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: "RATE_LIMIT_EXCEEDED" });
      expect((await way.call(CatalogService.method.listModels, {})).failure).toBeNull();
      way.close();
    }
    await other.close();
  });
});

describe("the duration of a rejected authentication", () => {
  it("does not depend on the kind of the bad key (SEC-1)", { timeout: 600_000 }, async () => {
    const kinds = ["malformed", "mistyped", "unknown", "revoked"] as const;
    const times: Record<(typeof kinds)[number], number[]> = { malformed: [], mistyped: [], unknown: [], revoked: [] };
    // At most fifty requests per address, so that no address exceeds its limit.
    for (let round = 0; round < rounds(5_000); round++) {
      for (const kind of kinds) {
        const { status: code, tookMs } = await listModels(bad[kind], 0x010000 + Math.floor(round / 10));
        expect(code).toBe(401);
        times[kind].push(tookMs);
      }
    }
    const means = kinds.map((kind) => meanOfQuickest(times[kind]));
    // With few rounds on a busy machine the means differ more. The bound of the full count is what an attacker could measure.
    const differMsMax = byTier({ ci: 1, long: 0.05 });
    expect(Math.max(...means) - Math.min(...means)).toBeLessThan(differMsMax);
  });
});

/** Mean of the quickest quarter, which other work of the machine affects least. */
function meanOfQuickest(values: number[]): number {
  const quickest = values.toSorted((a, b) => a - b).slice(0, Math.ceil(values.length / 4));
  return quickest.reduce((sum, value) => sum + value, 0) / quickest.length;
}
