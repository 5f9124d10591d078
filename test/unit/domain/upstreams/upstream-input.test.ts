import { describe, expect, it } from "vitest";
import { configSchema } from "../../../../src/app/config/schema.js";
import { deploymentBounds, upstreamDurations } from "../../../../src/domain/engine/upstream-forms.js";
import {
  checkChoices,
  checkHeaders,
  checkKey,
  checkNewUpstream,
  checkUpstreamName,
  type UpstreamInput,
} from "../../../../src/domain/upstreams/upstream-input.js";

const url = "http://10.0.0.5:8000/v1";

describe("a new upstream", () => {
  it("has the defaults of the configuration", () => {
    const { upstreams, models } = configSchema.parse({
      upstreams: { gpu: { url } },
      models: [{ id: "m", deployments: [{ engine: "openai", upstream: "gpu" }] }],
    });
    const { connect, first_byte, idle, total, kind } = upstreams["gpu"] ?? {};
    const [{ weight, priority } = {}] = models?.[0]?.deployments ?? [];
    expect(checkNewUpstream({ url })).toEqual({
      url,
      kind,
      apiVersion: null,
      models: [],
      native: [],
      discoverMs: upstreamDurations.discover.default,
      connectMs: connect,
      firstByteMs: first_byte,
      idleMs: idle,
      totalMs: total,
      weight,
      priority,
      slots: deploymentBounds.slots.default,
    });
  });

  it("has the kind of a known provider unless it is set", () => {
    expect(checkNewUpstream({ url: "https://api.openai.com/v1/" })).toMatchObject({
      url: "https://api.openai.com/v1",
      kind: "openai",
    });
    expect(checkNewUpstream({ url: "https://api.openai.com/v1", kind: "generic" }).kind).toBe("generic");
  });

  it("may name the API families that the server supports natively, if its kind allows that", () => {
    expect(checkNewUpstream({ url, native: ["messages", "responses"] }).native).toEqual(["responses", "messages"]);
    const refused = (input: UpstreamInput) => () => checkNewUpstream({ url, ...input });
    expect(refused({ native: ["chat"] })).toThrow(expect.objectContaining({ param: "native" }));
    expect(refused({ native: ["messages", "messages"] })).toThrow(expect.objectContaining({ param: "native" }));
    expect(refused({ native: ["messages"], kind: "ollama" })).toThrow("'native' is for the kinds openai, anthropic,");
  });

  it("has no interval for listing models if its models are named, and gets it again when the names are removed", () => {
    const named = checkNewUpstream({ url, models: ["a", "org/b"] });
    expect(named.discoverMs).toBeNull();
    expect(checkChoices(named, { models: [] }).discoverMs).toBe(upstreamDurations.discover.default);
    expect(checkNewUpstream({ url, discoverMs: 0 }).discoverMs).toBeNull();
  });

  const wrong: readonly (readonly [UpstreamInput, string, string])[] = [
    [{}, "url", "missing_required_parameter"],
    [{ url: "10.0.0.5:8000" }, "url", "invalid_value"],
    [{ url: "http://169.254.169.254/v1" }, "url", "invalid_value"],
    [{ url, kind: "other" }, "kind", "invalid_value"],
    [{ url, apiVersion: "2024-10-21" }, "api_version", "invalid_value"],
    [{ url, models: ["a b"] }, "models", "invalid_value"],
    [{ url, models: ["a", "a"] }, "models", "invalid_value"],
    [{ url, models: Array.from({ length: 1_001 }, (_, i) => `m${i}`) }, "models", "array_above_max_length"],
    [{ url, models: ["a"], discoverMs: 30_000 }, "discover", "invalid_value"],
    [{ url, discoverMs: 999 }, "discover", "invalid_value"],
    [{ url, connectMs: 600_001 }, "connect", "invalid_value"],
    [{ url, firstByteMs: 9 }, "first_byte", "invalid_value"],
    [{ url, idleMs: Number.NaN }, "idle", "invalid_value"],
    [{ url, totalMs: -1 }, "total", "invalid_value"],
    [{ url, weight: 0 }, "weight", "integer_below_min_value"],
    [{ url, priority: 101 }, "priority", "integer_above_max_value"],
    [{ url, slots: 65_537 }, "slots", "integer_above_max_value"],
    [{ url: "https://x.openai.azure.com", kind: "azure" }, "models", "missing_required_parameter"],
    [{ url: "https://x.openai.azure.com/openai/v1", kind: "azure", models: ["a"] }, "url", "invalid_value"],
  ];
  it.each(wrong)("the input %o is rejected with the name of the field %s", (input, param, code) => {
    expect(() => checkNewUpstream(input)).toThrow(expect.objectContaining({ param, code }));
  });
});

it.each(["", "embedded", "-a", "a/b", "a b", "x".repeat(65)])("the name %j of an upstream is rejected", (name) => {
  expect(() => checkUpstreamName(name)).toThrow(expect.objectContaining({ param: "name" }));
});

describe("the secrets of an upstream", () => {
  it("are rejected with an error that does not contain them", () => {
    expect(checkKey("")).toBeNull();
    expect(checkKey("sk-1")).toBe("sk-1");
    const without = (text: string) => expect.objectContaining({ message: expect.not.stringContaining(text) });
    expect(() => checkKey("two words")).toThrow(without("two words"));
    expect(() => checkHeaders({ "x-a": "line\nbreak" }, false)).toThrow(without("break"));
  });

  it.each([
    [{ "x a": "1" }, false],
    [{ Host: "elsewhere" }, false],
    [{ "content-type": "text/plain" }, false],
    [{ "X-A": "1", "x-a": "2" }, false],
    [{ Authorization: "Bearer x" }, true],
    [Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`x-${i}`, "1"])), false],
  ])("must not be the headers %o (with a key: %s)", (headers, hasKey) => {
    expect(() => checkHeaders(headers, hasKey)).toThrow(expect.objectContaining({ param: "headers" }));
  });

  it("may be a header instead of a key", () => {
    expect([...checkHeaders({ Authorization: "Bearer x" }, false)]).toEqual([["authorization", "Bearer x"]]);
  });
});
