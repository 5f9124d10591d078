import { chmod, mkdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import { type FileSum, ModelFileError, requirePin, sumFile, writeFileDurably } from "./files/model-files.js";
import { type GgufHeader, type ModelKind, modelKind, readGgufHeader } from "./gguf/gguf-header.js";
import { tidyWorkFolders } from "./work-folder.js";

/** A verified file to add as a model. */
interface NewModel {
  readonly id: string;
  /** A file on the store's disk, which `add` moves. */
  readonly path: string;
  readonly sum: FileSum;
  readonly header: GgufHeader;
  readonly source: string;
  /** Whether later pulls of this source must give the same file. */
  readonly recordSum: boolean;
}

/** A model whose file has changed since it was added. */
interface DamagedModel {
  readonly model: StoredModel;
  readonly reason: string;
}

/**
 * The models folder. It contains `index.json`, each model file once as `SHA256.gguf`, and the work folders of pulls. Changes
 * run one after the other, and each reads the index from the disk first.
 */
export class ModelStore {
  /** Absolute path of the models folder. */
  readonly folder: string;
  readonly #clock: { now(): number };
  #index: StoreIndex;
  #damaged: readonly DamagedModel[];
  #change: Promise<unknown> = Promise.resolve();

  private constructor(folder: string, clock: { now(): number }, index: StoreIndex, damaged: readonly DamagedModel[]) {
    this.folder = folder;
    this.#clock = clock;
    this.#index = index;
    this.#damaged = damaged;
  }

  /**
   * Opens the folder and creates it (mode 0700) if it does not exist. Length and header of each file are checked, but not
   * its SHA-256. Throws ModelFileError if the index cannot be parsed.
   */
  static async open(path: string, clock: { now(): number }): Promise<ModelStore> {
    const folder = resolve(path);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await tidyWorkFolders(folder, clock.now());
    const index = await readIndex(folder);
    const damaged: DamagedModel[] = [];
    for (const model of index.models) {
      const reason = await damageOf(join(folder, fileNameOf(model.sha256)), model);
      if (reason !== null) damaged.push({ model, reason });
    }
    return new ModelStore(folder, clock, index, damaged);
  }

  /** Models whose file was damaged when the store was opened, until they are replaced or removed. `list` omits them. */
  get damaged(): readonly DamagedModel[] {
    return this.#damaged;
  }

  /** All usable models, in the order in which they were added. */
  list(): readonly StoredModel[] {
    const unusable = new Set(this.#damaged.map(({ model }) => model.id));
    return this.#index.models.filter(({ id }) => !unusable.has(id));
  }

  find(id: string): StoredModel | undefined {
    return this.list().find((model) => model.id === id);
  }

  /** Absolute path of the model's file. */
  path({ sha256 }: StoredModel): string {
    return join(this.folder, fileNameOf(sha256));
  }

  /** Length and SHA-256 of the source's file at its first pull, if later pulls must give the same file. */
  recordedSum(source: string): FileSum | undefined {
    return Object.hasOwn(this.#index.sums, source) ? this.#index.sums[source] : undefined;
  }

  /** Moves the file into the store under the id and replaces a model with this id. */
  add(added: NewModel): Promise<StoredModel> {
    return this.#inTurn(async (index) => {
      const model = toStored(added, this.#clock.now());
      await chmod(added.path, 0o600);
      await rename(added.path, this.path(model));
      const sums = added.recordSum ? { ...index.sums, [added.source]: added.sum } : index.sums;
      return this.#put(model, { models: index.models, sums }, index);
    });
  }

  /** Adds another id for a model's file and replaces a model with this id. */
  addAlias(model: StoredModel, id: string): Promise<StoredModel> {
    return this.#inTurn(async (index) => {
      await stat(this.path(model));
      return this.#put({ ...model, id, addedAtMs: this.#clock.now() }, index, index);
    });
  }

  /** Removes the model, and its file if no other model needs it. Returns whether the model existed. */
  remove(id: string): Promise<boolean> {
    return this.#inTurn(async (index) => {
      const models = index.models.filter((model) => model.id !== id);
      if (models.length === index.models.length) return false;
      await this.#save({ models, sums: index.sums }, index);
      this.#damaged = this.#damaged.filter((each) => each.model.id !== id);
      return true;
    });
  }

  /** Reads the whole file and throws ModelFileError when it has changed since it was added. */
  async verify(model: StoredModel, signal?: AbortSignal): Promise<void> {
    requirePin(`the file of ${model.id}`, await sumFile(this.path(model), signal), model);
  }

  async #put(model: StoredModel, { models, sums }: StoreIndex, before: StoreIndex): Promise<StoredModel> {
    await this.#save({ models: [...models.filter(({ id }) => id !== model.id), model], sums }, before);
    this.#damaged = this.#damaged.filter((each) => each.model.id !== model.id && each.model.sha256 !== model.sha256);
    return model;
  }

  async #save(next: StoreIndex, before: StoreIndex): Promise<void> {
    await writeIndex(this.folder, next);
    this.#index = next;
    const needed = new Set(next.models.map(({ sha256 }) => sha256));
    for (const { sha256 } of before.models) {
      if (!needed.has(sha256)) await rm(join(this.folder, fileNameOf(sha256)), { force: true });
    }
  }

  /** Runs a change after earlier ones. It gets the index from the disk, because another process may have changed it. */
  #inTurn<T>(change: (index: StoreIndex) => Promise<T>): Promise<T> {
    const run = this.#change.then(async () => change(await readIndex(this.folder)));
    this.#change = run.catch(() => null);
    return run;
  }
}

