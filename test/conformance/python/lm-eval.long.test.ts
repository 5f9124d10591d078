import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { blockOf } from "../../support/page-blocks.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { createApi } from "../openai/api.js";

const run = promisify(execFile);
const page = "docs/models.md";

/** Each country is followed by its capital in the model's text, so the model's answers are known. */
const capitals =
  "Austria Vienna Belgium Brussels Chile Santiago Cuba Havana Denmark Copenhagen Egypt Cairo Finland Helsinki France Paris " +
  "Germany Berlin Greece Athens Hungary Budapest Ireland Dublin Italy Rome Japan Tokyo Kenya Nairobi Latvia Riga Norway Oslo " +
  "Peru Lima Poland Warsaw Spain Madrid";
const words = capitals.split(" ");
const items = 20;
/** Items whose expected answer in the task differs from the model's answer. */
const wrong = new Set([2, 3, 5, 8, 13]);

interface Item {
  readonly country: string;
  readonly choices: readonly string[];
  readonly gold: number;
}

function itemOf(i: number): Item {
  const city = (of: number): string => words[(2 * of + 1) % words.length] ?? "";
  // The last choice is not one word of the vocabulary but many tokens.
  const choices = [city(i), city(i + 1), city(i + 2), "Nowhere-upon-Sea"];
  const first = i % 4;
  const order = choices.map((_, at) => choices[(at + 4 - first) % 4] ?? "");
  return { country: words[2 * i] ?? "", choices: order, gold: wrong.has(i) ? (first + 1) % 4 : first };
}

const task = (items: string): string =>
  [
    "task: my-task",
    "dataset_path: json",
    `dataset_kwargs: { data_files: { test: ${JSON.stringify(items)} } }`,
    "test_split: test",
    "output_type: multiple_choice",
    'doc_to_text: "The capital of {{country}}"',
    'doc_to_choice: "{{choices}}"',
    "doc_to_target: gold",
    'target_delimiter: " "',
    "metric_list: [{ metric: acc, aggregation: mean, higher_is_better: true }]",
    "",
  ].join("\n");

/** A line of the file with samples that lm-eval writes. */
interface Sample {
  readonly doc: Item;
  readonly acc: number;
  /** Log likelihood of each choice, and whether its tokens are the most likely ones. */
  readonly filtered_resps: readonly (readonly [logprob: string | number, isGreedy: string | boolean])[];
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("lm-eval", () => {
  let python: string;
  let folder: string;
  let service: LlamaService;

  beforeAll(async () => {
    python = await pythonVenv("test/conformance/python/lm-eval.txt");
    folder = await mkdtemp(join(tmpdir(), "uis-lm-eval-"));
    const weights = join(folder, "model.gguf");
    await writeScriptedGguf(weights, { text: `x ${capitals}`, isEndless: true });
    service = await startLlamaService([{ id: "qwen3-0.6b", write: (path) => copyFile(weights, path) }]);
  }, 900_000);
  afterAll(async () => {
    await service?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const inFolder = (program: string, args: readonly string[]) => {
    const home = { HOME: folder, HF_HOME: join(folder, "home"), HF_HUB_OFFLINE: "1", HF_DATASETS_OFFLINE: "1" };
    const env = { PATH: `${dirname(python)}:${process.env["PATH"]}`, ...home };
    return run(program, [...args], { cwd: folder, env, timeout: 500_000, maxBuffer: 2 ** 26 });
  };

  it("scores multiple choice with the commands of docs/models.md (E-7, CMPL-8)", async () => {
    await inFolder(python, ["-c", blockOf(page, "python tokenizer", service)]);
    const lines = Array.from({ length: items }, (_, i) => `${JSON.stringify(itemOf(i))}\n`);
    await writeFile(join(folder, "items.jsonl"), lines.join(""));
    await writeFile(join(folder, "my-task.yaml"), task(join(folder, "items.jsonl")));
    const line = blockOf(page, "sh lm-eval", service).trimEnd();
    await inFolder("sh", ["-c", `${line} --output_path out --log_samples`]);

    const found = await readdir(join(folder, "out"), { recursive: true });
    const contentOf = (name: RegExp) =>
      readFile(join(folder, "out", found.find((path) => name.test(path)) ?? ""), "utf8");
    const { results } = JSON.parse(await contentOf(/results.*\.json$/));
    expect(results["my-task"]["acc,none"]).toBe((items - wrong.size) / items);

    const samples = (await contentOf(/samples.*\.jsonl$/))
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text) as Sample);
    expect(samples).toHaveLength(items);
    const api = createApi(service);
    for (const { doc, filtered_resps } of samples) {
      const likely = doc.choices.map((_, i) => Number(filtered_resps[i]?.[0]));
      expect(Math.max(...likely)).toBeCloseTo(0, 3);
      for (const [i, choice] of doc.choices.entries()) {
        const before = `The capital of ${doc.country}`;
        const asked = { model: "qwen3-0.6b", prompt: `${before} ${choice}`, echo: true, logprobs: 0, max_tokens: 0 };
        const { token_logprobs, text_offset } = (await api.completion(asked)).json.choices[0].logprobs;
        const ofChoice = token_logprobs.filter((_: number, at: number) => text_offset[at] >= before.length);
        expect(likely[i]).toBeCloseTo(
          ofChoice.reduce((sum: number, logprob: number) => sum + logprob, 0),
          2,
        );
        expect(String(filtered_resps[i]?.[1])).toBe(likely[i] === Math.max(...likely) ? "True" : "False");
      }
    }
  }, 600_000);
});
