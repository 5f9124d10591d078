import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { run, snippetProject } from "./snippet-project.js";
import { expectedLines, vectorLines } from "./vectors.js";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-snippets-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe("the documented snippet accepts every valid vector and rejects every tampered one (WH-15, WH-16, WH-17)", () => {
  it("in TypeScript", async () => {
    const home = await snippetProject(folder, "typescript", "TypeScript", "webhook.mts");
    const tsx = resolve("node_modules/tsx/dist/loader.mjs");
    expect(await run(home, [process.execPath, "--import", tsx, "check.mts"], vectorLines)).toBe(expectedLines);
  });
});
