/**
 * Packs the package for npm: `npm run pack [-- <folder>]` writes the tarball to the folder (default: here) and prints its
 * path. `npm publish <tarball>` publishes it. The repository itself is private, so that npm refuses to publish it as it is; a
 * script before publishing would not run, because .npmrc ignores scripts.
 *
 * It differs from `npm pack` in one dependency. node-llama-cpp lists builds for graphics cards as optional dependencies,
 * 620 MB that this service does not use, and npm applies the `overrides` that leave them out only in the repository itself.
 * So the tarball bundles node-llama-cpp without that list, and the package lists the builds for processors instead.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { npmCommand } from "../src/lib/npm-client.js";
import { type Lock, lockedBelow } from "./sbom.js";

const engine = "node_modules/node-llama-cpp";
/** Builds that run without a graphics card; for Apple silicon the only build is the one for Metal. */
const processorBuilds = ["linux-x64", "linux-arm64", "mac-x64", "mac-arm64-metal", "win-x64", "win-arm64"];
/** Only for building the engine from its source, which this service never does: 34 MB. */
const unusedFiles =
  /node-llama-cpp\/(bins|templates|llama\/(?!binariesGithubRelease\.json|package\.json|grammars))|\/node_modules$/;

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

/** Packs the repository of this file into `destination`. Returns the path of the tarball. Needs a build. */
export function pack(destination: string): string {
  const root = fileURLToPath(new URL("..", import.meta.url));
  if (!existsSync(join(root, "dist/bundle"))) throw new Error("dist/ has no bundle: run npm run build first");
  const staging = mkdtempSync(join(tmpdir(), "uis-pack-"));
  try {
    const copy = (path: string): void => {
      mkdirSync(dirname(join(staging, path)), { recursive: true });
      const filter = (source: string): boolean => !unusedFiles.test(source.split(sep).join("/"));
      cpSync(join(root, path), join(staging, path), { recursive: true, dereference: true, filter });
    };
    for (const path of npmPack(root, ["--dry-run"]).files) copy(path);
    const lock = (JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { packages: Lock }).packages;
    const bundled = [engine, ...lockedBelow(lock, engine)].filter((path) => !isBuild(lock, path));
    for (const path of bundled) copy(path);
    // JSON omits undefined values. Scripts are omitted because the engine's install script would compile a build.
    edit(join(staging, engine, "package.json"), (manifest) => ({
      ...manifest,
      optionalDependencies: undefined,
      scripts: undefined,
    }));
    edit(join(staging, "package.json"), (manifest) => {
      const version = manifest.dependencies["node-llama-cpp"];
      const builds = Object.fromEntries(processorBuilds.map((name) => [`@node-llama-cpp/${name}`, version]));
      return {
        ...manifest,
        private: undefined,
        "//private": undefined,
        scripts: undefined,
        devDependencies: undefined,
        overrides: undefined,
        optionalDependencies: { ...manifest.optionalDependencies, ...builds },
        bundleDependencies: ["node-llama-cpp"],
      };
    });
    const { filename } = npmPack(staging, ["--pack-destination", resolve(destination)]);
    return join(resolve(destination), filename);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** Packages for one platform: binaries, which npm chooses on the user's machine or which are not needed. */
function isBuild(lock: Lock, path: string): boolean {
  const { os, name } = lock[path] ?? {};
  return os !== undefined || name === "empty-npm-package";
}

function edit(path: string, change: (manifest: Manifest) => object): void {
  writeFileSync(path, `${JSON.stringify(change(JSON.parse(readFileSync(path, "utf8"))), null, 2)}\n`);
}

function npmPack(folder: string, args: readonly string[]): { filename: string; files: readonly string[] } {
  const options = { cwd: folder, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 } as const;
  const [command, ...npm] = npmCommand(process.env);
  const out = execFileSync(command, [...npm, "pack", "--json", "--ignore-scripts", ...args], options);
  const [packed] = JSON.parse(out) as [{ filename: string; files: readonly { path: string }[] }];
  return { filename: packed.filename, files: packed.files.map(({ path }) => path) };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  console.log(pack(process.argv[2] ?? "."));
}
