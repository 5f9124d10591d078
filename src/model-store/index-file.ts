import { open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Pin } from "./files/file-checks.js";
import { ModelFileError } from "./files/model-errors.js";
import type { ModelKind } from "./gguf/gguf-header.js";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.number().int().min(0);

/** Names of the file's fields are a saved format. */
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

/** What the store remembers. */
export interface StoreIndex {
  readonly models: readonly StoredModel[];
  /** What a source without a pin gave the first time, by its text; kept when the model is removed. */
  readonly sums: Readonly<Record<string, Required<Pin>>>;
}

const fileName = "index.json";

/** The index of the folder; an empty one when there is none yet. Throws ModelFileError when it cannot be understood. */
export async function readIndex(folder: string): Promise<StoreIndex> {
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
      `${path} is not an index of models that this version wrote: move it away and import the models again`,
      { cause },
    );
  }
}

/** Replaces the index at once: a reader, or a crash, sees the old one or the new one. */
export async function writeIndex(folder: string, { models, sums }: StoreIndex): Promise<void> {
  const path = join(folder, fileName);
  const draft = `${path}.${process.pid}.new`;
  const text = `${JSON.stringify({ version: 1, models: models.map(toRow), sums }, null, 2)}\n`;
  try {
    const file = await open(draft, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

type Row = z.infer<typeof indexSchema>["models"][number];

function fromRow({ added_at: addedAt, context_length: contextLength, ...same }: Row): StoredModel {
  return { ...same, contextLength, addedAtMs: Date.parse(addedAt) };
}

function toRow({ addedAtMs, contextLength, ...same }: StoredModel): Row {
  return { ...same, context_length: contextLength, added_at: new Date(addedAtMs).toISOString() };
}

/** A model of the store, as its index keeps it. */
export interface StoredModel {
  readonly id: string;
  readonly kind: ModelKind;
  /** As the file calls itself, else the id. */
  readonly name: string;
  /** SPDX id in lower case where the file says so; null where it does not. */
  readonly license: string | null;
  /** Of the file that is kept, lower-case hex. */
  readonly sha256: string;
  readonly bytes: number;
  /** Where it came from, as `formatSource` writes it. */
  readonly source: string;
  readonly addedAtMs: number;
  /** Tokens it was trained for; null when the file does not say. */
  readonly contextLength: number | null;
  /** Length of its vectors; null for a chat model. */
  readonly dimensions: number | null;
}
