import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { writeFileDurably } from "./files/model-files.js";

/** A pull that has begun and has not ended. */
interface UnfinishedPull {
  readonly source: string | null;
  readonly id: string | null;
  readonly sha256: string | null;
  readonly isGuarded?: boolean;
}

const fileName = "pulls.json";

/** Form of `pulls.json`. Field names must not change, because the file is stored. */
const schema = z.object({
  version: z.literal(1),
  pulls: z.array(
    z.object({
      source: z.string().nullable(),
      id: z.string().nullable(),
      sha256: z.string().nullable(),
      guarded: z.boolean(),
    }),
  ),
});

/** The unfinished pulls that `pulls.json` in the models folder lists; empty if the file is absent or cannot be parsed. */
export async function readUnfinishedPulls(folder: string): Promise<readonly UnfinishedPull[]> {
  const text = await readFile(join(folder, fileName), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return [];
  try {
    return schema.parse(JSON.parse(text)).pulls.map(({ guarded: isGuarded, ...pull }) => ({ ...pull, isGuarded }));
  } catch {
    // A damaged list is ignored: without it, the operator only has to repeat a command.
    return [];
  }
}

/** Replaces the list atomically; for an empty list the file is removed. */
export async function writeUnfinishedPulls(folder: string, pulls: readonly UnfinishedPull[]): Promise<void> {
  const path = join(folder, fileName);
  if (pulls.length === 0) return rm(path, { force: true });
  const rows = pulls.map(({ source, id, sha256, isGuarded = false }) => ({ source, id, sha256, guarded: isGuarded }));
  await writeFileDurably(path, `${JSON.stringify({ version: 1, pulls: rows }, null, 2)}\n`);
}
