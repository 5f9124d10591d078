import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { errorRow } from "../../../src/contract/errors.js";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import {
  chatMethods,
  chatOf,
  createChatCompletion,
  createCompletion,
  createEmbeddings,
  rerank,
  streamChatCompletion,
  streamCompletion,
} from "./chat-requests.js";
import { openWay, type RpcWay, wayNames } from "./ways.js";

const models = [
  { id: "m", engine: "scripted", scripted: { text: "One two three.", token_delay_ms: 1 } },
  { id: "e", engine: "scripted", scripted: { dimensions: 4 } },
  { id: "r", engine: "scripted", scripted: { rerank: true } },
  { id: "hangs", engine: "scripted", slots: 4, scripted: { text: "One two three.", hang_after_tokens: 1 } },
  // Takes a fifth of `limits.drain` below.
  { id: "slow", engine: "scripted", scripted: { text: "One two three four five.", token_delay_ms: 40 } },
];
const requestId = /^req_[0-9a-f]{32}$/;
/** Five times the target for the time from a client's disconnect to the abort of its engine. */
const abortBoundMs = 250;

describe.each(wayNames)("calls over %s", (name) => {
  let service: RunningService;
  let way: RpcWay;
  beforeAll(async () => {
    service = await startService({ config: { models, limits: { drain: "1s" } } });
    way = openWay(name, service);
  });
  afterAll(async () => {
    way.close();
    await service.close();
  });

  async function isIdle(): Promise<boolean> {
    const { requests, models: states, live_leases } = await service.debugState();
    const busy = states.reduce((sum, model) => sum + model.busy + model.waiting, 0);
    return requests.running + requests.waiting + busy + live_leases === 0;
  }
  async function busySlots(id: string): Promise<number> {
    return (await service.debugState()).models.find((model) => model.id === id)?.busy ?? 0;
  }

  it("return a unary response with its usage and the request id (GRPC-2, GRPC-22)", async () => {
    const { messages, requestId: id, failure } = await way.call(createChatCompletion, chatOf("m"));
    expect(failure).toBeNull();
    expect(messages[0]?.completion).toMatchObject({
      model: "m",
      choices: [{ message: { content: "One two three." }, finishReason: "stop" }],
      usage: { promptTokens: 2, completionTokens: 3, totalTokens: 5 },
    });
    expect(id).toMatch(requestId);
  });

  it("stream first the role, then the text, then the finish reason, and the usage in a separate chunk (GRPC-2, GRPC-22)", async () => {
    const { messages, requestId: id, failure } = await way.call(streamChatCompletion, chatOf("m"));
    expect(failure).toBeNull();
    expect(id).toMatch(requestId);
    const chunks = messages.map(({ chunk }) => chunk);
    expect(chunks[0]?.choices[0]?.delta?.role).toBeDefined();
    expect(chunks.map((chunk) => chunk?.choices[0]?.delta?.content ?? "").join("")).toBe("One two three.");
    expect(chunks.at(-2)?.choices[0]?.finishReason).toBe("stop");
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { totalTokens: 5 } });
    expect(new Set(chunks.map((chunk) => chunk?.id)).size).toBe(1);
  });

  it("return text completions and embeddings (GRPC-2)", async () => {
    const request = { params: { model: "m", prompt: ["Go on."] } };
    const whole = await way.call(createCompletion, request);
    expect(whole.messages[0]?.completion?.choices[0]?.text).toBe("One two three.");
    const streamed = await way.call(streamCompletion, request);
    expect(streamed.messages.map(({ chunk }) => chunk?.choices[0]?.text ?? "").join("")).toBe("One two three.");
    const { messages } = await way.call(createEmbeddings, { params: { model: "e", input: ["One"] } });
    expect(messages[0]?.embeddings?.data[0]?.vector).toHaveLength(4 * 4);
  });

  it("return rankings, and reject wrong values of rerank with the field (GRPC-2, RANK-1, RANK-4)", async () => {
    const params = { model: "r", query: "a b", documents: ["a", "b a"] };
    const { messages } = await way.call(rerank, { params });
    expect(messages[0]?.ranking?.results.map(({ index }) => index)).toEqual([1, 0]);
    const wrong: readonly (readonly [object, string])[] = [
      [{ model: "" }, "model"],
      [{ query: "" }, "query"],
      [{ documents: [] }, "documents"],
      [{ documents: ["a", ""] }, "documents[1]"],
      [{ topN: 0 }, "top_n"],
      [{ model: "m" }, "model"],
    ];
    for (const [fields, param] of wrong) {
      const { failure } = await way.call(rerank, { params: { ...params, ...fields } });
      expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param });
    }
    expect((await way.call(rerank, {})).failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "model" });
  });

  for (const method of chatMethods) {
    it(`end ${method.localName} with DEADLINE_EXCEEDED at the deadline, and free its slot (GRPC-4)`, async () => {
      const { failure } = await way.call(method, chatOf("hangs"), { timeoutMs: 150 });
      expect(failure?.code).toBe(status.DEADLINE_EXCEEDED);
      await eventually(isIdle, "nothing is left");
    });

    it(`free the slot of a cancelled ${method.localName} immediately (GRPC-3, GRPC-7)`, async () => {
      const leave = new AbortController();
      const outcome = way.call(method, chatOf("hangs"), { signal: leave.signal });
      await eventually(async () => (await busySlots("hangs")) === 1, "the engine runs");
      const leftAtMs = performance.now();
      leave.abort();
      await eventually(async () => (await busySlots("hangs")) === 0, "the slot is free");
      expect(performance.now() - leftAtMs).toBeLessThan(abortBoundMs);
      expect((await outcome).failure?.code).toBe(status.CANCELLED);
      await eventually(isIdle, "nothing is left");
    });
  }

  it("leave the queue if they are cancelled while they wait for a slot (GRPC-7)", async () => {
    const holders = new AbortController();
    const held = [1, 2, 3, 4].map(() => way.call(createChatCompletion, chatOf("hangs"), { signal: holders.signal }));
    await eventually(async () => (await busySlots("hangs")) === 4, "all slots are taken");
    const leave = new AbortController();
    const waiting = way.call(createChatCompletion, chatOf("hangs"), { signal: leave.signal });
    await eventually(async () => (await service.debugState()).requests.waiting === 1, "the fifth waits");
    leave.abort();
    expect((await waiting).failure?.code).toBe(status.CANCELLED);
    await eventually(async () => (await service.debugState()).requests.waiting === 0, "the queue is empty");
    holders.abort();
    await Promise.all(held);
    await eventually(isIdle, "nothing is left");
  });

  it("finish during a drain; late ones end with SERVER_SHUTTING_DOWN, new ones are rejected (REL-10, GRPC-11, GRPC-16)", async () => {
    const slow = way.call(streamChatCompletion, chatOf("slow"));
    const hung = chatMethods.map((method) => way.call(method, chatOf("hangs")));
    await eventually(async () => (await busySlots("slow")) + (await busySlots("hangs")) === 3, "all run");
    const closed = service.close();
    const late = way.call(createChatCompletion, chatOf("m"));
    expect((await slow).failure).toBeNull();
    expect((await late).failure?.code).toBe(status.UNAVAILABLE);
    for (const { failure } of await Promise.all(hung)) {
      const { grpc, type } = errorRow("server_shutting_down");
      expect(failure).toMatchObject({ code: grpc, reason: "SERVER_SHUTTING_DOWN", type });
    }
    await closed;
  });
});
