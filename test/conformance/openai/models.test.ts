import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectRaw, parseAnswer } from "../../support/raw-connection.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError } from "./api.js";

describe("the REST API of models", () => {
  let service: RunningService;
  let api: Api;
  let onlyOrg: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "org/name:tag", engine: "scripted", owned_by: "org", scripted: { text: "x" }, context_length: 2048 },
          { id: "Plain", engine: "scripted", scripted: { text: "x" } },
          { id: "embed", engine: "scripted", scripted: { dimensions: 8 } },
        ],
      },
    });
    api = createApi(service);
    const { secret } = await service.service.parts.apiKeys.create({ name: "org", scope: "read", models: ["org/*"] });
    onlyOrg = createApi({ http: service.http, key: secret });
  });
  afterAll(() => service.close());

  /** Sends a path unchanged, which HTTP libraries would normalize. */
  async function getRaw(path: string) {
    const connection = await connectRaw(service.http);
    connection.send(
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${service.key}\r\nConnection: close\r\n\r\n`,
    );
    const { status, body } = parseAnswer(await connection.closed());
    return { status, json: JSON.parse(body) };
  }

  it("the list is an object, and queries change nothing (MODEL-1, MODEL-2, MODEL-10, DEC-10, GEN-4)", async () => {
    const { status, json } = await api.get("/v1/models");
    expect(status).toBe(200);
    expect(json.object).toBe("list");
    expect(json.data).toContainEqual({
      id: "org/name:tag",
      object: "model",
      created: expect.any(Number),
      owned_by: "org",
      context_length: 2048,
      tool_calling: "auto",
      capabilities: ["chat", "completions"],
    });
    expect(json.data.find(({ id }: { id: string }) => id === "embed")).toMatchObject({
      capabilities: ["embeddings"],
      dimensions: 8,
    });
    for (const { created } of json.data) {
      expect(Number.isInteger(created)).toBe(true);
      expect(Math.abs(created - Date.now() / 1000)).toBeLessThan(3600);
    }
    expect((await api.get("/v1/models?limit=1&after=x")).json).toEqual(json);
  });

  it.each([
    "/v1/models/org/name:tag",
    "/v1/models/org%2Fname:tag",
    "/v1/models/org%2fname%3Atag",
    "/v1/models/%6Frg/name:tag?x=y",
  ])("%s returns the model (MODEL-3)", async (path) => {
    expect((await getRaw(path)).json.id).toBe("org/name:tag");
  });

  it("a path is percent-decoded once, and an invalid escape is rejected with an error object (MODEL-4)", async () => {
    expect((await getRaw("/v1/models/org%252Fname:tag")).json.error.message).toContain("org%2Fname:tag");
    for (const id of ["100%", "%E2%82", "%"]) {
      expect(await getRaw(`/v1/models/${id}`)).toMatchObject({
        status: 400,
        json: { error: { code: "invalid_value", param: null } },
      });
    }
  });

  it("an empty id is 404 and not the list (MODEL-5)", async () => {
    expectError(await api.get("/v1/models/"), 404, "model_not_found", "model");
  });

  it("ids are compared exactly (MODEL-6)", async () => {
    expect((await api.get("/v1/models/Plain")).status).toBe(200);
    expectError(await api.get("/v1/models/plain"), 404, "model_not_found", "model");
    expectError(await api.get(`/v1/models/${"x".repeat(129)}`), 404, "model_not_found", "model");
  });

  it("unknown and hidden models get the same 404 on every route (MODEL-7, GEN-13, ERR-5)", async () => {
    const shape = ({ json }: { json: object }, id: string) => JSON.stringify(json).replaceAll(id, "ID");
    const hidden = await onlyOrg.get("/v1/models/Plain");
    expectError(hidden, 404, "model_not_found", "model");
    expect(shape(hidden, "Plain")).toBe(shape(await onlyOrg.get("/v1/models/nowhere"), "nowhere"));
    const { secret } = await service.service.parts.apiKeys.create({
      name: "w",
      scope: "read_write",
      models: ["org/*"],
    });
    const writer = createApi({ http: service.http, key: secret });
    const [unseen, unknown] = await Promise.all([writer.chat({ model: "Plain" }), writer.chat({ model: "nowhere" })]);
    expectError(unseen, 404, "model_not_found", "model");
    expect(shape(unseen, "Plain")).toBe(shape(unknown, "nowhere"));
  });

  it("a model cannot be deleted (MODEL-8, ERR-13)", async () => {
    const reply = await api.send("DELETE", "/v1/models/Plain", undefined, { "content-type": "" });
    expectError(reply, 405, "method_not_allowed");
    expect(reply.headers.get("allow")).toBe("GET, HEAD");
  });

  it("a key with the scope read may list the models that it may use (MODEL-9)", async () => {
    const { status, json } = await onlyOrg.get("/v1/models");
    expect(status).toBe(200);
    expect(json.data.map(({ id }: { id: string }) => id)).toEqual(["org/name:tag"]);
    expect((await onlyOrg.get("/v1/models/org%2Fname:tag")).status).toBe(200);
  });

  it("HEAD returns the headers of GET without the body (CONN-8)", async () => {
    for (const path of ["/v1/models", "/v1/models/Plain", "/v1", "/health"]) {
      const [get, head] = await Promise.all([api.get(path), api.send("HEAD", path, undefined, { "content-type": "" })]);
      expect(head.status).toBe(200);
      expect(head.text).toBe("");
      expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
    }
  });
});
