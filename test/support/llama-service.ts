import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "./eventually.js";
import { type RunningService, startService } from "./start-service.js";

/** A model of the embedded engine whose weights are generated for the test. */
export interface GeneratedModel {
  readonly id: string;
  /** Writes the weights, a GGUF file. */
  write(path: string): Promise<void>;
  /** Tokens of prompt and answer together; default 2048. */
  readonly contextLength?: number;
  /** Default 2. */
  readonly slots?: number;
}

export interface LlamaService extends RunningService {
  /** Processes that have run the model so far, in order: one, unless it was restarted. */
  pids(model: string): readonly number[];
  /** The capabilities that the engine reports. */
  restarts(model: string): number;
}

const loadMs = 120_000;

/** A service whose models all run in the embedded engine, one thread each; they are loaded when this resolves. */
export async function startLlamaService(models: readonly GeneratedModel[]): Promise<LlamaService> {
  const folder = await mkdtemp(join(tmpdir(), "llama-service-"));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  try {
    const entries = await Promise.all(models.map((model, place) => written(model, join(folder, `${place}.gguf`))));
    const service = await startService({ config: { models: entries, engine: { threads: 1 } } });
    const pids = (id: string) => pidsOf(service, id);
    await eventually(() => models.every(({ id }) => pids(id).length > 0), "the load of all models", loadMs);
    return {
      ...service,
      pids,
      restarts: (id) => restartsOf(service, id),
      async close() {
        await service.close();
        await removeFolder();
      },
    };
  } catch (error) {
    await removeFolder();
    throw error;
  }
}

async function written({ id, write, contextLength, slots }: GeneratedModel, path: string): Promise<object> {
  await write(path);
  return { id, engine: "llama", source: `file:${path}`, slots: slots ?? 2, context_length: contextLength ?? 2048 };
}

function pidsOf({ logs }: RunningService, id: string): readonly number[] {
  const loads = logs.filter(({ msg, model }) => msg === "engine process has loaded its model" && model === id);
  return loads.map(({ pid }) => Number(pid));
}

function restartsOf({ service }: RunningService, id: string): number {
  const deployments = service.parts.catalog.all().find((model) => model.id === id)?.deployments ?? [];
  return deployments.reduce((sum, { model }) => sum + (model?.stats().restarts ?? 0), 0);
}
