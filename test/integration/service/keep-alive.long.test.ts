import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { type RunningService, startService } from "../../support/start-service.js";

let folder: string;
let service: RunningService;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-keep-alive-"));
  const file = join(folder, "model.gguf");
  await writeScriptedGguf(file, { text: "Hello again." });
  service = await startService({
    config: {
      models: [{ id: "m", engine: "llama", source: `file:${file}`, keep_alive: "1s" }],
      engine: { threads: 1 },
      limits: { queue_wait: "60s" },
    },
  });
});

afterAll(async () => {
  await service?.close();
  await rm(folder, { recursive: true, force: true });
});

const headers = () => ({ authorization: `Bearer ${service.key}`, "content-type": "application/json" });

async function ask() {
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] });
  const response = await fetch(`${service.api}/chat/completions`, { method: "POST", headers: headers(), body });
  return { status: response.status, text: await response.text() };
}

const count = (message: string): number => service.logs.filter(({ msg }) => msg === message).length;

describe("a model with keep_alive", () => {
  it("is unloaded when unused, stays listed, and is loaded again by the next requests (MODEL-11)", async () => {
    for (let round = 1; round <= 3; round++) {
      const answers = await Promise.all([ask(), ask(), ask()]);
      for (const { status, text } of answers) expect({ status, text }).toMatchObject({ status: 200 });
      expect(answers[0]?.text).toContain("Hello again.");
      const unloads = () => count("model is unloaded because nobody used it");
      await expect.poll(unloads, { timeout: 30_000 }).toBe(round);
      expect(count("engine process has loaded its model")).toBe(round);
      const listed = await fetch(`${service.api}/models/m`, { headers: headers() });
      expect(await listed.json()).toMatchObject({ id: "m", capabilities: ["chat", "completions"] });
      const { deployments } = await service.debugState();
      expect(deployments).toMatchObject([{ state: "ready", reason: expect.stringContaining("nobody used it") }]);
    }
  });
});
