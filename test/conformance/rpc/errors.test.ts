import type { MessageInitShape } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ChatCompletionParamsSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { type ErrorCode, errorRow } from "../../../src/contract/errors.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatMethods, chatOf, createChatCompletion, streamChatCompletion } from "./chat-requests.js";
import { openWay, type RpcFailure, type RpcWay, wayNames } from "./ways.js";

const engineFaults = ["internal_error", "upstream_error", "server_is_overloaded", "upstream_timeout"] as const;

const models = [
  { id: "m", engine: "scripted", scripted: { text: "One two three." } },
  { id: "e", engine: "scripted", scripted: { dimensions: 8 } },
  { id: "short", engine: "scripted", context_length: 8, scripted: { text: "One." } },
  ...engineFaults.map((code) => ({ id: code, engine: "scripted", scripted: { fail: { after_tokens: 0, code } } })),
  {
    id: "dies",
    engine: "scripted",
    scripted: { text: "One two three.", token_delay_ms: 5, fail: { after_tokens: 2, code: "upstream_error" } },
  },
];

interface Case {
  readonly title: string;
  readonly code: ErrorCode;
  readonly grpc: number;
  readonly param?: string;
  readonly model: string;
  readonly fields?: MessageInitShape<typeof ChatCompletionParamsSchema>;
  readonly text?: string;
}

const cases: readonly Case[] = [
  { title: "an unknown model (ERR-5)", code: "model_not_found", grpc: status.NOT_FOUND, param: "model", model: "none" },
  {
    title: "a number above its maximum (ERR-7)",
    code: "decimal_above_max_value",
    grpc: status.INVALID_ARGUMENT,
    param: "temperature",
    model: "m",
    fields: { temperature: 2.5 },
  },
  {
    title: "no messages (ERR-7)",
    code: "empty_array",
    grpc: status.INVALID_ARGUMENT,
    param: "messages",
    model: "m",
    fields: { messages: [] },
  },
  {
    title: "a model that cannot chat (ERR-8)",
    code: "model_not_supported",
    grpc: status.INVALID_ARGUMENT,
    param: "model",
    model: "e",
  },
  {
    title: "a prompt that is too long (ERR-9)",
    code: "context_length_exceeded",
    grpc: status.INVALID_ARGUMENT,
    param: "messages",
    model: "short",
    text: "one two three four five six seven eight nine ten",
  },
  { title: "an internal error (ERR-22)", code: "internal_error", grpc: status.INTERNAL, model: "internal_error" },
  { title: "an engine that dies (ERR-23)", code: "upstream_error", grpc: status.UNAVAILABLE, model: "upstream_error" },
  {
    title: "no capacity (ERR-24)",
    code: "server_is_overloaded",
    grpc: status.UNAVAILABLE,
    model: "server_is_overloaded",
  },
  {
    title: "an engine that takes too long (ERR-25)",
    code: "upstream_timeout",
    grpc: status.DEADLINE_EXCEEDED,
    model: "upstream_timeout",
  },
];

const requestId = /^req_[0-9a-f]{32}$/;

describe.each(wayNames)("errors over %s", (name) => {
  let service: RunningService;
  let way: RpcWay;
  beforeAll(async () => {
    service = await startService({ config: { models } });
    way = openWay(name, service);
  });
  afterAll(async () => {
    way.close();
    await service.close();
  });

  function expectFailure(failure: RpcFailure | null, code: ErrorCode, grpc: number, param?: string): void {
    expect(failure).toMatchObject({ code: grpc, reason: code.toUpperCase(), type: errorRow(code).type });
    expect(failure?.param).toBe(param);
    expect(failure?.fields).toEqual(param === undefined ? [] : [`params.${param}`]);
  }

  for (const method of chatMethods) {
    for (const { title, code, grpc, param, model, fields, text } of cases) {
      it(`have code, reason and field for ${title}: ${method.localName} (GRPC-9)`, async () => {
        const { messages, failure, requestId: id } = await way.call(method, chatOf(model, fields, text));
        expectFailure(failure, code, grpc, param);
        expect(messages).toHaveLength(0);
        expect(id).toMatch(requestId);
      });
    }

    it(`are the same for every kind of bad credential: ${method.localName} (GRPC-9, ERR-11, KEY-4, KEY-5, KEY-17)`, async () => {
      const revoked = await service.service.parts.apiKeys.create({ name: "gone", scope: "read_write" });
      await service.service.parts.apiKeys.revoke(revoked.record.id);
      const credentials = [null, "", "Bearer sk-uis-nothing", `Basic ${service.key}`, `Bearer ${revoked.secret}`];
      const messages = new Set<string | undefined>();
      for (const authorization of credentials) {
        const { failure } = await way.call(method, chatOf("m"), { authorization });
        expectFailure(failure, "invalid_api_key", status.UNAUTHENTICATED);
        messages.add(failure?.message);
      }
      expect(messages.size).toBe(1);
    });

    it(`have code and reason for a key without the needed scope: ${method.localName} (ERR-12, KEY-7, KEY-17)`, async () => {
      const { failure } = await way.call(method, chatOf("m"), { authorization: `Bearer ${service.readKey}` });
      expectFailure(failure, "insufficient_permissions", status.PERMISSION_DENIED);
    });
  }

  it("name enum values and no REST path (ERR-7)", async () => {
    const role = {
      params: { model: "m", messages: [{ content: [{ part: { case: "text" as const, value: "Hi" } }] }] },
    };
    const { failure } = await way.call(createChatCompletion, role);
    expect(failure?.message).toContain("must be one of ROLE_SYSTEM,");
    for (const model of ["none", "e"]) {
      const { failure: refused } = await way.call(createChatCompletion, chatOf(model));
      expect(refused?.message).not.toContain("/v1/");
    }
  });

  it("have the retry delay in a detail and in metadata if there is no capacity (RETRY-1, GRPC-10)", async () => {
    for (const method of chatMethods) {
      const { failure } = await way.call(method, chatOf("server_is_overloaded"));
      expect(failure?.retryDelayMs).toBeGreaterThan(0);
      expect(Number(failure?.metadata.get("retry-after-ms"))).toBe(failure?.retryDelayMs);
      expect(Number(failure?.metadata.get("retry-after"))).toBeGreaterThanOrEqual(1);
    }
  });

  it("follow the output of an engine that fails in the middle of a stream (ERR-23)", async () => {
    const { messages, failure } = await way.call(streamChatCompletion, chatOf("dies"));
    expectFailure(failure, "upstream_error", status.UNAVAILABLE);
    const said = messages.map(({ chunk }) => chunk?.choices[0]?.delta?.content ?? "").join("");
    expect(said).toBe("One two");
    expect(messages.every(({ chunk }) => chunk?.usage === undefined)).toBe(true);
  });
});
