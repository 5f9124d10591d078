/**
 * The embedded engine behind the whole service against its binding driven directly, in turn in the same run: the same
 * model file, slots, threads (1), sampling and prompts. Prints JSON, one object for each model: a generated one of about
 * 14 million random weights, and the small chat model where the tests have left it in their cache.
 *
 * Then prefill and embeddings against llama.cpp's own server (PyPI `xllamacpp`), if this machine can install it.
 *
 *   npm run bench -- engine [--repeats 5] [--tokens 256] [--model file.gguf] [--only llama-server]
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { defaultChatModels, defaultEmbeddingModel } from "../../src/model-store/default-models.js";
import { writeRandomBertGguf, writeRandomGguf } from "../support/gguf/random-gguf.js";
import { modelCacheFolder } from "../support/model-files/model-cache.js";
import { whyNoLlamaServer } from "../support/upstream/llama-server.js";
import { temporaryFolder } from "./cleanup.js";
import { startDirect } from "./direct-process.js";
import {
  contextLength,
  type FirstToken,
  firstTokens,
  prefixReuse,
  round,
  slotMemory,
  slots,
  type Throughput,
  throughput,
} from "./engine-measures.js";
import { measurePeers } from "./engine-peers.js";
import { EngineService } from "./engine-service.js";

const streamCounts = [1, 4, 8];
/** Minimum speed of the service relative to the binding. */
const shareMin = 0.9;
/** Maximum time that the service adds to the first token. */
const addedMaxMs = 5;
const loopDelayP99MaxMs = 20;

const { values } = parseArgs({
  options: {
    repeats: { type: "string", default: "5" },
    tokens: { type: "string", default: "256" },
    model: { type: "string" },
    /** `llama-server`: without the binding. */
    only: { type: "string" },
  },
});
const repeats = Number(values.repeats);
const tokens = Number(values.tokens);

interface Report {
  readonly model: string;
  readonly first_tokens: readonly FirstToken[];
  readonly throughput: readonly Throughput[];
}

async function measure(name: string, file: string): Promise<Report> {
  const direct = await startDirect({ file, slots, contextLength });
  const service = await EngineService.start([
    { id: "one", file, slots: 1, contextLength },
    { id: "many", file, slots, contextLength },
  ]);
  try {
    // Half of the generated model's single-byte tokens are partial characters, which a trained model rarely writes.
    const noText = name === "generated" ? Array.from({ length: 128 }, (_, id) => 128 + id) : [];
    const side = { service, direct, muted: [...direct.endTokens, ...noText] };
    const memory = await slotMemory(side);
    const warmUp = round(slots, 32, side.muted);
    await direct.run(warmUp);
    await service.run("many", warmUp);
    const first = await firstTokens(side);
    const rows: Throughput[] = [];
    for (const streams of streamCounts) rows.push(await throughput(side, { streams, tokens, repeats }));
    const reuse = await prefixReuse(side, repeats);
    return { model: name, ...{ first_tokens: first, throughput: rows, prefix_reuse: reuse, memory } };
  } finally {
    await Promise.all([service.stop(), direct.stop()]);
  }
}

/** The missed aims, each as a sentence. */
function misses({ first_tokens, throughput: rows }: Report): readonly string[] {
  const late = first_tokens.filter(({ added_p50_ms: addedMs }) => addedMs >= addedMaxMs);
  const slow = rows.filter(({ service_over_direct: share }) => share < shareMin);
  const stuck = rows.filter(({ server_loop_delay_p99_ms: delayMs }) => delayMs >= loopDelayP99MaxMs);
  return [
    ...late.map(
      (row) => `${row.added_p50_ms} ms more to the first token of ${row.prompt_tokens}, not under ${addedMaxMs}`,
    ),
    ...slow.map((row) => `${row.streams} streams reach ${row.service_over_direct} of the binding, not ${shareMin}`),
    ...stuck.map((row) => `a loop delay of ${row.server_loop_delay_p99_ms} ms, not under ${loopDelayP99MaxMs}`),
  ];
}

/** Compares with llama.cpp's server, or prints why that is skipped. Returns the missed aims, each as a sentence. */
async function measureLlamaServer(chatModels: ReadonlyMap<string, string>): Promise<readonly string[]> {
  const reason = await whyNoLlamaServer();
  if (reason !== null) {
    process.stdout.write(`skipped: llama.cpp's server (${reason})\n`);
    return [];
  }
  const encoder = join(folder, "encoder.gguf");
  // The shape of all-MiniLM-L6-v2.
  await writeRandomBertGguf(encoder, { layers: 6, width: 384, feedForward: 1_536 });
  const cached = resolve(modelCacheFolder, `${defaultEmbeddingModel.file.sha256}.gguf`);
  const compared = [
    ...[...chatModels].map(([model, file]) => ({ model, file, kind: "chat" as const })),
    { model: "generated encoder", file: encoder, kind: "embedding" as const },
    ...(existsSync(cached) ? [{ model: defaultEmbeddingModel.id, file: cached, kind: "embedding" as const }] : []),
  ];
  const missed: string[] = [];
  for (const { model, ...served } of compared) {
    const figures = await measurePeers(served, repeats);
    process.stdout.write(`${JSON.stringify({ model, llama_server: figures }, null, 2)}\n`);
    for (const { work, service_over_llama_server: ratio, aim } of figures) {
      if (ratio < aim) missed.push(`${model}: ${work}: ${ratio} of llama.cpp's server; not ${aim}`);
    }
  }
  return missed;
}

const folder = temporaryFolder("engine-bench");
const models = new Map<string, string>();
if (values.model === undefined) {
  models.set("generated", join(folder, "generated.gguf"));
  await writeRandomGguf(join(folder, "generated.gguf"), { layers: 6, heads: 8 });
  for (const { id, file: pinned, isDemonstration } of defaultChatModels) {
    const file = resolve(modelCacheFolder, `${pinned.sha256}.gguf`);
    if (isDemonstration && existsSync(file)) models.set(id, file);
  }
} else {
  models.set(values.model, resolve(values.model));
}
for (const [name, file] of values.only === undefined ? models : []) {
  const report = await measure(name, file);
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  for (const miss of misses(report)) {
    process.stderr.write(`${name}: ${miss}\n`);
    process.exitCode = 1;
  }
}
for (const miss of await measureLlamaServer(models)) {
  process.stderr.write(`${miss}\n`);
  process.exitCode = 1;
}
