/**
 * Prints the contents and dependencies of the package as a CycloneDX document:
 *
 *   npm run --silent sbom > sbom.json
 *
 * It is npm's list, reduced to the packages that a user gets. npm's own `--omit=dev` would also omit packages that our
 * tools share (`zod`), and does not include packages that are bundled into `dist/`.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { npmCommand } from "../src/lib/npm-client.js";

/** Packages whose code is in `dist/dashboard` and `dist/docs`. NOTICE has the same names. */
export const builtIn: readonly string[] = ["marked", "preact", "swagger-ui-dist", "uplot"];

export interface Component {
  /** `name@version` */
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly licenses?: readonly object[];
}

export interface Sbom {
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

interface LockedPackage {
  /** Operating systems that a package with binaries supports. */
  readonly os?: readonly string[];
  readonly name?: string;
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The packages of package-lock.json by their folders. */
export type Lock = Readonly<Record<string, LockedPackage>>;

/** `name@version` of everything that npm installs with the package. */
export function lockedForUsers(): ReadonlySet<string> {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as { packages: Lock };
  const referenceOf = (path: string): string => {
    const { name = path.slice(path.lastIndexOf("node_modules/") + 13), version } = packages[path] ?? {};
    return `${name}@${version}`;
  };
  return new Set([...lockedBelow(packages, "")].map(referenceOf));
}

/** Folders of all packages that the one in `folder` needs, directly or not. */
export function lockedBelow(packages: Lock, folder: string): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (path: string): void => {
    const { dependencies, optionalDependencies } = packages[path] ?? {};
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const at = placeOf(packages, path, name);
      if (at === null || found.has(at)) continue;
      found.add(at);
      visit(at);
    }
  };
  visit(folder);
  return found;
}

/** Resolves a package from another: next to it, or next to a folder that contains it. Null: it is not in the lock. */
function placeOf(packages: Lock, from: string, name: string): string | null {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const at = `${folder === "" ? "" : `${folder}/`}node_modules/${name}`;
    if (at in packages) return at;
    if (folder === "") return null;
  }
}

/** Lists the packages that are installed here; packages for other platforms are missing. */
export function makeSbom(): Sbom {
  const args = ["sbom", "--sbom-format=cyclonedx", "--sbom-type=application"];
  const [command, ...npm] = npmCommand(process.env);
  const all = JSON.parse(
    execFileSync(command, [...npm, ...args], { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 }),
  ) as Sbom;
  const { component } = all.metadata;
  const locked = lockedForUsers();
  const components = all.components.filter((each) => locked.has(each["bom-ref"]) || builtIn.includes(each.name));
  const kept = new Set([component["bom-ref"], ...components.map((each) => each["bom-ref"])]);
  return {
    ...all,
    // npm uses the folder's name.
    metadata: { ...all.metadata, component: { ...component, name: "unified-inference" } },
    components,
    dependencies: all.dependencies
      .filter(({ ref }) => kept.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) })),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(`${JSON.stringify(makeSbom(), null, 2)}\n`);
}
