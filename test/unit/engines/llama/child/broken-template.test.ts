import { rm } from "node:fs/promises";
import { afterAll, expect, it } from "vitest";
import { createStderrLog } from "../../../../../src/engines/llama/child-process.js";
import { writeScriptedGguf } from "../../../../support/gguf/scripted-gguf.js";
import { chat, EngineChild, modelPath, startMs } from "./engine-child.js";

const path = modelPath("broken-template");

afterAll(() => rm(path, { force: true }));

it("a model whose chat template does not compile answers, and one warning is logged", {
  timeout: startMs,
}, async () => {
  await writeScriptedGguf(path, { text: "Fine anyway.", chatTemplate: "{% for message in %}" });
  const child = await EngineChild.load({ path, kind: "chat", id: "odd-one" });
  for (let i = 0; i < 2; i++) expect((await child.generate({ input: chat("Hi") }).answer()).text).toBe("Fine anyway.");
  await child.stop();
  const warnings: object[] = [];
  const ignore = () => undefined;
  const log = createStderrLog(
    { debug: ignore, info: ignore, warn: (entry) => warnings.push(entry), error: ignore },
    {},
  );
  log.push(child.stderr);
  log.end();
  expect(warnings).toEqual([
    { line: "the chat template of the model 'odd-one' fails to compile: its conversations are written as ChatML" },
  ]);
});
