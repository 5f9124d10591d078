/**
 * Writes the table of the engine's published builds and the fixture with their files, from npm's registry:
 * `npx tsx scripts/engine-builds.ts`. Run it after a change of node-llama-cpp's version. It downloads every build once,
 * about 720 MB, and keeps none.
 *
 * package-lock.json cannot be the source of the checksums: it has an empty package in place of the builds for graphics
 * cards. For the builds that it has, a test compares the two.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { runNpm } from "../src/lib/npm-client.js";

/** A package in the JSON output of `npm pack --dry-run`. */
interface PackedPackage {
  readonly size: number;
  readonly unpackedSize: number;
  readonly integrity: string;
  readonly files: readonly { readonly path: string; readonly size: number }[];
}

const minutes = 60_000;
const scope = "@node-llama-cpp/";
const { version, optionalDependencies } = JSON.parse(
  readFileSync("node_modules/node-llama-cpp/package.json", "utf8"),
) as { version: string; optionalDependencies: Record<string, string> };

async function npmJson<T>(...args: readonly string[]): Promise<T> {
  const run = { env: process.env, cwd: process.cwd(), timeoutMs: 10 * minutes, signal: new AbortController().signal };
  return JSON.parse(await runNpm([...args, "--json", "--ignore-scripts"], run)) as T;
}

const rows: object[] = [];
const layouts: Record<string, object> = {};
for (const name of Object.keys(optionalDependencies).toSorted()) {
  const id = name.slice(scope.length);
  console.error(`${name}@${version}`);
  const [packed] = await npmJson<[PackedPackage]>("pack", `${name}@${version}`, "--dry-run");
  const { os, cpu } = await npmJson<{ os: string[]; cpu: string[] }>("view", `${name}@${version}`, "os", "cpu");
  rows.push({ id, packedBytes: packed.size, bytes: packed.unpackedSize, integrity: packed.integrity });
  const files = Object.fromEntries(packed.files.map(({ path, size }) => [path, size]));
  layouts[id] = { os, cpu, files };
}

writeFileSync(
  "src/engines/llama/builds/published-builds.ts",
  `/** Written by scripts/engine-builds.ts from npm's registry. Builds of node-llama-cpp that can be installed. */

/** Version of node-llama-cpp that all of them belong to. */
export const publishedVersion = ${JSON.stringify(version)};

export interface PublishedPackage {
  /** Name below \`${scope}\`. */
  readonly id: string;
  /** Size of the download. */
  readonly packedBytes: number;
  /** Size on disk. */
  readonly bytes: number;
  /** SHA-512 of the download in base64, as npm writes it. */
  readonly integrity: string;
}

export const publishedPackages: readonly PublishedPackage[] = ${JSON.stringify(rows, null, 2)};
`,
);
writeFileSync("test/fixtures/engine-builds.json", `${JSON.stringify({ version, packages: layouts }, null, 2)}\n`);
