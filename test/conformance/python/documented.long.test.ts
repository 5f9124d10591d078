import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

const run = promisify(execFile);
const page = readFileSync("docs/grpc.md", "utf8");

/** The code in the page's code block with this info string. */
function blockOf(information: string): string {
  const [, code = ""] = new RegExp(`^\`\`\`${information}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
  return code;
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("the Python program of docs/grpc.md", () => {
  let python: string;
  let folder: string;
  let service: RunningService;

  beforeAll(async () => {
    python = await pythonVenv("test/conformance/python/requirements.txt");
    folder = await mkdtemp(join(tmpdir(), "uis-grpc-page-"));
    await cp("proto", join(folder, "proto"), { recursive: true });
    service = await startService();
  }, 300_000);
  afterAll(async () => {
    await service.close();
    await rm(folder, { recursive: true });
  });

  it("streams an answer with the code that the documented command generates (GRPC-19)", async () => {
    const path = `${dirname(python)}:${process.env["PATH"]}`;
    const env = { PATH: path, UIS_API_KEY: service.key, UIS_GRPC: service.grpc, UIS_MODEL: "test-chat" };
    await run("sh", ["-c", blockOf("sh python-generate")], { cwd: folder, env });
    await writeFile(join(folder, "client.py"), blockOf("python"));
    const { stdout } = await run("python", ["client.py"], { cwd: folder, env });
    expect(stdout).toBe("Hello from the script.");
  }, 60_000);
});
