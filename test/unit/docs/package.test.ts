import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { version } from "../../../src/contract/version.js";

interface Manifest {
  version: string;
  license?: string;
  bin: Record<string, string>;
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(`${folder}package.json`, "utf8")) as Manifest;
}

const manifest = manifestOf("");
const runtime = { ...manifest.dependencies, ...manifest.optionalDependencies };
const decision = readFileSync("docs/decisions/0002-dependencies.md", "utf8");

describe("package.json", () => {
  it("has the version that the service reports, and a changelog entry for it", () => {
    expect(version).toBe(manifest.version);
    expect(readFileSync("CHANGELOG.md", "utf8")).toMatch(new RegExp(`^## ${version.replaceAll(".", "\\.")}\\b`, "m"));
  });

  it("pins every dependency to one version", () => {
    const all = Object.entries({ ...runtime, ...manifest.devDependencies });
    const exact = /^(npm:[^@]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/;
    expect(all.filter(([, wanted]) => !exact.test(wanted))).toEqual([]);
  });

  it("has at most 20 direct dependencies at run time", () => {
    expect(Object.keys(runtime).length).toBeLessThanOrEqual(20);
  });

  it("has only dependencies with a reason and a licence in the decision record, which lists no other package", () => {
    const rows = [...decision.matchAll(/^\| `([^`]+)` \| ([^|]+) \| [^|]{20,} \|$/gm)];
    expect(rows.map(([, name]) => name).sort()).toEqual(Object.keys(runtime).sort());
    for (const [, name, licence] of rows) {
      // An optional package is absent where its platform has no binary.
      if (!existsSync(`node_modules/${name}`)) continue;
      expect(`${name} ${manifestOf(`node_modules/${name}/`).license?.replaceAll(/[()]/g, "")}`).toBe(
        `${name} ${licence}`,
      );
    }
  });

  it("has only dependencies that NOTICE names", () => {
    const notice = readFileSync("NOTICE", "utf8");
    expect(Object.keys(runtime).filter((name) => !new RegExp(`^  ${name}\\b`, "m").test(notice))).toEqual([]);
  });

  it("has scripts that also run in cmd.exe of Windows", () => {
    const programs = readdirSync("node_modules/.bin");
    for (const [name, script] of Object.entries(manifest.scripts)) {
      // No variables, quotes, pipes, redirections or globs, which the shells treat differently.
      expect(script, name).toMatch(/^[\w./ &-]+$/);
      const commands = script.split(" && ").map((command) => command.split(" ").filter((word) => word !== "exec"));
      expect(commands.filter(([program = ""]) => program !== "node" && !programs.includes(program))).toEqual([]);
    }
    // cmd.exe has no command `exec`: it runs exec.cmd from the working folder.
    expect(readFileSync("exec.cmd", "utf8").trim().split("\n").at(-1)).toBe("@%*");
  });

  it("has no pre and post scripts, which would not run because install scripts are disabled", () => {
    const names = Object.keys(manifest.scripts);
    const hooks = names.filter((name) => /^(pre|post)/.test(name) && names.includes(name.replace(/^(pre|post)/, "")));
    expect(hooks).toEqual([]);
    expect(names.filter((name) => /^(pre|post)?(install|prepare)/.test(name))).toEqual([]);
  });
});

describe(".ci/run", () => {
  it("is executable", () => {
    expect(statSync(".ci/run").mode & 0o111).not.toBe(0);
  });
});
