import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pack } from "../../scripts/pack.js";
import { builtIn, lockedForUsers, type Sbom } from "../../scripts/sbom.js";
import { ownLinks } from "../unit/docs/links.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const packages = createRequire(import.meta.url);
/** Limit of the compressed size: a third each is the API page, the engine's binding with its packages, and the bundle. */
const tarballBytesMax = 10 * 1024 * 1024;
const wide = { cwd: root, maxBuffer: 64 * 1024 * 1024 };

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

describe("the packed tarball", () => {
  let folder: string;
  let packed: Packed;
  let tarball: string;
  let paths: readonly string[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-pack-"));
    tarball = pack(folder);
    const { stdout } = await run("npm", ["pack", tarball, "--json", "--dry-run"], wide);
    [packed] = JSON.parse(stdout) as [Packed];
    paths = packed.files.map(({ path }) => path).filter((path) => !path.startsWith("node_modules/"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("has entry points that every resolver understands", async () => {
    const bytes = new Uint8Array(await readFile(tarball)).buffer;
    const { messages, pkg } = await publint({ pack: { tarball: bytes }, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  it("has types that every resolver finds", async () => {
    const attw = join(packages.resolve("@arethetypeswrong/cli/package.json"), "../dist/index.js");
    // The package contains ES modules only, so checks for CommonJS are skipped.
    const options = ["--profile", "esm-only", "--no-definitely-typed", "--no-color", "--no-emoji"];
    const { stdout } = await run(process.execPath, [attw, tarball, ...options]);
    expect(stdout).toContain('"unified-inference/webhooks"');
    expect(stdout).toContain('"unified-inference/proto"');
  });

  it("contains the protobuf files and the documents", () => {
    const wanted = ["proto/unified/inference/v1/inference_service.proto", "docs/openapi.json", "docs/grpc.md"];
    expect(wanted.filter((path) => !paths.includes(path))).toEqual([]);
  });

  it("contains everything that its pages link to", async () => {
    const isInside = (target: string) => paths.some((path) => path === target || path.startsWith(`${target}/`));
    const pages = paths.filter((path) => path.endsWith(".md"));
    const lost = await Promise.all(
      pages.map(async (page) => {
        const targets = ownLinks(await readFile(join(root, page), "utf8"))
          .map((link) => link.replace(/#.*/, ""))
          .filter((path) => path !== "")
          .map((path) => join(dirname(page), path));
        return targets.filter((target) => !isInside(target)).map((target) => `${page}: ${target}`);
      }),
    );
    expect(pages).toContain("docs/hardening.md");
    expect(lost.flat()).toEqual([]);
  });

  it("contains only runtime files and documents, in a few megabytes", () => {
    const expected =
      /^(dist\/.*\.(js|css|html|svg|png|lua|br|gz)|dist\/bundle\/(.*\.js\.map|LICENSES\.txt)|dist\/docs\/(LICENSE|NOTICE|.*\.LICENSE\.txt)|dist\/lib\/(webhook-signature|proto-folder)\.d\.ts|proto\/.*\.proto|docs\/.*\.(md|json|yaml|png|svg)|deploy\/(grafana\/.*\.(json|yaml)|helm\/.*\.(yaml|json|md|tpl|txt)|(kubernetes|ray)\/.*\.(yaml|md)|prometheus\/alerts\.yml|proxy\/.*(\.conf|\.cfg|\.yaml|Caddyfile)|systemd\/.*\.service)|(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE|NOTICE|package\.json)$/;
    expect(paths.filter((path) => !expected.test(path))).toEqual([]);
    expect(paths.filter((path) => /^(test|src|scripts|data)\/|\.test\.|\/\./.test(path))).toEqual([]);
    expect(packed.size).toBeLessThan(tarballBytesMax);
    expect(packed.files.find(({ path }) => path === "dist/app/cli.js")?.mode).toBe(0o755);
  });

  it("contains the engine's binding without binaries and build-only files", () => {
    const bundled = packed.files.map(({ path }) => path).filter((path) => path.startsWith("node_modules/"));
    expect(bundled).toContain("node_modules/node-llama-cpp/dist/index.js");
    expect(bundled.filter((path) => /\.(node|so|dll|dylib|bundle)$|@node-llama-cpp\//.test(path))).toEqual([]);
    const packagesOf = (path: string) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? path;
    const licensed = new Set(bundled.filter((path) => /licen[cs]e|readme/i.test(path)).map(packagesOf));
    // The package is a part of simple-git and has the same licence.
    licensed.add("node_modules/@simple-git/argv-parser");
    expect([...new Set(bundled.map(packagesOf))].filter((name) => !licensed.has(name))).toEqual([]);
  });

  it("can be published unchanged: npm accepts it and fails only at the registry", async () => {
    expect(await publishFault(tarball)).toContain("npm error code ECONNREFUSED");
  });
});

it("the repository, whose dependencies differ, is refused by npm publish", async () => {
  expect(await publishFault(".")).toContain("npm error code EPRIVATE");
});

/** Publishes a folder or tarball to a registry at which nothing listens. Returns npm's complaint; a dry run checks less. */
async function publishFault(what: string): Promise<string> {
  const registry = ["--registry=http://127.0.0.1:1/", "--//127.0.0.1:1/:_authToken=none", "--noproxy=127.0.0.1"];
  const publishing = run("npm", ["publish", what, ...registry, "--fetch-retries=0"], wide);
  return publishing.then(
    () => "nothing",
    ({ stderr }: { readonly stderr: string }) => stderr,
  );
}

describe("the exports of package.json", () => {
  it("include the protobuf files, each one and their folder", () => {
    const file = "unified/inference/v1/inference_service.proto";
    expect(packages.resolve(`unified-inference/proto/${file}`)).toBe(join(root, "proto", file));
    expect(packages("unified-inference/proto")).toMatchObject({ protoFolder: join(root, "proto") });
  });

  it("include nothing else", () => {
    const inside = ["unified-inference", "unified-inference/dist/app/cli.js", "unified-inference/gen"];
    for (const name of inside) expect(() => packages.resolve(name)).toThrow(/exports|not defined/);
  });
});

describe("npm run sbom", () => {
  let sbom: Sbom;

  beforeAll(async () => {
    sbom = JSON.parse((await run("npm", ["run", "--silent", "sbom"], wide)).stdout) as Sbom;
  });

  it("lists everything that a user gets, and no development tool", () => {
    const listed = sbom.components.map((component) => component["bom-ref"]);
    const expected = [...lockedForUsers()].filter((name) => existsSync(join(root, "node_modules", nameOf(name))));
    expect(expected.filter((name) => !listed.includes(name))).toEqual([]);
    const names = sbom.components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["zod", "yaml", "node-llama-cpp", ...builtIn]));
    expect(names.filter((name) => /^(vitest|typescript|@biomejs|openai|playwright-core)/.test(name))).toEqual([]);
    expect(sbom.metadata.component).toMatchObject({ name: "unified-inference", version: "0.1.0" });
  });

  it("has a licence for each", () => {
    expect(sbom.components.filter(({ licenses }) => licenses === undefined || licenses.length === 0)).toEqual([]);
  });

  it("lists the packages that are bundled into the browser files, like NOTICE", async () => {
    const [, section = ""] = (await readFile(join(root, "NOTICE"), "utf8")).split("Shipped in dist");
    const [list = ""] = section.split("Direct dependencies");
    expect([...list.matchAll(/^ {2}([a-z@][\w/-]*) {2,}/gm)].map(([, name]) => name).toSorted()).toEqual(builtIn);
  });
});

/** The name in `name@version`; it may begin with an @. */
function nameOf(reference: string): string {
  return reference.slice(0, reference.lastIndexOf("@"));
}
