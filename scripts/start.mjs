// The script of `npm start`. Plain Node, because a fresh clone has no dependencies yet: builds when dist/ is missing or older
// than its sources, then becomes `uis serve`. Only the service itself writes to stdout. The script of package.json
// begins with `exec`, so that npm waits for this process and passes signals to it; on Windows that is exec.cmd.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`Node ${process.versions.node} is too old: use Node 20.19 or newer.\n`);
  process.exit(2);
}

const root = fileURLToPath(new URL("..", import.meta.url));
const sources = ["src", "proto", "gen", "tsconfig.json", "tsconfig.build.json", "vite.config.ts", "package.json"];
const cli = join(root, "dist/app/cli.js");
/** The build writes this file last, so that an interrupted build is repeated. */
const buildStamp = join(root, "dist/.built");

function newestMs(path) {
  const found = statSync(path);
  if (!found.isDirectory()) return found.mtimeMs;
  const inside = readdirSync(path).map((name) => newestMs(join(path, name)));
  return Math.max(found.mtimeMs, ...inside);
}

function isBuilt() {
  if (!existsSync(cli) || !existsSync(buildStamp)) return false;
  const builtMs = statSync(buildStamp).mtimeMs;
  return sources.every((source) => newestMs(join(root, source)) <= builtMs);
}

if (!isBuilt()) {
  const tsx = join(root, "node_modules/tsx/dist/cli.mjs");
  if (!existsSync(tsx)) {
    process.stderr.write("The packages are not installed: run npm ci first.\n");
    process.exit(2);
  }
  const startedMs = performance.now();
  const tookS = () => Math.round((performance.now() - startedMs) / 1000);
  const isTerminal = process.stderr.isTTY === true;
  const text = "Building (once after a change) …";
  process.stderr.write(isTerminal ? text : `${text}\n`);
  const ticks = setInterval(() => isTerminal && process.stderr.write(`\r${text} ${tookS()} s`), 1000);
  const build = spawn(process.execPath, [tsx, join(root, "scripts/build.ts")], { cwd: root, stdio: ["ignore", 2, 2] });
  const [code] = await once(build, "exit");
  clearInterval(ticks);
  if (code !== 0) process.exit(code ?? 1);
  process.stderr.write(`${isTerminal ? "\r\u001b[K" : ""}Built in ${tookS()} s.\n`);
}

// In the same process, so that signals reach the service directly.
process.argv = [process.execPath, cli, "serve", ...process.argv.slice(2)];
await import(pathToFileURL(cli).href);
