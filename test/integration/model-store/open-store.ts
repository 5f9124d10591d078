import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { ModelPuller, type PullProgress, type PullResult } from "../../../src/model-store/puller.js";
import { defaultPullOptions, type PullOptions } from "../../../src/model-store/sources/source-fetcher.js";
import { ModelStore } from "../../../src/model-store/store.js";
import { HubServer } from "../../support/hub-server.js";

/** A new folder that is removed after the test. */
export async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "uis-models-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function startHub(): Promise<HubServer> {
  const hub = await HubServer.start();
  onTestFinished(() => hub.close());
  return hub;
}

/** Limits short enough for tests, long enough for a busy machine. */
const testLimits = { stallTimeoutMs: 5_000, resumeDelayMs: 1 };

export interface OpenStore {
  readonly store: ModelStore;
  readonly puller: ModelPuller;
  pull(
    source: string,
    more?: { id?: string; sha256?: string; signal?: AbortSignal; onProgress?: (p: PullProgress) => void },
  ): Promise<PullResult>;
  /** Names of all files and folders below the models folder. */
  leftovers(): Promise<string[]>;
}

/** Opens a store in a folder, a new one by default, and a puller with these options. */
export async function openStore(options: Partial<PullOptions> = {}, folder?: string): Promise<OpenStore> {
  const store = await ModelStore.open(folder ?? (await freshFolder()), { now: () => 1_700_000_000_000 });
  const puller = new ModelPuller(store, { ...defaultPullOptions, ...testLimits, ...options });
  onTestFinished(() => puller.close());
  return {
    store,
    puller,
    pull: (source, more = {}) =>
      puller.pull({ source, id: "m", onProgress: () => {}, signal: new AbortController().signal, ...more }),
    leftovers: async () => (await readdir(store.folder, { recursive: true })).sort(),
  };
}
