import { create, type MessageInitShape } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ChatChunkChoiceSchema,
  ChatCompletionChunkSchema,
  ChatCompletionSchema,
  Role,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import { MessageFrames, messageJson } from "../../../../src/transports/anthropic/write-message.js";

const usage = {
  promptTokens: 12,
  completionTokens: 5,
  totalTokens: 17,
  promptTokensDetails: { cachedTokens: 4 },
};

type Choice = MessageInitShape<typeof ChatChunkChoiceSchema>;

const answer = { id: "msg_1", promptUsage: () => ({ promptTokens: 12, cachedTokens: 4 }) };
const first: Choice = { delta: { role: Role.ASSISTANT, content: "" } };
const text = (content: string): Choice => ({ delta: { content } });
const thought = (reasoningContent: string): Choice => ({ delta: { reasoningContent } });
const call = (index: number, id: string, name: string): Choice => ({ delta: { toolCalls: [{ index, id, name }] } });
const args = (index: number, argumentsJson: string): Choice => ({ delta: { toolCalls: [{ index, argumentsJson }] } });
const finish = (finishReason: string, stopSequence?: string): Choice => ({
  delta: {},
  finishReason,
  ...(stopSequence !== undefined && { stopSequence }),
});

/** The whole stream of these choices, which end with the usage. */
function stream(...choices: Choice[]): string {
  const frames = new MessageFrames("m", answer);
  const events = choices.map((choice) => frames.frame(create(ChatCompletionChunkSchema, { choices: [choice] })));
  return frames.begin() + events.join("") + frames.frame(create(ChatCompletionChunkSchema, { usage })) + frames.end();
}

const start =
  'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",' +
  '"model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":8,' +
  '"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":0}}}\n\n';
const blockStart = (index: number, block: string) =>
  `event: content_block_start\ndata: {"type":"content_block_start","index":${index},"content_block":${block}}\n\n`;
