import { execFile } from "node:child_process";
import { delimiter, resolve } from "node:path";
import { pythonVenv } from "../python-venv.js";

/** Languages of the playground. */
export type CopiedLanguage = "curl" | "Python" | "TypeScript" | "gRPC (buf curl)";

const buf = resolve("node_modules/.bin");

/** Runs the copied code in the package folder with UIS_API_KEY set, and returns its output. Rejects if it fails. */
export async function runCopied(language: CopiedLanguage, text: string, key: string): Promise<string> {
  const [program, ...args] = await commandFor(language);
  const env = { HOME: process.env["HOME"], PATH: `${buf}${delimiter}${process.env["PATH"]}`, UIS_API_KEY: key };
  return new Promise((finish, fail) => {
    const child = execFile(program, args, { env, timeout: 30_000 }, (error, stdout, stderr) => {
      if (error === null) finish(stdout);
      else fail(new Error(`${language}: ${error.message}\n${stderr}`));
    });
    child.stdin?.end(text);
  });
}

/** A program that runs the code on its standard input. */
async function commandFor(language: CopiedLanguage): Promise<readonly [program: string, ...args: string[]]> {
  switch (language) {
    case "Python":
      return [await pythonVenv("test/conformance/sdk/python/agents.txt"), "-"];
    case "TypeScript":
      return [process.execPath, "--input-type=module", "-"];
    default:
      return ["/bin/sh", "-eu"];
  }
}
