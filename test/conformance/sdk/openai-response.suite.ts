import { describe, expect, it } from "vitest";
import { sayings } from "./models.js";
import type { RunScenario } from "./openai-scenarios.js";

const requestId = expect.stringMatching(/^req_[0-9a-f]{32}$/);
const callId = expect.stringMatching(/^call_[A-Za-z0-9]{24}$/);

/** Tests of `/v1/responses` with the openai package for Node, the same for all its versions. */
export function describeResponses(run: RunScenario): void {
  describe("responses", () => {
    it("responses.create returns a complete typed response (RSP-4, RSP-5)", async () => {
      const { response, requestId: id } = await run("response");
      expect(id).toEqual(requestId);
      expect(response).toMatchObject({
        id: expect.stringMatching(/^resp_/),
        object: "response",
        created_at: expect.closeTo(Date.now() / 1000, -3),
        status: "completed",
        model: "org/chat:tag",
        output_text: sayings.chat,
        output: [
          {
            id: expect.stringMatching(/^msg_/),
            type: "message",
            status: "completed",
            role: "assistant",
            content: [{ type: "output_text", text: sayings.chat, annotations: [] }],
          },
        ],
        usage: {
          input_tokens: 6,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: 6,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: 12,
        },
      });
    });

    it("responses.create streams the events of a message in order (RSP-6, RSP-7)", async () => {
      const events = await run("responseStream");
      const isDelta = ({ type }: { type: string }) => type === "response.output_text.delta";
      expect(events.filter((event) => !isDelta(event)).map(({ type }) => type)).toEqual([
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
      ]);
      expect(events.filter(isDelta).length).toBeGreaterThan(1);
      expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, place) => place));
    });

    it("responses.stream builds the same response as responses.create (RSP-7, RSP-12)", async () => {
      const { response: whole } = await run("response");
      const { response, deltas } = await run("responseStreamHelper");
      expect(deltas.join("")).toBe(sayings.chat);
      expect(response).toMatchObject({ status: "completed", output_text: sayings.chat, usage: whole.usage });
    });

    it("responses.parse and responses.stream return the object of a JSON schema (RSP-1)", async () => {
      const place = JSON.parse(sayings.json) as unknown;
      expect(await run("parsedResponse")).toEqual({ whole: place, streamed: place });
    });

    it("responses complete the cycle of call, result and answer (RSP-2, RSP-5, RSP-8)", async () => {
      expect(await run("responseTools")).toEqual({
        answer: sayings.afterTools,
        calledWith: ['{"city":"Oslo"}'],
        types: ["message", "function_call", "function_call_output", "message"],
      });
    });

    it("streamed calls of a response are assembled, each with its own id (RSP-5, RSP-8, RSP-12)", async () => {
      const { done, output } = await run("responseStreamedCalls");
      expect(done).toEqual(['weather {"city":"Oslo"}', "clock {}"]);
      const calls = output.filter((item) => item.type === "function_call");
      expect(calls).toMatchObject([
        { id: expect.stringMatching(/^fc_/), call_id: callId, name: "weather", status: "completed" },
        { id: expect.stringMatching(/^fc_/), call_id: callId, name: "clock", status: "completed" },
      ]);
      expect(new Set(calls.flatMap(({ id, call_id }) => [id, call_id])).size).toBe(4);
    });

    it("rejections of responses are raised as their classes, with code and param (ERR-5, ERR-7, ERR-11)", async () => {
      expect(await run("responseRefusals")).toMatchObject({
        badKey: { name: "AuthenticationError", status: 401, code: "invalid_api_key" },
        unknownModel: { name: "NotFoundError", status: 404, code: "model_not_found", param: "model" },
        badValue: { name: "BadRequestError", status: 400, code: "decimal_above_max_value", param: "temperature" },
        tooLong: { name: "BadRequestError", status: 400, code: "context_length_exceeded", param: "input" },
      });
    });

    it("an engine that fails in a streamed response raises an error with its code (RSP-10)", async () => {
      const { text, iterated, helped } = await run("responseDeathInStream");
      expect(text).toBe("Paris is");
      for (const error of [iterated, helped]) expect(error).toMatchObject({ name: "APIError", code: "upstream_error" });
    });
  });
}
