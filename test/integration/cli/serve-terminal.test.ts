import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { HubServer } from "../../support/hub-server.js";
import { uisProgram } from "../../support/program.js";
import { spawnServe } from "../../support/service-process.js";
import { expectRecording, percentsOf } from "../../support/terminal/recording.js";
import { ctrlC, TerminalRun } from "../../support/terminal/terminal-run.js";

let cwd: string;
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-terminal-"));
});
afterEach(() => rm(cwd, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }));

// `script` of util-linux gives the service a terminal; other systems have another program of that name.
describe.runIf(process.platform === "linux")("closing the terminal", () => {
  /**
   * Starts the service on a terminal, and closes the terminal when the service is ready. `runner`: a program that runs it;
   * `onHangup`: the command that its shell runs then.
   */
  async function closeTerminal(runner: string, onHangup: string) {
    await writeFile(join(cwd, "uis.yaml"), "models: [{ id: test-chat, engine: scripted }]\n");
    const command = `${runner} ${process.execPath} ${uisProgram.join(" ")} serve`;
    // Each signal of the hangup interrupts a `wait`, which then returns more than 128 while the service still runs.
    const wait = "wait $(cat pid); code=$?";
    const untilEnded = `${wait}; while [ $code -gt 128 ] && kill -0 $(cat pid); do ${wait}; done; echo $code > code`;
    const shell = `${command} & echo $! > pid; trap '${onHangup}' HUP; ${untilEnded}`;
    const [program = "", ...args] = ["script", "-qfec", shell, "/dev/null"];
    const running = spawnServe({ cwd, command: [program], args, env: { UIS_STATE_DURABILITY: "every-write" } });
    await expect.poll(() => running.stdout(), { timeout: 30_000 }).toContain("Ctrl-C");
    running.child.kill("SIGKILL");
    await running.exited;
    const pid = Number(await readFile(join(cwd, "pid"), "utf8"));
    onTestFinished(() => void kill(pid, "SIGKILL"));
    return { pid, code: () => readFile(join(cwd, "code"), "utf8").catch(() => null) };
  }

  /** Returns false if the process does not exist. */
  function kill(pid: number, signal: NodeJS.Signals): boolean {
    try {
      return process.kill(pid, signal);
    } catch {
      return false;
    }
  }

  it("stops the service, which drains and exits 0", async () => {
    const { code } = await closeTerminal("", "kill -HUP $(cat pid)");
    await expect.poll(code, { timeout: 30_000 }).toBe("0\n");
  });

  it("SIGTERM ends a service whose terminal was closed without a signal", async () => {
    const { pid, code } = await closeTerminal("setsid -w", ":");
    // setsid waits for the service, which is its only child.
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
    const service = Number(children.trim() || pid);
    onTestFinished(() => void kill(service, "SIGKILL"));
    expect(await code()).toBeNull();
    kill(service, "SIGTERM");
    await expect.poll(code, { timeout: 30_000 }).toBe("0\n");
  });
});

// Python's module `pty` is for Linux and macOS.
describe.runIf(process.platform !== "win32")("a first start on a terminal", () => {
  it("shows the progress of the download and a first request, and after Ctrl-C how to end it immediately", async () => {
    const hub = await HubServer.start();
    onTestFinished(() => hub.close());
    const file = join(cwd, "model.gguf");
    await writeScriptedGguf(file, { text: "12" });
    const weights = await readFile(file);
    hub.put("owner/repo", "model.gguf", weights);
    hub.play({ bytesPerSecond: 2 * weights.length });
    const model = "{ id: tiny-chat, engine: llama, source: 'hf:owner/repo/model.gguf@main', capabilities: [chat] }";
    await writeFile(join(cwd, "uis.yaml"), `models: [${model}]\nengine: { threads: 1 }\n`);
    const env = { HF_ENDPOINT: hub.endpoint };
    const run = new TerminalRun([process.execPath, ...uisProgram, "serve"], { cwd, env });
    onTestFinished(() => run.close());
    await expect.poll(() => run.raw, { timeout: 60_000 }).toContain("Chat model ready");
    run.type(ctrlC);
    expect(await run.exited).toBe(0);
    const percents = percentsOf(run, "tiny-chat");
    expect(percents.length).toBeGreaterThan(2);
    expect(percents).toEqual([...percents].sort((a, b) => a - b));
    await expectRecording(run, "first-start-with-hub", cwd);
  });
});