const fileNameOf = (sha256: string): string => `${sha256}.gguf`;

function toStored({ id, sum, header, source }: NewModel, nowMs: number): StoredModel {
  const kind = modelKind(header);
  return {
    id,
    kind,
    name: header.name ?? id,
    license: header.license,
    sha256: sum.sha256,
    bytes: sum.bytes,
    source,
    addedAtMs: nowMs,
    contextLength: header.contextLength,
    dimensions: kind === "embedding" ? header.embeddingLength : null,
  };
}

/** The fault of the file, found by checking its length and header; null: none. */
async function damageOf(path: string, model: StoredModel): Promise<string | null> {
  try {
    const { size } = await stat(path);
    if (size !== model.bytes) return `${path} has ${size} bytes instead of ${model.bytes}`;
    await readGgufHeader(path);
    return null;
  } catch (error) {
    if (error instanceof ModelFileError) return error.message;
    return `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.number().int().min(0);

/** Form of `index.json`. Field names must not change, because the file is stored. */
const indexSchema = z.object({
  version: z.literal(1),
  models: z.array(
    z.object({
      id: z.string().min(1),
      kind: z.enum(["chat", "embedding"]),
      name: z.string(),
      license: z.string().nullable(),
      sha256,
      bytes: count,
      source: z.string(),
      added_at: z.iso.datetime(),
      context_length: count.nullable(),
      dimensions: count.nullable(),
    }),
  ),
  sums: z.record(z.string(), z.object({ sha256, bytes: count })),
});

/** Content of `index.json`. */
interface StoreIndex {
  readonly models: readonly StoredModel[];
  /** Length and SHA-256 of the first pull of each source without a pin, by source; kept when the model is removed. */
  readonly sums: Readonly<Record<string, FileSum>>;
}

const fileName = "index.json";

/** Reads the index of the folder; empty if there is none yet. Throws ModelFileError if it cannot be parsed. */
async function readIndex(folder: string): Promise<StoreIndex> {
  const path = join(folder, fileName);
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return { models: [], sums: {} };
  try {
    const { models, sums } = indexSchema.parse(JSON.parse(text));
    return { models: models.map(fromRow), sums };
  } catch (cause) {
    throw new ModelFileError(
      "malformed",
      `${path} is not a valid index of models: move it away and import the models again`,
      { cause },
    );
  }
}

/** Replaces the index atomically: readers, also after a crash, find the old index or the new one. */
async function writeIndex(folder: string, { models, sums }: StoreIndex): Promise<void> {
  const text = `${JSON.stringify({ version: 1, models: models.map(toRow), sums }, null, 2)}\n`;
  await writeFileDurably(join(folder, fileName), text);
}

type Row = z.infer<typeof indexSchema>["models"][number];

function fromRow({ added_at: addedAt, context_length: contextLength, ...same }: Row): StoredModel {
  return { ...same, contextLength, addedAtMs: Date.parse(addedAt) };
}

function toRow({ addedAtMs, contextLength, ...same }: StoredModel): Row {
  return { ...same, context_length: contextLength, added_at: new Date(addedAtMs).toISOString() };
}

/** A model in the store, as `index.json` lists it. */
export interface StoredModel {
  readonly id: string;
  readonly kind: ModelKind;
  /** Name in the file's metadata, else the id. */
  readonly name: string;
  /** SPDX id of the license in lower case from the file's metadata; null if it has none. */
  readonly license: string | null;
  /** SHA-256 of the stored file, lower-case hex. */
  readonly sha256: string;
  readonly bytes: number;
  /** The model's source in the form of `formatSource`. */
  readonly source: string;
  readonly addedAtMs: number;
  /** Length of the context that the model was trained with, in tokens; null if the file's metadata does not state it. */
  readonly contextLength: number | null;
  /** Length of the model's vectors; null for a chat model. */
  readonly dimensions: number | null;
}
