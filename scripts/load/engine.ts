/**
 * The embedded engine behind the whole service against its binding driven directly, in turn in the same run: the same
 * model file, slots, threads (1), sampling and prompts. Prints JSON, one object for each model: a generated one of about
 * 14 million random weights, and the small chat model where the tests have left it in their cache.
 *
 *   npm run bench -- engine [--repeats 5] [--tokens 256] [--model file.gguf]
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { defaultChatModels } from "../../src/model-store/default-models.js";
import { writeRandomGguf } from "../../test/support/gguf/random-gguf.js";
import { modelCacheFolder } from "../../test/support/model-files/model-cache.js";
import { startDirect } from "./direct-process.js";
import {
  contextLength,
  firstToken,
  prefixReuse,
  round,
  slotMemory,
  slots,
  type Throughput,
  throughput,
} from "./engine-measures.js";
import { EngineService } from "./engine-service.js";

const streamCounts = [1, 4, 8];
/** The share of the binding's own speed that is left behind the service. */
const gate = 0.9;

const { values } = parseArgs({
  options: {
    repeats: { type: "string", default: "5" },
    tokens: { type: "string", default: "256" },
    model: { type: "string" },
  },
});
const repeats = Number(values.repeats);
const tokens = Number(values.tokens);

interface Report {
  readonly model: string;
  readonly throughput: readonly Throughput[];
}

async function measure(name: string, file: string): Promise<Report> {
  const direct = await startDirect({ file, slots, contextLength });
  const service = await EngineService.start([
    { id: "one", file, slots: 1, contextLength },
    { id: "many", file, slots, contextLength },
  ]);
  try {
    // Half of the generated model's letters are no text by themselves, which no model that was trained does.
    const noText = name === "generated" ? Array.from({ length: 128 }, (_, id) => 128 + id) : [];
    const side = { service, direct, muted: [...direct.endTokens, ...noText] };
    const memory = await slotMemory(side);
    const warmUp = round(slots, 32, side.muted);
    await direct.run(warmUp);
    await service.run("many", warmUp);
    const first = await firstToken(side);
    const rows: Throughput[] = [];
    for (const streams of streamCounts) rows.push(await throughput(side, { streams, tokens, repeats }));
    const reuse = await prefixReuse(side, repeats);
    return { model: name, ...{ first_token: first, throughput: rows, prefix_reuse: reuse, memory } };
  } finally {
    await Promise.all([service.stop(), direct.stop()]);
  }
}

// Ends the processes of a run that is broken off.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
const folder = mkdtempSync(join(tmpdir(), "uis-engine-bench-"));
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
try {
  for (const [name, file] of models) {
    const report = await measure(name, file);
    process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
    for (const { streams, service_over_direct: share } of report.throughput) {
      if (share >= gate) continue;
      process.stderr.write(
        `${name}: ${streams} streams reached ${share} of the binding's speed; the gate is ${gate}\n`,
      );
      process.exitCode = 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
