import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { unlimited } from "../../../src/domain/call/rate-limits.js";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, eventsOf, type Reply } from "../openai/api.js";

const prices = { input: 10, cached_input: 1, output: 20 };
const call = { name: "weather", arguments: { city: "Oslo" } };
const scripted = (id: string, options: object, more: object = {}) => ({
  id,
  engine: "scripted",
  scripted: options,
  ...more,
});

/** Calls the tool in its first answer, because the deployment with the text fails once, and writes the text afterwards. */
const agent = (id: string) => ({
  id,
  deployments: [
    { engine: "scripted", scripted: { text: "It is mild.", fail: { code: "upstream_error", times: 1 } } },
    { engine: "scripted", priority: 1, scripted: { tool_call: call } },
  ],
});

const config = {
  models: [
    scripted("test-chat", { text: "Paris is the capital, of France." }, { prices }),
    scripted("calls", { tool_calls: [call, { name: "clock" }] }, { prices }),
    scripted("short", { tokens: 10_000, context_length: 40 }),
    scripted("dies", { text: "One two three.", fail: { after_tokens: 2, code: "upstream_error" } }),
    scripted("busy", { fail: { code: "server_is_overloaded" } }),
    scripted("slow", { text: "Late.", first_token_delay_ms: 3_600_000 }),
    scripted("vectors", { dimensions: 8 }),
    agent("agent"),
  ],
};

let service: RunningService;
let accounts = 0;
beforeAll(async () => {
  service = await startService({ config });
});
afterAll(() => service.close());

const user = { role: "user", content: "What is the capital of France?" } as const;
const schema = { type: "object", properties: { city: { type: "string" } } } as const;
const tools = ["weather", "clock"].map((name) => ({ name, input_schema: schema }));
const message = (fields: object = {}) => ({ model: "test-chat", max_tokens: 100, messages: [user], ...fields });

/** A client of a new account. */
async function newAccount(limits: object = {}): Promise<{ api: Api; secret: string; account: string }> {
  const account = `messages-${accounts++}`;
  const settings = { name: "m", scope: "read_write", account, limits: { ...unlimited, ...limits } } as const;
  const { secret } = await service.service.parts.apiKeys.create(settings);
  return { api: createApi({ http: service.http, key: secret }), secret, account };
}

interface Charge {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly num_model_requests: number;
  readonly cost_nano_dollars: number;
  readonly operation: string;
}

async function chargesOf(api: Api): Promise<readonly Charge[]> {
  const { json } = await api.get("/v1/usage?limit=1&group_by=operation");
  return json.data[0].results;
}

/** The parts of an answer that clients of every API see. */
interface Seen {
  readonly text: string;
  readonly calls: readonly (readonly [name: string, args: unknown])[];
  readonly prompt: number;
  readonly output: number;
}

const openAiTools = tools.map(({ name }) => ({ type: "function", function: { name, parameters: schema } }));
const ofOpenAi = (calls: readonly { function: { name: string; arguments: string } }[] = []) =>
  calls.map(({ function: { name, arguments: args } }) => [name, JSON.parse(args)] as const);

function ofChat({ json }: Reply): Seen {
  const [{ message: said }] = json.choices;
  const { prompt_tokens: prompt, completion_tokens: output } = json.usage;
  return { text: said.content ?? "", calls: ofOpenAi(said.tool_calls), prompt, output };
}

function ofChatStream({ text: events }: Reply): Seen {
  const calls: { function: { name: string; arguments: string } }[] = [];
  let text = "";
  let usage = { prompt_tokens: 0, completion_tokens: 0 };
  for (const chunk of eventsOf(events)) {
    text += chunk.choices?.[0]?.delta.content ?? "";
    for (const { index, function: part } of chunk.choices?.[0]?.delta.tool_calls ?? []) {
      calls[index] ??= { function: { name: part.name, arguments: "" } };
      const called = calls[index];
      if (called !== undefined) called.function.arguments += part.arguments;
    }
    usage = chunk.usage ?? usage;
  }
  return { text, calls: ofOpenAi(calls), prompt: usage.prompt_tokens, output: usage.completion_tokens };
}

