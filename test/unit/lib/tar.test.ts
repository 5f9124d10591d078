import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TarError, unpackTarball } from "../../../src/lib/tar.js";
import { type TarMember, tar, tarball } from "../../support/tarball.js";

let folder: string;
let target: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-tar-"));
  target = join(folder, "target");
  await mkdir(target);
});
afterEach(() => rm(folder, { recursive: true }));

const bounds = { membersMax: 10, bytesMax: 100_000, signal: new AbortController().signal };

async function unpack(archive: Buffer, given: Partial<typeof bounds> = {}): Promise<void> {
  const file = join(folder, "archive.tgz");
  await writeFile(file, archive);
  await unpackTarball(file, target, { ...bounds, ...given });
}

describe("unpackTarball", () => {
  it("writes files of all sizes below the folder, without the first folder of their names", async () => {
    const sizes = [0, 1, 511, 512, 513, 70_000];
    const members = sizes.map((size): TarMember => ({ name: `package/a/${size}`, content: "x".repeat(size) }));
    await unpack(tarball([{ name: "package/", type: "5" }, ...members]));
    for (const size of sizes) expect(await readFile(join(target, "a", `${size}`), "utf8")).toBe("x".repeat(size));
    expect((await stat(join(target, "a/1"))).mode & 0o777).toBe(0o644);
  });

  it("reads long names from the attributes before a member", async () => {
    const long = `package/${"deep/".repeat(30)}file`;
    const attributes = ` path=${long}\n`;
    const content = `${attributes.length + 3}${attributes}`;
    await unpack(
      tarball([
        { name: "package/PaxHeader", type: "x", content },
        { name: "package/cut", content: "here" },
      ]),
    );
    expect(await readFile(join(target, ...long.split("/").slice(1)), "utf8")).toBe("here");
    expect(await readdir(target)).toEqual(["deep"]);
  });

  it.each<[string, readonly TarMember[], string]>([
    ["a symbolic link", [{ name: "package/link", type: "2" }], "is not a plain file"],
    ["a hard link", [{ name: "package/link", type: "1" }], "is not a plain file"],
    ["a device", [{ name: "package/null", type: "3" }], "is not a plain file"],
    ["a name outside the folder", [{ name: "package/../../out", content: "x" }], "is not allowed"],
    [
      "an absolute name",
      [
        { name: "/etc/passwd", content: "x" },
        { name: "//x/y", content: "x" },
      ],
      "is not allowed",
    ],
    ["a name with a backslash", [{ name: "package/..\\out", content: "x" }], "is not allowed"],
    ["a name with a drive", [{ name: "package/C:/out", content: "x" }], "is not allowed"],
    [
      "a name twice",
      [
        { name: "package/a", content: "x" },
        { name: "package/a", content: "y" },
      ],
      "EEXIST",
    ],
    ["too many members", Array.from({ length: 11 }, (_, i) => ({ name: `package/${i}`, content: "x" })), "10 members"],
    ["too many bytes", [{ name: "package/a", content: "x".repeat(100_001) }], "100000 bytes"],
  ])("rejects %s", async (_, members, says) => {
    await expect(unpack(tarball(members))).rejects.toThrow(says);
    expect(existsSync(join(folder, "out"))).toBe(false);
  });

  it("rejects an archive that is truncated, damaged or not compressed", async () => {
    const whole = tar([{ name: "package/a", content: "x".repeat(5_000) }]);
    const damaged = Buffer.from(whole);
    damaged[0] = 0x7a;
    for (const archive of [gzipSync(whole.subarray(0, 2_000)), gzipSync(damaged), tarball([]).subarray(0, 12), whole]) {
      await expect(unpack(archive)).rejects.toThrow(TarError);
      await rm(target, { recursive: true });
      await mkdir(target);
    }
  });

  it("rejects with the reason of the signal at an abort", async () => {
    const signal = AbortSignal.abort(new Error("stopped by the user"));
    await expect(unpack(tarball([{ name: "package/a", content: "x" }]), { signal })).rejects.toThrow(
      "stopped by the user",
    );
  });
});
