import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openEmbeddedState } from "../../src/state/embedded/state.js";
import { FakeClock } from "../support/fake-clock.js";
import { silentLog } from "../support/silent-log.js";
import { describeCommits } from "./state.suite.js";

let root: string;
let opened = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-embedded-"));
});
afterAll(() => rm(root, { recursive: true }));

describeCommits("embedded", async (bounds) => {
  opened += 1;
  const clock = new FakeClock();
  const state = await openEmbeddedState({ dataDir: join(root, String(opened)), log: silentLog, clock, ...bounds });
  return { state, leewayMs: 1, advance: async (ms) => clock.advance(ms), close: () => state.close() };
});
