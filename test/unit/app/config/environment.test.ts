import { describe, expect, it } from "vitest";
import { misspeltNames } from "../../../../src/app/config/environment.js";

describe("misspeltNames", () => {
  it("finds names that are similar to a known one", () => {
    expect(misspeltNames({ UIS_GRPC_PRT: "1", UIS_ADMIN_TOKN: "x" })).toEqual([
      { name: "UIS_GRPC_PRT", meant: "UIS_GRPC_PORT" },
      { name: "UIS_ADMIN_TOKN", meant: "UIS_ADMIN_TOKEN" },
    ]);
  });

  it("ignores known names, other prefixes and names of container platforms", () => {
    const env = {
      UIS_LIMITS_STALL: "1s",
      UIS_ADMIN_TOKEN_FILE: "f",
      UIS_STATE_REDIS_URL_FILE: "f",
      UIS_URL: "u",
      PATH: "p",
      UIS_SVC_PORT_80_TCP_ADDR: "a",
    };
    expect(misspeltNames(env)).toEqual([]);
  });

  it("knows the key variables of configured upstreams, and finds names similar to them", () => {
    const env = { UIS_UPSTREAM_GPU_1_KEY: "k", UIS_UPSTREAM_GPU_1_KEY_FILE: "f", UIS_UPSTREAM_GPU1_KEY: "k" };
    expect(misspeltNames(env, ["gpu-1"])).toEqual([{ name: "UIS_UPSTREAM_GPU1_KEY", meant: "UIS_UPSTREAM_GPU_1_KEY" }]);
  });
});
