import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";

/** Runs code with a `sink` in a separate process; returns its stderr after it has ended. */
async function stderrOf(code: string): Promise<string> {
  const sinkModule = new URL("../../../src/telemetry/logger.ts", import.meta.url).href;
  const program = `import { openStderrSink } from ${JSON.stringify(sinkModule)}; const sink = openStderrSink(); ${code}`;
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", program], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let written = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    written += text;
  });
  await once(child, "close");
  return written;
}

const numbered = (count: number): string => Array.from({ length: count }, (_, i) => `line ${i}\n`).join("");

describe("the sink of stderr", () => {
  it("writes all lines in order if the process ends after the last flush", async () => {
    const written = await stderrOf(`
      let next = 0;
      const writeTo = (end) => { while (next < end) sink.write("line " + next++ + "\\n"); };
      writeTo(30_000);
      setTimeout(() => { writeTo(31_000); sink.flush(); process.exit(0); }, 500);`);
    expect(written).toBe(numbered(31_000));
  });

  it("writes a few lines within the batch time, without a flush", async () => {
    const written = await stderrOf(`
      for (let i = 0; i < 3; i++) sink.write("line " + i + "\\n");
      setTimeout(() => process.kill(process.pid, "SIGKILL"), 1_000);`);
    expect(written).toBe(numbered(3));
  });

  it("writes lines that come after the last flush", async () => {
    const written = await stderrOf(`sink.write("line 0\\n"); sink.flush(); sink.write("line 1\\n");`);
    expect(written).toBe(numbered(2));
  });
});
