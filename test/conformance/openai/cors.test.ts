import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exposedHeaders } from "../../../src/contract/headers.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, type Changes, createApi } from "./api.js";

const origin = "https://app.example";
const sdkHeaders = "authorization,content-type,x-stainless-lang,x-stainless-helper-method,header-of-the-next-release";
const paths = [
  "/v1/chat/completions",
  "/v1/models",
  "/v1/nothing",
  "/health",
  "/unified.inference.v1.InferenceService/CreateChatCompletion",
];

const started: RunningService[] = [];
async function open(corsOrigins: string[]): Promise<Api> {
  const service = await startService({ config: { server: { cors_origins: corsOrigins } } });
  started.push(service);
  return createApi(service);
}
const preflight = (api: Api, path: string, from: string, changes: Changes = {}) =>
  api.send("OPTIONS", path, undefined, {
    authorization: "",
    "content-type": "",
    origin: from,
    "access-control-request-method": "POST",
    "access-control-request-headers": sdkHeaders,
    ...changes,
  });

describe("cross-origin requests", () => {
  let api: Api;
  let closed: Api;
  let open_: Api;

  beforeAll(async () => {
    [api, closed, open_] = await Promise.all([open([origin, "http://localhost:5173"]), open([]), open(["*"])]);
  });
  afterAll(() => Promise.all(started.map((service) => service.close())));

  it("get no cross-origin headers if no origins are configured (CORS-1)", async () => {
    const replies = [await preflight(closed, "/v1/models", origin), await closed.chat({}, { origin })];
    expect(replies.map(({ status }) => status)).toEqual([401, 200]);
    for (const { headers } of replies) {
      expect([...headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
    }
  });

  it.each(paths)(
    "get 204 without a key for a preflight of %s, which allows the requested headers (CORS-2, CORS-3, HDR-1)",
    async (path) => {
      const { status, text, headers } = await preflight(api, path, origin);
      expect(status).toBe(204);
      expect(text).toBe("");
      expect(headers.get("access-control-allow-origin")).toBe(origin);
      expect(headers.get("access-control-allow-headers")).toBe(sdkHeaders);
      expect(headers.get("access-control-allow-methods")).toBe("GET, POST, DELETE, OPTIONS");
      expect(headers.get("access-control-max-age")).toBe("600");
      expect(headers.get("vary")).toBe("Origin, Access-Control-Request-Headers");
      expect(headers.get("access-control-allow-credentials")).toBeNull();
      expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    },
  );

  it("get no cross-origin headers for an origin that is not configured (CORS-1)", async () => {
    for (const other of ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"]) {
      const replies = [await preflight(api, "/v1/models", other), await api.chat({}, { origin: other })];
      for (const { headers } of replies) expect(headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  it("get their own origin back if it is configured, and * allows all origins (CORS-1)", async () => {
    const second = "http://localhost:5173";
    expect((await api.chat({}, { origin: second })).headers.get("access-control-allow-origin")).toBe(second);
    const { headers } = await open_.chat({}, { origin: "https://any.example" });
    expect(headers.get("access-control-allow-origin")).toBe("*");
    expect(headers.get("access-control-allow-credentials")).toBeNull();
  });

  it("get cross-origin headers in answers, errors and streams (CORS-4, CORS-5)", async () => {
    const replies = await Promise.all([
      api.chat({}, { origin }),
      api.chat({ stream: true }, { origin }),
      api.chat({ temperature: 5 }, { origin }),
      api.chat({}, { origin, authorization: "Bearer x" }),
      api.chat({}, { origin, "content-type": "text/plain" }),
      api.get("/v1/nothing", { origin }),
      api.get("/v1/chat/completions", { origin }),
      api.get("/health", { origin }),
    ]);
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 400, 401, 415, 404, 405, 200]);
    for (const { headers } of replies) {
      expect(headers.get("access-control-allow-origin")).toBe(origin);
      expect(headers.get("access-control-expose-headers")?.split(", ")).toEqual([...exposedHeaders]);
      expect(headers.get("vary")).toBe("Origin");
    }
    expect(exposedHeaders).toEqual(
      expect.arrayContaining([
        "x-request-id",
        "anthropic-ratelimit-output-tokens-reset",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "x-ratelimit-reset-tokens",
        "openai-processing-ms",
      ]),
    );
  });

  it("get cross-origin headers in a rejection by the listener (CORS-5)", async () => {
    const { status, headers } = await api.get(`/v1/models?${"x".repeat(9_000)}`, { origin });
    expect(status).toBe(431);
    expect(headers.get("access-control-allow-origin")).toBe(origin);
  });
});
