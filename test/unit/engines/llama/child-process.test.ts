import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { createChildStarter } from "../../../../src/engines/llama/child-process.js";
import { eventually } from "../../../support/eventually.js";
import { silentLog } from "../../../support/silent-log.js";

const holder = fileURLToPath(new URL("../../../support/llama/hold-child.ts", import.meta.url));
/** The folder of the server process, which this test removes because it kills that process. */
const folder = mkdtempSync(join(tmpdir(), "hold-child-"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Starts a server with one child; returns the child's process id as well. */
async function startServer(): Promise<{ server: ChildProcess; pid: number }> {
  const execArgv = ["--import", import.meta.resolve("tsx")];
  const server = fork(holder, { execArgv, stdio: "inherit", env: { ...process.env, TMPDIR: folder } });
  const [pid] = (await once(server, "message")) as [number];
  return { server, pid };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

// Starts a TypeScript program, which is slow on a machine that is busy with other tests.
describe("a child whose server process ends", { timeout: 60_000 }, () => {
  it.each(["SIGTERM", "SIGKILL"] as const)("exits if the server is ended by %s (REL-4)", async (signal) => {
    const { server, pid } = await startServer();
    expect(isAlive(pid)).toBe(true);
    server.kill(signal);
    await eventually(() => !isAlive(pid), "the end of the child");
  });

  it("is killed by the exiting server if a signal has stopped it (REL-4)", async () => {
    const { server, pid } = await startServer();
    process.kill(pid, "SIGSTOP");
    server.kill("SIGTERM");
    await eventually(() => !isAlive(pid), "the end of the child");
  });
});

describe("createChildStarter", () => {
  it("reports the exit of a program that does not exist", async () => {
    const startChild = createChildStarter({ log: silentLog, environment: {}, childEntry: "/nonexistent/program.mjs" });
    const how = await new Promise<string>((resolve) => {
      startChild({ onMessage: () => {}, onExit: resolve }, 1);
    });
    expect(how).toBe("exited with code 1");
  });

  it("reports an exit that precedes the close of the channel", async () => {
    const startChild = createChildStarter({ log: silentLog, environment: {}, childEntry: "/nonexistent/program.mjs" });
    let exits = 0;
    const child = startChild({ onMessage: () => {}, onExit: () => exits++ }, 1);
    process.kill(child.pid ?? 0, "SIGKILL");
    await eventually(() => !isAlive(child.pid ?? 0), "the end of the child");
    child.disconnect();
    child.send({ type: "ping", ping: 1 });
    await eventually(() => exits === 1, "the report of the exit");
  });
});
