import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectRaw, parseAnswer, postText } from "../../support/raw-connection.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, eventsOf, user } from "./api.js";

const weather = { type: "function", function: { name: "weather" } };
const clock = { type: "function", function: { name: "clock" } };

/** Replaces the parts that differ in each run. */
function settled(text: string): string {
  return text
    .replace(/"(chatcmpl|cmpl)-[A-Za-z0-9]+"/g, '"$1-ID"')
    .replace(/"created":\d+/g, '"created":1')
    .replace(/"fp_[^"]+"/g, '"fp_1"')
    .replace(/"call_[A-Za-z0-9]{24}"/g, '"call_ID"');
}

const chunk = (choices: string, rest = "") =>
  `data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1,"model":"MODEL","system_fingerprint":"fp_1","choices":[${choices}]${rest}}\n\n`;
const delta = (json: string, index = 0, reason = "null") =>
  `{"index":${index},"delta":${json},"logprobs":null,"finish_reason":${reason}}`;
const done = "data: [DONE]\n\n";

describe("streams of /v1, byte by byte", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "test-chat", engine: "scripted", scripted: { text: "Par is" } },
          { id: "echo", engine: "scripted", scripted: {} },
          {
            id: "tools",
            engine: "scripted",
            scripted: {
              tool_calls: [{ name: "weather", arguments: '{"city": "Oslo"}' }, { name: "clock" }],
              token_delay_ms: 1,
            },
          },
          {
            id: "breaks",
            engine: "scripted",
            scripted: { text: "Par is more", token_delay_ms: 1, fail: { after_tokens: 2, code: "upstream_error" } },
          },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());

  const streamed = async (fields: object) => (await api.chat({ stream: true, ...fields })).text;
  const chunksOf = async (fields: object) => eventsOf(await streamed(fields)).slice(0, -1);

  it("a stream has the headers of server-sent events (SSE-1, SSE-11, HDR-1)", async () => {
    const { status, headers } = await api.chat({ stream: true }, { "accept-encoding": "gzip, deflate" });
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-cache");
    expect(headers.get("x-accel-buffering")).toBe("no");
    expect(headers.get("transfer-encoding")).toBe("chunked");
    expect(headers.get("content-length")).toBeNull();
    expect(headers.get("content-encoding")).toBeNull();
    expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
  });

  it("text with usage has exactly these bytes (SSE-2, SSE-3, SSE-4, SSE-5, STRM-2, STRM-10, STRM-12, STRM-13, STRM-17)", async () => {
    const expected = [
      chunk(delta('{"role":"assistant","content":""}'), ',"usage":null'),
      chunk(delta('{"content":"Par"}'), ',"usage":null'),
      chunk(delta('{"content":" is"}'), ',"usage":null'),
      chunk(delta("{}", 0, '"stop"'), ',"usage":null'),
      chunk(
        "",
        ',"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}',
      ),
      done,
    ];
    const text = await streamed({ stream_options: { include_usage: true } });
    expect(settled(text)).toBe(expected.join("").replaceAll("MODEL", "test-chat"));
  });

  it("without include_usage no chunk has usage, and no padding (STRM-11, CHAT-19)", async () => {
    for (const options of [undefined, null, {}, { include_usage: false }, { include_obfuscation: true }]) {
      const text = await streamed({ stream_options: options });
      expect(text).not.toContain("usage");
      expect(text).not.toContain("obfuscation");
      expect(text.endsWith(chunk(delta("{}", 0, '"stop"')).slice(-20) + done)).toBe(true);
    }
  });

  it("continuous usage is not supported: only the last chunk has usage (STRM-19)", async () => {
    const options = { include_usage: true, continuous_usage_stats: true };
    const chunks = await chunksOf({ stream_options: options });
    expect(chunks.map(({ usage }) => usage !== null)).toEqual([...Array(chunks.length - 1).fill(false), true]);
  });

  it("two calls have exactly these bytes (STRM-2, STRM-6, STRM-7, STRM-8, STRM-9, STRM-15)", async () => {
    const calls = (json: string) => chunk(delta(`{"tool_calls":[${json}]}`));
    const expected = [
      chunk(delta('{"role":"assistant","content":null}')),
      calls('{"index":0,"id":"call_ID","type":"function","function":{"name":"weather","arguments":""}}'),
      calls('{"index":0,"function":{"arguments":"{\\"city\\":"}}'),
      calls('{"index":0,"function":{"arguments":" \\"Oslo\\"}"}}'),
      calls('{"index":1,"id":"call_ID","type":"function","function":{"name":"clock","arguments":""}}'),
      calls('{"index":1,"function":{"arguments":"{}"}}'),
      chunk(delta("{}", 0, '"tool_calls"')),
      done,
    ];
    const text = await streamed({ model: "tools", tools: [weather, clock] });
    expect(settled(text)).toBe(expected.join("").replaceAll("MODEL", "tools"));
  });

  it("each of several choices is complete and in its own chunks (STRM-1, STRM-3, STRM-4, STRM-5, STRM-14, RESP-10)", async () => {
    const chunks = await chunksOf({ n: 3, stream_options: { include_usage: true } });
    const content = chunks.slice(0, -1);
    expect(content.every(({ choices }) => choices.length === 1)).toBe(true);
    expect(content.slice(0, 3).map(({ choices }) => [choices[0].index, choices[0].delta.role])).toEqual([
      [0, "assistant"],
      [1, "assistant"],
      [2, "assistant"],
    ]);
    for (const index of [0, 1, 2]) {
      const own = content.map(({ choices }) => choices[0]).filter((choice) => choice.index === index);
      expect(own.filter(({ delta }) => delta.role !== undefined)).toHaveLength(1);
      expect(own.map(({ finish_reason }) => finish_reason).filter((reason) => reason !== null)).toEqual(["stop"]);
      expect(own.at(-1).finish_reason).toBe("stop");
      expect(own.map(({ delta }) => delta.content ?? "").join("")).toBe("Par is");
    }
    for (const key of ["id", "created", "model", "object", "system_fingerprint"]) {
      expect(new Set(chunks.map((item) => item[key])).size).toBe(1);
    }
    expect(chunks[0]).toMatchObject({ object: "chat.completion.chunk", model: "test-chat" });
  });

  it("a stream consists of data lines and empty lines for any text (SSE-2, SSE-6, SSE-7)", async () => {
    const content = "line one\nline two\r\n\r\nevent: x\nid: 1\nretry: 5\ndata: [DONE]\n\n\u2028\ud83d\ude00 end";
    const text = await streamed({ model: "echo", messages: [{ role: "user", content }] });
    for (const line of text.split("\n")) expect(line === "" || line.startsWith("data: ")).toBe(true);
    expect(text).not.toContain("\r");
    const chunks = eventsOf(text).slice(0, -1);
    expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe(content);
    expect(text.match(/\[DONE\]/g)).toHaveLength(2);
  });

  it("the first byte of a stream is the first letter of `data` (SSE-5)", async () => {
    const body = JSON.stringify({ model: "test-chat", messages: [user], stream: true });
    const connection = await connectRaw(service.http);
    connection.send(postText("/v1/chat/completions", `Bearer ${service.key}`, body, ["Connection: close"]));
    expect(parseAnswer(await connection.closed()).body.slice(0, 6)).toBe("data: ");
  });

  it("the joined stream is the whole answer, also with a response format (STRM-18, RF-8)", async () => {
    const messages = [{ role: "user", content: '{ "a": [1,  2],\n "b": "\u00e9" }' }];
    for (const format of [null, { type: "json_object" }]) {
      const fields = { model: "echo", messages, temperature: 0, seed: 1, response_format: format };
      const whole = (await api.chat(fields)).json.choices[0];
      const chunks = await chunksOf(fields);
      expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe(whole.message.content);
      expect(whole.message.content).toBe(messages[0]?.content);
    }
  });

  it("a stream has one log probability per token in total, in the chunk of its text (STRM-16)", async () => {
    const chunks = await chunksOf({ logprobs: true });
    const entries = chunks.flatMap(({ choices }) => choices[0].logprobs?.content ?? []);
    expect(entries.map(({ token }) => token)).toEqual(["Par", " is"]);
    for (const { choices } of chunks.slice(1, -1)) {
      expect(choices[0].logprobs.content.map(({ token }: { token: string }) => token).join("")).toBe(
        choices[0].delta.content,
      );
    }
  });

  it("a stop sequence is never shown, not even in part, however the stream is split (CHAT-8, SSE-10)", async () => {
    const messages = [{ role: "user", content: "one two STOP here" }];
    for (const stop of ["STOP", " STOP", "two STOP", "OP h"]) {
      const chunks = await chunksOf({ model: "echo", messages, stop });
      const text = chunks.map(({ choices }) => choices[0].delta.content ?? "").join("");
      expect(text).toBe("one two STOP here".slice(0, "one two STOP here".indexOf(stop)));
    }
    const held = await chunksOf({ model: "echo", messages: [{ role: "user", content: "one STO" }], stop: "STOP" });
    expect(held.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe("one STO");
  });

  it("a failure after two chunks is sent as one plain event at the end (SERR-1, SERR-2, SERR-3, SERR-4, SERR-5)", async () => {
    const text = settled(await streamed({ model: "breaks" })).replaceAll("breaks", "MODEL");
    const [role, first, second] = [
      chunk(delta('{"role":"assistant","content":""}')),
      chunk(delta('{"content":"Par"}')),
      chunk(delta('{"content":" is"}')),
    ];
    expect(text.startsWith(role + first + second)).toBe(true);
    const rest = text.slice((role + first + second).length);
    expect(rest).toMatch(
      /^data: \{"error":\{"message":"[^"]+","type":"server_error","param":null,"code":"upstream_error"\}\}\n\n$/,
    );
  });

  it("only the body's `stream` selects streaming (GEN-5, CHAT-17)", async () => {
    const eventStream = { accept: "text/event-stream" };
    expect((await api.chat({}, eventStream)).headers.get("content-type")).toBe("application/json");
    expect((await api.chat({ stream: false }, eventStream)).headers.get("content-type")).toBe("application/json");
    for (const accept of ["application/json", "*/*", "image/png"]) {
      expect((await api.chat({ stream: true }, { accept })).headers.get("content-type")).toContain("text/event-stream");
    }
  });

  it("include_usage without a stream has no effect (CHAT-18)", async () => {
    const { status, json } = await api.chat({ stream_options: { include_usage: true } });
    expect(status).toBe(200);
    expect(json.object).toBe("chat.completion");
  });

  it("legacy chunks have exactly these bytes (CMPL-4, CMPL-5, CMPL-6)", async () => {
    const frame = (choices: string, rest = "") =>
      `data: {"id":"cmpl-ID","object":"text_completion","created":1,"model":"echo","system_fingerprint":"fp_1","choices":[${choices}]${rest}}\n\n`;
    const { text } = await api.completion({
      model: "echo",
      prompt: "Par is",
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(settled(text)).toBe(
      [
        frame('{"text":"Par","index":0,"logprobs":null,"finish_reason":null}', ',"usage":null'),
        frame('{"text":" is","index":0,"logprobs":null,"finish_reason":null}', ',"usage":null'),
        frame('{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}', ',"usage":null'),
        frame(
          "",
          ',"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}',
        ),
        done,
      ].join(""),
    );
  });
});
