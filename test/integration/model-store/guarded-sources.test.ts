import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readGgufHeader } from "../../../src/model-store/gguf/gguf-header.js";
import { parseSource } from "../../../src/model-store/sources/source.js";
import {
  defaultPullOptions,
  type PullOptions,
  SourceFetcher,
} from "../../../src/model-store/sources/source-fetcher.js";
import { HubServer } from "../../support/hub-server.js";

let folder: string;
let hub: HubServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-guarded-"));
  await mkdir(join(folder, "allowed"));
  await writeFile(join(folder, "allowed", "inside.gguf"), "inside");
  await writeFile(join(folder, "outside.gguf"), "outside");
  await symlink(join(folder, "outside.gguf"), join(folder, "allowed", "link.gguf"));
  hub = await HubServer.start();
  hub.put("owner/repo", "m.gguf", Buffer.from("weights"));
});

afterAll(async () => {
  await hub.close();
  await rm(folder, { recursive: true });
});

let fetches = 0;

/** Fetches for a dashboard session (`isGuarded`) or the command line; resolves to the content or the error message. */
async function fetched(source: string, options: Partial<PullOptions> = {}, isGuarded = true): Promise<string> {
  const fetcher = new SourceFetcher({ ...defaultPullOptions, hubEndpoint: hub.endpoint, ...options });
  const to = join(folder, `fetch-${fetches++}`);
  await mkdir(to);
  try {
    const request = { folder: to, pins: {}, isGuarded, onProgress: () => {}, signal: AbortSignal.timeout(10_000) };
    const found = await fetcher.fetch(parseSource(source), request);
    return found.kind === "gguf" ? await readFile(found.path, "utf8") : "an encoder";
  } catch (error) {
    return (error as Error).message;
  } finally {
    await fetcher.close();
  }
}

const blocked = /is not open to pulls from the dashboard/;
const url = () => `${hub.endpoint}/owner/repo/resolve/main/m.gguf`;

describe("pulls of a dashboard session (SEC-36)", () => {
  it("reach private addresses only if the operator lists them, unlike pulls of the command line (SEC-36, E-16)", async () => {
    expect(await fetched(url())).toMatch(blocked);
    expect(await fetched(url().replace("127.0.0.1", "localhost"))).toMatch(blocked);
    expect(await fetched(url().replace("127.0.0.1", "[::1]"))).toMatch(blocked);
    expect(await fetched("https://169.254.169.254/x", { pullAllow: ["0.0.0.0/0"] })).toMatch(blocked);
    expect(await fetched("https://10.1.2.3/x", { pullAllow: ["127.0.0.0/8"] })).toMatch(blocked);
    expect(await fetched(url(), { pullAllow: ["127.0.0.0/8"] })).toBe("weights");
    expect(await fetched(url(), {}, false)).toBe("weights");
  });

  it("check each redirect, and use the hub that the operator has configured (SEC-36)", async () => {
    hub.play({ redirectTo: "https://10.1.2.3/x" });
    expect(await fetched(url(), { pullAllow: ["127.0.0.0/8"] })).toMatch(blocked);
    expect(await fetched("hf:owner/repo/m.gguf")).toBe("weights");
  });

  it("import only from the listed folders, and do not reveal whether other paths exist (SEC-36, E-16)", async () => {
    const importDirs = [join(folder, "allowed")];
    const file = (name: string): string => `file:${join(folder, name)}`;
    expect(await fetched(file("allowed/inside.gguf"), { importDirs })).toBe("inside");
    expect(await fetched(file("allowed/missing.gguf"), { importDirs })).toContain("cannot be read");
    const refused = await fetched(file("outside.gguf"), { importDirs });
    expect(refused).toContain("only from the folders of model_store.import_dirs");
    // Links in a listed folder show nothing of their targets, whether these exist or not.
    await symlink(folder, join(folder, "allowed", "up"));
    await symlink(join(folder, "no-target"), join(folder, "allowed", "dangling.gguf"));
    await mkdir(join(folder, "allowed", "encoder"));
    await writeFile(join(folder, "allowed", "encoder", "config.json"), "{}");
    await symlink(join(folder, "outside.gguf"), join(folder, "allowed", "encoder", "model.safetensors"));
    for (const name of [
      ...["missing.gguf", "allowed/../outside.gguf", "allowed/link.gguf", "allowed-not", "."],
      ...["allowed/up/outside.gguf", "allowed/up/missing.gguf", "allowed/dangling.gguf", "allowed/dangling.gguf/x"],
      ...["allowed/encoder", "allowed/encoder/model.safetensors"],
    ]) {
      expect(await fetched(file(name), { importDirs }), name).toBe(refused);
    }
    expect(await fetched(file("allowed/inside.gguf"))).toBe(refused);
    expect(await fetched(file("outside.gguf"), {}, false)).toBe("outside");
  });
});

describe("imports", () => {
  it("refuse a named pipe, because reading it might not end (E-16)", async () => {
    const pipe = join(folder, "pipe.gguf");
    execFileSync("mkfifo", [pipe]);
    expect(await fetched(`file:${pipe}`, {}, false)).toContain("is not a regular file");
    await expect(readGgufHeader(pipe)).rejects.toThrow("it is not a regular file");
    const encoder = join(folder, "encoder");
    await mkdir(join(encoder, "1_Pooling"), { recursive: true });
    for (const name of ["config.json", "vocab.txt", "tokenizer.json", "1_Pooling/config.json"]) {
      execFileSync("mkfifo", [join(encoder, name)]);
      await writeFile(join(encoder, "model.safetensors"), "");
      for (const source of [encoder, join(encoder, "model.safetensors")]) {
        expect(await fetched(`file:${source}`, {}, false), source).toContain(`${name} is not a regular file`);
      }
      await rm(join(encoder, name));
    }
  });
});
