import { create, type MessageInitShape } from "@bufbuild/protobuf";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import {
  type ChatCompletionChunk,
  ChatCompletionChunkSchema,
  type ChatDeltaSchema,
  Role,
} from "../../../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../../../../src/domain/call/service-error.js";
import { ResponseFrames } from "../../../../../src/transports/openai/responses/response-frames.js";
import { ResponseObject } from "../../../../../src/transports/openai/responses/response-object.js";
import { openAiFamily } from "../../../../../src/transports/openai/routes.js";

const digits = "0123456789abcdefGHIJKLMN";
const responseOf = () => new ResponseObject(`resp_${digits}`, 1_767_225_600, '"model":"m","tools":[]');
const usage = { promptTokens: 12, completionTokens: 2, totalTokens: 14 };

type Delta = MessageInitShape<typeof ChatDeltaSchema>;
const chunk = (delta: Delta, finishReason?: string): ChatCompletionChunk =>
  create(ChatCompletionChunkSchema, { choices: [{ delta, ...(finishReason !== undefined && { finishReason }) }] });
const role = chunk({ role: Role.ASSISTANT, content: "" });
const text = (content: string) => chunk({ content });
const thought = (reasoningContent: string) => chunk({ reasoningContent });
const refusal = (words: string) => chunk({ refusal: words });
const call = (index: number, fields: object) => chunk({ toolCalls: [{ index, ...fields }] });
const finish = (reason: string) => chunk({}, reason);
const last = create(ChatCompletionChunkSchema, { usage });

/** All bytes of a stream. */
function written(chunks: readonly ChatCompletionChunk[], error?: ServiceError): string {
  const frames = new ResponseFrames(responseOf(), (fault) => fault);
  const begun = frames.begin();
  const events = chunks.map((each) => frames.frame(each)).join("");
  return begun + events + (error === undefined ? frames.end() : frames.failed(openAiFamily.errorToJson(error)));
}

/** The events of a stream. Compares their numbers and names, and removes the digits of ids. */
function eventsOf(stream: string): string[] {
  const blocks = stream.split("\n\n");
  expect(blocks.pop()).toBe("");
  return blocks.map((block, number) => {
    const [, name, json = ""] = /^event: ([a-z_.]+)\ndata: ([^\n]+)$/.exec(block) ?? [];
    const { type, sequence_number, ...rest } = JSON.parse(json);
    expect({ type, sequence_number }).toEqual({ type: name, sequence_number: number });
    return `${type} ${JSON.stringify(rest)}`.replaceAll(digits, "");
  });
}

const response = (status: string, output: string, more = "null", reason = "null", error = "null") =>
  `{"response":{"id":"resp_","object":"response","created_at":1767225600,"status":"${status}","error":${error},` +
  `"incomplete_details":${reason},"model":"m","tools":[],"output":[${output}],"usage":${more}}}`;
const totals =
  '{"input_tokens":12,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,' +
  '"output_tokens_details":{"reasoning_tokens":0},"total_tokens":14}';
const begun = [
  `response.created ${response("in_progress", "")}`,
  `response.in_progress ${response("in_progress", "")}`,
];
const textPart = (words: string) => `{"type":"output_text","text":"${words}","annotations":[],"logprobs":[]}`;
const message = (id: string, status: string, parts: string) =>
  `{"id":"msg_${id}","type":"message","status":"${status}","role":"assistant","content":[${parts}]}`;
const called = (id: string, status: string, callId: string, args: string) =>
  `{"id":"fc_${id}","type":"function_call","status":"${status}","call_id":"${callId}","name":"f","arguments":"${args}"}`;

