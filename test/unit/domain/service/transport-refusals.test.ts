import { describe, expect, it } from "vitest";
import { errorOfEnd } from "../../../../src/domain/call/call-context.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { fieldsOf, silentLog } from "../../../support/silent-log.js";
import { chat, createLimitedHarness, failure } from "./limited-harness.js";

describe("an error that the transport detects", () => {
  it("is charged as one request and logged with its error code (state RL-14)", async () => {
    const lines: Record<string, unknown>[] = [];
    const log = { ...silentLog, info: (fields: object) => void lines.push(fieldsOf(fields)) };
    const { open, requestsCharged } = await createLimitedHarness({ log });
    const { ctx } = await open();
    ctx.refused(new ServiceError("invalid_json", "The body is not JSON."));
    ctx.refused(new ServiceError("invalid_type", "Again."));
    ctx.close();
    expect(await requestsCharged()).toBe(1);
    expect(lines).toMatchObject([{ outcome: "failed", error: "invalid_json" }]);
  });

  it("is not charged if the request did not cause it (state RL-14)", async () => {
    const { open, requestsCharged } = await createLimitedHarness();
    const { ctx } = await open();
    ctx.refused(new ServiceError("request_timeout", "Too slow."));
    expect(await requestsCharged()).toBe(0);
  });

  it("is not charged if the operation runs no model", async () => {
    const { open, requestsCharged } = await createLimitedHarness();
    const { ctx } = await open("list_webhook_endpoints");
    ctx.refused(new ServiceError("invalid_value", "No such page."));
    expect(await requestsCharged()).toBe(0);
  });

  it.each(["client_left", "deadline", "shutting_down"] as const)(
    "keeps the outcome of a call that had already ended: %s",
    async (why) => {
      const lines: Record<string, unknown>[] = [];
      const log = { ...silentLog, info: (fields: object) => void lines.push(fieldsOf(fields)) };
      const { open } = await createLimitedHarness({ log });
      const { ctx, end } = await open("watch_models");
      end(why);
      const error = errorOfEnd(ctx.signal.reason);
      ctx.refused(error);
      ctx.close();
      expect(lines).toMatchObject([{ outcome: why, error: error.code }]);
    },
  );

  it("reports the usage of a run that is still being settled", async () => {
    const lines: Record<string, unknown>[] = [];
    const log = { ...silentLog, info: (fields: object) => void lines.push(fieldsOf(fields)) };
    const engine = new HandEngine();
    const { core, open } = await createCoreHarness({ engines: [engine], log });
    const { ctx, end } = await open();
    const answering = failure(core.createChatCompletion(chat(), ctx));
    const run = await engine.run();
    run.usage = { promptTokens: 3, outTokens: 2, cachedTokens: 0 };
    end("client_left");
    ctx.refused(errorOfEnd(ctx.signal.reason));
    ctx.close();
    await answering;
    expect(lines).toMatchObject([{ outcome: "client_left", prompt_tokens: 3, completion_tokens: 2 }]);
  });
});
