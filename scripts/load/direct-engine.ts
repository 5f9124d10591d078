/**
 * The yardstick: the binding in a process of its own, without all that makes a service of it. Arguments: the model's
 * file, slots, tokens of a slot. Speaks over the IPC channel: `ready`, then one result for each round.
 */
import { getLlama, type LlamaContextSequence, LlamaLogLevel, type Token, TokenBias } from "node-llama-cpp";
import { findPace, PrefillPace } from "../../src/engines/llama/child/prefill.js";
import { mutedBias, type RoundResult, type StreamRound, type StreamTask, sampling } from "./stream-round.js";

export interface DirectReady {
  readonly vocabSize: number;
  /** Tokens that end an answer. */
  readonly endTokens: readonly number[];
  /** Into pieces of how many tokens the service would cut prompts, by its own rule. */
  readonly pieceTokens: number;
}

const [modelPath = "", slots = "1", contextLength = "1024"] = process.argv.slice(2);
const batchTokens = 512;

const llama = await getLlama({
  build: "never",
  gpu: false,
  skipDownload: true,
  maxThreads: 1,
  logLevel: LlamaLogLevel.error,
  progressLogs: false,
});
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  contextSize: Number(contextLength),
  batchSize: batchTokens,
  sequences: Number(slots),
  threads: 1,
  failedCreationRemedy: false,
});
const sequences = Array.from({ length: Number(slots) }, () => context.getSequence());
const vocabSize = model.fileInfo.metadata.tokenizer?.ggml.tokens.length ?? 0;

async function stream(sequence: LlamaContextSequence, task: StreamTask, round: StreamRound): Promise<number> {
  const startedMs = performance.now();
  let firstMs = 0;
  let made = 0;
  const tokenBias = TokenBias.for(model);
  for (const token of round.muted) tokenBias.set([token as Token], { logit: mutedBias });
  const options = { ...sampling, seed: task.seed, yieldEogToken: true, tokenBias };
  await sequence.clearHistory();
  let last = task.prompt as Token[];
  for (const size = round.pieceTokens ?? last.length; last.length > size; last = last.slice(size)) {
    await sequence.evaluateWithoutGeneratingNewTokens(last.slice(0, size));
  }
  for await (const _ of sequence.evaluate(last, options)) {
    made += 1;
    if (made === 1) firstMs = performance.now() - startedMs;
    if (made === round.tokens) break;
  }
  return firstMs;
}

async function run(round: StreamRound): Promise<RoundResult> {
  const startedMs = performance.now();
  const cpuBefore = process.cpuUsage();
  const streams = round.tasks.map((task, place) => {
    const sequence = sequences[place];
    if (sequence === undefined) throw new Error(`a round of ${round.tasks.length} streams on ${slots} slots`);
    return stream(sequence, task, round);
  });
  const firstMs = await Promise.all(streams);
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    tokens: round.tasks.length * round.tokens,
    ms: performance.now() - startedMs,
    firstMs,
    cpuMs: (user + system) / 1_000,
  };
}

async function pieceTokens(): Promise<number> {
  const pace = new PrefillPace(batchTokens / 2);
  const [sequence] = sequences;
  if (sequence === undefined) return pace.pieceTokens;
  const measured = {
    evaluate: (tokens: readonly number[]) => sequence.evaluateWithoutGeneratingNewTokens(tokens as Token[]),
    cutTo: () => sequence.clearHistory(),
  };
  await findPace(pace, measured, Number(contextLength));
  return pace.pieceTokens;
}

process.on("message", (round: StreamRound) => void run(round).then((result) => process.send?.(result)));
process.on("disconnect", () => process.exit(0));
const ids = Array.from({ length: vocabSize }, (_, id) => id);
const endTokens = ids.filter((id) => model.isEogToken(id as Token));
process.send?.({ vocabSize, endTokens, pieceTokens: await pieceTokens() } satisfies DirectReady);
