import { describe, expect, it } from "vitest";
import { LoadingRows } from "../../../../src/app/serve/loading-rows.js";
import type { Deployment } from "../../../../src/domain/catalog/deployment.js";
import type { LoadProgress } from "../../../../src/domain/engine/engine.js";

function setUp() {
  const time = { ms: 0 };
  const rows = new LoadingRows(() => time.ms);
  const deployment = (modelId: string, progress: LoadProgress) =>
    ({ id: `embedded/${modelId}`, modelId, progress }) as unknown as Deployment;
  const update = (atMs: number, ...progress: LoadProgress[]) => {
    time.ms = atMs;
    return rows.update(
      progress.map((one, i) => deployment(`m${i}`, one)),
      79,
    );
  };
  return { rows, update };
}

describe("the rows of loading models", () => {
  it("show connecting, the download, the conversion and the load in turn, each with its time", () => {
    const { rows, update } = setUp();
    const shown: string[] = [];
    const stages: readonly LoadProgress[] = [
      { stage: "fetching", share: 0 },
      { stage: "fetching", share: 0.4, receivedBytes: 40_000_000, totalBytes: 100_000_000 },
      { stage: "fetching", share: 0.6, receivedBytes: 60_000_000, totalBytes: 100_000_000 },
      { stage: "converting", share: 0 },
      { stage: "loading", share: 0.3 },
      { stage: "loading", share: 1 },
    ];
    for (const [i, progress] of stages.entries()) {
      update(i * 2_000, progress);
      shown.push(...rows.rows);
    }
    expect(shown).toEqual([
      "m0 connecting…  1 s",
      `m0 [${"#".repeat(12)}${"-".repeat(18)}]  40 %  40.0 of 100 MB`,
      `m0 [${"#".repeat(18)}${"-".repeat(12)}]  60 %  60.0 of 100 MB  10.0 MB/s  4 s left`,
      "m0 building…  1 s",
      "m0 loading…  30 %  1 s",
      "m0 loading…  2 s",
    ]);
  });

  it("are at most 8 and never wider than the terminal, and `update` returns each removed row's model once", () => {
    const { rows, update } = setUp();
    const fetching = { stage: "fetching", share: 0.5, receivedBytes: 5e8, totalBytes: 1e9 } as const;
    update(0, ...Array.from({ length: 10 }, () => fetching));
    expect(rows.rows).toHaveLength(9);
    expect(rows.rows.at(-1)).toBe("… and 2 more");
    for (const row of rows.rows) expect(row.length).toBeLessThanOrEqual(79);
    expect([...update(100, ...Array.from({ length: 9 }, () => fetching))]).toEqual(["m9"]);
    expect([...update(200, ...Array.from({ length: 9 }, () => fetching))]).toEqual([]);
  });
});
