import { chmod, mkdir, rename, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type FileSum, requirePin, sumFile } from "./files/file-checks.js";
import { ModelFileError } from "./files/model-errors.js";
import { type GgufHeader, modelKind, readGgufHeader } from "./gguf/gguf-header.js";
import { readIndex, type StoredModel, type StoreIndex, writeIndex } from "./index-file.js";
import { tidyWorkFolders } from "./work-folder.js";

/** A file that is to become a model. It was verified, and its header was read. */
interface NewModel {
  readonly id: string;
  /** A file on the store's disk. It is moved. */
  readonly path: string;
  readonly sum: FileSum;
  readonly header: GgufHeader;
  readonly source: string;
  /** Whether later pulls of this source must give the same file. */
  readonly recordSum: boolean;
}

/** A model whose file does not look as it did when it was added. */
interface DamagedModel {
  readonly model: StoredModel;
  readonly reason: string;
}

/**
 * The models folder: `index.json`, each file once as `SHA256.gguf`, and what pulls are working on. Changes are made one
 * after the other, each to the index as it lies on the disk.
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
   * Opens the folder, which is made (mode 0700) when it does not exist. Length and header of each file are checked, not
   * its sum. Throws ModelFileError when the index cannot be understood.
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

  /** What was wrong when the store was opened and has not been added anew or removed since. It is not listed. */
  get damaged(): readonly DamagedModel[] {
    return this.#damaged;
  }

  /** All models that can be used, in the order in which they were added. */
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

  /** What the source gave the first time, if it must give the same again. */
  recordedSum(source: string): Required<FileSum> | undefined {
    return Object.hasOwn(this.#index.sums, source) ? this.#index.sums[source] : undefined;
  }

  /** Moves the file into the store under the id. A model of that id is replaced. */
  add(added: NewModel): Promise<StoredModel> {
    return this.#inTurn(async (index) => {
      const model = describe(added, this.#clock.now());
      await chmod(added.path, 0o600);
      await rename(added.path, this.path(model));
      const sums = added.recordSum ? { ...index.sums, [added.source]: added.sum } : index.sums;
      return this.#put(model, { models: index.models, sums }, index);
    });
  }

  /** Gives a model's file another id, too. A model of that id is replaced. */
  addAlias(model: StoredModel, id: string): Promise<StoredModel> {
    return this.#inTurn(async (index) => {
      await stat(this.path(model));
      return this.#put({ ...model, id, addedAtMs: this.#clock.now() }, index, index);
    });
  }

  /** Removes the model, and its file when no other model needs it. Answers whether there was one. */
  remove(id: string): Promise<boolean> {
    return this.#inTurn(async (index) => {
      const models = index.models.filter((model) => model.id !== id);
      if (models.length === index.models.length) return false;
      await this.#save({ models, sums: index.sums }, index);
      this.#damaged = this.#damaged.filter((each) => each.model.id !== id);
      return true;
    });
  }

  /** Reads the whole file and throws ModelFileError when it is not what was added. */
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

  /** Runs a change after those before it, on the index as another process may have left it. */
  #inTurn<T>(change: (index: StoreIndex) => Promise<T>): Promise<T> {
    const run = this.#change.then(async () => change(await readIndex(this.folder)));
    this.#change = run.catch(() => null);
    return run;
  }
}

const fileNameOf = (sha256: string): string => `${sha256}.gguf`;

function describe({ id, sum, header, source }: NewModel, nowMs: number): StoredModel {
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

/** What is wrong with the file at first sight; null for nothing. */
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
