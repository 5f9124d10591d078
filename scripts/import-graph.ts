/** Reads the imports of the source files and finds circles among files and folders. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import ts from "typescript";

/** A source file with everything it imports: values, types, re-exports, dynamic imports and `typeof import()`. */
export interface SourceFile {
  /** From the repository's root: `src/domain/core.ts`. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
}

export interface Import {
  /** As written: `../call/call.js`, `node:path`. */
  readonly specifier: string;
  /** Path of the file that the specifier names, from the root; null for packages and for files that are not sources. */
  readonly path: string | null;
}

/** All TypeScript files under `src`, tracked by git or not, except ignored ones. */
export function readSources(): SourceFile[] {
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "src"], {
    encoding: "utf8",
  });
  const paths = listed.split("\n").filter((path) => /\.tsx?$/.test(path) && existsSync(path));
  return paths.map((path) => sourceFile(path, readFileSync(path, "utf8")));
}

export function sourceFile(path: string, text: string): SourceFile {
  const { importedFiles } = ts.preProcessFile(text, true, true);
  const imports = importedFiles.map(({ fileName }) => ({ specifier: fileName, path: pathOf(path, fileName) }));
  return { path, lines: text.split("\n").length - 1, imports };
}

function pathOf(from: string, specifier: string): string | null {
  if (!specifier.startsWith(".")) return null;
  const path = normalize(join(dirname(from), specifier));
  const asTsx = path.replace(/\.js$/, ".tsx");
  return existsSync(asTsx) ? asTsx : path.replace(/\.js$/, ".ts");
}

/** Import cycles among files: each entry is a group of files that all reach each other. */
export function fileCircles(files: readonly SourceFile[]): string[][] {
  return circles(files.flatMap(({ path, imports }) => imports.map((to) => [path, to.path ?? path] as const)));
}

/** Circles among folders: a folder imports another when one of its own files imports one that lies directly in it. */
export function folderCircles(files: readonly SourceFile[]): string[][] {
  return circles(
    files.flatMap(({ path, imports }) => imports.map((to) => [dirname(path), dirname(to.path ?? path)] as const)),
  );
}

/** Strongly connected components of more than one node (Tarjan's algorithm). */
function circles(edges: readonly (readonly [string, string])[]): string[][] {
  const targets = new Map<string, Set<string>>();
  for (const [from, to] of edges) {
    if (from !== to) targets.set(from, (targets.get(from) ?? new Set()).add(to));
  }
  const order = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (node: string): number => {
    const index = order.size;
    order.set(node, index);
    let low = index;
    stack.push(node);
    for (const next of targets.get(node) ?? []) {
      if (!order.has(next)) low = Math.min(low, visit(next));
      else if (stack.includes(next)) low = Math.min(low, order.get(next) ?? low);
    }
    if (low === index) {
      const component = stack.splice(stack.indexOf(node));
      if (component.length > 1) found.push(component.sort());
    }
    return low;
  };
  for (const node of targets.keys()) if (!order.has(node)) visit(node);
  return found;
}
