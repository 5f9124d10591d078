import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { Logger } from "../../src/domain/ports.js";
import type { State } from "../../src/domain/state.js";
import { openEmbeddedState } from "../../src/state/embedded/embedded-state.js";
import { describeCatalogStore } from "./catalog-store.suite.js";
import { describeKeyStore } from "./key-store.suite.js";

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

let root: string;
let opened = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-embedded-"));
});
afterAll(() => rm(root, { recursive: true }));

function openEmpty(): Promise<State> {
  opened += 1;
  return openEmbeddedState({ dataDir: join(root, String(opened)), log: silent });
}

describeKeyStore("embedded", openEmpty);
describeCatalogStore("embedded", openEmpty);
