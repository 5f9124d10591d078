import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { installBuild } from "../../../../src/app/engines/install-build.js";
import { buildsFor, type EngineBuild } from "../../../../src/engines/llama/builds/builds.js";
import { buildsFolder, isPackage } from "../../../../src/engines/llama/builds/installed-builds.js";
import { publishedVersion } from "../../../../src/engines/llama/builds/published-builds.js";
import { type TarMember, tarball } from "../../../support/tarball.js";

/** Instead of npm: copies the tarball of the requested package, counts its calls and fails for a missing one. */
const fakeNpm = `
const { appendFileSync, copyFileSync } = require("node:fs");
const { join } = require("node:path");
const [, name] = /^@node-llama-cpp\\/(.*)@${publishedVersion}$/.exec(process.argv[3]);
appendFileSync(join(__dirname, "calls"), name + " ");
try {
  copyFileSync(join(__dirname, name), join(process.argv.at(-1), "node-llama-cpp-" + name + ".tgz"));
} catch {
  console.error("npm error code E404");
  process.exit(1);
}
console.log(JSON.stringify([{ filename: "node-llama-cpp-" + name + ".tgz" }]));
`;

let folder: string;
let registry: string;
const installedIn = () => buildsFolder(join(folder, "data"));

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-install-"));
  registry = join(folder, "registry");
  await mkdir(registry);
  await writeFile(join(registry, "npm-cli.js"), fakeNpm);
});
afterEach(() => rm(folder, { recursive: true }));

function packageOf(id: string, ...others: readonly TarMember[]): Buffer {
  const manifest = JSON.stringify({ name: `@node-llama-cpp/${id}`, version: publishedVersion });
  const files = { "package.json": manifest, "dist/index.js": "", "bins/x/llama-addon.node": "binary" };
  const members = Object.entries(files).map(([name, content]): TarMember => ({ name: `package/${name}`, content }));
  return tarball([...members, ...others]);
}

/** A build of these packages. `served`: whether the registry has them. */
async function buildOf(
  packages: Readonly<Record<string, Buffer>>,
  served = Object.keys(packages),
): Promise<EngineBuild> {
  for (const id of served) await writeFile(join(registry, id), packages[id] ?? "");
  const rows = Object.entries(packages).map(([id, content]) => {
    const integrity = `sha512-${createHash("sha512").update(content).digest("base64")}`;
    return { id, packedBytes: content.length, bytes: 10_000, integrity };
  });
  return { name: "cuda", packages: rows, absence: null };
}

async function install(build: EngineBuild): Promise<readonly string[]> {
  const steps: string[] = [];
  const env = { npm_execpath: join(registry, "npm-cli.js") };
  const { signal } = new AbortController();
  const dataDir = join(folder, "data");
  await installBuild({ build, dataDir, env, cwd: folder, signal, onStep: (step) => steps.push(step) });
  return steps;
}

const calls = () => readFile(join(registry, "calls"), "utf8");

describe("installBuild", () => {
  it("fetches, verifies and unpacks every package of the build, and leaves no other files", async () => {
    const build = await buildOf({
      "linux-x64-cuda": packageOf("linux-x64-cuda"),
      "linux-x64-cuda-ext": packageOf("linux-x64-cuda-ext"),
    });
    const steps = await install(build);
    expect(steps.map((step) => step.replace(/,.*/, ""))).toEqual([
      `fetching @node-llama-cpp/linux-x64-cuda@${publishedVersion}`,
      "unpacking linux-x64-cuda",
      `fetching @node-llama-cpp/linux-x64-cuda-ext@${publishedVersion}`,
      "unpacking linux-x64-cuda-ext",
    ]);
    expect((await readdir(installedIn())).toSorted()).toEqual(["linux-x64-cuda", "linux-x64-cuda-ext"]);
    expect(await isPackage(join(installedIn(), "linux-x64-cuda"), "linux-x64-cuda")).toBe(true);
  });

  it("continues after a failure without fetching complete packages again", async () => {
    const packages = {
      "linux-x64-cuda": packageOf("linux-x64-cuda"),
      "linux-x64-cuda-ext": packageOf("linux-x64-cuda-ext"),
    };
    await expect(install(await buildOf(packages, ["linux-x64-cuda"]))).rejects.toThrow("npm failed: code E404");
    expect(await readdir(installedIn())).toEqual(["linux-x64-cuda"]);
    // A verified download that was not unpacked is kept too.
    await writeFile(join(installedIn(), "linux-x64-cuda-ext.tgz"), packages["linux-x64-cuda-ext"]);
    await install(await buildOf(packages));
    expect(await calls()).toBe("linux-x64-cuda linux-x64-cuda-ext ");
    expect((await readdir(installedIn())).toSorted()).toEqual(["linux-x64-cuda", "linux-x64-cuda-ext"]);
  });

  it("rejects a package that differs from the published one, and deletes it", async () => {
    const build = await buildOf({ "linux-x64-vulkan": packageOf("linux-x64-vulkan") });
    const forged = packageOf("linux-x64-vulkan", { name: "package/bins/more", content: "x" });
    await writeFile(join(registry, "linux-x64-vulkan"), forged);
    await expect(install(build)).rejects.toThrow(/is not the published package.*npm config get registry/);
    expect(await readdir(installedIn())).toEqual([]);
  });

  it("does not use a damaged download, and replaces a damaged installation", async () => {
    const build = await buildOf({ "linux-x64-vulkan": packageOf("linux-x64-vulkan") });
    await mkdir(join(installedIn(), "linux-x64-vulkan"), { recursive: true });
    await writeFile(join(installedIn(), "linux-x64-vulkan/left"), "");
    await writeFile(join(installedIn(), "linux-x64-vulkan.tgz"), "half");
    await install(build);
    expect((await readdir(join(installedIn(), "linux-x64-vulkan"))).toSorted()).toEqual([
      "bins",
      "dist",
      "package.json",
    ]);
    expect(await readdir(installedIn())).toEqual(["linux-x64-vulkan"]);
  });

  it("installs nothing from a package that contains a link, or whose content does not match its name", async () => {
    const link = { name: "package/bins/link", type: "2" };
    await expect(install(await buildOf({ "linux-x64-vulkan": packageOf("linux-x64-vulkan", link) }))).rejects.toThrow(
      "is not a plain file",
    );
    await expect(install(await buildOf({ "win-x64-vulkan": packageOf("linux-x64-vulkan") }))).rejects.toThrow(
      "unexpected contents",
    );
    expect((await readdir(installedIn())).filter((name) => !name.endsWith(".tgz"))).toEqual([]);
  });

  it("rejects a build that does not exist for this system, with the reason", async () => {
    const rocm = buildsFor({ platform: "linux", arch: "x64" }).find(({ name }) => name === "rocm");
    if (rocm === undefined) throw new Error("the list has no ROCm");
    await expect(install(rocm)).rejects.toThrow("rocm: node-llama-cpp has no build for ROCm");
  });
});
