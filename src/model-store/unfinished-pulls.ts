import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { writeFileDurably } from "./files/model-files.js";

/** A pull that has begun and not ended. */
interface UnfinishedPull {
  readonly source: string | null;
  readonly id: string | null;
  readonly sha256: string | null;
  readonly isGuarded?: boolean;
}

const fileName = "pulls.json";

/** Names of the file's fields are a stored format. */
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

/** The unfinished pulls that `pulls.json` of the models folder lists; none when it is absent or cannot be parsed. */
export async function readUnfinishedPulls(folder: string): Promise<readonly UnfinishedPull[]> {
  const text = await readFile(join(folder, fileName), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return [];
  try {
    return schema.parse(JSON.parse(text)).pulls.map(({ guarded: isGuarded, ...pull }) => ({ ...pull, isGuarded }));
  } catch {
    // It only saves repeating a command, so a damaged one is no reason to stop.
    return [];
  }
}

/** Replaces the list atomically; an empty one has no file. */
export async function writeUnfinishedPulls(folder: string, pulls: readonly UnfinishedPull[]): Promise<void> {
  const path = join(folder, fileName);
  if (pulls.length === 0) return rm(path, { force: true });
  const rows = pulls.map(({ source, id, sha256, isGuarded = false }) => ({ source, id, sha256, guarded: isGuarded }));
  await writeFileDurably(path, `${JSON.stringify({ version: 1, pulls: rows }, null, 2)}\n`);
}
