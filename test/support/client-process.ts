import { spawn } from "node:child_process";

/**
 * Runs a program of the tests, such as a load generator, in a process of its own, which gets `plan` as JSON in its only
 * argument. Resolves with the JSON that it prints; rejects if it ends with another exit code than 0.
 */
export function runClient<R>(file: string, plan: object): Promise<R> {
  const child = spawn(process.execPath, ["--import", "tsx", file, JSON.stringify(plan)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject).on("close", (code) => {
      if (code === 0) resolve(JSON.parse(text) as R);
      else reject(new Error(`${file} ended with ${code}`));
    });
  });
}
