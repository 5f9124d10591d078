import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";

const run = promisify(execFile);
const runtime = "/usr/share/java/protobuf.jar";
const isThere = (command: string): boolean => spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;

const canCompile = isThere("javac") && isThere("protoc") && existsSync(runtime);

async function filesIn(folder: string, extension: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  return names.filter((name) => name.endsWith(extension)).map((name) => join(folder, name));
}

// Needs javac, protoc and Java's protobuf runtime.
describe.skipIf(!canCompile)("Java code from the protobuf files", () => {
  it("compiles for every message", { timeout: 300_000 }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "uis-java-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const protos = await filesIn("proto/unified", ".proto");
    await run("protoc", ["-Iproto", `--java_out=${folder}`, ...protos]);
    await run("javac", ["-nowarn", "-proc:none", "-cp", runtime, "-d", folder, ...(await filesIn(folder, ".java"))]);
    expect((await filesIn(folder, ".class")).length).toBeGreaterThan(protos.length);
  });
});
