/**
 * The baseline: the binding in a process of its own, without the service. Arguments: the model's
 * file, slots, tokens per slot. Sends over the IPC channel: `ready`, then one result for each round.
 */
import { getLlama, type LlamaContextSequence, LlamaLogLevel, type Token, TokenBias } from "node-llama-cpp";
import { findPace, PrefillPace } from "../../src/engines/llama/child/steps.js";
import { mutedBias, type RoundResult, type StreamRound, type StreamTask, sampling } from "./stream-round.js";

export interface DirectReady {
  readonly vocabSize: number;
  /** Tokens that end an answer. */
  readonly endTokens: readonly number[];
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
/** Chooses the sizes of prompt pieces as the service does. */
const pace = new PrefillPace(batchTokens / 2);
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
  while (round.cutsPrompts && last.length > pace.pieceTokens) {
    const piece = last.slice(0, pace.pieceTokens);
    await pace.measure(piece.length, () => sequence.evaluateWithoutGeneratingNewTokens(piece));
    last = last.slice(piece.length);
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

/** Measures the pace before the first prompt, as the service does. */
async function findOwnPace(): Promise<void> {
  const [sequence] = sequences;
  if (sequence === undefined) return;
  const measured = {
    evaluate: (tokens: readonly number[]) => sequence.evaluateWithoutGeneratingNewTokens(tokens as Token[]),
    cutTo: () => sequence.clearHistory(),
  };
  await findPace(pace, measured, Number(contextLength));
}

process.on("message", (round: StreamRound) => void run(round).then((result) => process.send?.(result)));
process.on("disconnect", () => process.exit(0));
const ids = Array.from({ length: vocabSize }, (_, id) => id);
const endTokens = ids.filter((id) => model.isEogToken(id as Token));
await findOwnPace();
process.send?.({ vocabSize, endTokens } satisfies DirectReady);
