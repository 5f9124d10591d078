import { describe, expect, it } from "vitest";
import { CallEntry } from "../../../src/domain/call/call.js";
import { createLogger } from "../../../src/telemetry/logger.js";
import { prettyFormat } from "../../../src/telemetry/pretty-line.js";

function logTo(colors = false) {
  const written: string[] = [];
  const format = prettyFormat({ colors });
  return { written, log: createLogger({ level: "debug", sink: { write: (line) => written.push(format(line)) } }) };
}

const secret = "sk-uis-q3Tq2bXW1c0aPLANTEDSECRETfE5kN9mJr7VwYz0Dh4Gs6";
const clock = /^\d\d:\d\d:\d\d /;

describe("a log line for people", () => {
  it("has time, level, message and the fields that have a value, as text", () => {
    const { written, log } = logTo();
    log.warn({ model: "m", none: null, text: "two words", list: [1, 2], at: { port: 80 } }, "something happened");
    expect(written[0]).toMatch(clock);
    expect(written[0]?.replace(clock, "")).toBe(
      'warn  something happened  model=m text="two words" list=1,2 at.port=80\n',
    );
  });

  it("shows a request as operation, model, result, tokens and time", () => {
    const end = {
      requestId: "req_1",
      operation: "create_chat_completion",
      transport: "openai",
      model: "m",
      why: "completed",
      usage: { promptTokens: 23, completionTokens: 12 },
      times: { admitMs: 1, queueMs: 0 },
      route: null,
      durationMs: 1_234,
    };
    const line = { end, principal: { account: "default", keyId: "k" }, caller: { address: "::1" }, error: null };
    const { written, log } = logTo();
    log.info(new CallEntry({ ...line, traceId: undefined, labels: null } as never), "request");
    const failed = { ...line, end: { ...end, usage: null }, error: { code: "model_loading" } };
    log.info(new CallEntry({ ...failed, traceId: undefined, labels: null } as never), "request");
    expect(written.map((text) => text.replace(clock, ""))).toEqual([
      "info  create_chat_completion m: completed in 1.23 s, 23 tokens in, 12 out  req_1\n",
      "info  create_chat_completion m: model_loading in 1.23 s  req_1\n",
    ]);
  });

  it("appends the cause of an error once, and shows stack frames only for faults of the program", () => {
    class Unavailable extends Error {
      override readonly name = "Unavailable";
    }
    const { written, log } = logTo();
    log.error({ err: new Unavailable("no hub: no route", { cause: new Error("no route") }) }, "the pull failed");
    log.error({ err: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }) }, "the pull failed");
    log.error({ err: new TypeError("x is undefined") }, "the pull failed: x is undefined");
    expect(written[0]?.replace(clock, "")).toBe("error the pull failed: no hub: no route\n");
    expect(written[1]?.replace(clock, "")).toBe("error the pull failed: connect ECONNREFUSED\n");
    expect(written[2]?.replace(clock, "")).toMatch(/^error the pull failed: x is undefined\n( {4}at .+\n)+$/);
  });

  it("contains no control characters of fields, and no credential (SEC-18)", () => {
    const { written, log } = logTo();
    log.info({ user: "\u001b[2J\r\nfake line", "bad\u001bname": 1 }, `said \u001b]0;title\u0007 Bearer ${secret}`);
    expect(written.join("")).not.toMatch(/(?!\n)\p{Cc}/u);
    expect(written.join("").split("\n")).toHaveLength(2);
    expect(written.join("")).not.toContain("PLANTEDSECRET");
  });

  it("has colors for time, level and fields only if colors are enabled", () => {
    const [plain, colored] = [logTo(false), logTo(true)];
    for (const { log } of [plain, colored]) log.error({ model: "m" }, "failed");
    expect(colored.written[0]).toContain("\u001b[31merror\u001b[0m failed  \u001b[2mmodel=m\u001b[0m");
    expect(colored.written[0]?.replaceAll(/\p{Cc}\[\d+m/gu, "").replace(clock, "")).toBe(
      plain.written[0]?.replace(clock, ""),
    );
  });
});
