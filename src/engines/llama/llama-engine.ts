import { version } from "../../contract/version.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type { Engine, LoadedModel, LoadProgress, ModelSpec } from "../../domain/engine/engine.js";
import { createChildStarter, type StartChild } from "./child-process.js";
import { defaultThreads } from "./engine-threads.js";
import { llamaCapabilities } from "./llama-capabilities.js";
import { LlamaModel } from "./llama-model.js";
import type { ModelFiles } from "./model-files.js";
import { Supervisor } from "./supervisor.js";

export interface LlamaSettings {
  /** Within which a call is over, or has output from the next child, whose child died or hangs. */
  readonly stallMs: number;
  /** Crashes of a model's child in five minutes after which one more opens its circuit. */
  readonly circuitCrashes: number;
  /** Threads of each child; null: one less than there are cores. */
  readonly threads: number | null;
  /** Folder whose `node_modules` holds another build of the binding; null: the one that comes with the service. */
  readonly moduleDir: string | null;
}

/** Share of the stall limit that waits may take. The rest is there for the answer to reach the caller within the limit. */
const waitingShare = 0.9;

export interface LlamaEngineDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly files: ModelFiles;
  readonly settings: LlamaSettings;
  /** The server's variables; children get only those that they need. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Program of the children, instead of the engine's own. */
  readonly childEntry?: string;
}

/**
 * The embedded engine: llama.cpp in one supervised child process per model, because a failed assertion in native code
 * ends the process that it happens in.
 */
export function createLlamaEngine(deps: LlamaEngineDeps): Engine {
  const { log, environment, childEntry } = deps;
  const startChild = createChildStarter({
    log,
    environment,
    ...(childEntry === undefined ? {} : { entry: childEntry }),
  });
  return {
    kind: "llama",
    probe: async () => ({ up: true, version }),
    load: (spec, onProgress, signal) => load(deps, startChild, spec, onProgress, signal),
  };
}

async function load(
  { clock, log, files, settings }: LlamaEngineDeps,
  startChild: StartChild,
  spec: ModelSpec,
  onProgress: (progress: LoadProgress) => void,
  signal: AbortSignal,
): Promise<LoadedModel> {
  const file = await files.locate(spec.options, onProgress, signal);
  const { circuitCrashes, threads, moduleDir } = settings;
  const stallMs = Math.round(waitingShare * settings.stallMs);
  const supervisor = new Supervisor(
    { clock, log, startChild, stallMs, circuitCrashes },
    {
      id: spec.id,
      path: file.path,
      kind: file.kind,
      contextLength: Math.min(spec.contextLength, file.trainedContext),
      slots: spec.slots,
      threads: threads ?? defaultThreads(),
      moduleDir,
    },
  );
  const facts = await supervisor.load((share) => onProgress({ stage: "loading", share }), signal);
  return new LlamaModel(
    { clock, supervisor, patienceMs: stallMs },
    {
      id: spec.id,
      caps: llamaCapabilities(file.kind, facts, file.shortenableEmbeddings ?? false),
      fingerprint: facts.fingerprint,
      slots: spec.slots,
      longestTokenBytes: facts.longestTokenBytes,
    },
  );
}
