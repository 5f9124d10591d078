import { type ClientRequest, request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { type Api, createApi, expectError } from "../openai/api.js";

const contextLength = 16_384;
const longestWord = 64;
/** A prompt that is short enough to be tokenized, but has several times more tokens than the context. */
const long = "the people of this world ".repeat(36_000);
/** Maximum gap between two chunks of another stream: five times the target of 100 ms on an idle machine. */
const gapMaxMs = 500;
/** Makes an answer repeat the letter a until the context is full. */
const endless = { logit_bias: { 97: 100 } };

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  const write = (path: string) => writeRandomGguf(path, { contextLength, longestWord });
  service = await startLlamaService([{ id: "m", write, contextLength, slots: 2 }]);
  api = createApi(service);
});
afterAll(() => service.close());

/** Another client's stream, and the longest time between two of its chunks. */
class Neighbour {
  readonly #sent: ClientRequest;
  #lastAtMs = performance.now();
  chunks = 0;
  largestGapMs = 0;

  constructor() {
    this.#sent = request(`${service.api}/completions`, {
      method: "POST",
      agent: false,
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    });
    this.#sent.once("response", (response) => {
      this.#lastAtMs = performance.now();
      response.on("data", () => this.#note());
    });
    this.#sent.on("error", () => {});
    this.#sent.end(JSON.stringify({ model: "m", prompt: "the", stream: true, ...endless }));
  }

  #note(): void {
    const nowMs = performance.now();
    this.chunks += 1;
    this.largestGapMs = Math.max(this.largestGapMs, nowMs - this.#lastAtMs);
    this.#lastAtMs = nowMs;
  }

  /** Runs `run` while the stream continues; returns the largest gap in the stream during this time. */
  async during(run: () => Promise<void>): Promise<number> {
    await eventually(() => this.chunks > 5, "a stream that has begun");
    this.largestGapMs = 0;
    await run();
    const before = this.chunks;
    await eventually(() => this.chunks > before, "a stream that goes on");
    return this.largestGapMs;
  }

  leave(): void {
    this.#sent.destroy();
  }
}

describe("a prompt with log probabilities", () => {
  it("is scored while another stream continues without a gap over 100 ms (E-7)", async () => {
    const neighbour = new Neighbour();
    const prompt = "the people of this world ".repeat(60);
    const gapMs = await neighbour.during(async () => {
      const asked = { model: "m", prompt, echo: true, logprobs: 1, max_tokens: 1, ...endless };
      const { choices, usage } = (await api.completion(asked)).json;
      expect(choices[0].logprobs.tokens).toHaveLength(usage.total_tokens);
      expect(usage.prompt_tokens).toBeGreaterThan(300);
    });
    neighbour.leave();
    expect(gapMs).toBeLessThan(gapMaxMs);
  });
});

describe("a prompt above the context", () => {
  it("is tokenized while another stream continues without a gap over 100 ms (E-3)", async () => {
    const neighbour = new Neighbour();
    const gapMs = await neighbour.during(async () => {
      const reply = await api.chat({ model: "m", messages: [{ role: "user", content: long }] });
      expectError(reply, 400, "context_length_exceeded", "messages");
      expect(reply.json.error.message).toMatch(/maximum context length is 16384 tokens, but the prompt has \d+ tokens/);
    });
    neighbour.leave();
    expect(gapMs).toBeLessThan(gapMaxMs);
  });

  it("is rejected by its length in bytes without being tokenized, while another stream continues (E-3)", async () => {
    const neighbour = new Neighbour();
    const huge = "z".repeat(4_000_000);
    await neighbour.during(async () => {
      const chats = Array.from({ length: 6 }, () =>
        api.chat({ model: "m", messages: [{ role: "user", content: huge }] }),
      );
      for (const reply of [await api.completion({ model: "m", prompt: huge }), ...(await Promise.all(chats))]) {
        expect(reply).toMatchObject({ status: 400, json: { error: { code: "context_length_exceeded" } } });
        expect(reply.json.error.message).toContain("the prompt has at least 62500 tokens");
      }
    });
    neighbour.leave();
    expect(service.restarts("m")).toBe(0);
  });
});
