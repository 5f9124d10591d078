import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  ChatCompletionChunkSchema,
  type ChatCompletionParams,
  ChatCompletionParamsSchema,
  Role,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import { type AskModel, chat } from "../../../../src/app/chat/chat.js";
import { Conversation } from "../../../../src/app/chat/conversation.js";
import { eventually } from "../../../support/eventually.js";

let cwd: string;
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-chat-"));
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

const chunk = (fields: MessageInitShape<typeof ChatCompletionChunkSchema>) => create(ChatCompletionChunkSchema, fields);
const text = (content: string) => chunk({ choices: [{ delta: { content } }] });

/** A model that answers "You said " and the question. For "wait" it hangs in between until Ctrl-C; for "fail" it fails. */
function createModel(asked: ChatCompletionParams[], clock: { ms: number }): AskModel {
  return async function* (params, signal) {
    const request = create(ChatCompletionParamsSchema, params);
    asked.push(request);
    const part = request.messages.at(-1)?.content[0]?.part;
    const question = part?.case === "text" ? part.value : "";
    if (question === "fail") throw new Error("the model is unavailable");
    clock.ms += 500;
    if (question === "think") yield chunk({ choices: [{ delta: { reasoningContent: "hm" } }] });
    yield text("You said ");
    if (question === "wait")
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    clock.ms += 1_000;
    yield text(question);
    yield chunk({ choices: [{ delta: {}, finishReason: "length" }] });
    yield chunk({ usage: { completionTokens: 3 } });
  };
}

/** Starts a chat on a simulated terminal, whose keyboard and screen the test controls. */
function startChat(env: Record<string, string> = { NO_COLOR: "1" }) {
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 200 });
  let shown = "";
  stdout.on("data", (data: Buffer) => {
    shown += data;
  });
  const asked: ChatCompletionParams[] = [];
  const clock = { ms: 0 };
  const io = { stdin, stdout, stderr: stdout, env, cwd };
  const explain = (error: unknown) => (error as Error).message;
  const conversation = new Conversation("m", null, {});
  const ended = chat({ io, ask: createModel(asked, clock), explain, now: () => clock.ms }, conversation);
  return {
    asked,
    ended,
    shown: () => shown,
    /** Types keys, and waits until the terminal shows the text after its earlier output. */
    async type(keys: string, until: string): Promise<void> {
      const before = shown.length;
      // People type the next keys only after the prompt has appeared.
      await setImmediate();
      stdin.write(keys);
      await eventually(() => shown.slice(before).includes(until), `${JSON.stringify(until)} after ${keys}`);
    },
    leave: async (keys: string): Promise<void> => {
      await setImmediate();
      stdin.write(keys);
      await ended;
    },
  };
}

const roleNames = new Map<number, string>([
  [Role.SYSTEM, "SYSTEM"],
  [Role.USER, "USER"],
  [Role.ASSISTANT, "ASSISTANT"],
]);
const textsOf = ({ messages }: ChatCompletionParams) =>
  messages.map(({ role, content }) => `${roleNames.get(role)}: ${content.map(({ part }) => part.value).join("")}`);

describe("a chat on a terminal", () => {
  it("sends the messages so far with each question, and shows tokens per second after each answer", async () => {
    const { asked, type, leave, shown } = startChat();
    await type("Hello\r", "You said Hello\n[3 tokens, 2.0 tokens/s, first after 0.50 s, cut off at the token limit]\n");
    await type("Again\r", "You said Again\n");
    await leave("/bye\r");
    expect(asked.map(textsOf)).toEqual([["USER: Hello"], ["USER: Hello", "ASSISTANT: You said Hello", "USER: Again"]]);
    expect(shown()).toContain("Chat with m. /help lists the commands");
  });

  it("reads a message of several lines between marks, and shows earlier lines again with Arrow Up", async () => {
    const { asked, type, leave } = startChat();
    await type('"""first\r', "... ");
    await type("second\r", "... ");
    await type('"""\r', "tokens");
    await type("\u001b[A\u001b[A\r", "tokens");
    await leave("\u0004");
    expect(asked.map((params) => textsOf(params).at(-1))).toEqual(["USER: first\nsecond", "USER: second"]);
  });

  it("Ctrl-C stops the answer but not the chat, and the received part of the answer stays in the conversation", async () => {
    const { asked, type, leave } = startChat();
    await type("wait\r", "You said ");
    await type("\u0003", "[stopped]\n");
    await type("unfinished\u0003", "Ctrl-D or /bye ends the chat.");
    await type("Go on\r", "You said Go on\n");
    await leave("/bye\r");
    expect(textsOf(asked[1] as ChatCompletionParams)).toEqual(["USER: wait", "ASSISTANT: You said ", "USER: Go on"]);
  });

  it("shows an error and continues without the failed question; Ctrl-D ends the chat on a new line", async () => {
    const { asked, type, leave, shown } = startChat();
    await type("fail\r", "error: the model is unavailable\n");
    await type("Hello\r", "You said Hello\n");
    await leave("\u0004");
    await eventually(() => shown().endsWith("\n"), "the end of the line");
    expect(asked.map(textsOf)[1]).toEqual(["USER: Hello"]);
  });

  it("changes settings and the system message, and explains invalid values and commands", async () => {
    const { asked, type, leave } = startChat();
    await type("/set temperature 0.5\r", "temperature is 0.5.");
    await type("/set seed 7\r", "seed is 7.");
    await type("/set top_p 3\r", "top_p must be a number between 0 and 1, not 3.");
    await type("/set colour red\r", "Use /set NAME VALUE with one of temperature, top_p, max_tokens, seed.");
    await type("/system Be brief.\r", "The system message is set.");
    await type("/set\r", "system       Be brief.");
    await type("Hello\r", "tokens");
    await type("/set temperature\r", "temperature is the model's default again.");
    await type("/clear\r", "forgotten");
    await type("/sytem x\r", "There is no command /sytem. Did you mean /system?");
    await type(" /not a command\r", "tokens");
    await leave("/bye\r");
    expect(asked[0]).toMatchObject({ temperature: 0.5, seed: 7n });
    expect(asked.map(textsOf)).toEqual([
      ["SYSTEM: Be brief.", "USER: Hello"],
      ["SYSTEM: Be brief.", "USER: /not a command"],
    ]);
    expect(asked[1]?.temperature).toBeUndefined();
  });

  it("saves the conversation as a request, readable by its owner only, and replaces no other file", async () => {
    const { type, leave } = startChat();
    await writeFile(join(cwd, "taken.json"), "mine");
    await type("/save chat.json\r", "There is no message to save yet.");
    await type("/set max_tokens 9\r", "max_tokens is 9.");
    await type("Hello\r", "tokens");
    await type("/save taken.json\r", "exists: choose another name.");
    await type("/save chat.json\r", "Saved to ");
    await type("Again\r", "tokens");
    await type("/save chat.json\r", "Saved to ");
    await leave("/bye\r");
    const saved = JSON.parse(await readFile(join(cwd, "chat.json"), "utf8")) as { messages: unknown[] };
    expect(saved).toMatchObject({ model: "m", max_tokens: 9 });
    expect(saved.messages).toHaveLength(4);
    expect(saved.messages[0]).toEqual({ role: "user", content: "Hello" });
    expect(await readFile(join(cwd, "taken.json"), "utf8")).toBe("mine");
  });

  it("shows reasoning in faint colour and on separate lines", async () => {
    const { type, leave } = startChat({});
    await type("think\r", "\u001b[2mhm\u001b[0m\n\nYou said think\n");
    await leave("/bye\r");
  });
});
