import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { rounds } from "../../support/tier.js";

const inputs = 2_048;
const dimensions = 1_024;
/** Target for the wait of another request while large answers are written; a busy machine may need five times as long. */
const waitAimMs = 50;
const slack = 5;

describe("large answers", () => {
  let service: RunningService;
  beforeAll(async () => {
    const models = [{ id: "wide", engine: "scripted", slots: 4, scripted: { dimensions } }];
    service = await startService({ config: { models } });
  });
  afterAll(() => service.close());

  /** 2,048 vectors as JSON numbers: more than 20 MB. */
  async function embedAll(): Promise<number> {
    const response = await fetch(`${service.api}/embeddings`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "wide",
        encoding_format: "float",
        input: Array.from({ length: inputs }, (_, i) => `text ${i}`),
      }),
    });
    let bytes = 0;
    for await (const chunk of response.body ?? []) bytes += chunk.length;
    return bytes;
  }

  it("are written in slices, and other requests are answered at the same time (REL-3, EMB-11)", async () => {
    let writing = true;
    const big = Promise.all(Array.from({ length: rounds(10) }, embedAll)).finally(() => {
      writing = false;
    });
    const waitsMs: number[] = [];
    while (writing) {
      const startedMs = performance.now();
      await (await fetch(`${service.http}/health`)).text();
      waitsMs.push(performance.now() - startedMs);
    }
    for (const bytes of await big) expect(bytes).toBeGreaterThan(inputs * dimensions * 8);
    waitsMs.sort((a, b) => a - b);
    expect(waitsMs.length).toBeGreaterThan(20);
    expect(waitsMs[Math.floor(waitsMs.length * 0.95)]).toBeLessThan(waitAimMs * slack);
  });
});
