import { describe, expect, it } from "vitest";
import { openTraces, tracePackages } from "../../../../src/telemetry/traces/open-traces.js";
import { silentLog } from "../../../support/silent-log.js";

const options = {
  endpoint: "http://127.0.0.1:9/v1/traces",
  headers: {},
  serviceName: "under-test",
  resource: {},
  sampler: "always_off",
  samplerArg: 1,
};

describe("traces", () => {
  it("cannot be opened without their packages: the error has the command that installs them", async () => {
    const opening = openTraces(options, silentLog, () => Promise.reject(new Error("Cannot find package")));
    await expect(opening).rejects.toMatchObject({ name: "TracePackagesMissing" });
    await expect(opening).rejects.toThrow(`npm install ${tracePackages.join(" ")}`);
  });

  it.each([
    ["always_on", 0, true],
    ["always_off", 1, false],
    ["traceidratio", 0, false],
    ["traceidratio", 1, true],
    ["parentbased_always_off", 1, false],
    ["parentbased_traceidratio", 1, true],
  ])("with the sampler %s and the argument %d are recorded: %s", async (sampler, samplerArg, isRecorded) => {
    const traces = await openTraces({ ...options, sampler, samplerArg }, silentLog);
    expect(traces.tracer.startSpan("x").isRecording()).toBe(isRecorded);
    await traces.close();
  });
});
