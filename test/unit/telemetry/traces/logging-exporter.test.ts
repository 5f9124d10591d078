import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import { expect, it } from "vitest";
import { LoggingExporter } from "../../../../src/telemetry/traces/open-traces.js";
import { silentLog } from "../../../support/silent-log.js";

it("LoggingExporter logs once that exports fail, and once that they succeed again", () => {
  const told: string[] = [];
  const log = {
    ...silentLog,
    warn: (fields: object, message: string) => told.push(`${message}: ${JSON.stringify(fields)}`),
    info: (_fields: object, message: string) => told.push(message),
  };
  let isDown = true;
  const inner: SpanExporter = {
    export: (_spans, done) => done(isDown ? { code: 1, error: new Error("refused") } : { code: 0 }),
    shutdown: async () => {},
  };
  const exporter = new LoggingExporter(inner, log);
  const codes: number[] = [];
  const send = () => exporter.export([], ({ code }) => codes.push(code));
  send();
  send();
  isDown = false;
  send();
  send();
  expect(codes).toEqual([1, 1, 0, 0]);
  expect(told).toEqual(['trace export failed; dropping spans: {"reason":"refused"}', "trace export succeeds again"]);
});
