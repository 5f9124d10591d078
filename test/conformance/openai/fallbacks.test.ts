import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError } from "./api.js";

const failing = { engine: "scripted", scripted: { text: "x", fail: { code: "upstream_error" } } };

describe("fallback models on REST", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "large", ...failing, fallbacks: ["short", "small"] },
          { id: "short", engine: "scripted", scripted: { text: "x" }, capabilities: ["completions"] },
          { id: "small", engine: "scripted", scripted: { text: "Hello from the small one." } },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it("are named with their deployment in the headers, while the body has the requested id (REL-21, RESP-10)", async () => {
    const { status, headers, json } = await api.chat({ model: "large" });
    expect(status).toBe(200);
    expect(json).toMatchObject({ model: "large", choices: [{ message: { content: "Hello from the small one." } }] });
    expect(headers.get("x-uis-model")).toBe("small");
    expect(headers.get("x-uis-deployment")).toBe("embedded/small");
    expect(headers.get("x-uis-attempts")).toBe("2");
  });

  it("are named in the headers of a stream and in the request log (REL-21)", async () => {
    const { headers, text } = await api.chat({ model: "large", stream: true });
    expect(text).toContain("[DONE]");
    expect(headers.get("x-uis-model")).toBe("small");
    const id = headers.get("x-request-id");
    const line = () => service.logs.find(({ msg, request_id }) => msg === "request" && request_id === id);
    await eventually(() => line() !== undefined);
    expect(line()).toMatchObject({
      model: "large",
      deployment: "embedded/small",
      attempts: 2,
      fallback_model: "small",
      outcome: "completed",
    });
  });

  it("are not named in an answer of the requested model, which has one attempt", async () => {
    const { headers } = await api.chat({ model: "small" });
    expect([headers.get("x-uis-deployment"), headers.get("x-uis-attempts")]).toEqual(["embedded/small", "1"]);
    expect(headers.has("x-uis-model")).toBe(false);
  });

  it.each(["off", " OFF"])("are not used with the header x-uis-fallback: %s (REL-21)", async (value) => {
    expectError(await api.chat({ model: "large" }, { "x-uis-fallback": value }), 502, "upstream_error");
  });

  it("are not used for a key that may not use them, which gets the error of the requested model (REL-21)", async () => {
    const created = await service.service.parts.apiKeys.create({ name: "l", scope: "read_write", models: ["large"] });
    const limited = createApi({ http: service.http, key: created.secret });
    expectError(await limited.chat({ model: "large" }), 502, "upstream_error");
  });

  it("are recorded in the usage if they have answered (REL-21)", async () => {
    const { json } = await api.get(`/v1/usage?start_time=${Math.floor(Date.now() / 1_000) - 3_600}&group_by=model`);
    const models = json.data.flatMap(({ results }: { results: { model: string; output_tokens: number }[] }) =>
      results.filter((result) => result.output_tokens > 0).map(({ model }) => model),
    );
    expect(new Set(models)).toEqual(new Set(["small"]));
  });
});
