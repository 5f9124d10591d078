import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

describe("the packed tarball", () => {
  let folder: string;
  let packed: Packed;
  let tarball: Buffer;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-pack-"));
    const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: root });
    [packed] = JSON.parse(stdout) as [Packed];
    tarball = await readFile(join(folder, packed.filename));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("has entries that every resolver understands", async () => {
    const bytes = new Uint8Array(tarball).buffer;
    const { messages, pkg } = await publint({ pack: { tarball: bytes }, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  it("brings the schema of gRPC and the documents", () => {
    const paths = packed.files.map(({ path }) => path);
    const wanted = ["proto/unified/inference/v1/inference_service.proto", "docs/openapi.json", "docs/grpc.md"];
    expect(wanted.filter((path) => !paths.includes(path))).toEqual([]);
    expect(paths.filter((path) => /^(src|test|scripts|data)\//.test(path))).toEqual([]);
  });
});
