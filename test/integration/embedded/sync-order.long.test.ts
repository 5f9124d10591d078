import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { needsInstalled } from "../../support/missing-program.js";
import { StateChild } from "./child-process.js";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-sync-"));
});
afterEach(() => rm(root, { recursive: true }));

const count = 20;

describe("settlements of the embedded state", () => {
  it("are synced to the disk before they are acknowledged (USE-1)", { timeout: 120_000 }, async (context) => {
    if (process.platform !== "linux") context.skip("strace is a program for Linux");
    needsInstalled("strace");
    const trace = join(root, "trace");
    // Runs strace as a detached process (-D), so that killing the child kills the traced process.
    const under = ["strace", "-D", "-f", "--seccomp-bpf", "-y", "--trace=fsync,fdatasync,write", "-o", trace];
    const child = new StateChild(join(root, "data"), { under });
    try {
      expect(await child.hear(() => true)).toEqual({ kind: "opened" });
      child.tell({ kind: "tell", count });
      await child.hear(({ kind }) => kind === "told");
    } finally {
      await child.kill();
    }
    const traced = async () => eventsOf(await readFile(trace, "utf8"));
    await eventually(async () => (await traced()).includes(`settled ${count}`), "the end of the trace");
    const happened = await traced();
    for (let number = 1; number <= count; number++) {
      const asked = happened.indexOf(`asked ${number}`);
      const settled = happened.indexOf(`settled ${number}`);
      expect([number, asked >= 0, happened.slice(asked, settled)]).toEqual([
        number,
        true,
        expect.arrayContaining(["synced"]),
      ]);
    }
  });
});

/** `asked N`, `settled N` and `synced` (the log of the database), in the order in which they happened. */
function eventsOf(trace: string): string[] {
  const syncing = new Set<string>();
  return trace.split("\n").flatMap((line) => {
    const [, thread = "", call = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const [, said] = /^write\(1<[^>]*>, "(\w+ \d+)\\n"/.exec(call) ?? [];
    if (said !== undefined) return said;
    if (/^(fsync|fdatasync)\(\d+<[^>]*uis\.db-wal>/.test(call)) {
      if (/\) += 0$/.test(call)) return "synced";
      syncing.add(thread);
    }
    const isResumed = /^<\.\.\. (fsync|fdatasync) resumed>\) += 0$/.test(call);
    return isResumed && syncing.delete(thread) ? "synced" : [];
  });
}
