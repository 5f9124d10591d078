import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { streamText } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { collect } from "./collect.js";

const codes = [
  { rule: "ERR-22", code: "internal_error", type: "server_error", status: 500 },
  { rule: "ERR-23", code: "upstream_error", type: "server_error", status: 502 },
  { rule: "ERR-24", code: "server_is_overloaded", type: "service_unavailable_error", status: 503 },
  { rule: "ERR-25", code: "upstream_timeout", type: "server_error", status: 504 },
] as const;

const said = "One two three four.";
const call = { name: "weather", arguments: '{"city": "Oslo", "unit": "celsius"}' };
const tools = [{ type: "function", function: { name: "weather" } }] as const;
const messages = [{ role: "user", content: "Hi" }] as const;

const scripted = (id: string, options: object) => ({ id, engine: "scripted", scripted: options });

const models = [
  ...codes.flatMap(({ code }) => [
    scripted(`before-${code}`, { text: said, fail: { code } }),
    scripted(`amid-${code}`, { text: said, fail: { code, after_tokens: 2 } }),
  ]),
  scripted("in-call", { tool_call: call, fail: { code: "upstream_error", after_tokens: 2 } }),
  scripted("overflow", { fail: { code: "context_length_exceeded" } }),
  scripted("no-vectors", { dimensions: 8, fail: { code: "upstream_error" } }),
  scripted("hangs", { text: said, hang_after_tokens: 2 }),
];

let service: RunningService;
let client: OpenAI;
beforeAll(async () => {
  service = await startService({ config: { models } });
  client = clientOf(service);
});
afterAll(() => service.close());

function clientOf({ key, api }: RunningService): OpenAI {
  return new OpenAI({ apiKey: key, baseURL: api, maxRetries: 0 });
}

const chat = { messages: [...messages] };
const legacy = { prompt: "Hi" };

/** The error of a rejected promise. */
async function failure(promise: Promise<unknown>) {
  const error: unknown = await promise.then(
    () => new Error("nothing was raised"),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof OpenAI.APIError)) throw error;
  const { status, code, type, param } = error;
  return { name: error.constructor.name, status, code, type, param };
}

describe.each(codes)("an engine that fails with $code ($rule)", ({ code, type, status }) => {
  const asStatus = { name: "InternalServerError", status, code, type, param: null };
  const asEvent = { ...asStatus, name: "APIError", status: undefined };

  it("before the first token returns a status, streamed or not (SSE-12)", async () => {
    const model = `before-${code}`;
    const { completions } = client.chat;
    expect(await failure(completions.create({ model, ...chat }))).toEqual(asStatus);
    expect(await failure(completions.create({ model, ...chat, stream: true }))).toEqual(asStatus);
    expect(await failure(client.completions.create({ model, ...legacy }))).toEqual(asStatus);
    expect(await failure(client.completions.create({ model, ...legacy, stream: true }))).toEqual(asStatus);
  });

  it("in the middle of an answer without a stream returns a status and no partial text (ERR-30)", async () => {
    expect(await failure(client.chat.completions.create({ model: `amid-${code}`, ...chat }))).toEqual(asStatus);
    expect(await failure(client.completions.create({ model: `amid-${code}`, ...legacy }))).toEqual(asStatus);
  });

  it("in the middle of a stream returns the text first and then an error with its code (SERR-1, SERR-2, SERR-5)", async () => {
    const model = `amid-${code}`;
    let text = "";
    const chatStream = await client.chat.completions.create({ model, ...chat, stream: true });
    const readChat = async () => {
      for await (const { choices } of chatStream) text += choices[0]?.delta.content ?? "";
    };
    expect(await failure(readChat())).toEqual(asEvent);
    const legacyStream = await client.completions.create({ model, ...legacy, stream: true });
    const readLegacy = async () => {
      for await (const { choices } of legacyStream) text += choices[0]?.text ?? "";
    };
    expect(await failure(readLegacy())).toEqual(asEvent);
    expect(text).toBe("One twoOne two");
  });
});

