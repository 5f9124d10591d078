import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startService } from "../../support/start-service.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-restart-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

const embedded = () => ({ state: { durability: "every-write" }, data_dir: join(folder, "data") });

describe("the embedded state", () => {
  it("keeps keys over a restart and shows the first key only once", async () => {
    const first = await startService({ config: embedded() });
    expect(first.service.firstKey?.secret).toBe(first.key);
    await first.close();
    const second = await startService({ config: embedded() });
    expect(second.service.firstKey).toBeNull();
    const models = await fetch(`${second.api}/models`, { headers: { authorization: `Bearer ${first.key}` } });
    expect(models.status).toBe(200);
    const ready = (await (await fetch(`${second.ops}/ready`)).json()) as object;
    expect(ready).toMatchObject({ status: "ready", state: { kind: "embedded", ok: true, durability: "every-write" } });
    await second.close();
  });

  it("rejects a second process with a remedy, and the first continues to run", async () => {
    const first = await startService({ config: embedded() });
    await expect(startService({ config: embedded() })).rejects.toMatchObject({
      name: "StateOpenError",
      fix: expect.stringContaining("--data-dir") as string,
    });
    expect((await fetch(`${first.http}/ready`)).status).toBe(200);
    await first.close();
  });
});
