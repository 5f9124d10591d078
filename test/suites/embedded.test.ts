import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { Logger } from "../../src/domain/call/ports.js";
import { openEmbeddedState } from "../../src/state/embedded/embedded-state.js";
import { FakeClock } from "../support/fake-clock.js";
import { describeState } from "./state.suite.js";

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

let root: string;
let opened = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-embedded-"));
});
afterAll(() => rm(root, { recursive: true }));

describeState("embedded", async (bounds) => {
  opened += 1;
  const clock = new FakeClock();
  const state = await openEmbeddedState({ dataDir: join(root, String(opened)), log: silent, clock, ...bounds });
  return { state, leewayMs: 1, advance: async (ms) => clock.advance(ms), close: () => state.close() };
});