describe("the events of a response", () => {
  it("have exactly the expected bytes for a text (RSP-6, RSP-7, RSP-12)", () => {
    const object = (status: string, output: string, more: string) =>
      `{"id":"resp_${digits}","object":"response","created_at":1767225600,"status":"${status}","error":null,` +
      `"incomplete_details":null,"model":"m","tools":[],"output":[${output}],"usage":${more}}`;
    const place = `"item_id":"msg_${digits}0","output_index":0,"content_index":0`;
    const whole = message(`${digits}0`, "completed", textPart("Par is"));
    const events: [string, string][] = [
      ["response.created", `"response":${object("in_progress", "", "null")}`],
      ["response.in_progress", `"response":${object("in_progress", "", "null")}`],
      ["response.output_item.added", `"output_index":0,"item":${message(`${digits}0`, "in_progress", "")}`],
      ["response.content_part.added", `${place},"part":${textPart("")}`],
      ["response.output_text.delta", `${place},"delta":"Par","logprobs":[]`],
      ["response.output_text.delta", `${place},"delta":" is","logprobs":[]`],
      ["response.output_text.done", `${place},"text":"Par is","logprobs":[]`],
      ["response.content_part.done", `${place},"part":${textPart("Par is")}`],
      ["response.output_item.done", `"output_index":0,"item":${whole}`],
      ["response.completed", `"response":${object("completed", whole, totals)}`],
    ];
    expect(written([role, text("Par"), text(" is"), finish("stop"), last])).toBe(
      events
        .map(([type, rest], n) => `event: ${type}\ndata: {"type":"${type}","sequence_number":${n},${rest}}\n\n`)
        .join(""),
    );
  });

  it("contain calls one after the other, after the text (RSP-8, RSP-12, RSP-5)", () => {
    const chunks = [
      ...[role, text("Wait."), call(0, { id: "call_a", name: "f" }), call(0, { argumentsJson: '{"a":' })],
      ...[call(0, { argumentsJson: "1}" }), call(1, { id: "call_b", name: "f", argumentsJson: "{}" })],
      ...[finish("tool_calls"), last],
    ];
    const said = message("0", "completed", textPart("Wait."));
    const first = called("1", "completed", "call_a", '{\\"a\\":1}');
    const second = called("2", "completed", "call_b", "{}");
    const place = '"item_id":"msg_0","output_index":0,"content_index":0';
    expect(eventsOf(written(chunks))).toEqual([
      ...begun,
      `response.output_item.added {"output_index":0,"item":${message("0", "in_progress", "")}}`,
      `response.content_part.added {${place},"part":${textPart("")}}`,
      `response.output_text.delta {${place},"delta":"Wait.","logprobs":[]}`,
      `response.output_text.done {${place},"text":"Wait.","logprobs":[]}`,
      `response.content_part.done {${place},"part":${textPart("Wait.")}}`,
      `response.output_item.done {"output_index":0,"item":${said}}`,
      `response.output_item.added {"output_index":1,"item":${called("1", "in_progress", "call_a", "")}}`,
      'response.function_call_arguments.delta {"item_id":"fc_1","output_index":1,"delta":"{\\"a\\":"}',
      'response.function_call_arguments.delta {"item_id":"fc_1","output_index":1,"delta":"1}"}',
      'response.function_call_arguments.done {"item_id":"fc_1","output_index":1,"name":"f","arguments":"{\\"a\\":1}"}',
      `response.output_item.done {"output_index":1,"item":${first}}`,
      `response.output_item.added {"output_index":2,"item":${called("2", "in_progress", "call_b", "")}}`,
      'response.function_call_arguments.delta {"item_id":"fc_2","output_index":2,"delta":"{}"}',
      'response.function_call_arguments.done {"item_id":"fc_2","output_index":2,"name":"f","arguments":"{}"}',
      `response.output_item.done {"output_index":2,"item":${second}}`,
      `response.completed ${response("completed", [said, first, second].join(","), totals)}`,
    ]);
  });

  it("contain reasoning as a separate item before the message (RSP-11)", () => {
    const item = (status: string, content: string) =>
      `{"id":"rs_0","type":"reasoning","status":"${status}","summary":[],"content":[${content}]}`;
    const part = '{"type":"reasoning_text","text":"Hm."}';
    const place = '"item_id":"rs_0","output_index":0,"content_index":0';
    const events = eventsOf(written([role, thought("H"), thought("m."), text("Hi"), finish("stop"), last]));
    expect(events.slice(0, 10)).toEqual([
      ...begun,
      `response.output_item.added {"output_index":0,"item":${item("in_progress", "")}}`,
      `response.content_part.added {${place},"part":{"type":"reasoning_text","text":""}}`,
      `response.reasoning_text.delta {${place},"delta":"H"}`,
      `response.reasoning_text.delta {${place},"delta":"m."}`,
      `response.reasoning_text.done {${place},"text":"Hm."}`,
      `response.content_part.done {${place},"part":${part}}`,
      `response.output_item.done {"output_index":0,"item":${item("completed", part)}}`,
      `response.output_item.added {"output_index":1,"item":${message("1", "in_progress", "")}}`,
    ]);
    const items = `${item("completed", part)},${message("1", "completed", textPart("Hi"))}`;
    expect(events.at(-1)).toBe(`response.completed ${response("completed", items, totals)}`);
  });

  it("contain a refusal as a part of the message (RSP-7)", () => {
    const place = '"item_id":"msg_0","output_index":0,"content_index":1';
    const part = '{"type":"refusal","refusal":"No."}';
    const events = eventsOf(written([role, text("Hm."), refusal("No"), refusal("."), finish("stop"), last]));
    expect(events.slice(5, -1)).toEqual([
      'response.output_text.done {"item_id":"msg_0","output_index":0,"content_index":0,"text":"Hm.","logprobs":[]}',
      `response.content_part.done {"item_id":"msg_0","output_index":0,"content_index":0,"part":${textPart("Hm.")}}`,
      `response.content_part.added {${place},"part":{"type":"refusal","refusal":""}}`,
      `response.refusal.delta {${place},"delta":"No"}`,
      `response.refusal.delta {${place},"delta":"."}`,
      `response.refusal.done {${place},"refusal":"No."}`,
      `response.content_part.done {${place},"part":${part}}`,
      `response.output_item.done {"output_index":0,"item":${message("0", "completed", `${textPart("Hm.")},${part}`)}}`,
    ]);
  });

  it.each([
    ["length", "max_output_tokens"],
    ["content_filter", "content_filter"],
  ])("mark an answer that ends with %s as incomplete, and also its last item (RSP-10)", (reason, why) => {
    const item = message("0", "incomplete", textPart("Par"));
    const events = eventsOf(written([role, text("Par"), finish(reason), last]));
    expect(events.slice(-2)).toEqual([
      `response.output_item.done {"output_index":0,"item":${item}}`,
      `response.incomplete ${response("incomplete", item, totals, `{"reason":"${why}"}`)}`,
    ]);
  });

  it("keep the arguments of a cut call unchanged (RSP-10, TOOL-15)", () => {
    const chunks = [role, call(0, { id: "call_a", name: "f", argumentsJson: '{"a' }), finish("length"), last];
    const item = called("0", "incomplete", "call_a", '{\\"a');
    expect(eventsOf(written(chunks)).at(-1)).toContain(`"output":[${item}]`);
  });

  it("contain a message without text for an empty answer, unless it was cut in its reasoning (RSP-7)", () => {
    const empty = eventsOf(written([role, finish("stop"), last]));
    expect(empty.at(-1)).toContain(`"output":[${message("0", "completed", textPart(""))}]`);
    const cut = eventsOf(written([role, thought("Hm"), finish("length"), last]));
    expect(cut.at(-1)).toContain('"output":[{"id":"rs_0","type":"reasoning","status":"incomplete"');
    expect(cut.at(-1)).not.toContain("msg_");
  });

  it("contain log probabilities in the deltas, and all of them again in the part (RSP-7)", () => {
    const logprobs = (token: string) => ({ content: [{ token, logprob: Number.NEGATIVE_INFINITY }] });
    const delta = (content: string) =>
      create(ChatCompletionChunkSchema, { choices: [{ delta: { content }, logprobs: logprobs(content) }] });
    const events = eventsOf(written([role, delta("a"), delta("b"), finish("stop"), last]));
    const entry = (token: string) => `{"token":"${token}","logprob":-9999,"bytes":null,"top_logprobs":[]}`;
    expect(events[5]).toContain(`"delta":"b","logprobs":[${entry("b")}]`);
    expect(events[6]).toContain(`"text":"ab","logprobs":[${entry("a")},${entry("b")}]`);
    expect(events.at(-1)).toContain(`"annotations":[],"logprobs":[${entry("a")},${entry("b")}]`);
  });

  it("end with a failed response for a rejected request (RSP-10)", () => {
    const error = new ServiceError("context_length_exceeded", "Too long.", { param: "input" });
    const events = eventsOf(written([], error));
    const fault = '{"code":"context_length_exceeded","message":"Too long."}';
    expect(events).toEqual([...begun, `response.failed ${response("failed", "", "null", "null", fault)}`]);
  });

  it("end with an error event, with flat and nested fields, for a fault of the service (RSP-10)", () => {
    const events = eventsOf(written([role, text("Par")], new ServiceError("upstream_error", "It stopped.")));
    expect(events.slice(4)).toEqual([
      'response.output_text.delta {"item_id":"msg_0","output_index":0,"content_index":0,"delta":"Par","logprobs":[]}',
      'error {"code":"upstream_error","message":"It stopped.","param":null,' +
        '"error":{"message":"It stopped.","type":"server_error","param":null,"code":"upstream_error"}}',
    ]);
  });

  it.each(['"', "\\", "\n", "\r\n\r\n", "\u2028", "\ud83d\ude00", "data: [DONE]\n\n"])(
    "contain the text %j on one line that parses to the same text (SSE-2, RSP-6)",
    (content) => {
      const stream = written([role, text(content), finish("stop"), last]);
      expect(stream).not.toContain("\r");
      const events = eventsOf(stream);
      expect(JSON.parse(events[4]?.slice("response.output_text.delta ".length) ?? "").delta).toBe(content);
    },
  );

  it("include keep-alives, which change nothing and have their own sequence numbers (SSE-9, RSP-6)", () => {
    const frames = new ResponseFrames(responseOf(), (fault) => fault);
    const silent = () => frames.keepAlive() ?? "";
    const stream =
      frames.begin() + silent() + frames.frame(text("a")) + silent() + frames.frame(finish("stop")) + silent();
    const events = eventsOf(stream + frames.frame(last) + frames.end());
    expect(events[2]).toBe(begun[1]);
    expect(events[6]).toContain('"delta":"","logprobs":[]');
    expect(events).toHaveLength(11);
  });
});

