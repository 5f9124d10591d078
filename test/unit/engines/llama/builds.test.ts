import { existsSync, readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type BuildName,
  buildsFor,
  chooseBuild,
  firstBuild,
  isInstalled,
  type System,
  systemName,
} from "../../../../src/engines/llama/builds/builds.js";
import { buildsFolder, findInstalledPackages } from "../../../../src/engines/llama/builds/installed-builds.js";
import { publishedPackages, publishedVersion } from "../../../../src/engines/llama/builds/published-builds.js";
import { probe } from "../../../../src/engines/llama/probe.js";

/** The real packages' systems and files with their sizes, from the registry. */
interface Layout {
  readonly os: readonly string[];
  readonly cpu: readonly string[];
  readonly files: Readonly<Record<string, number>>;
}

const fixture = JSON.parse(readFileSync("test/fixtures/engine-builds.json", "utf8")) as {
  readonly version: string;
  readonly packages: Readonly<Record<string, Layout>>;
};

const systems: readonly (readonly [string, System, readonly BuildName[]])[] = [
  ["darwin-arm64", { platform: "darwin", arch: "arm64" }, ["metal"]],
  ["darwin-x64", { platform: "darwin", arch: "x64" }, ["cpu"]],
  ["win-x64", { platform: "win32", arch: "x64" }, ["cpu", "cuda", "vulkan"]],
  ["win-arm64", { platform: "win32", arch: "arm64" }, ["cpu"]],
  ["linux-x64", { platform: "linux", arch: "x64" }, ["cpu", "cuda", "vulkan"]],
  ["linux-arm64", { platform: "linux", arch: "arm64" }, ["cpu"]],
  ["linux-armv7l", { platform: "linux", arch: "arm" }, ["cpu"]],
];

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "uis-builds-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** Writes packages into a data folder, with the names of the real files and no content. */
async function install(dataDir: string, ids: readonly string[], version = publishedVersion): Promise<void> {
  for (const id of ids) {
    for (const file of Object.keys(fixture.packages[id]?.files ?? {})) {
      const path = join(buildsFolder(dataDir), id, file);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, file === "package.json" ? JSON.stringify({ name: `@node-llama-cpp/${id}`, version }) : "");
    }
  }
}

describe("the table of published builds", () => {
  it("belongs to the installed binding, and has all of its packages", () => {
    const binding = JSON.parse(readFileSync("node_modules/node-llama-cpp/package.json", "utf8")) as {
      version: string;
      optionalDependencies: Record<string, string>;
    };
    expect([publishedVersion, fixture.version]).toEqual([binding.version, binding.version]);
    const ids = Object.keys(binding.optionalDependencies).map((name) => name.replace("@node-llama-cpp/", ""));
    expect(publishedPackages.map(({ id }) => id)).toEqual(ids.toSorted());
  });

  it("has the checksums of package-lock.json for every package that the lock file has", () => {
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as {
      packages: Record<string, { name?: string; integrity?: string }>;
    };
    const locked = publishedPackages.flatMap(({ id, integrity }) => {
      const entry = packages[`node_modules/@node-llama-cpp/${id}`];
      return entry === undefined || entry.name === "empty-npm-package"
        ? []
        : [{ id, integrity, locked: entry.integrity }];
    });
    expect(locked.length).toBeGreaterThanOrEqual(6);
    for (const { integrity, locked: expected } of locked) expect(integrity).toBe(expected);
    for (const { integrity } of publishedPackages) expect(integrity).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
  });
});