const delta = (index: number, members: string) =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{${members}}}\n\n`;
const blockStop = (index: number) =>
  `event: content_block_stop\ndata: {"type":"content_block_stop","index":${index}}\n\n`;
const end = (stop: string) =>
  `event: message_delta\ndata: {"type":"message_delta","delta":{${stop}},"usage":{"input_tokens":8,` +
  '"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5}}\n\n' +
  'event: message_stop\ndata: {"type":"message_stop"}\n\n';
const emptyText = '{"type":"text","text":""}';
const stopped = (reason: string) => `"stop_reason":"${reason}","stop_sequence":null`;

/** Golden transcripts: name, the core's choices, the bytes. */
const transcripts: readonly (readonly [name: string, choices: readonly Choice[], bytes: string])[] = [
  [
    "a text",
    [first, text("Par"), text('is "é"'), finish("stop")],
    start +
      blockStart(0, emptyText) +
      delta(0, '"type":"text_delta","text":"Par"') +
      delta(0, '"type":"text_delta","text":"is \\"é\\""') +
      blockStop(0) +
      end(stopped("end_turn")),
  ],
  [
    "thinking before a text",
    [first, thought("Hm"), thought("."), text("Yes."), finish("stop")],
    start +
      blockStart(0, '{"type":"thinking","thinking":"","signature":""}') +
      delta(0, '"type":"thinking_delta","thinking":"Hm"') +
      delta(0, '"type":"thinking_delta","thinking":"."') +
      delta(0, '"type":"signature_delta","signature":""') +
      blockStop(0) +
      blockStart(1, emptyText) +
      delta(1, '"type":"text_delta","text":"Yes."') +
      blockStop(1) +
      end(stopped("end_turn")),
  ],
  [
    "a call of a tool",
    [
      { delta: { role: Role.ASSISTANT } },
      call(0, "call_1", "weather"),
      args(0, '{"at":'),
      args(0, '"Oslo"}'),
      finish("tool_calls"),
    ],
    start +
      blockStart(0, '{"type":"tool_use","id":"call_1","name":"weather","input":{}}') +
      delta(0, '"type":"input_json_delta","partial_json":""') +
      delta(0, '"type":"input_json_delta","partial_json":"{\\"at\\":"') +
      delta(0, '"type":"input_json_delta","partial_json":"\\"Oslo\\"}"') +
      blockStop(0) +
      end(stopped("tool_use")),
  ],
  [
    "several blocks",
    [
      first,
      text("Look."),
      call(0, "call_1", "a"),
      args(0, "{}"),
      call(1, "call_2", "b"),
      args(1, "{}"),
      finish("tool_calls"),
    ],
    start +
      blockStart(0, emptyText) +
      delta(0, '"type":"text_delta","text":"Look."') +
      blockStop(0) +
      blockStart(1, '{"type":"tool_use","id":"call_1","name":"a","input":{}}') +
      delta(1, '"type":"input_json_delta","partial_json":""') +
      delta(1, '"type":"input_json_delta","partial_json":"{}"') +
      blockStop(1) +
      blockStart(2, '{"type":"tool_use","id":"call_2","name":"b","input":{}}') +
      delta(2, '"type":"input_json_delta","partial_json":""') +
      delta(2, '"type":"input_json_delta","partial_json":"{}"') +
      blockStop(2) +
      end(stopped("tool_use")),
  ],
  [
    "an end by a stop sequence",
    [first, text("One"), finish("stop", "\n\n")],
    start +
      blockStart(0, emptyText) +
      delta(0, '"type":"text_delta","text":"One"') +
      blockStop(0) +
      end('"stop_reason":"stop_sequence","stop_sequence":"\\n\\n"'),
  ],
  [
    "an end by max_tokens",
    [first, text("One"), finish("length")],
    start +
      blockStart(0, emptyText) +
      delta(0, '"type":"text_delta","text":"One"') +
      blockStop(0) +
      end(stopped("max_tokens")),
  ],
  [
    "a refusal",
    [first, { delta: { refusal: "No." } }, finish("stop")],
    start +
      blockStart(0, emptyText) +
      delta(0, '"type":"text_delta","text":"No."') +
      blockStop(0) +
      end(stopped("refusal")),
  ],
  ["no content", [first, finish("stop")], start + end(stopped("end_turn"))],
];

/** Reads the events of a stream that arrives in pieces. Like a client, it takes an event as complete at a blank line. */
function eventsOf(pieces: readonly Uint8Array[]): readonly string[] {
  const decoder = new TextDecoder();
  const events: string[] = [];
  let waiting = "";
  for (const piece of pieces) {
    const complete = (waiting + decoder.decode(piece, { stream: true })).split("\n\n");
    waiting = complete.pop() ?? "";
    events.push(...complete);
  }
  expect(waiting).toBe("");
  return events;
}

interface ParsedEvent {
  readonly name: string;
  readonly type: string;
  readonly delta?: { readonly text?: string };
}

function parsed(event: string): ParsedEvent {
  const [, name = "", data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? [];
  return { name, ...(JSON.parse(data) as Omit<ParsedEvent, "name">) };
}

describe("the events of a message", () => {
  it.each(transcripts)("have exactly the expected bytes: %s (ANT-2, ANT-3, ANT-4, ANT-7)", (_name, choices, bytes) => {
    expect(stream(...choices)).toBe(bytes);
  });

  it.each(transcripts)("can be read, wherever their bytes are split: %s (ANT-2)", (_name, choices) => {
    const bytes = Buffer.from(stream(...choices));
    const events = eventsOf([bytes]);
    for (const { name, type } of events.map(parsed)) expect(name).toBe(type);
    for (let at = 1; at < bytes.length; at++) {
      const split = eventsOf([bytes.subarray(0, at), bytes.subarray(at)]);
      if (split.join("\n\n") !== events.join("\n\n")) expect([at, split]).toEqual([at, events]);
    }
  });

  it("end with one error event after a failure in the middle (ANT-5)", () => {
    const frames = new MessageFrames("m", answer);
    frames.frame(create(ChatCompletionChunkSchema, { choices: [text("One")] }));
    const error = { type: "error", error: { type: "api_error", message: "The engine stopped." }, request_id: "req_1" };
    expect(frames.failed(error)).toBe(`event: error\ndata: ${JSON.stringify(error)}\n\n`);
  });

  it("include a ping as keep-alive (ANT-2)", () => {
    expect(new MessageFrames("m", answer).keepAlive()).toBe('event: ping\ndata: {"type":"ping"}\n\n');
  });

  it("contain any text as one line of JSON that parses to the same text (ANT-4)", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "binary", minLength: 1, maxLength: 20 }), { minLength: 1, maxLength: 5 }),
        (texts) => {
          const events = eventsOf([Buffer.from(stream(first, ...texts.map(text), finish("stop")))]);
          expect(events.map((event) => parsed(event).delta?.text ?? "").join("")).toBe(texts.join(""));
        },
      ),
      { numRuns: 25 },
    );
  });
});

const print = (fields: MessageInitShape<typeof ChatCompletionSchema>) =>
  messageJson(create(ChatCompletionSchema, Object.assign({ id: "msg_1", model: "m", usage }, fields)));

describe("a whole message", () => {
  it("has exactly the keys of Anthropic's API (ANT-2, ANT-7)", () => {
    const { text: json, isAscii } = print({ choices: [{ message: { content: "Hi" }, finishReason: "stop" }] });
    expect(isAscii).toBe(true);
    expect(JSON.parse(json)).toEqual({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text: "Hi" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 8, cache_creation_input_tokens: 0, cache_read_input_tokens: 4, output_tokens: 5 },
    });
  });

  it("has the same blocks as its stream (ANT-2, ANT-4)", () => {
    const toolCalls = [
      { id: "call_1", function: { name: "a", argumentsJson: '{"n":12345678901234567890}' } },
      { id: "call_2", function: { name: "b" } },
      { id: "call_3", function: { name: "c", argumentsJson: '{"cut":' } },
    ];
    const message = { reasoningContent: "Hm.", content: "Look: é", toolCalls };
    const { text: json, isAscii } = print({ choices: [{ message, finishReason: "tool_calls" }] });
    expect(isAscii).toBe(false);
    expect(json).toContain('"input":{"n":12345678901234567890}');
    expect(JSON.parse(json)).toMatchObject({
      stop_reason: "tool_use",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "" },
        { type: "text", text: "Look: é" },
        { type: "tool_use", id: "call_1", name: "a" },
        { type: "tool_use", id: "call_2", name: "b", input: {} },
        { type: "tool_use", id: "call_3", name: "c", input: { invalid_json: '{"cut":' } },
      ],
    });
  });

  it.each([
    [{ finishReason: "stop", stopSequence: "é" }, "stop_sequence", "é"],
    [{ finishReason: "length" }, "max_tokens", null],
    [{ finishReason: "content_filter" }, "refusal", null],
    [{ finishReason: "stop", message: { refusal: "No." } }, "refusal", null],
  ])("for the choice %j has the stop reason %s (ANT-4)", (choice, reason, sequence) => {
    const { text: json, isAscii } = print({ choices: [choice] });
    expect(isAscii).toBe(sequence === null);
    expect(JSON.parse(json)).toMatchObject({ stop_reason: reason, stop_sequence: sequence });
  });

  it("has no block for an empty text, and counts thinking as output tokens (ANT-7)", () => {
    const details = { completionTokensDetails: { reasoningTokens: 3 } };
    const { text: json } = print({
      choices: [{ message: { content: "" }, finishReason: "stop" }],
      usage: { ...usage, ...details },
    });
    expect(JSON.parse(json)).toMatchObject({
      content: [],
      usage: { output_tokens: 5, output_tokens_details: { thinking_tokens: 3 } },
    });
  });
});
