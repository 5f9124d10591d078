/**
 * `npm run build`: compiles src/ to dist/, Lua scripts beside, and builds what browsers get. The generated messages in gen/
 * are JavaScript already and stay where they are. Types are checked by `npm run types`, of which every commit has passed: who
 * starts a clone does not wait for it once more.
 *
 * Built aside and put in place as a whole: what is started from dist/ meanwhile finds the build before.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildWebFiles } from "./web-build.js";

const root = new URL("..", import.meta.url);
const at = (path: string) => fileURLToPath(new URL(path, root));

const startedAt = new Date();
/** Beside dist/, so that source maps fit; ignored by git, and of this process alone, because two may build at once. */
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
// The compiler leaves them out; src/state/redis/connection/client.ts reads them beside itself.
cpSync(at("src/state/redis/scripts"), join(built, "state/redis/scripts"), { recursive: true });
await buildWebFiles(built);
// Because `npm start` trusts a build that has it; dated by the start, because a source may change during the build.
writeFileSync(join(built, ".built"), "");
utimesSync(join(built, ".built"), startedAt, startedAt);
if (existsSync(at("dist"))) renameSync(at("dist"), before);
renameSync(built, at("dist"));
