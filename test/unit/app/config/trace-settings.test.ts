import { describe, expect, it } from "vitest";
import { readTraceSettings } from "../../../../src/app/config/well-known-variables.js";

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/" };

describe("settings of traces", () => {
  it.each([
    ["nothing", {}],
    ["an empty endpoint", { OTEL_EXPORTER_OTLP_ENDPOINT: "" }],
    ["a service name alone", { OTEL_SERVICE_NAME: "x" }],
    ["a disabled SDK", { ...endpoint, OTEL_SDK_DISABLED: "TRUE" }],
    ["the exporter none", { ...endpoint, OTEL_TRACES_EXPORTER: "none" }],
  ])("are null with %s", (_what, variables) => {
    expect(readTraceSettings(variables)).toBeNull();
  });

  it("append /v1/traces to the endpoint for all signals, and use the endpoint for traces unchanged", () => {
    expect(readTraceSettings(endpoint)).toMatchObject({
      endpoint: "http://collector:4318/v1/traces",
      serviceName: "unified-inference",
      sampler: "parentbased_always_on",
      samplerArg: 1,
      warnings: [],
    });
    const own = { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://other/x" };
    expect(readTraceSettings(own)?.endpoint).toBe("http://other/x");
  });

  it("contain the decoded values of lists with percent-encoding", () => {
    const settings = readTraceSettings({
      ...endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc, x-team = a%zz ,nonsense",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=from-list,deployment.environment.name=prod",
    });
    expect(settings).toMatchObject({
      headers: { authorization: "Bearer abc", "x-team": "a%zz" },
      serviceName: "from-list",
      resource: { "deployment.environment.name": "prod" },
    });
  });

  it("contain a warning and the default for each invalid variable", () => {
    const settings = readTraceSettings({
      ...endpoint,
      OTEL_TRACES_SAMPLER: "jaeger",
      OTEL_TRACES_SAMPLER_ARG: "7",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
    });
    expect(settings).toMatchObject({ sampler: "parentbased_always_on", samplerArg: 1 });
    expect(settings?.warnings).toHaveLength(3);
  });
});
