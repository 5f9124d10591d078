/**
 * `npm run build`: compiles src/ to dist/, Lua scripts beside, and builds what browsers get. The generated messages in gen/
 * are JavaScript already and stay where they are. Types are checked by `npm run types`, of which every commit has passed: who
 * starts a clone does not wait for it once more.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildWebFiles } from "./web-build.js";

const root = new URL("..", import.meta.url);
const at = (path: string) => fileURLToPath(new URL(path, root));

const startedAt = new Date();
rmSync(at("dist"), { recursive: true, force: true });
const compiled = spawnSync(
  process.execPath,
  [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.build.json"), "--noCheck"],
  { stdio: "inherit" },
);
if (compiled.status !== 0) process.exit(compiled.status ?? 1);
chmodSync(at("dist/app/cli.js"), 0o755);
// The compiler leaves them out; load-script.ts reads them beside itself.
cpSync(at("src/state/redis/scripts"), at("dist/state/redis/scripts"), { recursive: true });
await buildWebFiles();
// Last, because `npm start` trusts a build that has it; dated by the start, because a source may change during the build.
writeFileSync(at("dist/.built"), "");
utimesSync(at("dist/.built"), startedAt, startedAt);
