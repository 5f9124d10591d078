import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { buildsFor, type InstalledPackages, packageScope, type System } from "./builds.js";
import { publishedVersion } from "./published-builds.js";

/** Where `uis engine install` puts the builds of this version. Builds of other versions are in other folders and not used. */
export function buildsFolder(dataDir: string): string {
  return join(dataDir, "engines", publishedVersion);
}

/** The installed packages for a system: those in the data folder (absolute), else those that npm installed. */
export async function findInstalledPackages(dataDir: string, system: System): Promise<InstalledPackages> {
  const packages = buildsFor(system).flatMap(({ packages }) => packages);
  const beside = modulesFolders();
  const found = await Promise.all(
    packages.map(async ({ id }) => {
      const own = join(buildsFolder(dataDir), id);
      if (await isPackage(own, id)) return [id, own] as const;
      for (const folder of beside) if (await isPackage(join(folder, packageScope, id), id)) return [id, null] as const;
      return null;
    }),
  );
  return new Map(found.filter((entry) => entry !== null));
}

/** Every `node_modules` in which the binding finds its packages, nearest first. */
function modulesFolders(): readonly string[] {
  const folders: string[] = [];
  let folder = dirname(fileURLToPath(import.meta.resolve("node-llama-cpp")));
  for (let parent = dirname(folder); parent !== folder; folder = parent, parent = dirname(parent)) {
    folders.push(join(parent, "node_modules"));
  }
  return folders;
}

const manifestForm = z.object({ name: z.string(), version: z.string() });

/** Whether the folder has that package in this version. The repository has empty packages in place of some. */
export async function isPackage(folder: string, id: string): Promise<boolean> {
  const text = await readFile(join(folder, "package.json"), "utf8").catch(() => null);
  if (text === null || (await stat(join(folder, "bins")).catch(() => null)) === null) return false;
  try {
    const { name, version } = manifestForm.parse(JSON.parse(text));
    return name === `${packageScope}${id}` && version === publishedVersion;
  } catch {
    // A damaged package counts as absent, so that installing it again repairs it.
    return false;
  }
}
