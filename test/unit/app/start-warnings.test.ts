import { describe, expect, it } from "vitest";
import { configSchema } from "../../../src/app/config/schema.js";
import { fallbackChecks, fallbackWarnings, warningsOf } from "../../../src/app/doctor/settings.js";
import { isLoopback } from "../../../src/lib/network.js";

const warningsFor = (settings: object, env = {}) => warningsOf(configSchema.parse(settings), env);

describe("warnings at start", () => {
  it("are empty with the defaults", () => {
    expect(warningsFor({})).toEqual([]);
  });

  it("name a listener that other machines can reach without TLS", () => {
    expect(warningsFor({ server: { host: "0.0.0.0" } })).toHaveLength(1);
    const tls = { cert_file: "c", key_file: "k" };
    expect(warningsFor({ server: { host: "0.0.0.0", tls } })).toEqual([]);
  });

  it("name a listener for operators that other machines can reach without a credential", () => {
    expect(warningsFor({ server: { ops_host: "0.0.0.0" } })).toEqual([
      "other machines can read metrics and state on 0.0.0.0 without a credential: set server.ops_token_file, or server.ops_host to 127.0.0.1",
    ]);
    expect(warningsFor({ server: { ops_host: "0.0.0.0", ops_token_file: "ops.token" } })).toEqual([]);
    expect(warningsFor({ server: { ops_host: "::1" } })).toEqual([]);
  });

  it("name state that is lost at a stop, and misspelt variables", () => {
    expect(warningsFor({ state: { durability: "none" } })).toHaveLength(1);
    expect(warningsFor({}, { UIS_GRPC_PRT: "1" })[0]).toContain("UIS_GRPC_PORT");
  });

  it.each([
    [{ allow_http: true }, "without TLS"],
    [{ allow_private_cidrs: ["10.0.0.0/8"] }, "10.0.0.0/8"],
    [{ retry_delays: ["1s"] }, "receivers rely"],
  ])("name settings that allow private addresses or change the retry schedule: %j (WH-41)", (webhooks, words) => {
    const warnings = warningsFor({ webhooks });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(words);
  });
});

describe("warnings about fallbacks", () => {
  const scripted = { engine: "scripted" };
  const models = [
    { id: "a", ...scripted, fallbacks: ["b", "far"] },
    { id: "b", ...scripted, fallbacks: ["far", "typo"] },
  ];
  const warned = (settings: object, served: readonly string[] | null) =>
    fallbackChecks(configSchema.parse({ models, ...settings }), served === null ? null : new Set(served)).map(
      ({ detail }) => /"(.+)", a fallback of (.+), (does not exist|is not in models)/.exec(detail)?.slice(1).join(" "),
    );

  it("name each fallback that the running service does not have", () => {
    expect(warned({}, ["a", "b"])).toEqual(["far a, b does not exist", "typo b does not exist"]);
    expect(warned({}, ["a", "b", "far"])).toEqual(["typo b does not exist"]);
    expect(fallbackWarnings(configSchema.parse({ models }), new Set(["far"]))).toEqual([
      'the model "typo", a fallback of b, does not exist: add the model, or an upstream that lists it; until then requests skip the fallback',
    ]);
  });

  it("without a service name fallbacks that are not in models, unless a configured upstream lists its models", () => {
    expect(warned({}, null)).toEqual(["far a, b is not in models", "typo b is not in models"]);
    expect(warned({ upstreams: { gpu: { url: "http://h/v1" } } }, null)).toEqual([]);
  });
});

it.each([
  ["127.0.0.1", true],
  ["127.9.9.9", true],
  ["localhost", true],
  ["::1", true],
  ["[::1]", true],
  ["0.0.0.0", false],
  ["::", false],
  ["10.0.0.1", false],
  ["127.example.com", false],
])("isLoopback(%s) is %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});
