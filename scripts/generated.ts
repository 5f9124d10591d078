/**
 * Runs the code generator and fails if it changed anything: `gen/` is committed and must match `proto/`.
 *
 *   npx tsx scripts/generated.ts
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { npmRun, runStep } from "./steps.js";

function filesOf(folder: string): Map<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    names.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path, createHash("sha256").update(readFileSync(path)).digest("hex")];
    }),
  );
}

const before = filesOf("gen");
const { passed } = await runStep(npmRun("generate"));
const after = filesOf("gen");
const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
  (path) => before.get(path) !== after.get(path),
);
for (const path of changed) console.error(`${path} did not match proto/ and was generated again: commit it`);
process.exitCode = passed && changed.length === 0 ? 0 : 1;