describe.each(systems)("on %s", (_, system, names) => {
  const builds = buildsFor(system);
  const published = builds.filter(({ packages }) => packages.length > 0);

  it("the builds that node-llama-cpp publishes are offered, with a reason for each one that is not", () => {
    expect(published.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
    for (const { absence, packages } of builds) expect(absence === null).toBe(packages.length > 0);
    expect(builds.find(({ name }) => name === "rocm")?.absence).toContain("vulkan");
  });

  it("the packages of the builds contain the files that the binding opens", () => {
    for (const { name, packages } of published) {
      const folder = `bins/${systemName(system)}${name === "cpu" ? "" : `-${name}`}`;
      const [main, extension] = packages.map(({ id }) => fixture.packages[id]);
      const files = Object.keys(main?.files ?? {});
      expect(files).toEqual(
        expect.arrayContaining([
          "package.json",
          "dist/index.js",
          `${folder}/llama-addon.node`,
          `${folder}/_nlcBuildMetadata.json`,
        ]),
      );
      expect(main?.os).toContain(system.platform);
      expect(main?.cpu).toContain(system.arch);
      expect(extension !== undefined).toBe(name === "cuda");
      if (extension)
        expect(Object.keys(extension.files).some((file) => file.startsWith(`${folder}/fallback/`))).toBe(true);
    }
  });

  it("the installed builds for graphics cards are tried first, and the processor last", async () => {
    const dataDir = await temporaryFolder();
    await install(
      dataDir,
      published.flatMap(({ packages }) => packages.map(({ id }) => id)),
    );
    const installed = await findInstalledPackages(dataDir, system);
    for (const build of published) expect(isInstalled(build, installed)).toBe(true);
    const { gpus, packages } = chooseBuild({ gpu: "auto", gpuLayers: null, moduleDir: null }, system, installed);
    const cards = names.filter((name) => name !== "cpu");
    expect(gpus).toEqual(names.includes("cpu") ? [...cards, false] : cards);
    for (const id of Object.keys(packages)) expect(packages[id]).toBe(join(buildsFolder(dataDir), id));
    const off = chooseBuild({ gpu: "off", gpuLayers: 7, moduleDir: null }, system, installed);
    expect(off).toMatchObject({ gpus: names.includes("cpu") ? [false] : ["metal"], gpuLayers: 0 });
  });
});

describe("the choice of a build", () => {
  const system = { platform: "linux", arch: "x64" } as const;
  const auto = { gpu: "auto", gpuLayers: null, moduleDir: null } as const;
  const cpu = ["linux-x64", null] as const;

  it("uses CUDA only with both of its packages", () => {
    const one = new Map([cpu, ["linux-x64-cuda", "/data/cuda"]]);
    expect(chooseBuild(auto, system, one).gpus).toEqual([false]);
    const both = new Map([...one, ["linux-x64-cuda-ext", "/data/ext"] as const]);
    expect(chooseBuild(auto, system, both)).toMatchObject({
      gpus: ["cuda", false],
      packages: { "linux-x64-cuda": "/data/cuda", "linux-x64-cuda-ext": "/data/ext" },
    });
  });

  it("is made by the binding if engine.module_dir is set, because that binding has its own packages", () => {
    const choice = chooseBuild({ ...auto, moduleDir: "/opt/binding" }, system, new Map([["linux-x64-vulkan", "/v"]]));
    expect(choice).toEqual({ gpus: ["auto"], packages: {}, gpuLayers: null, moduleDir: "/opt/binding" });
    expect(firstBuild(choice)).toBeNull();
    const off = chooseBuild({ ...auto, gpu: "off", moduleDir: "/opt/binding" }, system, new Map());
    expect(off).toMatchObject({ gpus: [false], gpuLayers: 0 });
  });

  it("ignores packages of another version and damaged ones", async () => {
    const dataDir = await temporaryFolder();
    await install(dataDir, ["linux-x64-vulkan"], "3.20.0");
    expect((await findInstalledPackages(dataDir, system)).has("linux-x64-vulkan")).toBe(false);
    await writeFile(join(buildsFolder(dataDir), "linux-x64-vulkan/package.json"), "{");
    expect((await findInstalledPackages(dataDir, system)).has("linux-x64-vulkan")).toBe(false);
  });

  it("reports the processor as the first build if no layer may be on the card", () => {
    const installed = new Map([cpu, ["linux-x64-vulkan", "/v"]]);
    expect(firstBuild(chooseBuild({ ...auto, gpuLayers: 0 }, system, installed))).toBe("cpu");
    expect(firstBuild(chooseBuild(auto, system, installed))).toBe("vulkan");
  });
});

describe("a process that opens the binding", () => {
  it("uses the build in the data folder, and tries the next build if one does not load", async () => {
    const id = systemName(process);
    const real = resolve("node_modules/@node-llama-cpp", id);
    const folder = await temporaryFolder();
    const marker = join(folder, "imported");
    await cp(join(real, "package.json"), join(folder, "package.json"));
    await symlink(join(real, "bins"), join(folder, "bins"));
    await mkdir(join(folder, "dist"));
    const source = readFileSync(join(real, "dist/index.js"), "utf8");
    await writeFile(join(folder, "dist/index.js"), `${source}\nawait fs.writeFile(${JSON.stringify(marker)}, "");`);
    const build = {
      gpus: ["vulkan", false],
      packages: { [id]: folder },
      gpuLayers: null,
      moduleDir: null,
    } as const;
    const found = await probe(build, { env: process.env, timeoutMs: 60_000, outputBytesMax: 65_536 });
    expect(found).toMatchObject({ version: publishedVersion, gpu: null, unusable: ["vulkan"] });
    expect(existsSync(marker)).toBe(true);
  });
});
