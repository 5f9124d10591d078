import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { fingerprintOf } from "../../../../../src/engines/llama/child/load-model.js";
import { writeRandomBertGguf, writeRandomGguf } from "../../../../support/gguf/random-gguf.js";
import { EngineChild, modelPath, startMs } from "./engine-child.js";

const path = modelPath("whole");
const bert = modelPath("encoder");
const broken = modelPath("broken");

vi.setConfig({ testTimeout: startMs });

beforeAll(async () => {
  await writeRandomGguf(path);
  await writeRandomBertGguf(bert);
}, startMs);

afterAll(async () => {
  for (const file of [path, bert, broken]) await rm(file, { force: true });
});

/** Loads a file that cannot be loaded; returns the error message. */
async function loadFailure(child: EngineChild, file: string): Promise<string> {
  const before = child.messages.length;
  child.load({ path: file, kind: "chat" });
  await child.hear((message) => child.messages.indexOf(message) >= before && message.type === "load_failed");
  const { code, message } = child.loadError;
  expect(code).toBe("model_not_loaded");
  expect(message).toContain("The model 'test-model' cannot be loaded: ");
  return message;
}

describe("a model that cannot be loaded", () => {
  it("is reported with the cause and a fix", async () => {
    const whole = await readFile(path);
    const child = await EngineChild.load({ path: modelPath("missing"), kind: "chat" });
    const failure = (file: string): Promise<string> => loadFailure(child, file);
    expect(await failure(modelPath("missing"))).toContain("does not exist. Fetch it again");
    await writeFile(broken, whole.subarray(0, whole.length / 2));
    expect(await failure(broken)).toContain("damaged or truncated. Fetch it again");
    await writeFile(broken, "these are no weights");
    expect(await failure(broken)).toContain("is not a GGUF file. Fetch it again");
    const renamed = Buffer.from(whole);
    renamed.write("xlama", renamed.indexOf("llama"));
    await writeFile(broken, renamed);
    expect(await failure(broken)).toContain("does not know its architecture 'xlama'");
    expect(await failure(bert)).toContain("computes embeddings, not text");
    await child.stop();
  });
});

describe("the process of a model", () => {
  it("ignores signals, and exits when the channel closes, also during an answer", async () => {
    const child = await EngineChild.load({ path, kind: "chat", contextLength: 4096 });
    const { vocabSize, fingerprint, bindingVersion } = child.facts;
    expect(fingerprint).toBe(await fingerprintOf(path, bindingVersion));
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) child.process.kill(signal);
    expect((await child.generate({ maxTokens: 1 }).answer()).outTokens).toBe(1);
    const logitBias = new Map([vocabSize - 3, vocabSize - 1].map((token) => [token, -100]));
    const run = child.generate({ logitBias, maxTokens: 4000 });
    await run.begun();
    expect(await child.stop()).toEqual({ code: 0, signal: null });
    await expect(run.end).rejects.toThrow("the process ended");
  });

  it("exits with its own code and the reason on an internal error", async () => {
    const child = await EngineChild.load({ path, kind: "chat" });
    const exit = once(child.process, "exit");
    // Not a message of the protocol.
    child.process.send(null as unknown as object);
    expect(await exit).toEqual([70, null]);
    expect(child.stderr).toContain("fatal: TypeError");
  });

  it("reports a fingerprint that depends on the weights and not on their path (RESP-11)", async () => {
    const prints: string[] = [];
    for (const seed of [1, 2, 1]) {
      await writeRandomGguf(broken, { seed });
      prints.push(await fingerprintOf(broken, "3.21.1"));
    }
    expect(prints[0]).toMatch(/^[0-9a-f]{12}$/);
    expect(prints[0]).not.toBe(prints[1]);
    expect(prints[0]).toBe(prints[2]);
  });
});
