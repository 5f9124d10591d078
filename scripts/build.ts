/**
 * `npm run build`: bundles src/ and gen/ into dist/, copies the Lua scripts, and builds the browser files. Types are not
 * checked here: every commit has passed `npm run types`, so a first start of a clone need not wait for it.
 *
 *   npm run build -- --modules     writes one module for each file of src/ instead, for profiles and coverage
 *
 * The build is written to another folder and then replaces dist/ as a whole, so that a process started meanwhile runs the
 * previous build.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleSources } from "./bundle.js";
import { buildWebFiles } from "./web-build.js";

const root = new URL("..", import.meta.url);
const at = (path: string) => fileURLToPath(new URL(path, root));

const startedAt = new Date();
/** Next to dist/, so that paths in source maps fit; ignored by git, and one per process, because two may build concurrently. */
const built = at(`.dist-${process.pid}`);
const before = `${built}-before`;
mkdirSync(built);
process.once("exit", () => {
  for (const folder of [built, before]) rmSync(folder, { recursive: true, force: true });
});

if (process.argv.includes("--modules")) compileModules(built);
else await bundleSources(built);
chmodSync(join(built, "app/cli.js"), 0o755);
// The compiler does not copy Lua scripts; src/state/redis/connection/client.ts reads them relative to its own file.
cpSync(at("src/state/redis/scripts"), join(built, "state/redis/scripts"), { recursive: true });
await buildWebFiles(built);
// `npm start` accepts a build only with this file. Its time is the start of the build, because a source may change during it.
writeFileSync(join(built, ".built"), "");
utimesSync(join(built, ".built"), startedAt, startedAt);
if (existsSync(at("dist"))) renameSync(at("dist"), before);
renameSync(built, at("dist"));

/** The generated messages in gen/ are JavaScript already; the modules import them from there. */
function compileModules(folder: string): void {
  const compiled = spawnSync(
    process.execPath,
    [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.build.json"), "--noCheck", "--outDir", folder],
    { stdio: "inherit" },
  );
  if (compiled.status !== 0) process.exit(compiled.status ?? 1);
}
