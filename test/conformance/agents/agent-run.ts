import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type EgressTrap, startEgressTrap } from "../../support/egress-trap.js";
import { type RunningService, startService } from "../../support/start-service.js";

/** The scripted task: one command writes the note, a second one reads it, then the model answers that it is done. */
export const task = {
  prompt: "Write a note and read it back.",
  write: "printf 'two steps' > note.txt",
  read: "cat note.txt",
  note: "two steps",
  said: "The note says: two steps.",
} as const;

/** Script of a model that does the task with this tool, which runs commands. */
export function taskScript(tool: string, argumentsOf: (command: string) => object): object {
  const round = (command: string) => [{ name: tool, arguments: argumentsOf(command) }];
  return { text: task.said, tool_rounds: [round(task.write), round(task.read)] };
}

/** An agent's working folder and home, and a service whose models `coder` and `qwen3-0.6b` answer by a script. */
export interface AgentScene {
  readonly service: RunningService;
  readonly trap: EgressTrap;
  /** Empty before the task. */
  readonly folder: string;
  /** The agent's home. */
  readonly home: string;
  /** Runs a shell command in the folder, without a terminal and without the variables of this process. */
  run(line: string, env?: Readonly<Record<string, string>>): Promise<AgentResult>;
  close(): Promise<void>;
}

interface AgentResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const runMs = 120_000;

/** `command` is the agent's command, which runs this program. */
export async function setAgentScene(script: object, command: string, program: readonly string[]): Promise<AgentScene> {
  const root = await mkdtemp(join(tmpdir(), "uis-agent-"));
  const [folder, home, bin] = [join(root, "work"), join(root, "home"), join(root, "bin")];
  await Promise.all([folder, home, bin].map((path) => mkdir(path)));
  const words = program.map((word) => `'${word}'`).join(" ");
  await writeFile(join(bin, command), `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
  // Agents send prompts of more than 20,000 tokens.
  const scripted = { ...script, context_length: 200_000 };
  const models = ["coder", "qwen3-0.6b"].map((id) => ({ id, engine: "scripted", scripted }));
  const service = await startService({ config: { models } });
  const trap = await startEgressTrap();
  return {
    service,
    trap,
    folder,
    home,
    async run(line, env = {}) {
      const path = [bin, process.env["PATH"]].join(":");
      const child = spawn("/bin/sh", ["-eu", "-c", line], {
        cwd: folder,
        env: { PATH: path, HOME: home, TERM: "dumb", ...trap.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
        // A separate process group, so that child processes can be ended together with the agent.
        detached: true,
      });
      const timer = setTimeout(() => process.kill(-Number(child.pid), "SIGKILL"), runMs);
      const [stdout, stderr, [code, signal]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, "close") as Promise<[number | null, string | null]>,
      ]);
      clearTimeout(timer);
      if (code === null) throw new Error(`the agent ended with ${signal}: ${stdout}\n${stderr}`);
      return { code, stdout, stderr };
    },
    async close() {
      await service.close();
      await trap.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}
