import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { pack } from "../../scripts/pack.js";
import { signWebhook } from "../../src/lib/webhook-signature.js";
import { receiverSnippet } from "../conformance/webhooks/snippets.js";
import { freePort } from "../support/redis/redis-process.js";
import { copyOfRepository } from "../support/repository-copy.js";
import { type ServeProcess, type SpawnOptions, spawnServe } from "../support/service-process.js";

const run = promisify(execFile);

/** The fields by which npm decides whether a package fits a system. */
interface Manifest {
  readonly name?: string;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
}

const root = fileURLToPath(new URL("../..", import.meta.url));
let folder: string;
const started: ServeProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-e2e-"));
  const models = "models:\n  - id: test-chat\n    engine: scripted\n    scripted: { text: It works. }\n";
  await writeFile(join(folder, "uis.yaml"), models);
});

afterEach(async () => {
  for (const { child, exited } of started.splice(0)) {
    child.kill("SIGTERM");
    await exited;
  }
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** Starts the service with the test's configuration and a separate data folder. */
function serve(dataDir: string, options: Omit<SpawnOptions, "env">): ServeProcess {
  const env = {
    HOME: process.env["HOME"] ?? folder,
    UIS_CONFIG: join(folder, "uis.yaml"),
    UIS_DATA_DIR: join(folder, dataDir),
  };
  const service = spawnServe({ ...options, env });
  started.push(service);
  return service;
}

/** Runs the curl line of the printed text as if pasted into a shell. */
async function pasteCurl(service: ServeProcess): Promise<string> {
  await expect.poll(() => service.stdout(), { timeout: 60_000 }).toContain("Ctrl-C");
  const line =
    service
      .stdout()
      .split("\n")
      .find((candidate) => candidate.startsWith("  curl ")) ?? "";
  return (await run("sh", ["-c", line])).stdout;
}

describe("npm start in the repository", () => {
  /** A copy of the repository is built, because other tests run the repository's own build at the same time. */
  let clone: string;
  beforeAll(async () => {
    clone = await copyOfRepository();
    await symlink(join(root, "node_modules"), join(clone, "node_modules"));
    await cp(join(root, "dist"), join(clone, "dist"), { recursive: true, preserveTimestamps: true });
  });
  afterAll(() => rm(clone, { recursive: true, force: true }));

  it("builds when sources are newer, and prints exactly the ready line on stdout", async () => {
    const now = new Date();
    await utimes(join(clone, "tsconfig.build.json"), now, now);
    const command = ["npm", "start", "--silent", "--", "--json"];
    const service = serve("repository", { cwd: clone, command, args: [] });
    const line = await service.ready;
    expect(service.stderr()).toMatch(/Building[\s\S]*\nBuilt in \d+ s\.\n/);
    expect(service.stdout()).toBe(`${JSON.stringify(line)}\n`);
    expect(line.state).toBe("embedded");
    const models = await fetch(`${line.api}/models`, { headers: { authorization: `Bearer ${line.api_key?.secret}` } });
    expect(models.status).toBe(200);
    service.child.kill("SIGTERM");
    expect(await service.exited).toBe(0);
  });

  it("builds nothing and shows no key at a second start", async () => {
    const command = [process.execPath, "scripts/start.mjs"];
    const service = serve("repository", { cwd: clone, command });
    const line = await service.ready;
    expect(service.stderr()).not.toContain("Building");
    expect(line.api_key).toBeNull();
  });
});

describe("the packed tarball, installed in an empty folder", () => {
  const install = () => join(folder, "installed");
  const uis = () => join(install(), "node_modules/.bin/uis");
  let tarball: string;

  beforeAll(async () => {
    await mkdir(install());
    await writeFile(join(install(), "package.json"), JSON.stringify({ private: true }));
    tarball = pack(folder);
    const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
    await run("npm", ["install", ...quiet, tarball], { cwd: install() });
  });

  it("takes less than 200 MB with all dependencies, without compilers and builds for graphics cards or other systems", async () => {
    const { stdout } = await run("du", ["-sk", "node_modules"], { cwd: install() });
    expect(Number.parseInt(stdout, 10)).toBeLessThan(200_000);
    const manifests = (await readdir(join(install(), "node_modules"), { recursive: true })).filter((path) =>
      /(^|node_modules\/)(@[^/]+\/)?[^/]+\/package\.json$/.test(path),
    );
    const installed = await Promise.all(
      manifests.map(
        async (path) => JSON.parse(await readFile(join(install(), "node_modules", path), "utf8")) as Manifest,
      ),
    );
    const names = installed.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["unified-inference", "node-llama-cpp", "zod"]));
    expect(names.filter((name) => /typescript|cmake-js.*bin|tsx$|vite|-(cuda|vulkan)/.test(name ?? ""))).toEqual([]);
    // node-llama-cpp declares its build for Linux arm64 for x64 too, so npm installs both on x64.
    const foreign = installed.filter(
      ({ os, cpu }) => !(os?.includes(process.platform) ?? true) || !(cpu?.includes(process.arch) ?? true),
    );
    expect(foreign.map(({ name }) => name)).toEqual([]);
  });

  it("has all files that it needs and no sources", async () => {
    const packaged = join(install(), "node_modules/unified-inference");
    for (const path of ["dist/app/cli.js", "dist/bundle", "proto", "docs/config.md", "README.md"]) {
      expect(existsSync(join(packaged, path)), path).toBe(true);
    }
    for (const path of ["src", "test", "scripts"]) expect(existsSync(join(packaged, path)), path).toBe(false);
    expect((await run(uis(), ["--version"])).stdout).toBe("0.1.0\n");
  });

  it("unified-inference/webhooks works in a project without other packages, for the receiver of docs/webhooks.md", async () => {
    const project = await unpackAlone();
    await writeFile(join(project, "receiver.mjs"), receiverSnippet());
    const [secret, port] = ["whsec_dGVzdA==", await freePort()];
    const env = { PATH: process.env["PATH"], PORT: String(port), WEBHOOK_SECRET: secret };
    const receiver = spawn(process.execPath, ["receiver.mjs"], { cwd: project, env, stdio: "ignore" });
    const post = async (signedWith: string) => {
      const body = JSON.stringify({ id: "evt_1", type: "request.completed", data: {} });
      const header = signWebhook({ secrets: [signedWith], timestampS: Math.floor(Date.now() / 1000), body });
      const headers = { "service-signature": header };
      return await fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers, body });
    };
    try {
      await expect.poll(() => post(secret).then(({ status }) => status, String), { timeout: 30_000 }).toBe(200);
      const refused = await post("whsec_b3RoZXI=");
      expect([refused.status, await refused.text()]).toEqual([400, "signature_mismatch"]);
    } finally {
      receiver.kill();
      await once(receiver, "exit");
    }
  });

  it("unified-inference/webhooks has types that need no other package", async () => {
    const project = await unpackAlone();
    await writeFile(
      join(project, "types.mts"),
      `import { verifyWebhook, type WebhookRefusal } from "unified-inference/webhooks";
const result = verifyWebhook({ secret: ["new", "old"], header: null, body: new Uint8Array() });
export const refusal: WebhookRefusal | number = result.valid ? result.timestampS : result.reason;
// @ts-expect-error: it is no member of the closed list of reasons
export const unknown: WebhookRefusal = "too_late";
`,
    );
    const options = ["--noEmit", "--strict", "--skipLibCheck", "false", "--module", "nodenext", "--lib", "es2022"];
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    await run(process.execPath, [tsc, ...options, "types.mts"], { cwd: project });
  });

  /** A project that contains the package's files without its dependencies. */
  async function unpackAlone(): Promise<string> {
    const project = await mkdtemp(join(folder, "alone-"));
    const packaged = join(project, "node_modules/unified-inference");
    await mkdir(packaged, { recursive: true });
    await run("tar", ["-xzf", tarball, "-C", packaged, "--strip-components=1"]);
    return project;
  }

  it("serves requests, and its curl line works unchanged", async () => {
    const service = serve("installed-data", { cwd: install(), command: [uis(), "serve"], args: [] });
    const events = await pasteCurl(service);
    expect([...events.matchAll(/"content":"(.*?)"/g)].map(([, text]) => text).join("")).toBe("It works.");
    expect(events).toMatch(/data: \[DONE\]\n\n$/);
    service.child.kill("SIGTERM");
    expect(await service.exited).toBe(0);
  });
});
