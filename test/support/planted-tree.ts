import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

export interface LintFinding {
  /** Path within the planted tree. */
  readonly path: string;
  /** `lint/style/noRestrictedImports`. */
  readonly rule: string;
  readonly message: string;
}

interface BiomeReport {
  diagnostics: { category: string; message: string; location: { path: string } }[];
}

/**
 * Lints files that exist only for this call, under the repository's own biome.json, in a separate folder: a planted
 * violation is never in the working tree.
 *
 * @param files path within the repository to its text.
 */
export function lintPlanted(files: Readonly<Record<string, string>>): LintFinding[] {
  const root = mkdtempSync(join(tmpdir(), "planted-tree-"));
  try {
    const config = JSON.parse(readFileSync("biome.json", "utf8")) as Record<string, unknown>;
    const planted = { ...files, "biome.json": JSON.stringify({ ...config, vcs: { enabled: false } }) };
    for (const [path, text] of Object.entries(planted)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    const biome = resolve("node_modules/.bin/biome");
    const result = spawnSync(biome, ["lint", "--reporter=json", "--max-diagnostics=none", "."], {
      cwd: root,
      encoding: "utf8",
    });
    const report = JSON.parse(result.stdout) as BiomeReport;
    return report.diagnostics.map(({ category, message, location }) => ({
      path: location.path,
      rule: category,
      message,
    }));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
