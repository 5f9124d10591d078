import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import ts from "typescript";
import { configJsonSchema } from "../src/app/config/setting-list.js";

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Files of src/ that something outside of the program loads by its path, and their names in the bundle. */
const entries: Readonly<Record<string, string>> = {
  cli: "app/cli",
  "llama-child": "engines/llama/child/main",
  "store-worker": "state/embedded/worker",
  "bert-worker": "model-store/bert/worker",
  "webhook-signature": "lib/webhook-signature",
  "proto-folder": "lib/proto-folder",
};
/** The entries that the package exports, with types. */
const exported: readonly string[] = ["webhook-signature", "proto-folder"];
const stackTraces = "stack-traces";

/** Packages that find native code or other files by their own path, and those that an operator may install. */
const external: readonly string[] = [
  ...["node-llama-cpp", "libsql", "@opentelemetry/*"],
  ...["grpc-health-check", "@grpc/reflection"],
];

/** Defines `require`, which bundled CommonJS packages call. */
const commonJs = `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`;

/**
 * Writes the program into `built` as one bundle of split chunks, with source maps: a start reads some 40 files instead of 500. A
 * dynamic `import()` in the sources begins a chunk of its own, which is read when it runs. Packages are bundled, too; their
 * licences are in `bundle/LICENSES.txt`.
 *
 * For each entry, a file of two lines at the entry's path in src/ imports the bundled module.
 */
export async function bundleSources(built: string): Promise<void> {
  const folder = join(built, "bundle");
  const { metafile } = await build({
    entryPoints: Object.fromEntries(
      Object.entries({ ...entries, [stackTraces]: `app/process/${stackTraces}` }).map(([name, path]) => [
        name,
        at(`src/${path}.ts`),
      ]),
    ),
    outdir: folder,
    absWorkingDir: at("."),
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20.19",
    external: [...external],
    banner: { js: commonJs },
    metafile: true,
    minifyWhitespace: true,
    // For an uncaught error, Node prints the whole source line.
    lineLimit: 200,
    define: { bundledConfigSchema: JSON.stringify(configJsonSchema()) },
    chunkNames: "[name]-[hash]",
    sourcemap: "linked",
    // Source maps contain only positions, which are enough for stack traces: the package contains no sources.
    sourcesContent: false,
    tsconfig: at("tsconfig.json"),
    logLevel: "warning",
    plugins: [ownPaths],
  });
  writeFileSync(join(folder, "LICENSES.txt"), licencesOf(Object.keys(metafile.inputs)));
  for (const [name, path] of Object.entries(entries)) writeEntry(built, name, path);
}

/** The licences of the packages of these files, each with the package's name and version. */
function licencesOf(files: readonly string[]): string {
  const folders = files.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  const packages = [...new Set(folders.filter((folder) => folder !== undefined))].sort();
  const texts = packages.map((folder) => {
    const { name, version, license, author } = JSON.parse(readFileSync(at(`${folder}/package.json`), "utf8"));
    const names = readdirSync(at(folder)).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file));
    const own = names.map((file) => readFileSync(join(at(folder), file), "utf8").trim());
    if (own.length === 0) own.push(`Copyright (c) ${author?.name ?? author ?? "its authors"}`);
    return [`${name} ${version}, ${license}`, ...own].join("\n\n");
  });
  return `${texts.join(`\n\n${"=".repeat(80)}\n\n`)}\n`;
}

function writeEntry(built: string, name: string, path: string): void {
  const file = join(built, `${path}.js`);
  const bundled = `${"../".repeat(path.split("/").length - 1)}bundle`;
  mkdirSync(dirname(file), { recursive: true });
  if (exported.includes(name)) {
    writeFileSync(file, `export * from "${bundled}/${name}.js";\n`);
    const source = at(`src/${path}.ts`);
    const { outputText } = ts.transpileDeclaration(readFileSync(source, "utf8"), { fileName: source });
    writeFileSync(join(built, `${path}.d.ts`), outputText);
    return;
  }
  const start = name === "cli" ? "#!/usr/bin/env node\n" : "";
  writeFileSync(file, `${start}import "${bundled}/${stackTraces}.js";\nimport "${bundled}/${name}.js";\n`);
}

/** Replaces `import.meta.url` so that a module in `bundle/` finds files relative to the path that it has in src/. */
const ownPaths: Plugin = {
  name: "own-paths",
  setup(builder) {
    builder.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      if (!path.startsWith(at("src"))) return undefined;
      const source = readFileSync(path, "utf8");
      const own = relative(at("src"), path).split(sep).join("/").replace(/ts$/, "js");
      const contents = source.replaceAll(/\bimport\.meta\.url\b/g, `new URL("../${own}", import.meta.url).href`);
      return { contents, loader: "ts" };
    });
  },
};
