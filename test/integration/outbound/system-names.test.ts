import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";
import { needsOwnMounts } from "../../support/own-disk.js";
import type { SystemNamesReport } from "./system-names-child.js";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-names-"));
});
afterEach(() => rm(folder, { recursive: true }));

it("one account's dead name servers fail no delivery of another account; hosts file and search domains apply (E-11)", async (context) => {
  needsOwnMounts(context);
  const files = { hosts: join(folder, "hosts"), resolv: join(folder, "resolv.conf") };
  await writeFile(files.hosts, "127.0.0.1 localhost listed.example.test # and a comment\n");
  await writeFile(files.resolv, "nameserver 127.0.0.1\nsearch corp.test\n");
  const child = fileURLToPath(new URL("./system-names-child.ts", import.meta.url));
  const mounts = 'ip link set lo up && mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/resolv.conf && shift';
  const { stdout } = await promisify(execFile)("unshare", [
    ...["--map-root-user", "--mount", "--net", "sh", "-c", `${mounts} && exec "$@"`, files.hosts, files.resolv],
    ...[process.execPath, "--import", "tsx", child],
  ]);
  const report = JSON.parse(stdout) as SystemNamesReport;
  expect(report.attacker.every((error) => error === "dns")).toBe(true);
  expect(report.neighbour).toEqual(Array(5).fill(200));
  expect(report.listedAtStart).toBe(200);
  expect(report.listed).toBe(200);
  expect(report.searched).toBe(200);
});