describe("an engine that fails", () => {
  it("in a tool call does not let the client see a finished call (SERR-1, STRM-5)", async () => {
    const stream = await client.chat.completions.create({ model: "in-call", ...chat, tools: [...tools], stream: true });
    const seen: string[] = [];
    const read = async () => {
      for await (const { choices } of stream) {
        seen.push(choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? "", choices[0]?.finish_reason ?? "");
      }
    };
    expect(await failure(read())).toMatchObject({ code: "upstream_error" });
    expect(seen.join("")).toBe('{"city": "Oslo",');
  });

  it("on embeddings returns a status (ERR-23)", async () => {
    const request = client.embeddings.create({ model: "no-vectors", input: "red" });
    expect(await failure(request)).toMatchObject({ status: 502, code: "upstream_error" });
  });

  it("because the prompt is too long returns a rejection (ERR-9)", async () => {
    const request = client.chat.completions.create({ model: "overflow", ...chat, stream: true });
    expect(await failure(request)).toMatchObject({
      name: "BadRequestError",
      status: 400,
      code: "context_length_exceeded",
    });
  });

  it("ends its stream with one plain error event and no end marker (SERR-1, SERR-3, SERR-4)", async () => {
    const answer = await fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "amid-upstream_error", ...chat, stream: true }),
    });
    const text = await answer.text();
    const events = text.split("\n\n");
    expect(answer.status).toBe(200);
    expect(events.pop()).toBe("");
    expect(events.every((event) => /^data: \{[^\n]*\}$/.test(event))).toBe(true);
    expect(JSON.parse(events.at(-1)?.slice("data: ".length) ?? "")).toEqual({
      error: { message: expect.any(String), type: "server_error", param: null, code: "upstream_error" },
    });
  });
});

describe("an engine failure in other clients", () => {
  const providers = [
    {
      name: "@ai-sdk/openai",
      model: (id: string) => createOpenAI({ baseURL: service.api, apiKey: service.key }).chat(id),
    },
    {
      name: "@ai-sdk/openai-compatible",
      model: (id: string) =>
        createOpenAICompatible({ name: "unified", baseURL: service.api, apiKey: service.key }).chatModel(id),
    },
  ];

  it.each(providers)("$name keeps the text and reports the error (SERR-1, SERR-2)", async ({ model }) => {
    const errors: unknown[] = [];
    const result = streamText({
      model: model("amid-upstream_error"),
      prompt: "Hi",
      maxRetries: 0,
      onError({ error }) {
        errors.push(error);
      },
    });
    const parts = await collect(result.fullStream);
    expect(parts.flatMap((part) => (part.type === "text-delta" ? [part.text] : [])).join("")).toBe("One two");
    expect(parts.filter(({ type }) => type === "error")).toHaveLength(1);
    expect(errors).toHaveLength(1);
    expect(JSON.stringify(errors[0]) + String(errors[0])).toContain("server of the model failed");
  });

  it("LangChain rejects with the code (SERR-1)", async () => {
    const model = new ChatOpenAI({
      model: "amid-upstream_error",
      apiKey: service.key,
      configuration: { baseURL: service.api },
      maxRetries: 0,
    });
    await expect(collect(await model.stream("Hi"))).rejects.toMatchObject({ code: "upstream_error" });
  });
});

describe("a client that disconnects", () => {
  it.each([true, false])("frees the slot of a hanging engine (stream: %s) (SSE-14)", async (stream) => {
    const leave = new AbortController();
    const request = client.chat.completions.create({ model: "hangs", ...chat, stream }, { signal: leave.signal });
    const read = async () => {
      const answer = await request;
      if (Symbol.asyncIterator in answer) await collect(answer);
    };
    const ended = read().catch((error: unknown) => error);
    await eventually(async () => (await busySlots()) === 1, "a busy slot");
    leave.abort();
    expect(await ended).toSatisfy((end) => end === undefined || end instanceof OpenAI.APIUserAbortError);
    await eventually(async () => (await busySlots()) === 0, "a free slot");
  });

  async function busySlots(): Promise<number> {
    const { models } = await service.debugState();
    return models.find(({ id }) => id === "hangs")?.busy ?? -1;
  }
});

describe("a service that stops", () => {
  it("sends an error to a stream that it cannot finish (SERR-7)", async () => {
    const stopping = await startService({ config: { models, limits: { drain: "50ms" } } });
    const stream = await clientOf(stopping).chat.completions.create({ model: "hangs", ...chat, stream: true });
    const chunks = stream[Symbol.asyncIterator]();
    await chunks.next();
    const closed = stopping.close();
    const read = async () => {
      while (!(await chunks.next()).done);
    };
    expect(await failure(read())).toMatchObject({ code: "server_shutting_down", type: "service_unavailable_error" });
    await closed;
  });
});
