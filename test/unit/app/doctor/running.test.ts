import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it, onTestFinished } from "vitest";
import { SystemSchema } from "../../../../gen/unified/admin/v1/system_pb.js";
import { configSchema } from "../../../../src/app/config/schema.js";
import { ok, warn } from "../../../../src/app/doctor/check.js";
import { examineState, examineStateFile } from "../../../../src/app/doctor/machine.js";
import { runningChecks } from "../../../../src/app/doctor/running.js";

const state = { kind: "embedded", ok: true, spooled: 0n };

function checksOf(system: MessageInitShape<typeof SystemSchema>, known = [ok("config", "fine")]) {
  return runningChecks(create(SystemSchema, system), known);
}

describe("the findings of a running service", () => {
  it("are one check if it has no problem", () => {
    expect(checksOf({ state })).toEqual([ok("service", "it runs, and reports no problem")]);
  });

  it("name a store that does not answer, usage that is not stored yet, failed models and failing receivers", () => {
    const models = [
      { id: "large", state: "failed", problem: "it crashed six times" },
      { id: "medium", state: "ready", restarts: 3 },
      { id: "small", state: "ready" },
    ];
    expect(checksOf({ state: { ...state, ok: false, spooled: 12n }, models, endpointsFailing: 2 })).toMatchObject([
      { check: "service", status: "fail", detail: "its store does not answer" },
      { check: "usage", status: "warn", detail: expect.stringContaining("12 requests") },
      { check: "models", status: "warn", detail: "large cannot be used: it crashed six times" },
      { check: "models", status: "warn", detail: "the engine process of medium was restarted 3 times" },
      { check: "webhooks", status: "warn", detail: expect.stringContaining("2 endpoints") },
    ]);
  });

  it("do not repeat a warning of another check", () => {
    const known = [warn("bind", "others can reach it", "use TLS")];
    expect(checksOf({ state, warnings: ["others can reach it: use TLS", "the clock jumped"] }, known)).toMatchObject([
      { check: "service", status: "warn", detail: "the clock jumped" },
    ]);
  });
});

describe("the check of the state", () => {
  const clock = { jumps: 0, aheadMs: 0 };
  const health = { ok: true, latencyMs: 1, durability: "every-write", writeFault: null, clock, warnings: [] } as const;
  const checkOf = async (changes: object) =>
    (await examineState({ kind: "embedded", now: () => 0, health: async () => ({ ...health, ...changes }) })).checks;

  it("fails while the store cannot be written, and warns of a jump of the clock (E-22, E-23)", async () => {
    expect(await checkOf({})).toMatchObject([{ check: "state", status: "ok" }]);
    expect(await checkOf({ writeFault: "uis.db was deleted or moved" })).toMatchObject([
      { check: "state", status: "fail", detail: "uis.db was deleted or moved" },
    ]);
    expect(await checkOf({ warnings: ["The clock was set back"] })).toMatchObject([
      { check: "state", status: "warn", detail: "The clock was set back" },
    ]);
  });

  it("fails for a folder whose store is lost, without a service (E-24)", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "uis-doctor-"));
    onTestFinished(() => rm(dataDir, { recursive: true }));
    const config = { ...configSchema.parse({}), data_dir: dataDir };
    expect(examineStateFile(config)).toMatchObject([{ check: "state", status: "ok" }]);
    await writeFile(join(dataDir, "uis.db"), "");
    expect(examineStateFile(config)).toMatchObject([
      { check: "state", status: "fail", fix: expect.stringContaining("--new-store") },
    ]);
  });
});
