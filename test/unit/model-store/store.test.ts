import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readGgufHeader } from "../../../src/model-store/gguf/gguf-header.js";
import { ModelStore } from "../../../src/model-store/store.js";
import { claimWorkFolder, leaveWorkFolder } from "../../../src/model-store/work-folder.js";
import { writeTinyGguf } from "../../support/model-files/tiny-gguf.js";

const clock = { now: () => 1_700_000_000_000 };
let folder = "";
beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), "uis-store-")), "models");
});
afterEach(() => rm(join(folder, ".."), { recursive: true, force: true }));

/** Adds a model whose file contains this name. */
async function add(store: ModelStore, id: string, name = id) {
  const path = join(folder, `${id}.new`);
  const sum = await writeTinyGguf(path, name);
  const header = await readGgufHeader(path);
  return store.add({ id, path, sum, header, source: `file:${name}`, recordSum: false });
}

const files = async () => (await readdir(folder)).filter((name) => name.endsWith(".gguf"));

describe("ModelStore", () => {
  it("creates the folder and its files for the owner only", async () => {
    const store = await ModelStore.open(folder, clock);
    const model = await add(store, "a");
    const modes = await Promise.all([folder, join(folder, "index.json"), store.path(model)].map((path) => stat(path)));
    expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o600, 0o600]);
  });

  it("finds models after a restart that were added before", async () => {
    const store = await ModelStore.open(folder, clock);
    const model = await add(store, "a");
    const again = await ModelStore.open(folder, clock);
    expect(again.list()).toEqual([model]);
    expect(again.find("a")).toEqual(model);
    expect(again.find("b")).toBeUndefined();
    expect(again.damaged).toEqual([]);
  });

  it("keeps one file for models with equal content, and removes it with the last of these models", async () => {
    const store = await ModelStore.open(folder, clock);
    await add(store, "a", "same");
    const b = await add(store, "b", "same");
    await store.addAlias(b, "c");
    expect(await files()).toEqual([`${b.sha256}.gguf`]);
    expect(await store.remove("a")).toBe(true);
    expect(await store.remove("b")).toBe(true);
    expect(await files()).toHaveLength(1);
    expect(await store.remove("c")).toBe(true);
    expect(await store.remove("c")).toBe(false);
    expect(await files()).toEqual([]);
  });

  it("replaces a model with the same id and removes the old file", async () => {
    const store = await ModelStore.open(folder, clock);
    await add(store, "a", "old");
    const { sha256 } = await add(store, "a", "new");
    expect(store.list().map(({ name }) => name)).toEqual(["new"]);
    expect(await files()).toEqual([`${sha256}.gguf`]);
  });

  it("keeps all concurrent changes, including those of a second store on the same folder", async () => {
    const store = await ModelStore.open(folder, clock);
    const other = await ModelStore.open(folder, clock);
    await Promise.all(["a", "b", "c", "d"].map((id) => add(store, id)));
    await add(other, "e");
    expect(
      other
        .list()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("never shows an incomplete index to readers", async () => {
    const store = await ModelStore.open(folder, clock);
    let isAdding = true;
    const adding = Promise.all(Array.from({ length: 30 }, (_, i) => add(store, `m${i}`))).finally(() => {
      isAdding = false;
    });
    let reads = 0;
    while (isAdding) {
      const text = await readFile(join(folder, "index.json"), "utf8").catch(() => "{}");
      JSON.parse(text);
      reads += 1;
    }
    await adding;
    expect(reads).toBeGreaterThan(1);
    expect((await readdir(folder)).filter((name) => name.endsWith(".new"))).toEqual([]);
  });

  it("does not list a changed file after a restart, and can add it again (SEC-25)", async () => {
    const store = await ModelStore.open(folder, clock);
    const cut = await add(store, "cut");
    const gone = await add(store, "gone");
    const broken = await add(store, "broken");
    await truncate(store.path(cut), 100);
    await rm(store.path(gone));
    await writeFile(store.path(broken), Buffer.alloc(broken.bytes));
    const again = await ModelStore.open(folder, clock);
    expect(again.list()).toEqual([]);
    expect(again.damaged.map(({ model, reason }) => [model.id, reason])).toEqual([
      ["cut", expect.stringContaining("has 100 bytes")],
      ["gone", expect.stringContaining("cannot be read")],
      ["broken", expect.stringContaining("not a valid GGUF")],
    ]);
    await add(again, "cut");
    expect(again.find("cut")?.sha256).toBe(cut.sha256);
    expect(again.damaged).toHaveLength(2);
  });

  it("detects one changed bit with `verify` (SEC-25)", async () => {
    const store = await ModelStore.open(folder, clock);
    const model = await add(store, "a");
    await store.verify(model);
    const bytes = await readFile(store.path(model));
    bytes[bytes.length - 1] = 1;
    await writeFile(store.path(model), bytes);
    await expect(store.verify(model)).rejects.toMatchObject({ fault: "checksum" });
  });

  it("throws an error with a fix for an index that cannot be parsed", async () => {
    await mkdir(folder, { recursive: true });
    for (const text of ["{", '{"version":2}', '{"version":1,"models":[{"id":"x"}],"sums":{}}']) {
      await writeFile(join(folder, "index.json"), text);
      await expect(ModelStore.open(folder, clock)).rejects.toMatchObject({
        fault: "malformed",
        message: expect.stringContaining("move it away"),
      });
    }
  });
});

describe("work folders", () => {
  it("are claimed by one pull, kept for the next pull, and removed if they are empty", async () => {
    await ModelStore.open(folder, clock);
    const first = await claimWorkFolder(folder, "s");
    const second = await claimWorkFolder(folder, "s");
    expect(second).not.toBe(first);
    await writeFile(join(first, "x.part"), "x");
    await leaveWorkFolder(first);
    await leaveWorkFolder(second);
    expect(await readdir(folder)).toEqual([expect.stringMatching(/^[0-9a-f]{16}\.part$/)]);
    const third = await claimWorkFolder(folder, "s");
    expect(await readdir(third)).toEqual(["x.part"]);
  });

  it("of an ended process are kept for the next pull, old ones are removed, and those of running pulls stay", async () => {
    await mkdir(folder, { recursive: true });
    const dead = join(folder, `${"a".repeat(16)}.999999999-00000000-1.work`);
    const own = join(folder, `${"b".repeat(16)}.${process.pid}-00000000-1.work`);
    const running = join(folder, `${"c".repeat(16)}.${process.ppid}-00000000-1.work`);
    const old = join(folder, `${"d".repeat(16)}.part`);
    for (const path of [dead, own, running, old]) {
      await mkdir(path);
      await writeFile(join(path, "x.part"), "x");
    }
    await utimes(old, 1, 1);
    const mine = await claimWorkFolder(folder, "s");
    await ModelStore.open(folder, { now: () => Date.now() });
    expect((await readdir(folder)).sort()).toEqual(
      [
        `${"a".repeat(16)}.part`,
        `${"b".repeat(16)}.part`,
        running.slice(folder.length + 1),
        mine.slice(folder.length + 1),
      ].sort(),
    );
  });
});
