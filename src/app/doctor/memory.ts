import { totalmem } from "node:os";
import type { StoredModel } from "../../domain/catalog/model-store.js";
import { byteText } from "../../lib/byte-text.js";
import { inspectModelFile } from "../compose-models.js";
import type { Config } from "../config/schema.js";
import { defaultContextLength, defaultSlots } from "../model-definitions.js";
import { type Check, fail, ok, warn } from "./check.js";

/** Of the memory: what the service itself, the system and the engine's buffers need is not counted. */
const comfortableShare = 0.85;

type KeptModel = Pick<StoredModel, "id" | "kind" | "path" | "bytes" | "contextLength">;

/** A model as it would run. */
interface Planned {
  readonly model: KeptModel;
  /** Of each slot. */
  readonly contextLength: number;
  readonly slots: number;
}

/** Whether the kept models that a start loads find room in memory, with their contexts. */
export async function memoryCheck(config: Pick<Config, "models">, kept: readonly KeptModel[]): Promise<Check> {
  const sizes = await Promise.all(plannedOf(config, kept).map(bytesOf));
  return judgeMemory(
    sizes.reduce((sum, bytes) => sum + bytes, 0),
    memoryBytes(),
  );
}

/** `neededBytes` of models and contexts, `availableBytes` of memory that this process may use. */
export function judgeMemory(neededBytes: number, availableBytes: number): Check {
  const detail = `${byteText(availableBytes)} of memory; models and contexts take ${byteText(neededBytes)}`;
  const fix = "set context_length or slots of the models lower, use smaller models, or give the machine more memory";
  if (neededBytes > availableBytes) return fail("memory", detail, fix);
  if (neededBytes > comfortableShare * availableBytes) return warn("memory", detail, fix);
  return ok("memory", detail);
}

/** Of the machine, or of the container when that is less. */
function memoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

function plannedOf({ models }: Pick<Config, "models">, kept: readonly KeptModel[]): readonly Planned[] {
  if (models === null) {
    return kept.map((model) => ({ model, contextLength: defaultContextLength, slots: defaultSlots.llama }));
  }
  return models.flatMap((settings) => {
    const model = kept.find(({ id }) => id === settings.id);
    if (model === undefined) return [];
    return (settings.deployments ?? [settings])
      .filter(({ engine }) => engine === "llama")
      .map(({ context_length, slots }) => ({
        model,
        contextLength: context_length ?? defaultContextLength,
        slots: slots ?? defaultSlots.llama,
      }));
  });
}

/** Its weights and, of a model that writes, what it keeps of each token of each slot. Encoders keep nothing. */
async function bytesOf({ model, contextLength, slots }: Planned): Promise<number> {
  if (model.kind === "embedding") return model.bytes;
  const { contextBytesPerToken } = await inspectModelFile(model.path);
  return model.bytes + slots * Math.min(contextLength, model.contextLength) * (contextBytesPerToken ?? 0);
}
