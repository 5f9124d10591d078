import { describe, expect, it } from "vitest";
import { clockCheck } from "../../../../src/app/doctor/check.js";
import { judgeMemory } from "../../../../src/app/doctor/engine.js";
import { judgeProcessor, runtimeCheck } from "../../../../src/app/doctor/machine.js";

describe("the check of Node", () => {
  it.each([
    ["18.20.8", "fail", "Node 24"],
    ["20.18.0", "fail", "Node 24"],
    ["20.20.2", "warn", "Node 24"],
    ["21.7.3", "warn", "Node 24"],
    ["22.22.1", "warn", "22.22.2"],
    ["22.22.2", "ok", null],
    ["23.11.0", "warn", "Node 24"],
    ["24.9.0", "warn", "24.14.1"],
    ["24.14.1", "ok", null],
    ["24.15.0", "ok", null],
    ["26.0.0", "ok", null],
  ])("of version %s has the status %s", (version, status, remedy) => {
    const { fix, ...found } = runtimeCheck(version);
    expect(found).toMatchObject({ check: "node", status });
    if (remedy === null) expect(fix).toBeNull();
    else expect(fix).toContain(remedy);
  });
});

describe("the check of the processor", () => {
  const facts = (flags: string) => `processor : 0\nflags\t\t: fpu ${flags} sse4_2\nbugs : none\n`;

  it("is ok with the features of the engine's fast code", () => {
    expect(judgeProcessor(facts("avx2 fma f16c"), "x64", 2)).toMatchObject({ status: "ok", fix: null });
    expect(judgeProcessor("Features : fp asimd asimddp\n", "arm64", 8)).toMatchObject({ status: "ok" });
  });

  it("warns of missing features", () => {
    const { status, detail, fix } = judgeProcessor(facts("fma"), "x64", 2);
    expect([status, detail]).toEqual(["warn", expect.stringContaining("without avx2, f16c")]);
    expect(fix).toContain("virtual");
  });

  it("is ok with a note if the features are unknown", () => {
    expect(judgeProcessor("", "x64", 2)).toMatchObject({ status: "ok", detail: expect.stringContaining("unknown") });
  });
});

it.each([
  [0, "ok"],
  [8e9, "ok"],
  [14e9, "warn"],
  [17e9, "fail"],
])("the check of %d bytes of models and contexts in 16 GB of memory has the status %s", (needed, status) => {
  const found = judgeMemory(needed, 16e9);
  expect(found).toMatchObject({ check: "memory", status });
  expect(found.fix === null).toBe(status === "ok");
});

it("the check of memory only warns of too large models if a graphics card may hold them", () => {
  expect(judgeMemory(17e9, 16e9, true)).toMatchObject({ check: "memory", status: "warn" });
});

describe("the check of the clock", () => {
  const nowMs = Date.UTC(2026, 10, 22);

  it.each([
    [0, "ok", "agrees with the clock of Redis"],
    [-9_000, "ok", "agrees with the clock of Redis"],
    [12_000, "warn", "12 s ahead of the clock of Redis"],
    [-299_000, "warn", "299 s behind the clock of Redis"],
    [-300_000, "fail", "receivers reject webhooks"],
  ])("with %d ms ahead of another clock has the status %s", (aheadMs, status, words) => {
    const found = clockCheck(nowMs, { name: "Redis", aheadMs });
    expect(found).toMatchObject({ check: "clock", status, detail: expect.stringContaining(words) });
    expect(found.fix === null).toBe(status === "ok");
  });

  it("is ok without another clock to compare with, and fails for an impossible time", () => {
    expect(clockCheck(nowMs, null)).toMatchObject({ status: "ok", detail: expect.stringContaining("not compared") });
    expect(clockCheck(0, null)).toMatchObject({ status: "fail", detail: expect.stringContaining("1970") });
  });
});
