import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { parse, stringify } from "yaml";

const run = promisify(execFile);

it("the template of docs/grpc.md generates the service's packages, and takes google.rpc from the public packages", async () => {
  const [, block = ""] = /^```yaml\n([\s\S]*?)^```$/m.exec(readFileSync("docs/grpc.md", "utf8")) ?? [];
  const folder = await mkdtemp(join(tmpdir(), "uis-buf-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await cp("proto", join(folder, "proto"), { recursive: true });
  const plugins = [{ local: resolve("node_modules/.bin/protoc-gen-es"), out: "out" }];
  await writeFile(join(folder, "buf.gen.yaml"), stringify({ ...parse(block), plugins }));
  await run(resolve("node_modules/.bin/buf"), ["generate"], { cwd: folder });
  const names = await readdir(join(folder, "out"), { recursive: true });
  expect(names).toContain("unified/inference/v1/chat_pb.js");
  expect(names.filter((name) => name.startsWith("google"))).toEqual([]);
});
