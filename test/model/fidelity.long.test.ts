import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.js";
import { chat, complete, type StreamedAnswer, streamChat, user } from "../support/model-client.js";
import { ReferenceModel } from "../support/model-reference.js";
import { evaluations, type ModelService, startModelService } from "../support/model-service.js";
import { fidelityPrompts } from "./fidelity-prompts.js";

const answerTokensMax = 32;
const promptTokensMax = 100;
/** Time limit of one prompt: enough for the answers of the service and of the engine itself at ten tokens per second. */
const promptLimitMs = 60_000;
const contextLength = 1024;

let service: ModelService;
let reference: ReferenceModel;

beforeAll(async () => {
  service = await startModelService({ kind: "chat", contextLength, recorded: true });
  reference = await ReferenceModel.open(service.file, contextLength);
});

afterAll(async () => {
  await reference?.close();
  await service?.close();
});

interface Recorded<T> {
  readonly answer: T;
  /** The pieces in which the engine evaluated the prompt. Other pieces round differently and can give another answer. */
  readonly pieces: readonly (readonly number[])[];
}

async function record<T>(ask: () => Promise<T>): Promise<Recorded<T>> {
  const before = evaluations(service).length;
  const answer = await ask();
  const made = () => evaluations(service).slice(before);
  // The records come through the log and may arrive after the answer.
  await eventually(() => made().at(-1)?.evaluates === "answer", "the record of the answer");
  return { answer, pieces: made().map(({ tokens }) => tokens) };
}

/** Records `ask` on a slot whose last prompt shares no prefix with a conversation, so that no tokens are reused. */
async function recordCold<T>(ask: () => Promise<T>): Promise<Recorded<T>> {
  await record(() => complete(service, { prompt: "cold", max_tokens: 1 }));
  return record(ask);
}

function usageOf(prompt: readonly number[], answer: readonly number[]): object {
  return {
    prompt_tokens: prompt.length,
    completion_tokens: answer.length,
    total_tokens: prompt.length + answer.length,
    prompt_tokens_details: { cached_tokens: 0 },
  };
}

type Answer = Pick<StreamedAnswer, "text" | "finishReason" | "usage">;

/** Requests an answer as one JSON document or as a stream; the service assembles its text differently for each. */
const answerBy = {
  async document(fields: object): Promise<Answer> {
    const { choices, usage } = await chat(service, fields);
    const [choice] = choices;
    return { text: choice?.message.content ?? "", finishReason: choice?.finish_reason ?? null, usage };
  },
  stream: (fields: object): Promise<Answer> => streamChat(service, fields),
};

const france = [user("What is the capital of France?")];

describe("the real chat model through the service", () => {
  it("renders a conversation with the model's own template to the expected 37 tokens", async () => {
    const { answer, pieces } = await recordCold(() => chat(service, { messages: france, max_tokens: 1 }));
    const tokens = pieces.flat();
    expect(answer.usage.prompt_tokens).toBe(37);
    expect(tokens).toHaveLength(37);
    expect(tokens.slice(0, 4)).toEqual([1, 9690, 198, 2683]);
    expect(tokens).toEqual(reference.chatTokens(france));
  });

  it("evaluates a prompt of token ids unchanged, and gives the same answer as the engine alone (CMPL-2)", async () => {
    const prompt = reference.chatTokens(france);
    const { answer, pieces } = await recordCold(() => complete(service, { prompt, max_tokens: answerTokensMax }));
    expect(pieces.flat()).toEqual(prompt);
    const { text, tokens } = await reference.answer(pieces, answerTokensMax);
    expect(answer.choices).toMatchObject([{ text }]);
    expect(answer.usage).toMatchObject(usageOf(prompt, tokens));
  });

  const asked = fidelityPrompts.slice(0, fidelityPrompts.length).map((turns, i) => ({
    turns,
    way: i % 2 === 0 ? ("document" as const) : ("stream" as const),
    prompt: JSON.stringify(turns.at(-1)?.content),
  }));

  it.each(asked)(
    "gives the same answer as the engine alone, and counts it exactly, in a $way: $prompt",
    {
      timeout: promptLimitMs,
    },
    async ({ turns, way }) => {
      const prompt = reference.chatTokens(turns);
      expect(prompt.length).toBeLessThanOrEqual(promptTokensMax);
      const { answer, pieces } = await recordCold(() =>
        answerBy[way]({ messages: turns, max_tokens: answerTokensMax }),
      );
      expect(pieces.flat()).toEqual(prompt);
      const { text, tokens, hasEnded } = await reference.answer(pieces, answerTokensMax);
      expect(answer).toMatchObject({
        text,
        finishReason: hasEnded ? "stop" : "length",
        usage: usageOf(prompt, tokens),
      });
    },
  );
});
