/**
 * `npm run build`: compiles src/ to dist/, copies the Lua scripts, and builds the browser files. The generated messages in
 * gen/ are JavaScript already. Types are not checked here: every commit has passed `npm run types`, so a first start of a
 * clone need not wait for it.
 *
 * The build is written to another folder and then replaces dist/ as a whole, so that a process started meanwhile runs the
 * previous build.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildWebFiles } from "./web-build.js";

const root = new URL("..", import.meta.url);
const at = (path: string) => fileURLToPath(new URL(path, root));

const startedAt = new Date();
/** Next to dist/, so that source maps fit; ignored by git, and one per process, because two may build concurrently. */
const built = at(`.dist-${process.pid}`);
const before = `${built}-before`;
mkdirSync(built);
process.once("exit", () => {
  for (const folder of [built, before]) rmSync(folder, { recursive: true, force: true });
});

const compiled = spawnSync(
  process.execPath,
  [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.build.json"), "--noCheck", "--outDir", built],
  { stdio: "inherit" },
);
if (compiled.status !== 0) process.exit(compiled.status ?? 1);
chmodSync(join(built, "app/cli.js"), 0o755);
// The compiler does not copy them; src/state/redis/connection/client.ts reads them from its own folder.
cpSync(at("src/state/redis/scripts"), join(built, "state/redis/scripts"), { recursive: true });
await buildWebFiles(built);
// Because `npm start` trusts a build that has it; dated by the start, because a source may change during the build.
writeFileSync(join(built, ".built"), "");
utimesSync(join(built, ".built"), startedAt, startedAt);
if (existsSync(at("dist"))) renameSync(at("dist"), before);
renameSync(built, at("dist"));
