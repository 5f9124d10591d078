/** The imports that each folder is allowed. A test applies this table to every file under `src`. */
import { builtinModules } from "node:module";
import type { SourceFile } from "./import-graph.js";

interface ImportRule {
  /** The files that the row applies to; the first matching row counts. `$1` in `may` is the text of the group. */
  readonly files: RegExp;
  /** Prefixes of paths that they may import in addition to their own folder. */
  readonly may: readonly string[];
  /** Packages that they may import; absent: all. */
  readonly packages?: readonly string[];
  readonly node?: false;
  /** Advice that a test prints with a forbidden import. */
  readonly instead: string;
}

const ground = ["gen/", "src/contract/", "src/lib/"];
const core = [...ground, "src/domain/"];
const port = "Declare a port in src/domain and let src/app/compose/ connect the two.";

export const importRules: readonly ImportRule[] = [
  {
    files: /^src\/lib\//,
    may: [],
    instead: "Take it as a parameter, or move the file to the folder that owns the concept.",
  },
  { files: /^src\/contract\//, may: ["gen/", "src/lib/"], instead: "Let the higher layer import the contract." },
  {
    files: /^src\/domain\/routing\//,
    may: ["src/contract/", "src/lib/", "src/domain/call/", "src/domain/engine/"],
    packages: [],
    node: false,
    instead: "Routing decides from plain values; let src/domain/catalog and src/domain/inference pass them in.",
  },
  { files: /^src\/domain\//, may: ground, packages: ["@bufbuild/protobuf"], node: false, instead: port },
  { files: /^src\/transports\/http\//, may: core, instead: port },
  { files: /^src\/transports\/(\w+)\//, may: [...core, "src/transports/http/", "src/transports/$1/"], instead: port },
  { files: /^src\/(engines|state)\/([\w-]+)\//, may: [...core, "src/$1/$2/"], instead: port },
  { files: /^src\/(model-store|outbound|remote|telemetry)\//, may: [...core, "src/$1/"], instead: port },
  {
    files: /^src\/dashboard\//,
    may: ["gen/"],
    node: false,
    instead: "The dashboard runs in browsers; it asks the service through src/dashboard/lib/api.ts.",
  },
  { files: /^src\/app\/(compose|engines)/, may: ["gen/", "src/"], instead: "" },
  {
    files: /^src\/app\//,
    may: [...core, "src/telemetry/"],
    instead: "Only src/app/compose and src/app/engines name engines, stores and transports; take the port instead.",
  },
];

/** Imports that the table forbids, each with its alternative. */
export function forbiddenImports({ path, imports }: SourceFile): string[] {
  const rule = importRules.find(({ files }) => files.test(path));
  if (rule === undefined) return [`${path} lies in a folder that scripts/import-rules.ts does not name`];
  const groups = rule.files.exec(path) ?? [];
  const own = `${(groups[0] ?? "").replace(/[^/]*$/, "")}`;
  const may = [own, ...rule.may.map((prefix) => prefix.replace(/\$(\d)/g, (_, group) => groups[Number(group)] ?? ""))];
  const isAllowed = (specifier: string, to: string | null): boolean => {
    if (to !== null) return may.some((prefix) => to.startsWith(prefix));
    if (specifier.startsWith("node:") || builtinModules.includes(specifier)) return rule.node !== false;
    return rule.packages?.some((name) => specifier === name || specifier.startsWith(`${name}/`)) ?? true;
  };
  return imports
    .filter(({ specifier, path: to }) => !isAllowed(specifier, to))
    .map(({ specifier }) => `${path} must not import ${specifier}. ${rule.instead}`);
}
