import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { gpuSupport } from "../../../../src/engines/llama/llama-engine.js";

const manifest = JSON.parse(readFileSync("node_modules/node-llama-cpp/package.json", "utf8"));
const builds = Object.keys(manifest.optionalDependencies);

describe("the build of the binding", () => {
  it("uses Metal on Apple silicon, where all builds support it", () => {
    expect(builds.filter((name) => name.includes("/mac-arm64"))).toEqual(["@node-llama-cpp/mac-arm64-metal"]);
    expect(gpuSupport({ platform: "darwin", arch: "arm64" }, null)).toBe("auto");
  });

  it("uses no GPU elsewhere, unless the operator installed another binding", () => {
    for (const [platform, arch, build] of [
      ["linux", "x64", "linux-x64"],
      ["linux", "arm64", "linux-arm64"],
      ["win32", "x64", "win-x64"],
      ["darwin", "x64", "mac-x64"],
    ] as const) {
      expect(builds).toContain(`@node-llama-cpp/${build}`);
      expect(gpuSupport({ platform, arch }, null)).toBe(false);
      expect(gpuSupport({ platform, arch }, "/opt/binding")).toBe("auto");
    }
  });
});
