import { spawn } from "node:child_process";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { snippetUnder } from "./snippets.js";

const here = "test/conformance/webhooks";

/** Writes the documented snippet and the program that runs it to a folder in `folder`. Resolves with that folder. */
export async function snippetProject(
  folder: string,
  language: string,
  heading: string,
  snippetPath: string,
): Promise<string> {
  const home = join(folder, language);
  await cp(join(here, language), home, { recursive: true });
  await mkdir(dirname(join(home, snippetPath)), { recursive: true });
  await writeFile(join(home, snippetPath), snippetUnder(heading));
  return home;
}

/** Runs a program. Rejects with its stderr when it fails. */
export async function run(cwd: string, [program = "", ...args]: readonly string[], input = ""): Promise<string> {
  const child = spawn(program, args, { cwd });
  child.stdin.end(input);
  const ended = new Promise<number | null>((done, fail) => child.once("close", done).once("error", fail));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${stderr}`);
  return stdout;
}