/** A client that receives each byte separately. */
function clientOf(stream: string): OpenAI {
  const bytes = new TextEncoder().encode(stream);
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at === bytes.length) controller.close();
      else controller.enqueue(bytes.subarray(at, ++at));
    },
  });
  const headers = { "content-type": "text/event-stream" };
  return new OpenAI({ apiKey: "k", maxRetries: 0, fetch: async () => new Response(body, { headers }) });
}

describe("a response stream that is split at every byte", () => {
  it("is read completely by OpenAI's SDK, with its text, reasoning and calls (SSE-10, RSP-9)", async () => {
    const chunks = [
      ...[role, thought("Hm\u00e9"), text("\ud83d\ude00 "), text("ok"), call(0, { id: "call_a", name: "f" })],
      ...[call(0, { argumentsJson: '{"a":"\u00e9"}' }), finish("tool_calls"), last],
    ];
    const client = clientOf(written(chunks));
    const response = await client.responses.stream({ model: "m", input: "Hi" }).finalResponse();
    expect(response.status).toBe("completed");
    expect(response.output_text).toBe("\ud83d\ude00 ok");
    expect(response.output).toMatchObject([
      { type: "reasoning", content: [{ type: "reasoning_text", text: "Hm\u00e9" }] },
      { type: "message", content: [{ type: "output_text", text: "\ud83d\ude00 ok" }] },
      { type: "function_call", call_id: "call_a", name: "f", arguments: '{"a":"\u00e9"}' },
    ]);
    expect(response.usage?.total_tokens).toBe(14);
  });

  it("makes OpenAI's SDK raise the error of a fault (RSP-10)", async () => {
    const client = clientOf(written([role, text("Par")], new ServiceError("upstream_error", "It stopped.")));
    const reading = client.responses.stream({ model: "m", input: "Hi" }).finalResponse();
    await expect(reading).rejects.toMatchObject({ code: "upstream_error", type: "server_error" });
  });
});
