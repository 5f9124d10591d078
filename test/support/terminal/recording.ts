import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { TerminalRun } from "./terminal-run.js";

/** The most lines that a first screen may have. */
const linesMax = 25;

/**
 * Compares the visible screen with the recording of that name; times, ports, secrets and folders are replaced by words. The
 * line of the embedding model is left out, because it may come before or after that of the chat model.
 */
export async function expectRecording({ screen }: TerminalRun, name: string, folder: string): Promise<void> {
  expect(screen.rows).toBeLessThanOrEqual(linesMax);
  const lines = screen.lines.filter((line) => !line.startsWith("Embedding model ready: "));
  const text = `${lines.map((line) => normalized(line, folder)).join("\n")}\n`;
  // No log line in JSON and no stack trace.
  expect(text).not.toMatch(/^\{|"level"|^ +at /m);
  const file = fileURLToPath(new URL(`../../integration/cli/recordings/${name}.txt`, import.meta.url));
  await expect(text).toMatchFileSnapshot(file);
}

function normalized(line: string, folder: string): string {
  return line
    .replaceAll(folder, "FOLDER")
    .replaceAll(/^\d\d:\d\d:\d\d/g, "HH:MM:SS")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replaceAll(/sk-uis-\w+/g, "KEY")
    .replaceAll(/token=\w+/g, "token=TOKEN");
}

/** The percentages that a model's progress bar showed, each once, in the order in which they appeared. */
export function percentsOf({ raw }: TerminalRun, model: string): readonly number[] {
  const drawn = [...raw.matchAll(new RegExp(`${model} \\[[#-]*\\] +(\\d+) %`, "g"))];
  return [...new Set(drawn.map(([, percent]) => Number(percent)))];
}
