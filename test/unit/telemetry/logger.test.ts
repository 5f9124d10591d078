import { pino } from "pino";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ServiceError, toServiceError } from "../../../src/domain/call/service-error.js";
import { createLogger, type LogLevel } from "../../../src/telemetry/logger.js";

function logTo(level: LogLevel = "trace") {
  const lines: string[] = [];
  return { lines, log: createLogger({ level, sink: { write: (line) => lines.push(line) } }) };
}

const secret = "sk-uis-q3Tq2bXW1c0aPLANTEDSECRETfE5kN9mJr7VwYz0Dh4Gs6";

describe("the logger", () => {
  it("writes one JSON object per line, with level by name and time in ISO 8601", () => {
    const { lines, log } = logTo();
    log.warn({ model: "m" }, "something\nhappened");
    expect(lines).toHaveLength(1);
    expect(lines[0]?.indexOf("\n")).toBe((lines[0]?.length ?? 0) - 1);
    const line = JSON.parse(lines[0] ?? "") as Record<string, unknown>;
    expect(line).toMatchObject({ level: "warn", model: "m", msg: "something\nhappened" });
    expect(line["time"]).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
  });

  it("writes each line's own time, to the millisecond", () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { lines, log } = logTo();
    const times = [
      "2026-01-01T00:00:00.000Z",
      "2026-01-01T00:00:00.007Z",
      "2026-01-01T00:00:01.999Z",
      "1999-12-31T23:59:59.120Z",
    ];
    for (const time of times) {
      vi.setSystemTime(new Date(time));
      log.info({}, "now");
    }
    expect(lines.map((line) => JSON.parse(line).time)).toEqual(times);
  });

  it("does not write lines below its level", () => {
    const { lines, log } = logTo("warn");
    log.debug({}, "a");
    log.info({}, "b");
    log.error({}, "c");
    expect(lines).toHaveLength(1);
  });

  it.each([
    {},
    { only: undefined },
    { text: 'a "b" \\ \u2028 \ud800', number: 1.5, nan: Number.NaN, yes: true, none: null, left_out: undefined },
    { list: [1, { a: null }], big: 1n, nothing: () => {} },
  ])("writes fields of any kind as pino does (%#)", (fields) => {
    const { lines, log } = logTo();
    log.info(fields, "100 % done");
    const expected: string[] = [];
    pino({ base: null, timestamp: false }, { write: (line: string) => expected.push(line) }).info(fields, "100 % done");
    const { time: _, ...written } = JSON.parse(lines[0] ?? "") as Record<string, unknown>;
    expect(written).toEqual({ ...(JSON.parse(expected[0] ?? "") as object), level: "info" });
  });

  it("writes the message of each cause once, even if outer errors quote it", () => {
    const { lines, log } = logTo();
    const cause = new Error("ENOSPC: the disk is full");
    const wrapped = new Error(`a.gguf cannot be written: ${cause.message}`, { cause });
    log.error({ err: new Error(`the pull failed: ${wrapped.message}`, { cause: wrapped }) }, "failed");
    log.error({ err: new Error("the pull failed", { cause }) }, "failed");
    const messages = lines.map((line) => (JSON.parse(line) as { err: { message: string } }).err.message);
    expect(messages).toEqual([
      "the pull failed: a.gguf cannot be written: ENOSPC: the disk is full",
      "the pull failed: ENOSPC: the disk is full",
    ]);
    for (const line of lines) expect(line.split("the disk is full")).toHaveLength(2);
  });

  it.each([{ err: new TypeError("outer", { cause: new Error("inner") }) }, new TypeError("outer")])(
    "writes an error as type, message and the stack frames of the error and its causes (%#)",
    (fields) => {
      const { lines, log } = logTo();
      log.error(fields, "failed");
      const { err } = JSON.parse(lines[0] ?? "") as { err: { type: string; message: string; stack: string } };
      const isChain = !(fields instanceof Error);
      expect(err).toMatchObject({ type: "TypeError", message: isChain ? "outer: inner" : "outer" });
      expect(err.stack).toMatch(/^TypeError\n +at /);
      expect(err.stack.match(/^caused by: Error\n +at /gm)?.length ?? 0).toBe(isChain ? 1 : 0);
    },
  );

  it.each([
    new ServiceError("storage_unavailable", "outer", { cause: new Error("inner") }),
    Object.assign(new Error("outer: inner"), { code: "ECONNREFUSED" }),
    Object.assign(new AggregateError([new Error("outer"), new Error("inner")]), { code: "ECONNREFUSED" }),
  ])("does not format the stack of an expected error, which would parse source maps (%#) (REL-15)", (err) => {
    const { lines, log } = logTo();
    let isRead = false;
    Object.defineProperty(err, "stack", { get: () => (isRead = true) });
    log.error({ err }, "failed");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      err: { type: err.constructor.name, message: "outer: inner", code: err.code },
    });
    expect(isRead).toBe(false);
  });

  it("writes the stack frames of the fault behind an internal error", () => {
    const { lines, log } = logTo();
    log.error({ err: toServiceError(new TypeError("x is undefined")) }, "failed");
    const { err } = JSON.parse(lines[0] ?? "") as { err: { stack: string } };
    expect(err.stack).toMatch(/^caused by: TypeError\n +at /m);
  });

  it.each([
    { model: secret, client_request_id: `Bearer ${secret}` },
    { authorization: `Bearer ${secret}` },
    { headers: { authorization: `Bearer ${secret}`, cookie: secret } },
    { request: { headers: { "x-api-key": secret } } },
    { api_key: secret, secret, password: secret },
    { err: new Error(`upstream said: Bearer ${secret}`) },
    { err: new Error("outer", { cause: new Error(`key ${secret} is not valid`) }) },
    { text: `curl -H "Authorization: Bearer ${secret}"` },
  ])("redacts a credential in any part of a line (%#) (SEC-18, KEY-18)", (fields) => {
    const { lines, log } = logTo();
    log.error(fields, `failed for ${secret}`);
    expect(lines.join("")).not.toContain("PLANTEDSECRET");
    expect(lines.join("")).toContain("[redacted]");
  });
});
