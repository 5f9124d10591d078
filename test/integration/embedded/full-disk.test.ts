import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { needsInstalled } from "../../support/missing-program.js";
import { StateChild } from "./child-process.js";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-full-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

describe("embedded state on a full disk", () => {
  it("a store whose file cannot grow rejects writes with storage_unavailable, still reads, and recovers without a restart", async () => {
    needsInstalled("prlimit");
    const child = new StateChild(dataDir);
    const ask = async (kind: "insert" | "find" | "admit" | "settle" | "used", number: number) => {
      child.said.length = 0;
      child.tell({ kind, number });
      const heard = await child.hear((message) => message.kind === "answer" && message.number === number);
      return heard.kind === "answer" ? heard.said : heard.kind;
    };
    try {
      expect(await child.hear(() => true)).toEqual({ kind: "opened" });
      expect(await ask("insert", 1)).toBe("done");
      limitFileSize(child, "1:");
      expect(await ask("insert", 2)).toBe("storage_unavailable");
      expect(await ask("find", 1)).toBe("done");
      expect(await ask("admit", 1)).toBe("done");
      expect(await ask("settle", 1)).toBe("storage_unavailable");
      expect(await ask("used", 0)).toBe("done");
      limitFileSize(child, "unlimited:");
      expect(await ask("insert", 2)).toBe("done");
      expect(await ask("find", 2)).toBe("done");
      expect(await ask("settle", 1)).toBe("done");
      expect(await ask("used", 1)).toBe("done");
    } finally {
      await child.kill();
    }
  });
});

/** Sets the soft limit only, so that it can be raised again. */
function limitFileSize(child: StateChild, limit: string): void {
  execFileSync("prlimit", ["--pid", String(child.process.pid), `--fsize=${limit}`]);
}
