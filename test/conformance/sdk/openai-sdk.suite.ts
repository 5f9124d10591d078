import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { sayings, sdkService, type Target, targetOf } from "./models.js";
import { describeResponses } from "./openai-response.suite.js";
import type { RunScenario } from "./openai-scenarios.js";

/** Runs scenarios with one version of the package. */
export interface SdkHarness {
  readonly run: RunScenario;
  stop(): Promise<void>;
}

const requestId = expect.stringMatching(/^req_[0-9a-f]{32}$/);
const callId = expect.stringMatching(/^call_[A-Za-z0-9]{24}$/);

/** Tests of the service with the openai package for Node, the same for all its versions. */
export function describeOpenAiSdk(name: string, start: (target: Target) => Promise<SdkHarness>): void {
  describe(name, () => {
    let service: RunningService;
    let harness: SdkHarness;
    const run: RunScenario = (scenario) => harness.run(scenario);

    beforeAll(async () => {
      service = await startService(sdkService);
      harness = await start(targetOf(service));
    });
    afterAll(async () => {
      await harness.stop();
      await service.close();
    });

    it("create returns a complete typed answer (RESP-1, RESP-2, RESP-3, RESP-6, RESP-8, RESP-10, RESP-14, RESP-15, HDR-1)", async () => {
      const { completion, requestId: id } = await run("create");
      expect(id).toEqual(requestId);
      expect(completion).toEqual({
        id: expect.stringMatching(/^chatcmpl-[A-Za-z0-9]{24,}$/),
        object: "chat.completion",
        created: expect.closeTo(Date.now() / 1000, -3),
        model: "org/chat:tag",
        system_fingerprint: expect.stringMatching(/^fp_/),
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: sayings.chat, refusal: null },
            logprobs: null,
            finish_reason: "stop",
          },
        ],
        usage: {
          prompt_tokens: 6,
          completion_tokens: 6,
          total_tokens: 12,
          prompt_tokens_details: { cached_tokens: 0 },
          completion_tokens_details: { reasoning_tokens: 0 },
        },
      });
      expect(Number.isInteger(completion.created)).toBe(true);
      expect((await run("create")).completion.id).not.toBe(completion.id);
    });

    it("a stream has one role, the text and one finish reason (STRM-1, STRM-2, STRM-3, STRM-5, STRM-11, STRM-14)", async () => {
      const chunks = await run("stream");
      const choices = chunks.map((chunk) => chunk.choices);
      expect(choices.every((list) => list.length === 1)).toBe(true);
      const deltas = choices.flat().map(({ delta }) => delta);
      expect(deltas[0]).toEqual({ role: "assistant", content: "" });
      expect(deltas.slice(1).every((delta) => !("role" in delta))).toBe(true);
      expect(deltas.map(({ content }) => content ?? "").join("")).toBe(sayings.chat);
      expect(deltas.at(-1)).toEqual({});
      expect(choices.flat().map((choice) => choice.finish_reason)).toEqual([
        ...deltas.slice(1).map(() => null),
        "stop",
      ]);
      expect(chunks.every((chunk) => !("usage" in chunk))).toBe(true);
      const common = chunks.map(({ id, created, model, object }) => ({ id, created, model, object }));
      expect(new Set(common.map((each) => JSON.stringify(each))).size).toBe(1);
      expect(common[0]).toMatchObject({ object: "chat.completion.chunk", model: "org/chat:tag" });
    });

    it("usage is last, in a separate chunk (STRM-10, STRM-12, STRM-13)", async () => {
      const chunks = await run("streamWithUsage");
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 6, completion_tokens: 6 } });
      expect(chunks.slice(0, -1).map(({ usage }) => usage)).toEqual(chunks.slice(1).map(() => null));
    });

    it("two choices begin in order and each ends once (STRM-3, STRM-4, STRM-5)", async () => {
      const choices = (await run("streamTwoChoices")).flatMap((chunk) => chunk.choices);
      expect(choices.slice(0, 2).map(({ index, delta }) => [index, delta.role])).toEqual([
        [0, "assistant"],
        [1, "assistant"],
      ]);
      for (const index of [0, 1]) {
        const own = choices.filter((choice) => choice.index === index);
        expect(own.map(({ delta }) => delta.content ?? "").join("")).toBe(sayings.chat);
        expect(own.map((choice) => choice.finish_reason).filter((reason) => reason !== null)).toEqual(["stop"]);
      }
    });

    it("the stream helper builds the same answer as create (STRM-18)", async () => {
      const { completion: whole } = await run("create");
      const { completion, deltas } = await run("streamHelper");
      expect(completion.choices[0]).toMatchObject({
        finish_reason: "stop",
        message: { role: "assistant", content: whole.choices[0]?.message.content },
      });
      expect(deltas.join("")).toBe(sayings.chat);
    });

    it("parse accepts a JSON schema and returns the object", async () => {
      expect(await run("parse")).toEqual({ parsed: JSON.parse(sayings.json) });
    });

    it("streamed JSON text arrives in fragments (RF-8)", async () => {
      const { deltas, content } = await run("parseStream");
      expect(deltas.length).toBeGreaterThan(1);
      expect(deltas.join("")).toBe(sayings.json);
      expect(content).toBe(sayings.json);
    });

    it("tool calls have an id, a type and arguments as text (RESP-5, TOOL-10, TOOL-11, TOOL-12, TOOL-13)", async () => {
      const [choice] = await run("calls");
      expect(choice).toMatchObject({
        finish_reason: "tool_calls",
        message: {
          content: null,
          tool_calls: [
            { id: callId, type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
            { id: callId, type: "function", function: { name: "clock", arguments: "{}" } },
          ],
        },
      });
      const ids = choice?.message.tool_calls?.map(({ id }) => id);
      expect(new Set(ids).size).toBe(2);
    });

    it("streamed calls send their names once, one call after the other (STRM-2, STRM-6, STRM-7, STRM-8, STRM-9)", async () => {
      const choices = await run("streamedCalls");
      expect(choices[0]?.delta).toEqual({ role: "assistant", content: null });
      const deltas = choices.flatMap(({ delta }) => delta.tool_calls ?? []);
      expect(deltas.map(({ index }) => index)).toEqual(deltas.map(({ index }) => index).sort());
      for (const [index, name, args] of [
        [0, "weather", '{"city":"Oslo"}'],
        [1, "clock", "{}"],
      ] as const) {
        const [first, ...rest] = deltas.filter((delta) => delta.index === index);
        expect(first).toMatchObject({ id: callId, type: "function", function: { name } });
        expect(rest.every((delta) => !("id" in delta || "type" in delta || "name" in (delta.function ?? {})))).toBe(
          true,
        );
        expect([first, ...rest].map((delta) => delta?.function?.arguments ?? "").join("")).toBe(args);
      }
    });

    it("the stream helper assembles the calls (TOOL-12, TOOL-13, STRM-6, STRM-9)", async () => {
      const { done, choices } = await run("streamedCallsByHelper");
      expect(done).toEqual(["0 weather", "1 clock"]);
      expect(choices[0]).toMatchObject({
        finish_reason: "tool_calls",
        message: {
          tool_calls: [
            { id: callId, type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
            { id: callId, type: "function", function: { name: "clock", arguments: "{}" } },
          ],
        },
      });
    });

    it("runTools completes the cycle of call, result and answer (TOOL-10)", async () => {
      const round = { answer: sayings.afterTools, asked: ["Oslo"], roles: ["user", "assistant", "tool", "assistant"] };
      expect(await run("runTools")).toEqual(round);
      expect(await run("runToolsStreaming")).toEqual(round);
    });

    it("models are listed, and found by an id with a slash and a colon (MODEL-1, MODEL-3)", async () => {
      const { listed, retrieved } = await run("models");
      const model = listed.find(({ id }) => id === "org/chat:tag");
      expect(model).toMatchObject({ object: "model", created: expect.any(Number), owned_by: expect.any(String) });
      expect(retrieved).toEqual(model);
    });

    it("vectors are equal in the SDK's own encoding and as numbers (EMB-3, EMB-4, EMB-5, EMB-6, EMB-7)", async () => {
      const { byDefault, asFloat, raw } = await run("embeddings");
      expect(asFloat).toMatchObject({ object: "list", model: "vectors", usage: { prompt_tokens: 3, total_tokens: 3 } });
      expect(asFloat.data.map(({ index, object }) => [index, object])).toEqual([0, 1, 2].map((i) => [i, "embedding"]));
      for (const [i, { embedding }] of asFloat.data.entries()) {
        expect(embedding).toHaveLength(8);
        const single = embedding.map(Math.fround);
        expect(byDefault.data[i]?.embedding).toEqual(single);
        expect(decodeVector(String(raw.data[i]?.embedding))).toEqual(single);
      }
      expect(new Set(asFloat.data.map(({ embedding }) => embedding[0])).size).toBe(3);
    });

    it("legacy completions work, whole and streamed (CMPL-3, CMPL-4, CMPL-5, CMPL-6, CMPL-13)", async () => {
      const { completion, chunks } = await run("legacy");
      expect(completion).toMatchObject({
        id: expect.stringMatching(/^cmpl-/),
        object: "text_completion",
        choices: [0, 1].map((index) => ({ index, text: sayings.chat, logprobs: null, finish_reason: "stop" })),
        usage: { prompt_tokens: 2, completion_tokens: 12, total_tokens: 14 },
      });
      const choices = chunks.flatMap((chunk) => chunk.choices);
      for (const index of [0, 1]) {
        const own = choices.filter((choice) => choice.index === index);
        expect(own.map(({ text }) => text).join("")).toBe(sayings.chat);
        expect(own.map((choice) => choice.finish_reason)).toEqual([...own.slice(1).map(() => null), "stop"]);
      }
      expect(chunks.every(({ object }) => object === "text_completion")).toBe(true);
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 14 } });
    });

    it("a base URL with a slash, unknown headers and query parameters have no effect (GEN-1, GEN-4)", async () => {
      expect(await run("ignoredExtras")).toEqual({ text: sayings.chat });
    });

    it("a stream that the client cancels stops the engine and frees its slot (SSE-14)", async () => {
      const before = await producedTokens();
      expect(await run("abort")).toEqual({ chunks: 6 });
      await eventually(isIdle, "an idle service");
      expect(await producedTokens()).toBeGreaterThan(before);
    });

    it("a client that aborts a whole answer stops the engine (RETRY-6)", async () => {
      expect(await run("timeout")).toMatchObject({ name: "APIConnectionTimeoutError" });
      await eventually(isIdle, "an idle service");
    });

    it("each rejection is raised as its class, with code and param (ERR-5, ERR-6, ERR-7, ERR-9, ERR-11, ERR-12, ERR-16, ERR-26)", async () => {
      const refusals = await run("refusals");
      const of = (name: string, status: number, type: string, code: string, param: string | null = null) =>
        expect.objectContaining({ name, status, type, code, param, requestId });
      const invalid = "invalid_request_error";
      expect(refusals).toEqual({
        badKey: of("AuthenticationError", 401, "authentication_error", "invalid_api_key"),
        readKey: of("PermissionDeniedError", 403, "permission_error", "insufficient_permissions"),
        unknownModel: of("NotFoundError", 404, invalid, "model_not_found", "model"),
        badValue: of("BadRequestError", 400, invalid, "decimal_above_max_value", "temperature"),
        badType: of("BadRequestError", 400, invalid, "invalid_type", "messages[0].content"),
        embeddingModel: of("BadRequestError", 400, invalid, "model_not_supported", "model"),
        tooLarge: of("APIError", 413, invalid, "request_too_large"),
        tooLong: of("BadRequestError", 400, invalid, "context_length_exceeded", "messages"),
        unknownRoute: of("NotFoundError", 404, invalid, "unknown_url"),
      });
      expect(refusals.tooLong.message).toMatch(/maximum context length is 4096 tokens.*5000/);
    });

    it("a full queue is answered with 503 and a retry delay (ERR-24, RETRY-1)", async () => {
      const error = await run("fullQueue");
      expect(error).toMatchObject({ name: "InternalServerError", status: 503, code: "server_is_overloaded" });
      expect(error.retryAfter).toMatch(/^([1-9]|[1-5]\d|60)$/);
      expect(Math.ceil(Number(error.retryAfterMs) / 1000)).toBe(Number(error.retryAfter));
      await eventually(isIdle, "an idle service");
    });

    it("the SDK retries internal errors, and does not retry rejections (RETRY-3)", async () => {
      expect(await run("attempts")).toEqual({
        failsOnce: { outcome: "answered", attempts: 2 },
        failsAlways: { outcome: 502, attempts: 3 },
        badValue: { outcome: 400, attempts: 1 },
        badKey: { outcome: 401, attempts: 1 },
        readKey: { outcome: 403, attempts: 1 },
        unknownModel: { outcome: 404, attempts: 1 },
        tooLarge: { outcome: 413, attempts: 1 },
      });
    });

    it("the log contains the SDK's retry count of a request (RETRY-5)", () => {
      const retries = service.logs
        .filter((line) => line["model"] === "fails-always")
        .map((line) => line["retry_count"]);
      expect(new Set(retries)).toEqual(new Set(["0", "1", "2"]));
    });

    it("an engine that fails in a stream raises an error with its code (SERR-1, SERR-2)", async () => {
      const { text, iterated, helped } = await run("deathInStream");
      const error = { name: "APIError", code: "upstream_error", type: "server_error", param: null };
      expect(text).toBe("Paris is");
      expect(iterated).toMatchObject(error);
      expect(helped).toMatchObject(error);
    });

    describeResponses(run);

    async function isIdle(): Promise<boolean> {
      const { requests, models, streams } = await service.debugState();
      return requests.running + requests.waiting + streams === 0 && models.every(({ busy }) => busy === 0);
    }

    async function producedTokens(): Promise<number> {
      const { models } = await service.debugState();
      return models.find(({ id }) => id === "endless")?.produced_tokens ?? 0;
    }
  });
}

/** Decodes little-endian float32. */
function decodeVector(base64: string): number[] {
  const bytes = Buffer.from(base64, "base64");
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
}
