import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** The files of Swagger UI that are served. Its other files are variants and source maps. */
const swaggerFiles = [
  "swagger-ui-bundle.js",
  "swagger-ui-bundle.js.LICENSE.txt",
  "swagger-ui.css",
  "favicon-32x32.png",
  "LICENSE",
  "NOTICE",
];

/**
 * Builds the files of `/dashboard` and `/docs`, with compressed forms, into folders of `built`. Throws if the dashboard
 * does not build.
 */
export async function buildWebFiles(built: string): Promise<void> {
  const [dashboard, docs] = [join(built, "dashboard"), join(built, "docs")];
  const vite = spawnSync(
    process.execPath,
    [at("node_modules/vite/bin/vite.js"), "build", "--logLevel", "warn", "--outDir", dashboard],
    { cwd: at("."), stdio: "inherit" },
  );
  if (vite.status !== 0) throw new Error("the dashboard does not build");
  writeSettingsIndex(dashboard);
  mkdirSync(docs, { recursive: true });
  cpSync(at("src/transports/dashboard/documents"), docs, { recursive: true });
  for (const name of swaggerFiles) copyFileSync(at(`node_modules/swagger-ui-dist/${name}`), join(docs, name));
  await Promise.all([dashboard, docs].map(compressAll));
}

/** The page for paths one level deeper, such as `settings/keys`: all its addresses are relative. */
function writeSettingsIndex(dashboard: string): void {
  const html = readFileSync(join(dashboard, "index.html"), "utf8");
  mkdirSync(join(dashboard, "settings"));
  writeFileSync(join(dashboard, "settings/index.html"), html.replaceAll('="./', '="../'));
}

const compressible: ReadonlySet<string> = new Set([".html", ".js", ".css", ".json", ".svg"]);
/** A smaller file fits into the packets that its headers need anyway. */
const compressedBytesMin = 1_024;

/** Writes the compressed forms of each file next to it if they are smaller. */
async function compressAll(folder: string): Promise<void> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  await Promise.all(
    names.filter((name) => compressible.has(extname(name))).map((name) => compress(join(folder, name))),
  );
}

async function compress(path: string): Promise<void> {
  const bytes = readFileSync(path);
  if (bytes.length < compressedBytesMin) return;
  const hint = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length, [constants.BROTLI_PARAM_QUALITY]: 11 };
  const forms = [
    { suffix: ".br", compressed: await promisify(brotliCompress)(bytes, { params: hint }) },
    { suffix: ".gz", compressed: await promisify(gzip)(bytes, { level: 9 }) },
  ];
  for (const { suffix, compressed } of forms) {
    if (compressed.length < bytes.length) writeFileSync(path + suffix, compressed);
  }
}