interface OpenAiResponse {
  readonly output: readonly {
    readonly type: string;
    readonly name: string;
    readonly arguments: string;
    readonly content?: readonly { readonly text: string }[];
  }[];
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

function ofResponse({ output, usage }: OpenAiResponse): Seen {
  return {
    text: output.flatMap(({ content = [] }) => content.map(({ text }) => text)).join(""),
    calls: output.flatMap(({ type, name, arguments: args }) =>
      type === "function_call" ? [[name, JSON.parse(args)] as const] : [],
    ),
    prompt: usage.input_tokens,
    output: usage.output_tokens,
  };
}

/** The last event of a stream of responses has the whole response. */
function ofResponseStream({ text }: Reply): Seen {
  const [last = "{}"] = text.match(/\{"type":"response\.completed".*/) ?? [];
  return ofResponse((JSON.parse(last) as { response: OpenAiResponse }).response);
}

/** A message, whole or as the SDK collects it from its stream. */
function ofMessage({ content, usage }: Anthropic.Message): Seen {
  const cached = (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
  return {
    text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    calls: content.flatMap((block) => (block.type === "tool_use" ? [[block.name, block.input] as const] : [])),
    prompt: usage.input_tokens + cached,
    output: usage.output_tokens,
  };
}

const sdkOf = (apiKey: string) => new Anthropic({ apiKey, baseURL: service.http, maxRetries: 0 });

describe("one conversation over chat completions, responses and messages", () => {
  it.each(["test-chat", "calls"])("of %s has the same text, calls, usage and charge (ANT-2, ANT-7)", async (model) => {
    const chat = { model, messages: [user], max_tokens: 100, ...(model === "calls" && { tools: openAiTools }) };
    const fields = message({ model, ...(model === "calls" && { tools }) }) as Anthropic.MessageCreateParamsNonStreaming;
    const ways: Record<string, (api: Api, secret: string) => Promise<Seen>> = {
      chat: async (api) => ofChat(await api.post("/v1/chat/completions", chat)),
      "chat, streamed": async (api) =>
        ofChatStream(
          await api.post("/v1/chat/completions", { ...chat, stream: true, stream_options: { include_usage: true } }),
        ),
      responses: async (api) => ofResponse((await api.post("/v1/responses", response)).json),
      "responses, streamed": async (api) =>
        ofResponseStream(await api.post("/v1/responses", { ...response, stream: true })),
      messages: async (_api, secret) => ofMessage(await sdkOf(secret).messages.create(fields)),
      "messages, streamed": async (_api, secret) =>
        ofMessage(await sdkOf(secret).messages.stream(fields).finalMessage()),
    };
    const flat = openAiTools.map(({ type, function: tool }) => ({ type, ...tool }));
    const response = { model, input: [user], max_output_tokens: 100, ...(model === "calls" && { tools: flat }) };
    let expected: Seen | null = null;
    for (const [name, ask] of Object.entries(ways)) {
      const { api, secret } = await newAccount();
      const seen = await ask(api, secret);
      expected ??= seen;
      expect(seen, name).toEqual(expected);
      const { prompt, output } = seen;
      expect(await chargesOf(api), name).toMatchObject([
        {
          operation: name.split(",")[0],
          input_tokens: prompt,
          output_tokens: output,
          num_model_requests: 1,
          cost_nano_dollars: prompt * 10 + output * 20,
        },
      ]);
    }
    expect(expected?.calls).toHaveLength(model === "calls" ? 2 : 0);
    expect(expected?.output).toBeGreaterThan(0);
  });
});

describe("POST /v1/messages", () => {
  it("names the stop sequence that ended the answer, whole and streamed (ANT-4)", async () => {
    const fields = message({ stop_sequences: ["never", ","] });
    const { json } = await createApi(service).post("/v1/messages", fields);
    expect(json).toMatchObject({
      content: [{ type: "text", text: "Paris is the capital" }],
      stop_reason: "stop_sequence",
      stop_sequence: ",",
    });
    const { text } = await createApi(service).post("/v1/messages", { ...fields, stream: true });
    expect(text).toContain('"delta":{"stop_reason":"stop_sequence","stop_sequence":","}');
  });

  it("limits max_tokens to the remaining tokens of the context (ANT-1)", async () => {
    const { status, json } = await createApi(service).post(
      "/v1/messages",
      message({ model: "short", max_tokens: 32_000 }),
    );
    expect([status, json.stop_reason]).toEqual([200, "max_tokens"]);
    const { input_tokens: input, output_tokens: output } = json.usage;
    expect(input + output).toBe(40);
  });

  it("ends a stream that fails in the middle with an error event (ANT-5)", async () => {
    const { text } = await createApi(service).post("/v1/messages", message({ model: "dies", stream: true }));
    const events = text.match(/^event: \w+/gm);
    expect(events?.at(0)).toBe("event: message_start");
    expect(events?.at(-1)).toBe("event: error");
    expect(text).not.toContain("message_stop");
    expect(text).toMatch(/"error":\{"type":"api_error","message":"[^"]+"\},"request_id":"req_[0-9a-f]{32}"\}\n\n$/);
  });

  it("answers an overload with 529 and a retry delay, and a passed deadline with 504 (ANT-5)", async () => {
    const api = createApi(service);
    const busy = await api.post("/v1/messages", message({ model: "busy" }));
    expect([busy.status, busy.json.error.type]).toEqual([529, "overloaded_error"]);
    expect(busy.headers.get("retry-after")).toBe("1");
    const late = await api.post("/v1/messages", message({ model: "slow" }), { "x-request-timeout": "0.05" });
    expect([late.status, late.json.error.type]).toEqual([504, "api_error"]);
    const vectors = await api.post("/v1/messages", message({ model: "vectors" }));
    expect([vectors.status, vectors.json.error.type]).toEqual([400, "invalid_request_error"]);
  });

  it("sends the rate limits in Anthropic's headers with every answer (ANT-5)", async () => {
    const { api } = await newAccount({ requestsPerMinute: 1, tokensPerMinute: 1_000 });
    for (const status of [200, 429]) {
      const reply = await api.post("/v1/messages", message());
      expect(reply.status).toBe(status);
      expect(reply.headers.get("anthropic-ratelimit-requests-limit")).toBe("1");
      expect(reply.headers.get("anthropic-ratelimit-requests-remaining")).toBe("0");
      expect(Date.parse(reply.headers.get("anthropic-ratelimit-input-tokens-reset") ?? "")).toBeGreaterThan(Date.now());
    }
  });

  it("writes no refused key to the log, and reads x-api-key only on Anthropic's paths (ANT-1, SEC-18)", async () => {
    const send = (path: string, headers: Record<string, string>) =>
      createApi(service).post(path, message(), { authorization: "", ...headers });
    const bad = "sk-uis-this-key-is-not-valid-0123456789";
    const refused = await send("/v1/messages", { "x-api-key": bad });
    expect([refused.status, refused.json.error.type]).toEqual([401, "authentication_error"]);
    expect((await send("/v1/messages", {})).status).toBe(401);
    expect((await send("/v1/messages", { "x-api-key": service.readKey })).json.error.type).toBe("permission_error");
    expect((await send("/v1/messages", { "x-api-key": service.key })).status).toBe(200);
    expect((await send("/v1/chat/completions", { "x-api-key": service.key })).status).toBe(401);
    await eventually(() => service.logs.some(({ transport, error }) => transport === "anthropic" && error === null));
    expect(service.logs).toContainEqual(
      expect.objectContaining({ msg: "refused", transport: "anthropic", operation: "create_message" }),
    );
    const log = JSON.stringify(service.logs);
    for (const secret of [bad, service.key, service.readKey]) expect(log).not.toContain(secret);
  });

  it("is ended by the revocation of its key (KEY-13)", async () => {
    const { apiKeys } = service.service.parts;
    const { record, secret } = await apiKeys.create({ name: "revoked", scope: "read_write" });
    const pending = createApi({ http: service.http, key: secret }).post("/v1/messages", message({ model: "slow" }));
    await eventually(async () => (await service.debugState()).requests.running === 1, "a running request");
    await apiKeys.revoke(record.id);
    const { status, json } = await pending;
    expect([status, json.error.type]).toEqual([401, "authentication_error"]);
  });
});

describe("POST /v1/messages/count_tokens", () => {
  it("returns the input tokens of a message, and is charged as a request without tokens and without an event (ANT-6)", async () => {
    const { api } = await newAccount({ requestsPerMinute: 4, tokensPerMinute: 1_000 });
    const { max_tokens: _, ...prompt } = message({ system: "Be brief, please." });
    const counted = await api.post("/v1/messages/count_tokens", prompt);
    expect(counted.status).toBe(200);
    expect(counted.headers.get("x-ratelimit-remaining-requests")).toBe("3");
    expect(counted.headers.get("x-ratelimit-remaining-tokens")).toBe("1000");
    expect(counted.headers.get("x-uis-deployment")).toBeNull();
    const { json } = await api.post("/v1/messages", { ...prompt, max_tokens: 10 });
    expect(counted.json).toEqual({ input_tokens: json.usage.input_tokens });
    expect(await chargesOf(api)).toMatchObject([
      { operation: "count_tokens", num_model_requests: 1, input_tokens: 0, output_tokens: 0, cost_nano_dollars: 0 },
      { operation: "messages", num_model_requests: 1 },
    ]);
    // The query for usage also counts as a request.
    expect((await api.post("/v1/messages/count_tokens", prompt)).status).toBe(200);
    expect((await api.post("/v1/messages/count_tokens", prompt)).status).toBe(429);
    expect((await service.debugState()).live_leases).toBe(0);
  });

  it("validates the request like a message, but does not require max_tokens (ANT-6)", async () => {
    const api = createApi(service);
    const count = (fields: object) =>
      api.post("/v1/messages/count_tokens", { model: "test-chat", messages: [user], ...fields });
    expect((await count({ messages: [] })).json.error.message).toContain("'messages'");
    expect((await count({ model: "nowhere" })).status).toBe(404);
    expect((await count({ tools: [{ type: "bash_20250124", name: "bash" }] })).json.error.message).toContain(
      "tools.0.type",
    );
    expect(
      (await createApi({ http: service.http, key: service.readKey }).post("/v1/messages/count_tokens", {})).status,
    ).toBe(403);
  });
});

describe("Anthropic's SDK", () => {
  const model = "test-chat";
  const params = { model, max_tokens: 100, messages: [user] };

  it("creates and streams messages (ANT-2, ANT-3)", async () => {
    const sdk = sdkOf(service.key);
    const created = await sdk.messages.create(params);
    expect(created).toMatchObject({ role: "assistant", model, stop_reason: "end_turn" });
    expect(created.id).toMatch(/^msg_[A-Za-z0-9]{24}$/);
    expect(created._request_id).toMatch(/^req_/);
    const texts: string[] = [];
    const stream = sdk.messages.stream(params).on("text", (text) => texts.push(text));
    const streamed = await stream.finalMessage();
    expect(texts.join("")).toBe("Paris is the capital, of France.");
    expect(streamed.content).toEqual(created.content);
    expect(streamed.usage).toMatchObject({ ...created.usage });
  });

  it("runs a loop of tool calls, whose results refer to the ids of the calls (ANT-1, ANT-4)", async () => {
    const asked: unknown[] = [];
    const weather = {
      type: "custom" as const,
      name: "weather",
      description: "Tells the weather.",
      input_schema: { ...schema, type: "object" as const },
      parse: (input: unknown) => input,
      run: (input: unknown) => {
        asked.push(input);
        return "mild";
      },
    };
    const last = await sdkOf(service.key).beta.messages.toolRunner({ ...params, model: "agent", tools: [weather] });
    expect(asked).toEqual([{ city: "Oslo" }]);
    expect(last.content).toEqual([{ type: "text", text: "It is mild." }]);
  });

  it("counts tokens and lists models in pages (ANT-6)", async () => {
    const sdk = sdkOf(service.key);
    expect((await sdk.messages.countTokens({ model, messages: [user] })).input_tokens).toBe(6);
    const ids: string[] = [];
    for await (const { id, type } of sdk.models.list({ limit: 3 })) ids.push(`${type} ${id}`);
    expect(ids).toEqual(config.models.map(({ id }) => `model ${id}`).toSorted());
    expect(await sdk.models.retrieve("short")).toMatchObject({ id: "short", max_input_tokens: 40 });
  });

  it("raises the error class of the status (ANT-5)", async () => {
    const sdk = sdkOf(service.key);
    const failure = (fields: object, client = sdk) =>
      client.messages.create({ ...params, ...fields }).then(
        () => null,
        (error: unknown) => error,
      );
    expect(await failure({ temperature: 3 })).toBeInstanceOf(Anthropic.BadRequestError);
    expect(await failure({ model: "nowhere" })).toBeInstanceOf(Anthropic.NotFoundError);
    expect(await failure({}, sdkOf("sk-uis-nobody"))).toBeInstanceOf(Anthropic.AuthenticationError);
    expect(await failure({ model: "busy" })).toMatchObject({ status: 529, type: "overloaded_error" });
    const dying = sdk.messages.stream({ ...params, model: "dies" }).finalMessage();
    await expect(dying).rejects.toMatchObject({ type: "api_error" });
  });
});
