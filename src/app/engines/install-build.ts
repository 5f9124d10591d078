import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { type EngineBuild, packageScope } from "../../engines/llama/builds/builds.js";
import { buildsFolder, isPackage } from "../../engines/llama/builds/installed-builds.js";
import { type PublishedPackage, publishedVersion } from "../../engines/llama/builds/published-builds.js";
import { byteText } from "../../lib/display-text.js";
import { runNpm } from "../../lib/npm-client.js";
import { unpackTarball } from "../../lib/tar.js";

/** A build cannot be installed; the message says why and what to do. */
export class InstallError extends Error {
  override readonly name = "InstallError";
}

export interface InstallOptions {
  readonly build: EngineBuild;
  /** Absolute path. */
  readonly dataDir: string;
  /** Variables of npm, among them the operator's registry, proxy and credentials. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where npm looks for a configuration of the project. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Called before each step that takes long. */
  onStep(step: string): void;
}

/** Longest time of one download. */
const downloadTimeoutMs = 30 * 60_000;
/** Maximum number of files and folders in a package; the largest one has 25. */
const membersMax = 500;
/** Folders of unfinished work that are older are removed: the process that created them has ended. */
const workAgeMaxMs = 24 * 3_600_000;

/**
 * Fetches the packages of a build with npm, verifies each against the checksum of this version, and unpacks it below the data
 * folder. A package appears there complete or not at all. After an interruption the verified packages are not fetched again.
 * Rejects with InstallError, NpmError, TarError or the signal's reason.
 */
export async function installBuild(options: InstallOptions): Promise<void> {
  const { build, dataDir } = options;
  if (build.absence !== null) throw new InstallError(`${build.name}: ${build.absence}`);
  const folder = buildsFolder(dataDir);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  // The service may have another user than this command, such as root.
  await mkdir(folder, { recursive: true, mode: 0o755 });
  await removeOldWork(folder);
  for (const wanted of build.packages) await installPackage(wanted, folder, options);
}

async function installPackage(wanted: PublishedPackage, folder: string, options: InstallOptions): Promise<void> {
  const { id, packedBytes, bytes } = wanted;
  const target = join(folder, id);
  if (await isPackage(target, id)) return;
  // The download is needed twice, because npm also stores it in its cache.
  await requireSpace(folder, 2 * packedBytes + bytes);
  const work = await mkdtemp(join(folder, workPrefix));
  try {
    const tarball = join(folder, `${id}.tgz`);
    if (!(await isIntact(tarball, wanted))) await download(wanted, { work, tarball }, options);
    options.onStep(`unpacking ${id}, ${byteText(bytes)}`);
    const unpacked = join(work, id);
    await mkdir(unpacked, { mode: 0o755 });
    await unpackTarball(tarball, unpacked, { membersMax, bytesMax: bytes, signal: options.signal });
    if (!(await isPackage(unpacked, id))) throw new InstallError(`${packageScope}${id} has unexpected contents`);
    // An existing folder is damaged, or another process has just installed the same package.
    await rm(target, { recursive: true, force: true });
    await rename(unpacked, target);
    await rm(tarball, { force: true });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const packedList = z.tuple([z.object({ filename: z.string() })]);

async function download(
  wanted: PublishedPackage,
  { work, tarball }: { readonly work: string; readonly tarball: string },
  { env, cwd, signal, onStep }: InstallOptions,
): Promise<void> {
  const name = `${packageScope}${wanted.id}@${publishedVersion}`;
  onStep(`fetching ${name}, ${byteText(wanted.packedBytes)}`);
  // With a separate cache npm needs no writable home folder, and no second copy of the download remains.
  const cache = ["--cache", join(work, "cache")];
  const args = ["pack", name, "--json", "--ignore-scripts", ...cache, "--pack-destination", work];
  const [{ filename }] = packedList.parse(
    JSON.parse(await runNpm(args, { env, cwd, timeoutMs: downloadTimeoutMs, signal })),
  );
  // A name in npm's answer never becomes a path.
  const [fetched] = (await readdir(work)).filter((file) => file.endsWith(".tgz"));
  if (fetched === undefined) throw new InstallError(`npm reported ${filename} and wrote no file`);
  if (!(await isIntact(join(work, fetched), wanted))) {
    throw new InstallError(
      `${name} from npm's registry is not the published package: its SHA-512 differs from the one of this version. ` +
        'Check the registry: "npm config get registry"',
    );
  }
  await rename(join(work, fetched), tarball);
}

/** Whether the file exists and is the published package. */
async function isIntact(file: string, { packedBytes, integrity }: PublishedPackage): Promise<boolean> {
  const found = await stat(file).catch(() => null);
  if (found?.size !== packedBytes) return false;
  const hash = createHash("sha512");
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return `sha512-${hash.digest("base64")}` === integrity;
}

async function requireSpace(folder: string, neededBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= neededBytes) return;
  throw new InstallError(
    `${byteText(bavail * bsize)} are free in ${folder}, and ${byteText(neededBytes)} are needed: free some space`,
  );
}

const workPrefix = ".work-";

async function removeOldWork(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const found = name.startsWith(workPrefix) ? await stat(path).catch(() => null) : null;
    if (found !== null && Date.now() - found.mtimeMs > workAgeMaxMs) await rm(path, { recursive: true, force: true });
  }
}
